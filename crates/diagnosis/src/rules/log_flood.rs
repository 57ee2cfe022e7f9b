//! A log floods the device.

use super::*;
use crate::programs::{self, FileRole, Topic};
use facts::Waited;
use facts::calls::SYNC_FILE;
use facts::thresholds::MOST;
use iowhy_analysis::summary::patterns::FilePattern;

/// File names of logs of unknown programs: a hint, not proof.
const NAMES: &[&str] = &[".log", ".out", ".err", ".trace"];
/// The least share of the written bytes, or of the device's time, for one log. Chosen.
const SHARE: f64 = 0.3;
/// The least requests per second for a flood. Chosen.
const WRITES_PER_S: f64 = 20.0;
/// The same of a log whose writer makes each record durable, as an audit trail or a journal does:
/// fewer are slow syncs, whatever they say. Chosen.
const SYNCED_PER_S: f64 = 50.0;

rule!(
    "log-flood",
    "log flood",
    "A program writes mostly log messages: a debug level left on, an error in a loop. Each message \
     is a small append, often synced on its own, so the log keeps the device and the journal busy \
     and every other fsync waits for it.",
    "The file is a log by name only: a database's write-ahead log is data, and is never reported.",
    place: Program,
    needs: [Files],
    picture: Bytes,
);

/// A log file and its writer.
struct Log<'a> {
    device: &'a str,
    file: &'a FilePattern,
    /// The process that writes it.
    writer: Option<&'a str>,
    /// Whether it is a log by its path or its writer, not only by its name.
    is_known: bool,
    /// Its share of the data written to the device.
    share: f64,
}

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_files()?;
    let mut most: Option<Log<'_>> = None;
    for patterns in &facts.summary().patterns.devices {
        let device = facts.devices().iter().find(|device| device.device == patterns.device);
        let Some(device) = device else { continue };
        let written = data_written(device).max(1);
        for file in patterns.access.files.iter().filter(|file| file.written > 0) {
            let share = file.written as f64 / written as f64;
            let writer = writer(facts, &file.file);
            let Some(is_known) = log(writer, &file.file) else { continue };
            let found = Log { device: &patterns.device, file, writer, is_known, share };
            let rank = |log: &Log<'_>| (log.is_known, log.share);
            if share >= SHARE && most.as_ref().is_none_or(|most| rank(&found) > rank(most)) {
                most = Some(found);
            }
        }
    }
    let log = most.ok_or(Clear)?;
    let least = if is_synced(facts, &log) { SYNCED_PER_S } else { WRITES_PER_S };
    clear_if((log.file.requests as f64) < least * facts.seconds())?;
    Ok(finding(facts, &log).into())
}

/// Returns the bytes written, without journal and metadata.
fn data_written(device: &DeviceSummary) -> u64 {
    let own = [Origin::Journal, Origin::Metadata];
    let rows = device.origins.iter().filter(|row| !own.contains(&row.subject.origin));
    rows.map(|row| row.usage.directions[Direction::Write].bytes).fold(0, u64::saturating_add)
}

/// Returns the process that writes a file: the one with most write calls, else the one that waits
/// for it.
pub(super) fn writer<'a>(facts: &Facts<'a>, file: &str) -> Option<&'a str> {
    let rows = facts.summary().activity.iter().flat_map(|it| &it.rows);
    let rows = rows.filter(|row| row.file.as_deref() == Some(file) && row.counts.writes > 0);
    let by_calls = rows.max_by_key(|row| row.counts.writes).and_then(|row| row.process.as_deref());
    by_calls.or_else(|| {
        let waited = facts.waits(|group| group.file.as_deref() == Some(file));
        waited.groups.first().map(|group| group.process.as_str())
    })
}

/// Whether a file is a message log: `Some(true)` by its path or its writer, `Some(false)` only by
/// its name.
fn log(writer: Option<&str>, file: &str) -> Option<bool> {
    match programs::role_of(writer, file) {
        Some(FileRole::Log) => Some(true),
        Some(_) => None,
        None if file.contains("/var/log/") || writer.is_some_and(programs::is_logger) => Some(true),
        // Numbered files are segments of a store embedded in an unknown program.
        None if is_numbered(file) => None,
        None => NAMES.iter().any(|name| file.contains(name)).then_some(false),
    }
}

