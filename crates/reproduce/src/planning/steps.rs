//! The part of a load that fio cannot make, for the small programs that come with a reproduction:
//! scans of names, files that live for seconds, threads behind a lock.
//!
//! What does not belong here: reads, writes and syncs (see [`super::from_stream`]).

use super::PlanContext;
use crate::plan::PlannedStep;
use crate::streams::class::FileClass;
use crate::streams::stream::LoadStream;
use crate::streams::{NameCalls, ScanTally};
use iowhy_analysis::summary::ChainRow;

/// Files created per second from which they come and go. Chosen, as the cause `temp-file-churn`.
const CREATES_PER_S: f64 = 3.0;
/// Metadata reads per second from which a program scans. Chosen.
const SCANS_PER_S: f64 = 5.0;
/// The largest tree.
const MOST_DIRECTORIES: u64 = 20_000;
const MOST_FILES: u64 = 400_000;
/// Directories in multiples of those that the watch read, for the time before it.
const SPARE: f64 = 2.0;
/// Inodes of ext4 in a block of 4 KiB.
const INODES: u64 = 16;
const MOST_THREADS: u64 = 64;

/// Files that are made and removed; `None` if the stream's files stay.
pub fn churn(
    context: &PlanContext<'_>,
    disk: usize,
    class: &FileClass,
    stream: &LoadStream,
    names: NameCalls,
) -> Option<PlannedStep> {
    let counts = &stream.calls;
    let created = counts.creates;
    let is_pattern = class.pattern.contains(['N', '*']);
    let goes = counts.unlinks * 2 >= created || stream.lives.0 * 2 >= created;
    let many = created as f64 >= CREATES_PER_S * context.seconds();
    // Files that a program reads back from the disk have left the page cache: no short lives.
    let from_disk = stream.read.bytes * 2 > counts.read_bytes.max(1);
    if !is_pattern
        || !many
        || from_disk
        || counts.write_bytes == 0
        || !(goes || counts.reads >= created)
    {
        return None;
    }
    let alive = match stream.lives {
        (lives, sum) if lives > 0 => created as f64 * (sum as f64 / lives as f64) / context.ns(),
        _ => created as f64 / 2.0,
    };
    // All who do it, also where few of them wait at a time: their files add up.
    let waiting = stream.waits.most(context.duration_ns);
    let rounds = stream.folders_at_once(context.duration_ns);
    let threads = waiting.max(rounds).round().clamp(1.0, 64.0);
    let pause_ns = (threads * context.ns() - stream.waits.total_ns as f64).max(0.0);
    // If each round has a folder of its own, that has the files of a round.
    let files = match (stream.most_in_folder(), names.removed) {
        (Some(most), _) => most as f64,
        (None, 1..) if counts.unlinks > names.removed => {
            counts.unlinks as f64 / names.removed as f64
        }
        _ => alive / threads,
    };
    Some(PlannedStep::Churn {
        disk,
        files: files.round().clamp(1.0, 100_000.0) as u64,
        bytes: counts.write_bytes / created,
        reads: (counts.read_bytes as f64 / counts.write_bytes as f64).round().min(8.0) as u64,
        synced: counts.fsyncs * 2 >= created,
        threads: threads as u32,
        think_us: pause_ns / created as f64 / 1e3,
    })
}

/// A walk through names and inodes that are not cached.
pub fn scan(
    context: &PlanContext<'_>,
    disk: usize,
    tally: &ScanTally,
    calls: NameCalls,
) -> Option<PlannedStep> {
    if (tally.requests as f64) < SCANS_PER_S * context.seconds() {
        return None;
    }
    // Each directory costs its own block and those of its inodes.
    let listed = (calls.scans / 2).max(1);
    let stats = calls.stats.max(tally.requests);
    let files = match calls.scans {
        0 => INODES,
        _ => (stats / listed).clamp(1, 500),
    };
    // If more is read for each name, inodes are scattered: fewer names share a block.
    let read_each = tally.requests as f64 / stats.max(1) as f64;
    let costs = |files: u64| (1 + files.div_ceil(INODES)) as f64 / files as f64;
    let files = (1..=files).rev().find(|files| costs(*files) >= read_each).unwrap_or(1);
    let blocks = 1 + files.div_ceil(INODES);
    let directories = (tally.requests as f64 * SPARE / blocks as f64).ceil() as u64;
    let directories = directories.clamp(8, MOST_DIRECTORIES).min(MOST_FILES / files).max(1);
    let at_once = tally.time_ns as f64 / context.ns();
    let threads = (tally.threads.len() as f64).min(at_once.ceil()).clamp(1.0, MOST_THREADS as f64);
    let pause_ns = (threads * context.ns() - tally.time_ns as f64).max(0.0);
    Some(PlannedStep::Scan {
        disk,
        directories,
        files,
        threads: threads as u32,
        think_us: pause_ns / (tally.requests as f64 * files as f64 / blocks as f64) / 1e3,
    })
}

/// A lock whose holder writes to the stream's files.
pub fn lock(
    context: &PlanContext<'_>,
    disk: usize,
    chain: &ChainRow,
    stream: &LoadStream,
) -> Option<PlannedStep> {
    let waiters = chain.steps.first()?.threads.clamp(1, 256) as u32;
    let counts = &stream.calls;
    let (writes, bytes) = match counts.writes {
        0 => (stream.write.requests, stream.write.bytes),
        writes => (writes, counts.write_bytes),
    };
    let synced = stream.synced();
    let turns = if synced > 0 { synced } else { writes };
    if turns == 0 || bytes == 0 {
        return None;
    }
    let pause_ns = (context.ns() - stream.waits.total_ns as f64).max(0.0);
    Some(PlannedStep::Lock {
        disk,
        waiters,
        bytes: (bytes / turns).max(1),
        block: (bytes / writes.max(1)).max(1),
        synced: synced > 0,
        think_us: pause_ns / turns as f64 / 1e3,
    })
}
