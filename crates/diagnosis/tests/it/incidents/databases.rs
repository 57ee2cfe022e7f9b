//! Databases: syncs, checkpoints, read-ahead.

use super::Incident;
use super::load::*;
use iowhy_model::script::Script;
use iowhy_model::{KnownBy, Operation, Origin};

pub const ALL: &[Incident] = &[
    Incident {
        name: "etcd: WAL syncs of a second",
        source: "https://github.com/etcd-io/etcd/issues/12405",
        root_cause: "The disk of one of three nodes takes a second to make etcd's WAL durable.",
        script: etcd,
        expected: &["slow-sync", "flush-cost", "device-slow-tail"],
        only_bottleneck: false,
        must_not: &["log-flood", "lock-behind-io"],
    },
    Incident {
        name: "PostgreSQL: sync phase of a checkpoint",
        source: "https://dba.stackexchange.com/questions/61822/what-happens-in-postgresql-\
                 checkpoint",
        root_cause: "Checkpoints sync 885 files in 17 s; queries wait behind what they write.",
        script: checkpoint,
        expected: &["checkpoint-burst", "writeback-burst"],
        only_bottleneck: false,
        must_not: &["synchronous_commit = off", "log-flood"],
    },
    Incident {
        name: "Redis: rewriting the AOF on EBS",
        source: "https://github.com/redis/redis/issues/368",
        root_cause: "The rewrite fills a slow EBS volume, and the AOF's own sync waits behind it.",
        script: redis,
        expected: &["checkpoint-burst", "writeback-burst", "noisy-neighbour"],
        only_bottleneck: false,
        must_not: &["appendfsync no", "log-flood"],
    },
    Incident {
        name: "Kafka: fsync under a partition's lock",
        source: "https://github.com/apache/kafka/pull/14242",
        root_cause: "A segment's roll syncs a snapshot while it holds the lock that all producers \
                     need.",
        script: kafka,
        expected: &["lock-behind-io"],
        only_bottleneck: false,
        must_not: &["log-flood"],
    },
    Incident {
        name: "MongoDB: read-ahead of 50 KiB for documents of 512 bytes",
        source: "https://www.kchodorow.com/blog/2012/05/10/thursday-5-diagnosing-high-readahead/",
        root_cause: "Each random page fault reads 100 sectors of which one is wanted, so memory \
                     fills with what nobody needs.",
        script: mongo,
        expected: &["readahead-waste"],
        only_bottleneck: false,
        must_not: &["bulk-scan"],
    },
    Incident {
        name: "Cassandra: read-around of mapped files",
        source: "https://issues.apache.org/jira/browse/CASSANDRA-17237",
        root_cause: "A mapped index of which 4 KiB are wanted reads the whole read-ahead window \
                     around each fault.",
        script: cassandra,
        expected: &["readahead-waste"],
        only_bottleneck: false,
        must_not: &["bulk-scan"],
    },
    Incident {
        name: "SQLite: a sync for each insert",
        source: "https://github.com/dkolmakov/hm/issues/45",
        root_cause: "Each insert is a transaction of its own and waits 70 ms for the journal.",
        script: sqlite,
        expected: &["fsync-heavy", "slow-sync", "flush-cost"],
        only_bottleneck: false,
        must_not: &["log-flood", "serial-reads"],
    },
];

/// "wal: sync duration of 1.018100466s, expected less than 1s"; requests that took 388 ms, 617 ms
/// and 2.29 s. The shares of write and flush in a sync are not published: half each, chosen.
fn etcd() -> Script {
    let mut script = Script::new(10);
    script.device("sda", &[]);
    script.mount("/var/lib", "ext4", "/dev/sda");
    SyncThread {
        who: (2214, "etcd"),
        tid: 2220,
        file: "/var/lib/etcd/member/wal/0000000000000003-00000000000cb3e4.wal",
        bytes: 8 * KIB,
        write_ns: 450 * MS,
        flush_ns: 400 * MS,
        pause: 50 * MS,
        ..SyncThread::default()
    }
    .run(&mut script);
    script
}

