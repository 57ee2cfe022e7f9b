//! Files that live for seconds are written to disk.

use super::*;
use crate::analysis::summary::ActivityRow;

/// Files that live for less than this would not be written at all if nobody pressed: dirty pages are
/// written when they are 30 s old (vm.dirty_expire_centisecs), and a watch is seldom longer than 10.
const SHORT_NS: u64 = 10_000_000_000;
/// Files a second that come and go. Chosen: an editor or a compiler makes a few.
const FILES_PER_S: f64 = 10.0;
/// The share of the files that it makes which it removes. Chosen.
const REMOVED: f64 = 0.5;
/// The share of the files that is synced from which on they are not temporary: who syncs a file wants it to
/// outlive a crash. Chosen.
const SYNCED: f64 = 0.5;

rule!(
    "temp-file-churn",
    "files that live for seconds",
    "A program writes files, reads them back and removes them within seconds. What is removed before the \
     kernel writes it costs only memory, but creating and removing goes through the journal, and under \
     pressure or with syncs the data is written, too: work for the disk that nobody needs afterwards.",
    "Files that stay; and files that are synced before they are removed, such as a database's rollback \
     journal: their program wants them on the disk.",
    needs: [Waits, Calls],
    symptoms: [
        "journal-commit", "journal-full", "writeback-burst", "fsync-heavy", "log-flood",
        "small-writes", "provider-cap", "dirty-throttle", "noisy-neighbour",
    ],
);

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_waits()?;
    let Some(activity) = &facts.summary().activity else {
        return Err(Missing("what programs do with files is not in the data".to_owned()));
    };
    let churns = |row: &&ActivityRow| {
        let counts = &row.counts;
        let short = row.lifetime_ns.is_some_and(|it| it <= SHORT_NS);
        let gone = row.lives.max(counts.unlinks);
        short
            && row.lives as f64 / facts.seconds() >= FILES_PER_S
            && gone as f64 >= REMOVED * counts.creates as f64
            && counts.write_bytes > 0
            && (counts.fsyncs as f64) < SYNCED * row.lives as f64
    };
    let Some(row) = activity.rows.iter().filter(churns).max_by_key(|row| row.lives) else {
        return Ok(Verdict::Clear);
    };
    let waited = facts.waits(|group| group.pid == row.pid);
    let file = row.file.clone().unwrap_or_else(|| "files".to_owned());
    let subject = Subject {
        device: waited.subject().device,
        process: row.process.clone(),
        pid: Some(row.pid),
        container: row.container.clone(),
        file: row.file.clone(),
    };
    let read_back = if row.counts.reads > 0 { ", read back" } else { "" };
    let sentence = format!(
        "{} keeps {file} for {} only: {} files were made, written{read_back} and removed",
        words::who(&subject),
        words::time(row.lifetime_ns.unwrap_or(0) as f64),
        words::count(row.lives),
    );
    let flags = words::flags(&subject);
    let per_s = |count: u64| count as f64 / facts.seconds();
    Ok(Finding::of_blocked(facts, waited.time_ns, sentence)
        .about(subject)
        .sure(Confidence::Certain)
        .shown("files made and removed", per_s(row.lives), "1/s", format!("iowhy files{flags}"))
        .shown("how long they live", row.lifetime_ns.unwrap_or(0) as f64, "ns", format!("iowhy files{flags}"))
        .shown("written into them", per_s(row.counts.write_bytes), "bytes/s", format!("iowhy files{flags}"))
        .shown("the program waits meanwhile", waited.time_ns as f64, "ns", format!("iowhy waits{flags}"))
        .fix("keep that data in memory, in the program or on a tmpfs (/dev/shm; it counts as memory of its cgroup); where it must be files, fewer and larger ones")
        .check("the same with the folder on a tmpfs: if the program waits as long, the files were not it")
        .into())
}
