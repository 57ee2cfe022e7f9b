//! Many small writes, each synced on its own.

use super::super::bottleneck::bound::{FELT_NS, SLOW_SYNC_NS};
use super::*;
use crate::programs::{self, FileRole};
use facts::syncs::{ProgramSyncs, advice, of_file};

/// Bytes per sync up to which the sync costs more than the data: 4 KiB written and synced one by
/// one were 8 KiB with their journal (measured on ext4); a group commit of a busy database is
/// above. Chosen.
const BYTES_PER_SYNC: f64 = 32_768.0;
/// Syncs per second of a program that syncs all the time, not of an occasional save. Chosen. Fewer
/// suffice if they block a thread for long: the slower the disk, the fewer there are.
const SYNCS_PER_S: f64 = 20.0;
/// The least share of the blocked time, without that of other devices. Chosen.
const SHARE: f64 = 0.2;
/// The mean from which a sync is slow by itself, regardless of the number: a rotating disk takes a
/// few seeks and rotations for a small one. Chosen.
const ITSELF_NS: f64 = 100_000_000.0;
/// The mean from which a small sync waits for others' data rather than for its own. Chosen: the
/// limit of journal-commit.
const OTHERS_NS: f64 = 50_000_000.0;
/// The largest ratio of a mean to the median without outliers. Chosen.
const SKEWED: f64 = 2.0;
/// The most writes per sync of a program that syncs after each of its writes, which need metadata,
/// too. Chosen.
const EACH_WRITE: f64 = 4.0;

const SYNCED: &str = "commit several changes with one sync, or put the log on its own device, one \
                      with power-loss protection";
const LARGE: &str = "write less for each sync: if a change is much smaller, the program writes \
                     what has not changed, too (a whole document, or a store's list of free pages: \
                     compact a bbolt file, or open it with NoFreelistSync); commit several changes \
                     with one sync, or put the file on its own device";
const GROWING: &str = "write into space that was allocated and written before (a log of segments \
                       that are reused; fallocate alone is not enough): its fdatasync commits the \
                       journal each time, since the file grows or its space was never written, and \
                       without that is one write and one flush; commit several changes with one \
                       sync, or put the log on its own device, one with power-loss protection";

const MANY_FILES: &str = "put more changes into each commit (a batch, a longer interval), since \
                          each one writes and syncs files of its own; or sync many of them at \
                          once at the end (syncfs)";

rule!(
    "fsync-heavy",
    "frequent small syncs",
    "Each sync (fsync, fdatasync, msync, or a write with O_DSYNC) writes the data, the file \
     system's journal and its commit record, and waits for the device to flush its cache, once or \
     twice. A few kilobytes of data thus cost several requests and flushes in sequence, and no \
     other thread's fsync of the same file system gets ahead of it.",
    "Larger or fewer syncs take the same share of the time: then the device's flush is slow \
     (flush-cost), or the journal is busy with others' data (journal-commit).",
    place: Calls,
    needs: [Waits],
    trial: "sync=none",
    picture: Heat,
);

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_waits()?;
    let mut found = facts.syncs().into_iter().filter(|sync| is_habit(facts, sync));
    let syncs = found.next().ok_or(Clear)?;
    let subject = syncs.subject();
    let device = facts.device_of(&subject);
    let device =
        device.ok_or(Missing("the device that fsync waits for is not in the data".to_owned()))?;
    let all = on_device(device, &syncs);
    let bytes = syncs.bytes_each();
    let is_large = bytes.unwrap_or(all) > BYTES_PER_SYNC;
    // A database's files are written in large pieces, each synced, for reasons of its own.
    let is_each = role(&subject).is_none()
        && syncs.writes_each().is_some_and(|it| (0.5..=EACH_WRITE).contains(&it));
    clear_if(is_large && !is_each)?;
    // Includes others' data, which may be what takes the time.
    let sure = match all > BYTES_PER_SYNC && !is_each {
        false => Confidence::Certain,
        true if syncs.mean_ns() < OTHERS_NS => Confidence::Likely,
        true => Confidence::Possible,
    };
    Ok(finding(facts, device, &syncs, is_large).sure(sure).into())
}

