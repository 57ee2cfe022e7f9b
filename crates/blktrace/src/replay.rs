//! Rows of the `events` table as the records that a capture gives: put in order of time, with the
//! process names that they carry as records of their own. Readers of captures can then read
//! recordings and live watches, too.
//!
//! What does not belong here: requests (an event table has none) and files (see
//! [`super::trace::CaptureWriter`]).

use super::trace::action::{category, notify};
use super::trace::{RecordBatch, TraceRecord, writer};
use iowhy_model::bounded_map::CappedMap;
use iowhy_model::{Event, Name, Names};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// Maximum number of threads whose names are kept.
const MOST_NAMES: usize = 128 << 10;
/// The delay with which an event may come after its turn, ns: CPUs hand over their events one after
/// the other, every few milliseconds.
const HORIZON: u64 = 1_000_000_000;

/// Sorts rows of events by time, in bounded memory.
#[derive(Debug, Default)]
pub struct InOrder {
    held: VecDeque<Event>,
    unsorted: bool,
    latest: u64,
    given: u64,
    late: u64,
}

impl InOrder {
    /// Rows kept back.
    const MAX: usize = 1 << 18;

    /// Takes `events` and hands out those whose position is settled.
    pub fn push(&mut self, events: &[Event], mut each: impl FnMut(&Event)) {
        for event in events {
            self.unsorted |= self.held.back().is_some_and(|last| last.time_ns > event.time_ns);
            self.latest = self.latest.max(event.time_ns);
            self.held.push_back(event.clone());
        }
        self.sort();
        let settled = self.latest.saturating_sub(HORIZON);
        while let Some(event) = self.held.front()
            && (event.time_ns < settled || self.held.len() > Self::MAX)
        {
            self.give(&mut each);
        }
    }

    /// Hands out the rest.
    pub fn finish(&mut self, mut each: impl FnMut(&Event)) {
        while !self.held.is_empty() {
            self.give(&mut each);
        }
    }

    /// Events that came too late for their position.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// Sorts the rows. Nearly always they are in order, or in runs that the sort finds.
    fn sort(&mut self) {
        if std::mem::take(&mut self.unsorted) {
            self.held.make_contiguous().sort_by_key(|event| event.time_ns);
        }
    }

    fn give(&mut self, each: &mut impl FnMut(&Event)) {
        if let Some(event) = self.held.pop_front() {
            self.late += u64::from(event.time_ns < self.given);
            self.given = self.given.max(event.time_ns);
            each(&event);
        }
    }
}

/// Turns rows into records.
#[derive(Debug, Default)]
pub struct Replay {
    order: InOrder,
    records: Records,
    batch: RecordBatch,
}

/// Records whose position is settled.
#[derive(Clone, Copy, Debug)]
pub struct Replayed<'a> {
    /// The time of the first event of all.
    pub genesis: u64,
    /// The names of the devices so far; a record's group is its device's index among them.
    pub devices: &'a [String],
    /// The records.
    pub batch: &'a RecordBatch,
}

#[derive(Debug, Default)]
struct Records {
    genesis: Option<u64>,
    /// The name of each thread's number in its last notify record.
    named: CappedMap<u32, Name, MOST_NAMES>,
    /// Devices in the order of their first events, with their index.
    groups: FxHashMap<u32, u16>,
    devices: Vec<String>,
}

impl Replay {
    /// Takes `events`, whose texts are in `names`, and gives the records whose position is settled.
    pub fn take(&mut self, events: &[Event], names: &Names) -> Replayed<'_> {
        let Replay { order, records, batch } = self;
        batch.clear();
        order.push(events, |event| records.add(event, names, batch));
        self.replayed()
    }

    /// Gives the rest.
    pub fn finish(&mut self, names: &Names) -> Replayed<'_> {
        let Replay { order, records, batch } = self;
        batch.clear();
        order.finish(|event| records.add(event, names, batch));
        self.replayed()
    }

    fn replayed(&self) -> Replayed<'_> {
        let Records { genesis, devices, .. } = &self.records;
        Replayed { genesis: genesis.unwrap_or(0), devices, batch: &self.batch }
    }

    /// Whether no event has come so far.
    pub fn is_empty(&self) -> bool {
        self.order.latest == 0
    }

    /// Events that came too late for their position.
    pub fn late(&self) -> u64 {
        self.order.late()
    }
}

impl Records {
    fn add(&mut self, event: &Event, names: &Names, out: &mut RecordBatch) {
        self.genesis.get_or_insert(event.time_ns);
        let device = (event.major << 20) | (event.minor & 0xf_ffff);
        let group = match self.groups.get(&device) {
            Some(group) => *group,
            None => self.add_device(device, event, names),
        };
        let record = TraceRecord {
            sequence: event.sequence as u32,
            group,
            ..writer::record(event, device, names.get(event.rwbs))
        };
        if let Some(process) = event.process
            && self.named.get(&event.pid) != Some(&process)
            && self.named.admits(&event.pid)
        {
            self.named.insert(event.pid, process);
            let note =
                TraceRecord { categories: category::NOTIFY, action: notify::PROCESS, ..record };
            out.push(note, names.get(process).as_bytes());
        }
        out.push(record, &writer::payload(event, device));
    }

    fn add_device(&mut self, device: u32, event: &Event, names: &Names) -> u16 {
        let Ok(group) = u16::try_from(self.devices.len()) else { return u16::MAX };
        self.groups.insert(device, group);
        self.devices.push(match names.get(event.device) {
            "" => format!("{},{}", event.major, event.minor),
            name => name.to_owned(),
        });
        group
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(time_ns: u64, pid: u32, process: Name, device: Name) -> Event {
        Event {
            time_ns,
            sequence: 1,
            cpu: 0,
            action: category::QUEUE << 16 | 1,
            major: 8,
            minor: 0,
            device,
            sector: time_ns,
            bytes: 512,
            rwbs: Name::EMPTY,
            error: 0,
            pid,
            process: Some(process),
            payload: None,
            payload_major: None,
            payload_minor: None,
        }
    }

    #[test]
    fn rows_become_records_in_order_with_the_names_of_their_time() {
        let mut names = Names::new();
        let (sh, fio, sda) = (names.intern("sh"), names.intern("fio"), names.intern("sda"));
        let rows = [event(30, 7, fio, sda), event(10, 7, sh, sda), event(20, 7, sh, sda)];
        let mut replay = Replay::default();
        assert!(replay.take(&rows, &names).batch.records.is_empty(), "an earlier one may come");
        let all = replay.finish(&names);
        assert_eq!((all.genesis, all.devices), (10, &["sda".to_owned()][..]));
        let told = |record: &TraceRecord| match record.is_notify() {
            true => String::from_utf8_lossy(all.batch.process_name(record)).into_owned(),
            false => record.time.to_string(),
        };
        let told: Vec<_> = all.batch.records.iter().map(told).collect();
        assert_eq!(told, ["sh", "10", "20", "fio", "30"]);
    }
}
