//! A drive reports that it overheats, wears out or loses data.

use super::super::facts::health;
use super::*;
use crate::analysis::Interval;
use crate::analysis::summary::DeviceSummary;
use crate::model::health::NvmeHealth;

/// A drive whose vendor's estimate of its life is used up. By the NVMe specification the estimate
/// may go on above it.
const USED_UP: u64 = 100;

rule!(
    "drive-health",
    "drive that overheats or wears out",
    "A drive monitors itself. Above its warning temperature it throttles itself, so that it does \
     less at once and each request takes longer, without an error. A drive that runs out of spare \
     blocks retries and moves data, and in the end takes no writes any more; one that reports \
     media errors has lost data. The drive counts all of it in its health log (SMART), which \
     iowhy reads at both ends of a watch.",
    "The log is the same before the trouble began: then the drive has a problem, and the slow \
     requests have another reason.",
    symptoms: ["burst-credits", "device-slow-tail"],
);

/// What a drive reports, the worst first.
struct Complaint {
    said: String,
    severity: Severity,
    sure: Confidence,
    fix: &'static str,
}

fn judge(facts: &Facts<'_>) -> Judged {
    let found = facts.devices().iter().filter_map(|device| {
        let log = health::nvme(device)?;
        Some((device, log, complaint(device, log)?))
    });
    let worst = found.max_by_key(|(device, _, it)| (it.severity, facts::device_time_ns(device)));
    Ok(worst.map_or(RuleVerdict::Clear, |(device, log, complaint)| {
        RuleVerdict::Finding(Box::new(finding(facts, device, log, &complaint)))
    }))
}

fn complaint(device: &DeviceSummary, log: &NvmeHealth) -> Option<Complaint> {
    let (severity, sure) = (Severity::Warning, Confidence::Certain);
    let of = |said: String, fix| Some(Complaint { said, severity, sure, fix });
    let media_errors = health::grown(device, |it| it.media_errors);
    if media_errors > 0 {
        let errors = crate::figures::plural(media_errors, "uncorrectable media error");
        return of(format!("reports {errors} during the watch"), REPLACE);
    }
    let failing = log.critical_warning & !(NvmeHealth::TEMPERATURE | NvmeHealth::NO_BACKUP);
    if failing != 0 {
        let warnings = health::warnings(failing).join(", ");
        return of(format!("reports a critical warning: {warnings}"), REPLACE);
    }
    if health::throttled(device) {
        return of(format!("throttled itself because of heat{}", temperature(log)), COOL);
    }
    // It does not say that it does less: many drives have no such counters.
    let likely =
        |said: String| Some(Complaint { said, severity, sure: Confidence::Likely, fix: COOL });
    if health::is_hot(log) {
        return likely(format!("reports that it is too hot{}", temperature(log)));
    }
    if log.critical_warning & NvmeHealth::TEMPERATURE != 0 {
        let now = log.temperature_c.map(|it| format!(" (now {it} °C)")).unwrap_or_default();
        return likely(format!("warns that its temperature is outside its limits{now}"));
    }
    (log.used_percent >= USED_UP).then(|| Complaint {
        said: format!("is worn: {} % of the life that its vendor expects", log.used_percent),
        severity: Severity::Info,
        sure: Confidence::Possible,
        fix: REPLACE_SOON,
    })
}

/// `: 78 °C, its own warning begins at 70 °C`.
fn temperature(log: &NvmeHealth) -> String {
    match (log.temperature_c, log.warning_c) {
        (Some(now), Some(limit)) => format!(": {now} °C, and warns from {limit} °C on"),
        (Some(now), None) => format!(": {now} °C"),
        _ => String::new(),
    }
}