/// Whether a program's syncs block enough, and often or long enough, to matter.
fn is_habit(facts: &Facts<'_>, syncs: &ProgramSyncs<'_>) -> bool {
    let device = syncs.waited.subject().device;
    let near = device.as_deref().map_or(facts.blocked_ns(), |device| facts.blocked_near(device));
    let usual_ns = usual_ns(syncs, facts.device_of(&syncs.waited.subject()));
    let share = usual_ns / near.max(1) as f64;
    let threads = usual_ns / facts.duration_ns().max(1) as f64;
    let rate = syncs.count() as f64 / facts.seconds();
    let is_number = syncs.mean_ns() < ITSELF_NS;
    share >= SHARE
        && is_number
        && (rate >= SYNCS_PER_S || threads >= super::super::facts::WARNING_THREADS)
}

/// Returns the time of a program's syncs without what outliers of the device take, nanoseconds.
fn usual_ns(syncs: &ProgramSyncs<'_>, device: Option<&DeviceSummary>) -> f64 {
    syncs.usual_ns() as f64 * device.map_or(1.0, usual_part)
}

/// Returns the part of a device's writes and flushes that they would take at their medians: the
/// rest is of outliers, which are the device's.
fn usual_part(device: &DeviceSummary) -> f64 {
    let directions = [Direction::Write, Direction::Flush].into_iter();
    let stages = directions.filter_map(|direction| facts::stage(device, direction, Interval::D2c));
    let (usual, all) = stages.fold((0.0, 0.0), |sum, stage| {
        let usual = stage.p50_ns as f64 * stage.requests as f64;
        (sum.0 + usual, sum.1 + stage.sum_ns as f64)
    });
    // Half of an ordinary distribution is above its median.
    if all > 0.0 { (SKEWED * usual / all).min(1.0) } else { 1.0 }
}

/// Returns the role of the synced file.
fn role(subject: &Subject) -> Option<FileRole> {
    let process = subject.process.as_deref();
    subject.file.as_deref().and_then(|file| programs::role_of(process, file))
}

/// Whether a program syncs many files, and none of a store, which it writes over and over.
fn is_of_many_files(syncs: &ProgramSyncs<'_>) -> bool {
    syncs.are_of_many_files() && role(&syncs.subject()).is_none()
}

/// Returns the bytes that the device wrote per sync, of all processes.
fn on_device(device: &DeviceSummary, syncs: &ProgramSyncs<'_>) -> f64 {
    let flushes = facts::of(device, Direction::Flush).requests.max(device.helper_requests);
    let counted = syncs.calls.filter(|_| !syncs.is_partial);
    let known = counted.unwrap_or(if flushes > 0 { flushes } else { syncs.waited.calls });
    facts::of(device, Direction::Write).bytes as f64 / known.max(1) as f64
}

/// Returns the sentence of syncs, of which so many are of files that were not written.
fn sentence(
    facts: &Facts<'_>,
    syncs: &ProgramSyncs<'_>,
    is_large: bool,
    unwritten: Option<u64>,
) -> String {
    let subject = syncs.subject();
    let (who, each) = (words::who(&subject), words::time(syncs.mean_ns()));
    if let Some(files) = unwritten {
        let files = words::count(files);
        return format!(
            "{who} syncs {files} files one by one that it has not written, {each} each"
        );
    }
    let is_many = !is_large && is_of_many_files(syncs);
    let how = match (is_large, is_many) {
        (true, _) => "syncs after every write",
        (_, true) => "syncs small writes to many files one by one",
        _ => "syncs small writes one by one",
    };
    let of_file = match &subject.file {
        Some(file) if is_many => format!(", such as {file}"),
        _ => of_file(&subject),
    };
    let rate = words::number(syncs.count() as f64 / facts.seconds());
    let bytes = syncs.bytes_each().map(|bytes| format!("{} and ", words::bytes(bytes)));
    let bytes = bytes.unwrap_or_default();
    format!("{who} {how}{of_file}: {rate} syncs per second, {bytes}{each} each")
}

/// The least ratio of the time of a write of the log's device to that of the data's, for the log to
/// be what makes syncs slow. Chosen.
const SLOWER_LOG: f64 = 4.0;
/// The fix for a log on a slower device than the data.
const BESIDE_DATA: &str = "put the log of the file system on the device of its data or on a faster \
                           one (XFS: a new file system without `-l logdev=`, and copy the files)";

