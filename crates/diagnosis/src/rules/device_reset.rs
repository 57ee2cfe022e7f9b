//! The driver gave up on requests and reset the device during the watch.

use super::*;

rule!(
    "device-reset",
    "device or link that was reset",
    "When a command takes longer than the driver's time limit (30 s for SCSI and NVMe), or a link \
     fails, the driver aborts commands, resets the device or its link and sends everything again. \
     Until then nothing completes, and everything in flight has waited for nothing. The kernel \
     logs it and counts timeouts (`iotmo_cnt`); rates and averages do not show it.",
    "The messages are those of an administrator's own reset or rescan.",
    place: Fault,
    least: LeastData::EVENT,
    bound: [
        "the longest request's time, as a share of the watch",
        "a part of it is needed without a reset, too",
    ],
);

/// Kinds of messages that tell of it.
const KINDS: &[&str] = &["reset", "timeout", "link"];

fn judge(facts: &Facts<'_>) -> Judged {
    let troubled = facts.devices().iter().filter_map(|device| {
        let events = health::messages(device, KINDS).len() as u64;
        let events = events.max(health::timeouts(device));
        (events > 0).then_some((device, events))
    });
    let worst = troubled.max_by_key(|(_, events)| *events);
    Ok(worst.map_or(RuleVerdict::Clear, |(device, events)| {
        RuleVerdict::Finding(Box::new(finding(facts, device, events)))
    }))
}

fn finding(facts: &Facts<'_>, device: &DeviceSummary, events: u64) -> Finding {
    let name = &device.device;
    let messages = health::messages(device, KINDS);
    let timeouts = health::timeouts(device);
    let sentence = match messages.first() {
        Some(first) => format!(
            "{name}: the kernel logged {}, first: {}",
            iowhy_model::figures::plural(messages.len() as u64, "reset or timeout")
                .replace("reset or timeouts", "resets or timeouts",),
            first.text,
        ),
        None => format!("{name}: {} timed out", iowhy_model::figures::plural(timeouts, "command")),
    };
    let longest_ns = facts
        .patterns(name)
        .map_or(0, |it| it.slowest.iter().map(|slow| slow.d2c_ns).max().unwrap_or(0));
    let longest_ns = longest_ns.max(device.oldest_open_ns.unwrap_or(0));
    let share = longest_ns as f64 / facts.duration_ns().max(1) as f64;
    Finding::of_share(ImpactOf::DeviceTime, share, share, sentence)
        .about(facts::subject_of(name, facts.top_process(device, |_| true)))
        .sure(Confidence::Certain)
        .at_least(Severity::Warning)
        .upper_bound()
        .shown("resets and timeouts", events as f64, "events", "dmesg")
        .shown("longest request", longest_ns as f64, "ns", format!("iowhy stages -d {name}"))
        .fix(
            "read what the kernel logged before (`dmesg`); then check cable, slot, power, \
             enclosure and firmware of the device and its adapter, and the device's health log; \
             of a virtual disk ask who runs the storage behind it",
        )
        .check("`dmesg --follow` while requests are slow: no message means another reason")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnose;
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::environment::Device;
    use iowhy_model::health::{CommandCounts, DeviceHealth, KernelMessage};
    use iowhy_model::script::Script;

    fn found(kinds: &[&str], timeouts: [u64; 2]) -> Option<Finding> {
        let mut script = Script::new(60);
        let health = |timeouts| {
            let commands = Some(CommandCounts { done: 10, errors: 3, timeouts: Some(timeouts) });
            Some(DeviceHealth { commands, ..DeviceHealth::default() })
        };
        let message = |kind: &&str| KernelMessage {
            logged_ns: 1,
            kind: (*kind).to_owned(),
            text: "sd 2:0:0:0: [sda] tag#3 timing out command".to_owned(),
        };
        script.environment.devices.push(Device {
            name: "sda".to_owned(),
            major: 8,
            health_start: health(timeouts[0]),
            health_end: health(timeouts[1]),
            kernel_messages: kinds.iter().map(message).collect(),
            ..Device::default()
        });
        for index in 0..100_i64 {
            let takes = if index == 50 { 30_500_000_000 } else { 5_000_000 };
            script.read("sda", 4096).by(7, "db").at(index * 290_000_000).issued(takes).add();
        }
        let findings = diagnose(&script.summary()).findings;
        findings.into_iter().find(|finding| finding.cause == "device-reset")
    }

    #[test]
    fn resets_and_timeouts_are_said() {
        let it = found(&["timeout", "reset", "error"], [0, 0]).unwrap();
        let said = "sda: the kernel logged 2 resets or timeouts, first: sd 2:0:0:0: [sda] tag#3";
        assert!(it.sentence.starts_with(said), "{}", it.sentence);
        assert_eq!((it.confidence, it.severity), (Confidence::Certain, Severity::Critical));
        assert_eq!(found(&[], [4, 5]).unwrap().sentence, "sda: 1 command timed out");
    }

    #[test]
    fn other_messages_and_earlier_timeouts_are_no_resets() {
        assert_eq!(found(&["error", "other"], [4, 4]), None);
        assert_eq!(found(&[], [4, 0]), None, "counted anew");
    }
}