/// "wrote 16774 buffers; sync=17.164 s; sync files=885, longest=3.812 s, average=0.019 s". The ten
/// seconds lie in the sync phase. Eight backends commit and read (chosen: "a very large number of
/// normally short queries stuck").
fn checkpoint() -> Script {
    let mut script = Script::new(10);
    script.device("sda", &[("queue/rotational", "1")]);
    script.mount("/var/lib/pgsql", "ext4", "/dev/sda");
    // The pages of the checkpoint, in flight at once: 16,774 of 8 KiB in 17 s.
    RequestFlow {
        who: (18682, "postgres"),
        bytes: 8 * KIB,
        per_s: 980,
        ns: 60 * MS,
        file: "/var/lib/pgsql/base/16384/24601",
        ..RequestFlow::default()
    }
    .run(&mut script);
    let mut at = 0;
    for file in 0.. {
        let ns = if file == 200 { 3812 * MS } else { about(12 * MS, 0.8, file) };
        if at + ns > 10 * S {
            break;
        }
        script
            .sleep((18682, "postgres"), at, ns)
            .call(call::FSYNC)
            .file(&format!("/var/lib/pgsql/base/16384/{}", 24_600 + file))
            .device("sda")
            .stack(stack::SYNC_DATA)
            .add();
        at += ns + 100 * US;
    }
    for backend in 0..8 {
        let who = (18_700 + backend, "postgres");
        SyncThread {
            who,
            file: "/var/lib/pgsql/pg_xlog/0000000100000A1200000042",
            bytes: 8 * KIB,
            write_ns: 300 * MS,
            pause: 200 * MS,
            to: 5 * S,
            ..SyncThread::default()
        }
        .run(&mut script);
        Serial {
            who,
            bytes: 8 * KIB,
            ns: 60 * MS,
            pause: 20 * MS,
            file: "/var/lib/pgsql/base/16384/24777",
            from: 5 * S,
            ..Serial::default()
        }
        .run(&mut script);
    }
    script
}

/// The rewrite lasts from 05:50:23 to 05:51:45; the log says at 05:50:27 and 05:50:43 that the sync
/// takes too long, which Redis says after 2 s; the server comes to "an almost complete halt". The
/// volume's throughput is not published: 30 MB/s, chosen.
fn redis() -> Script {
    let mut script = of_machine(true);
    script.device("xvdf", &[]);
    script.mount("/data", "ext4", "/dev/xvdf");
    RequestFlow {
        who: (19350, "redis-server"),
        device: "xvdf",
        bytes: 128 * KIB,
        per_s: 230,
        ns: 300 * MS,
        file: "/data/temp-rewriteaof-19350.aof",
        in_order: true,
        ..RequestFlow::default()
    }
    .run(&mut script);
    for at in [200 * MS, 5 * S] {
        let id = script
            .write("xvdf", 64 * KIB)
            .at(at as i64)
            .origin(Origin::Writeback)
            .by(2314, "redis-server")
            .direct(0, 0, 4 * S)
            .file("/data/appendonly.aof")
            .add();
        script
            .sleep((2314, "redis-server"), at, 4 * S)
            .thread(2316)
            .call(call::FDATASYNC)
            .file("/data/appendonly.aof")
            .stack(stack::SYNC_DATA)
            .requests(&[id])
            .add();
        // The main thread writes while the sync is running, and waits for the same inode.
        script
            .sleep((2314, "redis-server"), at + 2 * S, 2 * S)
            .call(call::WRITE)
            .file("/data/appendonly.aof")
            .device("xvdf")
            .stack(&[
                "schedule",
                "rwsem_down_write_slowpath",
                "down_write",
                "ext4_buffered_write_iter",
                "vfs_write",
            ])
            .add();
    }
    script
}

/// "tens of seconds of glitch", "all request-handlers busy": eight of them (num.io.threads'
/// default).
fn kafka() -> Script {
    let mut script = Script::new(10);
    script.device("sdb", &[("queue/rotational", "1")]);
    script.mount("/kafka", "xfs", "/dev/sdb");
    let file = "/kafka/orders-3/00000000000012345678.snapshot";
    let id = script
        .write("sdb", 4 * KIB)
        .at(500_000_000)
        .origin(Origin::Writeback)
        .by(4100, "java")
        .direct(0, 0, 9 * S)
        .file(file)
        .add();
    script
        .sleep((4100, "java"), 500 * MS, 9 * S)
        .thread(4181)
        .call(call::FSYNC)
        .file(file)
        .stack(&[
            "io_schedule",
            "folio_wait_bit_common",
            "folio_wait_writeback",
            "__filemap_fdatawait_range",
            "file_write_and_wait_range",
            "xfs_file_fsync",
            "do_fsync",
        ])
        .user_stack(&[
            "fsync",
            "sun.nio.ch.FileChannelImpl.force",
            "ProducerStateManager.writeSnapshot",
            "UnifiedLog.roll",
        ])
        .requests(&[id])
        .add();
    script.behind(
        4182,
        7,
        "data-plane-kafk",
        &[
            "pthread_cond_wait",
            "ObjectMonitor::EnterI",
            "ObjectMonitor::enter",
            "UnifiedLog.append",
        ],
        KnownBy::Woken,
    );
    script
}