/// Returns the end of a sentence about syncs that wait for the log of the file system, which is on
/// a slower device than its data.
fn slow_log(facts: &Facts<'_>, subject: &Subject, each_ns: f64) -> Option<String> {
    let mean_ns =
        |device| facts::stage(device, Direction::Write, Interval::D2c).map(|stage| stage.mean_ns);
    let of_file = subject.file.as_deref().and_then(|file| facts.mount_of_file(file))?;
    let is_data = |row: &&DeviceSummary| of_file.is_on(&row.device, (row.major, row.minor));
    let data = facts.devices().iter().find(is_data)?;
    let log = facts.log_device(data)?;
    let (log_ns, data_ns) = (mean_ns(log)?, mean_ns(data)?);
    // A sync that takes much longer waits for something else.
    let is_most = 2.0 * log_ns >= each_ns;
    (log_ns >= SLOWER_LOG * data_ns && is_most).then(|| {
        format!(
            "; the log of its file system is on {}, where a write takes {} (of its data, on {}: \
             {})",
            log.device,
            words::time(log_ns),
            data.device,
            words::time(data_ns),
        )
    })
}

fn finding(
    facts: &Facts<'_>,
    device: &DeviceSummary,
    syncs: &ProgramSyncs<'_>,
    is_large: bool,
) -> Finding {
    let subject = syncs.subject();
    let of_files = subject.clone();
    let flags = words::flags(&subject);
    let usual_ns = usual_ns(syncs, Some(device)) as u64;
    let each_ns = syncs.mean_ns();
    let rate = syncs.count() as f64 / facts.seconds();
    let bytes = syncs.bytes_each();
    let unwritten = facts.unwritten(syncs);
    let sentence = sentence(facts, syncs, is_large, unwritten);
    let general = match is_large {
        true => LARGE,
        false if is_of_many_files(syncs) => MANY_FILES,
        false if syncs.are_of_growth(facts) => GROWING,
        false => SYNCED,
    };
    let fix = advice(&subject, syncs.by_writes, general);
    let (log, fix) = match slow_log(facts, &subject, each_ns) {
        None => (String::new(), fix),
        Some(log) => (log, format!("{BESIDE_DATA}; else {fix}")),
    };
    let sentence = format!("{sentence}{log}");
    // A database has to commit, in groups if it can: if a sync is not slow, nothing is wrong.
    let is_log = role(&subject) == Some(FileRole::WriteAheadLog);
    let is_well = each_ns < FELT_NS || is_log && each_ns < SLOW_SYNC_NS;
    let mut found = Finding::of_blocked(facts, usual_ns, sentence)
        .claiming(Claims::of_waits(&syncs.waited).limited_to(usual_ns))
        .about(subject)
        .at_most(if is_well { Severity::Info } else { Severity::Critical })
        .shown("syncs", rate, "1/s", format!("iowhy files{flags}"))
        .shown("mean sync time", each_ns, "ns", format!("iowhy waits{flags}"));
    if let Some(bytes) = bytes {
        let command = format!("iowhy files{flags}");
        found = found.shown("bytes written per sync", bytes, "bytes", command);
    }
    found
        .shown(
            "bytes written to the device per sync",
            on_device(device, syncs),
            "bytes",
            format!("iowhy -d {}", device.device),
        )
        .fix(unwritten.map_or(fix, |_| super::flush_cost::of_many_files(&of_files)))
        .check(format!(
            "repeat the same writes on a copy of the data without fsync, or with one fsync for \
             ten: if the waits stay, something else is slow{}",
            words::tried("sync=none"),
        ))
}

#[cfg(test)]
mod tests {
    use crate::{Confidence, Finding, Severity, diagnose};
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::environment::{Mount, Thinning};
    use iowhy_model::file::Counts;
    use iowhy_model::script::{MS, Script};
    use iowhy_model::{FileActivity, WaitClass};

    /// A log that is synced fifty times per second, 2 ms each, while ten threads wait for `device`.
    fn found(device: Option<&str>) -> Option<Finding> {
        let mut script = Script::new(10);
        for index in 0..500 {
            let write = script.write("sdb", 4096).by(7, "log").at((index * 20 * MS) as i64);
            write.sector(index * 8).direct(500, 500, MS).add();
            script.wait((7, "log"), WaitClass::Fsync, 2 * MS, MS, 0);
            let sdb = script.names.intern("sdb");
            let wait = script.batch.waits.last_mut().unwrap();
            (wait.syscall, wait.device) = (Some(74), Some(sdb));
        }
        for pid in 100..110 {
            script.wait((pid, "app"), WaitClass::PageFault, 9000 * MS, 9000 * MS, 0);
            let device = device.map(|name| script.names.intern(name));
            script.batch.waits.last_mut().unwrap().device = device;
        }
        diagnose(&script.summary())
            .findings
            .into_iter()
            .find(|finding| finding.cause == "fsync-heavy")
    }

