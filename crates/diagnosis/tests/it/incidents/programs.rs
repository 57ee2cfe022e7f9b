//! Other programs: Java's logs, package managers, io_uring.

use super::Incident;
use super::load::*;
use iowhy_model::script::Script;
use iowhy_model::{KnownBy, Operation, Origin};

pub const ALL: &[Incident] = &[
    Incident {
        name: "JVM: a GC log behind writeback",
        source: "https://engineering.linkedin.com/blog/2016/02/eliminating-large-jvm-gc-pauses-\
                 caused-by-background-io-traffic",
        root_cause: "The JVM writes its GC log while all threads are stopped, and that write waits \
                     behind writeback for more than 4 s.",
        script: gc_log,
        expected: &["gc-log-stall"],
        only_bottleneck: false,
        must_not: &["log-flood", "fsync-heavy"],
    },
    Incident {
        name: "dpkg: a sync for each file",
        source: "https://unix.stackexchange.com/questions/522163/could-aio-fsync-improve-dpkg-\
                 performance",
        root_cause: "dpkg makes each of 3,442 files durable before it renames it: 42 s instead of \
                     13 s.",
        script: dpkg,
        expected: &["fsync-heavy"],
        only_bottleneck: false,
        must_not: &["tune2fs", "temp-file-churn", "log-flood"],
    },
    Incident {
        name: "io_uring: buffered writes of 32 workers",
        source: "http://mail.spinics.net/lists/linux-block/msg44767.html",
        root_cause: "io_uring hands buffered writes to workers that all need the lock of one \
                     inode.",
        script: uring,
        expected: &["io-uring-punt", "inode-lock"],
        only_bottleneck: false,
        must_not: &["hung-io"],
    },
];

/// Pauses of more than 4 s; background writeback. The thread that writes is the JVM's own, all
/// others wait for its safepoint.
fn gc_log() -> Script {
    let mut script = Script::new(10);
    script.device("sda", &[("queue/rotational", "1")]);
    script.mount("/", "ext4", "/dev/sda2");
    RequestFlow {
        who: (2200, "cp"),
        bytes: 512 * KIB,
        per_s: 180,
        ns: 500 * MS,
        file: "/export/backup.tar",
        in_order: true,
        ..RequestFlow::default()
    }
    .run(&mut script);
    script
        .sleep((8100, "java"), 3 * S, 4170 * MS)
        .thread(8103)
        .call(call::WRITE)
        .file("/export/app/logs/gc.log")
        .device("sda")
        .stack(&[
            "io_schedule",
            "folio_wait_bit_common",
            "folio_wait_writeback",
            "folio_wait_stable",
            "ext4_da_write_begin",
            "generic_perform_write",
            "ext4_buffered_write_iter",
            "vfs_write",
        ])
        .user_stack(&["write", "fileStream::write", "G1CollectedHeap::do_collection_pause"])
        .add();
    script.behind(
        8120,
        40,
        "http-worker",
        &[
            "SafepointSynchronize::block",
            "JavaThread::check_safepoint_and_suspend_for_native_trans",
        ],
        KnownBy::Woken,
    );
    script
}

/// perf trace on btrfs, a rotating disk: 3,442 fsyncs, 4.3 ms on average, 150 ms at most; 8,463
/// renames, 1.7 ms; 41.7 s in all.
fn dpkg() -> Script {
    let mut script = Script::new(10);
    script.device("sda", &[("queue/rotational", "1")]);
    script.mount("/", "btrfs", "/dev/sda3");
    let mut at = 0_u64;
    for index in 0..825_u64 {
        let file = format!("/lib/modules/4.9.0-9-amd64/kernel/{index}.ko.dpkg-new");
        let ns = if index == 400 { 150 * MS } else { about(4_140 * US, 0.9, index) };
        let written = script
            .write("sda", 16 * KIB)
            .sector(somewhere(3) + index * 32)
            .at(at as i64)
            .origin(Origin::Journal)
            .by(31632, "dpkg")
            .call(call::FSYNC)
            .direct(0, 0, ns / 2)
            .add();
        let flushed = script
            .request("sda", Operation::Flush)
            .at((at + ns / 2) as i64)
            .by(31632, "dpkg")
            .call(call::FSYNC)
            .direct(0, 0, ns - ns / 2)
            .add();
        script
            .sleep((31632, "dpkg"), at, ns)
            .call(call::FSYNC)
            .file(&file)
            .stack(&[
                "schedule",
                "wait_log_commit",
                "btrfs_sync_log",
                "btrfs_sync_file",
                "do_fsync",
            ])
            .requests(&[written, flushed])
            .add();
        at += ns + 3 * MS;
        let ns = about(3_500 * US, 0.9, index + 9);
        script
            .sleep((31632, "dpkg"), at, ns)
            .call(call::RENAME)
            .file(&file)
            .device("sda")
            .stack(&["schedule", "wait_log_commit", "btrfs_sync_log", "btrfs_log_new_name"])
            .add();
        at += ns + 500 * US;
        if at > 9_800 * MS {
            break;
        }
    }
    script
}

/// 200,000 random writes of 4 KiB a second, 32 at once, "about half the time contending on the
/// inode mutex". The script has one in two hundred of the waits, as a thinned watch has them.
fn uring() -> Script {
    let mut script = Script::new(10);
    script.device("nvme0n1", &[("queue/rotational", "0")]);
    script.mount("/data", "xfs", "/dev/nvme0n1");
    for worker in 0..32_u32 {
        let mut at = u64::from(worker) * 100 * US;
        for index in 0..500_u64 {
            let ns = about(10 * MS, 0.6, u64::from(worker) * 1000 + index);
            if at + ns > 10 * S {
                break;
            }
            script
                .sleep((7700, "postgres"), at, ns)
                .thread(7710 + worker)
                .file("/data/base/16384/16400")
                .device("nvme0n1")
                .stack(&[
                    "schedule",
                    "rwsem_down_write_slowpath",
                    "down_write",
                    "xfs_ilock",
                    "xfs_file_buffered_write",
                    "io_write",
                    "io_issue_sqe",
                    "io_wq_submit_work",
                    "io_worker_handle_work",
                    "io_wq_worker",
                    "ret_from_fork",
                ])
                .add();
            at += ns + about(9 * MS, 0.5, index);
        }
    }
    RequestFlow {
        who: (90, "kworker/u16:2"),
        device: "nvme0n1",
        per_s: 2000,
        ns: 200 * US,
        file: "/data/base/16384/16400",
        ..RequestFlow::default()
    }
    .run(&mut script);
    script
}
