//! The summary of a watch: what every view shows and every rule reads.
//!
//! Names of fields are an interface, since `--json` prints them: `_ns` is nanoseconds, `bytes` is
//! bytes, `_per_s` is per second of the watch, `_share` is 0 to 1. `None` is "not known" or "there
//! was none", never zero.
//!
//! | file | content |
//! |---|---|
//! | `device`, `usage` | block devices; usage by process, file, container, origin and code path |
//! | `ledger`, `chains`, `blame` | where threads waited, for whom, and behind whose requests |
//! | `work` | for whom processes work |
//! | `series`, `files`, `writers` | counters over time; file activity; who writes |
//! | `breakdown` | what is behind a line |
//! | [`patterns`] | patterns of a load, for the diagnosis |
//! | `axes`, `measure` | directions and intervals; the one sum of requests or waits |
//!
//! What does not belong here: how the figures are computed. No module of the summary needs a room
//! that computes them.

mod axes;
mod blame;
mod breakdown;
mod chains;
mod device;
mod files;
mod ledger;
mod measure;
pub mod patterns;
mod series;
mod usage;
mod work;
mod writers;

pub use axes::{ByDirection, ByInterval, Direction, Interval};
pub use blame::{BehindRow, BlameShares, BlameSummary, BlamedCulprit, BlamedWaiter};
pub use breakdown::{Breakdown, BreakdownAxis, BreakdownSubject, WaitedRow};
pub(crate) use breakdown::{BreakdownKey, NOTHING, UsedShare};
pub use chains::{ChainReport, ChainRow, ChainStep};
pub use device::{
    Bucket, ChangedSetting, DEVICE_ROWS, DEVICE_USERS, DeviceSummary, DirectionSummary, ErrorCount,
    InScheduler, KernelCounters, KernelDirection, PartialDirection, ReasonCount, STALLED_NS,
    StageTime,
};
pub use files::{ActivityReport, ActivityRow, OtherFiles};
pub use ledger::{ClassRow, Ledger, LedgerWaiter, ProcessLedger, ProgramWaiter};
pub use measure::Measure;
pub use series::{Samples, Series};
pub use usage::*;
pub use work::{Work, WorkKind};
pub use writers::{AskedCalls, AskedRow, MovedRow, Writers};

use iowhy_model::Losses;
use iowhy_model::environment::Environment;
use patterns::Patterns;
use serde::Serialize;
use std::collections::BTreeMap;

/// The summary of one watch.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Summary {
    /// The watch itself.
    pub watch: WatchSummary,
    /// The losses.
    pub losses: Losses,
    /// The ledger of blocked time; `None` if the source has no waits.
    pub ledger: Option<Ledger>,
    /// Wait chains; `None` if there were none.
    pub chains: Option<ChainReport>,
    /// For whom processes work, by their number; of those of which it is known.
    pub work: BTreeMap<u32, Work>,
    /// Blame; `None` if the source has no waits, or not all requests.
    pub blame: Option<BlameSummary>,
    /// The counters of the machine.
    pub samples: Samples,
    /// The block devices that had requests, errors or changed settings; those with the most time
    /// first.
    pub devices: Vec<DeviceSummary>,
    /// Number of other devices of the machine.
    pub idle_devices: u64,
    /// Processes by PID and name.
    pub processes: UsageTable<ProcessRow>,
    /// The processes with counters or waits, by PID and name.
    #[serde(skip)]
    pub identities: BTreeMap<(u32, String), ProcessRow>,
    /// Processes folded by name.
    pub programs: UsageTable<ProgramRow>,
    /// Containers, systemd units and other cgroups.
    pub containers: UsageTable<ContainerRow>,
    /// Files.
    pub files: UsageTable<FileRow>,
    /// File activity, whether it reached a device or not; `None` if the source has none.
    pub activity: Option<ActivityReport>,
    /// The origins of requests.
    pub origins: UsageTable<OriginRow>,
    /// The functions that submitted them, estimated from stacks.
    pub code_paths: CodePaths,
    /// Devices, processes, files and code paths together; `None` where it was not asked for.
    #[serde(skip)]
    pub breakdown: Option<Breakdown>,
    /// Writes by program; `None` where they were not asked for.
    #[serde(skip)]
    pub writers: Option<Writers>,
    /// Settings that changed during the watch.
    pub changed_settings: Vec<ChangedSetting>,
    /// Patterns of the load, for the diagnosis.
    #[serde(skip)]
    pub patterns: Patterns,
    /// The environment of the watch: the content of `recording.json`.
    pub environment: Environment,
}

/// The watch itself.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WatchSummary {
    /// Its duration, nanoseconds; until the last request if its end is not recorded.
    pub duration_ns: u64,
    /// Whether it ended as planned; false if the recording's writer was killed.
    pub finished: bool,
    /// All requests with a record, on every device.
    pub requests: u64,
    /// Requests that had not completed at the end (censored).
    pub open_requests: u64,
    /// Requests that began before the watch (censored), whether they completed or not: part of
    /// rates if they did, never of latencies.
    pub begun_before_requests: u64,
    /// Requests of an upper device: shown under their device, not counted again for their process
    /// and file.
    pub lower_requests: u64,
    /// Flushes that the kernel issued on behalf of other requests: shown under their device, not
    /// counted again, since those requests wait for them.
    pub helper_requests: u64,
    /// Requests that may have been counted on two levels, since the upper device is not known.
    pub unlinked_requests: u64,
    /// Requests without a record, independent of filters.
    pub lost_requests: u64,
    /// Requests with a record that the filter of a report or a live watch left out.
    pub left_out_requests: u64,
    /// Waits that it left out.
    pub left_out_waits: u64,
    /// Time of the requests that processes, files and origins are charged with, nanoseconds: Q2C of
    /// those that ended, the time within the watch of those that are censored.
    pub time_ns: u64,
    /// Their bytes; of requests that ended.
    pub bytes: u64,
    /// Requests of iowhy itself, which reads programs' files to symbolize functions: they are among
    /// all requests.
    pub own_requests: u64,
    /// Their bytes.
    pub own_bytes: u64,
    /// Waits of iowhy itself, which are in no table of waits.
    pub own_waits: u64,
    /// iowhy's own CPU time after its start, with that of its BPF programs if the kernel counts it,
    /// as a share of all CPU time in which it was spent; `None` if it is not recorded.
    pub cost_share: Option<f64>,
    /// iowhy's CPU time until the watch began, ns.
    pub start_cpu_ns: u64,
}
