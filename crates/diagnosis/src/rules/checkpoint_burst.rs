//! A checkpoint, a flush of pages or a compaction writes in bursts, and syncs wait behind it.

use super::super::bottleneck::bound::{self, FELT_NS};
use super::super::programs::{self, FileRole, Topic};
use super::*;
use facts::Waited;
use facts::calls::READ;
use facts::thresholds::{BINS_OF_BURSTS, BYTES_OF_BURSTS, SLOWER_IN_BURSTS};
use iowhy_analysis::summary::patterns::{Bin, DevicePatterns, SyncBin};
use std::collections::BTreeMap;

/// The least share of the time of all writes that goes to such files, if a burst outlasts the
/// watch. Chosen.
const TIME_SHARE: f64 = 0.8;
/// The largest share: parts are rounded, and may add up to more than all.
const ELSEWHERE: f64 = 1.05;
/// The least number of sync waits in each kind of bin.
const SYNCS: u64 = 10;
/// The least ratio of bytes written per sync in the bursts to those outside: a load that only
/// commits more writes the same per sync. Chosen.
const MORE: f64 = 4.0;
/// The most time that one process waits for reads of its data, for each second that its program
/// waits for syncs of its log, if the syncs are the trouble. Chosen.
const READS: u64 = 2;
/// Files whose writes no commit depends on.
const BESIDE: &[FileRole] = &[FileRole::Data, FileRole::Snapshot, FileRole::Compaction];

rule!(
    "checkpoint-burst",
    "syncs queued behind a checkpoint",
    "A database writes its dirty pages in bursts (a checkpoint, a buffer pool flush, a compaction) \
     and syncs them. During a burst the device's queue is full of writes, and each commit, which \
     syncs a few kilobytes of the log, waits behind them. Between bursts commits are fast, so \
     averages look harmless.",
    "Syncs are as slow without the writes.",
    place: Program,
    needs: [Waits, Origins, FineTime],
    picture: Bytes,
);

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_waits()?;
    let found = facts.devices().iter().filter_map(|device| {
        let patterns = facts.patterns(&device.device)?;
        let burst = burst(patterns).filter(|burst| is_of_syncs(facts, device, burst))?;
        Some((device, patterns, burst))
    });
    if let Some((device, patterns, burst)) = found.max_by_key(|(.., burst)| burst.extra_ns) {
        return Ok(finding(facts, device, patterns, &burst).into());
    }
    let lasting = facts.devices().iter().find_map(|device| lasting(facts, device));
    Ok(lasting.map_or(RuleVerdict::Clear, RuleVerdict::from))
}

struct SyncBurst {
    during: SyncBin,
    calm: SyncBin,
    /// The time by which the syncs took longer than outside bursts, in total, nanoseconds.
    extra_ns: u64,
    /// The bins that are bursts.
    bins: Vec<bool>,
    share: f64,
}

/// Whether programs asked for most of these syncs: a copy that truncates or closes a file waits for
/// what it has just written itself.
fn is_of_syncs(facts: &Facts<'_>, device: &DeviceSummary, burst: &SyncBurst) -> bool {
    let asked = facts.waits(|it| facts.is_sync(it) && it.device.as_ref() == Some(&device.device));
    asked.time_ns >= burst.during.time_ns.saturating_add(burst.calm.time_ns) / 2
}

fn mean_ns(bin: &SyncBin) -> f64 {
    bin.time_ns as f64 / bin.waits.max(1) as f64
}

