//! File activity in a summary, whether it reached a device or not.
//!
//! What does not belong here: how rows are added up and folded into patterns (`tables::files`).

use iowhy_model::file::Counts;
use serde::Serialize;

/// File activity by process and file.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ActivityReport {
    /// The totals.
    pub total: Counts,
    /// By process and file or pattern; the most time first.
    pub rows: Vec<ActivityRow>,
    /// The activity without a row.
    pub others: OtherFiles,
}

/// Activity without a row of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OtherFiles {
    /// The number of rows that it would have.
    pub rows: u64,
    /// Their sums.
    #[serde(flatten)]
    pub counts: Counts,
}

/// The activity of one process on one file, or on all files of one pattern.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ActivityRow {
    /// The process; 0 if the kernel's table had no slot.
    pub pid: u32,
    /// Its name.
    pub process: Option<String>,
    /// Its container or systemd unit.
    pub container: Option<String>,
    /// The path, or a pattern: N for a number, * for any name. `None` if it is not known.
    pub file: Option<String>,
    /// Minimum number of files; `None` if only a directory is known.
    pub files: Option<u64>,
    /// Their common type: `file`, `directory`, `block_device`; `None` if it is not known or not the
    /// same.
    pub file_type: Option<&'static str>,
    /// Its counts.
    #[serde(flatten)]
    pub counts: Counts,
    /// Time in all its calls, nanoseconds; an estimate if not all were timed.
    pub time_ns: Option<u64>,
    /// Files that were created and removed during the watch.
    pub lives: u64,
    /// Their mean lifetime, nanoseconds.
    pub lifetime_ns: Option<u64>,
    /// The longest of these lifetimes, nanoseconds.
    pub longest_lifetime_ns: Option<u64>,
}
