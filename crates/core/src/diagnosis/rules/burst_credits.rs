//! The device was allowed more for a while, then its credit was used up.

use super::provider_cap::{even_bins, is_saturated};
use super::*;
use crate::analysis::Direction;
use crate::analysis::patterns::Bin;
use crate::analysis::summary::DeviceSummary;
use facts::shape::{self, Step};

/// The sizes of requests and the level after the drop must be this even. Chosen: as for a cap, with room
/// for the bin of the change. Requests that end together, as many as wait, make a bin's count uneven by
/// themselves: where few end in a bin, that much is allowed.
const EVEN: f64 = 0.06;
/// The level before the drop: it may be the credit's limit, or whatever the load and the device gave.
/// Every bin of it lies above every bin after the drop. Chosen.
const EVEN_BEFORE: f64 = 0.35;
/// The second level is at most this share of the first. Chosen.
const DROP: f64 = 0.7;
/// Bins of half a second that must be seen.
const BINS: usize = 8;

rule!(
    "burst-credits",
    "used-up burst credits",
    "Many cloud volumes and instances may exceed their limit for a while, from a credit that refills \
     when they do less. When it is used up, the rate falls to the limit from one moment to the next, \
     although the load is the same, and stays there. A solid-state drive of this machine does the same where \
     the fast part of its memory, which takes writes first, is full, or where it has become too hot.",
    "A load that changed at the same moment: other processes, sizes or depth.",
    symptoms: ["provider-cap", "noisy-neighbour", "serial-reads", "device-slow-tail"],
);

fn judge(facts: &Facts<'_>) -> Judged {
    let dropped = |device: &&DeviceSummary| is_saturated(device) && drop_of(facts, device).is_some();
    let Some(device) = facts.devices().iter().find(dropped) else {
        let needed = BINS as f64 * 0.5e9;
        if (facts.duration_ns() as f64) < needed && !facts.devices().is_empty() {
            return Err(Missing(format!("the watch is shorter than {}", words::time(needed))));
        }
        return Ok(Verdict::Clear);
    };
    let Some(Fall { step, since_ns, extra }) = drop_of(facts, device) else { return Ok(Verdict::Clear) };
    let name = &device.device;
    let Some(used_up) = used_up(facts, device) else {
        return Err(Missing(format!("{name} is slower than before, but is a drive of this machine: it has no credit")));
    };
    let sentence = format!(
        "{name} fell from {} to {} requests a second {} after the watch began, and stayed there under the same load: {}",
        words::number(step.before),
        words::number(step.after),
        words::time(since_ns),
        used_up.what,
    );
    let whole = facts::device_time_ns(device);
    Ok(Finding::of_device(facts, (extra * whole as f64) as u64, whole, sentence)
        .sure(used_up.sure)
        .about(facts::subject_of(name, facts.top_process(device, |_| true)))
        .shown("rate before", step.before, "1/s", format!("iowhy stat -d {name} 1"))
        .shown("rate since", step.after, "1/s", format!("iowhy stat -d {name} 1"))
        .shown("requests waiting at the device", device.in_flight_mean, "requests", format!("iowhy -d {name}"))
        .fix(used_up.fix)
        .check(used_up.check)
        .into())
}

/// What was used up, as somebody who looks after such a device says it.
struct UsedUp {
    what: &'static str,
    sure: Confidence,
    fix: &'static str,
    check: &'static str,
}

/// Of what a provider sells.
const VOLUME: UsedUp = UsedUp {
    what: "its burst credit is used up",
    sure: Confidence::Likely,
    fix: "a volume whose base limit is enough (gp3 or provisioned instead of gp2), or less load until the credit is back",
    check: "the provider's graph of the credit (EBS: BurstBalance; of the instance: EBSIOBalance%, EBSByteBalance%): not near zero means something else slowed it",
};

/// Of a solid-state drive of one's own that is written.
const WRITTEN: UsedUp = UsedUp {
    what: "its fast memory for writes is full, or it is too hot",
    sure: Confidence::Possible,
    fix: "write less at once, a drive that is made for steady writes, or more air for it",
    check: HEALTH,
};

/// Of one that is read.
const READ: UsedUp = UsedUp {
    what: "it may have become too hot",
    sure: Confidence::Possible,
    fix: "more air for it, or less to do at once",
    check: HEALTH,
};
const HEALTH: &str = "its health log (`smartctl -a`, `nvme smart-log`): a warning of temperature, or of time spent throttled, means heat; where there is neither, and nothing is written, something else slowed it";

