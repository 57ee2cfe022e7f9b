//! Processes wait for the lock of a file (flock, fcntl) whose holder waits for storage.
//!
//! What does not belong here: locks within a program (see `lock_behind_io`).

use super::*;
use crate::convoy::{Convoy, holder};
use crate::programs;
use iowhy_analysis::summary::ChainRow;
use iowhy_model::KnownBy;
use iowhy_model::compact_sort::CompactSort;
use std::collections::BTreeMap;

/// The most locks that are reported.
const LOCKS: usize = 3;

rule!(
    "file-lock",
    "file lock behind I/O",
    "A process reads, writes or syncs while it has the lock of a file, and others wait for that \
     lock: in flock(2), in fcntl(2), or by asking again and again, as SQLite does. They do no I/O \
     themselves, so no table of disks shows them, and they wait for as long as the disk takes.",
    "The holder computes or waits for the network while it has the lock.",
    place: Lock,
    needs: [Waits, Chains],
);

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_waits()?;
    let rows = facts.chains();
    let mut by_lock: BTreeMap<&str, Vec<&ChainRow>> = BTreeMap::new();
    for row in rows.filter(|row| !row.is_in_ledger) {
        let lock = row.steps.first().and_then(|first| first.lock.as_deref());
        if let Some(lock) = lock {
            by_lock.entry(lock).or_default().push(row);
        }
    }
    let convoys = by_lock.into_iter().filter_map(|(lock, rows)| Some((lock, Convoy::new(rows)?)));
    let mut convoys: Vec<(&str, Convoy<'_>)> = convoys.collect();
    convoys.compact_sort_by_key(|(lock, convoy)| (std::cmp::Reverse(convoy.time_ns), *lock));
    let found = convoys.iter().take(LOCKS).filter_map(|convoy| of_lock(facts, convoy.0, &convoy.1));
    Ok(found.collect::<Vec<_>>().into())
}

fn of_lock(facts: &Facts<'_>, lock: &str, convoy: &Convoy<'_>) -> Option<Finding> {
    let (most, sleepers) = (convoy.most(), convoy.sleepers()?);
    let holds = most.steps.get(1)?;
    let who = match sleepers.processes {
        0 | 1 => words::process(&sleepers.process, Some(sleepers.pid), None),
        many => format!("{many} processes {}", sleepers.process),
    };
    let wait = if sleepers.processes > 1 { "wait" } else { "waits" };
    let likely = holds.known_by == Some(KnownBy::Likely.word());
    let held = if likely { "probably held by" } else { "held by" };
    let sentence = format!("{who} {wait} for the lock of {lock}, {held} {}", holder(most));
    let subject = Subject {
        device: most.device.clone(),
        process: Some(sleepers.process.clone()),
        pid: (sleepers.processes <= 1).then_some(sleepers.pid),
        container: None,
        file: Some(lock.to_owned()),
    };
    let finding = convoy.finding(facts, subject, sentence);
    Some(
        finding
            .sure(if likely { Confidence::Likely } else { Confidence::Certain })
            .fix(fix(lock, most))
            .check(
                "`lslocks` (util-linux) lists who holds the lock and who waits for it; if the \
                 holder does no I/O while it has the lock, the disk is not the cause",
            ),
    )
}

/// A lock of a database's own file is taken by each of its transactions; another is one that jobs
/// take for their whole run.
fn fix(lock: &str, most: &ChainRow) -> String {
    let base = ["-shm", "-wal", "-journal"].iter().find_map(|end| lock.strip_suffix(end));
    let base = base.unwrap_or(lock);
    let is_own = |(file, _): &(String, u64)| file.starts_with(base);
    let own = programs::request_lock_advice(lock);
    match most.files.iter().any(is_own) || base != lock {
        true => "hold the lock for less: split what the holder does into small transactions, run \
                 VACUUM and mass deletes off-peak; in SQLite's WAL mode (PRAGMA \
                 journal_mode=WAL) readers go on beside a writer; raise busy_timeout only where \
                 waiting is harmless"
            .to_owned(),
        false => {
            own.map(|own| format!("{own}; else ")).unwrap_or_default()
                + "take the lock only around what must not run twice, not for the whole job; start \
                  the jobs at different times, or let them give up (`flock -n`, `flock -w`); and \
                  let the holder read or write another device"
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Confidence, Finding, Severity, diagnose};
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::script::Script;
    use iowhy_model::{KnownBy, WaitClass};

    const MS: u64 = 1_000_000;
    const FLOCK: u32 = 73;

    /// `jobs` processes wait for a lock for `ms` while its holder reads.
    fn found(jobs: u32, ms: u64, lock: Option<&str>, known_by: KnownBy) -> Option<Finding> {
        let mut script = Script::new(10);
        script.wait((7, "cat"), WaitClass::PageRead, ms * MS, ms * MS, 0);
        for job in 0..jobs {
            script.chain(&[(100 + job, "job"), (7, "cat")], ms * MS, ms * MS);
        }
        let [job, cat] = ["job", "cat"].map(|name| script.names.intern(name));
        let lock = lock.map(|lock| script.names.intern(lock));
        for row in &mut script.batch.wait_chains {
            if row.hop == 0 {
                (row.pid, row.process, row.syscall) = (row.tid, Some(job), Some(FLOCK));
                row.lock = lock;
            } else {
                (row.pid, row.process, row.known_by) = (7, Some(cat), Some(known_by));
                row.class = Some(WaitClass::PageRead);
            }
        }
        diagnose(&script.summary())
            .findings
            .into_iter()
            .find(|finding| finding.cause == "file-lock")
    }

    #[test]
    fn jobs_behind_a_lock_are_found_with_holder_and_file() {
        let found = found(8, 9000, Some("/run/report"), KnownBy::Owner).unwrap();
        assert_eq!((found.severity, found.confidence), (Severity::Critical, Confidence::Certain));
        assert!(
            found.sentence.starts_with(
                "8 processes job wait for the lock of /run/report, held by cat (7), which waits \
                 for pages of /data/snap"
            ),
            "{found:?}"
        );
        assert_eq!(found.claims.waited_ns(), 72_000 * MS, "without those of the holder");
        assert!(found.fix.contains("flock -n"));
    }

    #[test]
    fn one_job_is_enough_and_a_short_wait_is_information() {
        let one = found(1, 9000, Some("/run/report"), KnownBy::Likely).unwrap();
        assert_eq!((one.severity, one.confidence), (Severity::Critical, Confidence::Likely));
        assert!(one.sentence.contains("job (100) waits") && one.sentence.contains("probably"));
        let short = found(8, 500, Some("/run/report"), KnownBy::Owner).unwrap();
        assert_eq!(short.severity, Severity::Info);
        assert_eq!(found(8, 9000, None, KnownBy::Woken), None);
    }

    #[test]
    fn a_databases_lock_has_its_own_fix() {
        let own = found(2, 5000, Some("/data/snap-shm"), KnownBy::Owner).unwrap();
        assert!(own.fix.contains("journal_mode=WAL"), "{own:?}");
    }
}
