//! The effect of each event on btt's figures. Events must come as btt reads them: in the order of a
//! `blkparse -d` dump, with times since the first event.

use super::figures::{Averages, BttActivity, BttStage, delta};
use super::files::{BttFileKind, DataFiles};
use super::names::DeviceNames;
use super::processes::BttProcesses;
use super::seeks::SeekDistances;
use super::tree::{Bio, Link, NEVER, NIL, Trees};
use super::{MAX_DEVICES, MAX_OPEN, is_remapper, seconds};
use crate::trace::action::{Action, category, notify};
use crate::trace::{RecordBatch, TraceRecord};
use iowhy_analysis::stages::BusyPeriods;
use rustc_hash::FxHashMap;
use std::io::Write;

/// btt's figures of one device.
#[derive(Debug, Default)]
pub struct BttDevice {
    /// `major << 20 | minor`.
    pub number: u32,
    /// The name that the user gave it.
    pub name: Option<String>,
    /// Its samples.
    pub averages: Averages,
    /// The times at which bios were queued to it and completed.
    pub activity: BttActivity,
    /// Distances between queued bios.
    pub queue_seeks: SeekDistances,
    /// Distances between issued requests.
    pub issue_seeks: SeekDistances,
    /// The periods in which requests were at the device.
    pub live: BusyPeriods,
    /// Q to D of each bio, in btt's ten steps.
    pub steps: [u64; 10],
    /// Bios queued, requeues counted too.
    pub queued: u64,
    /// Requests issued.
    pub issued: u64,
    /// Sum of the requests that were waiting at each Q.
    pub waiting_sum: u64,
    /// Plug periods.
    pub plugs: BttPlugs,
    /// Its first event, seconds.
    pub start: f64,
    /// Its last event, seconds.
    pub end: f64,
    root: Link,
    last_queue: Option<u64>,
    waiting: u64,
    depth: u64,
    /// Whether its first Q or A has been seen: earlier events are left out.
    open: bool,
}

/// Plug periods of one device.
#[derive(Clone, Copy, Debug, Default)]
pub struct BttPlugs {
    /// Periods that ended.
    pub count: u64,
    /// Unplugs by a timer.
    pub timer: u64,
    /// Requests that unplugs released.
    pub requests: u64,
    /// Requests that timer unplugs released.
    pub timer_requests: u64,
    /// Time plugged, seconds.
    pub time: f64,
    /// The beginning of the current period, seconds.
    pub since: Option<f64>,
}

impl BttPlugs {
    /// Ends the current period at `now`, releasing `requests`.
    pub(super) fn unplug(&mut self, now: f64, requests: u64) {
        if let Some(since) = self.since.take() {
            self.count += 1;
            self.time += now - since;
            self.requests = self.requests.wrapping_add(requests);
        }
    }

    fn time_out(&mut self, now: f64, requests: u64) {
        if let Some(since) = self.since.take() {
            self.timer += 1;
            self.time += now - since;
            self.timer_requests = self.timer_requests.wrapping_add(requests);
        }
    }
}

/// btt's analysis of a complete capture.
#[derive(Debug, Default)]
pub struct Btt {
    /// The devices, in the order of their first events.
    pub devices: Vec<BttDevice>,
    /// All processes.
    pub processes: BttProcesses,
    /// Samples of all devices.
    pub all: Averages,
    /// Activity of all devices.
    pub activity: BttActivity,
    /// The periods in which any device had a request.
    pub live: BusyPeriods,
    /// Messages as btt prints them, bounded.
    pub messages: Vec<u8>,
    /// Bios that were given up because too many were open.
    pub dropped: u64,
    /// Events of devices beyond [`MAX_DEVICES`].
    pub aggregated: u64,
    /// btt's data files, if they are wanted.
    pub files: Option<DataFiles>,
    /// Names of devices that the user gave.
    pub names: DeviceNames,
    index: FxHashMap<u32, u32>,
    last_device: Option<(u32, u32)>,
    last_queue: Option<u64>,
    trees: Trees<Bio>,
    found: Vec<Link>,
    distances: usize,
}

/// Seek distances in memory before they are moved to files.
const MAX_DISTANCES: usize = 1 << 20;

impl Btt {
    /// Takes in the records of `batch`, whose times count from `genesis`.
    pub fn take(&mut self, batch: &RecordBatch, genesis: u64) {
        for record in &batch.records {
            if record.is_notify() {
                self.note(batch, record, genesis);
            } else if record.categories & category::PC == 0 {
                let record = TraceRecord { time: record.time.wrapping_sub(genesis), ..*record };
                self.event(batch, &record);
            }
        }
        if self.distances > MAX_DISTANCES {
            for device in &mut self.devices {
                device.queue_seeks.spill();
                device.issue_seeks.spill();
            }
            self.distances = 0;
        }
    }

