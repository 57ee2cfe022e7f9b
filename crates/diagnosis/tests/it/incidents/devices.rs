//! Devices: drives, schedulers, layers.

use super::Incident;
use super::load::*;
use iowhy_model::script::Script;
use iowhy_model::{Operation, Origin, Status};

pub const ALL: &[Incident] = &[
    Incident {
        name: "NVMe: a controller that does not come back",
        source: "https://blog.bspwr.com/blog/samsung-990-pro-nvme-disconnect/",
        root_cause: "The drive does not wake from a power state: no request is answered until it \
                     is reset.",
        script: power_state,
        expected: &["hung-io"],
        only_bottleneck: true,
        must_not: &["fsync-heavy", "noisy-neighbour", "provider-cap"],
    },
    Incident {
        name: "SMR: resilvering a WD Red",
        source: "https://github.com/openzfs/zfs/issues/10214",
        root_cause: "A drive-managed SMR disk takes sequential writes, and random ones only until \
                     its cache is full.",
        script: smr,
        expected: &["write-cliff"],
        only_bottleneck: false,
        must_not: &["provider-cap", "burst-credits"],
    },
    Incident {
        name: "ZFS: a writer held by writeback throttling",
        source: "https://github.com/openzfs/zfs/issues/12204",
        root_cause: "ZFS's own writer threads sleep in wbt_wait, and every sync behind them.",
        script: wbt,
        expected: &["wbt-throttle"],
        only_bottleneck: false,
        must_not: &["hung-io", "tune2fs", "fsync-heavy"],
    },
    Incident {
        name: "BFQ: 1,024 requests on an SD card",
        source: "https://github.com/CachyOS/CachyOS-Settings/issues/50",
        root_cause: "BFQ gives 222 reads a second of an SD card, fewer than other schedulers; all \
                     of them take seconds, since 1,024 wait.",
        script: bfq,
        expected: &["scheduler-overhead", "device-saturated", "slow-async"],
        only_bottleneck: true,
        must_not: &["device-slow-tail", "hung-io"],
    },
    Incident {
        name: "dm-crypt: queues in front of encryption",
        source: "https://pqsec.org/2020/03/25/speeding-up-linux-disk-encryption.html",
        root_cause: "dm-crypt's work queues double the latency of an encrypted disk and halve its \
                     throughput.",
        script: crypt,
        expected: &["dm-layer"],
        only_bottleneck: false,
        must_not: &["device-slow-tail", "serial-reads", "no encryption"],
    },
    Incident {
        name: "VDO: fstrim makes the machine useless",
        source: "https://github.com/dm-vdo/kvdo/issues/64",
        root_cause: "VDO handles a large discard block by block, and every task that needs the \
                     same buffers waits.",
        script: vdo,
        expected: &["discard-storm", "kernel-housekeeping"],
        only_bottleneck: false,
        must_not: &["metadata-scan", "journal-full"],
    },
    Incident {
        name: "Scylla: an SSD that was not trimmed",
        source: "https://github.com/scylladb/scylladb/issues/1816",
        root_cause: "Garbage collection within an untrimmed SSD halves its write rate from time to \
                     time.",
        script: garbage,
        expected: &["write-cliff"],
        only_bottleneck: false,
        must_not: &["provider-cap", "noisy-neighbour"],
    },
    Incident {
        name: "bcachefs: discards that never reach the NVMe disk",
        source: "https://github.com/koverstreet/bcachefs/issues/916",
        root_cause: "The drive was never trimmed, and each write takes 170 to 224 ms.",
        script: untrimmed,
        expected: &["slow-writes", "slow-sync", "slow-async", "device-saturated", "write-cliff"],
        only_bottleneck: true,
        must_not: &["provider-cap", "hung-io"],
    },
    Incident {
        name: "md: the check at the weekend",
        source: "https://evilinsider.ru/?p=1376",
        root_cause: "md compares both disks of its mirrors at 108 MB/s; web requests time out.",
        script: raid_check,
        expected: &["raid-resync"],
        only_bottleneck: false,
        must_not: &["bulk-scan", "device-slow-tail"],
    },
    Incident {
        name: "LVM: writes to an origin with snapshots",
        source: "https://github.com/LINBIT/linstor-server/issues/148",
        root_cause: "Each first write of a chunk is copied to the snapshots before it is done.",
        script: snapshots,
        expected: &["thin-pool", "dm-layer"],
        only_bottleneck: false,
        must_not: &["hung-io", "device-slow-tail"],
    },
    Incident {
        name: "Scylla: io_submit when the queue is full",
        source: "https://github.com/scylladb/seastar/issues/70",
        root_cause: "A slow disk's queue fills up, and io_submit blocks for a free request.",
        script: full_queue,
        expected: &["blocking-submit", "tag-starvation"],
        only_bottleneck: false,
        must_not: &["hung-io"],
    },
];

