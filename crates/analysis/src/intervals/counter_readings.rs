//! Samples of intervals: readings at the end of one interval begin the next.
//!
//! What does not belong here: figures of samples (see `tables::series`).

use iowhy_model::bounded_map::CappedMap;
use iowhy_model::metric::DISKSTATS;
use iowhy_model::source::Batch;
use iowhy_model::{Environment, Metric, Name, Names, Sample, Scope};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::VecDeque;

/// Maximum number of counters whose latest value is kept for the next interval; for further ones an
/// interval has only its own readings.
const MOST: usize = 1 << 16;

type Key = (Scope, Name, Name);

/// Samples that belong to no interval yet, and the latest one of each counter.
#[derive(Clone, Debug, Default)]
pub(crate) struct Readings {
    waiting: VecDeque<Sample>,
    latest: CappedMap<Key, Sample, MOST>,
    /// The last poll of counters in the intervals so far; 0 if there was none.
    looked_ns: u64,
}

impl Readings {
    pub fn add(&mut self, samples: &[Sample]) {
        self.waiting.extend(samples.iter().cloned());
    }

    /// The time of the earliest sample that belongs to no interval yet.
    pub fn first_ns(&self) -> Option<u64> {
        self.waiting.iter().map(|sample| sample.time_ns).min()
    }

    /// The last poll of counters in the intervals so far.
    pub fn looked_ns(&self) -> u64 {
        self.looked_ns
    }

    /// Whether the last poll so far represents the counters at `start_ns`.
    pub fn is_fresh(&self, start_ns: u64, late_ns: u64) -> bool {
        self.looked_ns > 0 && self.looked_ns.saturating_add(late_ns) >= start_ns
    }

    /// The samples of an interval from `start_ns`, read by `until_ns`, with its initial values. If
    /// the last poll was too long before it, that poll does not represent its beginning, and its
    /// own first poll does.
    pub fn until(&mut self, until_ns: u64, start_ns: u64, is_fresh: bool) -> Batch {
        // They came in order of time, except for values before a change.
        let mut own: Vec<Sample> = Vec::new();
        let mut later = VecDeque::new();
        for sample in self.waiting.drain(..) {
            if sample.time_ns <= until_ns { own.push(sample) } else { later.push_back(sample) }
        }
        self.waiting = later;
        own.sort_by_key(|sample| sample.time_ns);
        let looked_ns = own.last().map_or(0, |sample| sample.time_ns).max(self.looked_ns);
        if !is_fresh {
            // Values before a change are from the last poll.
            own.retain(|sample| sample.time_ns > self.looked_ns);
        }
        let begun_ns = match own.first() {
            Some(first) if !is_fresh => first.time_ns,
            _ => self.looked_ns.max(start_ns),
        };
        let mut samples = self.beginnings(&own, is_fresh);
        samples.iter_mut().for_each(|sample| sample.time_ns = begun_ns);
        for sample in &own {
            self.latest.insert(key(sample), sample.clone());
        }
        self.looked_ns = looked_ns;
        samples.append(&mut own);
        Batch { samples, ..Batch::default() }
    }

    /// The latest values before the interval's `own` samples; without those that it reads itself if
    /// its first poll is its beginning.
    fn beginnings(&self, own: &[Sample], is_fresh: bool) -> Vec<Sample> {
        let continued: FxHashSet<(Scope, Name)> =
            own.iter().map(|sample| (sample.scope, sample.subject)).collect();
        let read: FxHashSet<Key> =
            if is_fresh { FxHashSet::default() } else { own.iter().map(key).collect() };
        let begins = |sample: &&Sample| {
            let is_continued = matches!(sample.scope, Scope::System | Scope::Device)
                || continued.contains(&(sample.scope, sample.subject));
            is_continued && !read.contains(&key(sample))
        };
        let mut samples: Vec<Sample> = self.latest.values().filter(begins).cloned().collect();
        samples.sort_by_key(|sample| (sample.scope, sample.subject, sample.metric));
        samples
    }

    /// Sets the counters of devices at one end of an interval to the kernel's counts at that time;
    /// to none if they are not known, as without a poll (`is_known`).
    pub fn count_devices(
        &self,
        window: &mut Environment,
        names: &Names,
        at_start: bool,
        is_known: bool,
    ) {
        let mut counted: FxHashMap<&str, Vec<u64>> = FxHashMap::default();
        let of_device = |sample: &&Sample| is_known && sample.scope == Scope::Device;
        for sample in self.latest.values().filter(of_device) {
            let metric = Metric::find(Scope::Device, names.get(sample.metric));
            let place = DISKSTATS.iter().position(|(known, _)| Some(*known) == metric);
            if let Some((place, unit)) = place.and_then(|at| Some((at, DISKSTATS.get(at)?.1))) {
                let stat = counted.entry(names.get(sample.subject)).or_default();
                let length = stat.len().max(place + 1);
                stat.resize(length, 0);
                stat[place] = sample.value as u64 / unit;
            }
        }
        for device in &mut window.devices {
            let stat = counted.remove(device.name.as_str()).unwrap_or_default();
            let in_flight = stat.get(8).map(|count| (*count, 0));
            let ends = match at_start {
                true => (&mut device.stat_start, &mut device.in_flight_start),
                false => (&mut device.stat_end, &mut device.in_flight_end),
            };
            (*ends.0, *ends.1) = (stat, in_flight);
            device.stat_read_ns = None;
        }
    }
}

fn key(sample: &Sample) -> Key {
    (sample.scope, sample.subject, sample.metric)
}