fn finding(
    facts: &Facts<'_>,
    device: &DeviceSummary,
    log: &NvmeHealth,
    complaint: &Complaint,
) -> Finding {
    let name = &device.device;
    let at_device = facts::stage_sum(device, Interval::D2c);
    let whole = facts::device_time_ns(device).max(at_device);
    let sentence = format!("{name} {}", complaint.said);
    let command = || format!("iowhy -d {name}");
    let mut finding = Finding::of_device(facts, at_device, whole, sentence)
        .about(facts::subject_of(name, facts.top_process(device, |_| true)))
        .sure(complaint.sure)
        .at_least(complaint.severity)
        .at_most(complaint.severity)
        // How fast it would be in good health is not in the data.
        .upper_bound()
        .fix(complaint.fix)
        .check(format!(
            "`nvme smart-log /dev/{name}` before and after a slow minute: times and counts that do \
             not grow mean that the slow requests have another reason"
        ));
    if let Some(temperature) = log.temperature_c {
        finding = finding.shown("temperature", temperature as f64, "°C", command());
    }
    if health::throttled(device) {
        let figure = health::throttled_s(device) as f64 * 1e9;
        finding = finding.shown("time throttled during the watch", figure, "ns", command());
    }
    finding.shown("life used", log.used_percent as f64, "%", command()).shown(
        "media errors, ever",
        log.media_errors as f64,
        "errors",
        command(),
    )
}

const COOL: &str = "improve its cooling (heat sink, air flow, fans of the machine), or spread the \
                    load over time or drives";
const REPLACE: &str = "copy its data and replace it";
const REPLACE_SOON: &str = "plan its replacement, and watch its spare blocks and media errors";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::diagnose;
    use crate::model::environment::Device;
    use crate::model::health::DeviceHealth;
    use crate::script::Script;

    fn healthy() -> NvmeHealth {
        NvmeHealth {
            temperature_c: Some(45),
            warning_c: Some(70),
            critical_c: Some(80),
            spare_percent: 100,
            used_percent: 3,
            media_errors: 5,
            warning_minutes: 7,
            light_throttles: 9,
            light_throttle_s: 100,
            ..NvmeHealth::default()
        }
    }

    fn found(start: NvmeHealth, end: NvmeHealth) -> Option<Finding> {
        let mut script = Script::new(10);
        let health = |log| Some(DeviceHealth { nvme: Some(log), ..DeviceHealth::default() });
        script.environment.devices.push(Device {
            name: "nvme0n1".to_owned(),
            major: 8,
            health_start: health(start),
            health_end: health(end),
            ..Device::default()
        });
        for index in 0..900_i64 {
            let write = script.write("nvme0n1", 4096).by(7, "db").at(index * 10_000_000);
            write.direct(0, 0, 8_000_000).add();
        }
        let findings = diagnose(&script.summary()).findings;
        findings.into_iter().find(|it| it.cause == "drive-health")
    }

    #[test]
    fn a_healthy_drive_is_not_reported() {
        // What was counted before the watch is history.
        assert_eq!(found(healthy(), healthy()), None);
        let warm = NvmeHealth { temperature_c: Some(69), used_percent: 99, ..healthy() };
        assert_eq!(found(healthy(), warm), None);
    }

    #[test]
    fn what_a_drive_complains_of_is_said() {
        let case = |end: NvmeHealth, said: &str, severity, sure| {
            let it = found(healthy(), end).expect(said);
            assert!(it.sentence.starts_with(&format!("nvme0n1 {said}")), "{}", it.sentence);
            assert_eq!((it.severity, it.confidence), (severity, sure), "{said}");
            assert!(it.impact_at_most);
        };
        let (warning, certain) = (Severity::Warning, Confidence::Certain);
        let hot = NvmeHealth { temperature_c: Some(70), ..healthy() };
        case(
            hot,
            "reports that it is too hot: 70 °C, and warns from 70 °C on",
            warning,
            Confidence::Likely,
        );
        let bit = NvmeHealth { critical_warning: NvmeHealth::TEMPERATURE, ..healthy() };
        let said = "warns that its temperature is outside its limits (now 45 °C)";
        case(bit, said, warning, Confidence::Likely);
        let throttled = NvmeHealth { light_throttle_s: 104, ..healthy() };
        case(throttled, "throttled itself because of heat", warning, certain);
        let errors = NvmeHealth { media_errors: 6, ..healthy() };
        case(errors, "reports 1 uncorrectable media error", warning, certain);
        let read_only = NvmeHealth { critical_warning: NvmeHealth::READ_ONLY, ..healthy() };
        case(read_only, "reports a critical warning: read-only", warning, certain);
        let worn = NvmeHealth { used_percent: 100, ..healthy() };
        case(worn, "is worn", Severity::Info, Confidence::Possible);
    }

    #[test]
    fn counters_that_begin_anew_are_no_errors() {
        let anew = NvmeHealth { media_errors: 0, light_throttle_s: 0, ..healthy() };
        assert_eq!(found(healthy(), anew), None);
    }
}
