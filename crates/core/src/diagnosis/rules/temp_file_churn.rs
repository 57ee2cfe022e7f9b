//! Files that live for seconds are written to disk.

use super::super::programs::{self, Role, Topic};
use super::*;
use crate::analysis::patterns::WaitGroup;
use crate::analysis::summary::ActivityRow;
use facts::Waited;
use facts::calls::{METADATA, READ, SYNC_FILE, WRITE};

/// Files that live for less than this would not be written at all if nobody pressed: dirty pages are
/// written when they are 30 s old (vm.dirty_expire_centisecs), and a watch is seldom longer than 10.
const SHORT_NS: u64 = 10_000_000_000;
/// Files a second that come and go. Chosen: an editor or a compiler makes a few.
const FILES_PER_S: f64 = 10.0;
/// The same of files whose whole life is longer than the watch, which their names give away: numbered
/// siblings that are made and removed, or made in a folder for temporary files and read back. Chosen: half
/// of the 6.1 a second of the report of a web application that this cause is named after.
const SIBLINGS_PER_S: f64 = 3.0;
/// Folders whose files are to go: the Filesystem Hierarchy Standard's, and memory's.
const TEMPORARY: &[&str] = &["/tmp/", "/var/tmp/", "/temp/"];
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
    let of_whole_lives = activity.rows.iter().filter(|row| lives_and_goes(facts, row));
    let whole = of_whole_lives.max_by_key(|row| row.lives);
    let of_siblings = activity.rows.iter().filter_map(|row| Some((row, seen(facts, row)?)));
    let siblings = of_siblings.max_by_key(|(row, seen)| (*seen, made(row)));
    let Some((row, seen)) = whole.map(|row| (row, Seen::Whole)).or(siblings) else {
        return Ok(Verdict::Clear);
    };
    Ok(finding(facts, row, seen).into())
}

/// What was seen of the files' lives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Seen {
    /// That they were made, in a folder for temporary files: a longer watch tells whether they stay.
    Making,
    /// That siblings are removed, or that they are temporary ones and read back.
    Siblings,
    /// All of them.
    Whole,
}

fn made(row: &ActivityRow) -> u64 {
    row.counts.creates.max(row.counts.unlinks)
}

fn is_not_kept(row: &ActivityRow, files: u64) -> bool {
    row.counts.write_bytes > 0 && (row.counts.fsyncs as f64) < SYNCED * files as f64
}

/// Whether whole lives of files were seen, and they were short.
fn lives_and_goes(facts: &Facts<'_>, row: &ActivityRow) -> bool {
    let short = row.lifetime_ns.is_some_and(|it| it <= SHORT_NS);
    let gone = row.lives.max(row.counts.unlinks);
    short
        && row.lives as f64 / facts.seconds() >= FILES_PER_S
        && gone as f64 >= REMOVED * row.counts.creates as f64
        && is_not_kept(row, row.lives)
}

/// What was seen of files of one pattern that do not live and die within the watch; `None` where they are
/// not made at such a rate, or are to stay.
fn seen(facts: &Facts<'_>, row: &ActivityRow) -> Option<Seen> {
    let counts = &row.counts;
    let file = row.file.as_deref()?;
    let is_pattern = row.files.is_none_or(|files| files > 1)
        && file.rsplit('/').next().is_some_and(|name| name.contains(['N', '*']));
    let enough = |files: u64| files as f64 >= SIBLINGS_PER_S * facts.seconds();
    let role = programs::role_of(row.process.as_deref(), file);
    // A log that is cut into files and a snapshot of each minute have siblings, too.
    let is_other = matches!(role, Some(role) if role != Role::Temporary);
    let is_temporary =
        role == Some(Role::Temporary) || TEMPORARY.iter().any(|folder| file.contains(folder));
    let goes = counts.unlinks as f64 >= REMOVED * counts.creates as f64 && counts.unlinks > 0;
    let is_read_back = is_temporary && counts.reads >= counts.creates;
    if !is_pattern || is_other || !enough(counts.creates) || !is_not_kept(row, counts.creates) {
        return None;
    }
    match goes || is_read_back {
        true => Some(Seen::Siblings),
        false => is_temporary.then_some(Seen::Making),
    }
}

/// The waits of the program for these files: in calls on them, and to get room for what it writes.
fn waits<'a>(facts: &Facts<'a>, row: &ActivityRow) -> Waited<'a> {
    let pattern = row.file.clone().unwrap_or_default();
    let folder = pattern.split(['N', '*']).next().unwrap_or_default().to_owned();
    let calls = [METADATA, READ, WRITE, SYNC_FILE];
    facts.waits(|group: &WaitGroup| {
        let is_theirs = match &group.file {
            Some(file) => file.starts_with(&folder),
            None => {
                group.syscall.is_none() || calls.iter().any(|it| facts.is_call(group.syscall, it))
            }
        };
        group.pid == row.pid && is_theirs
    })
}

/// What was seen, in words.
fn sentence(row: &ActivityRow, seen: Seen, who: &str) -> String {
    let file = row.file.as_deref().unwrap_or("files");
    let counts = &row.counts;
    let read_back = if counts.reads > 0 { ", read back" } else { "" };
    match seen {
        Seen::Whole => format!(
            "{who} keeps {file} for {} only: {} files were made, written{read_back} and removed",
            words::time(row.lifetime_ns.unwrap_or(0) as f64),
            words::count(row.lives),
        ),
        Seen::Making => format!(
            "{who} makes {file} in a folder for temporary files: {} files, {} written, none of them \
             removed yet",
            words::count(counts.creates),
            words::bytes(counts.write_bytes as f64),
        ),
        Seen::Siblings => format!(
            "{who} makes and removes {file}: {} files made and {} removed, {} written{read_back}",
            words::count(counts.creates),
            words::count(counts.unlinks),
            words::bytes(counts.write_bytes as f64),
        ),
    }
}

