//! A backup or scan reads so much that other processes wait behind it.

use super::super::finding::LEAST_IMPACT;
use super::super::programs;
use super::*;
use facts::BULK_PER_S;
use facts::SEQUENTIAL;
use facts::Waited;
use facts::thresholds::MOST;
use iowhy_analysis::summary::{self, ProcessRow, UsedRow};

/// The least share of the bytes read that one process must own. Chosen: it is then the device's
/// main load.
const SHARE: f64 = 0.6;
/// The least share of what the largest reader of the same name reads, for a process to be part of
/// the scan: workers of one parallel query read about the same. Chosen.
const OF_LARGEST: f64 = 0.25;
/// Origins of a scan's requests.
const READS: &[&str] = &["read", "readahead", "page_fault"];
/// The least share of the blocked time in which others wait for the device. Chosen.
const OTHERS: f64 = 0.1;

rule!(
    "bulk-scan",
    "bulk reads ahead of other I/O",
    "A backup, a copy or a scan reads whole files sequentially, as fast as the device allows. Its \
     large requests fill the queue, other processes' small ones wait behind them, and its pages \
     evict theirs from the page cache.",
    "No other process waits: then the scan is busy, but harmless.",
    place: Program,
    needs: [Waits, Processes],
    picture: Bytes,
);

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_waits()?;
    facts.need_processes()?;
    let fits = |device: &DeviceSummary| scanner(device).is_some();
    let device = facts.busiest(fits).ok_or(Clear)?;
    let scan = scanner(device).ok_or(Clear)?;
    // Where a disk must seek, many small requests take longer than large ones in order.
    clear_if(facts.rotates(device) && scan.row.usage.time_share < MOST)?;
    let name = &device.device;
    let others = facts.waits(|group| {
        group.device.as_deref() == Some(name) && scan.holds_up(facts, group.pid, &group.process)
    });
    let share = scan.row.usage.time_share;
    let (behind_ns, victim) = behind(facts, &scan, &others);
    let own = facts.waits(|group| scan.is_own(group.pid, &group.process));
    // The scan's own waits do not count: the impact is a share of the others' time.
    let of_others = facts.blocked_ns().saturating_sub(own.time_ns);
    let is_felt = behind_ns as f64 >= LEAST_IMPACT * facts.duration_ns() as f64;
    clear_if(!is_felt || (behind_ns as f64) < OTHERS * of_others as f64)?;
    let subject = facts::subject_of(name, Some(&scan.row));
    let read = scan.row.usage.directions[Direction::Read].bytes;
    let sentence = format!(
        "{} reads files in bulk from {name}, {} per second; {victim} waits behind it",
        words::who(&subject),
        words::bytes(read as f64 / facts.seconds()),
    );
    let flags = words::flags(&subject);
    let (fix, check) = (fix(&subject), check(&subject));
    let impact = behind_ns as f64 / of_others.max(1) as f64;
    let threads = behind_ns as f64 / facts.duration_ns().max(1) as f64;
    Ok(Finding::of_share(ImpactOf::BlockedTime, impact, threads, sentence)
        .claiming(Claims::of_waits(&others).limited_to(behind_ns))
        .about(subject)
        .shown(
            "its read throughput",
            read as f64 / facts.seconds(),
            "bytes/s",
            format!("iowhy files{flags}"),
        )
        .shown("share of the device's time", share * 100.0, "%", format!("iowhy -d {name}"))
        .shown("time others waited for the device", others.time_ns as f64, "ns", "iowhy blame")
        .fix(fix)
        .check(check)
        .into())
}

/// Returns what would refute it. Stopping a database's process may stop all others that wait for
/// its locks.
fn check(subject: &Subject) -> &'static str {
    match programs::of(subject.process.as_deref(), None) {
        Some(_) => {
            "watch again after it has ended: if the others are as slow, the scan is not the cause; \
             do not stop a database process with a signal, others may wait for its locks"
        }
        None => {
            "if it can be paused, stop all of it for ten seconds (`kill -STOP PID`, then `kill \
             -CONT PID`, for each process that `ps` shows now): if the others stay slow, the scan \
             is not the cause"
        }
    }
}

