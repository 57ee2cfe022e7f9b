//! Sequential writes that reach the device in small requests.

use super::*;
use facts::SEQUENTIAL;

/// The largest size at which the cost per request outweighs its data on any device.
const SMALL: f64 = 8192.0;
/// Merged bios per request, below which nothing is merged. Chosen.
const MERGED: f64 = 0.1;
/// The least writes per second that matter.
const WRITES_PER_S: f64 = 100.0;

rule!(
    "small-writes",
    "small sequential writes with merging off",
    "Writes that are contiguous on the device arrive one by one, a few kilobytes each. Every \
     request has a cost of its own: in the program, the kernel, the controller, and on cloud \
     storage in the billed count. The block layer merges neighbours if it may (queue/nomerges) and \
     if they are queued at the same time.",
    "The writes are random, and cannot be merged. The gain depends on the device: if bytes cost \
     more than requests, it is next to nothing.",
    place: Setting,
    needs: [Settings],
    bound: [
        "of the write time: all but one of the writes that are in flight together, as far as \
         they are adjacent",
        "the bytes of one large write take their time, too",
    ],
    picture: Heat,
);

fn judge(facts: &Facts<'_>) -> Judged {
    let merging_off =
        |device: &DeviceSummary| facts.number(device, "queue/nomerges").is_some_and(|it| it > 0.0);
    let small = |device: &DeviceSummary| {
        let writes = facts::of(device, Direction::Write);
        let merges = writes.merges_per_s / writes.requests_per_s.max(1e-9);
        writes.requests_per_s >= WRITES_PER_S
            && writes.average_bytes.is_some_and(|bytes| bytes <= SMALL)
            && writes.sequential_share.is_some_and(|share| share >= SEQUENTIAL)
            && merges < MERGED
            && merging_off(device)
    };
    let device = facts.busiest(small).ok_or(Clear)?;
    let name = &device.device;
    let writes = facts::of(device, Direction::Write);
    let top = facts.top_process(device, |row| row.usage.directions[Direction::Write].requests > 0);
    let subject = facts::subject_of(name, top);
    let sentence = format!(
        "{} writes to {name} in contiguous pieces of {}, and the kernel is set not to merge them \
         (nomerges)",
        words::who(&subject),
        words::bytes(writes.average_bytes.unwrap_or(0.0)),
    );
    let times = device.origins.iter().map(|row| row.usage.directions[Direction::Write].time_ns);
    let write_ns = times.fold(0, u64::saturating_add);
    let whole = facts::device_time_ns(device);
    // Merging leaves one request of those queued at the same time.
    let at_once = device.in_flight_mean / device.util_share.unwrap_or(1.0).max(1e-6);
    let spared = writes.sequential_share.unwrap_or(0.0) * (1.0 - 1.0 / at_once.max(1.0));
    let time = (write_ns as f64 * spared) as u64;
    Ok(Finding::of_device(facts, time, whole, sentence)
        .about(subject)
        .upper_bound()
        .shown("writes", writes.requests_per_s, "1/s", format!("iowhy stat -d {name}"))
        .also("mean write size", writes.average_bytes.unwrap_or(0.0), "bytes")
        .shown(
            "mean requests in flight while busy",
            at_once,
            "requests",
            format!("iowhy -d {name}"),
        )
        .shown(
            "sequential share of writes",
            writes.sequential_share.unwrap_or(0.0) * 100.0,
            "%",
            format!("iowhy stat -d {name}"),
        )
        .fix(format!(
            "`echo 0 > /sys/block/{name}/queue/nomerges`; issue larger writes in the \
                      program"
        ))
        .check(
            "with merging on, wareq-sz of `iowhy stat --wide` rises and writes per second fall; if \
             not, they are queued too far apart",
        )
        .into())
}
