//! Exact counts of everything that completes, kept by the kernel, per disk and operation. They cost
//! a few tens of nanoseconds per request, whatever the rate.
//!
//! Started alone ([`Aggregates::begin`]) they are the cheapest watch that there is; a live watch
//! reads those of its own session. Counts only grow: take a snapshot at each end of an interval,
//! and subtract ([`AggregateSnapshot::since`]).
//!
//! What does not belong here: records of single requests (see [`crate::session`]).

use crate::decode::operation;
use crate::error::WatchError;
use crate::handles;
use crate::host::system;
use crate::kernel::KernelFeatures;
use crate::loader::{self, ObjectSource, object};
use crate::plan::{Plan, Wishes};
use crate::session::Session;
use crate::settings;
use crate::wire;
use iowhy_model::Operation;
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, Object};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use zerocopy::FromBytes;

/// Buckets of a [`LatencyTotal`].
pub const LATENCY_BUCKETS: usize = wire::WIRE_LATENCIES as usize;

/// The shortest time in bucket `index` of a [`LatencyTotal`], nanoseconds. Each power of two from
/// 1 µs on has four buckets.
pub fn bucket_floor_ns(index: usize) -> u64 {
    let Some(place) = index.checked_sub(1) else { return 0 };
    let steps = 1 << wire::LATENCY_STEP_BITS;
    let (power, step) = (place as u64 / steps, place as u64 % steps);
    (steps + step) << (u64::from(wire::LATENCY_FLOOR_BITS - wire::LATENCY_STEP_BITS) + power)
}

/// Times, summed up and as a histogram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LatencyTotal {
    /// The number of times that were summed up.
    pub count: u64,
    /// The sum, nanoseconds.
    pub sum_ns: u64,
    /// The longest since counting began, also in a difference, nanoseconds.
    pub max_ns: u64,
    /// Counts by length, see [`bucket_floor_ns`]. In a snapshot they wrap at 2³².
    pub buckets: Box<[u32; LATENCY_BUCKETS]>,
}

impl Default for LatencyTotal {
    fn default() -> LatencyTotal {
        LatencyTotal { count: 0, sum_ns: 0, max_ns: 0, buckets: Box::new([0; LATENCY_BUCKETS]) }
    }
}

impl LatencyTotal {
    /// The mean, nanoseconds; `None` of nothing.
    pub fn mean_ns(&self) -> Option<u64> {
        self.sum_ns.checked_div(self.count)
    }

    /// The time that a share of `quantile` (0 to 1) does not exceed, nanoseconds: the upper end of
    /// its bucket, and never more than the longest. `None` of nothing.
    pub fn quantile_ns(&self, quantile: f64) -> Option<u64> {
        let all: u64 = self.buckets.iter().map(|count| u64::from(*count)).sum();
        let wanted = ((all as f64 * quantile).ceil() as u64).max(1);
        let mut sum = 0;
        let index = self.buckets.iter().position(|count| {
            sum += u64::from(*count);
            sum >= wanted
        })?;
        let end_ns = bucket_floor_ns(index + 1).saturating_sub(1);
        Some(if index + 1 == LATENCY_BUCKETS { self.max_ns } else { end_ns.min(self.max_ns) })
    }

    fn add(&mut self, count: u64, sum_ns: u64, max_ns: u64, buckets: &[u32]) {
        self.count += count;
        self.sum_ns += sum_ns;
        self.max_ns = self.max_ns.max(max_ns);
        for (sum, count) in self.buckets.iter_mut().zip(buckets) {
            *sum = sum.wrapping_add(*count);
        }
    }

    /// Adds the times of another total.
    pub fn merge(&mut self, other: &LatencyTotal) {
        self.add(other.count, other.sum_ns, other.max_ns, &*other.buckets);
    }

    fn since(&self, earlier: &LatencyTotal) -> LatencyTotal {
        let mut difference = self.clone();
        difference.count = self.count.saturating_sub(earlier.count);
        difference.sum_ns = self.sum_ns.saturating_sub(earlier.sum_ns);
        for (count, before) in difference.buckets.iter_mut().zip(&*earlier.buckets) {
            *count = count.wrapping_sub(*before);
        }
        difference
    }
}

