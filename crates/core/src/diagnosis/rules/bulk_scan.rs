//! A backup or scan reads so much that others wait behind it.

use super::*;
use crate::analysis::Direction;
use crate::analysis::summary::{DeviceSummary, ProcessRow, Row};

/// The share of the bytes read that one process must own. Chosen: it is what the device does.
const SHARE: f64 = 0.6;
/// The share of the read bytes that go on where an earlier read of the file ended.
const SEQUENTIAL: f64 = 0.5;
/// Bytes read a second from which on it is a bulk of data.
const BYTES_PER_S: f64 = 4e6;
/// What a scan's requests are for.
const READS: &[&str] = &["read", "readahead", "page_fault"];
/// The share of all blocked time in which others wait for the device. Chosen.
const OTHERS: f64 = 0.1;

rule!(
    "bulk-scan",
    "a bulk reader in front of others",
    "A backup, a copy or a scan reads whole files one after another, as fast as the device gives them. \
     Its large requests fill the queue, so that everybody else's small ones wait behind them, and its \
     pages push theirs out of memory.",
    "Nobody else who waits: then the scan is busy and harms no one.",
    needs: [Waits, Processes],
    symptoms: ["page-cache-thrash", "provider-cap", "noisy-neighbour", "device-slow-tail"],
);

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_waits()?;
    facts.need_processes()?;
    let fits = |device: &DeviceSummary| scanner(device).is_some();
    let Some(device) = facts.busiest(fits) else { return Ok(Verdict::Clear) };
    let Some(scan) = scanner(device) else { return Ok(Verdict::Clear) };
    let name = &device.device;
    let others = facts.waits(|group| {
        group.device.as_deref() == Some(name)
            && group.process != scan.subject.process
    });
    let share = scan.usage.time_share;
    // Blame knows the time exactly; else the waits are split as the device's time is.
    let known = facts.summary().blame.is_some();
    let behind = facts.behind(READS).into_iter().find(|it| it.process == scan.subject.process);
    let behind_ns = match &behind {
        Some(behind) => behind.time_ns,
        None if known => 0,
        None => (others.time_ns as f64 * share) as u64,
    };
    if (behind_ns as f64) < OTHERS * facts.blocked_ns() as f64 {
        return Ok(Verdict::Clear);
    }
    let subject = facts::subject_of(name, Some(&scan));
    let read = scan.usage.directions[Direction::Read].bytes;
    let victim = behind.map_or_else(|| words::who(&others.subject()), |it| it.victim);
    let sentence = format!(
        "{} reads files in bulk from {name}, {} a second; {victim} waits behind it",
        words::who(&subject),
        words::bytes(read as f64 / facts.seconds()),
    );
    let flags = words::flags(&subject);
    Ok(Finding::of_blocked(facts, behind_ns, sentence)
        .about(subject)
        .shown("read by it", read as f64 / facts.seconds(), "bytes/s", format!("iowhy files{flags}"))
        .shown("of all time of the device", share * 100.0, "%", format!("iowhy -d {name}"))
        .shown("others wait for the device", others.time_ns as f64, "ns", "iowhy blame")
        .fix(
            "run it at another time, or limit it (io.max of its cgroup; begin it with `ionice -c3` where the scheduler is \
             bfq, or mq-deadline from Linux 5.14 on; rsync --bwlimit); let it drop what it read (POSIX_FADV_DONTNEED)"
        )
        .check("where it may stand still, stop all of it for ten seconds (`kill -STOP PID`, then `kill -CONT PID`, of each that `ps` shows now): if the others stay slow, it was not the scan")
        .into())
}

/// The largest process of the program that reads most, with what all processes of its name used: a
/// script starts one for each file.
fn scanner(device: &DeviceSummary) -> Option<Row<ProcessRow>> {
    let reads = facts::of(device, Direction::Read);
    let bytes = |row: &Row<ProcessRow>| row.usage.directions[Direction::Read].bytes;
    let of_name = |name: &str| -> Vec<&Row<ProcessRow>> {
        device.processes.iter().filter(|row| row.subject.process == name).collect()
    };
    let together = |row: &&Row<ProcessRow>| -> u64 {
        of_name(&row.subject.process).into_iter().map(bytes).sum()
    };
    let top = device.processes.iter().max_by_key(together)?;
    let mut all = top.clone();
    for other in of_name(&top.subject.process) {
        if other.subject.pid != top.subject.pid {
            all.usage.add(&other.usage);
        }
    }
    let sequential = reads.sequential_share.unwrap_or(0.0) >= SEQUENTIAL;
    let most = bytes(&all) as f64 >= SHARE * reads.bytes as f64;
    (most && sequential && reads.bytes_per_s >= BYTES_PER_S).then_some(all)
}
