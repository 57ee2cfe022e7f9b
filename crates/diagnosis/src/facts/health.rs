//! Reports of a device about itself during the watch: the differences between both ends.
//!
//! What does not belong here: judging it (see `rules`).

use super::DeviceSummary;
use crate::words;
use iowhy_model::health::{DeviceHealth, DriveLog, KernelMessage, NvmeHealth, VolumeStatistics};

/// The least share of the time at a limit that matters. Chosen: a burst may touch a limit for a
/// moment.
const LEAST_LIMITED: f64 = 0.05;
/// From this time to wake up on, microseconds, a drive's sleep is worth a word. Chosen: it is many
/// requests long.
const LEAST_TO_WAKE_US: u64 = 1000;

/// The time in which a limit held a volume's I/O back, as the volume reports it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LimitTimes {
    /// The volume's limit of IOPS, nanoseconds.
    pub volume_iops_ns: u64,
    /// The volume's limit of throughput, nanoseconds.
    pub volume_throughput_ns: u64,
    /// The instance's limit of IOPS, nanoseconds.
    pub instance_iops_ns: u64,
    /// The instance's limit of throughput, nanoseconds.
    pub instance_throughput_ns: u64,
    /// The time between both reports, nanoseconds.
    pub of_ns: u64,
}

impl LimitTimes {
    /// The longer time of the volume's limits, and what is limited.
    pub fn of_volume(&self) -> (u64, &'static str) {
        longer(self.volume_iops_ns, self.volume_throughput_ns)
    }

    /// The same of the instance's limits.
    pub fn of_instance(&self) -> (u64, &'static str) {
        longer(self.instance_iops_ns, self.instance_throughput_ns)
    }

    /// Whether a time at a limit is worth a finding.
    pub fn is_worth(&self, time_ns: u64) -> bool {
        time_ns as f64 >= LEAST_LIMITED * self.of_ns.max(1) as f64
    }

    /// Whether no limit was reached.
    pub fn are_none(&self) -> bool {
        self.of_volume().0 == 0 && self.of_instance().0 == 0
    }
}

fn longer(iops_ns: u64, throughput_ns: u64) -> (u64, &'static str) {
    match iops_ns >= throughput_ns {
        true => (iops_ns, "IOPS"),
        false => (throughput_ns, "throughput"),
    }
}

/// Returns how long limits held a volume back; `None` if it does not report that, or if its
/// counters began anew.
pub fn limit_times(device: &DeviceSummary) -> Option<LimitTimes> {
    let (start, end) = (device.health_start.as_ref()?, device.health_end.as_ref()?);
    let (before, after) = (start.volume.as_ref()?, end.volume.as_ref()?);
    let of_ns = end.asked_ns.checked_sub(start.asked_ns)?;
    let grown = |of: fn(&VolumeStatistics) -> u64| -> Option<u64> {
        let us = of(after).checked_sub(of(before))?;
        Some(us.saturating_mul(1000).min(of_ns))
    };
    Some(LimitTimes {
        volume_iops_ns: grown(|volume| volume.volume_iops_exceeded_us)?,
        volume_throughput_ns: grown(|volume| volume.volume_throughput_exceeded_us)?,
        instance_iops_ns: grown(|volume| volume.instance_iops_exceeded_us)?,
        instance_throughput_ns: grown(|volume| volume.instance_throughput_exceeded_us)?,
        of_ns,
    })
}

/// Returns a drive's health log at the end of the watch; one of the beginning may be hours old.
pub fn nvme(device: &DeviceSummary) -> Option<&NvmeHealth> {
    device.health_end.as_ref()?.nvme.as_ref()
}

/// Returns by how much a count of the health log grew; 0 if it was not read twice.
pub fn grown(device: &DeviceSummary, of: fn(&NvmeHealth) -> u64) -> u64 {
    let log = |health: &Option<DeviceHealth>| Some(of(health.as_ref()?.nvme.as_ref()?));
    let pair = log(&device.health_start).zip(log(&device.health_end));
    pair.map_or(0, |(start, end)| end.saturating_sub(start))
}

/// Returns the log of a SATA or SAS drive at the end of the watch.
pub fn drive(device: &DeviceSummary) -> Option<&DriveLog> {
    device.health_end.as_ref()?.drive.as_ref()
}

/// Returns by how much a count of that log grew; 0 if it was not read twice.
pub fn drive_grown(device: &DeviceSummary, of: fn(&DriveLog) -> Option<u64>) -> u64 {
    let log = |health: &Option<DeviceHealth>| of(health.as_ref()?.drive.as_ref()?);
    let pair = log(&device.health_start).zip(log(&device.health_end));
    pair.map_or(0, |(start, end)| end.saturating_sub(start))
}

/// Returns what a SATA or SAS drive says of itself.
fn of_drive(log: &DriveLog) -> Vec<String> {
    let mut said: Vec<String> =
        log.temperature_c.map(|temperature_c| format!("{temperature_c} °C")).into_iter().collect();
    said.extend((log.passed == Some(false)).then(|| "expects to fail".to_owned()));
    let counts = [
        (log.reallocated_sectors, "reallocated sector"),
        (log.pending_sectors, "unreadable sector"),
        (log.interface_errors, "link error"),
    ];
    let some = counts
        .into_iter()
        .filter_map(|(count, noun)| Some((count.filter(|count| *count > 0)?, noun)));
    said.extend(some.map(|(count, noun)| iowhy_model::figures::plural(count, noun)));
    said
}

