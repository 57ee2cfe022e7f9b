//! File systems: journals, locks, quotas, networks, watchers.

use super::Incident;
use super::load::*;
use iowhy_model::script::Script;
use iowhy_model::{Operation, Origin};

pub const ALL: &[Incident] = &[
    Incident {
        name: "Open CAS: a full journal",
        source: "https://github.com/Open-CAS/open-cas-linux/issues/746",
        root_cause: "Writers wait for room in ext4's journal while a checkpoint writes its oldest \
                     part.",
        script: journal,
        expected: &["journal-full"],
        only_bottleneck: false,
        must_not: &["hung-io", "fsync-heavy"],
    },
    Incident {
        name: "Timeshift: deleting a snapshot with quotas on",
        source: "https://github.com/teejee2008/timeshift/issues/697",
        root_cause: "With btrfs quotas a transaction that deletes a snapshot blocks all others for \
                     minutes.",
        script: qgroup,
        expected: &["btrfs-maintenance"],
        only_bottleneck: false,
        must_not: &["journal-full", "tune2fs", "e2fsck", "hung-io"],
    },
    Incident {
        name: "s3fs: getattr that never returns",
        source: "https://github.com/s3fs-fuse/s3fs-fuse/issues/2431",
        root_cause: "The FUSE server s3fs does not answer, and df waits for it.",
        script: fuse,
        expected: &["fuse-server"],
        only_bottleneck: false,
        must_not: &["hung-io", "network-filesystem"],
    },
    Incident {
        name: "NFS: server not responding, still trying",
        source: "https://github.com/raspberrypi/linux/issues/2482",
        root_cause: "The network card's driver loses packets, so that a close on NFS waits for \
                     minutes.",
        script: nfs,
        expected: &["network-filesystem"],
        only_bottleneck: false,
        must_not: &["hung-io", "fsync-heavy", "flush-cost"],
    },
    Incident {
        name: "Antivirus: every open waits for an answer",
        source: "https://github.com/Azure/azure-storage-fuse/issues/574",
        root_cause: "A security agent that watches opens by fanotify does not answer.",
        script: fanotify,
        expected: &["fanotify-wait"],
        only_bottleneck: false,
        must_not: &["fuse-server", "network-filesystem", "hung-io"],
    },
    Incident {
        name: "Scylla: io_submit that allocates",
        source: "https://github.com/scylladb/seastar/issues/340",
        root_cause: "An appending direct write reads XFS's allocation tree within io_submit: 57 \
                     ms.",
        script: allocation,
        expected: &["blocking-submit"],
        only_bottleneck: false,
        must_not: &["metadata-scan", "hung-io"],
    },
    Incident {
        name: "Scylla: io_submit behind an inode's lock",
        source: "https://github.com/scylladb/seastar/issues/341",
        root_cause: "io_submit updates the file's time under an inode lock that a flushing worker \
                     holds: 3.3 s.",
        script: inode,
        expected: &["blocking-submit", "xfs-contention"],
        only_bottleneck: false,
        must_not: &["hung-io"],
    },
    Incident {
        name: "ext4lazyinit: a new file system that writes",
        source: "https://forum.chip.de/discussion/1896201/festplatte-blinkt-nach-formatierung-mit-\
                 ext4-wichtig-zu-warten-bis-der-vorgang-abgeschlossen-ist",
        root_cause: "The kernel writes the inode tables of a new ext4 at up to 16 MB/s after the \
                     first mount.",
        script: lazyinit,
        expected: &["kernel-housekeeping"],
        only_bottleneck: false,
        must_not: &["hung-io", "device-slow-tail", "bulk-scan"],
    },
];

/// Stacks as published, 4.18; blocked for more than 120 s. Sixteen writers, chosen.
fn journal() -> Script {
    let mut script = Script::new(10);
    script.device("cas1-1", &[]);
    script.mount("/mnt/cas", "ext4", "/dev/cas1-1");
    for thread in 0..16 {
        script
            .sleep((15184, "java"), 0, 10 * S)
            .thread(15330 + thread)
            .call(call::PWRITE)
            .censored()
            .file("/mnt/cas/data/0")
            .device("cas1-1")
            .stack(&[
                "schedule",
                "jbd2_log_wait_commit",
                "jbd2_log_do_checkpoint",
                "__jbd2_log_wait_for_space",
                "add_transaction_credits",
                "start_this_handle",
                "jbd2__journal_start",
                "ext4_write_begin",
                "generic_perform_write",
            ])
            .add();
    }
    RequestFlow {
        who: (900, "jbd2/cas1-1-8"),
        device: "cas1-1",
        origin: Origin::Metadata,
        bytes: 4 * KIB,
        per_s: 900,
        ns: 20 * MS,
        ..RequestFlow::default()
    }
    .run(&mut script);
    script
}

