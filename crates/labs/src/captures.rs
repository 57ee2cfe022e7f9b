//! A deterministic generator of blktrace captures: a small simulation of devices and CPUs that
//! writes the records of a kernel. The same settings give the same bytes.
//!
//! It defines blktrace's numbers separately, so that a defect of iowhy's shows.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashSet};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Categories of events (linux/blktrace_api.h).
mod c {
    pub const READ: u32 = 1;
    pub const WRITE: u32 = 1 << 1;
    pub const FLUSH: u32 = 1 << 2;
    pub const SYNC: u32 = 1 << 3;
    pub const QUEUE: u32 = 1 << 4;
    pub const REQUEUE: u32 = 1 << 5;
    pub const ISSUE: u32 = 1 << 6;
    pub const COMPLETE: u32 = 1 << 7;
    pub const FS: u32 = 1 << 8;
    pub const PC: u32 = 1 << 9;
    pub const NOTIFY: u32 = 1 << 10;
    pub const META: u32 = 1 << 12;
    pub const DISCARD: u32 = 1 << 13;
}

/// Numbers of notify records.
mod notify {
    pub const PROCESS: u32 = 0;
    pub const TIMESTAMP: u32 = 1;
    pub const MESSAGE: u32 = 2;
}

/// Numbers of actions.
#[derive(Clone, Copy)]
enum ActionNumber {
    Queue = 1,
    BackMerge = 2,
    FrontMerge = 3,
    GetRequest = 4,
    Requeue = 6,
    Issue = 7,
    Complete = 8,
    Plug = 9,
    Unplug = 10,
    UnplugTimer = 11,
    Insert = 12,
    Split = 13,
    Remap = 15,
}

/// The events of a capture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mix {
    /// Q G I D C and nothing else.
    Plain,
    /// Remaps, merges, splits, requeues, flushes, discards, plugs, messages.
    Rich,
    /// As `Rich` without splits, which btt 1.2.0 pairs wrongly.
    Unsplit,
    /// D and C only, as `blktrace -a issue -a complete` gives.
    IssueOnly,
    /// Q and C only, as a bio-based device gives.
    BioOnly,
}

/// The settings of a capture.
#[derive(Clone, Copy, Debug)]
pub struct GeneratorSettings {
    /// The approximate number of events.
    pub events: u64,
    /// Devices, each with files of its own.
    pub devices: u32,
    /// CPUs.
    pub cpus: u32,
    /// The mix of events.
    pub mix: Mix,
    /// The protocol: 7 or 8.
    pub version: u8,
    /// The byte order.
    pub big_endian: bool,
    /// The seed of the random numbers: each seed gives another capture.
    pub seed: u64,
}

impl Default for GeneratorSettings {
    fn default() -> GeneratorSettings {
        let mix = Mix::Rich;
        GeneratorSettings {
            events: 20_000,
            devices: 3,
            cpus: 4,
            mix,
            version: 7,
            big_endian: false,
            seed: 1,
        }
    }
}

/// xorshift64*: enough for a workload, and the same everywhere.
pub(crate) struct Random(u64);