/// Returns how many commands of a SCSI device timed out during the watch.
pub fn timeouts(device: &DeviceSummary) -> u64 {
    let count = |health: &Option<DeviceHealth>| health.as_ref()?.commands.as_ref()?.timeouts;
    let pair = count(&device.health_start).zip(count(&device.health_end));
    pair.map_or(0, |(start, end)| end.saturating_sub(start))
}

/// Returns the messages of the kernel's log of one of these kinds.
pub fn messages<'a>(device: &'a DeviceSummary, kinds: &[&str]) -> Vec<&'a KernelMessage> {
    device
        .kernel_messages
        .iter()
        .filter(|kernel_message| kinds.contains(&kernel_message.kind.as_str()))
        .collect()
}

/// Returns whether the device throttled itself because of heat during the watch.
pub fn throttled(device: &DeviceSummary) -> bool {
    let of: [fn(&NvmeHealth) -> u64; 4] = [
        |log| log.light_throttles,
        |log| log.heavy_throttles,
        |log| log.light_throttle_s,
        |log| log.heavy_throttle_s,
    ];
    of.into_iter().any(|of| grown(device, of) > 0)
}

/// Returns for how long it did, seconds.
pub fn throttled_s(device: &DeviceSummary) -> u64 {
    grown(device, |log| log.light_throttle_s.saturating_add(log.heavy_throttle_s))
}

/// Returns whether it is above a temperature limit of its own.
pub fn is_hot(health: &NvmeHealth) -> bool {
    let is_above = |limit: Option<i64>| {
        health.temperature_c.zip(limit).is_some_and(|(now, limit)| now >= limit)
    };
    is_above(health.warning_c) || is_above(health.critical_c)
}

/// Returns what a device says of itself, for its line: `71 °C, 3 % used`; `None` if it says
/// nothing.
pub fn report(device: &DeviceSummary) -> Option<String> {
    let mut said = Vec::new();
    if let Some(log) = nvme(device) {
        said.extend(log.temperature_c.map(|temperature_c| format!("{temperature_c} °C")));
        let throttled_s = throttled_s(device);
        said.extend(
            (throttled_s > 0)
                .then(|| format!("throttled for {}", words::time(throttled_s as f64 * 1e9))),
        );
        said.push(format!("{} % of its life used", log.used_percent));
        let wakes = log.wakes_within_us().filter(|wakes_us| *wakes_us >= LEAST_TO_WAKE_US);
        said.extend(
            wakes.map(|wake| format!("needs up to {} to wake", words::time(wake as f64 * 1e3))),
        );
        said.extend(
            (log.media_errors > 0)
                .then(|| iowhy_model::figures::plural(log.media_errors, "media error")),
        );
        said.extend(
            (log.critical_warning > 0).then(|| {
                format!("critical warning: {}", warnings(log.critical_warning).join(", "))
            }),
        );
    }
    said.extend(drive(device).map(of_drive).unwrap_or_default());
    if let Some(times) = limit_times(device) {
        let (volume_ns, _) = times.of_volume();
        let (instance_ns, _) = times.of_instance();
        let held = |what: &str, ns: u64| {
            (ns > 0).then(|| format!("at the {what}'s limit for {}", words::time(ns as f64)))
        };
        said.extend(held("volume", volume_ns).into_iter().chain(held("instance", instance_ns)));
        said.extend(times.are_none().then(|| "reports that it was not limited".to_owned()));
    }
    if let Some(health) = device.health_end.as_ref().or(device.health_start.as_ref()) {
        let array = health.array.as_ref().filter(|array| array.degraded > 0);
        said.extend(array.map(|array| format!("degraded: {} missing", array.degraded)));
        said.extend(
            health.suspended.filter(|suspended| *suspended).map(|_| "suspended".to_owned()),
        );
        said.extend(super::targets::report(health));
        said.extend(
            health.sata_link.as_ref().map(|sata_link| format!("SATA at {}", sata_link.speed)),
        );
    }
    (!said.is_empty()).then(|| said.join(", "))
}

/// Returns where a device's own account of its health can be read: a half-sentence that begins with
/// a verb.
pub fn how_to_ask(device: &DeviceSummary) -> String {
    let name = &device.device;
    let is = |prefix: &str| name.starts_with(prefix);
    match device.transport.as_deref() {
        Some("virtio" | "xen" | "hyperv") => {
            "ask the provider: a virtual disk has no health log".to_owned()
        }
        Some("pcie") => format!("read its health log: `nvme smart-log /dev/{name}`"),
        Some("sata" | "sas" | "usb") => format!("read its health log: `smartctl -a /dev/{name}`"),
        _ if is("loop") => format!(
            "look at the disk that holds its file (`losetup /dev/{name}`): a loop device has no \
             health log"
        ),
        _ if is("dm-") || is("md") => {
            "look at the disks below it (`lsblk`): it has no health log itself".to_owned()
        }
        _ => format!(
            "read its health log (`smartctl -a /dev/{name}`, `nvme smart-log /dev/{name}`); a \
             virtual disk has none: ask the provider"
        ),
    }
}

/// Returns what the bits of a critical warning mean.
pub fn warnings(bits: u64) -> Vec<&'static str> {
    let meanings = [
        (NvmeHealth::FEW_SPARES, "few spare blocks left"),
        (NvmeHealth::TEMPERATURE, "temperature"),
        (NvmeHealth::UNRELIABLE, "not reliable any more"),
        (NvmeHealth::READ_ONLY, "read-only"),
        (NvmeHealth::NO_BACKUP, "its cache is not backed up"),
    ];
    let known = meanings.iter().fold(0, |sum, (bit, _)| sum | bit);
    let named = meanings.into_iter().filter(|(bit, _)| bits & bit != 0).map(|meaning| meaning.1);
    named.chain((bits & !known != 0).then_some("one that is not known")).collect()
}
