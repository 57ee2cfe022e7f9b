//! What the requests of a capture amount to: stages with percentiles per device, overhead per
//! process, merges, plugs, seeks and active periods.
//!
//! A request's stages add up to its Q2C. Figures of bios stand beside those of requests, because
//! btt counts bios: a request of 32 bios gives it 32 equal samples.

mod requests;

use super::btt::figures::{Average, Live};
use super::pairing::{Done, MAX_DEVICES, OTHER_DEVICES, Pairer, Sink, Unmatched};
use super::slots::{NEVER, Slot};
use crate::formats::blktrace::action::{Action, category, notify};
use crate::formats::blktrace::{Batch, Record};
use hdrhistogram::Histogram;
use rustc_hash::FxHashMap;

/// A stage of a request's or bio's way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// From one Q of a device to the next.
    Q2q,
    /// Requests: from the earliest Q to G: limits, tags.
    Q2g,
    /// Requests: from G to I.
    G2i,
    /// Requests: from I to the last D: the scheduler.
    I2d,
    /// Requests without I: from G to the last D: plug and dispatch.
    G2d,
    /// Requests: from the last D to C: the device.
    D2c,
    /// Requests: from the earliest Q to C.
    Q2c,
    /// Bios: from Q to their merge into a request.
    Q2m,
    /// Bios: from the last D to C.
    BioD2c,
    /// Bios: from Q to C.
    BioQ2c,
}

impl Stage {
    /// All of them.
    pub const ALL: [Stage; 10] = [
        Stage::Q2q,
        Stage::Q2g,
        Stage::G2i,
        Stage::I2d,
        Stage::G2d,
        Stage::D2c,
        Stage::Q2c,
        Stage::Q2m,
        Stage::BioD2c,
        Stage::BioQ2c,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Stage::Q2q => "Q2Q",
            Stage::Q2g => "Q2G",
            Stage::G2i => "G2I",
            Stage::I2d => "I2D",
            Stage::G2d => "G2D",
            Stage::D2c => "D2C",
            Stage::Q2c => "Q2C",
            Stage::Q2m => "Q2M",
            Stage::BioD2c => "D2C of bios",
            Stage::BioQ2c => "Q2C of bios",
        }
    }
}

/// One stage's samples.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Number, smallest, largest, sum; exact.
    pub average: Average,
    /// For percentiles, within 1 %; absent beyond [`MAX_HISTOGRAMS`] devices.
    histogram: Option<Box<Histogram<u32>>>,
}

/// Devices whose percentiles are kept apart.
pub const MAX_HISTOGRAMS: usize = 64;
/// The longest time that a histogram tells apart: an hour.
const LONGEST: u64 = 3_600_000_000_000;

impl Measured {
    #[inline]
    fn add(&mut self, value: u64) {
        self.average.add(value);
        if let Some(histogram) = &mut self.histogram {
            histogram.saturating_record(value);
        }
    }

    fn with_histogram() -> Measured {
        let histogram = Histogram::new_with_bounds(1, LONGEST, 2).ok().map(Box::new);
        Measured { average: Average::default(), histogram }
    }

    /// The value below which `percent` of the samples lie, ns.
    pub fn percentile(&self, percent: f64) -> Option<u64> {
        let histogram = self.histogram.as_ref().filter(|histogram| !histogram.is_empty())?;
        let value = histogram.value_at_percentile(percent);
        Some(value.clamp(self.average.min, self.average.max))
    }

    fn merge(&mut self, other: &Measured) {
        self.average.merge(&other.average);
        if let (Some(own), Some(other)) = (&mut self.histogram, &other.histogram) {
            // Both have the same bounds, so nothing can be out of range.
            let _ = own.add(&**other);
        }
    }
}

/// One [`Measured`] per stage.
#[derive(Clone, Debug)]
pub struct StageSet([Measured; Stage::ALL.len()]);

impl StageSet {
    fn new(histograms: bool) -> StageSet {
        // Bios are counted beside requests; their percentiles hardly ever differ.
        let wanted = |index: usize| histograms && index < Stage::BioD2c as usize;
        StageSet(std::array::from_fn(|index| match wanted(index) {
            true => Measured::with_histogram(),
            false => Measured::default(),
        }))
    }

