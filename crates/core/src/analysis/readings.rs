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
}

impl Readings {
    pub fn add(&mut self, samples: &[Sample]) {
        self.waiting.extend(samples.iter().cloned());
    }

    /// The samples of an interval, with those that it begins with: what was read by `until_ns`.
    pub fn until(&mut self, until_ns: u64, window: &Environment) -> Batch {
        // They came in the order of time, but for what was looked up before a change.
        let mut own: Vec<Sample> = Vec::new();
        let mut later = VecDeque::new();
        for sample in self.waiting.drain(..) {
            if sample.time_ns <= until_ns { own.push(sample) } else { later.push_back(sample) }
        }
        self.waiting = later;
        own.sort_by_key(|sample| sample.time_ns);
        let told: FxHashSet<(Scope, Name)> =
            own.iter().map(|sample| (sample.scope, sample.subject)).collect();
        let begins = |sample: &&Sample| {
            matches!(sample.scope, Scope::System | Scope::Device)
                || told.contains(&(sample.scope, sample.subject))
        };
        let mut samples: Vec<Sample> = self.latest.values().filter(begins).cloned().collect();
        samples.sort_by_key(|sample| (sample.scope, sample.subject, sample.metric));
        samples.iter_mut().for_each(|it| it.time_ns = it.time_ns.max(window.start_ns));
        for sample in &own {
            let key = (sample.scope, sample.subject, sample.metric);
            if self.latest.len() < MOST || self.latest.contains_key(&key) {
                self.latest.insert(key, sample.clone());
            }
        }
        samples.append(&mut own);
        Batch { samples, ..Batch::default() }
    }

    /// Sets the counters of devices at one end of an interval to what the kernel counted until then;
    /// to none where that is not known.
    pub fn count_devices(&self, window: &mut Environment, names: &Names, at_start: bool) {
        let mut counted: FxHashMap<&str, Vec<u64>> = FxHashMap::default();
        for sample in self.latest.values().filter(|sample| sample.scope == Scope::Device) {
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
