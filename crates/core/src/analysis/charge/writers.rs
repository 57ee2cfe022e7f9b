//! Who writes what: what each program asked for with its calls, and what devices moved for it, by
//! container, file, device and reason. The flight recorder adds these rows up over days. Only on
//! request (`pass::Summarizer::with_writers`).
//!
//! What does not belong here: whom a request is charged to (see `attribution`), which program a
//! journal's requests are due to, and how long rows are kept (crate `iowhy-recorder`).

use super::attribution::{FileKey, Part, ProcessKey, Reason, file};
use crate::analysis::summary::FlowSummary;
use crate::analysis::summary::{ByDirection, Direction};
use crate::analysis::sums::calibration::Calibration;
use crate::analysis::sums::usage_by_key::{Bounded, Charge, DeviceLayer, Used};
use crate::analysis::tables::row_maker::RowMaker;
use crate::model::{FileActivity, Name, Origin, Request};
use rustc_hash::FxHashMap;

/// Combinations that are kept while an interval runs: about 1 MiB.
const KEYS: usize = 1 << 11;

/// The cgroup of what is in no other.
const ROOT_CGROUP: &str = "/";

/// A combination that requests are charged to: like a row, by names.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct MovedKey {
    program: Result<Name, Reason>,
    cgroup: Option<Name>,
    file: Result<FileKey, Reason>,
    origin: Origin,
    is_kernel: bool,
}

/// A combination that calls are counted for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct AskedKey {
    program: Option<Name>,
    /// Its container, or its cgroup if that is none.
    container: Option<Name>,
    file: Option<Name>,
    device: Option<Name>,
}

/// What devices moved for one program on one file, for one reason.
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
    /// Why the requests exist; `None` for the sum of rows that did not fit.
    pub origin: Option<Origin>,
    /// Requests that ended and their bytes, by direction.
    pub directions: ByDirection<FlowSummary>,
}

/// What one program asked for with its calls on one file.
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
    /// What devices moved; scaled to what the kernel counted, where requests were thinned.
    pub moved: Vec<MovedRow>,
    /// What programs asked for.
    pub asked: Vec<AskedRow>,
}

/// Adds up both as they come.
#[derive(Clone, Debug)]
pub(crate) struct WriterTally {
    moved: Bounded<MovedKey>,
    asked: FxHashMap<AskedKey, AskedCalls>,
    /// Calls of combinations that did not fit, by device.
    unkept: FxHashMap<Option<Name>, AskedCalls>,
}

impl WriterTally {
    pub fn new() -> WriterTally {
        WriterTally {
            moved: Bounded::new(KEYS),
            asked: FxHashMap::default(),
            unkept: FxHashMap::default(),
        }
    }

    /// Charges a part of a request to its owner.
    pub fn charge(
        &mut self,
        request: &Request,
        part: Part,
        owner: Result<ProcessKey, Reason>,
        (cgroup, is_kernel): (Option<Name>, bool),
        charge: &Charge,
    ) {
        let (program, origin) = (owner.map(|owner| owner.name), request.origin);
        let key = MovedKey { program, cgroup, file: file(part), origin, is_kernel };
        self.moved.charge(key, charge);
    }

    /// Counts the calls of a row.
    pub fn add_calls(&mut self, row: &FileActivity) {
        let calls = AskedCalls::for_activity(row);
        if calls == AskedCalls::default() {
            return;
        }
        let FileActivity { process: program, container, cgroup, file, device, .. } = *row;
        let container = container.or(cgroup);
        let key = AskedKey { program, container, file, device };
        if self.asked.len() < KEYS || self.asked.contains_key(&key) {
            self.asked.entry(key).or_default().add(&calls);
        } else {
            self.unkept.entry(device).or_default().add(&calls);
        }
    }

    /// Scales what was moved to what the kernel counted of the devices.
    pub fn calibrate(&mut self, by_device: &[ByDirection<Calibration>]) {
        self.moved.calibrate(by_device);
    }

    /// All rows in words; `device` names a device by its position.
    pub fn finish(&self, rows: &RowMaker, device: impl Fn(usize) -> String) -> Writers {
        let of_device = |layer: DeviceLayer, used: &Used| MovedRow {
            device: device(layer.device()),
            is_below: layer.is_lower(),
            directions: flows(used),
            ..MovedRow::default()
        };
        let mut moved: Vec<MovedRow> = Vec::new();
        for slot in self.moved.rows() {
            let row = of_device(slot.device_layer, &slot.used);
            moved.push(named(&slot.key, row, rows));
        }
        let others = self.moved.aggregated().filter(|(_, all)| all.keys > 0);
        moved.extend(others.map(|(layer, all)| of_device(layer, &all.used)));
        moved.retain(|row| row.directions != ByDirection::default());
        Writers { moved, asked: self.finish_asked(rows) }
    }

