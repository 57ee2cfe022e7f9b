//! Statistics of bios and requests: stages with percentiles per device, overhead per process,
//! merges, plugs, seeks and active periods. Single events and requests that were joined already are
//! counted by the same code.
//!
//! A request's stages add up to its Q2C. Figures of bios are beside those of requests, because
//! btt counts bios: a request of 32 bios gives it 32 equal samples.
//!
//! What does not belong here: joining events to requests (crate `iowhy-blktrace`).

use super::devices::{MAX_DEVICES, OTHER_DEVICES};
use super::periods::BusyPeriods;
use super::samples::{Average, Distances, MAX_HISTOGRAMS, Stage, StageSet};
use crate::summary::{ByInterval, Interval};
use iowhy_model::compact_sort::CompactSort;
use rustc_hash::FxHashMap;

/// Reads or writes of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct TransferVolume {
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

impl Plugs {
    /// The device was plugged; where it is already, the period goes on.
    pub fn plug(&mut self, time_ns: u64) {
        self.since.get_or_insert(time_ns);
    }

    /// The device was unplugged and released `requests`.
    pub fn unplug(&mut self, time_ns: u64, is_by_timer: bool, requests: u64) {
        if let Some(since) = self.since.take() {
            self.count += 1;
            self.timer += u64::from(is_by_timer);
            self.time = self.time.saturating_add(time_ns.saturating_sub(since));
            self.requests = self.requests.saturating_add(requests);
        }
    }
}

/// The statistics of a device.
#[derive(Clone, Debug)]
pub struct DeviceStages {
    /// `major << 20 | minor`, or [`OTHER_DEVICES`].
    pub number: u32,
    /// Its stages.
    pub stages: StageSet,
    /// Sums of the stages of requests whose Q2C is known: they add up to it.
    pub whole_ns: [u64; Stage::ALL.len()],
    /// Reads that completed.
    pub reads: TransferVolume,
    /// Writes, discards and zone commands that completed.
    pub writes: TransferVolume,
    /// Flushes that completed.
    pub flushes: TransferVolume,
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
    /// Periods in which a request was at the device.
    pub live: BusyPeriods,
    /// Its first event, ns.
    pub first: u64,
    /// Its last event, ns.
    pub last: u64,
    last_queue: Option<u64>,
}

/// The statistics of a process: of the bios and requests that it queued.
#[derive(Clone, Debug, Default)]
pub struct ProcessStages {
    /// Number, smallest, largest, sum per stage.
    pub stages: [Average; Stage::ALL.len()],
    /// Bytes completed.
    pub bytes: u64,
}

/// A bio or request that was queued or issued.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RangeEvent {
    /// `major << 20 | minor`.
    pub device: u32,
    /// The time of the event, nanoseconds.
    pub time_ns: u64,
    /// Its first sector.
    pub sector: u64,
    /// Its bytes; 0 for a flush.
    pub bytes: u64,
}

/// A request that ended.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct EndedRequest {
    /// The number of requests that it stands for.
    pub times: u64,
    /// Its bytes; 0 for a flush.
    pub bytes: u64,
    /// Whether it writes: discards and zone commands too.
    pub is_write: bool,
    /// Whether it failed.
    pub is_failed: bool,
    /// The process that queued it; `None` where that is not known.
    pub pid: Option<u32>,
    /// The lengths of its stages, nanoseconds; `None` for those that are not known.
    pub intervals: ByInterval<Option<u64>>,
    /// From G or I to its first issue, if the cache was flushed before its data.
    pub preflush_ns: Option<u64>,
    /// The flush of the cache behind its data, the end of D2C.
    pub postflush_ns: Option<u64>,
    /// From its first issue to the last, if the driver requeued it.
    pub requeue_ns: Option<u64>,
    /// Its last issue and its end, on a clock that begins with the data.
    pub at_device: Option<(u64, u64)>,
    /// The time at which it ended, nanoseconds; `None` where its columns do not tell.
    pub ended_ns: Option<u64>,
}

/// The stages of devices and processes, so far.
#[derive(Debug)]
pub struct StageTotals {
    devices: Vec<DeviceStages>,
    /// Devices that may still get histograms.
    histograms: usize,
    processes: FxHashMap<u32, ProcessStages>,
    names: FxHashMap<u32, Box<str>>,
}

