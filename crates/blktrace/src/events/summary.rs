//! blkparse's figures per CPU and device. Everything that is no write counts as a read, flushes
//! included; kilobytes are whole ones of each event with the rest carried; above a million of a
//! unit it is divided by a thousand.

use crate::trace::TraceRecord;
use crate::trace::action::{Action, category};
use iowhy_model::compact_sort::CompactSort;
use std::io::{self, Write};

/// A number of events and their bytes, for reads and writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventVolume {
    /// Events.
    pub count: [u64; 2],
    /// Whole KiB of each event, summed.
    pub kib: [u64; 2],
    /// The bytes of each event beyond whole KiB, summed.
    pub rest: [u64; 2],
}

impl EventVolume {
    #[inline]
    fn add(&mut self, write: usize, bytes: u32) {
        self.count[write] += 1;
        self.kib[write] = self.kib[write].wrapping_add(u64::from(bytes >> 10));
        self.rest[write] = self.rest[write].wrapping_add(u64::from(bytes & 1023));
    }

    /// Subtracts the bytes of requeued requests, which stay counted.
    fn take_back(&mut self, write: usize, bytes: u32) {
        self.kib[write] = self.kib[write].wrapping_sub(u64::from(bytes >> 10));
        self.rest[write] = self.rest[write].wrapping_sub(u64::from(bytes & 1023));
    }

    fn merge(&mut self, other: &EventVolume) {
        for write in 0..2 {
            self.count[write] += other.count[write];
            self.kib[write] = self.kib[write].wrapping_add(other.kib[write]);
            self.rest[write] = self.rest[write].wrapping_add(other.rest[write]);
        }
    }

    fn kilobytes(&self, write: usize) -> u64 {
        self.kib[write].wrapping_add(self.rest[write] >> 10)
    }
}

/// Figures of file-system requests or of commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Q.
    pub queued: EventVolume,
    /// D.
    pub issued: EventVolume,
    /// R.
    pub requeued: EventVolume,
    /// C.
    pub completed: EventVolume,
    /// M and F.
    pub merged: EventVolume,
}

impl Traffic {
    fn merge(&mut self, other: &Traffic) {
        self.queued.merge(&other.queued);
        self.issued.merge(&other.issued);
        self.requeued.merge(&other.requeued);
        self.completed.merge(&other.completed);
        self.merged.merge(&other.merged);
    }

    fn is_empty(&self) -> bool {
        *self == Traffic::default()
    }
}

/// Figures of one CPU or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuSummary {
    /// Events, shown or not.
    pub events: u64,
    /// Requests of file systems.
    pub data: Traffic,
    /// Pass-through commands.
    pub commands: Traffic,
    /// U.
    pub unplugs: u64,
    /// UT.
    pub timer_unplugs: u64,
}

/// Figures of one device, or of one name's files.
#[derive(Clone, Debug, Default)]
pub struct EventDeviceSummary {
    /// By CPU, in the order of their first events.
    pub cpus: Vec<(u32, CpuSummary)>,
    last_cpu: usize,
    /// Most reads and writes that were at the device at once.
    pub max_depth: [u32; 2],
    depth: [u32; 2],
    /// Events shown.
    pub events: u64,
    first: u64,
    last: u64,
}

/// Figures of a whole capture, by the capture's names or, of merged streams, by device.
#[derive(Clone, Debug, Default)]
pub struct EventSummary {
    /// Names of the capture, where each stands for a device.
    pub names: Vec<String>,
    devices: Vec<(u32, EventDeviceSummary)>,
    last: usize,
}

impl EventSummary {
    const MAX_DEVICES: usize = 4096;