/// A database's own settings come first: its process must not be stopped or limited like a copy.
fn fix(subject: &Subject) -> String {
    let general = "run it at another time, or limit it (io.max of its cgroup; start it with \
                   `ionice -c3` if the scheduler is bfq, or mq-deadline since Linux 5.14; rsync \
                   --bwlimit); have it drop what it has read from the page cache \
                   (POSIX_FADV_DONTNEED)";
    let (process, file) = (subject.process.as_deref(), subject.file.as_deref());
    match programs::advice(process, file, programs::Topic::Reads) {
        Some(own) if !process.is_some_and(programs::is_command) => format!(
            "find what this process is doing, and run it at another time or elsewhere; {own}"
        ),
        Some(own) => format!("{own}; else {general}"),
        None => general.to_owned(),
    }
}

/// A bulk reader: some processes of one name, or all of them.
struct BulkReader {
    /// The largest of them, with the usage of all of them.
    row: UsedRow<ProcessRow>,
    /// Their PIDs, if only these processes of the name take part.
    pids: Option<Vec<u32>>,
}

impl BulkReader {
    fn is_own(&self, pid: u32, process: &str) -> bool {
        match &self.pids {
            Some(pids) => pids.contains(&pid),
            None => self.row.subject.process == process,
        }
    }

    /// Whether a process is another one, and has a reason not to wait for it.
    fn holds_up(&self, facts: &Facts<'_>, pid: u32, process: &str) -> bool {
        let subject = &self.row.subject;
        !self.is_own(pid, process)
            && !facts.yields_to((Some(pid), process), (subject.pid, &subject.process))
    }
}

/// Returns how long others waited behind the scan, nanoseconds, and the process that waited
/// longest. The time comes from blame; without it the waits are split by shares of the device's
/// time.
fn behind(facts: &Facts<'_>, scan: &BulkReader, others: &Waited<'_>) -> (u64, String) {
    let Some(blame) = &facts.summary().blame else {
        let time_ns = (others.time_ns as f64 * scan.row.usage.time_share) as u64;
        return (time_ns, words::who(&others.subject()));
    };
    let (mut sum, mut most, mut victim) = (0, 0, words::who(&others.subject()));
    for waiter in &blame.waiters {
        if !scan.holds_up(facts, waiter.pid.unwrap_or(0), &waiter.process) {
            continue;
        }
        let is_scan = |it: &&summary::BehindRow| {
            let reads = it.origin.is_some_and(|origin| READS.contains(&origin));
            let process = it.process.as_deref().unwrap_or_default();
            reads && !it.own && scan.is_own(it.pid.unwrap_or(0), process)
        };
        let time_ns: u64 =
            waiter.behind.iter().filter(is_scan).map(|it| it.time_ns).fold(0, u64::saturating_add);
        sum += time_ns;
        if time_ns > most {
            (most, victim) = (time_ns, words::process(&waiter.process, waiter.pid, None));
        }
    }
    (sum, victim)
}