/// Processes that are distinguished; the rest are aggregated under [`OTHER_PROCESSES`].
const MAX_PROCESSES: usize = 16 << 10;
/// The pid that stands for all processes beyond the bound.
pub const OTHER_PROCESSES: u32 = u32::MAX;

impl Default for StageTotals {
    fn default() -> StageTotals {
        StageTotals {
            devices: Vec::new(),
            histograms: MAX_HISTOGRAMS,
            processes: FxHashMap::default(),
            names: FxHashMap::default(),
        }
    }
}

impl StageTotals {
    /// Totals with percentiles of at most `devices` devices.
    pub fn with_histograms(devices: usize) -> StageTotals {
        StageTotals { histograms: devices.min(MAX_HISTOGRAMS), ..StageTotals::default() }
    }

    /// Adds the totals of other devices.
    pub fn merge(&mut self, other: StageTotals) {
        self.devices.extend(other.devices);
        for (pid, process) in other.processes {
            let own = self.process(pid);
            own.bytes += process.bytes;
            own.stages.iter_mut().zip(&process.stages).for_each(|(own, other)| own.merge(other));
        }
        for (pid, name) in other.names {
            self.names.entry(pid).or_insert(name);
        }
    }

    /// The devices in the order of their first events.
    pub fn devices(&self) -> &[DeviceStages] {
        &self.devices
    }

    /// The stages of all devices together.
    pub fn all(&self) -> StageSet {
        let mut all = StageSet::new(true);
        self.devices.iter().for_each(|device| all.merge(&device.stages));
        all
    }

    /// The processes by pid; who takes most time of requests first.
    pub fn processes(&self) -> Vec<(u32, &ProcessStages)> {
        let mut all: Vec<_> = self.processes.iter().map(|(pid, p)| (*pid, p)).collect();
        all.compact_sort_by_key(|(pid, p)| {
            (std::cmp::Reverse(p.stages[Stage::Q2c as usize].total), *pid)
        });
        all
    }

    /// The name of `pid`, where the data tells it.
    pub fn name(&self, pid: u32) -> Option<&str> {
        self.names.get(&pid).map(|name| &**name)
    }

    /// Gives `pid` a name; the first one stays.
    pub fn name_process(&mut self, pid: u32, name: impl FnOnce() -> Box<str>) {
        if self.names.len() < 4 * MAX_PROCESSES {
            self.names.entry(pid).or_insert_with(name);
        }
    }

    /// The device at `index`, the number of [`super::devices::DeviceNumbers`], for an event of
    /// device number `number` at `time_ns`.
    #[inline]
    pub fn device(&mut self, index: u32, number: u32, time_ns: u64) -> Option<&mut DeviceStages> {
        while self.devices.len() <= index as usize {
            let histograms = self.devices.len() < self.histograms;
            let aggregated = self.devices.len() >= MAX_DEVICES;
            let number = if aggregated { OTHER_DEVICES } else { number };
            self.devices.push(DeviceStages::new(number, time_ns, histograms));
        }
        let device = self.devices.get_mut(index as usize)?;
        device.last = device.last.max(time_ns);
        Some(device)
    }

    /// A bio was queued.
    #[inline]
    pub fn queued(&mut self, index: u32, bio: RangeEvent) {
        let Some(device) = self.device(index, bio.device, bio.time_ns) else { return };
        device.queued += 1;
        if bio.bytes > 0 {
            device.queue_seeks.add(bio.sector, bio.end());
        }
        // Successive bios of several devices have nothing to do with each other.
        if device.number != OTHER_DEVICES
            && let Some(last) = device.last_queue.replace(bio.time_ns)
        {
            device.stages.add(Stage::Q2q, bio.time_ns.saturating_sub(last));
        }
    }

    /// A request was issued.
    #[inline]
    pub fn issued(&mut self, index: u32, request: RangeEvent) {
        let Some(device) = self.device(index, request.device, request.time_ns) else { return };
        device.issued += 1;
        if request.bytes > 0 {
            device.issue_seeks.add(request.sector, request.end());
        }
    }

