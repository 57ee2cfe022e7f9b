//! A trace for Perfetto (<https://ui.perfetto.dev>, `trace_processor`).
//!
//! Each device's queue is a track; overlapping requests lie in lanes below it. A request is a slice
//! from Q to C with its stages inside; a flow leads from the thread that queued it over the part in
//! the device to its completion. A request that had not completed has no end.
//!
//! | where | what |
//! |---|---|
//! | [`proto`] | the messages, with their numbers |
//! | `lanes` | which lane is free |
//! | `events` | one request as packets |
//!
//! What does not belong here: reading traces.

mod events;
mod lanes;
#[allow(missing_docs, reason = "fields are Perfetto's own, documented there")]
pub mod proto;

use super::export::{Exported, Exporter};
use events::{RequestItem, TrackWord};
use iowhy_model::bounded_map::CappedMap;
use iowhy_model::sort_window::SortWindow;
use iowhy_model::source::Batch;
use iowhy_model::{Environment, Name, Names};
use lanes::Lanes;
use prost::Message;
use proto::{
    ClockReading, ClockSnapshot, MONOTONIC, NEEDS_STATE, ProcessDescriptor, REALTIME,
    STATE_CLEARED, ThreadDescriptor, Trace, TracePacket, TracePacketDefaults, TrackDescriptor,
};
use rustc_hash::FxHashSet;
use std::io::{self, Write};

/// Devices that get tracks; requests of others are left out and counted.
const MOST_DEVICES: usize = 1024;
/// Threads whose names and tracks are remembered; beyond, they are described anew, which is
/// allowed.
const MOST_THREADS: usize = 1 << 16;
/// All packets are of one sequence.
const SEQUENCE: u32 = 1;

/// Writes such a trace.
#[derive(Default, Debug)]
pub struct Perfetto {
    window: SortWindow<RequestItem>,
    devices: CappedMap<Name, (u32, Lanes), MOST_DEVICES>,
    threads: CappedMap<(u32, u32), Name, MOST_THREADS>,
    described: FxHashSet<u64>,
    packets: Trace,
    bytes: Vec<u8>,
    exported: Exported,
}

/// Identifies a track: what kind it is in the upper two bits.
mod track {
    pub fn queue(device: u32) -> u64 {
        (u64::from(device) + 1) << 32
    }

    pub fn lane(device: u32, lane: u32) -> u64 {
        1 << 62 | queue(device) | u64::from(lane)
    }

    pub fn process(pid: u32) -> u64 {
        2 << 62 | u64::from(pid)
    }

    pub fn thread(pid: u32, tid: u32) -> u64 {
        3 << 62 | u64::from(pid & 0x3fff_ffff) << 32 | u64::from(tid)
    }
}

impl Perfetto {
    fn packet(&mut self, packet: TracePacket) {
        let trusted_packet_sequence_id = SEQUENCE;
        self.packets.packet.push(TracePacket { trusted_packet_sequence_id, ..packet });
    }

    fn describe(&mut self, track: TrackDescriptor) {
        self.packet(TracePacket { track_descriptor: Some(track), ..TracePacket::default() });
    }

    fn put(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.bytes.clear();
        // A vector takes any number of bytes, so encoding into it cannot fail.
        self.packets.encode(&mut self.bytes).map_err(io::Error::other)?;
        self.packets.packet.clear();
        out.write_all(&self.bytes)
    }

    fn write(
        &mut self,
        (start, item): (u64, RequestItem),
        names: &Names,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let end = item.end_ns(start);
        let Some(lane) = self.lane(item.device, start, end.unwrap_or(u64::MAX), names) else {
            let meaning = "requests of more devices, or more at once, than there are tracks for";
            self.exported.left_out.add("tracks", 1, meaning, true);
            return Ok(());
        };
        let thread = item.thread.map(|(pid, tid)| self.thread(pid, tid, item.process, names));
        for event in item.events(start, lane, thread, names) {
            let flags = NEEDS_STATE;
            self.packet(TracePacket { sequence_flags: flags, ..event });
        }
        self.exported.rows += 1;
        self.put(out)
    }

    /// The track of a free lane of the device.
    fn lane(&mut self, device: Name, start: u64, end: u64, names: &Names) -> Option<u64> {
        let count = self.devices.len() as u32;
        let (number, lanes) = self.devices.or_insert_with(device, || (count, Lanes::default()))?;
        let (number, taken) = (*number, lanes.take(start, end));
        let (lane, new) = taken?;
        let (queue, uuid) = (track::queue(number), track::lane(number, lane));
        if new && lane == 0 {
            let name = Some(format!("{} queue", names.get(device)));
            let description = Some("Requests from queueing (Q) to completion (C)".to_owned());
            let track = TrackDescriptor { uuid: queue, name, description, ..Default::default() };
            self.describe(track);
        }
        if new {
            // Lanes of one name are shown as one track by newer versions of the user interface.
            let (name, parent_uuid) = (Some("requests".to_owned()), Some(queue));
            self.describe(TrackDescriptor { uuid, name, parent_uuid, ..Default::default() });
        }
        Some(uuid)
    }

    fn thread(&mut self, pid: u32, tid: u32, process: Option<Name>, names: &Names) -> u64 {
        let (group, uuid) = (track::process(pid), track::thread(pid, tid));
        if self.described.len() >= MOST_THREADS {
            self.described.clear();
        }
        if self.described.insert(group) {
            let process_name = process.map_or("", |name| names.get(name)).to_owned();
            let process = Some(ProcessDescriptor { pid: pid as i32, process_name });
            self.describe(TrackDescriptor { uuid: group, process, ..Default::default() });
        }
        if self.described.insert(uuid) {
            let thread_name = self.threads.get(&(pid, tid)).map(|name| names.get(*name).to_owned());
            let (pid, tid) = (pid as i32, i64::from(tid));
            let thread = Some(ThreadDescriptor { pid, tid, thread_name });
            let parent_uuid = Some(group);
            self.describe(TrackDescriptor { uuid, thread, parent_uuid, ..Default::default() });
        }
        uuid
    }
}

impl Exporter for Perfetto {
    fn begin(&mut self, environment: &Environment, out: &mut dyn Write) -> io::Result<()> {
        let monotonic = environment.start_ns;
        let realtime = monotonic.saturating_add_signed(environment.realtime_offset_ns);
        let clocks = [(MONOTONIC, monotonic), (REALTIME, realtime)]
            .map(|(clock_id, timestamp)| ClockReading { clock_id, timestamp });
        self.packet(TracePacket {
            clock_snapshot: Some(ClockSnapshot {
                clocks: clocks.into(),
                primary_trace_clock: MONOTONIC,
            }),
            interned_data: Some(TrackWord::all()),
            sequence_flags: STATE_CLEARED,
            trace_packet_defaults: Some(TracePacketDefaults { timestamp_clock_id: MONOTONIC }),
            ..TracePacket::default()
        });
        self.put(out)
    }

    fn take(&mut self, batch: &Batch, names: &Names, out: &mut dyn Write) -> io::Result<()> {
        for process in &batch.processes {
            self.threads.insert((process.pid, process.tid), process.thread);
        }
        for (request, parts) in batch.requests_with_parts() {
            let row = self.window.push(request.start_ns, RequestItem::new(request, parts));
            if let Some(row) = row {
                self.write(row, names, out)?;
            }
        }
        Ok(())
    }

    fn finish(&mut self, names: &Names, out: &mut dyn Write) -> io::Result<Exported> {
        while let Some(row) = self.window.pop() {
            self.write(row, names, out)?;
        }
        Ok(std::mem::take(&mut self.exported))
    }
}
