//! Figures of summaries, kept as the kernel keeps them: counters of devices, processes and the
//! machine that grow by the rates of each interval.
//!
//! The peak memory is about 120 MiB: 1,024 devices with 32 Ki settings of 1 KiB and 20 messages of
//! 1 KiB each, 16 Ki other values with names of 256 B, and a batch of 1 Mi samples of 40 B.
//!
//! What does not belong here: the tools' formats (see [`crate::text`]).

use iowhy_model::environment::Device;
use iowhy_model::health::{DeviceHealth, KernelMessage};
use iowhy_model::metric::Shape;
use iowhy_model::source::Batch;
use iowhy_model::{Metric, Names, Sample, Scope};
use std::collections::{BTreeMap, BTreeSet};

/// Columns of `/proc/diskstats` behind the name.
pub const COLUMNS: usize = 17;
/// Devices that are kept; of further ones lines are counted.
const MOST_DEVICES: usize = 1024;
/// Processes and system metrics that are kept.
const MOST_SUBJECTS: usize = 16 << 10;
/// The share of the time below which a table covers only a part of it.
const PARTIAL: f64 = 0.98;
/// Settings that are kept of all devices, and bytes of one's name and value.
const MOST_SETTINGS: usize = 32 << 10;
const MOST_SETTING_BYTES: usize = 512;
/// Bytes of a subject's name, and of a message.
const MOST_NAME: usize = 256;
const MOST_TEXT: usize = 1024;
/// Samples of one batch, after which intervals are left out: counters go on growing, so that only
/// the timeline is coarser. An archive is one batch.
const MOST_SAMPLES: usize = 1 << 20;
/// Messages that are kept of each device, as of a live watch.
const MOST_MESSAGES: usize = 20;
/// The beginning of a timeline, ns: above zero, which means "not known".
pub const BEGIN_NS: u64 = 1_000_000_000;

/// The metric of each column, and the factor from its unit to the metric's.
const METRICS: [(Metric, f64); COLUMNS] = [
    (Metric::Reads, 1.0),
    (Metric::ReadsMerged, 1.0),
    (Metric::ReadBytes, 512.0),
    (Metric::ReadTime, 1e6),
    (Metric::Writes, 1.0),
    (Metric::WritesMerged, 1.0),
    (Metric::WriteBytes, 512.0),
    (Metric::WriteTime, 1e6),
    (Metric::InFlight, 1.0),
    (Metric::BusyTime, 1e6),
    (Metric::QueueTime, 1e6),
    (Metric::Discards, 1.0),
    (Metric::DiscardsMerged, 1.0),
    (Metric::DiscardBytes, 512.0),
    (Metric::DiscardTime, 1e6),
    (Metric::Flushes, 1.0),
    (Metric::FlushTime, 1e6),
];

/// What of a subject was put into a batch last.
#[derive(Clone, Copy, Debug, Default)]
struct SampledColumns {
    /// When, ns; none if it never was.
    at_ns: Option<u64>,
    /// The values then.
    values: [f64; COLUMNS],
}

/// A device's counters so far; a column is known if it was told at least once.
#[derive(Clone, Debug, Default)]
struct DeviceBook {
    columns: [f64; COLUMNS],
    is_known: [bool; COLUMNS],
    sampled: SampledColumns,
    number: (u32, u32),
    settings: BTreeMap<String, String>,
    model: Option<String>,
    health: Option<DeviceHealth>,
    messages: Vec<KernelMessage>,
    /// Requests and their ms, of all directions together.
    undirected: Option<(f64, f64)>,
    /// The table that tells of it.
    teller: Option<u32>,
}

/// A value of the machine or of a process.
#[derive(Clone, Copy, Debug, Default)]
struct OtherValue {
    value: f64,
    /// The value that was put into a batch last, and when, ns.
    sampled: Option<(u64, f64)>,
    /// The table that tells of it.
    teller: u32,
}

/// All figures that were read so far.
#[derive(Debug)]
pub struct CounterBook {
    now_ns: u64,
    devices: BTreeMap<String, DeviceBook>,
    others: BTreeMap<(Metric, String), OtherValue>,
    /// Those of which something was told since values were put into a batch last.
    told_devices: BTreeSet<String>,
    told_others: BTreeSet<(Metric, String)>,
    /// The time at which values were put into a batch last, ns.
    sampled_ns: u64,
    /// Subjects beyond the bounds.
    refused: u64,
    /// Whether a time of reads and writes together was taken for that of each.
    has_joint_times: bool,
    end_ns: u64,
    /// The table whose rows are added.
    table: u32,
    /// The seconds that each table tells of.
    covered: BTreeMap<u32, f64>,
    /// Rows about devices that another table has, too.
    told_twice: u64,
    is_extrapolated: bool,
    settings: usize,
    /// Intervals without a sample.
    unsampled: u64,
}

