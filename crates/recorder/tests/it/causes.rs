//! Planted causes: ten seconds of a load with a cause, as each cause's own tests have it.
//!
//! What does not belong here: the times at which they are planted.

use iowhy_model::environment::Mount;
use iowhy_model::file::Counts;
use iowhy_model::script::Script;
use iowhy_model::{Operation, Origin, WaitClass};

const MS: u64 = 1_000_000;

/// A cause's id, and the function that adds ten seconds of it.
pub type PlantedCause = (&'static str, fn(&mut Script));

/// All planted causes.
pub const CAUSES: [PlantedCause; 20] = [
    ("hung-io", hung_io),
    ("swap-io", swap_io),
    ("fanotify-wait", fanotify_wait),
    ("fuse-server", fuse_server),
    ("network-filesystem", network_filesystem),
    ("journal-full", journal_full),
    ("dirty-throttle", dirty_throttle),
    ("cgroup-throttle", cgroup_throttle),
    ("wbt-throttle", wbt_throttle),
    ("copy-up", copy_up),
    ("major-faults", major_faults),
    ("fsync-heavy", fsync_heavy),
    ("memory-reclaim", memory_reclaim),
    ("sync-storm", sync_storm),
    ("flush-cost", flush_cost),
    ("inode-lock", inode_lock),
    ("thin-pool", thin_pool),
    ("split-requests", split_requests),
    ("page-cache-thrash", page_cache_thrash),
    ("xfs-contention", xfs_contention),
];

/// A device that answers nothing for three seconds.
fn hung_io(script: &mut Script) {
    for index in 0..100_u64 {
        let at = index * 100;
        let takes = match at {
            3000..6000 => 6000 - at,
            _ => 1,
        };
        let read = script.read("sdb", 4096).by(7, "mysqld").at((at * MS) as i64);
        read.sector(index * 7919 * 8).direct(500, 500, takes * MS).add();
    }
}

fn swap_io(script: &mut Script) {
    for index in 0..500 {
        let read = script.read("sda", 4096).by(7, "java").at((index * 20 * MS) as i64);
        read.origin(Origin::Swap).sector(index * 7919 * 8).direct(500, 500, MS).add();
    }
    script.wait((7, "java"), WaitClass::Swap, 5000 * MS, 4000 * MS, 0);
}

fn fanotify_wait(script: &mut Script) {
    for _ in 0..100 {
        script.wait((7, "make"), WaitClass::Fanotify, 80 * MS, 0, 0);
    }
}

fn mount(script: &mut Script, path: &str, kind: &str, source: &str) {
    let mounts = &mut script.environment.mounts;
    if mounts.iter().all(|mount| mount.path != path) {
        mounts.push(Mount {
            path: path.to_owned(),
            kind: kind.to_owned(),
            source: source.to_owned(),
            ..Mount::default()
        });
    }
}

fn fuse_server(script: &mut Script) {
    mount(script, "/mnt/bucket", "fuse.s3fs", "bucket");
    for _ in 0..100 {
        script.wait((7, "cat"), WaitClass::Fuse, 95 * MS, 0, 0);
    }
}

fn network_filesystem(script: &mut Script) {
    mount(script, "/srv/data", "nfs4", "10.0.0.7:/export");
    for _ in 0..200 {
        script.wait((7, "cadvisor"), WaitClass::NetworkFs, 45 * MS, 0, 0);
    }
}

fn journal_full(script: &mut Script) {
    script.wait((7, "rm"), WaitClass::JournalSpace, 5000 * MS, 0, 0);
    script.stacked(&["__jbd2_log_wait_for_space"]);
}

/// A plain write that is throttled nearly all the time.
fn dirty_throttle(script: &mut Script) {
    for index in 0..300 {
        let write = script.write("sda", 1 << 20).by(9, "kworker").at((index * 33 * MS) as i64);
        write.origin(Origin::Writeback).direct(500, 500, 30 * MS).add();
    }
    let counts = Counts { writes: 100, write_bytes: 403_000, ..Counts::default() };
    script.did((7, "postgres"), "/data/copy", counts);
    script.wait((7, "postgres"), WaitClass::DirtyThrottle, 9000 * MS, 0, 0);
    on(script, "sda");
}

/// Names the device of the last wait.
fn on(script: &mut Script, device: &str) {
    let device = script.names.intern(device);
    if let Some(wait) = script.batch.waits.last_mut() {
        wait.device = Some(device);
    }
}

fn cgroup_throttle(script: &mut Script) {
    script.wait((7, "cat"), WaitClass::CgroupThrottle, 5000 * MS, 0, 0);
    script.stacked(&["blk_throtl_bio"]);
}

fn wbt_throttle(script: &mut Script) {
    if script.environment.devices.is_empty() {
        script.device("sda", &[("queue/wbt_lat_usec", "2000"), ("queue/rotational", "0")]);
    }
    for index in 0..200 {
        let write = script.write("sda", 65_536).by(7, "dd").at((index * 50 * MS) as i64);
        write.direct(20 * MS, 500, 2 * MS).add();
    }
    script.wait((7, "dd"), WaitClass::Wbt, 3000 * MS, 0, 0);
    script.waited_on("sda", "/out", 18);
}

fn copy_up(script: &mut Script) {
    for index in 0..600_u64 {
        let read = script.read("sda", 1 << 20).sector(index * 2048).origin(Origin::Readahead);
        let read = read.at((index * 16 * MS) as i64).by(7, "touch");
        read.file("/layers/1/big.db").direct(0, 0, 10 * MS).add();
    }
    script.wait((7, "touch"), WaitClass::PageRead, 6000 * MS, 5000 * MS, 0);
    script.stacked(&["filemap_get_pages", "ovl_copy_up_file", "ovl_copy_up_one", "ovl_setattr"]);
    on(script, "sda");
}

fn major_faults(script: &mut Script) {
    for index in 0..400_u64 {
        let read = script.read("sda", 65_536).by(7, "app").at((index * 20 * MS) as i64);
        let read = read.sector(index % 100 * 128).origin(Origin::PageFault);
        read.file("/usr/lib/libapp.so.1").direct(0, 0, 15 * MS).add();
        script.wait((7, "app"), WaitClass::PageFault, 16 * MS, 15 * MS, 0);
    }
}

/// A log that is synced fifty times per second.
fn fsync_heavy(script: &mut Script) {
    for index in 0..500 {
        let write = script.write("sdb", 4096).by(7, "etcd").at((index * 20 * MS) as i64);
        write.sector(index * 8).direct(500, 500, 15 * MS).add();
        script.wait((7, "etcd"), WaitClass::Fsync, 18 * MS, 15 * MS, 0);
        script.waited_on("sdb", "/data/member/wal/0.wal", 75);
    }
}

fn memory_reclaim(script: &mut Script) {
    script.wait((7, "java"), WaitClass::Reclaim, 5000 * MS, 0, 0);
    script.stacked(&["schedule_timeout_killable", "mem_cgroup_handle_over_high"]);
}

fn sync_storm(script: &mut Script) {
    for index in 0..100 {
        let sleep = script.sleep((7, "agent"), index * 100 * MS, 60 * MS).call(306).device("sda");
        let mut sleep = sleep;
        sleep.wait.class = WaitClass::Fsync;
        sleep.add();
    }
}

fn flush_cost(script: &mut Script) {
    for index in 0..100 {
        let at = (index * 100 * MS) as i64;
        script.write("sda", 8192).by(7, "mariadbd").at(at).direct(500, 500, MS / 10).add();
        let flush = script.request("sda", Operation::Flush).by(7, "mariadbd").at(at);
        flush.direct(500, 500, 40 * MS).add();
        script.wait((7, "mariadbd"), WaitClass::Fsync, 41 * MS, 40 * MS, 0);
        script.waited_on("sda", "/var/lib/mysql/ib_logfile0", 75);
    }
}

fn inode_lock(script: &mut Script) {
    for tid in [7, 8, 9] {
        script.wait((tid, "app"), WaitClass::FsLock, 3000 * MS, 0, 0);
        script.waited_on("sda", "/srv/a", 1);
        script.stacked(&["ext4_buffered_write_iter"]);
    }
}

fn thin_pool(script: &mut Script) {
    if script.environment.devices.is_empty() {
        script.device("dm-3", &[]).below = vec!["sda2".to_owned()];
    }
    let copier = ["dispatch_io", "dm_io", "run_io_job", "process_jobs", "do_work"];
    for index in 0..400_u64 {
        let at = (index * 20 * MS) as i64;
        let own = script.write("dm-3", 4096).at(at).sector(index * 4096);
        own.by(9, "mysqld").stacks(&["iomap_dio_rw"], &[], 1).bio(15 * MS).add();
        let copy = script.read("sda", 65_536).at(at).sector(index * 4096);
        copy.by(4, "kworker/0:1").stacks(&copier, &[], 1).direct(0, 0, 8 * MS).add();
    }
    script.wait((9, "mysqld"), WaitClass::Device, 5000 * MS, 5000 * MS, 0);
    on(script, "dm-3");
}

fn split_requests(script: &mut Script) {
    if script.environment.devices.is_empty() {
        let settings = [("queue/max_hw_sectors_kb", "1024"), ("queue/max_sectors_kb", "16")];
        script.device("nvme0n1", &settings);
    }
    for index in 0..1600_u64 {
        let (whole, piece) = (index / 16, index % 16);
        let at = (whole * 90 * MS + piece * 1000) as i64;
        let read = script.read("nvme0n1", 16_384).by(7, "dd").at(at).sector(index * 32);
        read.direct(0, 0, MS * (1 + piece)).add();
    }
}

fn page_cache_thrash(script: &mut Script) {
    for index in 0..512_u64 {
        let again = script.read("sda", 131_072).sector(index % 64 * 256);
        let again = again.at((index * 19 * MS) as i64).origin(Origin::Readahead);
        again.by(7, "db").direct(0, 0, 8 * MS).add();
    }
    script.wait((7, "db"), WaitClass::PageRead, 4000 * MS, 4000 * MS, 0);
    on(script, "sda");
}

fn xfs_contention(script: &mut Script) {
    script.wait((7, "elasticsearch"), WaitClass::Reclaim, 6000 * MS, 0, 0);
    script.stacked(&[
        "xfs_iunpin_wait",
        "xfs_reclaim_inode",
        "xfs_reclaim_inodes_ag",
        "super_cache_scan",
        "shrink_node",
    ]);
}
