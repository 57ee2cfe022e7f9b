//! Short-lived files are written to disk.

use super::super::programs::{self, FileRole, Topic};
use super::*;
use facts::Waited;
use facts::calls::{LOOKUP, METADATA, READ, SYNC_FILE, WRITE};
use facts::thresholds::MOST;
use iowhy_analysis::summary::ActivityRow;
use iowhy_model::path_patterns::without_numbers;

/// Files with shorter lifetimes would not be written at all without pressure: dirty pages are
/// written when they are 30 s old (vm.dirty_expire_centisecs), and a watch is seldom longer than
/// 10.
const SHORT_NS: u64 = 10_000_000_000;
/// The least files per second created and removed. Chosen: an editor or a compiler creates a few.
const FILES_PER_S: f64 = 10.0;
/// The same for files that outlive the watch and are known by their names: numbered siblings that
/// are created and removed, or created in a directory for temporary files and read back. Chosen:
/// half of the 6.1 per second in the report of a web application that this cause is named after.
const SIBLINGS_PER_S: f64 = 3.0;
/// Directories for temporary files: the Filesystem Hierarchy Standard's, and in memory.
const TEMPORARY: &[&str] = &["/tmp/", "/var/tmp/", "/temp/"];
/// The share of synced files from which they are not temporary: a program syncs a file so that it
/// survives a crash. Chosen.
const SYNCED: f64 = 0.5;

rule!(
    "temp-file-churn",
    "temporary file churn",
    "A program writes files, reads them back and removes them within seconds. Data removed before \
     writeback costs only memory, but creating and removing files goes through the journal, and \
     under memory pressure or with syncs the data is written, too: disk work for data that is soon \
     discarded.",
    "The files stay; or they are synced before they are removed, such as a database's rollback \
     journal: then the program needs them on disk.",
    place: Program,
    needs: [Waits, Calls],
    picture: Bytes,
);

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_waits()?;
    let activity = facts
        .summary()
        .activity
        .as_ref()
        .ok_or(Missing("file system calls are not in the data".to_owned()))?;
    let of_whole_lives = activity.rows.iter().filter(|row| lives_and_goes(facts, row));
    let whole = of_whole_lives.max_by_key(|row| row.lives);
    let of_siblings = activity.rows.iter().filter_map(|row| Some((row, seen(facts, row)?)));
    let siblings = of_siblings.max_by_key(|(row, seen)| (*seen, made(row)));
    let Some((row, seen)) = whole.map(|row| (row, SeenLifetimes::Whole)).or(siblings) else {
        return Ok(RuleVerdict::Clear);
    };
    Ok(finding(facts, row, seen).into())
}

/// The part of the files' lifetimes that was seen.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum SeenLifetimes {
    /// Their creation, in a directory for temporary files: a longer watch shows whether they stay.
    Making,
    /// The removal of siblings, or that they are temporary files and read back.
    Siblings,
    /// Complete lifetimes.
    Whole,
}

fn made(row: &ActivityRow) -> u64 {
    row.counts.creates.max(row.counts.unlinks)
}

/// Whether files are to be gone soon: neither synced, nor those of a store.
fn is_not_kept(facts: &Facts<'_>, row: &ActivityRow, files: u64) -> bool {
    row.counts.write_bytes > 0
        && (row.counts.fsyncs as f64) < SYNCED * files as f64
        && !is_of_store(facts, row)
}

/// Whether the process writes sorted runs to the same folder: a store of such files replaces its
/// log with each of them.
fn is_of_store(facts: &Facts<'_>, row: &ActivityRow) -> bool {
    let own = row.file.as_deref().and_then(words::folder);
    let rows = facts.summary().activity.iter().flat_map(|report| &report.rows);
    let mut files = rows.filter(|other| other.pid == row.pid).filter_map(|it| it.file.as_deref());
    files.any(|file| {
        programs::role_of(None, file) == Some(FileRole::Compaction) && words::folder(file) == own
    })
}

/// Whether complete lifetimes were seen, and they were short.
fn lives_and_goes(facts: &Facts<'_>, row: &ActivityRow) -> bool {
    let short = row.lifetime_ns.is_some_and(|lifetime_ns| lifetime_ns <= SHORT_NS);
    let gone = row.lives.max(row.counts.unlinks);
    short
        && row.lives as f64 / facts.seconds() >= FILES_PER_S
        && gone as f64 >= MOST * row.counts.creates as f64
        && is_not_kept(facts, row, row.lives)
}

