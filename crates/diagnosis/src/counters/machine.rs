//! The machine as a whole: swapping, faults, reclaim, stolen and busy CPUs, threads that are
//! blocked.
//!
//! What does not belong here: devices (see [`super::devices`]).

use super::{loads, of_messages};
use crate::facts::Facts;
use crate::finding::{Confidence, Finding, Severity};
use crate::place::Place;
use crate::words;
use crate::{bottleneck, rules};
use iowhy_analysis::summary::{Series, Summary};
use iowhy_model::Metric;

/// The least bytes swapped in per second: 64 pages, for which a rotating disk needs half of its
/// time, at 8 ms each.
const SWAPPED_IN: f64 = 64.0 * 4096.0;
/// The least major faults per second, for the same reason.
const FAULTS: f64 = 64.0;
/// The least bytes per second that programs scan to get memory: 1,000 pages. Chosen.
const SCANNED: f64 = 1000.0 * 4096.0;
/// The least share of stolen CPU time: providers call 5 to 10 % a reason to act.
const STOLEN: f64 = 0.10;
/// The least mean number of blocked threads, and the least share of idle time that waits for I/O.
const BLOCKED: f64 = 1.0;
const WAITING: f64 = 0.10;
/// The least mean number of blocked threads where no CPU time is told: more than one copy of files.
/// Chosen.
const BLOCKED_ALONE: f64 = 1.5;
/// The same share where blocked threads are not counted: one program makes it large on a machine of
/// few CPUs. Chosen.
const WAITING_ALONE: f64 = 0.50;

pub(super) fn findings(facts: &Facts<'_>) -> Vec<Finding> {
    let summary = facts.summary();
    let swap = swapping(summary);
    // Faults of pages in swap are counted as major faults, too.
    let faults = if swap.is_none() { faults(summary) } else { None };
    [swap, faults, reclaim(summary), steal(summary), blocked(summary)]
        .into_iter()
        .flatten()
        .collect()
}

/// Its growth per second.
fn rate(summary: &Summary, metric: Metric) -> f64 {
    summary.samples.system(metric).and_then(|series| series.mean).unwrap_or(0.0)
}

fn swapping(summary: &Summary) -> Option<Finding> {
    let (read, written) = (rate(summary, Metric::SwappedIn), rate(summary, Metric::SwappedOut));
    let sentence = format!(
        "memory is short: {}/s come back from swap and {}/s go out to it, and programs wait for \
         each page",
        words::bytes(read),
        words::bytes(written),
    );
    (read >= SWAPPED_IN).then(|| {
        of_messages(rules::swap_io::RULE, 0.5, Severity::Warning, sentence)
            .sure(Confidence::Likely)
            .shown("swapped in", read, "bytes/s", "vmstat 1")
            .also("swapped out", written, "bytes/s")
            .fix(
                "find who uses the memory (`ps aux --sort=-rss`), limit or stop it, or add \
                 memory; a smaller vm.swappiness only moves the loss to the page cache",
            )
            .check("`vmstat 1`: if si stays zero while it is slow, nothing swaps")
    })
}

fn faults(summary: &Summary) -> Option<Finding> {
    let per_s = rate(summary, Metric::MajorFaults);
    let sentence = format!(
        "programs wait for {} of their own pages a second (major faults): memory is too short to \
         keep their code and mapped files",
        words::number(per_s),
    );
    (per_s >= FAULTS).then(|| {
        of_messages(
            rules::major_faults::RULE.placed(Place::Memory),
            0.5,
            Severity::Warning,
            sentence,
        )
        .sure(Confidence::Possible)
        .shown("major faults", per_s, "1/s", "sar -B")
        .fix("give programs more memory, or use less of it; `sar -B` and `sar -r` tell when")
        .check("programs that start, or read mapped files for the first time, fault as well")
    })
}

fn reclaim(summary: &Summary) -> Option<Finding> {
    let per_s = rate(summary, Metric::ScannedDirect);
    let sentence = format!(
        "programs must search memory for free pages themselves: {}/s scanned (direct reclaim)",
        words::bytes(per_s),
    );
    (per_s >= SCANNED).then(|| {
        of_messages(rules::memory_reclaim::RULE, 0.2, Severity::Warning, sentence)
            .sure(Confidence::Possible)
            .shown("scanned by programs", per_s, "bytes/s", "sar -B")
            .fix(
                "raise vm.min_free_kbytes a little, or use less memory; bulk copies can use \
                 direct I/O",
            )
            .check("`sar -B`: pgscand/s is zero in quiet hours")
    })
}

