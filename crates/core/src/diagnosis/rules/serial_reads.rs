//! One thread reads one request at a time from a device that could do many.

use super::*;
use crate::analysis::summary::DeviceSummary;
use crate::analysis::{Direction, Interval};
use crate::model::WaitClass;

/// The share of the watch that the thread must have waited for its reads. Chosen: next to nothing
/// else matters to it.
const WAITING: f64 = 0.7;
/// The share of a pool's waits that one thread must have, to be the one that reads. Chosen.
const FOREMOST: f64 = 0.8;
/// The share of the read bytes that go on where an earlier read ended, from which on it is a copy, which
/// the kernel reads ahead for. Chosen, as for bulk-scan.
const SEQUENTIAL: f64 = 0.5;
/// Requests at once, on average while there was one: below it they come one by one.
const DEPTH: f64 = 1.5;
/// A read below this is fast: more of them at once would help, but nobody calls it slow. Chosen.
const SLOW_NS: f64 = 500_000.0;

rule!(
    "serial-reads",
    "reads one after another",
    "The program asks for one block, waits, and asks for the next. Nothing is queued, so the device \
     shows its full latency for each and most of what it could do is not used: at 1 ms for a read, \
     1,000 reads a second are the most, on any device.",
    "More requests at once that do not give more reads a second: then the device itself is the limit.",
    needs: [Waits],
);

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_waits()?;
    let reading = [WaitClass::Device, WaitClass::PageRead, WaitClass::PageFault];
    let read_only = |device: &DeviceSummary| {
        let requests = |at| facts::of(device, at).requests;
        requests(Direction::Read) > requests(Direction::Write) * 4
    };
    let one_by_one = |device: &DeviceSummary| {
        let util = device.util_share.unwrap_or(0.0).max(1e-6);
        let depth = device.in_flight_mean / util;
        depth < DEPTH && device.stalled_ns.is_none()
    };
    let slow = |device: &DeviceSummary| {
        let stage = facts::stage(device, Direction::Read, Interval::D2c);
        stage.is_some_and(|stage| stage.mean_ns >= SLOW_NS)
    };
    let Some(device) = facts.busiest(|it| read_only(it) && one_by_one(it) && slow(it)) else {
        return Ok(Verdict::Clear);
    };
    let name = &device.device;
    let waited = facts.waits(|group| {
        let is_one =
            group.threads == 1 || group.foremost_ns as f64 >= FOREMOST * group.time_ns as f64;
        reading.contains(&group.class) && group.device.as_deref() == Some(name) && is_one
    });
    let Some(longest) = waited.groups.first() else { return Ok(Verdict::Clear) };
    let (mean_ns, usual) = without_tail(device);
    if (longest.foremost_ns as f64) * usual < WAITING * facts.duration_ns() as f64 {
        return Ok(Verdict::Clear);
    }
    let subject = waited.subject();
    let sequential = facts::of(device, Direction::Read).sequential_share.unwrap_or(0.0);
    let is_copy = sequential >= SEQUENTIAL;
    let sentence = format!(
        "{} reads one block after another from {name}: each takes {}, so {} a second is the most",
        words::who(&subject),
        words::time(mean_ns),
        words::number(1e9 / mean_ns),
    );
    let flags = words::flags(&subject);
    Ok(Finding::of_blocked(facts, (longest.time_ns as f64 * usual) as u64, sentence)
        .about(subject)
        // How many at once the device can do has not been tried.
        .upper_bound()
        // A copy from beginning to end is slow for no reason but its size.
        .at_most(if is_copy { Severity::Info } else { Severity::Critical })
        .shown("requests at once, while there was one", device.in_flight_mean / device.util_share.unwrap_or(1.0).max(1e-6), "requests", format!("iowhy -d {name}"))
        .shown("mean read at the device, outliers left out", mean_ns, "ns", format!("iowhy stages -d {name}"))
        .shown("of the watch its thread waited", longest.time_ns as f64 / facts.duration_ns().max(1) as f64 * 100.0, "%", format!("iowhy waits{flags}"))
        .fix("more requests at once: threads, io_uring or libaio, posix_fadvise(POSIX_FADV_WILLNEED) for what comes next; for sequential reads a larger queue/read_ahead_kb, and open the file again")
        .check(format!("`iowhy probe {name}` reads for some seconds, 1 and 32 at a time: if 32 give no more a second, the device has no room"))
        .into())
}