    /// The samples of `stage`.
    #[inline]
    pub fn get(&self, stage: Stage) -> &Measured {
        &self.0[stage as usize]
    }

    #[inline]
    fn add(&mut self, stage: Stage, value: u64) {
        self.0[stage as usize].add(value);
    }

    /// Adds the samples of `other`.
    pub fn merge(&mut self, other: &StageSet) {
        self.0.iter_mut().zip(&other.0).for_each(|(own, other)| own.merge(other));
    }
}

/// Distances between successive ranges, in sectors.
#[derive(Clone, Debug, Default)]
pub struct Distances {
    last: Option<(u64, u64)>,
    /// How many ranges began where the one before ended, or touched it.
    pub near: u64,
    /// Absolute distances of the others.
    pub far: Measured,
}

impl Distances {
    #[inline]
    fn add(&mut self, start: u64, end: u64) {
        if let Some((last_start, last_end)) = self.last.replace((start, end)) {
            if start <= last_end && end >= last_start {
                self.near += 1;
            } else {
                self.far.add(if start > last_end { start - last_end } else { last_start - start });
            }
        }
    }

    /// The median distance: 0 where at least half of the ranges touch.
    pub fn median(&self) -> u64 {
        let all = self.near + self.far.average.count;
        if self.near * 2 >= all {
            return 0;
        }
        let share = (all as f64 / 2.0 - self.near as f64) / self.far.average.count as f64;
        self.far.percentile(100.0 * share).unwrap_or(0)
    }
}

/// Reads or writes of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Volume {
    /// Requests that completed.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Requests that completed with an error.
    pub errors: u64,
}

/// Plug periods of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plugs {
    since: Option<u64>,
    /// Periods that ended.
    pub count: u64,
    /// Of these, by a timer or the scheduler.
    pub timer: u64,
    /// Time plugged, ns.
    pub time: u64,
    /// Requests released.
    pub requests: u64,
}

/// What is known of a device.
#[derive(Clone, Debug)]
pub struct DeviceStages {
    /// `major << 20 | minor`, or [`OTHER_DEVICES`].
    pub number: u32,
    /// Its stages.
    pub stages: StageSet,
    /// Reads that completed.
    pub reads: Volume,
    /// Writes, discards and zone commands that completed.
    pub writes: Volume,
    /// Flushes that completed.
    pub flushes: Volume,
    /// Bios queued.
    pub queued: u64,
    /// Requests issued, again after a requeue too.
    pub issued: u64,
    /// Bios merged into requests.
    pub merged: u64,
    /// Requests given back by the driver.
    pub requeues: u64,
    /// Plug periods.
    pub plugs: Plugs,
    /// From Q to Q.
    pub queue_seeks: Distances,
    /// From D to D.
    pub issue_seeks: Distances,
    /// When a request was at the device.
    pub live: Live,
    /// Its first event, ns.
    pub first: u64,
    /// Its last event, ns.
    pub last: u64,
}

/// What is known of a process: of the bios and requests that it queued.
#[derive(Clone, Debug, Default)]
pub struct ProcessStages {
    /// Number, smallest, largest, sum per stage.
    pub stages: [Average; Stage::ALL.len()],
    /// Bytes completed.
    pub bytes: u64,
}

/// The stage analysis of a capture.
#[derive(Debug, Default)]
pub struct Stages {
    pairer: Pairer,
    figures: Figures,
    requests: requests::Joined,
}

#[derive(Debug)]
struct Figures {
    devices: Vec<DeviceStages>,
    /// Devices that may still get histograms.
    histograms: usize,
    processes: FxHashMap<u32, ProcessStages>,
    names: FxHashMap<u32, Box<str>>,
    genesis: u64,
}

/// Processes that are distinguished; the rest are aggregated under [`OTHER_PROCESSES`].
const MAX_PROCESSES: usize = 16 << 10;
/// The pid that stands for all processes beyond the bound.
pub const OTHER_PROCESSES: u32 = u32::MAX;

impl Default for Figures {
    fn default() -> Figures {
        Figures {
            devices: Vec::new(),
            histograms: MAX_HISTOGRAMS,
            processes: FxHashMap::default(),
            names: FxHashMap::default(),
            genesis: 0,
        }
    }
}