/// Shares of CPU time: busy, waiting for I/O, stolen.
fn cpu_shares(summary: &Summary) -> Option<(f64, f64, f64)> {
    let grown = |metric| summary.samples.system(metric).map_or(0.0, Series::grown);
    let [user, system, idle, waiting, stolen] =
        [Metric::CpuUser, Metric::CpuSystem, Metric::CpuIdle, Metric::CpuIoWait, Metric::CpuSteal]
            .map(grown);
    let all = user + system + idle + waiting + stolen;
    (all > 0.0).then(|| ((user + system) / all, waiting / all, stolen / all))
}

fn steal(summary: &Summary) -> Option<Finding> {
    let (_, _, stolen) = cpu_shares(summary)?;
    let sentence = format!(
        "the hypervisor takes {} of the CPU time: requests and woken threads wait for a CPU that \
         does not run",
        words::percent(stolen),
    );
    (stolen >= STOLEN).then(|| {
        of_messages(rules::cpu_steal::RULE, stolen, Severity::Warning, sentence)
            .sure(Confidence::Likely)
            .shown("stolen CPU time", stolen * 100.0, "%", "vmstat 1")
            .fix(
                "use a larger or dedicated instance (burstable ones steal once their CPU \
                 credit is used up: check its graph), or fewer guests on the host",
            )
            .check("slow requests in seconds without steal have another reason")
    })
}

/// Threads that wait for storage where no device is told of.
fn blocked(summary: &Summary) -> Option<Finding> {
    let threads = summary.samples.system(Metric::Blocked).and_then(|blocked| blocked.mean);
    let waiting = cpu_shares(summary).map(|(_, waiting, _)| waiting);
    let is_known = loads(summary).iter().any(|load| load.util.is_some() || load.depth.is_some());
    let is_seen = match (threads, waiting) {
        (Some(threads), Some(waiting)) => threads >= BLOCKED && waiting >= WAITING,
        (Some(threads), None) => threads >= BLOCKED_ALONE,
        (None, waiting) => waiting? >= WAITING_ALONE,
    };
    if is_known || !is_seen {
        return None;
    }
    let who = threads.map_or_else(
        || "threads wait for storage".to_owned(),
        |threads| format!("{} threads wait for storage on average", words::number(threads)),
    );
    let has_rates = summary.samples.system(Metric::PagedIn).is_some();
    let moved = |metric| format!("{}/s", words::bytes(rate(summary, metric)));
    let rates = has_rates.then(|| {
        format!("; disks read {} and write {}", moved(Metric::PagedIn), moved(Metric::PagedOut))
    });
    let idle = waiting.map(|waiting| {
        format!(", and CPUs are idle for it {} of the time", words::percent(waiting))
    });
    let sentence = format!("{who}{}{}", idle.unwrap_or_default(), rates.unwrap_or_default());
    let share = waiting.unwrap_or(WAITING_ALONE);
    let mut finding = of_messages(bottleneck::BLOCKED_UNKNOWN, share, Severity::Warning, sentence);
    if let Some(threads) = threads {
        finding = finding.shown("blocked threads", threads, "threads", "vmstat 1");
    }
    if let Some(waiting) = waiting {
        finding = finding.shown("CPU time idle for I/O", waiting * 100.0, "%", "vmstat 1");
    }
    // One thread makes a machine of few CPUs idle for it, and may be blocked by right.
    let sure = match threads.and(waiting) {
        Some(_) => Confidence::Likely,
        None => Confidence::Possible,
    };
    Some(
        finding
            .sure(sure)
            .fix("find which device and who: `iostat -x 1 10`, `pidstat -d 1`, or iowhy itself")
            .check("threads in state D that wait for no storage (`ps -eo stat,wchan:32,comm`)"),
    )
}

pub(super) fn words(summary: &Summary) -> Option<String> {
    let (busy, waiting, _) = cpu_shares(summary)?;
    let threads = summary.samples.system(Metric::Blocked).and_then(|series| series.mean);
    let threads =
        threads.map(|thread| format!(", {} threads blocked on average", words::number(thread)));
    let idle = match waiting {
        waiting if waiting > 0.0 => format!("idle for I/O {}", words::percent(waiting)),
        _ => "never idle for I/O".to_owned(),
    };
    Some(format!(
        "Its CPUs were busy {} of the time and {idle}{}.",
        words::percent(busy),
        threads.unwrap_or_default(),
    ))
}