/// "Device not ready; aborting reset": from one moment to the next nothing is answered, for longer
/// than the driver's 30 s. Before, a mirror of ZFS and virtual machines at rates that are chosen.
fn power_state() -> Script {
    let mut script = Script::new(10);
    let disk = script.device("nvme0n1", &[("queue/rotational", "0")]);
    disk.model = Some("Samsung SSD 990 PRO 4TB".to_owned());
    disk.transport = Some("pcie".to_owned());
    script.mount("/", "xfs", "/dev/nvme0n1p2");
    for (pid, process) in [(1400, "qemu-system-x86"), (1500, "postgres")] {
        Serial {
            who: (pid, process),
            device: "nvme0n1",
            ns: 90 * US,
            pause: 5 * MS,
            stack: stack::DIRECT,
            to: 3 * S,
            ..Serial::default()
        }
        .run(&mut script);
    }
    for index in 0..40_u64 {
        let who = if index % 2 == 0 { (1400, "qemu-system-x86") } else { (1500, "postgres") };
        let operation = if index % 3 == 0 { Operation::Read } else { Operation::Write };
        let at = 3 * S + index * MS;
        let mut draft = script
            .request("nvme0n1", operation)
            .bytes(16 * KIB)
            .sector(somewhere(index))
            .at(at as i64)
            .by(who.0, who.1)
            .direct(0, 2 * US, 0)
            .status(Status::InFlight);
        (draft.request.d2c_ns, draft.request.q2c_ns) = (None, None);
        let id = draft.add();
        let sleep = script.sleep(who, at, 10 * S - at).thread(who.0 + index as u32);
        let number = if operation == Operation::Read { call::PREAD } else { call::PWRITE };
        sleep.call(number).stack(stack::DIRECT).censored().requests(&[id]).add();
    }
    script
}

/// In order 180 to 80 MB/s; at random "tremendous latency". storj/storj#3854 says that such drives
/// stop for a few dozen seconds. A watch of sixty seconds sees both: it writes at 80 MB/s, then
/// some writes every eight seconds.
fn smr() -> Script {
    let mut script = Script::new(60);
    let disk = script.device("sdj", &[("queue/rotational", "1")]);
    disk.model = Some("WDC WD40EFAX-68JH4N0".to_owned());
    disk.transport = Some("sas".to_owned());
    for index in 0..6_000_u64 {
        let (at, ns) = match index {
            0..=5_799 => (index * 3450 * US, about(6 * MS, 0.4, index)),
            // Twenty-five writes at once that take eight seconds, five times.
            _ => (20 * S + (index - 5_800) / 40 * 8 * S, about(7_600 * MS, 0.04, index)),
        };
        let bytes = if index < 5_800 { 256 * KIB } else { 16 * KIB };
        let id = script
            .write("sdj", bytes)
            .sector(if index < 5_800 { index * 512 } else { somewhere(index) })
            .at(at as i64)
            .by(2100, "z_wr_iss")
            .direct(0, 0, ns)
            .add();
        if index >= 5_800 && index % 40 == 0 {
            let sleep = script.sleep((5300, "txg_sync"), at, ns).of_kernel();
            let frames = ["io_schedule", "cv_wait_common", "__cv_wait_io", "zio_wait", "spa_sync"];
            sleep.stack(&frames).requests(&[id]).add();
            let sleep = script.sleep((6000, "smbd"), at, ns).call(call::FSYNC);
            sleep.stack(&["schedule", "cv_wait_common", "__cv_wait", "zil_commit_impl"]).add();
        }
    }
    script
}

/// The stacks of fio as published, 5.13; that z_wr_iss_h sleeps in wbt_wait is in the title.
fn wbt() -> Script {
    let mut script = Script::new(10);
    script.device("nvme1n1", &[("queue/wbt_lat_usec", "2000"), ("queue/rotational", "0")]);
    for pid in 13650..13658 {
        script
            .sleep((pid, "fio"), 0, 10 * S)
            .call(call::FDATASYNC)
            .censored()
            .stack(&["schedule", "cv_wait_common", "__cv_wait", "zil_commit_impl", "zpl_fsync"])
            .add();
    }
    for pid in [7001, 7002] {
        script
            .sleep((pid, "z_wr_iss_h"), 0, 10 * S)
            .of_kernel()
            .censored()
            .device("nvme1n1")
            .stack(&[
                "schedule",
                "io_schedule",
                "rq_qos_wait",
                "wbt_wait",
                "__rq_qos_throttle",
                "blk_mq_submit_bio",
                "submit_bio_noacct",
                "vdev_disk_io_start",
                "zio_vdev_io_start",
                "taskq_thread",
            ])
            .add();
    }
    RequestFlow {
        who: (7001, "z_wr_iss_h"),
        device: "nvme1n1",
        origin: Origin::Write,
        per_s: 400,
        ns: 20 * MS,
        ..RequestFlow::default()
    }
    .run(&mut script);
    script
}

