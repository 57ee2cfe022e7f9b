//! Limits of dirty pages that hold writers although the device has time.
//!
//! What does not belong here: what a finding says of them ([`super`]).

use super::*;
use iowhy_model::Metric;

/// A dirty limit is too low if it holds less than this many seconds of the device's writes: the
/// flusher wakes up every 5 s (vm.dirty_writeback_centisecs).
const ENOUGH_S: f64 = 5.0;
/// From this share of memory on, percent, vm.dirty_ratio is an ordinary one: its default is 20.
/// Chosen.
const ORDINARY: f64 = 5.0;
/// The largest share of what may be dirty that is far from a limit. Chosen.
const FAR: f64 = 0.5;

/// A limit below the machine's, which is far away.
pub(super) struct OwnLimit {
    /// Pages that were dirty or being written, at most, bytes.
    dirty: f64,
    /// Dirty pages from which the machine's limit would hold writers, bytes.
    free: f64,
    device: String,
    /// Whether the device has one; else it is the cgroup's.
    is_of_device: bool,
}

impl OwnLimit {
    /// Returns the limit that holds a writer although few pages are dirty and the device has time.
    pub(super) fn of(facts: &Facts<'_>, subject: &Subject) -> Option<OwnLimit> {
        let samples = &facts.summary().samples;
        let most = |metric| samples.system(metric).and_then(|series| series.max);
        let last = |metric| samples.system(metric).map(|series| series.last);
        let dirty = most(Metric::Dirty)? + most(Metric::Writeback).unwrap_or(0.0);
        // Below the mean of both the kernel lets everybody write (dirty_freerun_ceiling).
        let free = last(Metric::DirtyThreshold)?.midpoint(last(Metric::DirtyBackgroundThreshold)?);
        let device = facts.device_of(subject)?;
        let is_strict = facts.latest_number(device, "bdi/strict_limit") == Some(1.0);
        let is_less =
            facts.latest_number(device, "bdi/max_ratio").is_some_and(|share| share < 100.0);
        (dirty < FAR * free && !bound::is_saturated(device)).then(|| OwnLimit {
            dirty,
            free,
            device: device.device.clone(),
            is_of_device: is_strict || is_less,
        })
    }

    pub(super) fn sentence(&self, subject: &Subject) -> String {
        let whose = match self.is_of_device {
            true => format!("{} has a limit of its own (bdi)", self.device),
            false => format!("a limit of {} (bdi) or of its cgroup does", self.device),
        };
        format!(
            "{} waits for dirty pages of {} to be written, although the machine's limit does not \
             hold it ({} of {} are dirty): {whose}",
            words::who(subject),
            self.device,
            words::bytes(self.dirty),
            words::bytes(self.free),
        )
    }

    pub(super) fn fix(&self) -> String {
        let folder = format!("/sys/block/{}/bdi", self.device);
        let device = format!(
            "if nothing needs the device's limit: `echo 0 > {folder}/strict_limit` and `echo 100 > \
             {folder}/max_ratio` (a udev rule or a tuning script may set them again)"
        );
        match self.is_of_device {
            true => device,
            false => format!("give the cgroup more memory (version 2: memory.max); {device}"),
        }
    }
}

/// A limit of the whole machine that somebody set to what the device writes within seconds.
pub(super) struct LowLimit {
    /// The setting.
    name: &'static str,
    /// Its value.
    value: String,
    /// What may be dirty, bytes.
    bytes: f64,
    device: String,
    /// What the device wrote, bytes per second.
    written: f64,
}

impl LowLimit {
    /// Returns the limit that holds the writers of a device.
    pub(super) fn of(facts: &Facts<'_>, device: Option<&str>) -> Option<LowLimit> {
        let summary = facts.summary();
        let number = |name: &str| {
            let value = summary.environment.settings_start.get(name)?.trim();
            Some((value.to_owned(), value.parse::<f64>().ok()?))
        };
        // Only one of the two is not 0.
        let bytes = number("vm/dirty_bytes").filter(|(_, bytes)| *bytes > 0.0);
        let (name, value, bytes) = match bytes {
            Some((value, bytes)) => ("vm.dirty_bytes", value, bytes),
            None => {
                let ratio = number("vm/dirty_ratio");
                let (value, _) = ratio.filter(|(_, share)| *share > 0.0 && *share < ORDINARY)?;
                let threshold = summary.samples.system(Metric::DirtyThreshold)?.last;
                ("vm.dirty_ratio", value, threshold)
            }
        };
        let on = facts.devices().iter().find(|it| Some(it.device.as_str()) == device)?;
        // A limit that is larger delays what a full device has to do, and saves nothing.
        let written = facts::origin_of(on, Origin::Writeback).2 as f64 / facts.seconds();
        (bytes < ENOUGH_S * written && !bound::is_saturated(on)).then(|| LowLimit {
            name,
            value,
            bytes,
            device: on.device.clone(),
            written,
        })
    }

    pub(super) fn sentence(&self, subject: &Subject) -> String {
        format!(
            "{} waits for the limit of dirty pages: {} ({}) allows {} for the whole machine, which \
             {} writes in {}",
            words::who(subject),
            self.name,
            self.value,
            words::bytes(self.bytes),
            self.device,
            words::time(self.bytes / self.written * 1e9),
        )
    }

    /// The advice: room for what comes at once, if the device can write it later.
    pub(super) fn fix(&self) -> String {
        let mib = (ENOUGH_S * self.written / f64::from(1 << 20)).ceil() as u64;
        format!(
            "raise the limit to at least five seconds of writes ({mib} MiB here), so that what is \
             written at once is taken up by memory: `sysctl vm.dirty_bytes={}` and \
             vm.dirty_background_bytes to half of it; a sync then waits for more data, and a crash \
             loses more of what was not synced",
            mib.saturating_mul(1 << 20),
        )
    }
}