/// Whether a file name is a number and an extension: `000004.log`.
fn is_numbered(file: &str) -> bool {
    let name = file.rsplit('/').next().unwrap_or(file);
    let stem = name.split('.').next().unwrap_or(name);
    !stem.is_empty() && stem.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns the waits for the log, and its writer's waits in syncs of unknown files.
fn waits_of<'a>(facts: &Facts<'a>, log: &Log<'_>) -> Waited<'a> {
    facts.waits(|group| match group.file.as_deref() {
        Some(file) => file == log.file.file,
        None => {
            log.writer == Some(group.process.as_str()) && facts.is_call(group.syscall, SYNC_FILE)
        }
    })
}

/// Whether most of a log's requests were waited for in a sync of it.
fn is_synced(facts: &Facts<'_>, log: &Log<'_>) -> bool {
    let syncs = facts.waits(|group| {
        group.file.as_deref() == Some(log.file.file.as_str())
            && facts.is_call(group.syscall, SYNC_FILE)
    });
    2 * syncs.waits >= log.file.requests
}

fn finding(facts: &Facts<'_>, log: &Log<'_>) -> Finding {
    let (waited, file) = (waits_of(facts, log), log.file);
    let syncing = facts.waits(|group| facts.is_call(group.syscall, SYNC_FILE));
    let rate = file.requests as f64 / facts.seconds();
    let own = waited.subject();
    let subject = Subject {
        device: Some(log.device.to_owned()),
        file: Some(file.file.clone()),
        process: log.writer.map(str::to_owned).or(own.process.clone()),
        pid: own.pid.filter(|_| log.writer.is_none() || log.writer == own.process.as_deref()),
        container: own.container,
    };
    let sentence = format!(
        "{} floods {}: {} writes per second reach {}, {} of all data written to it",
        words::who(&subject),
        file.file,
        words::number(rate),
        log.device,
        words::percent(log.share),
    );
    let is_what_syncs = waited.time_ns as f64 >= MOST * syncing.time_ns as f64;
    let confidence = match log.is_known {
        true if is_what_syncs && waited.time_ns > 0 => Confidence::Certain,
        true => Confidence::Likely,
        false => Confidence::Possible,
    };
    let program = programs::of(log.writer, None);
    let own = program.filter(|_| log.is_known).and_then(|program| program.advice(Topic::Logging));
    let advice = own.unwrap_or(
        "find the repeating error and its level; write without a sync per message; a rate limit \
         drops messages (RateLimitBurst= in journald.conf, SysSock.RateLimit.Burst of rsyslog's \
         imuxsock)",
    );
    Finding::of_waits(facts, &waited, sentence)
        .about(subject)
        .sure(confidence)
        .shown("write requests for the log", rate, "1/s", "iowhy files")
        .also("share of all bytes written", log.share * 100.0, "%")
        .also("log write throughput", file.written as f64 / facts.seconds(), "bytes/s")
        .fix(advice)
        .check(
            "`tail` of the file (journald: `journalctl -n 100`) shows a few kinds of messages that \
             repeat; a database's write-ahead log is not a message log; if all messages are \
             needed, put the log on its own device",
        )
}

#[cfg(test)]
mod tests {
    use crate::{Confidence, Diagnosis, Finding, Severity, diagnose};
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::WaitClass;
    use iowhy_model::script::{MS, Script};

    const FDATASYNC: u32 = 75;

    /// A program that appends a message to that file every 10 ms and syncs each.
    fn judged(process: &str, file: &str) -> Diagnosis {
        every(10, process, file)
    }

    /// The same every so many milliseconds.
    fn every(interval: u64, process: &str, file: &str) -> Diagnosis {
        let mut script = Script::new(10);
        for index in 0..9_900 / interval {
            let at = (index * interval * MS) as i64;
            let write = script.write("sda", 4096).by(7, process).at(at).sector(index * 8);
            write.file(file).direct(0, 0, MS).add();
            script.wait((7, process), WaitClass::Fsync, 9 * MS, MS, 0);
            let (name, device) = (script.names.intern(file), script.names.intern("sda"));
            let wait = script.batch.waits.last_mut().unwrap();
            (wait.file, wait.device, wait.syscall) = (Some(name), Some(device), Some(FDATASYNC));
        }
        diagnose(&script.summary())
    }

    fn found(process: &str, file: &str) -> Option<Finding> {
        judged(process, file).findings.into_iter().find(|finding| finding.cause == "log-flood")
    }

    #[test]
    fn a_write_ahead_log_is_no_flood() {
        for (process, file) in [
            ("rocksdb:low", "/data/db/000004.log"),
            ("cockroach", "/mnt/data/000123.log"),
            ("db_bench", "/data/db/000004.log"),
            ("java", "/kafka/topic-0/00000000000000000000.log"),
            ("java", "/var/lib/cassandra/commitlog/CommitLog-7-1700.log"),
            ("mongod", "/var/lib/mongodb/journal/WiredTigerLog.0000000012"),
            ("redis-server", "/var/lib/redis/appendonly.aof"),
            ("my-service", "/srv/state/000017.log"),
        ] {
            assert_eq!(found(process, file), None, "{process} {file}");
        }
    }

    #[test]
    fn a_log_is_known_by_its_place_or_its_writer() {
        for (process, file) in [
            ("rsyslogd", "/mnt/disk/messages"),
            ("rs:main Q:Reg", "/mnt/log/messages"),
            ("nginx", "/var/log/nginx/access.log"),
            ("app", "/var/log/app.log"),
            ("systemd-journal", "/var/log/journal/5f/system.journal"),
        ] {
            let found = found(process, file).unwrap_or_else(|| panic!("{process} {file}"));
            assert_eq!(found.confidence, Confidence::Certain, "{found:?}");
            assert_eq!(found.severity, Severity::Critical);
        }
        let message = found("rsyslogd", "/mnt/disk/messages").unwrap();
        assert!(message.fix.contains("sync=\"off\""), "{message:?}");
    }

    #[test]
    fn a_name_alone_hides_nothing() {
        let judged = judged("java", "/data/j.log");
        let found = judged.findings.iter().find(|finding| finding.cause == "log-flood").unwrap();
        assert!(found.confidence == Confidence::Possible && found.symptoms.is_empty());
        assert!(
            judged.findings.iter().any(|finding| finding.cause == "fsync-heavy"),
            "{judged:#?}"
        );
        assert_ne!(judged.findings[0].cause, "log-flood");
        assert!(!found.fix.contains("GC"), "{found:?}");
        // Some records a second, each made durable, are no flood.
        for (process, file) in [("java", "/data/audit.log"), ("rsyslogd", "/mnt/disk/messages")] {
            let records = every(30, process, file);
            assert!(
                records.findings.iter().all(|finding| finding.cause != "log-flood"),
                "{records:#?}"
            );
        }
    }
}