/// `--direct=1 --rw=randrw --bs=4k --ioengine=libaio --iodepth=256 --numjobs=4`: 222 reads and as
/// many writes a second, 2.26 s each, 92 us to submit. The card takes one at a time: the rest are
/// in the scheduler.
fn bfq() -> Script {
    let mut script = Script::new(10);
    let settings = [("queue/scheduler", "none mq-deadline kyber [bfq]"), ("queue/rotational", "0")];
    let disk = script.device("mmcblk0", &settings);
    disk.transport = Some("mmc".to_owned());
    script.mount("/mnt", "ext4", "/dev/mmcblk0p1");
    let each = S / 445;
    for index in 0..4_400_u64 {
        let done = index * each + 2 * MS;
        let whole = about(2_255 * MS, 0.35, index);
        let d2c = about(2_200 * US, 0.05, index);
        let at = done as i64 - whole as i64;
        let pid = 21_296 + (index % 4) as u32;
        let operation = if index % 2 == 0 { Operation::Read } else { Operation::Write };
        let status = if at < 0 { Status::BegunBefore } else { Status::Complete };
        let id = script
            .request("mmcblk0", operation)
            .bytes(4 * KIB)
            .sector(somewhere(index))
            .at(at)
            .by(pid, "fio")
            .call(call::SUBMIT)
            .scheduled(0, 5 * US, whole - d2c - 5 * US, d2c)
            .status(status)
            .file("/mnt/test.fio")
            .add();
        let sleep = script.sleep((pid, "fio"), done.saturating_sub(8 * MS), 8 * MS);
        sleep.call(call::GETEVENTS).stack(stack::EVENTS).requests(&[id]).add();
    }
    script
}

/// A read of 4 KiB takes twice as long through dm-crypt as of the disk below: 100 and 200 us,
/// chosen.
fn crypt() -> Script {
    let mut script = Script::new(10);
    script.device("nvme0n1", &[("queue/rotational", "0")]);
    let upper = script.device("dm-0", &[("dm/name", "crypt")]);
    (upper.bio_based, upper.below) = (true, vec!["nvme0n1".to_owned()]);
    script.mount("/cache", "xfs", "/dev/dm-0");
    for reader in 0..4_u32 {
        let mut at = u64::from(reader) * 50 * US;
        for index in 0..5_000 {
            let seed = u64::from(reader) * 10_000 + index;
            let (below, queues) = (about(100 * US, 0.2, seed), about(110 * US, 0.4, seed + 1));
            let who = (3000 + reader, "nginx");
            let id = script
                .read("dm-0", 4 * KIB)
                .sector(somewhere(seed))
                .at(at as i64)
                .by(who.0, who.1)
                .bio(below + queues)
                .file("/cache/f")
                .add();
            script
                .read("nvme0n1", 4 * KIB)
                .sector(somewhere(seed))
                .at((at + queues / 3) as i64)
                .origin(Origin::Stacked)
                .parent(id)
                .by(90, "kworker/u64:3")
                .direct(0, 2 * US, below - 2 * US)
                .add();
            let sleep = script.sleep(who, at, below + queues).call(call::PREAD);
            sleep.file("/cache/f").stack(stack::DIRECT).requests(&[id]).add();
            at += below + queues + about(200 * US, 0.5, seed);
        }
    }
    script
}