    fn device(&mut self, record: &TraceRecord) -> Option<&mut EventDeviceSummary> {
        let key = if self.names.is_empty() { record.device } else { record.group.into() };
        if self.devices.get(self.last).is_none_or(|(known, _)| *known != key) {
            self.last = match self.devices.iter().position(|(known, _)| *known == key) {
                Some(at) => at,
                None if self.devices.len() >= Self::MAX_DEVICES => return None,
                None => {
                    self.devices.push((key, EventDeviceSummary::default()));
                    self.devices.len() - 1
                }
            };
        }
        self.devices.get_mut(self.last).map(|(_, device)| device)
    }

    /// Counts an event that ends the text.
    pub(super) fn see(&mut self, record: &TraceRecord) {
        if let Some(device) = self.device(record) {
            device.cpu(record.cpu).events += 1;
        }
    }

    /// Counts an event.
    #[inline]
    pub(super) fn handle(&mut self, record: &TraceRecord, shown: bool) {
        let Some(device) = self.device(record) else { return };
        device.last = record.time;
        let cpu = device.cpu(record.cpu);
        cpu.events += 1;
        if !shown {
            return;
        }
        if !record.is_notify() {
            cpu.count(record);
            device.count_depth(record);
        }
        if device.events == 0 {
            device.first = record.time;
        }
        device.events += 1;
    }

    /// Writes blkparse's summary.
    ///
    /// # Errors
    /// Fails if `out` cannot be written.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let silent = EventDeviceSummary::default();
        let mut devices: Vec<_> = self.devices.iter().map(|(key, d)| (*key, d)).collect();
        for group in 0..self.names.len() as u32 {
            if !devices.iter().any(|(key, _)| *key == group) {
                devices.push((group, &silent));
            }
        }
        if !self.names.is_empty() {
            devices.compact_sort_by_key(|(group, _)| *group);
        }
        for (index, (key, device)) in devices.into_iter().enumerate() {
            if index > 0 {
                writeln!(out)?;
            }
            let name = match self.names.get(key as usize) {
                Some(name) => name.clone(),
                None => format!("{},{}", key >> 20, key & 0xf_ffff),
            };
            device.write(&name, out)?;
        }
        Ok(())
    }
}

impl EventDeviceSummary {
    #[inline]
    fn cpu(&mut self, number: u32) -> &mut CpuSummary {
        if self.cpus.get(self.last_cpu).is_none_or(|(known, _)| *known != number) {
            let known = self.cpus.iter().position(|(known, _)| *known == number);
            self.last_cpu = known.unwrap_or_else(|| {
                self.cpus.push((number, CpuSummary::default()));
                self.cpus.len() - 1
            });
        }
        &mut self.cpus[self.last_cpu].1
    }

    fn count_depth(&mut self, record: &TraceRecord) {
        let write = usize::from(record.is_write());
        match record.kind() {
            Some(Action::Issue) => {
                self.depth[write] += 1;
                self.max_depth[write] = self.max_depth[write].max(self.depth[write]);
            }
            Some(Action::Complete | Action::Requeue) => {
                self.depth[write] = self.depth[write].saturating_sub(1);
            }
            _ => {}
        }
    }

    fn write(&self, name: &str, out: &mut dyn Write) -> io::Result<()> {
        let mut total = CpuSummary::default();
        let mut shown: Vec<_> = self.cpus.iter().collect();
        shown.compact_sort_by_key(|(number, _)| *number);
        for (number, cpu) in &shown {
            total.merge(cpu);
            writeln!(out, "CPU{number} ({name}):")?;
            cpu.write(Some(self.max_depth), out)?;
        }
        if shown.len() > 1 {
            writeln!(out, "\nTotal ({name}):")?;
            total.write(None, out)?;
        }
        let milliseconds = self.last.wrapping_sub(self.first) / 1_000_000;
        let completed = &total.data.completed;
        let rate = |write: usize| match milliseconds {
            0 => 0,
            _ => (1000 * completed.kib[write] + completed.rest[write]) / milliseconds,
        };
        writeln!(out, "\nThroughput (R/W): {}KiB/s / {}KiB/s", rate(0), rate(1))?;
        writeln!(out, "Events ({name}): {} entries", self.events)?;
        writeln!(out, "Skips: 0 forward (0 - {:5.1}%)", 0.0)
    }
}

