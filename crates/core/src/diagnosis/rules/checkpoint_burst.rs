//! A checkpoint, a flush of pages or a compaction writes in bursts, and syncs wait behind it.

use super::super::programs::{self, Role, Topic};
use super::*;
use crate::analysis::patterns::{Bin, DevicePatterns, SyncBin};
use crate::analysis::summary::DeviceSummary;
use std::collections::BTreeMap;

/// The share of the bins that may hold most of the writing. Chosen: a saw-tooth, not a stream.
const BINS_SHARE: f64 = 0.5;
/// The share of the written bytes that those bins hold.
const BYTES_SHARE: f64 = 0.8;
/// How many times longer syncs take in these bins. Chosen, as for reads (writeback-burst).
const SLOWER: f64 = 2.5;
/// Waits for syncs that each kind of bin must hold.
const SYNCS: u64 = 10;
/// How many times more bytes must be written for each sync in the bursts: a load that only commits more
/// writes as much for each. Chosen.
const MORE: f64 = 4.0;

rule!(
    "checkpoint-burst",
    "syncs behind a checkpoint",
    "A database writes its changed pages in bursts (a checkpoint, a flush of its pool, a compaction), and \
     syncs them. For as long as that lasts the device's queue is full of writes, and each commit, which \
     syncs a few kilobytes of the log, waits behind them. In between commits are fast, so that averages \
     look harmless.",
    "Syncs that are as slow without the writes.",
    needs: [Waits, Origins, FineTime],
    symptoms: ["fsync-heavy", "noisy-neighbour"],
);

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_waits()?;
    let found = facts.devices().iter().filter_map(|device| {
        let patterns = facts.patterns(&device.device)?;
        Some((device, patterns, burst(patterns)?))
    });
    let Some((device, patterns, burst)) = found.max_by_key(|(.., burst)| burst.extra_ns) else {
        return Ok(Verdict::Clear);
    };
    Ok(finding(facts, device, patterns, &burst).into())
}

struct Burst {
    during: SyncBin,
    calm: SyncBin,
    /// What the syncs took longer than in calm, nanoseconds.
    extra_ns: u64,
    /// The bins that are bursts.
    bins: Vec<bool>,
    share: f64,
}

fn mean_ns(bin: &SyncBin) -> f64 {
    bin.time_ns as f64 / bin.waits.max(1) as f64
}

fn burst(patterns: &DevicePatterns) -> Option<Burst> {
    let bins = &patterns.timeline.bins;
    let syncs = patterns.syncs.coarser(patterns.timeline.bin_ns)?;
    let written = |bins: &[&Bin]| bins.iter().map(|bin| bin.write_bytes).sum::<u64>();
    let all: Vec<&Bin> = bins.iter().collect();
    let mean = written(&all) / bins.len().max(1) as u64;
    let is_burst: Vec<bool> = bins.iter().map(|bin| bin.write_bytes > mean).collect();
    let of = |burst: bool| {
        let zipped = syncs.iter().zip(&is_burst).filter(|(_, is)| **is == burst);
        zipped.map(|(bin, _)| *bin).fold(SyncBin::default(), SyncBin::with)
    };
    let bytes = |burst: bool| -> u64 {
        let zipped = bins.iter().zip(&is_burst).filter(|(_, is)| **is == burst);
        zipped.map(|(bin, _)| bin.write_bytes).sum()
    };
    let (during, calm) = (of(true), of(false));
    let share = bytes(true) as f64 / (bytes(true) + bytes(false)).max(1) as f64;
    let count = is_burst.iter().filter(|it| **it).count();
    let is_rare = count as f64 <= BINS_SHARE * bins.len() as f64 && share >= BYTES_SHARE;
    let each = |bytes: u64, bin: &SyncBin| bytes as f64 / bin.waits.max(1) as f64;
    let more = each(bytes(true), &during) >= MORE * each(bytes(false), &calm);
    let slower = mean_ns(&during) >= SLOWER * mean_ns(&calm);
    let enough = during.waits >= SYNCS && calm.waits >= SYNCS;
    let extra_ns = during.time_ns.saturating_sub((mean_ns(&calm) * during.waits as f64) as u64);
    (is_rare && more && slower && enough).then_some(Burst {
        during,
        calm,
        extra_ns,
        bins: is_burst,
        share,
    })
}

/// Who writes most in the bursts: a process name, its number, and its file.
fn writer(patterns: &DevicePatterns, burst: &Burst) -> Option<(String, Option<u32>, Option<String>)> {
    let inside = |bytes: &[u64]| -> u64 {
        bytes.iter().zip(&burst.bins).filter(|(_, is)| **is).map(|(bytes, _)| bytes).sum()
    };
    let most = patterns.owners.iter().max_by_key(|it| inside(&it.bytes))?;
    Some((most.process.clone(), most.pid, most.file.clone()))
}