/// Returns what was seen of files of one pattern without complete lifetimes in the watch; `None` if
/// they are not created at a high rate, or are to stay.
fn seen(facts: &Facts<'_>, row: &ActivityRow) -> Option<SeenLifetimes> {
    let counts = &row.counts;
    let file = row.file.as_deref()?;
    let is_pattern = row.files.is_none_or(|files| files > 1)
        && file.rsplit('/').next().is_some_and(|name| name.contains(['N', '*']));
    // All files below a directory: those that are removed need not be those that were created.
    let is_mixed = file.ends_with("/**");
    let enough = |files: u64| files as f64 >= SIBLINGS_PER_S * facts.seconds();
    let role = programs::role_of(row.process.as_deref(), file);
    // Rotated logs and periodic snapshots have siblings, too.
    let is_other = matches!(role, Some(role) if role != FileRole::Temporary);
    let is_temporary =
        role == Some(FileRole::Temporary) || TEMPORARY.iter().any(|folder| file.contains(folder));
    let goes = counts.unlinks as f64 >= MOST * counts.creates as f64 && counts.unlinks > 0;
    let is_read_back = is_temporary && counts.reads >= counts.creates;
    if !is_pattern
        || (is_mixed && !is_temporary)
        || is_other
        || !enough(counts.creates)
        || !is_not_kept(facts, row, counts.creates)
    {
        return None;
    }
    match goes || is_read_back {
        true => Some(SeenLifetimes::Siblings),
        false => is_temporary.then_some(SeenLifetimes::Making),
    }
}

/// Returns the program's waits for these files: in calls on them, and in throttling of its writes.
fn waits<'a>(facts: &Facts<'a>, row: &ActivityRow) -> Waited<'a> {
    let pattern = row.file.clone().unwrap_or_default();
    let begin = without_numbers(pattern.split('*').next().unwrap_or_default());
    let calls = [LOOKUP, METADATA, READ, WRITE, SYNC_FILE];
    facts.waits(|group: &WaitGroup| {
        let is_theirs = match &group.file {
            Some(file) => without_numbers(file).starts_with(&begin),
            None => {
                group.syscall.is_none()
                    || calls.iter().any(|call| facts.is_call(group.syscall, call))
            }
        };
        group.pid == row.pid && is_theirs
    })
}

/// Returns the finding's sentence.
fn sentence(row: &ActivityRow, seen: SeenLifetimes, who: &str) -> String {
    let file = row.file.as_deref().unwrap_or("files");
    let counts = &row.counts;
    let read_back = if counts.reads > 0 { ", read back" } else { "" };
    match seen {
        SeenLifetimes::Whole => format!(
            "{who} keeps {file} for only {}: {} files were created, written{read_back} and removed",
            words::time(row.lifetime_ns.unwrap_or(0) as f64),
            words::count(row.lives),
        ),
        SeenLifetimes::Making => format!(
            "{who} creates {file} in a directory for temporary files: {} files, {} written, none \
             removed yet",
            words::count(counts.creates),
            words::bytes(counts.write_bytes as f64),
        ),
        SeenLifetimes::Siblings => format!(
            "{who} creates and removes {file}: {} files created and {} removed, {} \
             written{read_back}",
            words::count(counts.creates),
            words::count(counts.unlinks),
            words::bytes(counts.write_bytes as f64),
        ),
    }
}

fn sureness(seen: SeenLifetimes) -> Confidence {
    match seen {
        SeenLifetimes::Whole => Confidence::Certain,
        SeenLifetimes::Siblings => Confidence::Likely,
        SeenLifetimes::Making => Confidence::Possible,
    }
}

fn check(seen: SeenLifetimes) -> &'static str {
    match seen {
        SeenLifetimes::Whole => {
            "put the directory on a tmpfs: if the program waits as long, the files are not the \
             cause"
        }
        SeenLifetimes::Siblings | SeenLifetimes::Making => {
            "watch for some minutes (`iowhy -t 300`) to see complete lifetimes; if the files stay, \
             they are data"
        }
    }
}

