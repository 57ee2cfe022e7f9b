//! Memory: too little page cache, swap.

use super::Incident;
use super::load::*;
use iowhy_model::script::Script;
use iowhy_model::{Metric, Operation, Origin};

pub const ALL: &[Incident] = &[
    Incident {
        name: "Docker: a container at its memory limit reads 20 MB/s",
        source: "https://github.com/moby/moby/issues/38149",
        root_cause: "At its limit of memory the container drops the pages of its own program and \
                     reads them again.",
        script: limit,
        expected: &["major-faults", "page-cache-thrash", "memory-reclaim"],
        only_bottleneck: false,
        must_not: &["bulk-scan"],
    },
    Incident {
        name: "Bottlerocket: swappiness 200 with zram",
        source: "https://github.com/bottlerocket-os/bottlerocket/issues/4924",
        root_cause: "vm.swappiness=200 swaps pods out to zram and keeps 2.5 GiB of old log files \
                     cached.",
        script: swappiness,
        expected: &["swap-io", "memory-reclaim", "major-faults"],
        only_bottleneck: false,
        must_not: &["smaller vm.swappiness only moves"],
    },
    Incident {
        name: "bcachefs: swap on a rotating disk",
        source: "https://github.com/koverstreet/bcachefs/issues/1178",
        root_cause: "Memory pressure swaps to and from a rotating disk, with a random read of 10 \
                     to 20 ms for each page.",
        script: swap_on_disk,
        expected: &["swap-io"],
        only_bottleneck: false,
        must_not: &["device-slow-tail", "hung-io"],
    },
    Incident {
        name: "Elasticsearch: reclaim of XFS inodes",
        source: "https://github.com/elastic/elasticsearch/issues/25238",
        root_cause: "A task that needs memory waits in direct reclaim until XFS has written \
                     inodes.",
        script: inodes,
        expected: &["memory-reclaim", "xfs-contention"],
        only_bottleneck: false,
        must_not: &["hung-io", "page-cache-thrash"],
    },
];

/// Ten goroutines, a limit of 10 MB, reads of 20 MB/s until it is killed. 150 faults a second of
/// windows of 128 KiB are that much.
fn limit() -> Script {
    let mut script = Script::new(10);
    script.device("sda", &[]);
    script.mount("/", "ext4", "/dev/sda1");
    let cgroup = "/docker/5c01";
    grows(&mut script, Metric::CgroupRefaults, cgroup, 20e6);
    grows(&mut script, Metric::CgroupScanned, cgroup, 60e6);
    grows(&mut script, Metric::RefaultsFile, "", 20e6);
    script.process(5200, "testhighio", cgroup, "docker:5c01");
    let program = script.names.intern("/testhighio");
    script.batch.processes[0].executable = Some(program);
    // Some 150 windows of the program and its libraries, over and over.
    let mut at = [0_u64; 4];
    for index in 0..1_550_u64 {
        let slot = (index % 4) as usize;
        let ns = about(24 * MS, 0.5, index);
        let window = (chance(index) * 150.0) as u64;
        let id = script
            .read("sda", 128 * KIB)
            .sector(1_000_000 + window * 256)
            .at(at[slot] as i64)
            .origin(Origin::PageFault)
            .by(5200, "testhighio")
            .cgroup(cgroup, "docker:5c01")
            .direct(0, 0, ns)
            .file("/var/lib/docker/overlay2/5c01/diff/testhighio")
            .add();
        script
            .sleep((5200, "testhighio"), at[slot], ns)
            .thread(5201 + slot as u32)
            .container("docker:5c01")
            .stack(stack::FAULT)
            .file("/var/lib/docker/overlay2/5c01/diff/testhighio")
            .requests(&[id])
            .add();
        at[slot] += ns + 2 * MS;
    }
    script
}

