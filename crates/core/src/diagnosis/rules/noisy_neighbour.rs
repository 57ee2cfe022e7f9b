//! The device got slower, and nothing that this machine does explains it.

use super::provider_cap::even_bins;
use super::*;
use crate::analysis::patterns::{Bin, Timeline};
use crate::analysis::summary::DeviceSummary;
use facts::shape;

/// How much longer requests take than before. Chosen.
const SLOWER: f64 = 2.0;
/// How much depth and size may differ between the two parts. Chosen.
const SAME: f64 = 0.35;
/// Requests a second afterwards, where more of them wait than before, of what there were. Chosen.
const LESS: f64 = 0.7;
/// The mean time of a request afterwards from which on it is worth a word.
const SLOW_NS: f64 = 1_000_000.0;
/// Requests that a bin must hold for its mean to say anything.
const LEAST: u64 = 5;
/// Bins of half a second that must be seen.
const BINS: usize = 8;

rule!(
    "noisy-neighbour",
    "somebody else on the same storage",
    "The storage behind the device is shared. When somebody else uses it, requests take longer between \
     the driver and the completion, while this machine sends the same requests, of the same size, as \
     many at a time.",
    "A change of this machine's own load at the same moment, or a rate that is flat at both levels (then \
     it is a limit: burst-credits, provider-cap).",
);

fn judge(facts: &Facts<'_>) -> Judged {
    let found = facts.devices().iter().filter(|it| it.stalled_ns.is_none());
    let mut found = found.filter_map(|device| slower(facts, device).map(|it| (device, it)));
    let Some((device, found)) = found.next() else {
        let needed = BINS as f64 * 0.5e9;
        if (facts.duration_ns() as f64) < needed && !facts.devices().is_empty() {
            return Err(Missing(format!("the watch is shorter than {}", words::time(needed))));
        }
        return Ok(Verdict::Clear);
    };
    let name = &device.device;
    let sentence = format!(
        "{name} answers in {} instead of {}, under the same load: somebody else uses what is behind it",
        words::time(found.after_ns),
        words::time(found.before_ns),
    );
    let whole = facts::device_time_ns(device);
    Ok(Finding::of_device(facts, (found.extra * whole as f64) as u64, whole, sentence)
        .about(Subject { device: Some(name.clone()), ..Subject::default() })
        .sure(Confidence::Possible)
        .shown("mean time at the device before", found.before_ns, "ns", format!("iowhy plot -d {name}"))
        .shown("mean time at the device since", found.after_ns, "ns", format!("iowhy plot -d {name}"))
        .shown("requests at once", device.in_flight_mean, "requests", format!("iowhy stat -d {name}"))
        .fix("ask who shares the storage; move one of them, or give this machine a guaranteed share")
        .check("iowhy stat -d DEVICE for some minutes: if the slow times go with your own load, it is no neighbour")
        .into())
}

struct Slower {
    before_ns: f64,
    after_ns: f64,
    /// The share of the device's time that the slowing explains.
    extra: f64,
}

fn slower(facts: &Facts<'_>, device: &DeviceSummary) -> Option<Slower> {
    let timeline = even_bins(&facts.patterns(&device.device)?.timeline);
    if timeline.bins.len() < BINS || timeline.bins.iter().any(|bin| bin.requests < LEAST) {
        return None;
    }
    let latency = values(&timeline, |bin| bin.d2c_ns as f64 / bin.requests as f64);
    let depth = values(&timeline, |bin| bin.q2c_ns as f64 / timeline.bin_ns as f64);
    let size = values(&timeline, |bin| bin.bytes as f64 / bin.requests as f64);
    // By orders of magnitude: a single slow bin shall not stand for a level.
    let orders: Vec<f64> = latency.iter().map(|it| it.max(1.0).ln()).collect();
    let step = shape::step(&orders, f64::INFINITY)?;
    let (left, right) = shape::around(&latency, step.at);
    // A device that got faster again was slow before.
    let (fast, slow) = if step.before < step.after { (left, right) } else { (right, left) };
    let (before, after) = (shape::mean(fast), shape::mean(slow));
    let apart = slow.iter().all(|late| fast.iter().all(|early| late > early));
    let level = |values: &[f64]| {
        let (left, right) = shape::around(values, step.at);
        let (left, right) = (shape::mean(left), shape::mean(right));
        if step.before < step.after { (left, right) } else { (right, left) }
    };
    let alike = |(left, right): (f64, f64)| (left - right).abs() <= SAME * left.max(right);
    // A load with a pace of its own piles up where the device gives less; one that asks for more gets more,
    // or as much as before.
    let (had, has) = level(&values(&timeline, |bin| bin.requests as f64));
    let same = alike(level(&depth)) || has <= LESS * had;
    let count: u64 = timeline.bins.iter().map(|bin| bin.requests).sum();
    let all: u64 = timeline.bins.iter().map(|bin| bin.d2c_ns).sum();
    let extra = 1.0 - before * count as f64 / all.max(1) as f64;
    (apart && after >= SLOWER * before && after >= SLOW_NS && same && alike(level(&size)))
        .then_some(Slower { before_ns: before, after_ns: after, extra })
}

fn values(timeline: &Timeline, of: impl Fn(&Bin) -> f64) -> Vec<f64> {
    timeline.bins.iter().map(of).collect()
}