impl Random {
    /// Starts the sequence of a seed, which is not 0.
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next one, below 2^48.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct PendingEvent {
    time: u64,
    number: u64,
    cpu: u32,
    device: u32,
    pid: u32,
    action: u32,
    sector: u64,
    bytes: u32,
    payload: Vec<u8>,
}

/// One request in flight: its state and its events so far.
struct GeneratedRequest {
    time: u64,
    cpu: u32,
    device: u32,
    pid: u32,
    flags: u32,
    sector: u64,
    bytes: u32,
}

struct Generator {
    settings: GeneratorSettings,
    random: Random,
    pending: BinaryHeap<Reverse<PendingEvent>>,
    number: u64,
    slot: u64,
    written: u64,
    sequences: BTreeMap<(u32, u32), u32>,
    named: HashSet<(u32, u32)>,
    outputs: BTreeMap<(u32, u32), BufWriter<File>>,
    bytes: Vec<u8>,
}

/// The name of device number `index`, as blktrace would call its files.
pub fn device_name(index: u32) -> String {
    format!("gen{index}")
}

fn device_number(index: u32) -> u32 {
    (8 << 20) | (index * 16)
}

/// Writes a capture into `folder`; returns how many records it has.
pub fn generate(folder: &Path, settings: GeneratorSettings) -> io::Result<u64> {
    let mut outputs = BTreeMap::new();
    for device in 0..settings.devices {
        for cpu in 0..settings.cpus {
            let path = folder.join(format!("{}.blktrace.{cpu}", device_name(device)));
            outputs.insert((device, cpu), BufWriter::with_capacity(64 << 10, File::create(path)?));
        }
    }
    let mut generator = Generator {
        settings,
        random: Random::new(settings.seed | 1 << 40),
        pending: BinaryHeap::new(),
        number: 0,
        slot: 0,
        written: 0,
        sequences: BTreeMap::new(),
        named: HashSet::new(),
        outputs,
        bytes: Vec::new(),
    };
    generator.run()?;
    Ok(generator.written)
}

impl Generator {
    fn run(&mut self) -> io::Result<()> {
        let mut now = 5_000_000_000_000;
        while self.number < self.settings.events {
            now += 500 + self.random.below(9_000);
            if self.random.below(5_000) == 0 {
                now += 150_000_000;
            }
            self.start(now);
            self.write_until(now)?;
        }
        self.write_until(u64::MAX)?;
        self.outputs.values_mut().try_for_each(Write::flush)
    }

    fn start(&mut self, time: u64) {
        let device = self.random.below(self.settings.devices.into()) as u32;
        let cpu = self.random.below(self.settings.cpus.into()) as u32;
        let pid = 100 + cpu * 10 + self.random.below(6) as u32;
        let write = self.random.below(3) == 0;
        let flags = if write { c::WRITE } else { c::READ }
            | if self.random.below(4) == 0 { c::SYNC } else { 0 }
            | if self.random.below(16) == 0 { c::META } else { 0 };
        let bytes = 512 << self.random.below(8);
        let sector = self.place();
        let request = GeneratedRequest { time, cpu, device, pid, flags, sector, bytes };
        match self.settings.mix {
            Mix::Plain => self.plain(&request),
            Mix::Rich | Mix::Unsplit => self.rich(request),
            Mix::IssueOnly => self.issue_and_complete(&request),
            Mix::BioOnly => self.bio(&request),
        }
    }

    /// A sector that no other request touches, far or near.
    fn place(&mut self) -> u64 {
        self.slot += 1;
        let slot = if self.slot.is_multiple_of(3) { self.slot } else { self.slot * 0x9e37_79b1 };
        (slot % (1 << 26)) * 16_384 + self.random.below(4) * 1024 + 2048
    }

    fn emit(
        &mut self,
        at: &GeneratedRequest,
        after: u64,
        action: ActionNumber,
        extra: u32,
        payload: &[u8],
    ) {
        self.number += 1;
        self.pending.push(Reverse(PendingEvent {
            time: at.time + after,
            number: self.number,
            cpu: at.cpu,
            device: at.device,
            pid: at.pid,
            action: ((at.flags | extra | c::FS) << 16) | action as u32,
            sector: at.sector,
            bytes: at.bytes,
            payload: payload.to_vec(),
        }));
    }

    fn plain(&mut self, at: &GeneratedRequest) {
        self.emit(at, 0, ActionNumber::Queue, c::QUEUE, &[]);
        let get = 200 + self.random.below(900);
        self.emit(at, get, ActionNumber::GetRequest, c::QUEUE, &[]);
        let insert = get + 300 + self.random.below(2_000);
        self.emit(at, insert, ActionNumber::Insert, c::QUEUE, &[]);
        let issue = insert + 400 + self.random.below(30_000);
        self.issue_from(at, issue);
    }

    /// D and C from `issue` on, the completion now and then on another CPU.
    fn issue_from(&mut self, at: &GeneratedRequest, issue: u64) {
        self.emit(at, issue, ActionNumber::Issue, c::ISSUE, &[]);
        let service = 20_000 + self.random.below(200_000);
        self.complete(at, issue + service);
    }