/// `blockdev --setra 100`: windows of 50 KiB on a disk (2012), documents of 512 bytes, read at
/// random from a data set of four times the memory. Four clients, chosen.
fn mongo() -> Script {
    let mut script = Script::new(10);
    script.device("sda", &[("queue/rotational", "1"), ("queue/read_ahead_kb", "50")]);
    script.mount("/data", "ext4", "/dev/sda");
    for client in 0..4 {
        Serial {
            who: (900, "mongod"),
            tid: 910 + client,
            origin: Origin::Readahead,
            bytes: 48 * KIB,
            ns: 30 * MS,
            stack: stack::FAULT,
            call: u32::MAX,
            file: "/data/db/foo.3",
            ..Serial::default()
        }
        .run(&mut script);
    }
    faults_without_call(&mut script);
    script
}

/// The reads wanted are 4 to 8 KiB of an index and 32 KiB of data; the window is the kernel's
/// default of 128 KiB (the published text does not give that of the virtual machines).
fn cassandra() -> Script {
    let mut script = of_machine(true);
    script.device("sdb", &[("queue/read_ahead_kb", "128")]);
    script.mount("/var/lib/cassandra", "xfs", "/dev/sdb");
    for reader in 0..8 {
        Serial {
            who: (3300, "java"),
            tid: 3340 + reader,
            device: "sdb",
            origin: Origin::Readahead,
            bytes: 128 * KIB,
            ns: 6 * MS,
            pause: 2 * MS,
            stack: stack::FAULT,
            call: u32::MAX,
            file: "/var/lib/cassandra/data/ks/events/nb-12-big-Index.db",
            ..Serial::default()
        }
        .run(&mut script);
    }
    faults_without_call(&mut script);
    script
}

/// Takes the system call from faults: a thread that touches a page is in no call, and the requests
/// for the page carry the fault as their origin.
fn faults_without_call(script: &mut Script) {
    let waits = script.batch.waits.iter_mut();
    waits.filter(|wait| wait.syscall == Some(u32::MAX)).for_each(|wait| wait.syscall = None);
    let requests = script.batch.requests.iter_mut();
    for request in requests.filter(|request| request.syscall == Some(u32::MAX)) {
        (request.syscall, request.origin) = (None, Origin::PageFault);
    }
}

/// "each write can take ~70ms", in fsync, for the journal of the file system.
fn sqlite() -> Script {
    let mut script = Script::new(10);
    script.device("sda", &[("queue/rotational", "1")]);
    script.mount("/home", "ext4", "/dev/sda");
    for at in (0..).map(|index| index * 72 * MS).take_while(|at| *at + 80 * MS < 10 * S) {
        let seed = at;
        let data = about(12 * MS, 0.3, seed);
        let journal = about(20 * MS, 0.3, seed + 1);
        let flush = about(35 * MS, 0.3, seed + 2);
        let file = "/home/u/.hm-db.sqlite";
        let own = script
            .write("sda", 8 * KIB)
            .sector(somewhere(1) + at / MS * 8)
            .at(at as i64)
            .origin(Origin::Writeback)
            .by(5100, "hm-db")
            .direct(0, 0, data)
            .file(file)
            .add();
        script
            .write("sda", 16 * KIB)
            .sector(somewhere(2) + at / MS * 8)
            .at((at + data) as i64)
            .origin(Origin::Journal)
            .by(210, "jbd2/sda1-8")
            .direct(0, 0, journal)
            .add();
        script
            .request("sda", Operation::Flush)
            .at((at + data + journal) as i64)
            .by(210, "jbd2/sda1-8")
            .direct(0, 0, flush)
            .add();
        script
            .sleep((5100, "hm-db"), at, data + journal + flush)
            .call(call::FDATASYNC)
            .file(file)
            .stack(stack::SYNC_EXT4)
            .requests(&[own])
            .add();
    }
    script
}
