//! A log takes the device.

use super::*;
use crate::analysis::Direction;
use crate::analysis::patterns::FilePattern;
use crate::analysis::summary::DeviceSummary;
use crate::model::Origin;
use facts::calls::SYNC_FILE;

/// Who writes logs for others.
const LOGGERS: &[&str] = &["systemd-journal", "rsyslogd", "syslog-ng", "auditd", "fluentd", "fluent-bit", "vector"];
/// How logs are called.
const NAMES: &[&str] = &[".log", "/var/log/", ".journal", "/journal/", "syslog", ".out", ".err", ".trace"];
/// The share of the written bytes, or of the device's time, that one log takes. Chosen.
const SHARE: f64 = 0.3;
/// Requests for it a second from which on it floods.
const WRITES_PER_S: f64 = 20.0;

rule!(
    "log-flood",
    "a flood of log messages",
    "A program writes more log than work: a debug level left on, an error in a loop. Each message is a \
     small append, often made durable on its own, so that the log keeps the device and the journal busy \
     and everybody's fsync waits for it.",
    "A file that only has a log's name, such as a database's write-ahead log.",
    needs: [Files],
    symptoms: ["fsync-heavy", "journal-commit", "small-writes", "flush-cost", "noisy-neighbour"],
);

fn judge(facts: &Facts<'_>) -> Judged {
    if facts.summary().files.is_absent() && facts.summary().watch.requests > 0 {
        return Err(Missing("files are not in the data".to_owned()));
    }
    let mut most: Option<(&str, &FilePattern, f64)> = None;
    for patterns in &facts.summary().patterns.devices {
        let Some(device) = facts.devices().iter().find(|it| it.device == patterns.device) else { continue };
        let written = data_written(device).max(1);
        for file in patterns.access.files.iter().filter(|file| is_log(&file.file) && file.written > 0) {
            let share = file.written as f64 / written as f64;
            if share >= SHARE && most.is_none_or(|(_, _, most)| share > most) {
                most = Some((&patterns.device, file, share));
            }
        }
    }
    let Some((device, file, share)) = most else { return Ok(Verdict::Clear) };
    let rate = file.requests as f64 / facts.seconds();
    if rate < WRITES_PER_S {
        return Ok(Verdict::Clear);
    }
    Ok(finding(facts, device, file, share, rate).into())
}

/// Bytes written that are not a journal's or the file system's own.
fn data_written(device: &DeviceSummary) -> u64 {
    let own = [Origin::Journal, Origin::Metadata];
    let rows = device.origins.iter().filter(|row| !own.contains(&row.subject.origin));
    rows.map(|row| row.usage.directions[Direction::Write].bytes).sum()
}

fn is_log(file: &str) -> bool {
    NAMES.iter().any(|name| file.contains(name))
}

fn finding(facts: &Facts<'_>, device: &str, file: &FilePattern, share: f64, rate: f64) -> Finding {
    let waited = facts.waits(|group| {
        group.file.as_deref() == Some(&file.file) || LOGGERS.contains(&group.process.as_str())
    });
    let syncing = facts.waits(|group| facts.is_call(group.syscall, SYNC_FILE));
    let subject = Subject {
        device: Some(device.to_owned()),
        file: Some(file.file.clone()),
        ..waited.subject()
    };
    let sentence = format!(
        "{} floods the log {}: {} of all data written to {device}",
        words::who(&subject),
        file.file,
        words::percent(share),
    );
    let time = waited.time_ns.max((syncing.time_ns as f64 * share) as u64);
    Finding::of_blocked(facts, time, sentence)
        .about(subject)
        .shown("requests for the log", rate, "1/s", "iowhy files")
        .shown("of all bytes written", share * 100.0, "%", "iowhy files")
        .shown("written to it", file.written as f64 / facts.seconds(), "bytes/s", "iowhy files")
        .fix("find the error that repeats; lower the log level; limit the rate, which drops messages (RateLimitBurst= in journald.conf, SysSock.RateLimit.Burst of rsyslog's imuxsock); write without a sync for each message")
        .check("`tail -n 100` of the file (journald: `journalctl -n 100`): a few kinds of message repeat; if all are wanted, the log needs its own device")
}