    fn complete(&mut self, at: &GeneratedRequest, after: u64) {
        let cpu = if self.random.below(2) == 0 { at.cpu } else { 0 };
        let done = GeneratedRequest { cpu, pid: 0, ..*at };
        self.emit(&done, after, ActionNumber::Complete, c::COMPLETE, &[]);
    }

    fn issue_and_complete(&mut self, at: &GeneratedRequest) {
        let delay = self.random.below(1_000);
        self.issue_from(at, delay);
    }

    fn bio(&mut self, at: &GeneratedRequest) {
        self.emit(at, 0, ActionNumber::Queue, c::QUEUE, &[]);
        let service = 30_000 + self.random.below(100_000);
        self.complete(at, service);
    }

    fn rich(&mut self, at: GeneratedRequest) {
        if self.random.below(3) == 0 {
            self.remap(&at);
        }
        match self.random.below(100) {
            0..=49 => self.plain(&at),
            50..=67 => self.merged(&at),
            68..=71 => self.front_merged(&at),
            72..=77 if self.settings.mix == Mix::Rich => self.split(&at),
            78..=81 => self.requeued(&at),
            82..=85 => self.flush(&at),
            86..=88 => {
                self.plain(&GeneratedRequest { flags: c::WRITE | c::DISCARD, bytes: 1 << 20, ..at })
            }
            89..=93 => self.direct(&at),
            94..=95 => self.partial(&at),
            96 => self.message(&at),
            97 => self.command(&at),
            _ => self.plugged(&at),
        }
    }

    fn remap(&mut self, at: &GeneratedRequest) {
        let device = device_number(at.device);
        let mut payload = (device + 1).to_be_bytes().to_vec();
        payload.extend(device.to_be_bytes());
        payload.extend((at.sector - 2048).to_be_bytes());
        let before = GeneratedRequest { time: at.time - 100, ..*at };
        self.emit(&before, 0, ActionNumber::Remap, c::QUEUE, &payload);
    }

    fn merged(&mut self, first: &GeneratedRequest) {
        let more = 1 + self.random.below(4) as u32;
        self.emit(first, 0, ActionNumber::Queue, c::QUEUE, &[]);
        self.emit(first, 300, ActionNumber::GetRequest, c::QUEUE, &[]);
        self.emit(first, 400, ActionNumber::Plug, 0, &[]);
        let mut sector = first.sector + u64::from(first.bytes >> 9);
        let mut time = 700;
        for _ in 0..more {
            let next = GeneratedRequest { sector, ..*first };
            self.emit(&next, time, ActionNumber::Queue, c::QUEUE, &[]);
            self.emit(&next, time + 150, ActionNumber::BackMerge, c::QUEUE, &[]);
            sector += u64::from(first.bytes >> 9);
            time += 400;
        }
        let whole = GeneratedRequest { bytes: first.bytes * (more + 1), ..*first };
        self.emit(first, time + 100, ActionNumber::Unplug, 0, &1u64.to_be_bytes());
        self.emit(&whole, time + 300, ActionNumber::Insert, c::QUEUE, &[]);
        self.issue_from(&whole, time + 900);
    }

    fn front_merged(&mut self, second: &GeneratedRequest) {
        let sectors = u64::from(second.bytes >> 9);
        let first = GeneratedRequest { sector: second.sector - sectors, ..*second };
        self.emit(second, 0, ActionNumber::Queue, c::QUEUE, &[]);
        self.emit(second, 300, ActionNumber::GetRequest, c::QUEUE, &[]);
        self.emit(&first, 900, ActionNumber::Queue, c::QUEUE, &[]);
        self.emit(&first, 1_100, ActionNumber::FrontMerge, c::QUEUE, &[]);
        let whole = GeneratedRequest { bytes: second.bytes * 2, ..first };
        self.emit(&whole, 1_600, ActionNumber::Insert, c::QUEUE, &[]);
        self.issue_from(&whole, 2_500);
    }