/// Load 180; kworker and programs blocked for more than 122 s in xfs_buf_lock. A discard of 1 GB is
/// 256 k blocks: four are in flight, seconds each.
fn vdo() -> Script {
    let mut script = Script::new(10);
    let disk = script.device("dm-2", &[("queue/discard_max_bytes", "1073741824")]);
    disk.bio_based = true;
    script.mount("/", "xfs", "/dev/dm-2");
    for index in 0..8_u64 {
        let at = index % 4 * 10 * MS + index / 4 * 4900 * MS;
        let id = script
            .request("dm-2", Operation::Discard)
            .bytes(1 << 30)
            .sector(index << 21)
            .at(at as i64)
            .by(21500, "fstrim")
            .bio(about(4_600 * MS, 0.02, index))
            .add();
        if index % 4 == 0 {
            let sleep = script.sleep((21500, "fstrim"), at, 4_800 * MS).call(call::IOCTL);
            let frames = [
                "schedule",
                "io_schedule",
                "submit_bio_wait",
                "blkdev_issue_discard",
                "xfs_trim_extents",
                "xfs_ioc_trim",
            ];
            sleep.stack(&frames).requests(&[id]).add();
        }
    }
    let frames = [
        "schedule",
        "schedule_timeout",
        "___down_common",
        "down",
        "xfs_buf_lock",
        "xfs_buf_find_lock",
        "xfs_buf_lookup.constprop.0",
    ];
    for pid in 0..20 {
        let who = (22_000 + pid, ["php-fpm", "mariadbd", "dovecot", "rsync"][pid as usize % 4]);
        let sleep = script.sleep(who, 0, 10 * S).call(call::OPENAT).censored();
        sleep.device("dm-2").stack(&frames).add();
    }
    script
        .sleep((21829, "kworker/11:3"), 0, 10 * S)
        .of_kernel()
        .censored()
        .device("dm-2")
        .stack(&frames)
        .add();
    script
}

/// 50 requests in the queue all the time; iostat's svctm is 1 ms, and 2 to 3 ms when throughput
/// drops. Running fstrim cures it for a long time. A drop in the middle of the watch.
fn garbage() -> Script {
    let mut script = Script::new(10);
    script.environment.is_virtual = Some(false);
    let disk = script.device("sdb", &[("queue/rotational", "0")]);
    disk.transport = Some("sata".to_owned());
    script.mount("/var/lib/scylla", "xfs", "/dev/sdb");
    let mut done = 0_u64;
    let mut free = [0_u64; 50];
    for index in 0_u64.. {
        let each = if done < 5 * S { MS } else { 2_500 * US };
        done += about(each, 0.3, index);
        if done >= 10 * S {
            break;
        }
        let slot = (index % 50) as usize;
        let at = free[slot];
        let id = script
            .write("sdb", 128 * KIB)
            .sector(1 << 20 | (index * 256))
            .at(at as i64)
            .by(1632, "scylla")
            .call(call::SUBMIT)
            .direct(0, 0, done - at)
            .file("/var/lib/scylla/data/ks/cf/la-1-big-Data.db")
            .add();
        if index % 10 == 0 {
            let sleep = script.sleep((1632, "scylla"), at, (done - at).min(9 * MS));
            sleep.call(call::GETEVENTS).stack(stack::EVENTS).requests(&[id]).add();
        }
        free[slot] = done;
    }
    script
}

/// w_await 170 to 224 ms all the time, no discards. Eight threads that write and sync, chosen.
fn untrimmed() -> Script {
    let mut script = Script::new(10);
    script.environment.is_virtual = Some(false);
    let disk = script.device("nvme0n1", &[("queue/rotational", "0")]);
    disk.transport = Some("pcie".to_owned());
    script.mount("/", "bcachefs", "/dev/nvme0n1p2");
    for thread in 0..8 {
        Serial {
            who: (2600 + thread, "rsync"),
            device: "nvme0n1",
            operation: Operation::Write,
            origin: Origin::Write,
            bytes: 64 * KIB,
            ns: 197 * MS,
            spread: 0.14,
            call: call::PWRITE,
            stack: stack::DIRECT,
            ..Serial::default()
        }
        .run(&mut script);
    }
    script
}

/// iostat as published: sdb 1,614 reads a second, 107 MB/s, 2.6 ms, 57 % busy; sda 1,600, 108 MB/s,
/// 18.1 ms, 100 %; 8.7 writes a second on md2. PHP, chosen, reads beside it.
fn raid_check() -> Script {
    let mut script = Script::new(10);
    for disk in ["sda", "sdb"] {
        script.device(disk, &[("queue/rotational", "1")]);
    }
    let md = script.device("md2", &[("md/sync_action", "check"), ("md/level", "raid1")]);
    (md.bio_based, md.below) = (true, vec!["sda".to_owned(), "sdb".to_owned()]);
    script.mount("/", "ext4", "/dev/md2");
    for (device, ns) in [("sda", 18 * MS), ("sdb", 2_600 * US)] {
        RequestFlow {
            who: (310, "md2_resync"),
            device,
            operation: Operation::Read,
            origin: Origin::Read,
            bytes: 66 * KIB,
            per_s: 1600,
            ns,
            in_order: true,
            ..RequestFlow::default()
        }
        .run(&mut script);
    }
    for pid in [4001, 4002] {
        for index in 0..60_u64 {
            let (at, ns) = (index * 160 * MS, about(45 * MS, 0.5, index + u64::from(pid)));
            let who = (pid, "php-fpm");
            let id = script
                .read("md2", 8 * KIB)
                .sector(somewhere(index))
                .at(at as i64)
                .by(pid, "php-fpm")
                .bio(ns)
                .file("/var/www/index.php")
                .add();
            script
                .read("sda", 8 * KIB)
                .sector(somewhere(index))
                .at(at as i64)
                .origin(Origin::Stacked)
                .parent(id)
                .by(pid, "php-fpm")
                .direct(0, 0, ns)
                .add();
            let sleep = script.sleep(who, at, ns).call(call::READ).file("/var/www/index.php");
            sleep.stack(stack::READ).requests(&[id]).add();
        }
    }
    script
}