    fn note(&mut self, batch: &RecordBatch, record: &TraceRecord, genesis: u64) {
        match record.action {
            notify::PROCESS => self.processes.name(record.pid, batch.process_name(record)),
            notify::MESSAGE => {
                let record = TraceRecord { time: record.time.wrapping_sub(genesis), ..*record };
                self.message(batch, &record);
            }
            _ => {}
        }
    }

    fn message(&mut self, batch: &RecordBatch, record: &TraceRecord) {
        const MAX_MESSAGES: usize = 4 << 20;
        if self.set_up(record, false).is_none() || self.messages.len() > MAX_MESSAGES {
            return;
        }
        let (major, minor, time) = (record.major(), record.minor(), record.time);
        let text = batch.payload(record).split(|byte| *byte == 0).next().unwrap_or(&[]);
        let (whole, rest) = (time / 1_000_000_000, time % 1_000_000_000);
        // Writing to memory cannot fail.
        let _ = write!(self.messages, "({major:3},{minor:3}) {whole:5}.{rest:09} ");
        self.messages.extend_from_slice(text);
        self.messages.push(b'\n');
    }

    // An action with the cgroup flag is no action that btt knows, so it is matched with the flag.
    #[inline]
    fn event(&mut self, batch: &RecordBatch, record: &TraceRecord) {
        let Some(action) = Action::from_number(record.action) else { return };
        match action {
            Action::Queue if record.bytes > 0 => self.queue(record),
            Action::GetRequest if record.bytes > 0 => self.get_request(record),
            Action::Insert if record.bytes > 0 => self.insert(record),
            Action::BackMerge | Action::FrontMerge if record.bytes > 0 => self.merge(record),
            Action::SleepRequest if record.bytes > 0 => self.sleep(record),
            Action::Issue if record.bytes > 0 => self.issue(record),
            Action::Complete if record.bytes > 0 => self.complete(record),
            Action::Requeue => self.requeue(record),
            Action::Remap => self.remap(batch, record),
            Action::Plug => {
                if let Some(device) = self.known(record.device) {
                    device.plugs.since.get_or_insert(seconds(record.time));
                }
            }
            Action::Unplug => {
                let requests = batch.number(record).unwrap_or(0);
                if let Some(files) =
                    self.files.as_mut().filter(|_| self.index.contains_key(&record.device))
                {
                    files.unplug(record, requests);
                }
                if let Some(device) = self.known(record.device) {
                    device.plugs.unplug(seconds(record.time), requests);
                }
            }
            Action::UnplugTimer => {
                let requests = batch.number(record).unwrap_or(0);
                if let Some(device) = self.known(record.device) {
                    device.plugs.time_out(seconds(record.time), requests);
                }
            }
            _ => {}
        }
    }

    fn known(&mut self, number: u32) -> Option<&mut BttDevice> {
        let index = *self.index.get(&number)?;
        self.devices.get_mut(index as usize)
    }

    /// Returns the device's index, made on its first event; `None` for events before its first Q or
    /// A.
    #[inline]
    fn set_up(&mut self, record: &TraceRecord, opens: bool) -> Option<usize> {
        let index = match self.last_device {
            Some((number, index)) if number == record.device => index,
            _ => self.look_up(record)?,
        };
        let index = index as usize;
        let device = self.devices.get_mut(index)?;
        if !device.open && !opens {
            return None;
        }
        device.open = true;
        device.end = seconds(record.time);
        Some(index)
    }

    fn look_up(&mut self, record: &TraceRecord) -> Option<u32> {
        let next = self.devices.len() as u32;
        let index = match self.index.get(&record.device) {
            Some(index) => *index,
            None if self.devices.len() >= MAX_DEVICES => {
                self.aggregated += 1;
                return None;
            }
            None => {
                let start = seconds(record.time);
                let number = record.device;
                let name = self.names.get(number).map(str::to_owned);
                let empty = BttDevice::default();
                self.devices.push(BttDevice { number, name, start, root: NIL, ..empty });
                self.index.insert(number, next);
                next
            }
        };
        self.last_device = Some((record.device, index));
        Some(index)
    }