    fn split(&mut self, at: &GeneratedRequest) {
        let whole = GeneratedRequest { bytes: 1 << 20, ..*at };
        self.emit(&whole, 0, ActionNumber::Queue, c::QUEUE, &[]);
        let new = at.sector + 1344;
        self.emit(&whole, 250, ActionNumber::Split, 0, &new.to_be_bytes());
        let parts = [
            GeneratedRequest { bytes: 1344 << 9, ..whole },
            GeneratedRequest { sector: new, bytes: (2048 - 1344) << 9, ..whole },
        ];
        for (index, part) in parts.iter().enumerate() {
            let start = 400 + 2_000 * index as u64;
            self.emit(part, start, ActionNumber::GetRequest, c::QUEUE, &[]);
            self.emit(part, start + 400, ActionNumber::Insert, c::QUEUE, &[]);
            self.issue_from(part, start + 900);
        }
    }

    fn requeued(&mut self, at: &GeneratedRequest) {
        self.emit(at, 0, ActionNumber::Queue, c::QUEUE, &[]);
        self.emit(at, 300, ActionNumber::GetRequest, c::QUEUE, &[]);
        self.emit(at, 700, ActionNumber::Insert, c::QUEUE, &[]);
        self.emit(at, 1_200, ActionNumber::Issue, c::ISSUE, &[]);
        self.emit(at, 9_000, ActionNumber::Requeue, c::REQUEUE, &[]);
        self.emit(at, 9_500, ActionNumber::Insert, c::QUEUE, &[]);
        self.issue_from(at, 12_000);
    }

    fn flush(&mut self, at: &GeneratedRequest) {
        let flush = GeneratedRequest { flags: c::FLUSH, sector: 0, bytes: 0, ..*at };
        self.emit(&flush, 0, ActionNumber::Queue, c::QUEUE, &[]);
        self.emit(&flush, 300, ActionNumber::GetRequest, c::QUEUE, &[]);
        self.emit(&flush, 900, ActionNumber::Issue, c::ISSUE, &[]);
        let service = 300_000 + self.random.below(900_000);
        self.complete(&flush, service);
    }

    /// Issued without going through the scheduler.
    fn direct(&mut self, at: &GeneratedRequest) {
        self.emit(at, 0, ActionNumber::Queue, c::QUEUE, &[]);
        self.emit(at, 300, ActionNumber::GetRequest, c::QUEUE, &[]);
        self.issue_from(at, 700);
    }

    /// Completed in two steps.
    fn partial(&mut self, at: &GeneratedRequest) {
        let at = GeneratedRequest { bytes: at.bytes.max(4096), ..*at };
        self.emit(&at, 0, ActionNumber::Queue, c::QUEUE, &[]);
        self.emit(&at, 300, ActionNumber::GetRequest, c::QUEUE, &[]);
        self.emit(&at, 600, ActionNumber::Insert, c::QUEUE, &[]);
        self.emit(&at, 900, ActionNumber::Issue, c::ISSUE, &[]);
        let half = GeneratedRequest { bytes: at.bytes / 2, ..at };
        self.complete(&half, 40_000);
        let rest = GeneratedRequest { sector: half.sector + u64::from(half.bytes >> 9), ..half };
        self.complete(&rest, 70_000);
    }

    fn message(&mut self, at: &GeneratedRequest) {
        self.number += 1;
        self.pending.push(Reverse(PendingEvent {
            time: at.time,
            number: self.number,
            cpu: at.cpu,
            device: at.device,
            pid: at.pid,
            action: (c::NOTIFY << 16) | notify::MESSAGE,
            sector: 0,
            bytes: 0,
            payload: format!("bfq{} insert_request {}", at.pid, at.sector).into_bytes(),
        }));
    }

