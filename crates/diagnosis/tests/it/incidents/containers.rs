//! Containers: walks over layers, copies of files, neighbours.

use super::Incident;
use super::load::*;
use iowhy_model::script::Script;
use iowhy_model::{Operation, Origin};

pub const ALL: &[Incident] = &[
    Incident {
        name: "kubelet: du over layers on gp2",
        source: "https://github.com/kubernetes/kubernetes/issues/61999",
        root_cause: "kubelet runs du over overlay directories, which uses up the volume's burst \
                     where memory is full.",
        script: du,
        expected: &["metadata-scan"],
        only_bottleneck: false,
        must_not: &["device-slow-tail", "bulk-scan", "hung-io"],
    },
    Incident {
        name: "kubelet: du and find of 25 seconds",
        source: "https://github.com/kubernetes/kubernetes/issues/23255",
        root_cause: "Several du and find at once take all requests of the node's disk.",
        script: du_and_find,
        expected: &["metadata-scan"],
        only_bottleneck: false,
        must_not: &["bulk-scan", "hung-io"],
    },
    Incident {
        name: "cAdvisor: 36,093 nfs_getattr in 5 s",
        source: "https://github.com/google/cadvisor/issues/2947",
        root_cause: "cAdvisor asks an NFS server for the state of every mount of every container.",
        script: nfs_getattr,
        expected: &["network-filesystem"],
        only_bottleneck: false,
        must_not: &["metadata-scan", "hung-io"],
    },
    Incident {
        name: "Docker: one container fills 50 MB/s",
        source: "https://github.com/moby/moby/issues/39737",
        root_cause: "A container that writes all that the disk takes makes the daemon's own syncs \
                     wait for tens of seconds.",
        script: hog,
        expected: &["noisy-neighbour", "writeback-burst", "dirty-throttle"],
        only_bottleneck: false,
        must_not: &["temp-file-churn", "log-flood"],
    },
    Incident {
        name: "Docker: chown -R of an image's files",
        source: "https://github.com/docker/for-linux/issues/388",
        root_cause: "overlayfs copies each file up before its owner can change.",
        script: copy_up,
        expected: &["copy-up"],
        only_bottleneck: false,
        must_not: &["temp-file-churn", "bulk-scan", "metadata-scan"],
    },
    Incident {
        name: "plocate: snapshots are indexed",
        source: "https://github.com/CachyOS/distribution/issues/247",
        root_cause: "updatedb walks over every snapshot: 8 minutes instead of 6 s.",
        script: updatedb,
        expected: &["metadata-scan"],
        only_bottleneck: false,
        must_not: &["bulk-scan", "btrfs-maintenance"],
    },
];

const LOOKUP: &[&str] = &[
    "submit_bio",
    "submit_bh_wbc",
    "ext4_read_bh",
    "__ext4_get_inode_loc",
    "__ext4_iget",
    "ext4_lookup",
    "lookup_slow",
    "walk_component",
    "path_lookupat",
    "filename_lookup",
    "vfs_statx",
    "__do_sys_newfstatat",
];

fn walker<'a>(pid: u32, process: &'a str, device: &'a str, ns: u64) -> Serial<'a> {
    Serial {
        who: (pid, process),
        device,
        origin: Origin::Metadata,
        ns,
        call: call::FSTATAT,
        stack: stack::STAT_EXT4,
        path: (LOOKUP, &["fstatat64", "fts_build"]),
        ..Serial::default()
    }
}

/// A run of du does 5,421 requests a second while the burst lasts; afterwards the volume gives its
/// base rate: 300 for 100 GB (the size is chosen). A pod reads beside it.
fn du() -> Script {
    let mut script = of_machine(true);
    script.device("xvda", &[]);
    script.mount("/", "ext4", "/dev/xvda1");
    walker(9120, "du", "xvda", 3_300 * US).run(&mut script);
    Serial {
        who: (4000, "java"),
        container: "docker:3f9c",
        device: "xvda",
        ns: 6 * MS,
        pause: 100 * MS,
        file: "/var/lib/docker/overlay/3f9c/app.jar",
        ..Serial::default()
    }
    .run(&mut script);
    script
}

/// "du and find on following dirs took 4.2 s, 24.9 s, 18.5 s": several at once. The disk's latency
/// is not published: 8 ms each, chosen.
fn du_and_find() -> Script {
    let mut script = of_machine(true);
    script.device("xvda", &[]);
    script.mount("/", "ext4", "/dev/xvda1");
    for (pid, process) in [(701, "du"), (702, "du"), (703, "find"), (704, "find")] {
        walker(pid, process, "xvda", 8 * MS).run(&mut script);
    }
    script
}

/// Within five seconds 11,993 nfs_statfs and 36,093 nfs_getattr of one process; the server sees
/// 10,000 to 20,000 requests a second; load 150. Eight threads at once, chosen.
fn nfs_getattr() -> Script {
    let mut script = Script::new(10);
    script.mount("/var/lib/kubelet/pods/7/volumes/nfs", "nfs4", "filer:/export/rwx");
    for thread in 0..8_u64 {
        let mut at = thread * 17 * US;
        for index in 0..12_000_u64 {
            let ns = about(700 * US, 0.6, thread * 100_000 + index);
            if at + ns > 10 * S {
                break;
            }
            let is_statfs = index % 4 == 0;
            let number = if is_statfs { call::STATFS } else { call::FSTATAT };
            let (last, proc) = match is_statfs {
                true => ("nfs_statfs", "nfs4_proc_statfs"),
                false => ("nfs_getattr", "nfs4_proc_getattr"),
            };
            script
                .sleep((17941, "cadvisor"), at, ns)
                .thread(17941 + thread as u32)
                .call(number)
                .file("/var/lib/kubelet/pods/7/volumes/nfs")
                .stack(&[
                    "schedule",
                    "rpc_wait_bit_killable",
                    "__wait_on_bit",
                    "out_of_line_wait_on_bit",
                    "__rpc_execute",
                    "rpc_run_task",
                    "nfs4_call_sync_sequence",
                    proc,
                    last,
                ])
                .add();
            at += ns + 60 * US;
        }
    }
    script
}