/// 3.8 GiB, 2.5 GiB of page cache that stays, 15 MB/s to zram; 15 pods. Pages come back from zram
/// within tens of microseconds (chosen), and kswapd runs.
fn swappiness() -> Script {
    let mut script = of_machine(true);
    script.environment.memory_bytes = 3_800 << 20;
    let disk = script.device("zram0", &[]);
    disk.bio_based = true;
    script.environment.settings_start.insert("vm.swappiness".to_owned(), "200".to_owned());
    grows(&mut script, Metric::SwappedOut, "", 15e6);
    grows(&mut script, Metric::SwappedIn, "", 14e6);
    grows(&mut script, Metric::RefaultsAnonymous, "", 14e6);
    grows(&mut script, Metric::ScannedBackground, "", 60e6);
    stays(&mut script, Metric::Cached, "", 2.5 * 1024.0 * 1024.0 * 1024.0);
    for pod in 0..15_u32 {
        let name = ["java", "node", "python3", "envoy", "coredns"][pod as usize % 5];
        Serial {
            who: (2000 + pod, name),
            container: "kubepods:pod",
            device: "zram0",
            origin: Origin::Swap,
            ns: 60 * US,
            pause: 4_300 * US,
            stack: &[
                "io_schedule",
                "folio_wait_bit_common",
                "__folio_lock_or_retry",
                "do_swap_page",
                "__handle_mm_fault",
            ],
            ..Serial::default()
        }
        .run(&mut script);
    }
    no_call(&mut script);
    script
}

/// "a random seek (10-20ms on HDD)", swappiness 100.
fn swap_on_disk() -> Script {
    let mut script = Script::new(10);
    script.device("sda", &[("queue/rotational", "1")]);
    grows(&mut script, Metric::SwappedIn, "", 0.5e6);
    grows(&mut script, Metric::SwappedOut, "", 0.5e6);
    for pid in [3100, 3200, 3300] {
        Serial {
            who: (pid, "qemu-system-x86"),
            origin: Origin::Swap,
            ns: 28 * MS,
            spread: 0.5,
            pause: 3 * MS,
            stack: &[
                "io_schedule",
                "folio_wait_bit_common",
                "__folio_lock_or_retry",
                "do_swap_page",
                "__handle_mm_fault",
            ],
            ..Serial::default()
        }
        .run(&mut script);
    }
    no_call(&mut script);
    RequestFlow {
        who: (60, "kswapd0"),
        operation: Operation::Write,
        origin: Origin::Swap,
        bytes: 32 * KIB,
        per_s: 15,
        ns: 40 * MS,
        ..RequestFlow::default()
    }
    .run(&mut script);
    script
}

/// xfs_iunpin_wait, called by xfs_reclaim_inode, called by the shrinker; blocked for more than 120
/// s, with "low cpu usage and low io". The program's use of the memory is not published: it opens
/// files.
fn inodes() -> Script {
    let mut script = Script::new(10);
    script.device("sda", &[]);
    script.mount("/data", "xfs", "/dev/sda");
    grows(&mut script, Metric::ScannedDirect, "", 4e6);
    grows(&mut script, Metric::PressureMemorySome, "", 0.95e9);
    for thread in 0..6 {
        script
            .sleep((4500, "java"), 0, 10 * S)
            .thread(4510 + thread)
            .call(call::OPENAT)
            .censored()
            .stack(&[
                "schedule",
                "io_schedule",
                "__xfs_iunpin_wait",
                "xfs_iunpin_wait",
                "xfs_reclaim_inode",
                "xfs_reclaim_inodes_ag",
                "xfs_reclaim_inodes_nr",
                "xfs_fs_free_cached_objects",
                "super_cache_scan",
                "shrink_slab",
                "do_try_to_free_pages",
                "try_to_free_pages",
                "__alloc_pages_slowpath",
            ])
            .add();
    }
    RequestFlow {
        who: (400, "xfsaild/sda"),
        origin: Origin::Metadata,
        per_s: 20,
        ..RequestFlow::default()
    }
    .run(&mut script);
    script
}

/// Takes the system call from every row: a thread that touches a page is in no call.
fn no_call(script: &mut Script) {
    script.batch.waits.iter_mut().for_each(|wait| wait.syscall = None);
    script.batch.requests.iter_mut().for_each(|request| request.syscall = None);
}