impl Default for CounterBook {
    fn default() -> CounterBook {
        CounterBook {
            now_ns: BEGIN_NS,
            devices: BTreeMap::new(),
            others: BTreeMap::new(),
            told_devices: BTreeSet::new(),
            told_others: BTreeSet::new(),
            sampled_ns: BEGIN_NS,
            refused: 0,
            has_joint_times: false,
            end_ns: BEGIN_NS,
            table: 0,
            covered: BTreeMap::new(),
            told_twice: 0,
            is_extrapolated: false,
            settings: 0,
            unsampled: 0,
        }
    }
}

impl CounterBook {
    /// The time on the timeline, ns.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Whether any table tells of a time that passed.
    pub fn has_passed(&self) -> bool {
        self.end_ns() > BEGIN_NS
    }

    /// The end of the timeline, ns.
    pub fn end_ns(&self) -> u64 {
        self.end_ns.max(self.now_ns)
    }

    /// Goes to another time: tables of one file tell of the same hours one after another.
    pub fn go_to(&mut self, now_ns: u64) {
        self.end_ns = self.end_ns();
        (self.now_ns, self.sampled_ns) = (now_ns, now_ns);
    }

    /// Notes that a time of reads and writes together was taken for that of each.
    pub fn note_joint_times(&mut self) {
        self.has_joint_times = true;
    }

    /// Subjects that do not fit.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Selects the table of the rows that follow. If two tables of a file have one device, the
    /// first is believed.
    pub fn table(&mut self, table: u32) {
        self.table = table;
    }

    /// Lets `seconds` pass.
    pub fn advance(&mut self, seconds: f64) {
        *self.covered.entry(self.table).or_default() += seconds.clamp(0.0, 1e9);
        self.now_ns = self.now_ns.saturating_add((seconds.clamp(0.0, 1e9) * 1e9) as u64);
    }

    fn device(&mut self, name: &str) -> Option<&mut DeviceBook> {
        if name.is_empty() || name.len() > 64 {
            return None;
        }
        if self.devices.len() >= MOST_DEVICES && !self.devices.contains_key(name) {
            self.refused += 1;
            return None;
        }
        Some(self.devices.entry(name.to_owned()).or_default())
    }

    /// The device, if no other table tells of it.
    fn told(&mut self, name: &str) -> Option<&mut DeviceBook> {
        let table = self.table;
        if *self.device(name)?.teller.get_or_insert(table) != table {
            self.told_twice += 1;
            return None;
        }
        self.devices.get_mut(name)
    }

    /// Adds the growth in an interval to columns of a device: column and growth.
    pub fn add(&mut self, name: &str, grown: &[(usize, f64)]) {
        let Some(device) = self.told(name) else { return };
        let mut is_told = false;
        for (column, by) in grown {
            if by.is_finite()
                && let (Some(value), Some(known)) =
                    (device.columns.get_mut(*column), device.is_known.get_mut(*column))
            {
                *value = if METRICS[*column].0 == Metric::InFlight { *by } else { *value + by };
                *known = true;
                is_told = true;
            }
        }
        if is_told && !self.told_devices.contains(name) {
            self.told_devices.insert(name.to_owned());
        }
    }

    /// Adds requests of which the direction is not told, and their time in ms, if it is.
    pub fn undirected(&mut self, name: &str, requests: f64, wait_ms: Option<f64>) {
        let Some(device) = self.told(name) else { return };
        if requests.is_finite() && requests >= 0.0 {
            let held = device.undirected.get_or_insert((0.0, 0.0));
            held.0 += requests;
            held.1 += wait_ms.filter(|wait_ms| wait_ms.is_finite()).unwrap_or(0.0).max(0.0);
        }
    }

    /// The device's number, where the source tells it.
    pub fn number(&mut self, name: &str, number: (u32, u32)) {
        if let Some(device) = self.device(name) {
            device.number = number;
        }
    }