/// "processes doing IO hang for 1-5 minutes", btrfs-transaction at high CPU: few requests, since
/// the time is the CPU's. The processes are chosen.
fn qgroup() -> Script {
    let mut script = Script::new(10);
    script.device("nvme0n1", &[("queue/rotational", "0")]);
    script.mount("/", "btrfs", "/dev/nvme0n1p2");
    let start =
        ["schedule", "wait_current_trans", "start_transaction", "btrfs_create", "path_openat"];
    let commit =
        ["schedule", "wait_for_commit", "btrfs_commit_transaction", "btrfs_sync_file", "do_fsync"];
    for (pid, process, number, frames) in [
        (3001, "firefox", call::FSYNC, &commit),
        (3002, "firefox", call::OPENAT, &start),
        (4001, "thunderbird", call::OPENAT, &start),
        (700, "systemd-journal", call::FSYNC, &commit),
        (5100, "bash", call::OPENAT, &start),
    ] {
        let sleep = script.sleep((pid, process), 0, 10 * S).call(number).censored();
        sleep.device("nvme0n1").stack(frames).add();
    }
    script
        .sleep((410, "btrfs-cleaner"), 0, 10 * S)
        .of_kernel()
        .censored()
        .stack(&["schedule", "wait_current_trans", "start_transaction", "btrfs_drop_snapshot"])
        .add();
    Serial {
        who: (411, "btrfs-transacti"),
        device: "nvme0n1",
        origin: Origin::Metadata,
        bytes: 16 * KIB,
        ns: 100 * US,
        pause: 30 * MS,
        path: (
            &[
                "submit_bio",
                "read_extent_buffer_pages",
                "btrfs_search_slot",
                "find_parent_nodes",
                "btrfs_find_all_roots",
                "btrfs_qgroup_trace_extent_post",
                "btrfs_qgroup_account_extents",
                "btrfs_commit_transaction",
            ],
            &[],
        ),
        ..Serial::default()
    }
    .run(&mut script);
    let waits = script.batch.waits.iter_mut().filter(|wait| wait.pid == 411);
    waits.for_each(|wait| (wait.kernel_thread, wait.syscall) = (true, None));
    script
}

/// As published, 4.19; blocked for more than 120 s.
fn fuse() -> Script {
    let mut script = Script::new(10);
    script.mount("/mnt/x", "fuse.s3fs", "s3fs");
    script
        .sleep((4846, "df"), 0, 10 * S)
        .call(call::FSTATAT)
        .censored()
        .file("/mnt/x")
        .stack(&[
            "schedule",
            "request_wait_answer",
            "__fuse_request_send",
            "fuse_simple_request",
            "fuse_do_getattr",
            "vfs_statx",
        ])
        .add();
    script
}

/// As published, 4.14: a close that writes back; "nfs: server ease not responding, still trying".
fn nfs() -> Script {
    let mut script = Script::new(10);
    script.mount("/mnt/ease", "nfs4", "ease:/scratch");
    script
        .sleep((24916, "objcopy"), 0, 10 * S)
        .call(call::CLOSE)
        .censored()
        .file("/mnt/ease/linux/vmlinux")
        .stack(&[
            "schedule",
            "io_schedule",
            "wait_on_page_bit",
            "__filemap_fdatawait_range",
            "filemap_write_and_wait_range",
            "nfs_file_fsync",
            "vfs_fsync",
            "filp_close",
        ])
        .add();
    script
}

/// As published, 3.10: the opens of python, blocked for more than 120 s.
fn fanotify() -> Script {
    let mut script = Script::new(10);
    script.device("sda", &[]);
    script.mount("/", "xfs", "/dev/sda2");
    script.mount("/mnt/blob", "fuse.blobfuse", "blobfuse");
    for (pid, process) in [(2651, "python"), (2660, "sshd"), (2702, "cp")] {
        script
            .sleep((pid, process), 0, 10 * S)
            .call(call::OPENAT)
            .censored()
            .stack(&[
                "schedule",
                "fanotify_handle_event",
                "fsnotify",
                "security_file_open",
                "do_dentry_open",
                "vfs_open",
                "do_last",
                "path_openat",
                "do_filp_open",
                "do_sys_open",
            ])
            .add();
    }
    script
}

