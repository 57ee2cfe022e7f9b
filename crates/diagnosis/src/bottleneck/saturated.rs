//! A saturated device, with or without waits for it: for data without waits, such as a blktrace
//! capture, and for I/O that no thread waits for.
//!
//! What does not belong here: threads that wait (see [`super::group`]).

use super::bound::{FELT_NS, SATURATED, SLOW_NS, SLOW_ROTATING_NS, depth, is_saturated};
use super::report::busy;
use crate::captures;
use crate::facts::{self, Facts};
use crate::finding::{Confidence, Finding, Severity};
use crate::rule::RuleVerdict;
use crate::words;
use iowhy_analysis::summary::{DeviceSummary, Interval};

pub(super) fn judge(facts: &Facts<'_>) -> RuleVerdict {
    if captures::too_few("device-saturated", facts.summary()).is_some() {
        return RuleVerdict::Clear;
    }
    let busiest = facts.busiest(|device| is_saturated(device) && mean_ns(device) >= FELT_NS);
    let Some(device) = busiest else { return RuleVerdict::Clear };
    let time = requests_time(device).0;
    let top = facts.top_process(device, |_| true);
    let subject = facts::subject_of(&device.device, top);
    let name = &device.device;
    let by = subject.process.as_ref().map(|_| format!(", mostly for {}", words::who(&subject)));
    let sentence = format!(
        "{name} is saturated: busy {} of the time with {} requests in flight, {} each{}",
        words::percent(device.util_share.unwrap_or(SATURATED)),
        words::number(depth(device)),
        words::time(mean_ns(device)),
        by.unwrap_or_default(),
    );
    let held = facts::stage_sum(device, Interval::Q2d) as f64 / time.max(1) as f64;
    let stages = format!("iowhy stages -d {name}");
    let finding = Finding::of_device(facts, time, time, sentence)
        .sure(Confidence::Certain)
        .at_most(most(facts, device));
    let finding = match device.is_kernel_counted {
        true => finding.shown("mean request time (await)", mean_ns(device), "ns", "iowhy"),
        false => finding
            .shown("mean request time (Q2C)", mean_ns(device), "ns", stages.clone())
            .also("share of it before the driver (Q2D)", held * 100.0, "%"),
    };
    busy(finding, Some(device))
        .about(subject)
        .fix(
            "reduce the concurrent load: move a program to another device, limit it (io.max of its \
             cgroup), or run it at another time; else use a faster device",
        )
        .check(format!(
            "`iowhy stat 1 -d {name}` while the largest program is paused: if the others' requests \
             take as long, the device itself is slow"
        ))
        .into()
}

fn mean_ns(device: &DeviceSummary) -> f64 {
    let (sum, count) = requests_time(device);
    sum as f64 / count.max(1) as f64
}

/// Returns the time of requests (Q2C, or the kernel's count of it) and their number.
fn requests_time(device: &DeviceSummary) -> (u64, u64) {
    let stages =
        device.directions.0.iter().filter_map(|direction| direction.intervals[Interval::Q2c]);
    let counted = device.kernel.filter(|_| device.is_kernel_counted);
    let counted = counted.iter().flat_map(|counters| {
        counters.directions.0.iter().flatten().chain(counters.undirected.iter())
    });
    let parts = stages.map(|stage| (stage.sum_ns, stage.requests));
    let parts = parts.chain(counted.map(|counted| (counted.wait_ns, counted.requests)));
    parts.fold((0, 0), |sum, part| (sum.0.saturating_add(part.0), sum.1.saturating_add(part.1)))
}

/// Returns `Info` if waits are known (another bottleneck covers them) or short, else `Warning`.
fn most(facts: &Facts<'_>, device: &DeviceSummary) -> Severity {
    let limit = if facts.rotates(device) { SLOW_ROTATING_NS } else { SLOW_NS };
    let is_known = facts.summary().ledger.is_some();
    if is_known || mean_ns(device) < limit { Severity::Info } else { Severity::Warning }
}
