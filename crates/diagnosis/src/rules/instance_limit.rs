//! The volume reports that the machine's own limit for all volumes held its I/O back.

use super::*;

rule!(
    "instance-limit",
    "limit of the cloud instance",
    "A cloud's machine has limits of its own for all of its volumes together, often below the sum \
     of what the volumes may do, and often with a credit for bursts. At that limit a larger volume \
     changes nothing. Volumes of Amazon EBS count the time in which the instance's limit held \
     their I/O back; iowhy reads that count at both ends of a watch.",
    "The count does not grow while requests are slow: then the limit is the volume's, or none.",
    place: Limit,
    bound: [
        "the time at the device; if the volume counts the time at its limits, that share of it",
        "the device's own time is hidden behind the limit",
    ],
);

fn judge(facts: &Facts<'_>) -> Judged {
    let held = facts.devices().iter().filter_map(|device| {
        let times = health::limit_times(device)?;
        let (time_ns, what) = times.of_instance();
        times.is_worth(time_ns).then_some((device, time_ns, times.of_ns, what))
    });
    let most = held.max_by_key(|(device, time_ns, ..)| (*time_ns, facts::device_time_ns(device)));
    Ok(most.map_or(RuleVerdict::Clear, |(device, time_ns, of_ns, what)| {
        finding(facts, device, (time_ns, of_ns), what).into()
    }))
}

fn finding(
    facts: &Facts<'_>,
    device: &DeviceSummary,
    (time_ns, of_ns): (u64, u64),
    what: &str,
) -> Finding {
    let name = &device.device;
    let share = time_ns as f64 / of_ns.max(1) as f64;
    let at_device = facts::stage_sum(device, Interval::D2c);
    let whole = facts::device_time_ns(device).max(at_device);
    let sentence = format!(
        "{name} reports that the instance's limit of {what} held it back for {} of {}",
        words::time(time_ns as f64),
        words::time(of_ns as f64),
    );
    Finding::of_device(facts, (at_device as f64 * share) as u64, whole, sentence)
        .about(facts::subject_of(name, facts.top_process(device, |_| true)))
        .sure(Confidence::Certain)
        // The device's own latency is hidden behind the limit.
        .upper_bound()
        .shown("time at the instance's limit", time_ns as f64, "ns", format!("iowhy -d {name}"))
        .also("share of the time", share * 100.0, "%")
        .fix(
            "use an instance type with a higher limit for its volumes, or reduce the load of all \
             volumes together; a larger volume does not help",
        )
        .check(format!(
            "`ebsnvme stats /dev/{name}` twice: if \"EC2 Instance ... Performance Exceeded\" does \
             not grow while requests are slow, it is not the instance's limit"
        ))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{Diagnosis, diagnose};
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::environment::Device;
    use iowhy_model::health::{DeviceHealth, VolumeStatistics};
    use iowhy_model::script::{START_NS, Script};

    /// The diagnosis of a volume at a flat rate that reports so many milliseconds at the limits of
    /// the volume and of the instance.
    pub fn at_limits(volume_ms: u64, instance_ms: u64) -> Diagnosis {
        let mut script = Script::new(10);
        script.environment.is_virtual = Some(true);
        let health = |asked_ns, times: u64| {
            let volume = Some(VolumeStatistics {
                volume_iops_exceeded_us: 5_000_000 + times * volume_ms * 1000,
                instance_iops_exceeded_us: 7_000_000 + times * instance_ms * 1000,
                ..VolumeStatistics::default()
            });
            Some(DeviceHealth { asked_ns, volume, ..DeviceHealth::default() })
        };
        script.environment.devices.push(Device {
            name: "nvme1n1".to_owned(),
            major: 8,
            model: Some("Amazon Elastic Block Store".to_owned()),
            transport: Some("pcie".to_owned()),
            health_start: health(START_NS, 0),
            health_end: health(START_NS + 10_000_000_000, 1),
            ..Device::default()
        });
        for index in 0..29_000_u64 {
            let read = script.read("nvme1n1", 4096).by(7, "db").at((index * 333_333) as i64);
            read.sector(index * 7919 * 8).direct(0, 0, 4_000_000).add();
        }
        diagnose(&script.summary())
    }

    fn causes(diagnosis: &Diagnosis) -> Vec<&'static str> {
        diagnosis.findings.iter().map(|finding| finding.cause).collect()
    }

    #[test]
    fn the_limit_that_is_counted_is_the_one_that_is_named() {
        let instance = at_limits(0, 7900);
        let first = &instance.findings[0];
        assert_eq!((first.cause, first.confidence), ("instance-limit", Confidence::Certain));
        let said = "nvme1n1 reports that the instance's limit of IOPS held it back for 7.90 s of \
                    10.0 s";
        assert_eq!(first.sentence, said);
        assert!(!causes(&instance).contains(&"provider-cap"), "{instance:?}");
        let volume = at_limits(7900, 0);
        let first = &volume.findings[0];
        assert_eq!((first.cause, first.confidence), ("provider-cap", Confidence::Certain));
        assert!(first.sentence.contains("7.90 s of 10.0 s"), "{}", first.sentence);
        assert!(!causes(&volume).contains(&"instance-limit"));
        // A moment at the limit is nothing.
        assert!(!causes(&at_limits(7900, 400)).contains(&"instance-limit"));
    }

    #[test]
    fn a_volume_that_was_not_limited_has_no_cap() {
        let neither = at_limits(0, 0);
        assert!(
            !causes(&neither)
                .iter()
                .any(|cause| ["provider-cap", "instance-limit"].contains(cause))
        );
        let said = &neither.not_judged;
        assert!(!said.iter().any(|it| it.cause == "provider-cap"), "it is judged: {said:?}");
        assert!(
            neither.red_herrings[0].ends_with("but the volume reports that it was not limited")
        );
    }
}