/// "writes to thick volumes with a few snapshots already take about twice as long": a write of 10
/// ms to the origin is a read and a write of the old chunk below, then the write itself.
fn snapshots() -> Script {
    let mut script = Script::new(10);
    script.device("sda", &[("queue/rotational", "1")]);
    for name in ["dm-3", "dm-4"] {
        let upper = script.device(name, &[("dm/name", "vg-origin")]);
        (upper.bio_based, upper.below) = (true, vec!["sda".to_owned()]);
    }
    script.mount("/srv", "ext4", "/dev/dm-3");
    for index in 0..450_u64 {
        let at = index * 22 * MS;
        let id = script
            .write("dm-3", 16 * KIB)
            .sector(somewhere(index))
            .at(at as i64)
            .by(1900, "mysqld")
            .bio(20 * MS)
            .file("/srv/mysql/ibdata1")
            .add();
        for (offset, operation) in
            [(0, Operation::Read), (5 * MS, Operation::Write), (11 * MS, Operation::Write)]
        {
            let is_own = offset == 11 * MS;
            let mut draft = script
                .request("sda", operation)
                .bytes(if is_own { 16 * KIB } else { 64 * KIB })
                .sector(somewhere(index + offset))
                .at((at + offset) as i64)
                .origin(Origin::Stacked)
                .by(88, "kworker/2:1")
                .direct(0, 0, if is_own { 9 * MS } else { 5 * MS })
                .stacks(
                    if is_own { &[] } else { &["submit_bio", "dispatch_io", "dm_io", "kcopyd"] },
                    &[],
                    u32::from(!is_own),
                );
            draft.request.parent_id = is_own.then_some(id);
            draft.add();
        }
        let sleep = script.sleep((1900, "mysqld"), at, 20 * MS).call(call::PWRITE);
        sleep.file("/srv/mysql/ibdata1").stack(stack::DIRECT).requests(&[id]).add();
    }
    script
}

/// "it's possible that block device queue will fill up and io_submit will block inside
/// get_request": 128 requests of a slow disk, in the function that get_request became. Rates are
/// not published.
fn full_queue() -> Script {
    let mut script = Script::new(10);
    let settings = [("queue/nr_requests", "128"), ("queue/rotational", "1")];
    script.device("sda", &settings);
    script.mount("/var/lib/scylla", "xfs", "/dev/sda");
    let each = S / 180;
    let mut done = 700 * MS;
    for index in 0..1_650_u64 {
        // A rotating disk: the time of each depends on the way to it, and some half seconds are
        // slower than others.
        done += about(about(each, 0.2, done / (S / 2)), 0.6, index);
        let (d2c, q2g) = (128 * each, about(60 * MS, 0.5, index));
        let at = done as i64 - (d2c + q2g) as i64;
        let status = if at < 0 { Status::BegunBefore } else { Status::Complete };
        let id = script
            .write("sda", 128 * KIB)
            .sector(index * 256)
            .at(at)
            .by(900, "scylla")
            .call(call::SUBMIT)
            .direct(q2g, 0, d2c)
            .status(status)
            .file("/var/lib/scylla/data/la-1-big-Data.db")
            .add();
        if at >= 0 && index % 12 == 0 {
            let sleep = script.sleep((900, "scylla"), at as u64, q2g).call(call::SUBMIT);
            let frames = [
                "io_schedule",
                "blk_mq_get_tag",
                "__blk_mq_alloc_requests",
                "blk_mq_submit_bio",
                "iomap_dio_rw",
                "aio_write",
                "do_io_submit",
            ];
            sleep.stack(&frames).requests(&[id]).add();
        }
    }
    script
}