impl CpuSummary {
    fn count(&mut self, record: &TraceRecord) {
        let write = usize::from(record.is_write());
        let command = record.categories & category::PC != 0;
        let traffic = if command { &mut self.commands } else { &mut self.data };
        match record.kind() {
            Some(Action::Queue) => traffic.queued.add(write, record.bytes),
            Some(Action::Issue) => traffic.issued.add(write, record.bytes),
            Some(Action::Requeue) => {
                traffic.requeued.add(write, record.bytes);
                traffic.issued.take_back(write, record.bytes);
            }
            Some(Action::Complete) => traffic.completed.add(write, record.bytes),
            Some(Action::BackMerge | Action::FrontMerge) if !command => {
                traffic.merged.add(write, record.bytes);
            }
            Some(Action::Unplug) if !command => self.unplugs += 1,
            Some(Action::UnplugTimer) if !command => self.timer_unplugs += 1,
            _ => {}
        }
    }

    fn merge(&mut self, other: &CpuSummary) {
        self.data.merge(&other.data);
        self.commands.merge(&other.commands);
        self.unplugs += other.unplugs;
        self.timer_unplugs += other.timer_unplugs;
    }

    fn write(&self, depth: Option<[u32; 2]>, out: &mut dyn Write) -> io::Result<()> {
        let data = &self.data;
        pair(out, ["Reads Queued:    ", "Writes Queued:    "], &data.queued)?;
        pair(out, ["Read Dispatches: ", "Write Dispatches: "], &data.issued)?;
        counts(out, ["Reads Requeued:  ", "Writes Requeued:  "], data.requeued.count)?;
        pair(out, ["Reads Completed: ", "Writes Completed: "], &data.completed)?;
        pair(out, ["Read Merges:     ", "Write Merges:     "], &data.merged)?;
        if let Some([reads, writes]) = depth {
            writeln!(out, " Read depth:      {reads:8}{:8}\t Write depth:      {writes:8}", ' ')?;
        }
        if !self.commands.is_empty() {
            let commands = &self.commands;
            pair(out, ["PC Reads Queued: ", "PC Writes Queued: "], &commands.queued)?;
            pair(out, ["PC Read Disp.:   ", "PC Write Disp.:   "], &commands.issued)?;
            counts(out, ["PC Reads Req.:   ", "PC Writes Req.:   "], commands.requeued.count)?;
            counts(out, ["PC Reads Compl.: ", "PC Writes Compl.: "], commands.completed.count)?;
        }
        let (unplugs, timer) = (self.unplugs, self.timer_unplugs);
        writeln!(out, " IO unplugs:      {unplugs:8}{:8}\t Timer unplugs:    {timer:8}", ' ')
    }
}

fn pair(out: &mut dyn Write, titles: [&str; 2], volume: &EventVolume) -> io::Result<()> {
    for (write, title) in titles.iter().enumerate() {
        let (count, size) = (scaled(volume.count[write], 0), scaled(volume.kilobytes(write), 1));
        write!(out, " {title}{count}, {size}iB{}", if write == 0 { "\t" } else { "\n" })?;
    }
    Ok(())
}

fn counts(out: &mut dyn Write, titles: [&str; 2], [reads, writes]: [u64; 2]) -> io::Result<()> {
    let [first, second] = titles;
    writeln!(out, " {first}{}\t\t {second}{}", scaled(reads, 0), scaled(writes, 0))
}

/// A number in eight columns with its prefix: thousands of KiB are called MiB.
fn scaled(mut number: u64, mut unit: usize) -> String {
    const PREFIXES: [&str; 5] = ["", "K", "M", "G", "P"];
    while number > 1_000_000 && unit < PREFIXES.len() - 1 {
        unit += 1;
        number /= 1000;
    }
    format!("{number:8}{}", PREFIXES.get(unit).copied().unwrap_or(""))
}
