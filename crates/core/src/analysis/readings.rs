//! Samples on their way into intervals: what was read at the end of one is what the next begins with.
//!
//! What does not belong here: what samples add up to (see [`super::samples`]).

use crate::model::metric::DISKSTATS;
use crate::model::{Environment, Metric, Name, Names, Sample, Scope};
use crate::source::Batch;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::VecDeque;

/// Counters whose latest value is kept for the next interval; of any further one an interval has only
/// what was read in it.
const MOST: usize = 1 << 16;

type Key = (Scope, Name, Name);

/// Samples that no interval has had yet, and the latest of each counter that one has had.
#[derive(Clone, Debug, Default)]
pub(super) struct Readings {
    waiting: VecDeque<Sample>,
    latest: FxHashMap<Key, Sample>,
    /// When counters were looked at last in the intervals so far; 0 where they never were.
    looked_ns: u64,
}

impl Readings {
    pub fn add(&mut self, samples: &[Sample]) {
        self.waiting.extend(samples.iter().cloned());
    }

    /// When counters were looked at last in the intervals so far.
    pub fn looked_ns(&self) -> u64 {
        self.looked_ns
    }

    /// Whether the last look so far tells what counters were at `start_ns`.
    pub fn is_fresh(&self, start_ns: u64, late_ns: u64) -> bool {
        self.looked_ns > 0 && self.looked_ns.saturating_add(late_ns) >= start_ns
    }

    /// The samples of an interval that begins at `start_ns`, with those that it begins with: what was read
    /// by `until_ns`. Where the last look was too long before it, what was read then says nothing of what
    /// happened in it: then it begins with its own first look.
    pub fn until(&mut self, until_ns: u64, start_ns: u64, is_fresh: bool) -> Batch {
        // They came in the order of time, but for what was looked up before a change.
        let mut own: Vec<Sample> = Vec::new();
        let mut later = VecDeque::new();
        for sample in self.waiting.drain(..) {
            if sample.time_ns <= until_ns { own.push(sample) } else { later.push_back(sample) }
        }
        self.waiting = later;
        own.sort_by_key(|sample| sample.time_ns);
        let looked_ns = own.last().map_or(0, |sample| sample.time_ns).max(self.looked_ns);
        if !is_fresh {
            // What was looked up before a change is from the last look.
            own.retain(|sample| sample.time_ns > self.looked_ns);
        }
        let begun_ns = match own.first() {
            Some(first) if !is_fresh => first.time_ns,
            _ => self.looked_ns.max(start_ns),
        };
        let mut samples = self.beginnings(&own, is_fresh);
        samples.iter_mut().for_each(|sample| sample.time_ns = begun_ns);
        for sample in &own {
            if self.latest.len() < MOST || self.latest.contains_key(&key(sample)) {
                self.latest.insert(key(sample), sample.clone());
            }
        }
        self.looked_ns = looked_ns;
        samples.append(&mut own);
        Batch { samples, ..Batch::default() }
    }

    /// The latest values, of what the interval's `own` samples are beside; without those that it reads
    /// itself where its own first look is its beginning.
    fn beginnings(&self, own: &[Sample], is_fresh: bool) -> Vec<Sample> {
        let told: FxHashSet<(Scope, Name)> =
            own.iter().map(|sample| (sample.scope, sample.subject)).collect();
        let read: FxHashSet<Key> =
            if is_fresh { FxHashSet::default() } else { own.iter().map(key).collect() };
        let begins = |sample: &&Sample| {
            let is_told = matches!(sample.scope, Scope::System | Scope::Device)
                || told.contains(&(sample.scope, sample.subject));
            is_told && !read.contains(&key(sample))
        };
        let mut samples: Vec<Sample> = self.latest.values().filter(begins).cloned().collect();
        samples.sort_by_key(|sample| (sample.scope, sample.subject, sample.metric));
        samples
    }

    /// Sets the counters of devices at one end of an interval to what the kernel counted until then;
    /// to none where that is not known, as where nobody looked (`is_known`).
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
        }
    }
}

fn key(sample: &Sample) -> Key {
    (sample.scope, sample.subject, sample.metric)
}