    fn finish_asked(&self, rows: &RowMaker) -> Vec<AskedRow> {
        let text = |name: Option<Name>| name.map(|name| rows.text(name));
        let container = |name| text(name).filter(|text| text != ROOT_CGROUP);
        let row = |(key, calls): (&AskedKey, &AskedCalls)| AskedRow {
            device: text(key.device),
            program: Some(text(key.program).unwrap_or_default()),
            container: container(key.container),
            file: text(key.file),
            calls: *calls,
        };
        let other = |(device, calls): (&Option<Name>, &AskedCalls)| AskedRow {
            device: text(*device),
            calls: *calls,
            ..AskedRow::default()
        };
        let mut asked: Vec<AskedRow> = self.asked.iter().map(row).collect();
        asked.extend(self.unkept.iter().map(other));
        // The order does not depend on hashes.
        asked.sort_by(|a, b| order(a).cmp(&order(b)));
        asked
    }
}

type TextOrder<'a> =
    (Option<&'a String>, Option<&'a String>, Option<&'a String>, Option<&'a String>);

fn order(row: &AskedRow) -> TextOrder<'_> {
    (row.program.as_ref(), row.container.as_ref(), row.file.as_ref(), row.device.as_ref())
}

fn named(key: &MovedKey, row: MovedRow, rows: &RowMaker) -> MovedRow {
    let container = |cgroup: Name| {
        let known = rows.charged.containers.get(&cgroup).copied();
        Some(rows.text(known.unwrap_or(cgroup))).filter(|text| text != ROOT_CGROUP)
    };
    MovedRow {
        program: key.program.ok().map(|name| rows.text(name)).filter(|name| !name.is_empty()),
        container: key.cgroup.and_then(container),
        file: key.file.ok().map(|file| rows.text(file.path)),
        deleted: key.file.is_ok_and(|file| file.deleted),
        origin: Some(key.origin),
        is_kernel: key.is_kernel,
        ..row
    }
}

/// The completed requests by direction.
fn flows(used: &Used) -> ByDirection<FlowSummary> {
    let mut flows = ByDirection::<FlowSummary>::default();
    for direction in Direction::ALL {
        let ended = used.ended[direction];
        flows[direction] =
            FlowSummary { requests: ended.count, bytes: ended.bytes, time_ns: ended.time_ns };
    }
    flows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::pass::Summarizer;
    use crate::model::file::Counts;
    use crate::script::Script;

    fn writers(script: &Script) -> Writers {
        let mut summarizer = Summarizer::new(&script.environment).with_writers();
        summarizer.add(&script.batch, &script.names);
        summarizer.finish(&script.environment, &script.names).writers.unwrap_or_default()
    }

    #[test]
    fn requests_are_rows_by_program_file_device_and_reason() {
        let mut script = Script::new(10);
        for index in 0..10 {
            let write = script.write("sda", 4096).by(7, "db").at(index * 1000);
            write.file("/db/wal").direct(1, 2, 3).add();
        }
        script.read("sda", 8192).by(7, "db").file("/db/wal").direct(1, 2, 3).add();
        let mut journal = script.write("sda", 12_288).by(9, "jbd2/sda1-8").direct(1, 2, 3);
        journal.request.origin = Origin::Journal;
        journal.add();
        let moved = writers(&script).moved;
        let find = |origin| moved.iter().find(|row| row.origin == Some(origin)).unwrap();
        let own = find(Origin::Write);
        assert_eq!((own.program.as_deref(), own.file.as_deref()), (Some("db"), Some("/db/wal")));
        let written = own.directions[Direction::Write];
        assert_eq!((written.requests, written.bytes), (10, 40_960));
        assert_eq!(find(Origin::Read).directions[Direction::Read].bytes, 8192);
        assert_eq!(find(Origin::Journal).directions[Direction::Write].bytes, 12_288);
        assert!(moved.iter().all(|row| row.device == "sda" && !row.is_below));
    }

    #[test]
    fn memory_is_bounded_and_every_byte_stays() {
        let mut script = Script::new(10);
        for index in 0..3 * KEYS as u32 {
            let name = format!("job-{index}");
            script.write("sda", 4096).by(index + 10, &name).direct(1, 2, 3).add();
            let counts = Counts { writes: 1, write_bytes: 100, ..Counts::default() };
            script.did((index + 10, &name), "/tmp/out", counts);
        }
        let writers = writers(&script);
        let bytes: u64 =
            writers.moved.iter().map(|row| row.directions[Direction::Write].bytes).sum();
        assert_eq!(bytes, 3 * KEYS as u64 * 4096);
        let asked: u64 = writers.asked.iter().map(|row| row.calls.write_bytes).sum();
        assert_eq!(asked, 3 * KEYS as u64 * 100);
        assert!(writers.moved.len() <= KEYS + 1 && writers.asked.len() <= KEYS + 1);
        assert!(writers.moved.iter().any(|row| row.origin.is_none()));
    }
}