impl Stages {
    /// An analysis that keeps percentiles of at most `devices` devices.
    pub fn with_histograms(devices: usize) -> Stages {
        let figures = Figures { histograms: devices.min(MAX_HISTOGRAMS), ..Figures::default() };
        Stages { figures, ..Stages::default() }
    }

    /// Lets go of what is only needed while events come.
    #[must_use]
    pub fn without_events(mut self) -> Stages {
        let unmatched = self.pairer.unmatched;
        self.pairer = Pairer::default();
        self.pairer.unmatched = unmatched;
        self
    }

    /// Adds the finished analysis of other devices.
    pub fn merge(&mut self, other: Stages) {
        self.pairer.unmatched.add(&other.pairer.unmatched);
        self.figures.devices.extend(other.figures.devices);
        for (pid, process) in other.figures.processes {
            let own = self.figures.process(pid);
            own.bytes += process.bytes;
            own.stages.iter_mut().zip(&process.stages).for_each(|(own, other)| own.merge(other));
        }
        for (pid, name) in other.figures.names {
            self.figures.names.entry(pid).or_insert(name);
        }
    }

    /// Takes in the records of `batch`, whose times count from `genesis`.
    pub fn take(&mut self, batch: &Batch, genesis: u64) {
        self.figures.genesis = genesis;
        for record in batch.records.iter().filter(|record| record.is_notify()) {
            if record.action == notify::PROCESS && self.figures.names.len() < 4 * MAX_PROCESSES {
                let name = || String::from_utf8_lossy(batch.process_name(record)).into();
                self.figures.names.entry(record.pid).or_insert_with(name);
            }
        }
        self.pairer.take(batch, &mut self.figures);
    }

    /// Counts what is still open at the end.
    pub fn finish(&mut self) {
        self.finish_requests();
        self.pairer.end(&mut self.figures);
    }

    /// The devices in the order of their first events.
    pub fn devices(&self) -> &[DeviceStages] {
        &self.figures.devices
    }

    /// The stages of all devices together.
    pub fn all(&self) -> StageSet {
        let mut all = StageSet::new(true);
        self.figures.devices.iter().for_each(|device| all.merge(&device.stages));
        all
    }

    /// The processes by pid; who takes most time of requests first.
    pub fn processes(&self) -> Vec<(u32, &ProcessStages)> {
        let mut all: Vec<_> = self.figures.processes.iter().map(|(pid, p)| (*pid, p)).collect();
        all.sort_by_key(|(pid, p)| (std::cmp::Reverse(p.stages[Stage::Q2c as usize].total), *pid));
        all
    }

    /// The name of `pid`, where the capture tells it.
    pub fn name(&self, pid: u32) -> Option<&str> {
        self.figures.names.get(&pid).map(|name| &**name)
    }

    /// What had no partner.
    pub fn unmatched(&self) -> Unmatched {
        self.pairer.unmatched
    }
}

impl Figures {
    #[inline]
    fn device(&mut self, index: u32, record: &Record) -> Option<&mut DeviceStages> {
        while self.devices.len() <= index as usize {
            let histograms = self.devices.len() < self.histograms;
            let aggregated = self.devices.len() >= MAX_DEVICES;
            let number = if aggregated { OTHER_DEVICES } else { record.device };
            self.devices.push(DeviceStages::new(number, record, histograms));
        }
        let device = self.devices.get_mut(index as usize)?;
        device.last = device.last.max(record.time);
        Some(device)
    }

    #[inline]
    fn process(&mut self, pid: u32) -> &mut ProcessStages {
        let full = self.processes.len() >= MAX_PROCESSES;
        let pid = if full && !self.processes.contains_key(&pid) { OTHER_PROCESSES } else { pid };
        self.processes.entry(pid).or_default()
    }
}

impl DeviceStages {
    fn new(number: u32, record: &Record, histograms: bool) -> DeviceStages {
        let distances =
            || Distances { far: StageSet::new(histograms).0[0].clone(), ..Distances::default() };
        DeviceStages {
            number,
            stages: StageSet::new(histograms),
            reads: Volume::default(),
            writes: Volume::default(),
            flushes: Volume::default(),
            queued: 0,
            issued: 0,
            merged: 0,
            requeues: 0,
            plugs: Plugs::default(),
            queue_seeks: distances(),
            issue_seeks: distances(),
            live: Live::default(),
            first: record.time,
            last: record.time,
        }
    }

