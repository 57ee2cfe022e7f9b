//! The device is slow to flush its cache.

use super::*;
use crate::programs::{self, Topic};
use facts::syncs::{ProgramSyncs, advice, of_file};
use iowhy_analysis::summary::StageTime;
use iowhy_analysis::summary::patterns::WaitGroup;

/// The least mean time of a slow flush: devices with power-loss protection take 0.1 ms and less,
/// consumer SSDs 1 to 5 ms, disks a rotation or two.
const SLOW_NS: f64 = 2_000_000.0;
/// And at least this multiple of the median write latency, so that the flush is slow and not the
/// device. Chosen.
const TIMES_WRITE: f64 = 4.0;
/// The least number of flushes to judge.
const LEAST: u64 = 5;
/// The share of the watch in which a device flushes from which its other requests wait for that.
/// Chosen.
const BUSY: f64 = 0.5;
/// The most that a flush may take as a multiple of the reads that wait for its end. Chosen: they
/// come at any moment of it.
const HELD: f64 = 4.0;
/// The least flushes of the kernel's own per write if each write ends with one. Chosen: the last
/// one may be open.
const EACH_WRITE: f64 = 0.8;

rule!(
    "flush-cost",
    "slow cache flushes",
    "Every fsync and journal commit makes the device flush its volatile cache. A device without \
     power-loss protection takes milliseconds for that, whatever the amount of data, and writes \
     that arrive meanwhile often wait behind it.",
    "Flushes are about as slow as writes: then the whole device is slow.",
    place: Flush,
    trial: "sync=none",
    picture: Heat,
);

fn judge(facts: &Facts<'_>) -> Judged {
    let flushed = |device: &DeviceSummary| {
        facts::stage(device, Direction::Flush, Interval::D2c).map_or(0, |stage| stage.sum_ns)
    };
    let device = facts.devices().iter().max_by_key(|device| flushed(device)).ok_or(Clear)?;
    let flush = facts::stage(device, Direction::Flush, Interval::D2c).ok_or(Clear)?;
    let median = median_of_data(facts, device, flush);
    // The median: a few flushes of a second are the device's outliers.
    let usual_ns = flush.p50_ns as f64;
    clear_if(flush.requests < LEAST || usual_ns < SLOW_NS || usual_ns < TIMES_WRITE * median)?;
    Ok(finding(facts, device, flush, median).into())
}

/// Whether each write ends with a flush of its own, as synchronous direct writes to a device do
/// that has no FUA: its completion is the flush's. A file system flushes by itself.
fn are_flushed(facts: &Facts<'_>, device: &DeviceSummary) -> bool {
    let writes = facts::of(device, Direction::Write).requests;
    let is_each = writes > 0 && device.helper_requests as f64 >= EACH_WRITE * writes as f64;
    is_each && facts.mounts(device).is_empty()
}

/// Returns the waits for such writes: they are for the device, like those for others.
fn flushed<'a>(facts: &Facts<'a>, device: &DeviceSummary) -> facts::Waited<'a> {
    let are_flushed = are_flushed(facts, device);
    facts.waits(|group| are_flushed && group.device.as_ref() == Some(&device.device))
}

/// Returns the median of a write without the flush that it ends with, nanoseconds; 0 without
/// writes.
fn median_of_data(facts: &Facts<'_>, device: &DeviceSummary, flush: StageTime) -> f64 {
    let write = facts::stage(device, Direction::Write, Interval::D2c);
    let median = write.map_or(0.0, |stage| stage.p50_ns as f64);
    match are_flushed(facts, device) {
        true => (median - flush.p50_ns as f64).max(0.0),
        false => median,
    }
}

/// Returns the sync waits that may be for the device, by program, and an upper bound of the part
/// spent flushing, nanoseconds: each sync waits for at least one flush.
fn syncs<'a>(facts: &Facts<'a>, name: &str, flush: &StageTime) -> (Vec<ProgramSyncs<'a>>, u64) {
    let served = facts.journalled(name);
    let is_on = |program_syncs: &ProgramSyncs<'_>| {
        program_syncs
            .waited
            .subject()
            .device
            .is_none_or(|device| device == name || served == Some(device.as_str()))
    };
    let syncs: Vec<ProgramSyncs<'a>> = facts.syncs().into_iter().filter(is_on).collect();
    let waited = |program_syncs: &ProgramSyncs<'_>| {
        let flushing = (program_syncs.count() as f64 * flush.mean_ns) as u64;
        program_syncs.waited.time_ns.min(flushing.max(flush.sum_ns))
    };
    let time_ns = syncs.iter().map(waited).fold(0, u64::saturating_add);
    (syncs, time_ns)
}

