//! The load of a device during the watch, from whichever counters there are.
//!
//! What does not belong here: judging it (see [`super::devices`]).

use iowhy_analysis::summary::{DeviceSummary, Direction, KernelDirection, Summary};
use iowhy_model::Metric;

/// A device's counters as rates.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CountedLoad<'a> {
    /// The device.
    pub device: &'a DeviceSummary,
    /// Reads, writes and discards that completed.
    pub requests: u64,
    /// Their time, nanoseconds; 0 if it is not known.
    pub wait_ns: u64,
    /// Their bytes; 0 if they are not known.
    pub bytes: u64,
    /// The share of the time with requests in flight.
    pub util: Option<f64>,
    /// Requests in flight on average.
    pub depth: Option<f64>,
}

impl<'a> CountedLoad<'a> {
    /// The load of a device that was only counted.
    pub fn new(device: &'a DeviceSummary) -> Option<CountedLoad<'a>> {
        let counters = device.kernel.as_ref().filter(|_| device.is_kernel_counted)?;
        let ways = [Direction::Read, Direction::Write, Direction::Discard];
        let told = ways.iter().filter_map(|way| counters.directions[*way]);
        let all =
            counters.undirected.or_else(|| told.reduce(KernelDirection::and)).unwrap_or_default();
        Some(CountedLoad {
            device,
            requests: all.requests,
            wait_ns: all.wait_ns,
            bytes: all.bytes,
            util: counters.util_share,
            depth: counters.aqu_sz,
        })
    }

    /// The device's name.
    pub fn name(&self) -> &'a str {
        &self.device.device
    }

    /// Mean time of a request, nanoseconds.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.requests > 0 && self.wait_ns > 0).then(|| self.wait_ns as f64 / self.requests as f64)
    }

    /// Requests per second.
    pub fn per_s(&self, seconds: f64) -> f64 {
        self.requests as f64 / seconds.max(1e-9)
    }

    /// The time that the device needs for one request by itself, nanoseconds.
    pub fn service_ns(&self, seconds: f64) -> Option<f64> {
        let util = self.util.filter(|_| self.requests > 0)?;
        Some(util * seconds * 1e9 / self.requests as f64)
    }

    /// Whether it is made of other devices: then its time is theirs.
    pub fn is_stacked(&self) -> bool {
        ["dm-", "md", "loop", "zram", "drbd", "bcache"]
            .iter()
            .any(|kind| self.name().starts_with(kind))
    }

    /// The letters that devices of its kind begin with: `sd`, `nvme`.
    pub fn kind(&self) -> &'a str {
        ["nvme", "sd", "vd", "xvd", "hd", "mmcblk"]
            .into_iter()
            .find(|kind| self.name().starts_with(kind))
            .map_or("", |kind| &self.name()[..kind.len()])
    }

    /// Whether it is a part of a disk of the same list.
    pub fn is_part(&self, summary: &Summary) -> bool {
        summary.devices.iter().any(|disk| {
            let rest = self.name().strip_prefix(disk.device.as_str());
            rest.is_some_and(|rest| {
                let number = rest.strip_prefix('p').unwrap_or(rest);
                !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
            })
        })
    }
}

/// Returns the growth of a device's counter in each interval: its end, nanoseconds, and its growth
/// per second.
pub(super) fn rates(summary: &Summary, metric: Metric, device: &str) -> Vec<(u64, f64)> {
    let Some(series) = summary.samples.get(metric, device) else { return Vec::new() };
    let pairs = series.points.iter().zip(series.points.iter().skip(1));
    pairs
        .filter(|(before, after)| after.0 > before.0)
        .map(|(before, after)| (after.0, (after.1 - before.1) * 1e9 / (after.0 - before.0) as f64))
        .collect()
}