    /// A setting under /sys/block/NAME.
    pub fn setting(&mut self, name: &str, setting: &str, value: &str) {
        let is_small = setting.len().max(value.len()) <= MOST_SETTING_BYTES;
        if self.settings >= MOST_SETTINGS || !is_small {
            return;
        }
        if let Some(device) = self.device(name) {
            device.settings.insert(setting.to_owned(), value.to_owned());
            self.settings += 1;
        }
    }

    /// The health that a device reported of itself.
    pub fn health(&mut self, name: &str, model: Option<&str>, health: DeviceHealth) {
        if let Some(device) = self.device(name) {
            device.model = model.map(str::to_owned).or_else(|| device.model.take());
            device.health = Some(health);
        }
    }

    /// A message of the kernel's log.
    pub fn message(&mut self, name: &str, mut message: KernelMessage) {
        shorten(&mut message.text, MOST_TEXT);
        if let Some(device) = self.device(name)
            && device.messages.len() < MOST_MESSAGES
        {
            device.messages.push(message);
        }
    }

    /// Whether messages about a device were kept.
    pub fn has_messages(&self, name: &str) -> bool {
        self.devices.get(name).is_some_and(|device| !device.messages.is_empty())
    }

    /// The disk that a controller `nvme0` has, else its first one.
    pub fn disk_of(&self, controller: &str) -> String {
        let prefix = format!("{controller}n");
        let known = self.devices.range(prefix.clone()..).next().map(|(name, _)| name);
        let known = known.filter(|name| name.starts_with(&prefix));
        known.cloned().unwrap_or_else(|| format!("{prefix}1"))
    }

    /// Whether counters of any device are known.
    pub fn has_counters(&self) -> bool {
        self.devices.values().any(DeviceBook::is_counted)
    }

    /// A value of the machine or of a process: of a counter its growth.
    pub fn other(&mut self, metric: Metric, subject: &str, value: f64) {
        let mut subject = subject.to_owned();
        shorten(&mut subject, MOST_NAME);
        let key = (metric, subject);
        if self.others.len() >= MOST_SUBJECTS && !self.others.contains_key(&key) {
            self.refused += 1;
            return;
        }
        let teller = self.table;
        let fresh = || OtherValue { value: 0.0, sampled: None, teller };
        let entry = self.others.entry(key.clone()).or_insert_with(fresh);
        if entry.teller != teller {
            self.told_twice += 1;
            return;
        }
        let held = &mut entry.value;
        *held = match metric.info().shape {
            Shape::Gauge => value,
            Shape::Counter => *held + value.max(0.0),
        };
        self.told_others.insert(key);
    }

    /// Puts the values that were told since the last call into a batch, as of now; the others are
    /// what they were. A counter that is new began at zero when values were put there last.
    pub fn sample(&mut self, batch: &mut Batch, names: &mut Names) {
        if batch.samples.len() >= MOST_SAMPLES {
            self.unsampled += 1;
            return;
        }
        self.sample_told(batch, names);
    }

    fn sample_told(&mut self, batch: &mut Batch, names: &mut Names) {
        let mut sampler =
            BookSampler { from_ns: self.sampled_ns, time_ns: self.now_ns, batch, names };
        for name in std::mem::take(&mut self.told_devices) {
            if let Some(device) = self.devices.get_mut(&name) {
                sampler.device(&name, device);
            }
        }
        for key in std::mem::take(&mut self.told_others) {
            if let Some(held) = self.others.get_mut(&key) {
                sampler.other(&key, held);
            }
        }
        self.sampled_ns = self.now_ns;
    }

    fn sample_all(&mut self, batch: &mut Batch, names: &mut Names) {
        let devices = self.devices.iter().filter(|(_, device)| device.is_known.contains(&true));
        self.told_devices = devices.map(|(name, _)| name.clone()).collect();
        self.told_others = self.others.keys().cloned().collect();
        self.sample_told(batch, names);
    }

    /// Puts the values that are older than the last ones into a batch once more: each series lasts
    /// until the end.
    pub fn sample_ends(&mut self, batch: &mut Batch, names: &mut Names) {
        let until_ns = self.sampled_ns;
        let now_ns = std::mem::replace(&mut self.now_ns, until_ns);
        let is_older = |at_ns: Option<u64>| at_ns.is_some_and(|at_ns| at_ns < until_ns);
        let devices = self.devices.iter().filter(|(_, device)| is_older(device.sampled.at_ns));
        self.told_devices = devices.map(|(name, _)| name.clone()).collect();
        let others = self.others.iter();
        let others = others.filter(|(_, held)| is_older(held.sampled.map(|(at_ns, _)| at_ns)));
        self.told_others = others.map(|(key, _)| key.clone()).collect();
        self.sample_told(batch, names);
        self.now_ns = now_ns;
    }

