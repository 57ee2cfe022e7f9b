//! Threads wait for a lock whose holder waits for storage.

use super::*;
use crate::analysis::summary::{ChainRow, Step};
use facts::calls::FUTEX;

/// Threads that must stand behind one: with one or two it may be a worker that reads for another.
const THREADS: u64 = 3;

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
    let is_lock = |row: &&ChainRow| {
        let (Some(first), Some(holder)) = (row.steps.first(), row.steps.get(1)) else { return false };
        let lock = facts.is_call(first.syscall, FUTEX);
        lock && first.pid == holder.pid && first.threads >= THREADS && holder.threads <= 2
    };
    let rows: Vec<&ChainRow> = chains.rows.iter().filter(is_lock).collect();
    let Some(most) = rows.first() else { return Ok(Verdict::Clear) };
    let (Some(first), Some(holder)) = (most.steps.first(), most.steps.last()) else {
        return Ok(Verdict::Clear);
    };
    let time_ns: u64 = rows.iter().map(|row| row.time_ns).sum();
    let all_ns = facts.blocked_ns() + chains.time_ns;
    let impact = time_ns as f64 / all_ns.max(1) as f64;
    let threads = time_ns as f64 / facts.duration_ns().max(1) as f64;
    let file = most.files.first().map(|(file, _)| file.clone());
    let sentence = format!(
        "{} threads of {} wait for thread {}, which waits for {}{}",
        first.threads,
        words::process(&first.process, Some(first.pid), None),
        named(holder),
        what(most.class),
        file.as_ref().map(|file| format!(" of {file}")).unwrap_or_default(),
    );
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
        .sure(Confidence::Certain)
        .shown("threads behind the lock", first.threads as f64, "threads", format!("iowhy chains{flags}"))
        .shown("their time while its holder waited for storage", time_ns as f64, "ns", format!("iowhy chains{flags}"))
        .shown("longest of these times", most.longest_ns as f64, "ns", format!("iowhy chains{flags}"))
        .fix("do not write or sync while the lock is held: copy what is to be written first, write a snapshot of it, and take the lock again only to publish it; or put that file on another device")
        .check("`iowhy chains` shows the holder's stack: without a lock around the write the others wait for something else")
        .into())
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