    /// etcd syncs its log `rate` times per second for `each_ms`, `bytes` of it each time, while
    /// another program writes `others` bytes per sync.
    fn logged(rate: u64, each_ms: u64, bytes: u64, others: u64) -> Option<Finding> {
        of_etcd(&etcd(rate, each_ms, bytes, others, rate * 10))
    }

    fn of_etcd(script: &Script) -> Option<Finding> {
        diagnose(&script.summary())
            .findings
            .into_iter()
            .find(|finding| finding.cause == "fsync-heavy")
    }

    /// The same, of which `counted` syncs are among the calls on files.
    fn etcd(rate: u64, each_ms: u64, bytes: u64, others: u64, counted: u64) -> Script {
        let mut script = Script::new(10);
        let file = script.names.intern("/data/member/wal/0.wal");
        let (sda, etcd) = (script.names.intern("sda"), script.names.intern("etcd"));
        for index in 0..rate * 10 {
            let at = index * 1000 * MS / rate;
            script.write("sda", bytes).by(7, "etcd").at(at as i64).direct(500, 500, MS).add();
            if others > 0 {
                let write = script.write("sda", others).by(8, "cp").at(at as i64);
                write.direct(500, 500, MS).add();
            }
            script.wait((7, "etcd"), WaitClass::Fsync, each_ms * MS, MS, 0);
            let wait = script.batch.waits.last_mut().unwrap();
            (wait.syscall, wait.device, wait.file) = (Some(75), Some(sda), Some(file));
        }
        let syncs = Counts {
            fsyncs: counted,
            writes: counted,
            write_bytes: counted * bytes,
            ..Counts::default()
        };
        let row =
            FileActivity { file: Some(file), files: Some(1), ..FileActivity::of(1, 7, &syncs) };
        script.batch.files.push(FileActivity { process: Some(etcd), ..row });
        script
    }

    #[test]
    fn many_files_are_told_from_a_log() {
        let mut script = etcd(40, 20, 2300, 0, 400);
        assert!(of_etcd(&script).unwrap().sentence.contains("syncs small writes one by one"));
        script.batch.files[0].files = Some(150);
        let log = of_etcd(&script).unwrap();
        assert!(log.sentence.contains("syncs small writes one by one"), "{}", log.sentence);
        let name = script.names.intern("/srv/index/N.tmp");
        script.batch.files[0].file = Some(name);
        script.batch.waits.iter_mut().for_each(|wait| wait.file = Some(name));
        let found = of_etcd(&script).unwrap();
        let said = "syncs small writes to many files one by one, such as ";
        assert!(found.sentence.contains(said), "{}", found.sentence);
        assert!(found.fix.contains("put more changes into each commit"), "{}", found.fix);
    }

    #[test]
    fn a_log_on_a_slower_device_is_named() {
        let found = |log_ms: u64| {
            let mut script = etcd(40, 20, 2300, 0, 400);
            for index in 0..400_u64 {
                let write = script.write("sdb", 4096).at((index * 25 * MS) as i64);
                write.sector(index * 8).direct(500, 500, log_ms * MS).add();
            }
            script.environment.mounts.push(Mount {
                path: "/data".to_owned(),
                source: "/dev/sda".to_owned(),
                kind: "xfs".to_owned(),
                options: "rw,logdev=/dev/sdb,noquota".to_owned(),
                ..Mount::default()
            });
            of_etcd(&script).unwrap()
        };
        let slow = found(15);
        let said = "; the log of its file system is on sdb, where a write takes 15.0 ms";
        assert!(slow.sentence.contains(said), "{}", slow.sentence);
        assert!(slow.fix.starts_with("put the log"), "{}", slow.fix);
        // At 4 ms a write is slower than the data's, and no reason for syncs of 20 ms.
        for other in [found(1), found(5)] {
            assert!(!other.sentence.contains("the log of"), "{}", other.sentence);
        }
    }

    #[test]
    fn calls_that_were_counted_for_a_moment_are_not_all() {
        let mut script = etcd(40, 20, 2300, 0, 7);
        let from_ns = script.environment.start_ns + 175 * MS;
        let level =
            Thinning { from_ns, requests_one_in: 1, waits_one_in: 1, ..Thinning::default() };
        script.environment.thinning = vec![level];
        let found = of_etcd(&script).unwrap();
        let said = "40.0 syncs per second, 2.25 KiB and 20.0 ms each";
        assert!(found.sentence.contains(said), "{}", found.sentence);
    }