fn burst(patterns: &DevicePatterns) -> Option<SyncBurst> {
    let bins = &patterns.timeline.bins;
    let syncs = patterns.syncs.coarser(patterns.timeline.bin_ns)?;
    let written =
        |bins: &[&Bin]| bins.iter().map(|bin| bin.write_bytes).fold(0_u64, u64::saturating_add);
    let all: Vec<&Bin> = bins.iter().collect();
    let mean = written(&all) / bins.len().max(1) as u64;
    let is_burst: Vec<bool> = bins.iter().map(|bin| bin.write_bytes > mean).collect();
    let of = |burst: bool| {
        let zipped = syncs.iter().zip(&is_burst).filter(|(_, is)| **is == burst);
        zipped.map(|(bin, _)| *bin).fold(SyncBin::default(), SyncBin::with)
    };
    let bytes = |burst: bool| -> u64 {
        let zipped = bins.iter().zip(&is_burst).filter(|(_, is)| **is == burst);
        zipped.map(|(bin, _)| bin.write_bytes).fold(0, u64::saturating_add)
    };
    let (during, calm) = (of(true), of(false));
    let share = bytes(true) as f64 / (bytes(true) + bytes(false)).max(1) as f64;
    let count = is_burst.iter().filter(|it| **it).count();
    let is_rare = count as f64 <= BINS_OF_BURSTS * bins.len() as f64 && share >= BYTES_OF_BURSTS;
    let each = |bytes: u64, bin: &SyncBin| bytes as f64 / bin.waits.max(1) as f64;
    let more = each(bytes(true), &during) >= MORE * each(bytes(false), &calm);
    let slower = mean_ns(&during) >= SLOWER_IN_BURSTS * mean_ns(&calm);
    let enough = during.waits >= SYNCS && calm.waits >= SYNCS;
    let extra_ns = during.time_ns.saturating_sub((mean_ns(&calm) * during.waits as f64) as u64);
    (is_rare && more && slower && enough).then_some(SyncBurst {
        during,
        calm,
        extra_ns,
        bins: is_burst,
        share,
    })
}

/// Returns the main writer in the bursts: process name, PID and file.
fn writer(
    patterns: &DevicePatterns,
    burst: &SyncBurst,
) -> Option<(String, Option<u32>, Option<String>)> {
    let inside = |bytes: &[u64]| -> u64 {
        bytes.iter().zip(&burst.bins).filter(|(_, is)| **is).map(|(bytes, _)| bytes).sum()
    };
    let most = patterns.owners.iter().max_by_key(|owner| inside(&owner.bytes))?;
    Some((most.process.clone(), most.pid, most.file.clone()))
}

/// Returns the process that waits longest for syncs on the device.
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
    burst: &SyncBurst,
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
    let own = programs::of(process, file).and_then(|it| it.advice(topic(role)));
    let sentence = format!(
        "{} writes to {name} in bursts: a sync of {} takes {} during them, {} otherwise",
        words::who(&subject),
        words::who(&victim),
        words::time(mean_ns(&burst.during)),
        words::time(mean_ns(&burst.calm)),
    );
    let stat = format!("iowhy stat -d {name} 1");
    Finding::of_blocked(facts, burst.extra_ns, sentence)
        .about(subject)
        .shown("mean sync time in bursts", mean_ns(&burst.during), "ns", "iowhy waits")
        .also("mean sync time otherwise", mean_ns(&burst.calm), "ns")
        .shown("share of bytes written in bursts", burst.share * 100.0, "%", stat)
        .fix(own.unwrap_or(GENERAL))
        .check(
            "`iowhy -t 60` covers several bursts: if syncs are as slow between them, they have \
             another cause",
        )
}