/// Writes of ~50 MB/s are all that the disk takes; creating or starting a container takes tens of
/// seconds. The writer of the report is `dd | openssl enc > testfile`.
fn hog() -> Script {
    let mut script = of_machine(true);
    script.device("sda", &[]);
    script.mount("/", "ext4", "/dev/sda1");
    RequestFlow {
        who: (1721, "openssl"),
        bytes: 512 * KIB,
        per_s: 95,
        ns: 500 * MS,
        file: "/var/lib/docker/overlay2/8d21/diff/testfile",
        in_order: true,
        ..RequestFlow::default()
    }
    .run(&mut script);
    for index in 0..60 {
        script
            .sleep((1721, "openssl"), index * 160 * MS, about(120 * MS, 0.3, index))
            .call(call::WRITE)
            .container("docker:8d21")
            .file("/var/lib/docker/overlay2/8d21/diff/testfile")
            .device("sda")
            .stack(stack::THROTTLED)
            .add();
    }
    for at in [100 * MS, 5200 * MS] {
        let id = script
            .write("sda", 8 * KIB)
            .at(at as i64)
            .origin(Origin::Writeback)
            .by(900, "dockerd")
            .direct(0, 0, 600 * MS)
            .file("/var/lib/docker/containers/new/config.v2.json")
            .add();
        script
            .sleep((900, "dockerd"), at, 4700 * MS)
            .call(call::FSYNC)
            .file("/var/lib/docker/containers/new/config.v2.json")
            .device("sda")
            .stack(stack::SYNC_EXT4)
            .requests(&[id])
            .add();
    }
    script
}

/// "chown -R abc:abc": half an hour for a build; the rate of the copies is not published: 60 files
/// of 64 KiB a second, chosen.
fn copy_up() -> Script {
    let mut script = Script::new(10);
    script.device("sda", &[]);
    script.mount("/var/lib/docker/overlay2/9a/merged", "overlay", "overlay");
    script.mount("/", "ext4", "/dev/sda1");
    let up = [
        "ovl_copy_up_data",
        "ovl_copy_up_one",
        "ovl_copy_up_flags",
        "ovl_setattr",
        "notify_change",
        "chown_common",
        "do_fchownat",
    ];
    let reading: Vec<&str> = stack::READ[..5].iter().copied().chain(up).collect();
    let syncing: Vec<&str> = stack::SYNC_DATA[..6].iter().copied().chain(up).collect();
    for index in 0..600_u64 {
        let at = index * 16 * MS;
        let file = format!("/var/lib/docker/overlay2/9a/merged/var/www/{index}.php");
        for (offset, frames, operation) in
            [(0, &reading, Operation::Read), (8 * MS, &syncing, Operation::Write)]
        {
            let ns = about(7 * MS, 0.4, index + offset);
            let origin = match operation {
                Operation::Read => Origin::Readahead,
                _ => Origin::Writeback,
            };
            let id = script
                .request("sda", operation)
                .bytes(64 * KIB)
                .sector(somewhere(index + offset))
                .at((at + offset) as i64)
                .origin(origin)
                .by(308, "chown")
                .call(call::CHOWN)
                .direct(0, 0, ns)
                .file(&file)
                .add();
            script
                .sleep((308, "chown"), at + offset, ns)
                .call(call::CHOWN)
                .container("docker:9a")
                .file(&file)
                .stack(frames)
                .requests(&[id])
                .add();
        }
    }
    script
}

/// 8 minutes on a fast notebook, btrfs with snapshots below `.snapshots`. Rates are not published:
/// an NVMe disk, one read of the tree after another, chosen.
fn updatedb() -> Script {
    let mut script = Script::new(10);
    script.device("nvme0n1", &[("queue/rotational", "0")]);
    script.mount("/", "btrfs", "/dev/nvme0n1p2");
    Serial {
        bytes: 16 * KIB,
        pause: 30 * US,
        stack: &[
            "io_schedule",
            "bit_wait_io",
            "out_of_line_wait_on_bit",
            "read_extent_buffer_pages",
            "btrfs_read_extent_buffer",
            "read_block_for_search",
            "btrfs_search_slot",
            "btrfs_lookup_inode",
            "btrfs_iget",
            "btrfs_lookup_dentry",
            "lookup_open",
            "path_openat",
        ],
        path: (
            &[
                "submit_bio",
                "btrfs_submit_chunk",
                "read_extent_buffer_pages",
                "btrfs_read_extent_buffer",
                "read_block_for_search",
                "btrfs_search_slot",
                "btrfs_lookup_inode",
                "btrfs_iget",
                "btrfs_lookup_dentry",
                "path_openat",
                "do_sys_openat2",
            ],
            &[],
        ),
        call: call::OPENAT,
        ..walker(6100, "updatedb", "nvme0n1", 120 * US)
    }
    .run(&mut script);
    script
}
