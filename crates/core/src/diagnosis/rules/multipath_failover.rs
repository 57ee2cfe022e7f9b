//! Requests go back and forth between paths.

use super::*;
use crate::analysis::Interval;
use crate::analysis::summary::DeviceSummary;

/// Requests that the driver gave back, of all. Chosen.
const REQUEUED: f64 = 0.01;
/// Functions that send requests to another path.
const FAILOVER: &[&str] = &["nvme_failover_req", "nvme_requeue_work", "multipath_*", "dm_requeue_*", "pgpath_*", "nvme_mpath_*"];

rule!(
    "multipath-failover",
    "a path that fails over",
    "A device with several paths sends requests again over another one when a path fails or says that it \
     is not the right one. Until then they wait, and a path that comes and goes makes them wait again \
     and again.",
    "Requests given back by a device with one path: its queue is full, or its driver is short of memory.",
    symptoms: ["dm-layer", "device-slow-tail", "hung-io"],
);

fn judge(facts: &Facts<'_>) -> Judged {
    let requeued = |device: &DeviceSummary| -> u64 { device.directions.0.iter().map(|it| it.requeues).sum() };
    let all = |device: &DeviceSummary| -> u64 { device.directions.0.iter().map(|it| it.requests).sum() };
    let paths = |device: &DeviceSummary| device.device.starts_with("nvme") || device.device.starts_with("dm-");
    let over = facts.path_share(FAILOVER);
    // Of several paths to an NVMe drive the kernel makes a device that hangs on none of them.
    let is_one_path = |device: &DeviceSummary| device.transport.as_deref() == Some("pcie");
    // A multipath device whose paths are all busy requeues, too: load alone looks like that.
    let is_seen = over > REQUEUED;
    let fits = |device: &DeviceSummary| {
        paths(device) && !is_one_path(device) && requeued(device) as f64 > REQUEUED * all(device).max(1) as f64
    };
    let Some(device) = facts.busiest(|it| fits(it) || (over > REQUEUED && paths(it))) else {
        return Ok(Verdict::Clear);
    };
    let name = &device.device;
    let share = (requeued(device) as f64 / all(device).max(1) as f64).max(over);
    // What is sent again waits until it goes to the driver for the last time, from which D2C counts.
    let whole = facts::stage_sum(device, Interval::Q2c);
    let held = whole.saturating_sub(facts::stage_sum(device, Interval::D2c)) as f64 / whole.max(1) as f64;
    let sentence = format!(
        "the driver of {name} requeued {} of its requests: its paths are full, or one fails; {} of \
         their time passed before the last issue",
        words::percent(share),
        words::percent(held),
    );
    let impact = held.max(share).max(super::super::finding::WARNING_IMPACT);
    Ok(Finding::of_share(ImpactOf::DeviceTime, impact, 1.0, sentence)
        .about(Subject { device: Some(name.clone()), ..Subject::default() })
        .sure(if is_seen { Confidence::Likely } else { Confidence::Possible })
        .at_most(if is_seen { Severity::Critical } else { Severity::Warning })
        .shown("requests that the driver gave back", requeued(device) as f64, "requests", format!("iowhy -d {name}"))
        .shown("time before the driver had them for good", held * 100.0, "%", format!("iowhy stages -d {name}"))
        .shown("requests sent again by the path layer", over * 100.0, "%", format!("iowhy stacks -d {name}"))
        .fix(
            "look at the paths: `multipath -ll`, `nvme list-subsys`, `dmesg`. Only where one path is \
             failed and another is active, have the failed one repaired; a path that works stays. Where \
             all are active, their queues are full: less load, or a greater queue depth",
        )
        .check(
            "`multipath -ll` shows no failed path, and fewer requests in flight end the requeues: then \
             the queues were full and nothing fails over",
        )
        .into())
}