/// A burst that lasts longer than the watch: syncs of a log are slow on a saturated device, whose
/// write time goes mostly to other files of the same program.
fn lasting(facts: &Facts<'_>, device: &DeviceSummary) -> Option<Finding> {
    let name = &device.device;
    let is_log = |process: &str, file: &str| {
        programs::role_of(Some(process), file) == Some(FileRole::WriteAheadLog)
    };
    let waited = facts.waits(|it| {
        let is_log = it.file.as_deref().is_some_and(|file| is_log(&it.process, file));
        is_log && facts.is_sync(it) && it.device.as_ref() == Some(name)
    });
    let process = &waited.groups.first()?.process;
    // A statement that builds a table anew writes as much, but is no checkpoint.
    let is_new = |file: &str| programs::role_of(Some(process), file) == Some(FileRole::NewTable);
    let builds = facts.waits(|it| it.process == *process && it.file.as_deref().is_some_and(is_new));
    if builds.time_ns > waited.time_ns {
        return None;
    }
    // On a saturated device a shorter wait matters, too.
    let is_slow = waited.mean_ns() >= FELT_NS
        && (waited.waits >= SYNCS || waited.time_ns >= facts.duration_ns() / 10);
    let written = facts.written(process, BESIDE)?;
    let all_ns = facts::stage(device, Direction::Write, Interval::Q2c)?.sum_ns;
    let of_system = [Origin::Journal, Origin::Metadata].map(|it| facts::origin_of(device, it).0);
    let of_files = all_ns.saturating_sub(of_system.iter().sum());
    let share = written.time_ns as f64 / of_files.max(1) as f64;
    // More than all of it: these files are on another device.
    let is_most = (TIME_SHARE..=ELSEWHERE).contains(&share);
    let flush_ns = facts::stage(device, Direction::Flush, Interval::D2c).map_or(0, |it| it.sum_ns);
    // If the device flushes its cache most of the time, everything waits for that.
    let is_written = 2 * flush_ns < facts.duration_ns();
    // A program that mostly waits for its reads has too small a cache, or reads too much.
    let reads = facts.waits(|it| {
        let is_data = it.file.as_deref().is_some_and(|file| !is_log(&it.process, file));
        let is_own = it.process == *process && it.device.as_ref() == Some(name);
        is_own && is_data && facts.is_call(it.syscall, READ)
    });
    let longest_ns = reads.groups.first().map_or(0, |group| group.time_ns);
    let is_of_commits = longest_ns <= READS.saturating_mul(waited.time_ns);
    let fits = is_slow && is_most && is_written && is_of_commits && bound::is_saturated(device);
    fits.then(|| of_lasting(facts, device, &waited, written.role, share.min(1.0), written.file))
}

fn of_lasting(
    facts: &Facts<'_>,
    device: &DeviceSummary,
    waited: &Waited<'_>,
    role: FileRole,
    share: f64,
    file: Option<String>,
) -> Finding {
    let name = &device.device;
    let victim = waited.subject();
    let process = victim.process.as_deref();
    let own = programs::of(process, file.as_deref()).and_then(|it| it.advice(topic(Some(role))));
    let log = programs::phrase(process, None, FileRole::WriteAheadLog);
    let sentence = format!(
        "{} of {} delays the syncs of its {log}, {} each: writes of its {} take {} of the time of \
         all file writes to {name}",
        writer_of(role),
        process.unwrap_or_default(),
        words::time(waited.mean_ns()),
        programs::phrase(process, None, role),
        words::percent(share),
    );
    let stat = format!("iowhy stat -d {name}");
    // Reads wait behind these writes, too.
    let near = facts.waits(|group| group.device.as_ref() == Some(name));
    let behind = Claims::of_requests(&near).scaled(share);
    Finding::of_waits(facts, waited, sentence)
        .claiming(Claims::of_waits(waited).and(&behind))
        // Without these writes syncs would still take their own time.
        .upper_bound()
        .sure(Confidence::Likely)
        .shown("mean sync time of the log", waited.mean_ns(), "ns", "iowhy waits")
        .shown("requests in flight while busy", bound::depth(device), "requests", stat)
        .fix(own.unwrap_or(GENERAL))
        .check(format!(
            "`iowhy -t 60` after {} has ended (see the program's log): if syncs are as slow then, \
             they have another cause",
            writer_of(role).replacen("a ", "the ", 1),
        ))
        .about(Subject { pid: None, file, ..victim })
}

/// Returns what writes such files.
fn writer_of(role: FileRole) -> &'static str {
    match role {
        FileRole::Compaction => "compaction",
        FileRole::Snapshot => "a snapshot",
        _ => "a checkpoint",
    }
}

/// The fix for programs without settings of their own for it.
const GENERAL: &str = "spread the writes (smaller and more frequent checkpoints; start writing \
                       earlier: `sysctl vm.dirty_background_bytes=67108864`, which affects the \
                       entire machine); put the log on its own device";

