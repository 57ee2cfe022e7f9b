//! A block device in a summary.
//!
//! What does not belong here: how its figures are computed (`analysis::device`).

use super::axes::{ByDirection, ByInterval};
use super::usage::{OriginRow, ProcessRow, UsedRow};
use iowhy_model::health::{DeviceHealth, KernelMessage};
use iowhy_model::shared::Shared;
use serde::Serialize;
use std::collections::BTreeMap;

/// One block device.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeviceSummary {
    /// The kernel's name.
    pub device: String,
    /// The major number.
    pub major: u32,
    /// The minor number.
    pub minor: u32,
    /// The vendor's model name, if there is one.
    pub model: Option<String>,
    /// How it is attached, much like lsblk's TRAN: pcie, sata, virtio …
    pub transport: Option<String>,
    /// Size in bytes; `None` where not known.
    pub size_bytes: Option<u64>,
    /// Whether it has no request queue: its bios are counted as requests and have no stages.
    pub bio_based: bool,
    /// Its lower devices.
    pub below: Vec<String>,
    /// The file behind a loop device.
    pub backing_file: Option<String>,
    /// Settings under /sys/block when the watch began.
    pub settings: Shared<BTreeMap<String, String>>,
    /// What the device reported of itself when the watch began.
    pub health_start: Option<DeviceHealth>,
    /// The same when it ended.
    pub health_end: Option<DeviceHealth>,
    /// What the kernel's log says of it during the watch.
    pub kernel_messages: Vec<KernelMessage>,
    /// Each direction's figures.
    pub directions: ByDirection<DirectionSummary>,
    /// iostat's aqu-sz: the time that completed requests took, per second of the watch. Requests
    /// that have not completed are not included.
    pub aqu_sz: Option<f64>,
    /// Mean number of requests queued or in flight, including those that have not completed.
    pub in_flight_mean: f64,
    /// Share of the watch with at least one request at the driver, from issue to completion; from
    /// queueing if no issue is known. iostat's %util rounds the same to clock ticks.
    pub util_share: Option<f64>,
    /// Mean number of requests at the driver while it was busy: above 1, the device works on
    /// several at once, so a `util_share` of 1 is not its limit. `None` if no D2C is known.
    pub busy_depth_mean: Option<f64>,
    /// Requests that were in flight when the watch began.
    pub begun_before_requests: u64,
    /// Requests that were in flight at the end.
    pub open_requests: u64,
    /// In flight when the watch began, by the kernel's count.
    pub kernel_in_flight_start: Option<u64>,
    /// In flight when the watch ended, by the kernel's count.
    pub kernel_in_flight_end: Option<u64>,
    /// Requests of `open_requests` whose completion is presumably lost: there are losses, and
    /// requests queued later completed more than [`STALLED_NS`] after they were queued. Their time
    /// is not counted.
    pub overtaken_requests: u64,
    /// Age at the end of the oldest other request in flight, nanoseconds: a lower bound.
    pub oldest_open_ns: Option<u64>,
    /// Whether that is at least [`STALLED_NS`] and longer than any request that completed took: the
    /// request is lost, or in a capture its completion.
    pub is_oldest_overdue: bool,
    /// Requests in flight that are in the scheduler: their time there is part of no stage.
    pub in_scheduler: InScheduler,
    /// Time at the end of the watch in which requests were in flight and none completed,
    /// nanoseconds; `None` below [`STALLED_NS`].
    pub stalled_ns: Option<u64>,
    /// Requests of an upper device.
    pub lower_requests: u64,
    /// Flushes that the kernel issued on behalf of other requests.
    pub helper_requests: u64,
    /// Requests that may serve an upper device, and why that is not known.
    pub unlinked: Vec<ReasonCount>,
    /// Number of requests by error number.
    pub errors: Vec<ErrorCount>,
    /// The origins of its requests, most time first.
    pub origins: Vec<UsedRow<OriginRow>>,
    /// The processes with most of its time, at most [`DEVICE_ROWS`].
    pub processes: Vec<UsedRow<ProcessRow>>,
    /// The same, at most [`DEVICE_USERS`], for the diagnosis: the workers of one program are many.
    #[serde(skip)]
    pub users: Vec<UsedRow<ProcessRow>>,
    /// The kernel's own counters.
    pub kernel: Option<KernelCounters>,
    /// Whether the figures are those counters, since there are no records: what they do not tell is
    /// not known.
    pub is_kernel_counted: bool,
}

/// Requests that were in a scheduler at the end of the watch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InScheduler {
    /// How many.
    pub requests: u64,
    /// Their total time there within the watch, nanoseconds: a lower bound.
    pub time_ns: u64,
    /// The longest time there, nanoseconds.
    pub longest_ns: u64,
}

impl InScheduler {
    /// Adds a request with its time there.
    pub(crate) fn add(&mut self, time_ns: u64) {
        self.requests += 1;
        self.time_ns = self.time_ns.saturating_add(time_ns);
        self.longest_ns = self.longest_ns.max(time_ns);
    }
}

/// Time without any completion from which a device is stalled, nanoseconds.
pub const STALLED_NS: u64 = 1_000_000_000;

/// Maximum number of processes for each device.
pub const DEVICE_ROWS: usize = 5;

/// The same for the diagnosis.
pub const DEVICE_USERS: usize = 256;

