//! The summary of a watch: what every view shows and every rule reads.
//!
//! Names of fields are an interface, since `--json` prints them: `_ns` is nanoseconds, `bytes` is
//! bytes, `_per_s` is per second of the watch, `_share` is 0 to 1. `None` is "not known" or "there
//! was none", never zero.
//!
//! What does not belong here: how the figures are computed (see [`super::Summarizer`]).

use super::axes::{ByDirection, ByInterval};
pub use super::blame::report::{Behind, BlameShares, BlameSummary, BlamedCulprit, BlamedWaiter};
pub use super::files::{Activity, ActivityRow};
use super::patterns::Patterns;
pub use super::samples::{Samples, Series};
pub use super::usage::*;
pub use super::waits::chains::{ChainRow, Chains, Step};
pub use super::waits::ledger::{ClassRow, Ledger, ProcessLedger, Waiter};
use crate::model::Losses;
use crate::model::environment::Environment;
use serde::Serialize;
use std::collections::BTreeMap;

/// Everything that iowhy says about one watch.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// The watch itself.
    pub watch: Watch,
    /// What was lost.
    pub losses: Losses,
    /// Where blocked threads waited; `None` where the source does not know.
    pub ledger: Option<Ledger>,
    /// Threads that waited for threads that waited for storage; `None` where none was seen.
    pub chains: Option<Chains>,
    /// Who made whom wait; `None` where the source does not know, or has not all requests.
    pub blame: Option<BlameSummary>,
    /// What the machine's counters did meanwhile.
    pub samples: Samples,
    /// The block devices that had requests, errors or changed settings; those with the most time
    /// first.
    pub devices: Vec<DeviceSummary>,
    /// How many other devices the machine has.
    pub idle_devices: u64,
    /// Processes by number and name.
    pub processes: Table<ProcessRow>,
    /// Who those are that have counters or waited, by number and name.
    #[serde(skip)]
    pub identities: BTreeMap<(u32, String), ProcessRow>,
    /// Processes folded by name.
    pub programs: Table<ProgramRow>,
    /// Containers, systemd units and other cgroups.
    pub containers: Table<ContainerRow>,
    /// Files.
    pub files: Table<FileRow>,
    /// What processes did with files, whether it reached a device or not; `None` where the source
    /// does not know.
    pub activity: Option<Activity>,
    /// Why the requests exist.
    pub origins: Table<OriginRow>,
    /// Which functions asked for them, estimated from the stacks that were taken.
    pub code_paths: CodePaths,
    /// Settings that were not the same at both ends of the watch.
    pub changed_settings: Vec<ChangedSetting>,
    /// How the load behaves, which the diagnosis reads.
    #[serde(skip)]
    pub patterns: Patterns,
    /// What is true of the machine and the watch as a whole: the content of `recording.json`.
    pub environment: Environment,
}

/// The watch itself.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Watch {
    /// How long it lasted, nanoseconds; where its end is not recorded, until the last request.
    pub duration_ns: u64,
    /// Whether it ended as planned; false where the recording's writer died.
    pub finished: bool,
    /// All requests of which there is a record, on every device.
    pub requests: u64,
    /// Those that had not completed at the end (censored).
    pub open_requests: u64,
    /// Those that had begun before the watch (censored), whether they completed or not: in the
    /// rates if they did, never in the latencies.
    pub begun_before_requests: u64,
    /// Those that a device above asked for: shown under their device, not counted again for their
    /// process and file.
    pub lower_requests: u64,
    /// Flushes that the kernel made to carry out other requests: shown under their device, not
    /// counted again, since those requests wait for them.
    pub helper_requests: u64,
    /// Those that may have been counted on two levels, since the device above is not known.
    pub unlinked_requests: u64,
    /// Requests that have no record, whatever a filter would keep.
    pub lost_requests: u64,
    /// Requests that have a record and that the filter of a report or a live watch left out.
    pub left_out_requests: u64,
    /// Waits that it left out.
    pub left_out_waits: u64,
    /// Time of the requests that processes, files and origins are charged with, nanoseconds: Q2C of
    /// those that ended, the time within the watch of those that are censored.
    pub time_ns: u64,
    /// Their bytes; of requests that ended.
    pub bytes: u64,
    /// Requests of iowhy itself, which reads others' programs for the names of their functions: they
    /// are among all requests.
    pub own_requests: u64,
    /// Their bytes.
    pub own_bytes: u64,
    /// Waits of iowhy itself, which are in no table of waits.
    pub own_waits: u64,
    /// iowhy's own CPU time, with that of its BPF programs where the kernel counts it, of all CPU
    /// time; `None` where it is not recorded.
    pub cost_share: Option<f64>,
}

