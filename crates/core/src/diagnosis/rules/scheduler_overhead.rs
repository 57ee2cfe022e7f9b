//! The I/O scheduler holds requests longer than the device needs.

use super::*;
use crate::analysis::Interval;
use crate::analysis::summary::DeviceSummary;

/// The scheduler's share of the requests' time. Chosen.
const SHARE: f64 = 0.3;
/// And this multiple of the device's time: where both are alike, the device is what is full. Chosen.
const TIMES_DEVICE: f64 = 1.5;

rule!(
    "scheduler-overhead",
    "the I/O scheduler",
    "A scheduler sorts requests and spreads the device over processes. On a device that can work on \
     many at once it has nothing to gain: bfq hands out few requests at a time and waits for a process \
     to send its next, and what stands in its queue could have been done. That time is I2D.",
    "A device that is given as many requests as it can take while the others stand in the scheduler: \
     then it is full, and any queue would hold them.",
    needs: [Queueing],
    symptoms: ["tag-starvation", "serial-reads"],
);

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_queueing()?;
    let sums = |device: &DeviceSummary| {
        let sum = |at| facts::stage_sum(device, at) as f64;
        (sum(Interval::I2d), sum(Interval::D2c), sum(Interval::Q2c).max(1.0))
    };
    let device = facts.busiest(|device| {
        let (held, at_device, whole) = sums(device);
        held / whole >= SHARE && held >= TIMES_DEVICE * at_device && device.stalled_ns.is_none()
    });
    let Some(device) = device else { return Ok(Verdict::Clear) };
    let (held, at_device, whole) = sums(device);
    let name = &device.device;
    let scheduler = facts.setting(device, "queue/scheduler").and_then(words::chosen);
    let scheduler = scheduler.unwrap_or("the scheduler");
    let sentence = format!(
        "{scheduler} holds requests of {name} back: {} of their time in its queue, {} at the device",
        words::percent(held / whole),
        words::percent(at_device / whole),
    );
    let top = facts.top_process(device, |_| true);
    Ok(Finding::of_device(facts, held as u64, whole as u64, sentence)
        .about(facts::subject_of(name, top))
        // A device that has more to do at once may take longer for each.
        .upper_bound()
        .shown("time in the scheduler (I2D)", held / whole * 100.0, "%", format!("iowhy stages -d {name}"))
        .shown("time at the device (D2C)", at_device / whole * 100.0, "%", format!("iowhy stages -d {name}"))
        .shown("requests at the device on average", at_device / facts.duration_ns().max(1) as f64, "requests", format!("iowhy -d {name}"))
        .fix(format!("echo none > /sys/block/{name}/queue/scheduler (udev rule to keep it); schedulers pay on rotating disks and for fairness"))
        .check("with none I2D is gone; if D2C rises by as much, the device was full and the scheduler only showed it")
        .into())
}
