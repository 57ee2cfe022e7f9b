//! Programs whose functions are known: their stacks, by frame pointers and by tables; and two of
//! the documents' investigations, with what these come down to: threads that wait for one that
//! writes, and a walk through a tree that is not cached.
//!
//! What does not belong here: how a stack must look (see [`crate::unwound`]).

use super::{PATIENCE, json};
use crate::chains::{compiled_for, paths, shown};
use crate::kernels::succeeded;
use crate::recording::Recording;
use crate::unwound::{
    FRAME_POINTERS, NO_FRAME_POINTERS, expect_by_frame_pointers, expect_by_tables,
};
use iowhy_labs::Result;
use iowhy_labs::vm::{DiskLimits, Guest, GuestDisk, GuestOutcome, Kernel};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// The threads of the program `chains` that want its lock.
const WORKERS: usize = 5;

/// Programs that write are watched while they run, and one that walks a tree from its beginning to
/// its end.
pub fn programs(kernel: Kernel) -> Result<()> {
    // What runs in the background outlasts the watch: iowhy reads its symbols meanwhile. Emulated,
    // a watch exceeds its budget, of which copies of stacks take what is left.
    let script = "set -e
        unwound-c /dev/disk/stacks 600 & unwound-fp /dev/disk/stacks 600 &
        iowhy record --every -d $(readlink /dev/disk/stacks) -t 4 -o /out/stacks
        kill $(jobs -p); wait || true

        mkfs.ext4 -qF -E lazy_itable_init=0 /dev/disk/data
        mkdir /tmp/data; mount /dev/disk/data /tmp/data
        dd if=/dev/zero of=/tmp/data/snapshot bs=4k count=1 conv=fsync status=none
        chains-c mutex /tmp/data/snapshot 600 &
        iowhy record -d $(readlink /dev/disk/data) -t 4 -o /out/lock
        kill $!; wait || true
        iowhy report --json /out/lock >/out/lock.json

        mkfs.ext4 -qF -I 1024 -N 800 -E lazy_itable_init=0 /dev/disk/tree
        mkdir /tmp/tree; mount /dev/disk/tree /tmp/tree
        for folder in $(seq 20); do
            mkdir /tmp/tree/$folder; (cd /tmp/tree/$folder; touch $(seq 30))
        done
        umount /tmp/tree; mount -o inode_readahead_blks=1 /dev/disk/tree /tmp/tree
        iowhy record -d $(readlink /dev/disk/tree) -o /out/walk -- find /tmp/tree -size +9
        iowhy report --json /out/walk >/out/walk.json";
    let architecture = kernel.architecture;
    let program = |source: &str, name: &str, options: &[&str]| -> Result<(String, PathBuf)> {
        Ok((format!("/usr/bin/{name}"), compiled_for(architecture, source, name, options)?))
    };
    let slow = |name: &str| GuestDisk::memory(name, 64 << 20).limited(DiskLimits::iops(40));
    let mut guest = Guest::new(kernel)
        .patience(PATIENCE)
        .disk(slow("stacks"))
        .disk(slow("data"))
        .disk(GuestDisk::memory("tree", 64 << 20).limited(DiskLimits::iops(100)));
    for (path, from) in [
        program("unwound.c", "unwound-c", NO_FRAME_POINTERS)?,
        program("unwound.c", "unwound-fp", FRAME_POINTERS)?,
        program("chains.c", "chains-c", FRAME_POINTERS)?,
    ] {
        guest = guest.file(path, from);
    }
    let outcome = guest.run(script)?;
    succeeded(&outcome);
    let stacks = Recording::open(&outcome.out().join("stacks"))?;
    expect_by_tables(&stacks, "unwound-c");
    expect_by_frame_pointers(&stacks, "unwound-fp");
    lock(&outcome)?;
    walk(&outcome)
}

/// The snapshot that stops the database: threads that do no I/O wait for the one that writes the
/// file.
fn lock(outcome: &GuestOutcome) -> Result<()> {
    let recording = Recording::open(&outcome.out().join("lock"))?;
    let found = paths(&recording, &["worker", "snapshot-writer"]);
    let workers: BTreeSet<u32> = found.iter().map(|path| path[0].tid).collect();
    assert_eq!(workers.len(), WORKERS, "{:?}", shown(&recording));
    let report = json(outcome, "lock.json")?;
    let first = &report["findings"][0];
    assert_eq!(first["cause"], "lock-behind-io", "{:#}", report["findings"]);
    assert_eq!(first["subject"]["file"], "/tmp/data/snapshot", "{first:#}");
    Ok(())
}

/// Sudden disk utilization: nothing is read but inodes and directories, by the one who walks.
fn walk(outcome: &GuestOutcome) -> Result<()> {
    let report = json(outcome, "walk.json")?;
    let first = &report["findings"][0];
    assert_eq!(first["cause"], "metadata-scan", "{:#}", report["findings"]);
    assert_eq!(first["subject"]["process"], "find", "{first:#}");
    Ok(())
}