/// Requests of one kind of operation on one disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IoTotal {
    /// Requests that completed; of bio-based devices bios.
    pub requests: u64,
    /// Bytes of these requests.
    pub bytes: u64,
    /// Requests that completed with an error.
    pub errors: u64,
    /// From the kernel's own start of the request (G) to completion, as in iostat's await. Of bios
    /// only where the kernel stamps them.
    pub latency: LatencyTotal,
    /// From issue to completion, of disks where the kernel stamps the issue itself.
    pub device_time: LatencyTotal,
}

/// All counts at one time, or their growth between two times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AggregateSnapshot {
    /// Time of the snapshot, CLOCK_MONOTONIC nanoseconds; of a difference its end.
    pub time_ns: u64,
    /// By device number (see [`crate::host::devices::number`]) and operation. Number 0 holds the
    /// disks beyond those that the kernel's table has room for.
    pub disks: BTreeMap<(u32, Operation), IoTotal>,
}

impl AggregateSnapshot {
    /// Returns the increase since an earlier snapshot, without disks that did nothing.
    pub fn since(&self, earlier: &AggregateSnapshot) -> AggregateSnapshot {
        let mut new = AggregateSnapshot { time_ns: self.time_ns, ..AggregateSnapshot::default() };
        for (key, now) in &self.disks {
            let total = match earlier.disks.get(key) {
                Some(before) => now.since(before),
                None => now.clone(),
            };
            if total.requests > 0 {
                new.disks.insert(*key, total);
            }
        }
        new
    }

    /// All requests that completed.
    pub fn requests(&self) -> u64 {
        self.disks.values().map(|total| total.requests).sum()
    }
}

impl IoTotal {
    fn add(&mut self, on_cpu: &wire::wire_total) {
        self.requests += on_cpu.requests;
        self.bytes += on_cpu.bytes;
        self.errors += on_cpu.errors;
        let (max, buckets) = (on_cpu.latency_max_ns, &on_cpu.latencies);
        self.latency.add(on_cpu.timed, on_cpu.latency_ns, max, buckets);
        let (max, buckets) = (on_cpu.device_max_ns, &on_cpu.device_times);
        self.device_time.add(on_cpu.issued, on_cpu.device_ns, max, buckets);
    }

    fn since(&self, earlier: &IoTotal) -> IoTotal {
        IoTotal {
            requests: self.requests.saturating_sub(earlier.requests),
            bytes: self.bytes.saturating_sub(earlier.bytes),
            errors: self.errors.saturating_sub(earlier.errors),
            latency: self.latency.since(&earlier.latency),
            device_time: self.device_time.since(&earlier.device_time),
        }
    }
}

/// Reads the kernel's counts.
#[derive(Debug)]
pub struct AggregateReader {
    totals: MapHandle,
    common: MapHandle,
    operations: FxHashMap<u32, Operation>,
}

impl AggregateReader {
    /// Of a session that counts; `None` of one that does not.
    pub fn of(session: &Session, facts: &KernelFeatures) -> Option<AggregateReader> {
        // Without it the counts would be those of a few devices.
        session.counts_requests().then_some(())?;
        AggregateReader::new(|name| session.handle(name), facts)
    }

    fn new(
        map: impl Fn(&str) -> Option<MapHandle>,
        facts: &KernelFeatures,
    ) -> Option<AggregateReader> {
        let names = &facts.operations.names;
        Some(AggregateReader {
            totals: map("totals")?,
            common: map("common_totals")?,
            operations: names.iter().map(|(id, name)| (*id, operation::operation(name))).collect(),
        })
    }

    /// Reads all counts. What completes meanwhile may be in some of them only.
    pub fn snapshot(&self) -> AggregateSnapshot {
        let mut snapshot = AggregateSnapshot::default();
        let mut add = |key: wire::wire_total_key, cpu: &wire::wire_total| {
            let operation = self.operations.get(&key.operation).copied();
            let key = (key.device, operation.unwrap_or(Operation::Other));
            snapshot.disks.entry(key).or_default().add(cpu);
        };
        each_entry(&self.totals, |key, total| add(key, total));
        each_entry(&self.common, |_place: u32, common: &wire::wire_common_total| {
            if common.is_taken != 0 {
                add(common.key, &common.total);
            }
        });
        snapshot.time_ns = system::now_ns();
        snapshot
    }
}

/// Hands the values of each key to `each`, one for each CPU.
fn each_entry<K: FromBytes, V: FromBytes>(map: &MapHandle, mut each: impl FnMut(K, &V)) {
    for key in map.keys() {
        let Ok(values) = map.lookup_percpu(&key, MapFlags::ANY) else { continue };
        for value in values.iter().flatten() {
            let Ok((key, _)) = K::read_from_prefix(&key) else { continue };
            if let Ok((value, _)) = V::read_from_prefix(value) {
                each(key, &value);
            }
        }
    }
}