fn topic(role: Option<FileRole>) -> Topic {
    match role {
        Some(FileRole::Compaction) => Topic::Compaction,
        Some(FileRole::Snapshot) => Topic::Snapshot,
        _ => Topic::Checkpoint,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnose;
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::script::{MS, START_NS, Script};

    /// Commits every 20 ms that sync a log, and from 4 s to 6 s `pages` of 64 KiB of a checkpoint
    /// every 10 ms, in which a sync takes `slow_ms`.
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
        findings.into_iter().find(|finding| finding.cause == "checkpoint-burst")
    }

    #[test]
    fn commits_wait_behind_a_checkpoint() {
        let found = found(4, 60, 1).unwrap();
        assert!(
            found.sentence.contains("takes 57.3 ms during them, 4.00 ms otherwise"),
            "{found:?}"
        );
        assert!(found.fix.contains("checkpoint"), "{}", found.fix);
        assert!(found.impact > 0.5, "{found:?}");
    }

    /// The same with a checkpoint that never ends, with this many pages in flight, each taking
    /// `page_ms`; a commit writes 8 KiB every `every_ms`.
    fn lasting(pages: u64, page_ms: u64, every_ms: u64, sync_us: u64) -> Option<Finding> {
        beside_reads(pages, page_ms, every_ms, sync_us, 0)
    }

    /// The same beside a session that waits `read_ms` for reads of the data.
    fn beside_reads(
        pages: u64,
        page_ms: u64,
        every_ms: u64,
        sync_us: u64,
        read_ms: u64,
    ) -> Option<Finding> {
        let mut script = Script::new(10);
        if read_ms > 0 {
            script.wait((8, "postgres"), WaitClass::Device, read_ms * MS, read_ms * MS, 0);
            let (sda, file) = (script.names.intern("sda"), script.names.intern("/db/base/1/1"));
            let wait = script.batch.waits.last_mut().unwrap();
            (wait.syscall, wait.device, wait.file) = (Some(17), Some(sda), Some(file));
        }
        for at in (0..10_000).step_by(every_ms as usize) {
            let write = script.write("sda", 8192).by(7, "postgres").at((at * MS) as i64);
            write.file("/db/pg_wal/1").direct(500, 500, sync_us * 1000).add();
            script.wait((7, "postgres"), WaitClass::Fsync, sync_us * 1000, sync_us * 1000, 0);
            let (sda, file) = (script.names.intern("sda"), script.names.intern("/db/pg_wal/1"));
            let wait = script.batch.waits.last_mut().unwrap();
            (wait.start_ns, wait.device) = (START_NS + at * MS, Some(sda));
            (wait.syscall, wait.file) = (Some(75), Some(file));
        }
        for at in (0..10_000).step_by(10) {
            for page in 0..pages {
                let write = script.write("sda", 65_536).by(9, "postgres").at((at * MS) as i64);
                let file = format!("/db/base/16384/{page}");
                write.origin(Origin::Writeback).file(&file).direct(500, 500, page_ms * MS).add();
            }
        }
        let findings = diagnose(&script.summary()).findings;
        findings.into_iter().find(|finding| finding.cause == "checkpoint-burst")
    }

    #[test]
    fn a_checkpoint_that_outlasts_the_watch_is_known_by_its_files() {
        let found = lasting(4, 20, 50, 40_000).unwrap();
        assert_eq!(found.confidence, Confidence::Likely);
        assert!(
            found
                .sentence
                .contains("a checkpoint of postgres delays the syncs of its write-ahead log"),
            "{found:?}"
        );
        assert_eq!(found.subject.file.as_deref(), Some("/db/base/16384/*"));
        assert!(lasting(4, 20, 5, 1100).is_some());
        assert!(beside_reads(4, 20, 50, 20_000, 7000).is_some());
        assert_eq!(beside_reads(4, 20, 50, 20_000, 9000), None, "it waits for its reads");
        assert_eq!(lasting(4, 20, 5, 900), None, "syncs are fast");
        assert_eq!(lasting(1, 4, 50, 2000), None, "the device has time left");
        assert_eq!(lasting(0, 20, 50, 40_000), None, "nothing but the log is written");
    }

    #[test]
    fn commits_that_are_as_fast_meanwhile_do_not_wait() {
        assert_eq!(found(4, 9, 1), None, "a little slower");
        assert_eq!(found(0, 60, 12), None, "more commits, and no checkpoint");
    }
}