/// The mean read of a device without its outliers, nanoseconds, and the share of its reads' time that is
/// not theirs: a few reads of a second say nothing of reading one by one.
fn without_tail(device: &DeviceSummary) -> (f64, f64) {
    let Some(stage) = facts::stage(device, Direction::Read, Interval::D2c) else {
        return (0.0, 0.0);
    };
    let outlier_ns = stage.p50_ns as f64 * super::device_slow_tail::TIMES_MEDIAN;
    let buckets = facts::of(device, Direction::Read).d2c_histogram.iter();
    let outliers = buckets.filter(|bucket| bucket.from_ns as f64 >= outlier_ns);
    let (count, time_ns) = outliers.fold((0, 0.0), |(count, time_ns), bucket| {
        (count + bucket.requests, time_ns + bucket.requests as f64 * bucket.from_ns as f64)
    });
    let left_ns = (stage.sum_ns as f64 - time_ns).max(0.0);
    (
        left_ns / stage.requests.saturating_sub(count).max(1) as f64,
        left_ns / stage.sum_ns.max(1) as f64,
    )
}

#[cfg(test)]
mod tests {
    use crate::diagnosis::{Severity, diagnose};
    use crate::model::WaitClass;
    use crate::script::Script;

    const MS: u64 = 1_000_000;

    /// One thread of a pool reads a page after the other, `apart` sectors apart; another waits `other_ms`.
    fn severity(apart: u64, other_ms: u64) -> Option<Severity> {
        let mut script = Script::new(10);
        for index in 0..900_u64 {
            let read = script.read("sda", 16_384).by(7, "mysqld").at((index * 10 * MS) as i64);
            read.sector(index * apart).direct(500, 500, 10 * MS - 2000).file("/db/t").add();
        }
        for (tid, ms) in [(7, 8500), (8, other_ms)] {
            script.wait((7, "mysqld"), WaitClass::PageRead, ms * MS, ms * MS, 0);
            let sda = script.names.intern("sda");
            let wait = script.batch.waits.last_mut().unwrap();
            (wait.tid, wait.device) = (tid, Some(sda));
        }
        let findings = diagnose(&script.summary()).findings;
        findings.into_iter().find(|it| it.cause == "serial-reads").map(|it| it.severity)
    }

    #[test]
    fn one_busy_thread_of_a_pool_reads_alone() {
        assert_eq!(severity(7919 * 8, 100), Some(Severity::Critical));
        assert_eq!(severity(7919 * 8, 8000), None, "two that read");
    }

    #[test]
    fn a_few_reads_of_a_second_do_not_make_a_serial_reader() {
        let found = |slow_ms: u64| {
            let mut script = Script::new(10);
            for index in 0..600_u64 {
                let d2c = if index % 200 == 100 { slow_ms * MS } else { 10 * MS };
                let at = index * 10 * MS + (index + 99) / 200 * slow_ms * MS;
                let read = script.read("sda", 4096).by(7, "db").at(at as i64);
                read.sector(index * 7919 * 8).direct(500, 500, d2c - 2000).add();
            }
            script.wait(
                (7, "db"),
                WaitClass::PageRead,
                (6000 + 3 * slow_ms) * MS,
                (6000 + 3 * slow_ms) * MS,
                0,
            );
            let sda = script.names.intern("sda");
            script.batch.waits.last_mut().unwrap().device = Some(sda);
            diagnose(&script.summary()).findings.into_iter().find(|it| it.cause == "serial-reads")
        };
        assert!(found(1000).is_none(), "6 s of 10 are its reads one by one");
        assert!(found(10).is_none());
    }

    #[test]
    fn a_copy_is_no_fault() {
        assert_eq!(severity(32, 0), Some(Severity::Info));
    }
}