    fn volume(&mut self, categories: u32, bytes: u32) -> &mut Volume {
        match categories {
            _ if bytes == 0 => &mut self.flushes,
            c if c & category::WRITE != 0 => &mut self.writes,
            _ => &mut self.reads,
        }
    }
}

/// The stages of one request, those that are known.
#[inline]
fn stages_of(slot: &Slot, completed: u64) -> [Option<(Stage, u64)>; 6] {
    let known = |stage, from: u64, to: u64| {
        (from != NEVER && to != NEVER && from <= to).then(|| (stage, to - from))
    };
    let direct = if slot.inserted == NEVER { slot.got } else { NEVER };
    [
        known(Stage::Q2g, slot.queued, slot.got),
        known(Stage::G2i, slot.got, slot.inserted),
        known(Stage::I2d, slot.inserted, slot.issued),
        known(Stage::G2d, direct, slot.issued),
        known(Stage::D2c, slot.issued, completed),
        known(Stage::Q2c, slot.queued, completed),
    ]
}

impl Sink for Figures {
    #[inline]
    fn queued(&mut self, device: u32, record: &Record, since: Option<u64>) {
        let Some(device) = self.device(device, record) else { return };
        device.queued += 1;
        if record.bytes > 0 {
            device.queue_seeks.add(record.sector, record.end());
        }
        if let Some(since) = since {
            device.stages.add(Stage::Q2q, record.time.saturating_sub(since));
        }
    }

    fn merged(&mut self, device: u32, bio: &Slot, time: u64) {
        let Some(device) = self.devices.get_mut(device as usize) else { return };
        device.merged += 1;
        if bio.queued != NEVER {
            device.stages.add(Stage::Q2m, time.saturating_sub(bio.queued));
        }
    }

    #[inline]
    fn issued(&mut self, device: u32, record: &Record) {
        let Some(device) = self.device(device, record) else { return };
        device.issued += 1;
        if record.bytes > 0 {
            device.issue_seeks.add(record.sector, record.end());
        }
    }

    #[inline]
    fn bio(&mut self, device: u32, bio: &Slot, issued: u64, completed: u64) {
        let Some(device) = self.devices.get_mut(device as usize) else { return };
        device.stages.add(Stage::BioQ2c, completed.saturating_sub(bio.queued));
        if issued != NEVER {
            device.stages.add(Stage::BioD2c, completed.saturating_sub(issued));
        }
    }

    #[inline]
    fn done(&mut self, done: Done<'_>) {
        let slot = done.request;
        if done.completed == NEVER {
            return;
        }
        let genesis = self.genesis;
        let Some(device) = self.devices.get_mut(done.device as usize) else { return };
        device.last = device.last.max(done.completed);
        let volume = device.volume(slot.categories, slot.bytes);
        volume.requests += 1;
        volume.bytes += u64::from(slot.bytes);
        volume.errors += u64::from(done.error != 0);
        if slot.issued != NEVER {
            let since = |time: u64| time.saturating_sub(genesis);
            device.live.add(since(slot.issued), since(done.completed.max(slot.issued)));
        }
        let stages = stages_of(slot, done.completed);
        for (stage, value) in stages.into_iter().flatten() {
            device.stages.add(stage, value);
        }
        if slot.queued != NEVER {
            let process = self.process(slot.pid);
            process.bytes += u64::from(slot.bytes);
            for (stage, value) in stages.into_iter().flatten() {
                process.stages[stage as usize].add(value);
            }
        }
    }

    fn other(&mut self, device: u32, batch: &Batch, record: &Record) {
        let Some(device) = self.device(device, record) else { return };
        let plugs = &mut device.plugs;
        match record.kind() {
            Some(Action::Plug) => {
                plugs.since.get_or_insert(record.time);
            }
            Some(action @ (Action::Unplug | Action::UnplugTimer)) => {
                if let Some(since) = plugs.since.take() {
                    plugs.count += 1;
                    plugs.timer += u64::from(action == Action::UnplugTimer);
                    let length = record.time.saturating_sub(since);
                    plugs.time = plugs.time.saturating_add(length);
                    let requests = batch.number(record).unwrap_or(0);
                    plugs.requests = plugs.requests.saturating_add(requests);
                }
            }
            Some(Action::Requeue) => device.requeues += 1,
            _ => {}
        }
    }
}