/// Exact counts without any other part of a watch.
pub struct Aggregates {
    // Drop order: detach first.
    _links: Vec<Link>,
    reader: AggregateReader,
    object: Object,
}

impl Aggregates {
    /// Begins to count the requests of `devices` (by number; empty for all).
    ///
    /// # Errors
    /// Fails if the kernel does not accept the programs; privileges are the caller's concern
    /// ([`crate::privilege::require`]).
    pub fn begin(facts: &KernelFeatures, devices: Vec<u32>) -> Result<Aggregates, WatchError> {
        let fail = |verb, cause: String| {
            let object = "the programs for exact counts".to_owned();
            WatchError::Kernel { verb, object, cause }
        };
        let settings = settings::of(facts, &Wishes { devices, ..Wishes::default() })?;
        let plan = Plan::of_aggregates(facts);
        let is_wanted =
            |name: &std::ffi::OsStr| plan.probes.iter().any(|probe| name == probe.program);
        let (source, file) = (ObjectSource::BuiltIn, object!("aggregate"));
        let object = loader::load(&source, file, is_wanted, |_| false, &settings, &[])
            .map_err(|failure| fail("load", failure.cause))?;
        let mut links = Vec::new();
        for program in object.progs_mut().filter(|program| is_wanted(program.name())) {
            links.push(program.attach().map_err(|cause| fail("attach", cause.to_string()))?);
        }
        let handle =
            |name: &str| MapHandle::try_from(&object.maps().find(|map| map.name() == name)?).ok();
        let reader = AggregateReader::new(handle, facts)
            .ok_or_else(|| fail("read", "a map is missing".to_owned()))?;
        Ok(Aggregates { _links: links, reader, object })
    }

    /// Reads all counts.
    pub fn snapshot(&self) -> AggregateSnapshot {
        self.reader.snapshot()
    }

    /// The reader of the counts.
    pub fn reader(&self) -> &AggregateReader {
        &self.reader
    }

    /// Events that were not counted: BPF recursion protection.
    pub fn skipped(&self) -> u64 {
        handles::misses(std::slice::from_ref(&self.object)).values().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_adjoin_and_a_power_of_two_has_four() {
        assert_eq!([bucket_floor_ns(0), bucket_floor_ns(1)], [0, 1024]);
        assert_eq!([bucket_floor_ns(2), bucket_floor_ns(5)], [1280, 2048]);
        for index in 1..LATENCY_BUCKETS {
            let (floor, next) = (bucket_floor_ns(index), bucket_floor_ns(index + 1));
            assert!(floor < next && next <= floor + floor / 4 + 1, "{floor} {next}");
        }
        // The last one begins at some minutes.
        assert!(bucket_floor_ns(LATENCY_BUCKETS - 1) > 180_000_000_000);
    }

    #[test]
    fn a_quantile_lies_in_its_bucket_and_below_the_longest() {
        let mut total = LatencyTotal::default();
        assert_eq!(total.quantile_ns(0.5), None);
        let mut buckets = [0; LATENCY_BUCKETS];
        (buckets[1], buckets[9]) = (99, 1);
        total.add(100, 99 * 1100 + 4200, 4200, &buckets);
        assert_eq!(total.quantile_ns(0.5), Some(1279));
        assert_eq!(total.quantile_ns(0.99), Some(1279));
        assert_eq!(total.quantile_ns(1.0), Some(4200));
        assert_eq!(total.mean_ns(), Some((99 * 1100 + 4200) / 100));
    }

    #[test]
    fn a_difference_survives_wrapping_and_leaves_out_what_stayed() {
        let key = (8, Operation::Read);
        let mut before = AggregateSnapshot::default();
        before.disks.entry(key).or_default().latency.buckets[3] = u32::MAX;
        before.disks.entry((9, Operation::Read)).or_default().requests = 5;
        let mut after = before.clone();
        let total = after.disks.entry(key).or_default();
        (total.requests, total.latency.buckets[3]) = (2, 1);
        let new = after.since(&before);
        assert_eq!(new.disks.len(), 1);
        assert_eq!(new.disks[&key].latency.buckets[3], 2);
        assert_eq!(new.requests(), 2);
    }
}