/// Returns the waits for the device beside syncs, and the part of them that is behind its flushes,
/// nanoseconds, if its reads are as slow as that.
fn behind<'a>(
    facts: &Facts<'a>,
    device: &DeviceSummary,
    flush: &StageTime,
) -> (facts::Waited<'a>, u64) {
    let busy = flush.sum_ns as f64 / facts.duration_ns().max(1) as f64;
    let is_other = |group: &WaitGroup| group.device.as_ref() == Some(&device.device);
    // Devices with several queues read meanwhile.
    let read = facts::stage(device, Direction::Read, Interval::D2c);
    let is_slow = read.is_some_and(|read| HELD * read.mean_ns >= flush.mean_ns);
    let is_behind = busy >= BUSY && is_slow && !are_flushed(facts, device);
    let others = facts.waits(|group| is_behind && is_other(group) && !facts.is_sync(group));
    let time_ns = others.time_ns as f64 * busy.min(1.0);
    (others, time_ns as u64)
}

fn finding(facts: &Facts<'_>, device: &DeviceSummary, flush: StageTime, median: f64) -> Finding {
    let name = &device.device;
    let (syncs, waited_ns) = syncs(facts, name, &flush);
    let direct = if syncs.is_empty() { flushed(facts, device) } else { facts::Waited::default() };
    let (others, behind_ns) = behind(facts, device, &flush);
    let waited_ns = waited_ns.max(direct.time_ns.min(flush.sum_ns)).saturating_add(behind_ns);
    let mut subject = match syncs.first() {
        Some(first) => first.subject(),
        None => direct.subject(),
    };
    subject.device = Some(name.clone());
    let than = match median > 0.0 {
        true => format!(" (a write: {})", words::time(median)),
        false => String::new(),
    };
    let unwritten = syncs.first().and_then(|syncs| facts.unwritten(syncs));
    let by_writes = syncs.first().is_none_or(|syncs| syncs.by_writes);
    let waits = waits_of(&subject, unwritten, by_writes);
    let holds = facts.journalled(name).map_or_else(String::new, |file_system| {
        format!(", which holds the journal of the file system on {file_system},")
    });
    let image = if is_cached_below(facts, device) { IN_CACHE } else { "" };
    let also = if behind_ns > 0 { "; reads wait behind it" } else { "" };
    let sentence = format!(
        "{name}{image}{holds} takes {} to flush its cache{than}{waits}{also}",
        words::time(flush.mean_ns),
    );
    let finding = if waited_ns > 0 {
        let groups = syncs.iter().flat_map(|syncs| &syncs.waited.groups);
        let groups = groups.chain(&direct.groups).chain(&others.groups);
        let claims = Claims::of_waits(&facts::Waited::from_groups(groups.copied().collect()));
        Finding::of_blocked(facts, waited_ns, sentence).claiming(claims.limited_to(waited_ns))
    } else {
        let whole = facts::device_time_ns(device) + flush.sum_ns;
        Finding::of_device(facts, flush.sum_ns, whole, sentence)
    };
    // The commands sent to the device; an explicit flush is a request of its own above them.
    let flushes = match facts::of(device, Direction::Flush).requests {
        0 => flush.requests,
        commands => commands,
    };
    let finding =
        finding.shown("mean flush latency", flush.mean_ns, "ns", format!("iowhy stages -d {name}"));
    let finding = match median > 0.0 {
        true => {
            finding.shown("median write latency", median, "ns", format!("iowhy stages -d {name}"))
        }
        false => finding,
    };
    let fix = match unwritten {
        Some(_) => of_many_files(&subject),
        None => fix(facts, device, &subject, by_writes),
    };
    finding
        .about(subject)
        .sure(Confidence::Certain)
        .shown("flushes", flushes as f64 / facts.seconds(), "1/s", format!("iowhy -d {name}"))
        .fix(fix)
        .check(
            "writes without syncs are fast (`dd if=/dev/zero of=NEWFILE bs=1M count=64 \
             oflag=direct` on it); if they are as slow, the whole device is slow",
        )
}

/// `; postgres (7) waits for it with each sync of the write-ahead log /pg_wal/1`.
fn waits_of(subject: &Subject, unwritten: Option<u64>, by_writes: bool) -> String {
    let who = words::who(subject);
    let call = if by_writes { "write" } else { "sync" };
    match (&subject.process, unwritten) {
        (Some(_), Some(files)) => format!(
            "; {who} syncs {} files one by one that it has not written",
            words::count(files),
        ),
        (Some(_), None) => format!("; {who} waits for it with each {call}{}", of_file(subject)),
        (None, _) => String::new(),
    }
}