const ALLOCATES: &[&str] = &[
    "schedule",
    "schedule_timeout",
    "wait_for_completion",
    "xfs_buf_submit_wait",
    "_xfs_buf_read",
    "xfs_buf_read_map",
    "xfs_trans_read_buf_map",
    "xfs_btree_read_buf_block.constprop.34",
    "xfs_btree_lookup_get_block",
    "xfs_btree_lookup",
    "xfs_alloc_lookup_eq",
    "xfs_alloc_fixup_trees",
    "xfs_alloc_ag_vextent_near",
    "xfs_bmap_alloc",
    "xfs_iomap_write_direct",
    "aio_write",
    "do_io_submit",
];

/// One sleep of 57.868 ms is published, and that the thread has one after the other while it
/// appends; their rate is not: ten a second, chosen. Writes complete within 2 ms beside it.
fn allocation() -> Script {
    let mut script = Script::new(10);
    script.device("sda", &[]);
    script.mount("/var/lib/scylla", "xfs", "/dev/sda");
    for index in 0..98_u64 {
        let at = index * 100 * MS;
        let ns = about(50 * MS, 0.16, index);
        let id = script
            .read("sda", 4 * KIB)
            .sector(somewhere(index))
            .at(at as i64)
            .origin(Origin::Metadata)
            .by(1632, "perf_fast_forwa")
            .call(call::SUBMIT)
            .direct(0, 40 * MS, ns - 40 * MS)
            .add();
        let sleep = script.sleep((1632, "perf_fast_forwa"), at, ns).call(call::SUBMIT);
        sleep.stack(ALLOCATES).requests(&[id]).add();
    }
    RequestFlow {
        who: (1632, "perf_fast_forwa"),
        origin: Origin::Write,
        per_s: 800,
        ns: 2 * MS,
        file: "/var/lib/scylla/data/ks/cf/la-1-big-Data.db",
        in_order: true,
        ..RequestFlow::default()
    }
    .run(&mut script);
    script
}

/// As published: 3.3 s once, sleeps of up to 1 s beside it.
fn inode() -> Script {
    let mut script = Script::new(10);
    script.device("sda", &[]);
    script.mount("/var/lib/scylla", "xfs", "/dev/sda");
    for (at, ns) in [(500 * MS, 3300 * MS), (5 * S, S), (7 * S, 900 * MS), (9 * S, 600 * MS)] {
        script
            .sleep((3668, "perf_fast_forwa"), at, ns)
            .call(call::SUBMIT)
            .stack(&[
                "schedule",
                "rwsem_down_write_failed",
                "call_rwsem_down_write_failed",
                "down_write",
                "xfs_ilock",
                "xfs_vn_update_time",
                "file_update_time",
                "xfs_file_aio_write_checks",
                "xfs_file_dio_aio_write",
                "xfs_file_write_iter",
                "aio_write",
                "do_io_submit",
            ])
            .add();
    }
    RequestFlow {
        who: (3668, "perf_fast_forwa"),
        origin: Origin::Write,
        per_s: 500,
        ns: 3 * MS,
        file: "/var/lib/scylla/data/ks/cf/la-1-big-Data.db",
        in_order: true,
        ..RequestFlow::default()
    }
    .run(&mut script);
    script
}

/// "writes at up to 16,000kB/s to the device and thereby uses a great deal of the hard disk's
/// bandwidth". A program that reads beside it: chosen.
fn lazyinit() -> Script {
    let mut script = Script::new(10);
    script.device("sdb", &[("queue/rotational", "1")]);
    script.mount("/data", "ext4", "/dev/sdb1");
    RequestFlow {
        who: (812, "ext4lazyinit"),
        device: "sdb",
        origin: Origin::Metadata,
        operation: Operation::Write,
        bytes: 512 * KIB,
        per_s: 31,
        ns: 25 * MS,
        in_order: true,
        ..RequestFlow::default()
    }
    .run(&mut script);
    Serial {
        who: (2200, "cp"),
        device: "sdb",
        origin: Origin::Readahead,
        bytes: 128 * KIB,
        ns: 24 * MS,
        call: call::READ,
        file: "/data/movie.mkv",
        ..Serial::default()
    }
    .run(&mut script);
    script
}
