//! A stream of writes that reaches the device in small pieces.

use super::*;
use crate::analysis::Direction;
use crate::analysis::summary::DeviceSummary;

/// Up to this size the cost of a request outweighs its data on any device.
const SMALL: f64 = 8192.0;
/// The share of the bytes that go on where an earlier write ended, so that they could have been one.
const SEQUENTIAL: f64 = 0.5;
/// Merged bios for each request below which nothing is put together. Chosen.
const MERGED: f64 = 0.1;
/// Writes a second from which on it matters.
const WRITES_PER_S: f64 = 100.0;

rule!(
    "small-writes",
    "small writes that could be large ones",
    "Writes that follow each other on the device arrive one by one, a few kilobytes each. Every request \
     has a cost of its own: in the program, the kernel, the controller, and on shared storage in the \
     number that is paid for. The block layer puts neighbours together where it may (queue/nomerges) \
     and where they are queued at the same time.",
    "Writes to random places, which cannot be put together. How much is gained depends on the device: \
     where bytes cost more than requests, next to nothing.",
    needs: [Settings],
);

fn judge(facts: &Facts<'_>) -> Judged {
    let merging_off = |device: &DeviceSummary| facts.number(device, "queue/nomerges").is_some_and(|it| it > 0.0);
    let small = |device: &DeviceSummary| {
        let writes = facts::of(device, Direction::Write);
        let merges = writes.merges_per_s / writes.requests_per_s.max(1e-9);
        writes.requests_per_s >= WRITES_PER_S
            && writes.average_bytes.is_some_and(|bytes| bytes <= SMALL)
            && writes.sequential_share.is_some_and(|share| share >= SEQUENTIAL)
            && merges < MERGED
            && merging_off(device)
    };
    let Some(device) = facts.busiest(small) else { return Ok(Verdict::Clear) };
    let name = &device.device;
    let writes = facts::of(device, Direction::Write);
    let top = facts.top_process(device, |row| row.usage.directions[Direction::Write].requests > 0);
    let subject = facts::subject_of(name, top);
    let sentence = format!(
        "{} writes to {name} in pieces of {} that follow each other, and the kernel is told not to put them together (nomerges)",
        words::who(&subject),
        words::bytes(writes.average_bytes.unwrap_or(0.0)),
    );
    let row = |direction: Direction| -> u64 {
        device.origins.iter().map(|row| row.usage.directions[direction].time_ns).sum()
    };
    let whole = facts::device_time_ns(device);
    // Of as many as are there at once, one request is left.
    let at_once = device.in_flight_mean / device.util_share.unwrap_or(1.0).max(1e-6);
    let spared = writes.sequential_share.unwrap_or(0.0) * (1.0 - 1.0 / at_once.max(1.0));
    let time = (row(Direction::Write) as f64 * spared) as u64;
    Ok(Finding::of_device(facts, time, whole, sentence)
        .about(subject)
        .upper_bound()
        .shown("writes", writes.requests_per_s, "1/s", format!("iowhy stat -d {name}"))
        .shown("average size", writes.average_bytes.unwrap_or(0.0), "bytes", format!("iowhy stat -d {name}"))
        .shown("requests at once, while there was one", at_once, "requests", format!("iowhy -d {name}"))
        .shown("go on where the one before ended", writes.sequential_share.unwrap_or(0.0) * 100.0, "%", format!("iowhy stat -d {name}"))
        .fix(format!("`echo 0 > /sys/block/{name}/queue/nomerges`; larger writes in the program"))
        .check("with merging on, wareq-sz of `iowhy stat --wide` rises and writes a second fall; if not, they are queued too far apart")
        .into())
}
