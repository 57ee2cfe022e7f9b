//! A drive reports that it overheats, wears out or loses data.

use super::*;
use iowhy_model::health::{DriveLog, NvmeHealth};

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
    place: Fault,
    least: LeastData::EVENT,
    bound: ["the time at the device", "how fast it would be in good health is not in the data"],
);

/// The worst trouble that a drive reports.
struct Complaint {
    said: String,
    severity: Severity,
    sure: Confidence,
    fix: &'static str,
}

fn judge(facts: &Facts<'_>) -> Judged {
    let found = facts.devices().iter().filter_map(|device| {
        let of_nvme = health::nvme(device).and_then(|log| complaint(device, log));
        let of_drive = || health::drive(device).and_then(|log| drive_complaint(device, log));
        Some((device, of_nvme.or_else(of_drive)?))
    });
    let worst = found.max_by_key(|(device, it)| (it.severity, facts::device_time_ns(device)));
    Ok(worst.map_or(RuleVerdict::Clear, |(device, complaint)| {
        RuleVerdict::Finding(Box::new(finding(facts, device, &complaint)))
    }))
}

/// Returns the complaint of a SATA or SAS drive; `None` if it has none.
fn drive_complaint(device: &DeviceSummary, log: &DriveLog) -> Option<Complaint> {
    let (severity, sure) = (Severity::Warning, Confidence::Certain);
    let of = |said: String, fix| Some(Complaint { said, severity, sure, fix });
    let grown = |of| health::drive_grown(device, of);
    let unreadable = grown(|it| it.pending_sectors) + grown(|it| it.uncorrectable_sectors);
    let errors = unreadable.max(grown(|it| it.reported_errors));
    if errors > 0 {
        let sectors = iowhy_model::figures::plural(errors, "sector");
        return of(format!("could not read {sectors} during the watch"), REPLACE);
    }
    if log.passed == Some(false) {
        return of("expects to fail soon, by its own health check".to_owned(), REPLACE);
    }
    let of_link = grown(|it| it.interface_errors);
    if of_link > 0 {
        let errors = iowhy_model::figures::plural(of_link, "error");
        return of(format!("counted {errors} of its link during the watch"), LINK);
    }
    if let (Some(now), Some(limit)) = (log.temperature_c, log.critical_c)
        && now >= limit
    {
        let said = format!("reports that it is too hot: {now} °C, and its limit is {limit} °C");
        return Some(Complaint { said, severity, sure: Confidence::Likely, fix: COOL });
    }
    let waiting = log.pending_sectors.unwrap_or(0);
    (waiting > 0).then(|| Complaint {
        said: format!(
            "has {} that it cannot read",
            iowhy_model::figures::plural(waiting, "sector")
        ),
        severity: Severity::Info,
        sure: Confidence::Possible,
        fix: REPLACE_SOON,
    })
}

fn complaint(device: &DeviceSummary, log: &NvmeHealth) -> Option<Complaint> {
    let (severity, sure) = (Severity::Warning, Confidence::Certain);
    let of = |said: String, fix| Some(Complaint { said, severity, sure, fix });
    let media_errors = health::grown(device, |it| it.media_errors);
    if media_errors > 0 {
        let errors = iowhy_model::figures::plural(media_errors, "uncorrectable media error");
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
        let now = log
            .temperature_c
            .map(|temperature_c| format!(" (now {temperature_c} °C)"))
            .unwrap_or_default();
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

fn finding(facts: &Facts<'_>, device: &DeviceSummary, complaint: &Complaint) -> Finding {
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
            "`{}` before and after a slow minute: times and counts that do not grow mean that the \
             slow requests have another reason",
            match health::nvme(device) {
                Some(_) => format!("nvme smart-log /dev/{name}"),
                None => format!("smartctl -A /dev/{name}"),
            }
        ));
    let (nvme, drive) = (health::nvme(device), health::drive(device));
    let temperature =
        nvme.map_or(drive.and_then(|drive| drive.temperature_c), |nvme| nvme.temperature_c);
    if let Some(temperature) = temperature {
        finding = finding.shown("temperature", temperature as f64, "°C", command());
    }
    if health::throttled(device) {
        let figure = health::throttled_s(device) as f64 * 1e9;
        finding = finding.shown("time throttled during the watch", figure, "ns", command());
    }
    if let Some(log) = nvme {
        finding = finding.shown("life used", log.used_percent as f64, "%", command());
        finding = finding.shown("media errors, ever", log.media_errors as f64, "errors", command());
    }
    let counts = drive
        .map(|drive| [drive.reallocated_sectors, drive.pending_sectors, drive.interface_errors]);
    let names = ["reallocated sectors, ever", "unreadable sectors", "link errors, ever"];
    for (name, count) in names.into_iter().zip(counts.into_iter().flatten()) {
        if let Some(count) = count {
            finding = finding.shown(name, count as f64, "", command());
        }
    }
    finding
}