/// One direction of one device. `intervals` and histograms are by operation of the request. All
/// other figures count as the kernel does: a requested flush is an empty write, and the command
/// that the kernel then sends to the device, for one or several requests, is the flush.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DirectionSummary {
    /// Requests that ended during the watch.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Requests per second; NaN (null) if the watch has no length.
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub requests_per_s: f64,
    /// Bytes per second; NaN (null) as above.
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub bytes_per_s: f64,
    /// Average size of a request, bytes.
    pub average_bytes: Option<f64>,
    /// Bios merged into other requests, per second; NaN (null) as above.
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub merges_per_s: f64,
    /// Their share of all submitted bios; `None` without any.
    pub merged_share: Option<f64>,
    /// iostat's await: average time from getting a request to completion, nanoseconds.
    pub await_ns: Option<f64>,
    /// Number of requeues by the driver.
    pub requeues: u64,
    /// Requests that ended with an error.
    pub error_requests: u64,
    /// Requests of `requests` that began before the watch: not part of `await_ns` and `intervals`.
    pub begun_before_requests: u64,
    /// Requests in flight at the end: not part of `requests`.
    pub open_requests: u64,
    /// Sequential requests: they begin where an earlier one of their stream ended.
    pub sequential_requests: u64,
    /// Their bytes.
    pub sequential_bytes: u64,
    /// Their share of the direction's bytes; `None` without bytes.
    pub sequential_share: Option<f64>,
    /// The intervals of requests; `None` if an interval does not exist (no insertion with scheduler
    /// `none`) or is not known.
    pub intervals: ByInterval<Option<StageTime>>,
    /// The histogram of Q2C.
    pub q2c_histogram: Vec<Bucket>,
    /// The histogram of D2C.
    pub d2c_histogram: Vec<Bucket>,
}

/// The figures of one interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StageTime {
    /// Number of requests with this interval.
    pub requests: u64,
    /// Its sum, nanoseconds.
    pub sum_ns: u64,
    /// Its mean, nanoseconds.
    pub mean_ns: f64,
    /// The median, nanoseconds. Percentiles are exact for up to 64 requests, else at most 1 % too
    /// high.
    pub p50_ns: u64,
    /// The 90th percentile, nanoseconds.
    pub p90_ns: u64,
    /// The 99th percentile, nanoseconds.
    pub p99_ns: u64,
    /// The 99.9th percentile, nanoseconds.
    pub p999_ns: u64,
    /// The longest, nanoseconds; exact.
    pub max_ns: u64,
    /// Its sum as a share of all Q2C of the direction; `None` if it is known for more requests than
    /// Q2C.
    pub q2c_share: Option<f64>,
}

/// One bucket of a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Bucket {
    /// Lower bound, inclusive, nanoseconds.
    pub from_ns: u64,
    /// Upper bound, exclusive, nanoseconds.
    pub to_ns: u64,
    /// Requests.
    pub requests: u64,
}

/// The kernel's counts in /proc/diskstats during the watch: iostat's source.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KernelCounters {
    /// By direction; `None` if the kernel does not count it.
    pub directions: ByDirection<Option<KernelDirection>>,
    /// What is told of a direction that is not in `directions`: other tools leave some counts out.
    pub partial: ByDirection<Option<PartialDirection>>,
    /// All directions together, where the source does not tell them apart: requests and time.
    pub undirected: Option<KernelDirection>,
    /// iostat's %util, as a share.
    pub util_share: Option<f64>,
    /// iostat's aqu-sz.
    pub aqu_sz: Option<f64>,
}

/// Some of the kernel's counts of one direction; null is not told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PartialDirection {
    /// Requests completed per second.
    pub requests_per_s: Option<f64>,
    /// Their bytes per second.
    pub bytes_per_s: Option<f64>,
    /// Their mean time from getting a request to completion, nanoseconds.
    pub await_ns: Option<f64>,
}

/// The kernel's counts of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KernelDirection {
    /// Requests completed.
    pub requests: u64,
    /// Requests merged into them; 0 for flushes.
    pub merges: u64,
    /// Their bytes; 0 for flushes.
    pub bytes: u64,
    /// Their time from getting a request to completion, nanoseconds; counted in milliseconds.
    pub wait_ns: u64,
}

impl KernelDirection {
    /// Adds the counts of another direction.
    #[must_use]
    pub fn and(self, other: KernelDirection) -> KernelDirection {
        KernelDirection {
            requests: self.requests.saturating_add(other.requests),
            merges: self.merges.saturating_add(other.merges),
            bytes: self.bytes.saturating_add(other.bytes),
            wait_ns: self.wait_ns.saturating_add(other.wait_ns),
        }
    }
}

/// A reason and its number of requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReasonCount {
    /// The reason.
    pub reason: String,
    /// Requests.
    pub requests: u64,
}

/// An error number and its number of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ErrorCount {
    /// The negative error number.
    pub error: i32,
    /// Requests.
    pub requests: u64,
}

/// A setting that changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChangedSetting {
    /// The device; `None` for a setting of the machine.
    pub device: Option<String>,
    /// Its name.
    pub setting: String,
    /// Its value before.
    pub before: String,
    /// Its value afterwards.
    pub after: String,
    /// The last time with the old value and the first time with the new one: nanoseconds after the
    /// watch began, 0 if that was earlier. `None` if settings were read only at both ends of the
    /// watch.
    pub between_ns: Option<(u64, u64)>,
}