/// What a device can have used up; nothing that is known where it is a rotating disk of one's own.
fn used_up(facts: &Facts<'_>, device: &DeviceSummary) -> Option<&'static UsedUp> {
    if !facts.is_own_drive(device) {
        return Some(&VOLUME);
    }
    let written = facts::of(device, Direction::Write).requests;
    let kind = if written > facts::of(device, Direction::Read).requests { &WRITTEN } else { &READ };
    (facts.number(device, "queue/rotational") == Some(0.0)).then_some(kind)
}

/// A drop to a lower limit.
struct Fall {
    step: Step,
    /// When it came, after the beginning of the watch, nanoseconds.
    since_ns: f64,
    /// The share of the device's time that requests take longer since than they took before.
    extra: f64,
}

fn drop_of(facts: &Facts<'_>, device: &DeviceSummary) -> Option<Fall> {
    let timeline = even_bins(&facts.patterns(&device.device)?.timeline);
    let rates: Vec<f64> = timeline.bins.iter().map(|bin| timeline.per_s(bin.requests)).collect();
    let sizes: Vec<f64> = timeline
        .bins
        .iter()
        .map(|bin| bin.bytes as f64 / bin.requests.max(1) as f64)
        .collect();
    if rates.len() < BINS || shape::variation(&sizes) > EVEN {
        return None;
    }
    let step = shape::step(&rates, EVEN_BEFORE)?;
    let (left, right) = shape::around(&rates, step.at);
    let counts: Vec<f64> = timeline.bins.iter().map(|bin| bin.requests as f64).collect();
    let together = device.in_flight_mean / shape::mean(shape::around(&counts, step.at).1).max(1.0);
    let lowest = left.iter().copied().fold(f64::INFINITY, f64::min);
    let highest = right.iter().copied().fold(0.0, f64::max);
    if shape::variation(right) > EVEN.max(together) || highest >= lowest {
        return None;
    }
    let since_ns = (step.at + 1) as f64 * timeline.bin_ns as f64;
    let sums = |bins: &[Bin]| -> (f64, f64) {
        bins.iter().fold((0.0, 0.0), |sum, bin| (sum.0 + bin.q2c_ns as f64, sum.1 + bin.requests as f64))
    };
    let (before, after) = timeline.bins.split_at(step.at);
    let ((before_ns, before_count), (after_ns, after_count)) = (sums(before), sums(after));
    let as_before_ns = before_ns / before_count.max(1.0) * after_count;
    let extra = (after_ns - as_before_ns).max(0.0) / (before_ns + after_ns).max(1.0);
    let dropped = step.after <= DROP * step.before && step.after > 0.0;
    dropped.then_some(Fall { step, since_ns, extra })
}

#[cfg(test)]
mod tests {
    use crate::diagnosis::diagnose;
    use crate::model::environment::Device;
    use crate::script::Script;

    /// What is said of a drive that gives 4000 reads or writes a second for five seconds, then 1000, to a load of
    /// eight at once.
    fn said(transport: &str, rotational: &str, is_read: bool) -> Option<String> {
        let mut script = Script::new(10);
        script.environment.is_virtual = Some(false);
        script.environment.devices.push(Device {
            name: "sda".to_owned(),
            major: 8,
            transport: Some(transport.to_owned()),
            settings_start: [("queue/rotational".to_owned(), rotational.to_owned())].into(),
            ..Device::default()
        });
        let mut at = 0;
        while at < 9_900_000_000_u64 {
            let takes = if at < 5_000_000_000 { 250_000 } else { 1_000_000 };
            let one = if is_read { script.read("sda", 4096) } else { script.write("sda", 4096) };
            one.by(7, "db").at(at as i64).sector(at).direct(0, 0, takes * 8).add();
            at += takes;
        }
        let found = diagnose(&script.summary()).findings;
        found.into_iter().find(|it| it.cause == "burst-credits").map(|it| it.sentence)
    }

    #[test]
    fn a_drive_of_ones_own_has_no_credit() {
        let ends = |said: Option<String>, end: &str| said.is_some_and(|it| it.ends_with(end));
        assert!(ends(said("fc", "0", true), "its burst credit is used up"));
        assert!(ends(said("sata", "0", true), "it may have become too hot"));
        assert!(ends(said("sata", "0", false), "is full, or it is too hot"));
        assert_eq!(said("sata", "1", false), None);
    }
}