    /// A pass-through command with its command block.
    fn command(&mut self, at: &GeneratedRequest) {
        let at = GeneratedRequest { flags: c::READ | c::PC, sector: 0, bytes: 36, ..*at };
        let block = [0x12, 1, 0x80, 0, 0x24, 0, 0, 0, 0, 0];
        self.emit(&at, 0, ActionNumber::Insert, c::QUEUE, &block);
        self.emit(&at, 500, ActionNumber::Issue, c::ISSUE, &block);
        self.emit(&at, 50_000, ActionNumber::Complete, c::COMPLETE, &block);
    }

    fn plugged(&mut self, at: &GeneratedRequest) {
        self.emit(at, 0, ActionNumber::Queue, c::QUEUE, &[]);
        self.emit(at, 300, ActionNumber::GetRequest, c::QUEUE, &[]);
        self.emit(at, 400, ActionNumber::Plug, 0, &[]);
        self.emit(at, 900, ActionNumber::UnplugTimer, 0, &3u64.to_be_bytes());
        self.emit(at, 1_000, ActionNumber::Unplug, 0, &2u64.to_be_bytes());
        self.emit(at, 1_100, ActionNumber::Insert, c::QUEUE, &[]);
        self.issue_from(at, 1_500);
    }

    /// Writes the events before `limit`.
    fn write_until(&mut self, limit: u64) -> io::Result<()> {
        while let Some(Reverse(next)) = self.pending.peek()
            && next.time < limit
            && let Some(Reverse(event)) = self.pending.pop()
        {
            if self.named.insert((event.device, 0)) {
                let mut clock = 1_700_000_000u32.to_le_bytes().to_vec();
                clock.extend(5_000_000u32.to_le_bytes());
                self.note(&event, notify::TIMESTAMP, &clock)?;
            }
            if event.pid != 0 && self.named.insert((event.device, event.pid)) {
                let mut name = format!("task/{}", event.pid % 10).into_bytes();
                name.resize(16, 0);
                self.note(&event, notify::PROCESS, &name)?;
            }
            if event.action >> 16 == c::NOTIFY {
                self.note(&event, notify::MESSAGE, &event.payload)?;
                continue;
            }
            let sequence = self.sequences.entry((event.device, event.cpu)).or_insert(0);
            *sequence += 1;
            let sequence = *sequence;
            self.write(&event, sequence, event.action, &event.payload)?;
        }
        Ok(())
    }

    fn note(&mut self, event: &PendingEvent, action: u32, payload: &[u8]) -> io::Result<()> {
        self.write(event, 0, (c::NOTIFY << 16) | action, payload)
    }

    fn write(
        &mut self,
        event: &PendingEvent,
        sequence: u32,
        action: u32,
        payload: &[u8],
    ) -> io::Result<()> {
        self.encode(event, sequence, action, payload);
        self.written += 1;
        match self.outputs.get_mut(&(event.device, event.cpu)) {
            Some(output) => output.write_all(&self.bytes),
            None => Ok(()),
        }
    }

    /// A record of protocol 7 or 8 in the given byte order.
    fn encode(&mut self, event: &PendingEvent, sequence: u32, action: u32, payload: &[u8]) {
        let GeneratorSettings { version, big_endian: big, .. } = self.settings;
        let out = &mut self.bytes;
        out.clear();
        // All words are given little-endian.
        let mut put = |word: &[u8]| match big {
            true => out.extend(word.iter().rev()),
            false => out.extend_from_slice(word),
        };
        put(&(0x6561_7400 | u32::from(version)).to_le_bytes());
        put(&sequence.to_le_bytes());
        put(&event.time.to_le_bytes());
        put(&event.sector.to_le_bytes());
        put(&event.bytes.to_le_bytes());
        if version == 7 {
            put(&action.to_le_bytes());
            put(&event.pid.to_le_bytes());
        } else {
            put(&event.pid.to_le_bytes());
            put(&u64::from(action).to_le_bytes());
        }
        put(&device_number(event.device).to_le_bytes());
        put(&event.cpu.to_le_bytes());
        put(&0u16.to_le_bytes());
        put(&(payload.len() as u16).to_le_bytes());
        if version != 7 {
            put(&[0; 12]);
        }
        self.bytes.extend_from_slice(payload);
    }
}