/// One block device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeviceSummary {
    /// The kernel's name.
    pub device: String,
    /// The major number.
    pub major: u32,
    /// The minor number.
    pub minor: u32,
    /// The vendor's model name, where there is one.
    pub model: Option<String>,
    /// How it is attached, much like lsblk's TRAN: pcie, sata, virtio …
    pub transport: Option<String>,
    /// Size in bytes; `None` where not known.
    pub size_bytes: Option<u64>,
    /// Whether it has no request queue: its bios are counted as requests and have no stages.
    pub bio_based: bool,
    /// Devices that it stands on.
    pub below: Vec<String>,
    /// The file behind a loop device.
    pub backing_file: Option<String>,
    /// Settings under /sys/block when the watch began.
    pub settings: BTreeMap<String, String>,
    /// Each direction's figures.
    pub directions: ByDirection<DirectionSummary>,
    /// iostat's aqu-sz: the time that completed requests took, per second of the watch. It leaves
    /// out what has not completed.
    pub aqu_sz: Option<f64>,
    /// Requests queued or in flight on average, with those that have not completed.
    pub in_flight_mean: f64,
    /// Share of the watch with at least one request at the driver, from issue to completion; from
    /// queueing where no issue is known. iostat's %util rounds the same to clock ticks.
    pub util_share: Option<f64>,
    /// Requests at the driver on average while there was one: more than one means that the device
    /// works on several at once, so that a `util_share` of 1 is not its limit. `None` where no D2C is
    /// known.
    pub busy_depth_mean: Option<f64>,
    /// Requests that were in flight when the watch began.
    pub begun_before_requests: u64,
    /// Requests that were in flight at the end.
    pub open_requests: u64,
    /// In flight when the watch began, by the kernel's count.
    pub kernel_in_flight_start: Option<u64>,
    /// In flight when the watch ended, by the kernel's count.
    pub kernel_in_flight_end: Option<u64>,
    /// Those of `open_requests` whose end is presumably lost: there are losses, and requests queued
    /// later ended more than [`STALLED_NS`] after they were queued. Their time counts nowhere.
    pub overtaken_requests: u64,
    /// Age at the end of the oldest other request in flight, nanoseconds: at least this.
    pub oldest_open_ns: Option<u64>,
    /// Whether that is at least [`STALLED_NS`] and longer than any request that completed took: the
    /// request is lost, or in a capture its completion.
    pub is_oldest_overdue: bool,
    /// Those of the requests in flight that stand in the scheduler: their time there is in no stage.
    pub in_scheduler: InScheduler,
    /// For how long at the end of the watch requests were in flight and none completed,
    /// nanoseconds; `None` below [`STALLED_NS`].
    pub stalled_ns: Option<u64>,
    /// Requests that a device above asked for.
    pub lower_requests: u64,
    /// Flushes that the kernel made to carry out other requests.
    pub helper_requests: u64,
    /// Requests that may serve a device above, and why that is not known.
    pub unlinked: Vec<ReasonCount>,
    /// How often each error number ended a request.
    pub errors: Vec<ErrorCount>,
    /// Why its requests exist, most time first.
    pub origins: Vec<Row<OriginRow>>,
    /// The processes that took most of its time, at most [`DEVICE_ROWS`].
    pub processes: Vec<Row<ProcessRow>>,
    /// What the kernel's own counters say.
    pub kernel: Option<KernelCounters>,
    /// Whether the figures are those counters, since there is no record of any request.
    pub is_kernel_counted: bool,
}

/// Requests that were inserted in a scheduler and not issued when the watch ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct InScheduler {
    /// How many.
    pub requests: u64,
    /// For how long they stood there within the watch, all together, nanoseconds: at least this.
    pub time_ns: u64,
    /// The one that stood there longest, nanoseconds.
    pub longest_ns: u64,
}

impl InScheduler {
    /// Adds a request that stands there for so long.
    pub(super) fn add(&mut self, time_ns: u64) {
        self.requests += 1;
        self.time_ns = self.time_ns.saturating_add(time_ns);
        self.longest_ns = self.longest_ns.max(time_ns);
    }
}

