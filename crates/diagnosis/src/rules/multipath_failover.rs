//! Requests fail over between paths.

use super::*;
use crate::facts::thresholds::WARNING_SHARE;
use iowhy_analysis::summary::DirectionSummary;
use iowhy_model::environment::is_part_of;

/// The least share of requeued requests. Chosen.
const REQUEUED: f64 = 0.01;
/// Functions that resend requests over another path after one has failed. What a multipath device
/// runs for every request (multipath_clone_and_map, multipath_map_bio) does not indicate a
/// failover.
const FAILOVER: &[&str] = &[
    "nvme_failover_req",
    "nvme_requeue_work",
    "process_queued_bios",
    "process_queued_io_list",
    "fail_path",
];

rule!(
    "multipath-failover",
    "multipath failover",
    "When a path fails or reports that it is inactive, a multipath device resends its requests \
     over another one. Until then they wait, and a flapping path makes them wait again and again.",
    "The requeues are of a device with one path: its queue is full, or its driver is short of \
     memory.",
    place: Fault,
    picture: Heat,
);

/// A device and the state of its paths.
struct Paths<'a> {
    device: &'a DeviceSummary,
    requeued: u64,
    /// The share of the requests that were resent.
    share: f64,
    /// The share that failover functions resent.
    over: f64,
    /// Requests that failed on a device below it.
    failed_below: u64,
}

impl Paths<'_> {
    /// Whether a failed path was seen: a device whose paths are all busy requeues, too
    /// (dm_mq_queue_rq returns BLK_STS_RESOURCE), so load alone looks the same.
    fn has_failed(&self) -> bool {
        self.over > REQUEUED || self.failed_below > 0
    }
}

fn judge(facts: &Facts<'_>) -> Judged {
    let over = facts.path_share(FAILOVER);
    let sum = |device: &DeviceSummary, of: fn(&DirectionSummary) -> u64| -> u64 {
        device.directions.0.iter().map(of).fold(0, u64::saturating_add)
    };
    let share = |device: &DeviceSummary| {
        sum(device, |it| it.requeues) as f64 / sum(device, |it| it.requests).max(1) as f64
    };
    let has_paths = |device: &DeviceSummary| {
        device.device.starts_with("nvme") || device.device.starts_with("dm-")
    };
    // For several paths to an NVMe drive the kernel creates a device that is attached to none of
    // them.
    let is_one_path = |device: &DeviceSummary| device.transport.as_deref() == Some("pcie");
    let fits = |device: &DeviceSummary| {
        !is_one_path(device) && share(device) > REQUEUED || over > REQUEUED
    };
    let device = facts.busiest(|it| has_paths(it) && fits(it)).ok_or(Clear)?;
    let is_below =
        |it: &&DeviceSummary| device.below.iter().any(|name| is_part_of(&it.device, name));
    let below = facts.devices().iter().filter(is_below);
    let paths = Paths {
        device,
        requeued: sum(device, |it| it.requeues),
        share: share(device).max(over),
        over,
        failed_below: below.map(|it| sum(it, |it| it.error_requests)).fold(0, u64::saturating_add),
    };
    Ok(finding(&paths).into())
}

fn finding(paths: &Paths<'_>) -> Finding {
    let Paths { device, requeued, share, over, failed_below } = paths;
    let (name, has_failed) = (&device.device, paths.has_failed());
    // A resent request waits until its last issue to the driver, where D2C begins.
    let whole = facts::stage_sum(device, Interval::Q2c);
    let held = whole.saturating_sub(facts::stage_sum(device, Interval::D2c));
    let held = held as f64 / whole.max(1) as f64;
    let (part, passed) = (words::percent(*share), words::percent(held));
    let sentence = if has_failed {
        format!(
            "a path of {name} fails over: {part} of its requests were resent, and {passed} of the \
             request time passed before their last issue"
        )
    } else {
        format!(
            "the driver requeued {part} of {name}'s requests: its paths are full, or one fails; \
             {passed} of the request time passed before their last issue"
        )
    };
    let (impact, most, sure) = match has_failed {
        true => (held.max(*share).max(WARNING_SHARE), Severity::Critical, Confidence::Likely),
        false => (held, Severity::Warning, Confidence::Possible),
    };
    Finding::of_share(ImpactOf::DeviceTime, impact, 1.0, sentence)
        .about(Subject { device: Some(name.clone()), ..Subject::default() })
        .sure(sure)
        .at_most(most)
        .shown("requeued requests", *requeued as f64, "requests", format!("iowhy -d {name}"))
        .shown("failed requests on its paths", *failed_below as f64, "requests", "iowhy")
        .shown(
            "share of time before the last issue",
            held * 100.0,
            "%",
            format!("iowhy stages -d {name}"),
        )
        .shown(
            "share of requests resent over another path",
            over * 100.0,
            "%",
            format!("iowhy stacks -d {name}"),
        )
        .fix(
            "check the paths: `multipath -ll`, `nvme list-subsys`, `dmesg`. Only if one path is \
             failed and another is active, take the failed one out until it is repaired; keep \
             working paths. If all are active, their queues are full: reduce the load, or raise \
             the queue depth",
        )
        .check(
            "if `multipath -ll` shows no failed path, and fewer requests in flight end the \
             requeues, the queues were full and nothing fails over",
        )
}

#[cfg(test)]
mod tests {
    use crate::{Confidence, Finding, Severity, diagnose};
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::environment::Device;
    use iowhy_model::script::{MS, Script};

    /// A multipath device that requeues every tenth request, over two paths, one of which fails
    /// this many.
    fn found(errors: u64, frames: &[&str]) -> Option<Finding> {
        let mut script = Script::new(10);
        for (minor, (name, below)) in (0..).zip([("sda", vec![]), ("dm-3", vec!["sda".to_owned()])])
        {
            let name = name.to_owned();
            script.environment.devices.push(Device { name, minor, below, ..Device::default() });
        }
        for index in 0..900_u64 {
            let read = script.read("dm-3", 4096).by(7, "db").at((index * 11 * MS) as i64);
            let mut read = read.sector(index * 800).direct(0, 3 * MS, 7 * MS);
            read.request.requeues = u32::from(index % 10 == 0);
            read.stacks(frames, &[], 1).add();
        }
        for index in 0..100_u64 {
            let read = script.read("sda", 4096).at((index * 99 * MS) as i64).sector(index * 8);
            let read = read.direct(0, 0, 7 * MS);
            if index < errors {
                read.error(-5).add()
            } else {
                read.add()
            };
        }
        let found = diagnose(&script.summary()).findings;
        found.into_iter().find(|it| it.cause == "multipath-failover")
    }

    #[test]
    fn load_alone_is_no_failover() {
        for frames in [&["dm_mq_queue_rq"][..], &["multipath_map_bio", "dm_submit_bio"]] {
            let found = found(0, frames).unwrap();
            assert_eq!(
                (found.confidence, found.severity),
                (Confidence::Possible, Severity::Warning)
            );
            assert!(found.sentence.contains("its paths are full, or one fails"), "{found:?}");
            assert!(!found.fix.contains("del path"));
        }
    }

    #[test]
    fn a_path_that_fails_has_errors_or_is_seen() {
        for (errors, frames) in
            [(9, &[][..]), (0, &["process_queued_bios", "process_one_work"][..])]
        {
            let found = found(errors, frames).unwrap();
            assert!(found.confidence == Confidence::Likely && found.severity > Severity::Info);
            assert!(found.sentence.starts_with("a path of dm-3 fails over"), "{found:?}");
        }
    }
}
