//! Rows of the model, made of the joined requests and events.

use crate::events::ProcessNames;
use crate::stages::pairing::{DoneRequest, Ending, PairSink};
use crate::stages::slots::{NEVER, Slot};
use crate::trace::action::{Action, Rwbs, category as c};
use crate::trace::{RecordBatch, TraceRecord};
use iowhy_analysis::Interval;
use iowhy_model::request::NOT_IN_DATA;
use iowhy_model::source::Batch;
use iowhy_model::table::Table;
use iowhy_model::{Event, Name, Names, Operation, Origin, Process, Request, RequestPart, Status};
use rustc_hash::{FxHashMap, FxHashSet};

/// State that is kept between batches.
#[derive(Debug, Default)]
pub(super) struct ImportedRows {
    devices: FxHashMap<u32, DeviceRow>,
    processes: FxHashSet<u32>,
    /// The longest time from D to C, ns.
    longest: u64,
    /// The issue times of the requests that had not completed at the end, ns.
    open: Vec<u64>,
}

#[derive(Clone, Copy, Debug)]
struct DeviceRow {
    name: Name,
    queued: bool,
    issued: bool,
}

impl ImportedRows {
    pub(super) fn devices(&self) -> usize {
        self.devices.len()
    }

    pub(super) fn name_device(&mut self, number: u32, name: Name) {
        let row = DeviceRow { name, queued: false, issued: false };
        self.devices.entry(number).or_insert(row);
    }

    /// Whether bios were queued to it but no request was ever issued.
    pub(super) fn is_bio_based(&self, number: u32) -> bool {
        self.devices.get(&number).is_some_and(|device| device.queued && !device.issued)
    }

    /// Requests that had not completed by `end`, although they were issued longer before it than
    /// any other took: their completions are not in the capture.
    pub(super) fn unfinished(&self, end: u64) -> u64 {
        let overdue = |issued: &&u64| end.saturating_sub(**issued) > self.longest;
        self.open.iter().filter(overdue).count() as u64
    }

    pub(super) fn sink<'a>(
        &'a mut self,
        batch: &'a mut Batch,
        names: &'a mut Names,
        processes: &'a ProcessNames,
    ) -> RowSink<'a> {
        RowSink { rows: self, batch, names, processes }
    }
}

/// Puts the rows behind `before`, requests and parts, in order, the latest first: of requests that
/// never ended, those that may still be in flight come before those whose end was lost.
pub(super) fn latest_first(batch: &mut Batch, before: [usize; 2]) {
    let [requests, parts] = before;
    if let Some(requests) = batch.requests.get_mut(requests..) {
        requests.sort_by_key(|request| std::cmp::Reverse((request.start_ns, request.request_id)));
        let index: FxHashMap<u64, usize> =
            requests.iter().enumerate().map(|(index, row)| (row.request_id, index)).collect();
        if let Some(parts) = batch.parts.get_mut(parts..) {
            parts.sort_by_key(|part| index.get(&part.request_id).copied());
        }
    }
}

/// Puts rows into a batch.
pub(super) struct RowSink<'a> {
    rows: &'a mut ImportedRows,
    batch: &'a mut Batch,
    names: &'a mut Names,
    processes: &'a ProcessNames,
}

impl RowSink<'_> {
    fn process_name(&mut self, pid: u32) -> Option<Name> {
        let name = self.processes.known(pid)?;
        Some(self.names.intern(&String::from_utf8_lossy(name)))
    }

    fn device_name(&self, number: u32) -> Name {
        self.rows.devices.get(&number).map_or(Name::EMPTY, |device| device.name)
    }

    /// The process's row, when it is met for the first time.
    fn meet(&mut self, pid: u32, name: Name, time: u64) {
        const MAX_PROCESSES: usize = 128 << 10;
        if self.rows.processes.len() < MAX_PROCESSES && self.rows.processes.insert(pid) {
            self.batch.processes.push(Process {
                pid,
                tid: pid,
                start_ns: time,
                process: name,
                thread: name,
                executable: None,
                arguments: None,
                parent_pid: 0,
                user: None,
                ..Table::blank()
            });
        }
    }

    /// One row for each event.
    pub(super) fn events(&mut self, records: &RecordBatch) {
        for record in records.records.iter().filter(|record| !record.is_notify()) {
            let remap = match record.kind() {
                Some(Action::Remap) => records.remap(record),
                _ => None,
            };
            let number = match record.kind() {
                Some(Action::Split | Action::Unplug | Action::UnplugTimer) => {
                    records.number(record)
                }
                _ => remap.map(|remap| remap.from_sector),
            };
            let rwbs = self.names.intern(record.rwbs().as_str());
            let process = self.process_name(record.pid);
            self.batch.events.push(Event {
                time_ns: record.time,
                sequence: record.sequence.into(),
                cpu: record.cpu,
                // The categories of zones do not fit; their letters are in rwbs.
                action: (record.categories << 16) | u32::from(record.action),
                major: record.major(),
                minor: record.minor(),
                device: self.device_name(record.device),
                sector: record.sector,
                bytes: record.bytes.into(),
                rwbs,
                error: record.error.into(),
                pid: record.pid,
                process,
                payload: number,
                payload_major: remap.map(|remap| remap.from_device >> 20),
                payload_minor: remap.map(|remap| remap.from_device & 0xf_ffff),
            });
        }
    }

    fn part(&mut self, request: &Request) {
        let reason = self.names.intern(NOT_IN_DATA);
        let rests = self.names.intern("the submitter: blktrace does not see who dirtied a page");
        self.batch.parts.push(RequestPart {
            file_reason: Some(reason),
            owner_pid: request.pid,
            owner: request.process,
            owner_share: request.pid.map(|_| 1.0),
            owner_reason: Some(rests),
            ..RequestPart::blank(request.request_id, request.bytes)
        });
    }
}

