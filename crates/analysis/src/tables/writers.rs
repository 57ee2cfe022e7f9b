//! The words of who writes what.
//!
//! What does not belong here: how requests and calls are added up (`charge::writers`).

use super::row_maker::RowMaker;
use crate::charge::writers::{AskedKey, MovedKey, WriterTally};
use crate::summary::{
    AskedCalls, AskedRow, ByDirection, Direction, FlowSummary, MovedRow, Writers,
};
use crate::sums::device_layer::DeviceLayer;
use crate::sums::usage_by_key::Used;
use iowhy_model::Name;
use iowhy_model::compact_sort::CompactSort;

/// The cgroup of what is in no other.
const ROOT_CGROUP: &str = "/";

/// All rows in words; `device` names a device by its position.
pub fn writers(tally: &WriterTally, rows: &RowMaker, device: impl Fn(usize) -> String) -> Writers {
    let of_device = |layer: DeviceLayer, used: &Used| MovedRow {
        device: device(layer.device()),
        is_below: layer.is_lower(),
        directions: flows(used),
        ..MovedRow::default()
    };
    let mut moved: Vec<MovedRow> = Vec::new();
    for slot in tally.moved.rows() {
        let row = of_device(slot.device_layer, &slot.used);
        moved.push(named(&slot.key, row, rows));
    }
    let others = tally.moved.aggregated().filter(|(_, all)| all.keys > 0);
    moved.extend(others.map(|(layer, all)| of_device(layer, &all.used)));
    moved.retain(|row| row.directions != ByDirection::default());
    Writers { moved, asked: asked(tally, rows) }
}

fn asked(tally: &WriterTally, rows: &RowMaker) -> Vec<AskedRow> {
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
    let mut asked: Vec<AskedRow> = tally.asked.iter().map(row).collect();
    asked.extend(tally.unkept.iter().map(other));
    // The order does not depend on hashes.
    asked.compact_sort_by(|a, b| order(a).cmp(&order(b)));
    asked
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
    use crate::charge::writers::KEYS;
    use crate::pass::Summarizer;
    use iowhy_model::Origin;
    use iowhy_model::file::Counts;
    use iowhy_model::script::Script;

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