    /// A bio was merged, `q2m_ns` after its Q where that is known.
    pub fn merged(&mut self, index: u32, q2m_ns: Option<u64>) {
        let Some(device) = self.devices.get_mut(index as usize) else { return };
        device.merged += 1;
        if let Some(time) = q2m_ns {
            device.stages.add(Stage::Q2m, time);
        }
    }

    /// A bio completed: so long after its Q, and after the D of its request where that is known.
    #[inline]
    pub fn completed_bio(&mut self, index: u32, q2c_ns: u64, d2c_ns: Option<u64>) {
        let Some(device) = self.devices.get_mut(index as usize) else { return };
        device.stages.add(Stage::BioQ2c, q2c_ns);
        if let Some(time) = d2c_ns {
            device.stages.add(Stage::BioD2c, time);
        }
    }

    /// A request ended.
    #[inline]
    pub fn ended(&mut self, index: u32, request: &EndedRequest) {
        let Some(device) = self.devices.get_mut(index as usize) else { return };
        device.last = device.last.max(request.ended_ns.unwrap_or(0));
        let volume = device.volume(request.is_write, request.bytes);
        let (times, bytes) = (request.times, request.bytes.saturating_mul(request.times));
        volume.requests += times;
        volume.bytes += bytes;
        volume.errors += u64::from(request.is_failed) * times;
        if let Some((issued, ended)) = request.at_device {
            device.live.add(issued, ended);
        }
        let is_whole = request.intervals[Interval::Q2c].is_some();
        for (stage, value) in stages(request) {
            device.stages.add_many(stage, value, times);
            if is_whole {
                let sum = &mut device.whole_ns[stage as usize];
                *sum = sum.saturating_add(value.saturating_mul(times));
            }
        }
        if let Some(pid) = request.pid {
            let process = self.process(pid);
            process.bytes += bytes;
            for (stage, value) in stages(request) {
                process.stages[stage as usize].add_many(value, times);
            }
        }
    }

    #[inline]
    fn process(&mut self, pid: u32) -> &mut ProcessStages {
        let full = self.processes.len() >= MAX_PROCESSES;
        let pid = if full && !self.processes.contains_key(&pid) { OTHER_PROCESSES } else { pid };
        self.processes.entry(pid).or_default()
    }
}

/// The stages of a request, those that are known.
#[inline]
fn stages(request: &EndedRequest) -> impl Iterator<Item = (Stage, u64)> {
    let intervals = &request.intervals;
    let stages = [
        (Stage::Q2g, intervals[Interval::Q2g]),
        (Stage::G2i, intervals[Interval::G2i]),
        (Stage::I2d, intervals[Interval::I2d]),
        (Stage::G2d, intervals[Interval::G2d]),
        (Stage::D2c, intervals[Interval::D2c]),
        (Stage::Q2c, intervals[Interval::Q2c]),
        (Stage::Preflush, request.preflush_ns),
        (Stage::Postflush, request.postflush_ns),
        (Stage::Requeue, request.requeue_ns),
    ];
    stages.into_iter().filter_map(|(stage, interval)| Some((stage, interval?)))
}

impl RangeEvent {
    #[inline]
    const fn end(self) -> u64 {
        self.sector.wrapping_add(self.bytes >> 9)
    }
}

impl DeviceStages {
    fn new(number: u32, time_ns: u64, histograms: bool) -> DeviceStages {
        DeviceStages {
            number,
            stages: StageSet::new(histograms),
            whole_ns: Default::default(),
            reads: TransferVolume::default(),
            writes: TransferVolume::default(),
            flushes: TransferVolume::default(),
            queued: 0,
            issued: 0,
            merged: 0,
            requeues: 0,
            plugs: Plugs::default(),
            queue_seeks: Distances::new(histograms),
            issue_seeks: Distances::new(histograms),
            live: BusyPeriods::default(),
            first: time_ns,
            last: time_ns,
            last_queue: None,
        }
    }

    fn volume(&mut self, is_write: bool, bytes: u64) -> &mut TransferVolume {
        match is_write {
            _ if bytes == 0 => &mut self.flushes,
            true => &mut self.writes,
            false => &mut self.reads,
        }
    }
}