/// Who waits longest for syncs on the device.
fn victim(facts: &Facts<'_>, device: &str) -> Subject {
    let waited = facts.waits(|it| facts.is_sync(it) && it.device.as_deref() == Some(device));
    let mut programs: BTreeMap<&str, u64> = BTreeMap::new();
    for group in &waited.groups {
        *programs.entry(&group.process).or_default() += group.time_ns;
    }
    let most = programs.into_iter().max_by_key(|(_, time)| *time);
    Subject { process: most.map(|(name, _)| name.to_owned()), pid: None, ..waited.subject() }
}

fn finding(
    facts: &Facts<'_>,
    device: &DeviceSummary,
    patterns: &DevicePatterns,
    burst: &Burst,
) -> Finding {
    let name = &device.device;
    let (process, pid, file) = writer(patterns, burst).unwrap_or_default();
    let subject = Subject {
        device: Some(name.clone()),
        process: Some(process).filter(|it| !it.is_empty()),
        pid,
        container: None,
        file,
    };
    let victim = victim(facts, name);
    let (process, file) = (subject.process.as_deref(), subject.file.as_deref());
    let role = file.and_then(|file| programs::role_of(process, file));
    let topic = match role {
        Some(Role::Compaction) => Topic::Compaction,
        Some(Role::Snapshot) => Topic::Snapshot,
        _ => Topic::Checkpoint,
    };
    let own = programs::of(process, file).and_then(|it| it.advice(topic));
    let sentence = format!(
        "{} writes to {name} in bursts: a sync of {} takes {} meanwhile, {} otherwise",
        words::who(&subject),
        words::who(&victim),
        words::time(mean_ns(&burst.during)),
        words::time(mean_ns(&burst.calm)),
    );
    let general = "spread the writes (smaller and more frequent checkpoints; start writing earlier: \
                   `sysctl vm.dirty_background_bytes=67108864`, of the whole machine); put the log on \
                   its own device";
    let stat = format!("iowhy stat -d {name} 1");
    Finding::of_blocked(facts, burst.extra_ns, sentence)
        .about(subject)
        .shown("mean sync in the bursts", mean_ns(&burst.during), "ns", "iowhy waits")
        .shown("mean sync otherwise", mean_ns(&burst.calm), "ns", "iowhy waits")
        .shown("written in the bursts", burst.share * 100.0, "%", stat)
        .fix(own.unwrap_or(general))
        .check(
            "`iowhy -t 60` holds several bursts: if syncs are as slow between them, they have another \
             reason",
        )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::diagnose;
    use crate::model::{Origin, WaitClass};
    use crate::script::{START_NS, Script};

    const MS: u64 = 1_000_000;

    /// Commits every 20 ms that sync a log, and from 4 s to 6 s `pages` of 64 KiB of a checkpoint each 10
    /// ms, in which a sync takes `slow_ms`.
    fn found(pages: u64, slow_ms: u64, commits: u64) -> Option<Finding> {
        let mut script = Script::new(10);
        let burst = |at: u64| (4000..6000).contains(&at);
        for at in (0..10_000).step_by(20) {
            let (takes, count) = if burst(at) { (slow_ms, commits) } else { (4, 1) };
            for _ in 0..count {
                let write = script.write("sda", 8192).by(7, "postgres").at((at * MS) as i64);
                write.file("/db/pg_wal/1").direct(500, 500, takes * MS).add();
                script.wait((7, "postgres"), WaitClass::Fsync, takes * MS, takes * MS, 0);
                let sda = script.names.intern("sda");
                let wait = script.batch.waits.last_mut().unwrap();
                (wait.start_ns, wait.device) = (START_NS + at * MS, Some(sda));
                wait.syscall = Some(75);
            }
        }
        for at in (4000..6000).step_by(10) {
            for _ in 0..pages {
                let write = script.write("sda", 65_536).by(9, "postgres").at((at * MS) as i64);
                let write = write.origin(Origin::Writeback).file("/db/base/16384/2619");
                write.direct(500, 500, 20 * MS).add();
            }
        }
        let findings = diagnose(&script.summary()).findings;
        findings.into_iter().find(|it| it.cause == "checkpoint-burst")
    }

    #[test]
    fn commits_wait_behind_a_checkpoint() {
        let found = found(4, 60, 1).unwrap();
        assert!(found.sentence.contains("takes 57.3 ms meanwhile, 4.00 ms otherwise"), "{found:?}");
        assert!(found.fix.contains("checkpoint"), "{}", found.fix);
        assert!(found.impact > 0.5, "{found:?}");
    }

    #[test]
    fn commits_that_are_as_fast_meanwhile_do_not_wait() {
        assert_eq!(found(4, 9, 1), None, "a little slower");
        assert_eq!(found(0, 60, 12), None, "more commits, and no checkpoint");
    }
}
