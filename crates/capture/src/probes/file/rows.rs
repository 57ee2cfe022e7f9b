//! The rows of one read of the kernel's tables: what each process did with each file.
//!
//! What does not belong here: the names of processes and files (see [`super::decode`]).

use super::calls::FileCall;
use crate::wire::{self, wire_use};
use iowhy_model::file::Counts;
use iowhy_model::{FileActivity, Name};
use rustc_hash::FxHashMap;

/// Rows by process and file.
#[derive(Debug, Default)]
pub struct UseRows {
    rows: Vec<FileActivity>,
    index: FxHashMap<(u32, Option<Name>), usize>,
}

impl UseRows {
    /// The row of a process and a file, which begins at `start_ns` if it is new.
    pub fn row(&mut self, pid: u32, file: Option<Name>, start_ns: u64) -> &mut FileActivity {
        let place = *self.index.entry((pid, file)).or_insert(self.rows.len());
        if place == self.rows.len() {
            let row = FileActivity::of(start_ns, pid, &Counts::default());
            self.rows.push(FileActivity { file, ..row });
        }
        &mut self.rows[place]
    }

    /// Removes and returns the rows, in the order of their creation.
    pub fn take(&mut self) -> Vec<FileActivity> {
        self.index.clear();
        std::mem::take(&mut self.rows)
    }
}

/// Counts a single call.
pub fn count(row: &mut FileActivity, call: &FileCall) {
    let FileCall { use_kind: kind, duration_ns, .. } = *call;
    row.unlinks += u64::from(kind == wire::USE_UNLINK);
    row.renames += u64::from(kind == wire::USE_RENAME);
    row.timed_calls += u64::from(duration_ns > 0);
    row.other_ns += duration_ns;
}

/// The counts of a record.
pub fn counts_of(used: &wire_use) -> Counts {
    let calls = |kind: u32| u64::from(used.calls.get(kind as usize).copied().unwrap_or(0));
    let time = |group: u32| used.times.get(group as usize).copied().unwrap_or(0);
    Counts {
        opens: calls(wire::USE_OPEN),
        creates: calls(wire::USE_CREATE),
        reads: calls(wire::USE_READ),
        writes: calls(wire::USE_WRITE),
        read_bytes: used.read_bytes,
        write_bytes: used.write_bytes,
        fsyncs: calls(wire::USE_FSYNC),
        stats: calls(wire::USE_STAT),
        scans: calls(wire::USE_SCAN),
        renames: calls(wire::USE_RENAME),
        unlinks: calls(wire::USE_UNLINK),
        failures: calls(wire::USE_FAILED),
        faults: calls(wire::USE_FAULT),
        fault_bytes: used.fault_bytes,
        timed_calls: calls(wire::USE_TIMED),
        read_ns: time(wire::TIME_READ),
        write_ns: time(wire::TIME_WRITE),
        fsync_ns: time(wire::TIME_FSYNC),
        other_ns: time(wire::TIME_OTHER),
    }
}