fn sureness(seen: Seen) -> Confidence {
    match seen {
        Seen::Whole => Confidence::Certain,
        Seen::Siblings => Confidence::Likely,
        Seen::Making => Confidence::Possible,
    }
}

fn check(seen: Seen) -> &'static str {
    match seen {
        Seen::Whole => {
            "the same with the folder on a tmpfs: if the program waits as long, the files were not it"
        }
        Seen::Siblings | Seen::Making => {
            "watch for some minutes (`iowhy -t 300`): whole lives of the files show; where they stay, \
             they are data"
        }
    }
}

fn finding(facts: &Facts<'_>, row: &ActivityRow, seen: Seen) -> Finding {
    let waited = waits(facts, row);
    let subject = Subject {
        device: waited.subject().device,
        process: row.process.clone(),
        pid: Some(row.pid),
        container: row.container.clone(),
        file: row.file.clone(),
    };
    let counts = &row.counts;
    let flags = words::flags(&subject);
    let files = format!("iowhy files{flags}");
    let per_s = |count: u64| count as f64 / facts.seconds();
    let sentence = sentence(row, seen, &words::who(&subject));
    let finding = Finding::of_blocked(facts, waited.time_ns, sentence)
        // It may wait as long for whatever it does instead.
        .upper_bound()
        .sure(sureness(seen))
        .shown("files made", per_s(counts.creates), "1/s", &*files)
        .shown("files removed", per_s(counts.unlinks), "1/s", &*files);
    let finding = match row.lifetime_ns {
        Some(lived) => finding.shown("how long they live", lived as f64, "ns", &*files),
        None => finding,
    };
    let program = programs::of(subject.process.as_deref(), subject.file.as_deref());
    let own = program.and_then(|it| it.advice(Topic::Spill)).map(|it| format!("{it}; "));
    finding
        .shown("written into them", per_s(counts.write_bytes), "bytes/s", &*files)
        .shown("waits for them", waited.time_ns as f64, "ns", format!("iowhy waits{flags}"))
        .fix(format!(
            "{}keep that data in memory, in the program or on a tmpfs (/dev/shm; it counts as memory of \
             its cgroup); where it must be files, fewer and larger ones",
            own.unwrap_or_default(),
        ))
        .check(check(seen))
        .about(subject)
}

#[cfg(test)]
mod tests {
    use crate::diagnosis::{Confidence, Diagnosis, diagnose};
    use crate::model::file::Counts;
    use crate::model::{FileActivity, WaitClass};
    use crate::script::Script;

    const MS: u64 = 1_000_000;

    /// A web application that makes, reads and removes so many files of `folder` in ten seconds, syncs
    /// some, and sleeps for dirty pages; it also waits for three seconds for another file.
    fn judged(folder: &str, made: u64, removed: u64, synced: u64) -> Diagnosis {
        let mut script = Script::new(10);
        let app = script.names.intern("python3");
        for index in 0..made.max(removed) {
            let file = script.names.intern(&format!("{folder}/{index}.txt"));
            let is = |most: u64| u64::from(index < most);
            let counts = Counts {
                opens: 1,
                creates: is(made),
                writes: 10 * is(made),
                write_bytes: (5 << 20) * is(made),
                reads: is(made),
                unlinks: is(removed),
                fsyncs: is(synced),
                ..Counts::default()
            };
            let row = FileActivity {
                file: Some(file),
                files: Some(1),
                ..FileActivity::of(1, 7, &counts)
            };
            script.batch.files.push(FileActivity { process: Some(app), ..row });
        }
        for index in 0..300 {
            let write = script.write("sda", 1 << 20).by(9, "kworker").at((index * 33 * MS) as i64);
            write.origin(crate::model::Origin::Writeback).direct(500, 500, 30 * MS).add();
        }
        let waits = [(1, WaitClass::DirtyThrottle, 6000), (0, WaitClass::PageRead, 3000)];
        for (call, class, ms) in waits {
            script.wait((7, "python3"), class, ms * MS, 0, 0);
            let (sda, file) = (script.names.intern("sda"), script.names.intern("/data/other"));
            let wait = script.batch.waits.last_mut().unwrap();
            (wait.syscall, wait.device) = (Some(call), Some(sda));
            wait.file = (class == WaitClass::PageRead).then_some(file);
        }
        diagnose(&script.summary())
    }

    fn of(diagnosis: &Diagnosis) -> Option<(usize, Confidence)> {
        let found = diagnosis.findings.iter().position(|it| it.cause == "temp-file-churn");
        found.map(|at| (at, diagnosis.findings[at].confidence))
    }

    #[test]
    fn files_that_outlive_the_watch_are_found_by_their_siblings() {
        // 6.1 files a second, of which none is seen from its making to its removal.
        let found = judged("/tmp/a1b2", 61, 0, 0);
        assert_eq!(of(&found), Some((0, Confidence::Likely)), "{:#?}", found.findings);
        let first = &found.findings[0];
        assert_eq!(first.subject.file.as_deref(), Some("/tmp/N/N.txt"));
        assert!((0.6..0.7).contains(&first.impact), "not the other file's waits: {first:?}");
        assert_eq!(of(&judged("/srv/work", 61, 61, 0)), Some((0, Confidence::Likely)));
    }

    #[test]
    fn files_that_stay_are_data() {
        assert_eq!(of(&judged("/srv/photos", 61, 0, 0)), None, "they may stay");
        assert_eq!(of(&judged("/tmp/a1b2", 61, 61, 61)), None, "synced");
        assert_eq!(of(&judged("/tmp/a1b2", 20, 20, 0)), None, "two a second");
    }
}