/// From when on requests without any completion are called a stall, nanoseconds.
pub const STALLED_NS: u64 = 1_000_000_000;
/// How many processes are shown for each device.
pub const DEVICE_ROWS: usize = 5;

/// One direction of one device. `intervals` and histograms are of what requests do. Everything else
/// counts as the kernel does: a flush that somebody asks for is an empty write, and the command that
/// the kernel then sends to the device, for one or many that asked, is the flush.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DirectionSummary {
    /// Requests that ended during the watch.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Requests a second.
    pub requests_per_s: f64,
    /// Bytes a second.
    pub bytes_per_s: f64,
    /// Average size of a request, bytes.
    pub average_bytes: Option<f64>,
    /// Bios that were merged into other requests, a second.
    pub merges_per_s: f64,
    /// Their share of all bios that were asked for; `None` without any.
    pub merged_share: Option<f64>,
    /// iostat's await: average time from getting a request to completion, nanoseconds.
    pub await_ns: Option<f64>,
    /// How often the driver gave a request back.
    pub requeues: u64,
    /// Requests that ended with an error.
    pub error_requests: u64,
    /// Those of `requests` that had begun before the watch: not in `await_ns` and `intervals`.
    pub begun_before_requests: u64,
    /// Requests in flight at the end: not in `requests`.
    pub open_requests: u64,
    /// Requests that begin where an earlier one of their stream ended, of those that have sectors.
    pub sequential_requests: u64,
    /// Their bytes.
    pub sequential_bytes: u64,
    /// Their share of the direction's bytes; `None` without bytes.
    pub sequential_share: Option<f64>,
    /// How long each interval of a request's life took; `None` where it does not exist (no
    /// insertion with scheduler `none`) or is not known.
    pub intervals: ByInterval<Option<Stage>>,
    /// All Q2C by length.
    pub q2c_histogram: Vec<Bucket>,
    /// All D2C by length.
    pub d2c_histogram: Vec<Bucket>,
}

/// How long one interval took.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Stage {
    /// Requests of which it is known.
    pub requests: u64,
    /// Its sum, nanoseconds.
    pub sum_ns: u64,
    /// Its mean, nanoseconds.
    pub mean_ns: f64,
    /// Half of the requests took at most this, nanoseconds. Percentiles are exact for up to 64
    /// requests, else at most 1 % too high.
    pub p50_ns: u64,
    /// 90 % took at most this, nanoseconds.
    pub p90_ns: u64,
    /// 99 % took at most this, nanoseconds.
    pub p99_ns: u64,
    /// 99.9 % took at most this, nanoseconds.
    pub p999_ns: u64,
    /// The longest, nanoseconds; exact.
    pub max_ns: u64,
    /// Its sum as a share of all Q2C of the direction: the part of the wait that it makes; `None`
    /// where it is known of more requests than Q2C is.
    pub q2c_share: Option<f64>,
}

/// One bucket of a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Bucket {
    /// From this length on, nanoseconds.
    pub from_ns: u64,
    /// Below this length, nanoseconds.
    pub to_ns: u64,
    /// Requests.
    pub requests: u64,
}

/// What the kernel counted in /proc/diskstats during the watch: iostat's source.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct KernelCounters {
    /// Each direction; `None` where the kernel does not count it.
    pub directions: ByDirection<Option<KernelDirection>>,
    /// iostat's %util, as a share.
    pub util_share: Option<f64>,
    /// iostat's aqu-sz.
    pub aqu_sz: Option<f64>,
}

/// What the kernel counted of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
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

/// How often something had a reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReasonCount {
    /// The reason.
    pub reason: String,
    /// Requests.
    pub requests: u64,
}

/// How often an error ended a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ErrorCount {
    /// The negative error number.
    pub error: i32,
    /// Requests.
    pub requests: u64,
}

/// A setting that was not the same all the time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChangedSetting {
    /// The device; `None` for a setting of the machine.
    pub device: Option<String>,
    /// Its name.
    pub setting: String,
    /// Its value before.
    pub before: String,
    /// Its value afterwards.
    pub after: String,
    /// When it was last seen to be as before, and first to be as afterwards: nanoseconds after the watch
    /// began, 0 where that was earlier. `None` where only both ends of the watch were looked at.
    pub between_ns: Option<(u64, u64)>,
}