/// Returns the fix for a program that syncs files which it has not written.
pub(super) fn of_many_files(subject: &Subject) -> String {
    let program = programs::of(subject.process.as_deref(), subject.file.as_deref());
    let own = program.and_then(|program| program.advice(Topic::Recovery));
    let general = "sync the file system once (syncfs) instead of each of its files: one flush \
                   instead of thousands";
    own.map_or_else(|| general.to_owned(), |own| format!("{own}; else {general}"))
}

fn fix(facts: &Facts<'_>, device: &DeviceSummary, subject: &Subject, by_writes: bool) -> String {
    let name = &device.device;
    let cache = facts.setting(device, "queue/write_cache").unwrap_or("unknown");
    let sata = match device.transport.as_deref() {
        Some("sata") => format!(
            "; data-safe on SATA, though it may slow writes: `hdparm -W0 /dev/{name}` (no cache to \
             flush)"
        ),
        _ => String::new(),
    };
    let general = format!(
        "sync less often, or use a drive with power-loss protection{sata}. Do NOT set `write \
         through` in sysfs (queue/write_cache is \"{cache}\") unless the cache survives power \
         loss: a crash then loses or corrupts data"
    );
    let own = advice(subject, by_writes, &general);
    match is_cached_below(facts, device) {
        true => format!("`losetup --direct-io=on /dev/{name}`, or where it is set up; else {own}"),
        false => own,
    }
}

/// What the name of a loop device without direct I/O is followed by.
const IN_CACHE: &str =
    " (a loop device without direct I/O: a flush writes all dirty pages of its file)";

/// Whether a device is a loop device that writes its file through the page cache.
pub(super) fn is_cached_below(facts: &Facts<'_>, device: &DeviceSummary) -> bool {
    device.backing_file.is_some()
        && facts.setting(device, "loop/dio").is_some_and(|dio| dio.trim() == "0")
}

#[cfg(test)]
mod tests {
    use crate::{Finding, diagnose};
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::script::{MS, Script};
    use iowhy_model::{Operation, Origin, WaitClass};

    /// A database that syncs its log a hundred times, each with a flush of `flush_ms`; with or
    /// without writes.
    fn found(flush_ms: u64, writes: bool) -> Option<Finding> {
        let mut script = Script::new(10);
        for index in 0..100 {
            let at = (index * 100 * MS) as i64;
            if writes {
                script.write("sda", 8192).by(7, "mariadbd").at(at).direct(500, 500, MS / 10).add();
            }
            let flush = script.request("sda", Operation::Flush).by(7, "mariadbd").at(at);
            flush.direct(500, 500, flush_ms * MS).add();
            script.wait((7, "mariadbd"), WaitClass::Fsync, (flush_ms + 1) * MS, flush_ms * MS, 0);
            let names = &mut script.names;
            let (sda, file) = (names.intern("sda"), names.intern("/var/lib/mysql/ib_logfile0"));
            let wait = script.batch.waits.last_mut().unwrap();
            (wait.syscall, wait.device, wait.file) = (Some(75), Some(sda), Some(file));
        }
        let findings = diagnose(&script.summary()).findings;
        findings.into_iter().find(|finding| finding.cause == "flush-cost")
    }

    #[test]
    fn a_write_that_ends_with_its_flush_is_not_slow_itself() {
        let found = |flush_ms: u64, write_ms: u64| {
            let mut script = Script::new(10);
            for index in 0..50 {
                let at = (index * 150 * MS) as i64;
                let write = script.write("sda", 4096).by(7, "dd").at(at);
                write.direct(500, 500, write_ms * MS).add();
                let flush = script.request("sda", Operation::Flush).at(at);
                flush.origin(Origin::Flush).direct(500, 500, flush_ms * MS).add();
                script.wait((7, "dd"), WaitClass::Device, write_ms * MS, write_ms * MS, 0);
                script.waited_on("sda", "/dev/sda", 1);
            }
            let findings = diagnose(&script.summary()).findings;
            findings.into_iter().next().filter(|finding| finding.cause == "flush-cost")
        };
        let first = found(50, 51).unwrap();
        let said = "; dd (7) waits for it with each write";
        assert!(first.sentence.contains(said), "{}", first.sentence);
        assert_eq!(found(50, 120), None, "the write itself is as slow");
    }

