//! Writes by program: what each one asked for with its calls, and what devices moved for it. The
//! flight recorder adds these rows up over days.
//!
//! What does not belong here: how requests and calls are added up (`charge::writers`), which
//! program a journal's requests are due to, and how long rows are kept (crate `iowhy-recorder`).

use super::axes::ByDirection;
use super::usage::FlowSummary;
use iowhy_model::{FileActivity, Origin};

/// The I/O that a device did for one program on one file, for one reason.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MovedRow {
    /// The device.
    pub device: String,
    /// Whether its requests serve those of a device above, where they count, too.
    pub is_below: bool,
    /// The program: the dirtier for writeback, else the submitter; `None` if it is not known.
    pub program: Option<String>,
    /// Whether it is a thread of the kernel that wrote a file system's own blocks.
    pub is_kernel: bool,
    /// Its container or systemd unit.
    pub container: Option<String>,
    /// The file; `None` if there is none, or if it is not known.
    pub file: Option<String>,
    /// Whether the file had already been deleted when it was first seen.
    pub deleted: bool,
    /// The origin of the requests; `None` for the sum of rows that did not fit.
    pub origin: Option<Origin>,
    /// Requests that ended and their bytes, by direction.
    pub directions: ByDirection<FlowSummary>,
}

/// The calls of one program on one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AskedRow {
    /// The device of the file's file system; `None` if it is not known, or on none.
    pub device: Option<String>,
    /// The program; `None` for the sum of rows that did not fit.
    pub program: Option<String>,
    /// Its container or systemd unit.
    pub container: Option<String>,
    /// The file, or the pattern of many.
    pub file: Option<String>,
    /// The calls.
    pub calls: AskedCalls,
}

/// Calls that write, and those that make it durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AskedCalls {
    /// Calls that wrote.
    pub writes: u64,
    /// Bytes that they wrote.
    pub write_bytes: u64,
    /// Bytes that reads returned.
    pub read_bytes: u64,
    /// Calls that make it durable.
    pub syncs: u64,
    /// Calls that change names: creations, removals, renames.
    pub name_changes: u64,
}

impl AskedCalls {
    /// The calls of a row.
    pub fn for_activity(row: &FileActivity) -> AskedCalls {
        AskedCalls {
            writes: row.writes,
            write_bytes: row.write_bytes,
            read_bytes: row.read_bytes,
            syncs: row.fsyncs,
            name_changes: row.creates.saturating_add(row.unlinks).saturating_add(row.renames),
        }
    }

    /// Adds others.
    pub fn add(&mut self, other: &AskedCalls) {
        self.writes = self.writes.saturating_add(other.writes);
        self.write_bytes = self.write_bytes.saturating_add(other.write_bytes);
        self.read_bytes = self.read_bytes.saturating_add(other.read_bytes);
        self.syncs = self.syncs.saturating_add(other.syncs);
        self.name_changes = self.name_changes.saturating_add(other.name_changes);
    }
}

/// All rows of one watch or interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Writers {
    /// The I/O of devices; scaled to what the kernel counted, where requests were thinned.
    pub moved: Vec<MovedRow>,
    /// The calls of programs.
    pub asked: Vec<AskedRow>,
}