/// Returns the main reader of a device: the processes of one name and container that each read
/// much, without others of the name (a database's backends); else all processes of the name, since
/// a script starts one per file.
fn scanner(device: &DeviceSummary) -> Option<BulkReader> {
    let reads = facts::of(device, Direction::Read);
    let bytes = |row: &UsedRow<ProcessRow>| row.usage.directions[Direction::Read].bytes;
    let same = |a: &UsedRow<ProcessRow>, b: &UsedRow<ProcessRow>| {
        a.subject.process == b.subject.process && a.subject.container == b.subject.container
    };
    let of_same = |row: &UsedRow<ProcessRow>| -> Vec<&UsedRow<ProcessRow>> {
        device.processes.iter().filter(|process| same(process, row)).collect()
    };
    let together = |row: &&UsedRow<ProcessRow>| -> u64 {
        of_same(row).into_iter().map(bytes).fold(0, u64::saturating_add)
    };
    let top = device.processes.iter().max_by_key(|row| (together(row), bytes(row)))?;
    let is_large = |it: &&UsedRow<ProcessRow>| bytes(it) as f64 >= OF_LARGEST * bytes(top) as f64;
    let largest: Vec<&UsedRow<ProcessRow>> = of_same(top).into_iter().filter(is_large).collect();
    let most = |rows: &[&UsedRow<ProcessRow>]| {
        rows.iter().map(|row| bytes(row)).fold(0_u64, u64::saturating_add) as f64
            >= SHARE * reads.bytes as f64
    };
    let (rows, pids) = match most(&largest) {
        true => {
            let pids = largest.iter().filter_map(|row| row.subject.pid).collect();
            (largest, Some(pids))
        }
        false => (of_same(top), None),
    };
    let sequential = reads.sequential_share.unwrap_or(0.0) >= SEQUENTIAL;
    if !most(&rows) || !sequential || reads.bytes_per_s.is_nan() || reads.bytes_per_s < BULK_PER_S {
        return None;
    }
    let mut row = top.clone();
    for other in rows.into_iter().filter(|row| row.subject.pid != top.subject.pid) {
        row.usage.add(&other.usage);
    }
    Some(BulkReader { row, pids })
}

#[cfg(test)]
mod tests {
    use crate::{Finding, diagnose};
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::script::{MS, Script};
    use iowhy_model::{Origin, WaitClass};

    /// One backend reads a table from end to end at 50 MB/s, while another reads at random and
    /// waits `waited_ms`; their names are `of_scan` and `of_other`.
    fn found(of_scan: &str, of_other: &str, waited_ms: u64) -> Option<Finding> {
        let mut script = Script::new(10);
        for index in 0..1000_u64 {
            let at = (index * 10 * MS) as i64;
            let scan = script.read("sda", 512 << 10).by(7, of_scan).at(at).sector(index * 1024);
            scan.origin(Origin::Readahead).file("/base/1/2").direct(500, 500, 8 * MS).add();
            let other = script
                .read("sda", 8192)
                .by(8, of_other)
                .at(at)
                .sector((1 << 30) + index * 7919 * 16);
            other.file("/base/1/3").direct(500, 500, 2 * MS).add();
        }
        for (who, ns) in [((7, of_scan), 9000 * MS), ((8, of_other), waited_ms * MS)] {
            script.wait(who, WaitClass::PageRead, ns, ns, 0);
            let sda = script.names.intern("sda");
            script.batch.waits.last_mut().unwrap().device = Some(sda);
        }
        let mut summary = script.summary();
        // Scripted waits belong to no request: their time is split by shares of the device's time.
        summary.blame = None;
        diagnose(&summary).findings.into_iter().find(|finding| finding.cause == "bulk-scan")
    }

    #[test]
    fn a_check_of_all_files_has_no_reason_not_to_wait() {
        assert_eq!(found("ffmpeg", "aide", 9000), None);
        assert!(found("aide", "ffmpeg", 9000).is_some());
        assert!(found("restic", "aide", 9000).is_some());
    }

    #[test]
    fn a_backend_that_scans_is_found_beside_others_of_its_name() {
        let found = found("postgres", "postgres", 8000).unwrap();
        assert_eq!(found.subject.pid, Some(7));
        assert!(found.sentence.contains("postgres (8) waits behind it"), "{}", found.sentence);
        assert!(found.impact > 0.7, "of the other's time: {found:?}");
        assert!(found.fix.contains("PostgreSQL") && !found.fix.contains("ionice"), "{}", found.fix);
        assert!(!found.check.contains("STOP"), "{}", found.check);
    }

    #[test]
    fn a_copy_is_found_as_before() {
        assert!(found("tar", "db", 8000).unwrap().fix.contains("ionice"));
        assert_eq!(found("tar", "tar", 0), None, "no process waits behind it");
        assert!(found("tar", "db", 200).is_some());
        assert_eq!(found("tar", "db", 100), None, "for less than 1 % of the interval");
    }
}
