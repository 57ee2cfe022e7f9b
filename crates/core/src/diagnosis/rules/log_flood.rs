//! A log takes the device.

use super::*;
use crate::analysis::Direction;
use crate::analysis::patterns::FilePattern;
use crate::analysis::summary::DeviceSummary;
use crate::model::Origin;
use crate::diagnosis::programs::{self, Role, Topic};
use facts::calls::SYNC_FILE;

/// How logs of messages end, where nothing else says what a file is.
const ENDINGS: &[&str] = &[".log", ".out", ".err", ".trace"];
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
    "A file that only has a log's name. A database's write-ahead log is none: what it holds is data.",
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
        for file in patterns.access.files.iter().filter(|file| file.written > 0) {
            if is_log(facts, &file.file).is_none() {
                continue;
            }
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

/// How sure it is that a file is a log of messages: its path or who writes it says so, or only its
/// ending does. `None` where it is something else, above all a write-ahead log.
fn is_log(facts: &Facts<'_>, file: &str) -> Option<Confidence> {
    let writer = facts.waits(|group| group.file.as_deref() == Some(file)).subject().process;
    match programs::role_of(writer.as_deref(), file) {
        Some(Role::Log) => Some(Confidence::Likely),
        Some(_) => None,
        None if programs::of(writer.as_deref(), None).is_some() => None,
        None => ENDINGS.iter().any(|it| file.ends_with(it)).then_some(Confidence::Possible),
    }
}

fn finding(facts: &Facts<'_>, device: &str, file: &FilePattern, share: f64, rate: f64) -> Finding {
    let sure = is_log(facts, &file.file).unwrap_or(Confidence::Possible);
    let waited = facts.waits(|group| group.file.as_deref() == Some(&file.file));
    let program = programs::of(waited.subject().process.as_deref(), Some(&file.file));
    let own = program.and_then(|it| it.advice(Topic::Logging));
    let syncing = facts.waits(|group| facts.is_call(group.syscall, SYNC_FILE));
    let subject = Subject {
        device: Some(device.to_owned()),
        file: Some(file.file.clone()),
        ..waited.subject()
    };
    let sentence = format!(
        "{} writes {}: {} appends a second, {} of what is written to {device}",
        words::who(&subject),
        file.file,
        words::number(rate),
        words::percent(share),
    );
    let time = waited.time_ns.max((syncing.time_ns as f64 * share) as u64);
    Finding::of_blocked(facts, time, sentence)
        .about(subject)
        .sure(sure)
        .shown("requests for the log", rate, "1/s", "iowhy files")
        .shown("of all bytes written", share * 100.0, "%", "iowhy files")
        .shown("written to it", file.written as f64 / facts.seconds(), "bytes/s", "iowhy files")
        .fix(own.unwrap_or(
            "find the message that repeats, and lower the level of what logs it; write without a sync \
             for each message",
        ))
        .check(
            "`tail -n 100` of the file (journald: `journalctl -n 100`) shows text, and a few kinds of \
             message repeat; a database's write-ahead log is no log of messages: leave it",
        )
}