    fn queue(&mut self, record: &TraceRecord) {
        let Some(at) = self.set_up(record, true) else { return };
        if self.trees.len() >= MAX_OPEN {
            self.drop_oldest();
        }
        let process = self.processes.of(record.pid);
        let (start, end, time) = (record.sector, record.end(), record.time);
        let Some(device) = self.devices.get_mut(at) else { return };
        let bio = Bio { start, end, queued: time, process, ..Bio::default() };
        self.trees.insert(&mut device.root, bio);
        let distance = device.queue_seeks.add(start, end);
        self.distances += 1;
        let dm = is_remapper(record.device);
        let stage = if dm { BttStage::Q2qDm } else { BttStage::Q2q };
        let since = |last: &mut Option<u64>, averages: &mut Averages| {
            if let Some(last) = last.replace(time) {
                averages.add(stage, delta(last, time));
            }
        };
        since(&mut self.last_queue, &mut self.all);
        since(&mut device.last_queue, &mut device.averages);
        self.activity.queue.add(time);
        device.activity.queue.add(time);
        if let Some(process) = self.processes.get(process) {
            since(&mut process.last_queue, &mut process.averages);
            process.activity.queue.add(time);
        }
        device.queued += 1;
        device.waiting_sum += device.waiting;
        device.waiting += 1;
        if let Some(files) = &mut self.files {
            files.seek(BttFileKind::QueueSeeks, record, distance);
        }
    }

    /// Finds the queued bio that starts where `record` does.
    #[inline]
    fn find(&mut self, record: &TraceRecord) -> Option<(usize, Link)> {
        let at = self.set_up(record, false)?;
        self.processes.of(record.pid);
        let root = self.devices.get(at)?.root;
        Some((at, self.trees.find(root, record.sector)?))
    }

    /// Counts a sample for all, the device, and the process that queued the bio.
    #[inline]
    fn sample(&mut self, stage: BttStage, at: usize, process: u32, value: u64) {
        self.all.add(stage, value);
        if let Some(device) = self.devices.get_mut(at) {
            device.averages.add(stage, value);
        }
        if let Some(process) = self.processes.get(process) {
            process.averages.add(stage, value);
        }
    }

    fn get_request(&mut self, record: &TraceRecord) {
        let Some((at, link)) = self.find(record) else { return };
        let bio = self.trees.item(link);
        bio.got = record.time;
        let (queued, slept, process) = (bio.queued, bio.slept, bio.process);
        self.sample(BttStage::Q2g, at, process, delta(queued, record.time));
        if slept != NEVER {
            self.sample(BttStage::S2g, at, process, delta(slept, record.time));
        }
    }

    fn insert(&mut self, record: &TraceRecord) {
        let Some((at, link)) = self.find(record) else { return };
        let bio = self.trees.item(link);
        bio.inserted = record.time;
        let (got, process) = (bio.got, bio.process);
        if got != NEVER {
            self.sample(BttStage::G2i, at, process, delta(got, record.time));
        }
    }

    fn merge(&mut self, record: &TraceRecord) {
        let Some(at) = self.set_up(record, false) else { return };
        if let Some(device) = self.devices.get_mut(at) {
            device.waiting = device.waiting.saturating_sub(1);
        }
        let Some((at, link)) = self.find(record) else { return };
        let bio = self.trees.item(link);
        bio.merged = record.time;
        let (queued, process) = (bio.queued, bio.process);
        self.sample(BttStage::Q2m, at, process, delta(queued, record.time));
    }

    fn sleep(&mut self, record: &TraceRecord) {
        if let Some((_, link)) = self.find(record) {
            self.trees.item(link).slept = record.time;
        }
    }

    /// Returns the bios inside the record's range, in a list that goes back to `self.found`.
    #[inline]
    fn inside(&mut self, at: usize, record: &TraceRecord) -> Vec<Link> {
        let mut found = std::mem::take(&mut self.found);
        found.clear();
        let root = self.devices.get(at).map_or(NIL, |device| device.root);
        self.trees.inside(root, record.sector, record.end(), &mut found);
        found
    }

    fn issue(&mut self, record: &TraceRecord) {
        let Some(at) = self.set_up(record, false) else { return };
        self.processes.of(record.pid);
        let Some(device) = self.devices.get_mut(at) else { return };
        device.waiting = device.waiting.saturating_sub(1);
        device.issued += 1;
        let distance = device.issue_seeks.add(record.sector, record.end());
        self.distances += 1;
        if let Some(files) = &mut self.files {
            files.seek(BttFileKind::IssueSeeks, record, distance);
            files.blocks(record);
            files.depth(record, device.depth, device.depth + 1);
        }
        device.depth += 1;
        let found = self.inside(at, record);
        for link in &found {
            let bio = self.trees.item(*link);
            bio.issued = record.time;
            bio.issued_range = (record.sector, record.sectors());
            let (inserted, merged, process) = (bio.inserted, bio.merged, bio.process);
            let q2d_ns = record.time.wrapping_sub(bio.queued);
            if let Some(files) = &mut self.files {
                files.latency(BttFileKind::Q2d, record, record.time, q2d_ns);
            }
            let step = q2d_step(q2d_ns);
            if let Some(count) = self.devices.get_mut(at).and_then(|d| d.steps.get_mut(step)) {
                *count += 1;
            }
            if inserted != NEVER {
                self.sample(BttStage::I2d, at, process, delta(inserted, record.time));
            } else if merged != NEVER {
                self.sample(BttStage::M2d, at, process, delta(merged, record.time));
            }
        }
        self.found = found;
    }

