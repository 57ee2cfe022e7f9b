//! Two causes at once: both must be found, and nothing else first.

use super::caching::{code, mapped, mix, scan};
use super::journals::{appending, journal, logging, syncfs, syncing};
use super::limits::{cgroup_throttle, large_reads, reads, slow_tail, small_writes, tags, uring};
use super::*;

/// The labs.
pub const LABS: &[Lab] = &[
    Lab::cause("two-limits-and-pieces", &["cgroup-throttle", "split-requests"], |stage| {
        both(stage, cgroup_throttle, |stage| large_reads(stage, Some("16")))
    }),
    Lab::cause("two-one-by-one", &["serial-reads", "small-writes"], |stage| {
        both(stage, |stage| reads(stage, 1), |stage| small_writes(stage, Some("2")))
    }),
    Lab::cause("two-scan-and-tail", &["metadata-scan", "device-slow-tail"], |stage| {
        both(stage, |stage| scan(stage, false), slow_tail)
    }),
    Lab::cause("two-faults-and-syncs", &["readahead-waste", "fsync-heavy"], |stage| {
        both(stage, |stage| mapped(stage, "0"), |stage| syncing(stage, "1"))
    }),
    Lab::cause("two-tags-and-workers", &["tag-starvation", "io-uring-punt"], |stage| {
        both(stage, |stage| tags(stage, Some("4")), |stage| uring(stage, Engine::IoUringForceAsync))
    }),
    Lab::cause("two-journals", &["journal-full", "inode-lock"], |stage| {
        both(stage, |stage| journal(stage, "size=4"), |stage| appending(stage, true))
    }),
    Lab::cause("two-code-and-sync", &["major-faults", "sync-storm"], |stage| {
        both(stage, |stage| code(stage, 40), |stage| syncfs(stage, true))
    }),
    Lab::cause("two-limit-and-log", &["cgroup-throttle", "log-flood"], |stage| {
        both(stage, cgroup_throttle, |stage| logging(stage, 1, "app.log"))
    }),
    Lab::cause("two-mix-and-pieces", &["direct-buffered-mix", "split-requests"], |stage| {
        both(stage, |stage| mix(stage, true), |stage| large_reads(stage, Some("16")))
    }),
    Lab::cause("two-scan-and-syncs", &["metadata-scan", "fsync-heavy"], scan_beside_syncs),
    Lab::cause("two-reader-and-syncs", &["serial-reads", "fsync-heavy"], |stage| {
        both(stage, |stage| reads(stage, 1), |stage| syncing(stage, "1"))
    }),
];

/// Two scenes, each on a device of its own.
fn both(
    stage: &mut LabStage,
    one: fn(&mut LabStage) -> Result<()>,
    other: fn(&mut LabStage) -> Result<()>,
) -> Result<()> {
    one(stage)?;
    let device = std::mem::take(&mut stage.watched);
    other(stage)?;
    stage.watched = format!("{device} {}", stage.watched);
    // The gain from one of them alone is not the cost of both.
    stage.relief = None;
    Ok(())
}

/// Two programs on one file system: one walks over names and inodes, one syncs small writes.
fn scan_beside_syncs(stage: &mut LabStage) -> Result<()> {
    let (device, hidden) = stage.hidden(768)?;
    let disk = caching::tree(stage, device, 24_000, 1)?;
    let file = fio::prepare(&disk.path().join("journal.db"), 32 * MIB)?;
    stage.uneven(&hidden, 250, 400);
    let walk = include_str!("../../../programs/scan_beside_syncs_walk.py");
    stage.python(walk, &[disk.path()])?;
    let job = Job::new(&file, Engine::Psync, FioAccess::Write, 4096)
        .with("size", (32 * MIB).to_string())
        .with("fsync", "1");
    stage.fio(job)?;
    stage.keep(disk);
    Ok(())
}
