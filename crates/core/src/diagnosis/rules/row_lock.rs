//! Transactions of a database wait for a row whose lock another one holds while it waits for
//! storage.
//!
//! What does not belong here: locks that the database itself takes (see `lock_behind_io`).

use super::file_lock::{Convoy, holder, verdict};
use super::*;
use crate::analysis::summary::ChainRow;
use crate::analysis::waits::locks::is_row_lock;
use crate::diagnosis::programs::{self, Topic};
use std::collections::BTreeMap;

rule!(
    "row-lock",
    "row lock behind I/O",
    "A transaction has locked a row or a table and waits for the disk: for the sync of its commit, \
     or for what it reads before. All transactions that want the same row wait until it is done, \
     one after the other: the disk has one sync at a time, and whatever takes the disk a \
     millisecond takes each of the others as many as there are transactions in front of it.",
    "The transaction that holds the row computes, or waits for its client.",
    place: Lock,
    needs: [Waits, Chains],
);

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_waits()?;
    let rows = facts.summary().chains.iter().flat_map(|chains| &chains.rows);
    let mut by_program: BTreeMap<&str, Vec<&ChainRow>> = BTreeMap::new();
    for row in rows.filter(|row| !row.is_in_ledger) {
        let first = row.steps.first().filter(|first| is_row_lock(&first.user_stack));
        if let Some(first) = first {
            by_program.entry(&first.process).or_default().push(row);
        }
    }
    let convoys = by_program.into_values().filter_map(Convoy::new);
    let found = convoys.filter_map(|convoy| of_rows(facts, &convoy));
    Ok(verdict(found.collect()))
}

fn of_rows(facts: &Facts<'_>, convoy: &Convoy<'_>) -> Option<Finding> {
    let (most, sleepers) = (convoy.most(), convoy.sleepers()?);
    let process = &sleepers.process;
    let (many, noun) = match sleepers.processes {
        0 | 1 => (convoy.threads(), "thread"),
        processes => (processes, "process"),
    };
    let wait = if many == 1 { "waits" } else { "wait" };
    let sentence = format!(
        "{} of {process} {wait} for a locked row or table, held by {}",
        crate::figures::plural(many, noun),
        holder(most),
    );
    let pid = (sleepers.processes <= 1).then_some(sleepers.pid);
    let subject = Subject {
        device: most.device.clone(),
        process: Some(process.clone()),
        pid,
        container: facts.waits(|group| group.process == *process).subject().container,
        file: most.files.first().map(|(file, _)| file.clone()),
    };
    let own = programs::of(Some(process), None).and_then(|it| it.advice(Topic::RowLock));
    let general = "let fewer transactions change the same row, lock it last, and commit at once \
                   afterwards; what makes a commit faster helps each of them";
    Some(
        convoy
            .finding(facts, subject, sentence)
            .sure(Confidence::Certain)
            .fix(own.unwrap_or(general))
            .check(
                "`iowhy chains` shows their stacks; the database's own view of locks names the \
                 row and the transaction that holds it",
            ),
    )
}

#[cfg(test)]
mod tests {
    use crate::diagnosis::{Confidence, Finding, Severity, diagnose};
    use crate::model::WaitClass;
    use crate::script::Script;

    const MS: u64 = 1_000_000;
    const EPOLL_WAIT: u32 = 232;

    /// 15 sessions wait for one that syncs, with these functions on their stacks.
    fn found(functions: &[&str]) -> Option<Finding> {
        let mut script = Script::new(10);
        let stack_id = script.stack_of(functions, true);
        script.wait((7, "postgres"), WaitClass::Fsync, 9000 * MS, 9000 * MS, 0);
        for session in 0..15 {
            script.chain(&[(100 + session, "postgres"), (7, "postgres")], 9000 * MS, 9000 * MS);
        }
        let postgres = script.names.intern("postgres");
        for row in &mut script.batch.wait_chains {
            (row.pid, row.process) = (row.tid, Some(postgres));
            if row.hop == 0 {
                (row.syscall, row.user_stack_id) = (Some(EPOLL_WAIT), stack_id);
            }
        }
        diagnose(&script.summary()).findings.into_iter().find(|finding| finding.cause == "row-lock")
    }

    #[test]
    fn sessions_behind_a_row_are_found() {
        let stack = ["WaitEventSetWait", "ProcSleep", "LockAcquireExtended", "XactLockTableWait"];
        let found = found(&stack).unwrap();
        assert_eq!((found.severity, found.confidence), (Severity::Critical, Confidence::Certain));
        assert!(
            found.sentence.starts_with("15 processes of postgres wait for a locked row or table")
        );
        assert!(found.sentence.contains("held by postgres (7), which waits for writes of"));
        assert!(!found.fix.contains("raise commit_delay"), "{}", found.fix);
    }

    #[test]
    fn sessions_that_wait_for_work_are_not() {
        assert_eq!(found(&["WaitEventSetWait", "secure_read", "PostgresMain"]), None);
        assert_eq!(found(&[]), None);
    }
}