impl PairSink for RowSink<'_> {
    fn queued(&mut self, _device: u32, record: &TraceRecord) {
        if let Some(device) = self.rows.devices.get_mut(&record.device) {
            device.queued = true;
        }
    }

    fn merged(&mut self, _device: u32, _bio: &Slot, _time: u64) {}

    fn issued(&mut self, _device: u32, record: &TraceRecord) {
        if let Some(device) = self.rows.devices.get_mut(&record.device) {
            device.issued = true;
        }
    }

    fn bio(&mut self, _device: u32, _bio: &Slot, _issued: u64, _completed: u64) {}

    fn done(&mut self, done: DoneRequest<'_>) {
        let slot = done.request;
        match (slot.issued, done.ending) {
            (NEVER, _) | (_, Ending::NeverLogged) => {}
            (issued, Ending::Open) => self.rows.open.push(issued),
            (issued, Ending::Completed) => {
                self.rows.longest = self.rows.longest.max(done.completed.saturating_sub(issued));
            }
        }
        let queues = self.rows.devices.get(&slot.number).is_some_and(|device| device.queued);
        let pid = submitter(slot, queues);
        let process = pid.and_then(|pid| self.process_name(pid));
        if let Some(name) = process {
            self.meet(slot.pid, name, slot.age());
        }
        let rwbs = self.names.intern(Rwbs::new(slot.categories, slot.bytes).as_str());
        let intervals = slot.intervals(done.completed);
        let request = Request {
            request_id: slot.id,
            parent_id: (slot.parent_id != 0).then_some(slot.parent_id),
            status: status(&done, queues),
            start_ns: slot.age().min(done.completed),
            q2g_ns: intervals[Interval::Q2g],
            g2i_ns: intervals[Interval::G2i],
            i2d_ns: intervals[Interval::I2d],
            g2d_ns: intervals[Interval::G2d],
            d2c_ns: intervals[Interval::D2c],
            q2c_ns: intervals[Interval::Q2c],
            requeues: slot.requeues.into(),
            merges: slot.merges,
            major: slot.number >> 20,
            minor: slot.number & 0xf_ffff,
            sector: slot.sector,
            bytes: slot.bytes.into(),
            operation: operation(slot),
            origin: origin(slot),
            error: (done.error != 0).then(|| error(done.error)),
            cpu: slot.cpu,
            pid,
            tid: pid,
            process,
            ..Request::blank(self.device_name(slot.number), rwbs)
        };
        self.part(&request);
        self.batch.requests.push(request);
    }

    fn other(&mut self, _device: u32, _batch: &RecordBatch, _record: &TraceRecord) {}
}

/// The thread that submitted it; `None` if only its end was seen, or if the kernel made the flush:
/// it was not queued, although other requests of its device are, or it was issued to the driver,
/// which never gets a requested flush, only the command that the kernel makes of it.
fn submitter(slot: &Slot, queues: bool) -> Option<u32> {
    let is_flush = slot.bytes == 0 && slot.categories & c::PC == 0;
    let is_made = is_flush && slot.queued == NEVER && (queues || slot.issued != NEVER);
    (slot.age() != NEVER && !is_made).then_some(slot.pid)
}

/// Returns the status. A request without Q began before the capture only if the capture has Qs at
/// all, and if it is neither a flush nor a command, which the kernel makes without a Q.
fn status(done: &DoneRequest<'_>, queues: bool) -> Status {
    let made = done.request.bytes == 0 || done.request.categories & c::PC != 0;
    match () {
        () if done.ending == Ending::Open => Status::InFlight,
        () if done.error != 0 => Status::Error,
        () if done.request.queued == NEVER && queues && !made => Status::BegunBefore,
        () => Status::Complete,
    }
}

fn operation(slot: &Slot) -> Operation {
    const ZONES: u32 = c::ZONE_RESET
        | c::ZONE_RESET_ALL
        | c::ZONE_FINISH
        | c::ZONE_OPEN
        | c::ZONE_CLOSE
        | c::ZONE_APPEND;
    match slot.categories {
        found if found & c::PC != 0 => Operation::Driver,
        found if found & ZONES != 0 => Operation::Zone,
        found if found & c::DISCARD != 0 => Operation::Discard,
        _ if slot.bytes == 0 => Operation::Flush,
        found if found & c::WRITE_ZEROES != 0 => Operation::WriteZeroes,
        found if found & c::WRITE != 0 => Operation::Write,
        _ => Operation::Read,
    }
}

/// Returns the origin as far as the flags are certain.
fn origin(slot: &Slot) -> Origin {
    match slot.categories {
        found if found & c::PC != 0 => Origin::Passthrough,
        found if found & c::DISCARD != 0 => Origin::Discard,
        _ if slot.bytes == 0 => Origin::Flush,
        found if found & c::META != 0 => Origin::Metadata,
        found if found & c::AHEAD != 0 => Origin::Readahead,
        _ => Origin::Unknown,
    }
}

/// The negative error number: kernels have written both signs into an unsigned field.
fn error(error: u16) -> i32 {
    let signed = i32::from(error as i16);
    if signed > 0 { -signed } else { signed }
}
