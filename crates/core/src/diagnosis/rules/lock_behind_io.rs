//! Threads wait for a lock whose holder waits for storage.

use super::*;
use crate::analysis::summary::{ChainRow, Step};
use crate::model::KnownBy;
use crate::analysis::waits::locks::{is_idle, is_lock};
use facts::calls::FUTEX;

/// Threads that must stand behind one: with one or two it may be a worker that reads for another.
const THREADS: u64 = 3;
/// Threads that may be what others wait for where no stack shows a lock: more are a pool.
const HOLDERS: u64 = 2;
/// The share of their own time that threads must wait behind the other where no stack shows a lock: who
/// waits for work now and then is idle. Chosen.
const MOSTLY: f64 = 0.5;

rule!(
    "lock-behind-io",
    "a lock whose holder waits for the disk",
    "A thread writes or syncs while it holds a lock of its program. For as long as the disk takes, every \
     thread that wants the lock stands still, and none of them does any I/O: the disk shows one writer, \
     the program shows forty threads in futex(2).",
    "A holder that computes or waits for the network; or threads that wait for work, not for a lock.",
    needs: [Waits, Chains],
    symptoms: ["fsync-heavy", "journal-commit", "serial-reads", "flush-cost", "dirty-throttle"],
);

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_waits()?;
    let Some(chains) = &facts.summary().chains else { return Ok(Verdict::Clear) };
    let (seen, likely): (Vec<&ChainRow>, Vec<&ChainRow>) =
        chains.rows.iter().filter(|row| may_be_lock(facts, row)).partition(|row| is_seen(row));
    let sure = if seen.is_empty() { Confidence::Likely } else { Confidence::Certain };
    let rows = if seen.is_empty() { mostly_waiting(facts, likely) } else { seen };
    let Some(most) = rows.first() else { return Ok(Verdict::Clear) };
    let (Some(first), Some(holder)) = (most.steps.first(), most.steps.last()) else {
        return Ok(Verdict::Clear);
    };
    let time_ns: u64 = rows.iter().map(|row| row.time_ns).sum();
    let all_ns = facts.blocked_ns() + chains.time_ns;
    let impact = time_ns as f64 / all_ns.max(1) as f64;
    let threads = time_ns as f64 / facts.duration_ns().max(1) as f64;
    let file = most.files.first().map(|(file, _)| file.clone());
    let (who, holder) = (words::process(&first.process, Some(first.pid), None), named(holder));
    let (what, file_of) =
        (what(most.class), file.as_ref().map(|file| format!(" of {file}")).unwrap_or_default());
    let threads_of = format!("{} threads of {who}", first.threads);
    let sentence = match sure {
        Confidence::Certain => {
            format!("{threads_of} wait for a lock behind thread {holder}, which waits for {what}{file_of}")
        }
        _ => format!("{threads_of} sleep until thread {holder} wakes them, which waits for {what}{file_of}"),
    };
    let subject = Subject {
        device: most.device.clone(),
        process: Some(first.process.clone()),
        pid: Some(first.pid),
        container: facts.waits(|group| group.pid == first.pid).subject().container,
        file,
    };
    let flags = words::flags(&subject);
    Ok(Finding::of_share(ImpactOf::BlockedTime, impact, threads, sentence)
        .about(subject)
        .sure(sure)
        .shown("threads behind it", first.threads as f64, "threads", format!("iowhy chains{flags}"))
        .shown("their time while its holder waited for storage", time_ns as f64, "ns", format!("iowhy chains{flags}"))
        .shown("longest of these times", most.longest_ns as f64, "ns", format!("iowhy chains{flags}"))
        .fix(
            "where a lock is held meanwhile: copy what is to be written, release the lock, and write \
             then; or put that file on a faster device. What must be durable before the others go on \
             keeps its sync",
        )
        .check(
            "`iowhy chains` shows both stacks: where the others wait for work and not for a lock, they \
             are idle",
        )
        .into())
}

/// Whether a chain may be of a lock: threads that sleep in futex(2) for a thread of their own process and,
/// as far as stacks tell, do not wait for work.
fn may_be_lock(facts: &Facts<'_>, row: &ChainRow) -> bool {
    let (Some(first), Some(holder)) = (row.steps.first(), row.steps.get(1)) else { return false };
    let waits = facts.is_call(first.syscall, FUTEX) && first.pid == holder.pid;
    waits && first.threads >= THREADS && !is_idle(first.user_stack.iter().map(String::as_str))
}

/// Whether the lock itself was seen: its memory names the owner, or the waiters' stack waits for a lock.
fn is_seen(row: &ChainRow) -> bool {
    let owned = row.steps.get(1).is_some_and(|it| it.known_by == Some(KnownBy::Owner.word()));
    let stack = row.steps.first().map_or(&[][..], |it| &it.user_stack);
    owned || is_lock(stack.iter().map(String::as_str))
}

/// Of chains without a stack that shows a lock, those whose threads do little else than wait for one or two
/// others; together, since one lock may end in several ways.
fn mostly_waiting<'a>(facts: &Facts<'_>, rows: Vec<&'a ChainRow>) -> Vec<&'a ChainRow> {
    let few = |row: &&ChainRow| row.steps.get(1).is_some_and(|it| it.threads <= HOLDERS);
    let rows: Vec<&ChainRow> = rows.into_iter().filter(few).collect();
    let time: u64 = rows.iter().map(|row| row.time_ns).fold(0, u64::saturating_add);
    let threads = rows.iter().filter_map(|row| row.steps.first()).map(|it| it.threads).max();
    let all = facts.duration_ns() as f64 * threads.unwrap_or(0) as f64;
    if time as f64 >= MOSTLY * all { rows } else { Vec::new() }
}

fn named(step: &Step) -> String {
    let name = if step.thread.is_empty() { "of no name" } else { &step.thread };
    step.tid.map_or_else(|| name.to_owned(), |tid| format!("{name} ({tid})"))
}

fn what(class: &str) -> &'static str {
    match class {
        "device" | "queue" => "requests",
        "journal_commit" | "journal_space" => "the journal after a write",
        "dirty_throttle" => "room for dirty pages",
        "page_read" | "page_fault" => "pages",
        "cgroup_throttle" => "its cgroup's I/O limit",
        _ => "writes",
    }
}