    /// Ends the timeline. The rates of a table that covers only a part of the time, as tables
    /// without times do next to others, are extended to the end.
    pub fn finish(&mut self, batch: &mut Batch, names: &mut Names) {
        let whole_s = self.end_ns().saturating_sub(BEGIN_NS) as f64 / 1e9;
        let factor = |table: u32, covered: &BTreeMap<u32, f64>| {
            let part_s = covered.get(&table).copied().filter(|part| *part > 0.0)?;
            (part_s < PARTIAL * whole_s).then_some(whole_s / part_s)
        };
        let mut is_extrapolated = false;
        for device in self.devices.values_mut() {
            let Some(by) = device.teller.and_then(|teller| factor(teller, &self.covered)) else {
                continue;
            };
            is_extrapolated = true;
            for (value, (metric, _)) in device.columns.iter_mut().zip(METRICS) {
                *value *= if metric == Metric::InFlight { 1.0 } else { by };
            }
            device.undirected = device.undirected.map(|(count, ms)| (count * by, ms * by));
        }
        for ((metric, _), held) in &mut self.others {
            if metric.info().shape == Shape::Counter
                && let Some(by) = factor(held.teller, &self.covered)
            {
                is_extrapolated = true;
                held.value *= by;
            }
        }
        self.is_extrapolated = is_extrapolated;
        if is_extrapolated || self.unsampled > 0 {
            self.now_ns = self.end_ns();
            self.sample_all(batch, names);
        }
    }

    /// Returns the assumptions that were made, a sentence each.
    pub fn limits(&self) -> Vec<String> {
        let mut limits = Vec::new();
        if self.has_joint_times {
            limits.push(
                "`await` is of reads and writes together, and was taken for each of them"
                    .to_owned(),
            );
        }
        if self.is_extrapolated {
            limits.push(
                "its tables tell of times of different length: rates of the shorter ones were \
                 taken for the whole time"
                    .to_owned(),
            );
        }
        if self.unsampled > 0 {
            let meaning = "intervals are not shown one by one: there are too many";
            limits.push(iowhy_model::figures::counted(self.unsampled, meaning));
        }
        if self.told_twice > 0 {
            let meaning = "figures are told by two tables of the file: the first was taken";
            limits.push(iowhy_model::figures::counted(self.told_twice, meaning));
        }
        limits
    }

    /// The devices with their counters; those that were told of zero at the beginning.
    pub fn devices(&self) -> Vec<Device> {
        self.devices.iter().map(|(name, device)| device.described(name)).collect()
    }

    /// Whether values of a scope were told.
    pub fn has(&self, scope: Scope) -> bool {
        self.others.keys().any(|(metric, _)| metric.info().scope == scope)
    }
}

/// Cuts a text that is longer than `most` bytes.
fn shorten(text: &mut String, most: usize) {
    if text.len() > most {
        let end = (0..=most).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
    }
}

/// Puts values into a batch.
struct BookSampler<'a> {
    from_ns: u64,
    time_ns: u64,
    batch: &'a mut Batch,
    names: &'a mut Names,
}

impl BookSampler<'_> {
    fn device(&mut self, name: &str, device: &mut DeviceBook) {
        let before = device.sampled;
        for (column, (metric, unit)) in METRICS.iter().enumerate() {
            if device.is_known[column] {
                let before = before.at_ns.map(|at_ns| (at_ns, before.values[column] * unit));
                self.push(*metric, name, device.columns[column] * unit, before);
            }
        }
        device.sampled = SampledColumns { at_ns: Some(self.time_ns), values: device.columns };
    }

    fn other(&mut self, (metric, subject): &(Metric, String), held: &mut OtherValue) {
        self.push(*metric, subject, held.value, held.sampled);
        held.sampled = Some((self.time_ns, held.value));
    }

    /// Adds a value. What was told last before the last call had that value until then, and what is
    /// new began at zero.
    fn push(&mut self, metric: Metric, subject: &str, value: f64, before: Option<(u64, f64)>) {
        let info = metric.info();
        let (scope, subject) = (info.scope, self.names.intern(subject));
        let metric = self.names.intern(info.word);
        let sample = Sample { time_ns: self.time_ns, scope, subject, metric, value };
        let earlier = match before {
            None => (info.shape == Shape::Counter).then_some(0.0),
            Some((at_ns, value)) => (at_ns < self.from_ns).then_some(value),
        };
        if let Some(value) = earlier.filter(|_| self.from_ns < self.time_ns) {
            self.batch.samples.push(Sample { time_ns: self.from_ns, value, ..sample.clone() });
        }
        self.batch.samples.push(sample);
    }
}