    fn complete(&mut self, record: &TraceRecord) {
        let Some(at) = self.set_up(record, false) else { return };
        let time = record.time;
        let process = self.processes.of(record.pid);
        self.sample(BttStage::Blocks, at, process, record.sectors());
        self.activity.complete.add(time);
        if let Some(process) = self.processes.get(process) {
            process.activity.complete.add(time);
        }
        if let Some(device) = self.devices.get_mut(at) {
            device.activity.complete.add(time);
            if device.depth > 0 {
                if let Some(files) = &mut self.files {
                    files.depth(record, device.depth, device.depth - 1);
                }
                device.depth -= 1;
            }
        }
        let found = self.inside(at, record);
        let last = found.last().map(|link| self.trees.item(*link).issued);
        for link in &found {
            self.complete_bio(at, *link, record);
        }
        if let Some(files) = &mut self.files {
            files.request(record, last);
        }
        self.found = found;
    }

    fn complete_bio(&mut self, at: usize, link: Link, record: &TraceRecord) {
        let dm = is_remapper(record.device);
        let bio = self.trees.item(link);
        let (queued, issued, process) = (bio.queued, bio.issued, bio.process);
        let q2c = delta(queued, record.time);
        self.sample(if dm { BttStage::Q2cDm } else { BttStage::Q2c }, at, process, q2c);
        if let Some(files) = &mut self.files {
            files.latency(BttFileKind::Q2c, record, queued, q2c);
        }
        if issued != NEVER {
            let d2c = delta(issued, record.time);
            self.sample(BttStage::D2c, at, process, d2c);
            if let Some(files) = &mut self.files {
                files.latency(BttFileKind::D2c, record, record.time, d2c);
            }
            self.live.add(issued, record.time.max(issued));
        }
        if let Some(files) = &mut self.files {
            files.bio(self.trees.item(link), record);
        }
        if let Some(device) = self.devices.get_mut(at) {
            if issued != NEVER {
                device.live.add(issued, record.time.max(issued));
            }
            self.trees.remove(&mut device.root, link);
        }
    }

    fn requeue(&mut self, record: &TraceRecord) {
        let Some(at) = self.set_up(record, false) else { return };
        self.processes.of(record.pid);
        if let Some(device) = self.devices.get_mut(at) {
            device.queued += 1;
            device.waiting_sum += device.waiting;
            device.waiting += 1;
        }
    }

    fn remap(&mut self, batch: &RecordBatch, record: &TraceRecord) {
        let Some(remap) = batch.remap(record) else { return };
        if self.set_up(record, true).is_none() {
            return;
        }
        self.processes.of(record.pid);
        let Some(upper) = self.index.get(&remap.from_device).copied() else { return };
        let root = self.devices.get(upper as usize).map_or(NIL, |device| device.root);
        if let Some(link) = self.trees.find(root, remap.from_sector) {
            let bio = self.trees.item(link);
            let (queued, process) = (bio.queued, bio.process);
            let dm = is_remapper(remap.from_device);
            let stage = if dm { BttStage::Q2aDm } else { BttStage::Q2a };
            self.sample(stage, upper as usize, process, delta(queued, record.time));
        }
    }

    /// Drops the older half of the open bios if too many are open, most of them never to complete.
    fn drop_oldest(&mut self) {
        let mut times = Vec::with_capacity(self.trees.len());
        let mut links = Vec::new();
        for device in &self.devices {
            self.trees.all(device.root, &mut links);
        }
        times.extend(links.iter().map(|link| self.trees.item(*link).queued));
        let middle = times.len() / 2;
        let (_, limit, _) = times.select_nth_unstable(middle);
        let limit = *limit;
        for device in &mut self.devices {
            links.clear();
            self.trees.all(device.root, &mut links);
            for link in &links {
                if self.trees.item(*link).queued <= limit {
                    self.trees.remove(&mut device.root, *link);
                    self.dropped += 1;
                }
            }
        }
    }
}

/// The step of btt's Q2D histogram: below 5, 10, 25, 50, 75, 100, 250, 500, 1000 ms, or more.
fn q2d_step(nanoseconds: u64) -> usize {
    let milliseconds = (seconds(nanoseconds) / 0.001) as u64;
    [5, 10, 25, 50, 75, 100, 250, 500, 1000].partition_point(|limit| *limit <= milliseconds)
}
