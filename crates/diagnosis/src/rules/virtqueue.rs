//! A virtual disk with fewer queues than CPUs.

use super::*;
use facts::thresholds::BEFORE_DRIVER;

/// The least CPUs per queue for the queue's lock and interrupt to be the limit. Chosen.
const CPUS_PER_QUEUE: f64 = 4.0;
/// The least requests per second and queue for that to matter: one CPU handles some 100,000 to
/// 200,000 completions per second, under a hypervisor a quarter of that. Chosen.
const PER_QUEUE: f64 = 20_000.0;

rule!(
    "virtqueue",
    "too few queues of a virtual disk",
    "A virtio or NVMe disk has one or more queues, each with its lock and its interrupt on one \
     CPU. With a single queue many CPUs submit through one lock, and one CPU handles all \
     completions.",
    "Requests hardly wait before the driver, or one CPU handles the rate easily.",
    place: Queue,
    needs: [Settings, Queueing],
);

fn judge(facts: &Facts<'_>) -> Judged {
    let cpus = f64::from(facts.summary().environment.cpus);
    let is_short = |device: &&DeviceSummary| {
        let queues = facts.number(device, QUEUES).unwrap_or(0.0);
        let sums = facts::stage_sum(device, Interval::Q2d) as f64;
        let before = sums / facts::stage_sum(device, Interval::Q2c).max(1) as f64;
        queues >= 1.0
            && device.transport.as_deref() == Some("virtio")
            && cpus >= CPUS_PER_QUEUE * queues
            && rate(device) >= PER_QUEUE * queues
            && before >= BEFORE_DRIVER
    };
    let device = facts.devices().iter().find(is_short).ok_or(Clear)?;
    let name = &device.device;
    let queues = facts.number(device, QUEUES).unwrap_or(1.0);
    let (before, whole) =
        (facts::stage_sum(device, Interval::Q2d), facts::stage_sum(device, Interval::Q2c));
    let sentence = format!(
        "{name} has {} for {} CPUs, with {} requests per second",
        if queues > 1.0 { format!("{queues:.0} queues") } else { "one queue".to_owned() },
        words::number(cpus),
        words::number(rate(device)),
    );
    Ok(Finding::of_device(facts, before, whole, sentence)
        .upper_bound()
        .about(facts::subject_of(name, facts.top_process(device, |_| true)))
        .sure(Confidence::Possible)
        .shown("queues", queues, "queues", format!("ls /sys/block/{name}/mq"))
        .shown(
            "share of the time before the driver",
            before as f64 / whole.max(1) as f64 * 100.0,
            "%",
            format!("iowhy stages -d {name}"),
        )
        .fix(
            "configure more queues in the hypervisor (QEMU: num-queues=, libvirt: <driver \
             queues=>; cloud instances: a larger type), one per CPU",
        )
        .check(
            "`grep virtio /proc/interrupts` and `mpstat -P ALL 1`: if the completions are \
             spread over CPUs, or no CPU is busy with %soft or %sys, queues are not the \
             limit",
        )
        .into())
}

/// The number of hardware queues.
const QUEUES: &str = "mq/queues";

fn rate(device: &DeviceSummary) -> f64 {
    device.directions.0.iter().map(|it| it.requests_per_s).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnose;
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::environment::Device;
    use iowhy_model::script::Script;

    fn found(queues: &str, cpus: u32, requests: u64) -> Option<Finding> {
        let mut script = Script::new(1);
        script.environment.cpus = cpus;
        script.environment.devices.push(Device {
            name: "vda".to_owned(),
            transport: Some("virtio".to_owned()),
            settings_start: [(QUEUES.to_owned(), queues.to_owned())].into(),
            ..Device::default()
        });
        for index in 0..requests {
            let at = (index * 1_000_000_000 / requests) as i64;
            script
                .read("vda", 4096)
                .at(at)
                .sector(index * 8)
                .by(7, "db")
                .direct(30_000, 20_000, 100_000)
                .add();
        }
        diagnose(&script.summary())
            .findings
            .into_iter()
            .find(|finding| finding.cause == "virtqueue")
    }

    #[test]
    fn one_queue_for_many_cpus_is_possible() {
        let found = found("1", 8, 21_000).unwrap();
        assert_eq!(found.confidence, Confidence::Possible);
        assert!(found.sentence.contains("one queue"), "{}", found.sentence);
    }

    #[test]
    fn enough_queues_few_cpus_or_few_requests_are_fine() {
        assert_eq!(found("4", 8, 21_000), None);
        assert_eq!(found("1", 2, 21_000), None);
        assert_eq!(found("1", 8, 19_000), None);
    }
}