fn finding(facts: &Facts<'_>, row: &ActivityRow, seen: SeenLifetimes) -> Finding {
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
    let finding = Finding::of_waits(facts, &waited, sentence)
        // It may wait as long for what it does instead.
        .upper_bound()
        .sure(sureness(seen))
        .shown("files created", per_s(counts.creates), "1/s", &*files)
        .also("files removed", per_s(counts.unlinks), "1/s");
    let finding = match row.lifetime_ns {
        Some(lived) => finding.shown("mean file lifetime", lived as f64, "ns", &*files),
        None => finding,
    };
    let program = programs::of(subject.process.as_deref(), subject.file.as_deref());
    let own = program.and_then(|program| program.advice(Topic::Spill)).map(|it| format!("{it}; "));
    finding
        .shown("write throughput to these files", per_s(counts.write_bytes), "bytes/s", &*files)
        .shown(
            "blocked time for these files",
            waited.time_ns as f64,
            "ns",
            format!("iowhy waits{flags}"),
        )
        .fix(format!(
            "{}keep that data in memory, in the program or on a tmpfs (/dev/shm; it counts as \
             memory of its cgroup); if it must be files, use fewer and larger ones",
            own.unwrap_or_default(),
        ))
        .check(check(seen))
        .about(subject)
}

#[cfg(test)]
mod tests {
    use crate::{Confidence, Diagnosis, diagnose};
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::file::Counts;
    use iowhy_model::script::{MS, Script};
    use iowhy_model::{FileActivity, WaitClass};

    /// A web application that creates, reads and removes this many files in `folder` in ten
    /// seconds, syncs some, and is throttled for dirty pages; it also waits for three seconds for
    /// another file.
    fn churn(folder: &str, made: u64, removed: u64, synced: u64) -> Script {
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
            write.origin(iowhy_model::Origin::Writeback).direct(500, 500, 30 * MS).add();
        }
        let waits = [(1, WaitClass::DirtyThrottle, 6000), (0, WaitClass::PageRead, 3000)];
        for (call, class, ms) in waits {
            script.wait((7, "python3"), class, ms * MS, 0, 0);
            let (sda, file) = (script.names.intern("sda"), script.names.intern("/data/other"));
            let wait = script.batch.waits.last_mut().unwrap();
            (wait.syscall, wait.device) = (Some(call), Some(sda));
            wait.file = (class == WaitClass::PageRead).then_some(file);
        }
        script
    }

    fn judged(folder: &str, made: u64, removed: u64, synced: u64) -> Diagnosis {
        diagnose(&churn(folder, made, removed, synced).summary())
    }

    #[test]
    fn a_store_of_sorted_runs_replaces_its_log() {
        let mut script = churn("/srv/db", 100, 100, 0);
        assert!(of(&diagnose(&script.summary())).is_some());
        let counts = Counts { writes: 10, write_bytes: 1 << 20, ..Counts::default() };
        script.did((7, "python3"), "/srv/db/000007.ldb", counts);
        assert_eq!(of(&diagnose(&script.summary())), None);
    }

    fn of(diagnosis: &Diagnosis) -> Option<(usize, Confidence)> {
        let found =
            diagnosis.findings.iter().position(|finding| finding.cause == "temp-file-churn");
        found.map(|at| (at, diagnosis.findings[at].confidence))
    }

    #[test]
    fn files_that_outlive_the_watch_are_found_by_their_siblings() {
        // 6.1 files per second, none of which has a complete lifetime in the watch.
        let found = judged("/tmp/a1b2", 61, 0, 0);
        assert_eq!(of(&found), Some((0, Confidence::Likely)), "{:#?}", found.findings);
        let first = &found.findings[0];
        assert_eq!(first.subject.file.as_deref(), Some("/tmp/N/N.txt"));
        assert!((0.6..0.7).contains(&first.impact), "not the other file's waits: {first:?}");
        assert_eq!(of(&judged("/srv/work", 61, 61, 0)), Some((0, Confidence::Likely)));
    }

    #[test]
    fn files_anywhere_below_a_directory_are_no_siblings() {
        let mut script = churn("/srv/work/a", 0, 0, 0);
        let counts = Counts {
            creates: 61,
            unlinks: 61,
            writes: 61,
            write_bytes: 1 << 20,
            ..Counts::default()
        };
        script.did((7, "python3"), "/srv/work/**", counts);
        script.batch.files.last_mut().unwrap().files = Some(90);
        assert_eq!(of(&diagnose(&script.summary())), None);
        let file = script.names.intern("/srv/work/*.part");
        script.batch.files.last_mut().unwrap().file = Some(file);
        assert!(of(&diagnose(&script.summary())).is_some());
    }

    #[test]
    fn files_that_stay_are_data() {
        assert_eq!(of(&judged("/srv/photos", 61, 0, 0)), None, "they may stay");
        assert_eq!(of(&judged("/tmp/a1b2", 61, 61, 61)), None, "synced");
        assert_eq!(of(&judged("/tmp/a1b2", 20, 20, 0)), None, "two per second");
    }
}