const COOL: &str = "improve its cooling (heat sink, air flow, fans of the machine), or spread the \
                    load over time or drives";
const LINK: &str = "reseat or replace its cable, or move it to another port: each such error is a \
                    transfer that is repeated";
const REPLACE: &str = "copy its data and replace it";
const REPLACE_SOON: &str = "plan its replacement, and watch its spare blocks and media errors";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnose;
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::environment::Device;
    use iowhy_model::health::DeviceHealth;
    use iowhy_model::script::Script;

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
        findings.into_iter().find(|finding| finding.cause == "drive-health")
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

    fn of_drive(start: DriveLog, end: DriveLog) -> Option<Finding> {
        let mut script = Script::new(10);
        let health = |log| Some(DeviceHealth { drive: Some(log), ..DeviceHealth::default() });
        script.environment.devices.push(Device {
            name: "sda".to_owned(),
            major: 8,
            health_start: health(start),
            health_end: health(end),
            ..Device::default()
        });
        for index in 0..900_i64 {
            let read = script.read("sda", 4096).by(7, "db").at(index * 10_000_000);
            read.direct(0, 0, 8_000_000).add();
        }
        let findings = diagnose(&script.summary()).findings;
        findings.into_iter().find(|finding| finding.cause == "drive-health")
    }

    #[test]
    fn what_a_sata_drive_complains_of_is_said() {
        let healthy = DriveLog {
            passed: Some(true),
            temperature_c: Some(35),
            reallocated_sectors: Some(8),
            pending_sectors: Some(0),
            reported_errors: Some(4),
            interface_errors: Some(31),
            ..DriveLog::default()
        };
        assert_eq!(of_drive(healthy.clone(), healthy.clone()), None, "history");
        let case = |end: DriveLog, said: &str, severity| {
            let it = of_drive(healthy.clone(), end).expect(said);
            assert_eq!((it.sentence.as_str(), it.severity), (said, severity));
            assert!(it.check.contains("smartctl -A /dev/sda"), "{}", it.check);
        };
        let warning = Severity::Warning;
        let unreadable = DriveLog { pending_sectors: Some(2), ..healthy.clone() };
        case(unreadable.clone(), "sda could not read 2 sectors during the watch", warning);
        let failed = DriveLog { passed: Some(false), ..healthy.clone() };
        case(failed, "sda expects to fail soon, by its own health check", warning);
        let cable = DriveLog { interface_errors: Some(40), ..healthy.clone() };
        case(cable, "sda counted 9 errors of its link during the watch", warning);
        let hot = DriveLog { temperature_c: Some(66), critical_c: Some(65), ..healthy.clone() };
        case(hot, "sda reports that it is too hot: 66 °C, and its limit is 65 °C", warning);
        let old = of_drive(unreadable.clone(), unreadable).unwrap();
        assert_eq!((old.severity, old.confidence), (Severity::Info, Confidence::Possible));
    }

    #[test]
    fn counters_that_begin_anew_are_no_errors() {
        let anew = NvmeHealth { media_errors: 0, light_throttle_s: 0, ..healthy() };
        assert_eq!(found(healthy(), anew), None);
    }
}