    #[test]
    fn who_syncs_what_and_its_own_setting_are_named() {
        let found = found(6, true).unwrap();
        assert_eq!(found.subject.process.as_deref(), Some("mariadbd"));
        assert_eq!(found.subject.file.as_deref(), Some("/var/lib/mysql/ib_logfile0"));
        assert!(found.sentence.contains("write-ahead log"), "{}", found.sentence);
        assert!(found.fix.contains("innodb_flush_log_at_trx_commit"), "{}", found.fix);
        assert!(found.fix.contains("power-loss protection") && found.fix.contains("Do NOT set"));
        assert!((0.8..0.9).contains(&found.impact), "{found:?}");
    }

    #[test]
    fn reads_behind_flushes_are_claimed_with_the_syncs() {
        let found = |flush_ms: u64, read_ms: u64| {
            let mut script = Script::new(10);
            for index in 0..20 {
                let at = index * 500 * MS;
                let flush = script.request("sda", Operation::Flush).by(7, "named").at(at as i64);
                flush.direct(500, 500, flush_ms * MS).add();
                script.wait((7, "named"), WaitClass::Fsync, flush_ms * MS, flush_ms * MS, 0);
                script.waited_on("sda", "/zone.jnl", 74);
                let read = script.read("sda", 131_072).by(8, "rsync").at((at + MS) as i64);
                read.direct(500, 500, read_ms * MS).add();
                script.wait((8, "rsync"), WaitClass::PageRead, read_ms * MS, read_ms * MS, 0);
                script.waited_on("sda", "/iso", 0);
            }
            diagnose(&script.summary()).findings
        };
        let findings = found(450, 450);
        assert_eq!(findings[0].cause, "flush-cost", "{findings:#?}");
        assert_eq!(findings[0].subject.process.as_deref(), Some("named"));
        assert!(findings[0].sentence.contains("; reads wait behind it"), "{findings:#?}");
        let found = found(450, 20).into_iter().find(|it| it.cause == "flush-cost").unwrap();
        assert!(!found.sentence.contains("reads wait"), "it reads meanwhile: {found:?}");
    }

    #[test]
    fn no_writes_have_no_median() {
        let found = found(6, false).unwrap();
        assert!(!found.sentence.contains("a median write"), "{}", found.sentence);
        assert!(!found.evidence.iter().any(|it| it.what == "median write latency"));
    }

    #[test]
    fn a_fast_flush_costs_nothing() {
        assert_eq!(found(1, true), None);
        assert!(found(3, true).is_some());
    }

    #[test]
    fn a_journal_on_another_device_is_named_with_its_file_system() {
        let mut script = Script::new(10);
        for index in 0..60 {
            let at = (index * 150 * MS) as i64;
            script.write("sda", 8192).by(7, "app").at(at).direct(500, 500, MS).add();
            let write = script.write("sdb", 8192).by(9, "jbd2/sdb").at(at).origin(Origin::Journal);
            write.direct(500, 500, MS).add();
            let flush = script.request("sdb", Operation::Flush).by(9, "jbd2/sdb").at(at);
            flush.origin(Origin::Flush).direct(500, 500, 120 * MS).add();
            script.wait((7, "app"), WaitClass::JournalCommit, 125 * MS, 0, 0);
            script.waited_on("sda", "/srv/db", 75);
        }
        let first = diagnose(&script.summary()).findings.swap_remove(0);
        assert_eq!(first.cause, "flush-cost");
        let said = "sdb, which holds the journal of the file system on sda, takes 120 ms";
        assert!(first.sentence.contains(said), "{}", first.sentence);
        assert!(first.sentence.contains("app (7) waits for it"), "{}", first.sentence);
    }

    #[test]
    fn a_loop_device_that_flushes_the_page_cache_is_told_from_others() {
        let found = |dio: &str| {
            let mut script = Script::new(10);
            let device = script.device("loop1", &[("loop/dio", dio)]);
            device.backing_file = Some("/images/db.img".to_owned());
            for index in 0..100 {
                let at = (index * 100 * MS) as i64;
                let flush = script.request("loop1", Operation::Flush).by(7, "mariadbd").at(at);
                flush.direct(500, 500, 20 * MS).add();
                script.wait((7, "mariadbd"), WaitClass::Fsync, 21 * MS, 20 * MS, 0);
                script.waited_on("loop1", "/var/lib/mysql/ib_logfile0", 75);
            }
            let findings = diagnose(&script.summary()).findings;
            findings.into_iter().find(|finding| finding.cause == "flush-cost").unwrap()
        };
        let (cached, direct) = (found("0"), found("1"));
        assert!(cached.sentence.contains("without direct I/O"), "{}", cached.sentence);
        assert!(cached.fix.starts_with("`losetup --direct-io=on /dev/loop1`"), "{}", cached.fix);
        assert!(!direct.sentence.contains("direct I/O") && !direct.fix.contains("losetup"));
    }
}
