//! One thread reads one request at a time from a device that could do many.

use super::*;
use crate::analysis::summary::DeviceSummary;
use crate::analysis::{Direction, Interval};
use crate::model::WaitClass;

/// The share of the watch that the thread must have waited for its reads. Chosen: next to nothing
/// else matters to it.
const WAITING: f64 = 0.7;
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
        reading.contains(&group.class) && group.device.as_deref() == Some(name) && group.threads == 1
    });
    let Some(longest) = waited.groups.first() else { return Ok(Verdict::Clear) };
    if (longest.time_ns as f64) < WAITING * facts.duration_ns() as f64 {
        return Ok(Verdict::Clear);
    }
    let Some(stage) = facts::stage(device, Direction::Read, Interval::D2c) else {
        return Ok(Verdict::Clear);
    };
    let subject = waited.subject();
    let sentence = format!(
        "{} reads one block after another from {name}: each takes {}, so {} a second is the most",
        words::who(&subject),
        words::time(stage.mean_ns),
        words::number(1e9 / stage.mean_ns),
    );
    let flags = words::flags(&subject);
    Ok(Finding::of_blocked(facts, longest.time_ns, sentence)
        .about(subject)
        // How many at once the device can do has not been tried.
        .upper_bound()
        // A copy reads like that, too, and is well.
        .at_most(Severity::Warning)
        .shown("requests at once, while there was one", device.in_flight_mean / device.util_share.unwrap_or(1.0).max(1e-6), "requests", format!("iowhy -d {name}"))
        .shown("mean read at the device", stage.mean_ns, "ns", format!("iowhy stages -d {name}"))
        .shown("of the watch its thread waited", longest.time_ns as f64 / facts.duration_ns().max(1) as f64 * 100.0, "%", format!("iowhy waits{flags}"))
        .fix("more requests at once: threads, io_uring or libaio, posix_fadvise(POSIX_FADV_WILLNEED) for what comes next; for sequential reads a larger queue/read_ahead_kb, and open the file again")
        .check(format!("`iowhy probe {name}` reads for some seconds, 1 and 32 at a time: if 32 give no more a second, the device has no room"))
        .into())
}