    #[test]
    fn others_data_on_the_device_hides_no_small_syncs() {
        let found = logged(40, 20, 2300, 1 << 20).unwrap();
        assert_eq!(found.confidence, Confidence::Likely, "others' data may be what takes the time");
        assert!(
            found.sentence.contains("40.0 syncs per second, 2.25 KiB and"),
            "{}",
            found.sentence
        );
        assert!(found.sentence.contains("write-ahead log /data/member/wal/0.wal"));
        assert!(found.fix.starts_with("etcd"), "{}", found.fix);
        assert_eq!(logged(40, 20, 2300, 0).unwrap().confidence, Confidence::Certain);
        assert_eq!(logged(10, 60, 2300, 1 << 20).unwrap().confidence, Confidence::Possible);
        assert_eq!(logged(40, 20, 40_000, 0), None, "large syncs");
    }

    #[test]
    fn few_slow_syncs_count_as_many_fast_ones() {
        assert_eq!(logged(9, 95, 2300, 0).unwrap().severity, Severity::Critical);
        // Each is slow by itself, which the bottleneck reports (etcd-io/etcd#12405: 1.018 s each).
        assert_eq!(logged(9, 105, 2300, 0), None);
        assert_eq!(logged(1, 900, 2300, 0), None);
        // One save of a millisecond per second.
        assert_eq!(logged(1, 1, 2300, 0), None);
    }

    #[test]
    fn a_write_that_syncs_by_itself_is_a_sync() {
        let mut script = Script::new(10);
        for index in 0..300 {
            let at = (index * 30 * MS) as i64;
            script.write("sda", 512).by(7, "log").at(at).direct(500, 500, MS).add();
            script.wait((7, "log"), WaitClass::JournalCommit, 20 * MS, MS, 0);
            let sda = script.names.intern("sda");
            let wait = script.batch.waits.last_mut().unwrap();
            (wait.syscall, wait.device) = (Some(18), Some(sda));
        }
        let found = diagnose(&script.summary()).findings;
        assert!(found.iter().any(|it| it.cause == "fsync-heavy"), "{found:#?}");
    }

    #[test]
    fn a_device_is_judged_by_its_own_waits() {
        let found = found(Some("sda")).unwrap();
        assert_eq!(found.subject.device.as_deref(), Some("sdb"));
    }

    #[test]
    fn waits_that_may_be_for_the_same_device_count() {
        assert_eq!(found(None), None);
        assert_eq!(found(Some("sdb")), None);
    }

    #[test]
    fn a_database_on_a_fast_drive_is_well() {
        let severity = |file: &str, each: u64| {
            let process = "postgres";
            let mut script = Script::new(10);
            for index in 0..9_000_000_000 / each {
                let write = script.write("sda", 8192).by(7, process).at((index * each) as i64);
                write.sector(index * 16).direct(500, 500, each / 2).add();
                script.wait((7, process), WaitClass::Fsync, each, each / 2, 0);
                script.waited_on("sda", file, 75);
            }
            let findings = diagnose(&script.summary()).findings;
            let found = findings.into_iter().find(|finding| finding.cause == "fsync-heavy");
            found.map(|it| it.severity)
        };
        let fast = super::SLOW_SYNC_NS as u64;
        let log = "/db/pg_wal/1";
        assert_eq!(severity(log, fast - MS / 10), Some(Severity::Info));
        assert_eq!(severity(log, fast + MS / 10), Some(Severity::Critical));
        assert_eq!(severity("/db/base/1/2", fast - MS / 10), Some(Severity::Critical));
    }

    #[test]
    fn a_log_that_grows_is_told_to_be_written_beforehand() {
        let fix = |class: WaitClass, syscall: u32| {
            let mut script = Script::new(10);
            for index in 0..400_u64 {
                let write = script.write("sdb", 4096).by(7, "log").at((index * 25 * MS) as i64);
                write.sector(index * 8).direct(500, 500, MS).add();
                script.wait((7, "log"), class, 20 * MS, 0, 0);
                script.waited_on("sdb", "/log/grow", syscall);
            }
            let findings = diagnose(&script.summary()).findings;
            findings.into_iter().find(|finding| finding.cause == "fsync-heavy").unwrap().fix
        };
        assert!(fix(WaitClass::JournalCommit, 75).contains("allocated and written before"));
        // fsync also asks for the times of the file.
        assert!(!fix(WaitClass::JournalCommit, 74).contains("allocated"));
        assert!(!fix(WaitClass::Fsync, 75).contains("allocated"));
    }
}
