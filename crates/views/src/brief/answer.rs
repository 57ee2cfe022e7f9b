//! The layout of a brief answer: what is serialised, and what `iowhy schema brief` describes.
//!
//! What does not belong here: how much of each fits (see [`super::render`]).

use iowhy_diagnosis::finding::ImpactOf;
use iowhy_diagnosis::{Confidence, FindingLayer, Gain, Severity, Subject};
use serde::Serialize;

/// Findings, blocked time by wait class, devices and the top of each list, in at most 8,000 bytes.
/// Texts that were cut end with `…`; `not_shown` counts what is left out.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct BriefAnswer {
    /// `brief-` and the version of the layout.
    pub format: String,
    /// The version of this schema, `MAJOR.MINOR`: a minor version adds names, a major one changes
    /// them.
    pub schema_version: &'static str,
    /// The host's name.
    pub host: String,
    /// The kernel's release.
    pub kernel: String,
    /// The watch itself.
    pub watch: BriefWatch,
    /// What was lost.
    pub losses: Vec<BriefLoss>,
    /// Named causes and bottlenecks; the one to act on first comes first.
    pub findings: Vec<BriefFinding>,
    /// The total time that threads waited, as a sentence, if no finding is worth a warning.
    pub quiet: Option<String>,
    /// Where threads waited; null where the source does not know.
    pub ledger: Option<BriefLedger>,
    /// Block devices, those with the most time first.
    pub devices: Vec<BriefDevice>,
    /// Programs by name, most time first.
    pub processes: Vec<BriefRow>,
    /// Files, most time first.
    pub files: Vec<BriefRow>,
    /// Which functions submitted requests, most time first.
    pub code_paths: Vec<BriefCodePath>,
    /// How many of each are left out.
    pub not_shown: BriefRest,
}

/// The watch itself.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct BriefWatch {
    /// When it began, RFC 3339 with the host's offset from UTC; null where only the capture's own
    /// clock is known.
    pub start: Option<String>,
    /// How long it lasted, nanoseconds.
    pub duration_ns: u64,
    /// Requests of which there is a record.
    pub requests: u64,
    /// Requests that have no record.
    pub lost_requests: u64,
    /// iowhy's own CPU time as a share of all CPU time; null where it is not recorded.
    pub cost_share: Option<f64>,
    /// The filter, as on a command line.
    pub filter: String,
}

/// One kind of loss.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct BriefLoss {
    /// How many were lost.
    pub count: u64,
    /// Of what.
    pub what: String,
}

/// A named cause, or a bottleneck that no cause explains.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct BriefFinding {
    /// The cause's or the bottleneck's id, as `iowhy explain` takes it.
    pub cause: &'static str,
    /// Whether it is a cause or a bottleneck.
    pub layer: FindingLayer,
    /// How much it matters.
    pub severity: Severity,
    /// The share of the time that it explains, 0 to 1.
    pub impact: f64,
    /// Which time.
    pub impact_of: ImpactOf,
    /// Whether `impact` is an upper bound of the gain.
    pub impact_at_most: bool,
    /// Who would gain how much without it; null if nobody is known to be held up.
    pub gain: Option<Gain>,
    /// How sure iowhy is.
    pub confidence: Confidence,
    /// Who and what.
    pub subject: Subject,
    /// The cause in one sentence.
    pub sentence: String,
    /// Who waits where because of it, in one sentence.
    pub waits: Option<String>,
    /// Figures that support it.
    pub evidence: Vec<BriefEvidence>,
    /// What to do.
    pub fix: String,
    /// What would refute it.
    pub check: String,
}

/// A figure, and the command that shows it.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct BriefEvidence {
    /// The label of the figure.
    pub what: String,
    /// The figure.
    pub figure: f64,
    /// Its unit.
    pub unit: &'static str,
    /// The command that shows it.
    pub command: String,
}

/// Blocked time by wait class.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct BriefLedger {
    /// The sum of all waits, nanoseconds.
    pub blocked_ns: u64,
    /// The share of it whose wait class is known.
    pub explained_share: Option<f64>,
    /// The wait classes, most time first.
    pub classes: Vec<BriefClass>,
}

/// One wait class.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct BriefClass {
    /// Its name.
    pub class: &'static str,
    /// Its time, nanoseconds.
    pub time_ns: u64,
    /// Its share of the blocked time.
    pub time_share: f64,
}

/// A block device.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct BriefDevice {
    /// The kernel's name.
    pub device: String,
    /// Share of the watch with at least one request at the driver.
    pub util_share: Option<f64>,
    /// Requests queued or in flight on average.
    pub in_flight_mean: f64,
    /// For how long at the end requests were in flight and none completed, nanoseconds; null below
    /// a second.
    pub stalled_ns: Option<u64>,
    /// Reads.
    pub read: BriefDirection,
    /// Writes.
    pub write: BriefDirection,
    /// Cache flushes.
    pub flush: BriefDirection,
}

/// One direction of a device.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct BriefDirection {
    /// Requests per second.
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub per_s: f64,
    /// Bytes per second.
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub bytes_per_s: f64,
    /// iostat's await, nanoseconds.
    pub await_ns: Option<f64>,
    /// The 99th percentile of Q2C (of D2C where Q2C is not known), nanoseconds.
    pub p99_ns: Option<u64>,
    /// The longest of them, nanoseconds.
    pub max_ns: Option<u64>,
}

/// A program or a file.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct BriefRow {
    /// Its name or path.
    pub name: String,
    /// Its share of the requests' time.
    pub time_share: f64,
    /// Its bytes.
    pub bytes: u64,
    /// Its requests.
    pub requests: u64,
}

/// Functions that submitted requests.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct BriefCodePath {
    /// Why the requests exist.
    pub origin: &'static str,
    /// The submitter.
    pub process: Option<String>,
    /// Its share of the requests' time.
    pub time_share: f64,
    /// The functions that matter, innermost last as on the first screen.
    pub frames: Vec<String>,
}

/// How many are left out of a brief answer.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct BriefRest {
    /// Findings.
    pub findings: usize,
    /// Devices.
    pub devices: usize,
    /// Programs.
    pub processes: u64,
    /// Files.
    pub files: u64,
    /// Causes that could not be judged; all of them are in `--json`.
    pub causes_not_judged: usize,
}