impl DeviceBook {
    fn is_counted(&self) -> bool {
        self.undirected.is_some() || self.is_known.contains(&true)
    }

    /// Requests and their ms of all directions; of those with a direction only if something of
    /// them is not told, so that they are none of the kernel's counts.
    fn undirected(&self) -> Option<(f64, f64)> {
        let is_whole = |first: usize| self.is_known[first..first + 4].iter().all(|known| *known);
        let is_told = self.is_known[0] || self.is_known[4];
        if self.undirected.is_some() || !is_told || is_whole(0) && is_whole(4) {
            return self.undirected;
        }
        let sum = |columns: [usize; 3]| columns.iter().map(|at| self.columns[*at]).sum::<f64>();
        Some((sum([0, 4, 11]), sum([3, 7, 14])))
    }

    fn described(&self, name: &str) -> Device {
        let counted = self.is_counted();
        let unknown = self.is_known.iter().enumerate().filter(|(_, known)| !**known);
        Device {
            name: name.to_owned(),
            major: self.number.0,
            minor: self.number.1,
            model: self.model.clone(),
            stat_start: if counted { vec![0; COLUMNS] } else { Vec::new() },
            stat_end: match counted {
                true => self.columns.iter().map(|value| value.round().max(0.0) as u64).collect(),
                false => Vec::new(),
            },
            stat_unknown: match counted {
                true => unknown.map(|(column, _)| column as u32).collect(),
                false => Vec::new(),
            },
            stat_undirected: self
                .undirected()
                .map(|(requests, ms)| (requests.round() as u64, ms.round() as u64)),
            settings_start: self.settings.clone().into(),
            settings_end: self.settings.clone().into(),
            health_end: self.health.clone(),
            kernel_messages: self.messages.clone(),
            ..Device::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(batch: &Batch, names: &Names, subject: &str) -> Vec<(u64, f64)> {
        let own = batch.samples.iter().filter(|sample| names.get(sample.subject) == subject);
        own.map(|sample| (sample.time_ns / BEGIN_NS - 1, sample.value)).collect()
    }

    #[test]
    fn each_interval_takes_rows_for_what_it_tells_of() {
        const SUBJECTS: u32 = 1_000;
        let (mut book, mut batch, mut names) =
            (CounterBook::default(), Batch::default(), Names::new());
        for number in 0..SUBJECTS {
            book.advance(1.0);
            book.other(Metric::ProcessMajorFaults, &number.to_string(), 7.0);
            book.add(&format!("sd{number}"), &[(0, 1.0)]);
            book.sample(&mut batch, &mut names);
        }
        book.sample_ends(&mut batch, &mut names);
        // Its beginning, its growth and its end.
        assert!(batch.samples.len() <= 2 * 3 * SUBJECTS as usize, "{}", batch.samples.len());
        assert_eq!(values(&batch, &names, "4"), [(4, 0.0), (5, 7.0), (1_000, 7.0)]);
        assert_eq!(values(&batch, &names, "sd4"), [(4, 0.0), (5, 1.0), (1_000, 1.0)]);
    }

    #[test]
    fn what_was_not_told_did_not_grow() {
        let (mut book, mut batch, mut names) =
            (CounterBook::default(), Batch::default(), Names::new());
        for second in 1..=10 {
            book.advance(1.0);
            book.add("sda", &[(0, 1.0)]);
            if [1, 2, 8].contains(&second) {
                book.add("sdb", &[(0, 5.0)]);
            }
            book.sample(&mut batch, &mut names);
        }
        book.sample_ends(&mut batch, &mut names);
        let told = [(0, 0.0), (1, 5.0), (2, 10.0), (7, 10.0), (8, 15.0), (10, 15.0)];
        assert_eq!(values(&batch, &names, "sdb"), told);
        assert_eq!(values(&batch, &names, "sda").len(), 11);
    }
}
