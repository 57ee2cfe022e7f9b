//! Transactions of a database wait for a row whose lock another one holds while it waits for
//! storage.
//!
//! What does not belong here: locks that the database itself takes (see `lock_behind_io`).

use super::*;
use crate::convoy::{Convoy, holder};
use crate::programs::{self, Topic};
use iowhy_analysis::summary::{ChainRow, ChainStep};
use iowhy_model::KnownBy;
use iowhy_model::wait::locks::is_row_lock;
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

/// The least waits for storage that the other session makes during one sleep, if it goes on with
/// work of its own: who hands over a commit to be synced sleeps for one or two. Chosen.
const MANY: u64 = 10;

/// Beginnings of functions in which a thread of MySQL and MariaDB works for a client; those of the
/// database itself, which write pages or purge, hold no row.
const FOR_CLIENTS: &[&str] = &["dispatch_command", "do_command", "mysql_", "handle_select"];

/// Functions of PostgreSQL's own processes, which hold no lock that sessions wait for.
const OF_THE_SERVER: &[&str] = &["CheckpointerMain", "BackgroundWriterMain", "WalWriterMain"];

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_waits()?;
    let rows = facts.chains();
    let mut by_program: BTreeMap<&str, Vec<&ChainRow>> = BTreeMap::new();
    let mut by_client: BTreeMap<(u32, &str), Vec<&ChainRow>> = BTreeMap::new();
    for row in rows.filter(|row| !row.is_in_ledger) {
        let Some(first) = row.steps.first() else { continue };
        let last = row.steps.last().map_or(&[][..], |step| &step.user_stack);
        if OF_THE_SERVER.iter().any(|main| last.iter().any(|function| function == main)) {
            continue;
        }
        if is_row_lock(&first.user_stack) {
            by_program.entry(&first.process).or_default().push(row);
        } else if let Some(server) = server_behind(row) {
            by_client.entry((server.pid, &first.process)).or_default().push(row);
        }
    }
    let convoys = by_program.into_values().filter_map(Convoy::new);
    let mut found: Vec<Finding> = convoys.filter_map(|convoy| of_rows(facts, &convoy)).collect();
    if found.is_empty() {
        let convoys = by_client.into_values().filter_map(Convoy::new);
        found.extend(convoys.filter_map(|convoy| of_client(facts, &convoy)));
    }
    Ok(found.into())
}

/// Returns the database in which a client's session waits for another one that waits for storage
/// again and again meanwhile.
fn server_behind(row: &ChainRow) -> Option<&ChainStep> {
    let [client, session, other, ..] = row.steps.as_slice() else { return None };
    let is_within = client.pid != session.pid && session.pid == other.pid;
    let is_long = row.waits >= MANY.saturating_mul(row.sleeps);
    let program = programs::of(Some(&session.process), None)?;
    let has_rows = program.advice(Topic::RowLock).is_some();
    let stack = &row.steps.last()?.user_stack;
    let is_for_client = |function: &String| FOR_CLIENTS.iter().any(|it| function.starts_with(it));
    let is_session = stack.is_empty() || stack.iter().any(is_for_client);
    (is_within && is_long && has_rows && is_session).then_some(session)
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
        iowhy_model::figures::plural(many, noun),
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
    // What no wake-up shows is inferred from who waited for as long.
    let holder = most.steps.get(1).and_then(|step| step.known_by);
    let is_likely = holder == Some(KnownBy::Likely.word());
    let own = programs::of(Some(process), None).and_then(|it| it.advice(Topic::RowLock));
    let general = "let fewer transactions change the same row, lock it last, and commit at once \
                   afterwards; what makes a commit faster helps each of them";
    Some(
        convoy
            .finding(facts, subject, sentence)
            .sure(if is_likely { Confidence::Likely } else { Confidence::Certain })
            .fix(own.unwrap_or(general))
            .check(
                "`iowhy chains` shows their stacks; the database's own view of locks names the \
                 row and the transaction that holds it",
            ),
    )
}

/// Returns the finding about a client whose session no stack shows.
fn of_client(facts: &Facts<'_>, convoy: &Convoy<'_>) -> Option<Finding> {
    let (most, client) = (convoy.most(), convoy.sleepers()?);
    let server = server_behind(most)?;
    let sentence = format!(
        "{} waits for {}: it probably needs a row or a table that the other session has locked",
        words::process(&client.process, Some(client.pid), None),
        holder(most),
    );
    let subject = Subject {
        device: most.device.clone(),
        process: Some(server.process.clone()),
        pid: Some(server.pid),
        container: facts.waits(|group| group.pid == server.pid).subject().container,
        file: most.files.first().map(|(file, _)| file.clone()),
    };
    let own = programs::of(Some(&server.process), None).and_then(|it| it.advice(Topic::RowLock));
    // Without its functions the other may be a thread of the database's own.
    let is_seen = most.steps.last().is_some_and(|other| !other.user_stack.is_empty());
    let (sure, worst) = match is_seen {
        true => (Confidence::Likely, Severity::Critical),
        false => (Confidence::Possible, Severity::Warning),
    };
    Some(convoy.finding(facts, subject, sentence).sure(sure).at_most(worst).fix(own?).check(
        "the database's own view of locks and sessions (`SHOW PROCESSLIST`, pg_locks) names \
             who waits for whom; if nobody waits for a lock, the session waits for its own work",
    ))
}

#[cfg(test)]
mod tests {
    use crate::{Confidence, Finding, Severity, diagnose};
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::WaitClass;
    use iowhy_model::script::Script;

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

    /// A client waits seven seconds for a session that waits for another one, which waits for
    /// storage so often meanwhile.
    fn behind_another(server: &str, waits: u64, function: &str) -> Option<Finding> {
        let mut script = Script::new(10);
        let functions = ["pread64", function];
        let stack = script.stack_of(if function.is_empty() { &[] } else { &functions }, true);
        script.wait((7, server), WaitClass::PageRead, 7000 * MS, 7000 * MS, 0);
        let threads = [(2, "shop"), (8, server), (9, server)];
        script.chain(&threads, 7000 * MS, 7000 * MS);
        for row in &mut script.batch.wait_chains {
            row.process = row.thread;
            row.pid = if row.hop == 0 { row.tid } else { 7 };
            row.waits = row.waits.map(|_| waits);
            row.user_stack_id = stack.filter(|_| row.hop == 2);
        }
        diagnose(&script.summary()).findings.into_iter().find(|finding| finding.cause == "row-lock")
    }

    #[test]
    fn a_clients_session_behind_another_that_goes_on_is_probably_locked_out() {
        let session = "dispatch_command(enum_server_command, THD*)";
        let found = behind_another("mariadbd", 2000, session).unwrap();
        assert_eq!((found.severity, found.confidence), (Severity::Critical, Confidence::Likely));
        assert!(found.sentence.starts_with("shop (2) waits for mariadbd (7)"), "{found:?}");
        let unseen = behind_another("mariadbd", 2000, "").unwrap();
        assert_eq!((unseen.severity, unseen.confidence), (Severity::Warning, Confidence::Possible));
        // A commit that another thread syncs; a program without rows; no session.
        assert_eq!(behind_another("mariadbd", 2, session), None);
        assert_eq!(behind_another("varnishd", 2000, session), None);
        assert_eq!(behind_another("mariadbd", 2000, "buf_flush_page_cleaner()"), None);
    }

    #[test]
    fn sessions_that_wait_for_work_are_not() {
        assert_eq!(found(&["WaitEventSetWait", "secure_read", "PostgresMain"]), None);
        assert_eq!(found(&[]), None);
    }
}
