//! Usage by key, in bounded memory.
//!
//! Every key has its own exact figures until there are more than the table's limit. Then the half
//! with the least time and the fewest bytes is moved to the "others" of its slot. Sums stay exact.
//! A key that returns starts from zero, so its figures are a lower bound, by less than the smallest
//! key that was kept. No key is charged with another's usage.

use super::calibration::Calibration;
use super::device_layer::DeviceLayer;
use crate::summary::{ByDirection, Direction, Measure};
use rustc_hash::FxHashMap;
use std::hash::Hash;

/// The usage of one key.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[repr(C)]
pub(crate) struct Used {
    /// The number of the last request counted, so that its further parts do not count it again.
    last: u64,
    /// Requests that ended during the watch.
    pub ended: ByDirection<Measure>,
    /// Requests that had not ended; their time is a lower bound.
    pub open: Measure,
    /// Requests that the table's owner marked: a file's sequential reads and writes, a code path's
    /// stacks.
    pub marked: u64,
}

impl Used {
    #[inline]
    fn note(&mut self, charge: &Charge) {
        let sum = if charge.open { &mut self.open } else { &mut self.ended[charge.direction] };
        let is_counted = self.last == charge.sequence;
        self.last = charge.sequence;
        let count = if is_counted { 0 } else { charge.measure.count };
        sum.add(&Measure { count, ..charge.measure });
    }

    /// Scales what completed.
    fn calibrate(&mut self, directions: &ByDirection<Calibration>) {
        let before = self.all().count;
        for (sum, calibration) in self.ended.0.iter_mut().zip(&directions.0) {
            calibration.apply(sum);
        }
        let after = self.all().count;
        self.marked = Calibration::new((before, 0), (after, 0)).count(self.marked);
    }

    /// Adds the usage of another key, or of the same key in another table.
    pub fn add(&mut self, other: &Used) {
        for (own, theirs) in self.ended.0.iter_mut().zip(&other.ended.0) {
            own.add(theirs);
        }
        self.open.add(&other.open);
        self.marked = self.marked.saturating_add(other.marked);
    }

    /// All directions together, without the open requests.
    pub fn all(&self) -> Measure {
        let mut sum = Measure::default();
        self.ended.0.iter().for_each(|ended| sum.add(ended));
        sum
    }

    /// Time that ended and open requests took, nanoseconds.
    pub fn time_ns(&self) -> u64 {
        self.all().time_ns.saturating_add(self.open.time_ns)
    }
}

/// A part of a request that is charged to keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Charge {
    /// Numbers the requests from 1.
    pub sequence: u64,
    pub device_layer: DeviceLayer,
    pub direction: Direction,
    pub open: bool,
    /// The share of the request, as often as the request stands for.
    pub measure: Measure,
}

impl Charge {
    /// The same for `weight` requests like this one.
    pub fn times(&self, weight: u64) -> Charge {
        Charge { measure: self.measure.times(weight), ..*self }
    }
}

/// Usage that was moved out of a full table.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Aggregated {
    /// Number of keys; one that was moved out twice counts twice.
    pub keys: u64,
    pub used: Used,
}

/// A key of a slot, and its usage. In this order and aligned to a cache line, a charge to one of
/// many keys touches one or two lines.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct UsageSlot<K> {
    pub key: K,
    pub device_layer: DeviceLayer,
    pub used: Used,
}

/// Usage by key and slot, in bounded memory.
#[derive(Clone, Debug)]
pub(crate) struct Bounded<K> {
    index: FxHashMap<(DeviceLayer, K), u32>,
    /// In order of first occurrence, which does not depend on hashes.
    rows: Vec<UsageSlot<K>>,
    limit: usize,
    latest: u32,
    /// By slot.
    aggregated: Vec<Aggregated>,
    /// Whether moved keys are also returned individually.
    hands_out: bool,
    moved_out: Vec<UsageSlot<K>>,
}

impl<K: Copy + Eq + Hash> Bounded<K> {
    pub fn new(limit: usize) -> Bounded<K> {
        Bounded {
            index: FxHashMap::default(),
            rows: Vec::new(),
            limit,
            latest: 0,
            aggregated: Vec::new(),
            hands_out: false,
            moved_out: Vec::new(),
        }
    }

    /// A table that also returns moved keys: see [`Bounded::moved_out`].
    pub fn handing_out(limit: usize) -> Bounded<K> {
        Bounded { hands_out: true, ..Bounded::new(limit) }
    }

    /// The keys that were moved out since the last call.
    #[inline]
    pub fn moved_out(&mut self) -> Option<Vec<UsageSlot<K>>> {
        (!self.moved_out.is_empty()).then(|| std::mem::take(&mut self.moved_out))
    }

    /// Adds usage to `key` that was counted elsewhere.
    pub fn absorb(&mut self, device_layer: DeviceLayer, key: K, used: &Used) {
        if let Some(own) = self.used(device_layer, key) {
            own.add(used);
        }
    }

    /// Charges `key`.
    #[inline]
    pub fn charge(&mut self, key: K, charge: &Charge) {
        if let Some(used) = self.used(charge.device_layer, key) {
            used.note(charge);
        }
    }

    /// Marks `requests` of `key`.
    #[inline]
    pub fn mark(&mut self, device_layer: DeviceLayer, key: K, requests: u64) {
        if let Some(used) = self.used(device_layer, key) {
            used.marked = used.marked.saturating_add(requests);
        }
    }

    #[inline]
    fn used(&mut self, device_layer: DeviceLayer, key: K) -> Option<&mut Used> {
        let is_latest = self
            .rows
            .get(self.latest as usize)
            .is_some_and(|row| row.device_layer == device_layer && row.key == key);
        if !is_latest {
            self.latest = match self.index.get(&(device_layer, key)) {
                Some(slot) => *slot,
                None => self.first_sight(device_layer, key),
            };
        }
        self.rows.get_mut(self.latest as usize).map(|row| &mut row.used)
    }

    fn first_sight(&mut self, device_layer: DeviceLayer, key: K) -> u32 {
        if self.rows.len() >= self.limit {
            self.make_room();
        }
        let slot = self.rows.len() as u32;
        self.rows.push(UsageSlot { key, device_layer, used: Used::default() });
        self.index.insert((device_layer, key), slot);
        slot
    }

    /// Keeps the quarter with the most time and the quarter with the most bytes.
    fn make_room(&mut self) {
        let mut keep = vec![false; self.rows.len()];
        let by_time = |row: &UsageSlot<K>| row.used.all().time_ns;
        let by_bytes = |row: &UsageSlot<K>| row.used.all().bytes;
        mark_largest(&mut keep, self.rows.iter().map(by_time).collect(), self.limit / 4);
        mark_largest(&mut keep, self.rows.iter().map(by_bytes).collect(), self.limit / 4);
        self.index.clear();
        for (keep, row) in keep.into_iter().zip(std::mem::take(&mut self.rows)) {
            if keep {
                self.index.insert((row.device_layer, row.key), self.rows.len() as u32);
                self.rows.push(row);
            } else {
                self.aggregate(row.device_layer, &row.used);
                if self.hands_out {
                    self.moved_out.push(row);
                }
            }
        }
    }

    fn aggregate(&mut self, device_layer: DeviceLayer, used: &Used) {
        let slot = device_layer.index();
        if self.aggregated.len() <= slot {
            self.aggregated.resize(slot + 1, Aggregated::default());
        }
        self.aggregated[slot].keys += 1;
        self.aggregated[slot].used.add(used);
    }

    /// Every key with its slot, in order of first occurrence.
    pub fn rows(&self) -> &[UsageSlot<K>] {
        &self.rows
    }

    /// Scales all usage to what the kernel counted of its device.
    pub fn calibrate(&mut self, by_device: &[ByDirection<Calibration>]) {
        let moved = self.aggregated.iter_mut().enumerate();
        let moved = moved.map(|(slot, sum)| (DeviceLayer::at(slot), &mut sum.used));
        let rows = self.rows.iter_mut().map(|row| (row.device_layer, &mut row.used));
        for (device_layer, used) in rows.chain(moved) {
            if let Some(directions) = by_device.get(device_layer.device()) {
                used.calibrate(directions);
            }
        }
    }

    /// Changes the usage of every key.
    pub fn change(&mut self, change: impl Fn(DeviceLayer, &K, &mut Used)) {
        self.rows.iter_mut().for_each(|row| change(row.device_layer, &row.key, &mut row.used));
    }

    /// The usage that was moved out, by slot.
    pub fn aggregated(&self) -> impl Iterator<Item = (DeviceLayer, &Aggregated)> {
        self.aggregated
            .iter()
            .enumerate()
            .map(|(slot, aggregated)| (DeviceLayer::at(slot), aggregated))
    }
}

/// Marks the `count` largest of `values`; among equal ones, the earlier.
fn mark_largest(marks: &mut [bool], values: Vec<u64>, count: usize) {
    largest(&values, count).into_iter().for_each(|index| marks[index] = true);
}

/// The indices of the `count` largest values, the largest first; among equal ones, the earlier.
/// Sorts no others.
pub(crate) fn largest(values: &[u64], count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    let rank = |index: &usize| (std::cmp::Reverse(values[*index]), *index);
    if count < values.len() {
        order.select_nth_unstable_by_key(count, rank);
        order.truncate(count);
    }
    order.sort_unstable_by_key(rank);
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sums::device_layer::RequestLayer;

    #[test]
    fn the_largest_are_those_that_sorting_gives() {
        for (len, below) in [(0, 1), (1, 1), (100, 7), (1000, 100_000)] {
            let values: Vec<u64> = (0..len).map(|index| index * 2_654_435_761 % below).collect();
            let mut sorted: Vec<usize> = (0..values.len()).collect();
            sorted.sort_by_key(|index| std::cmp::Reverse(values[*index]));
            for count in [0, 1, 16, 99, 100, 2000] {
                let found = largest(&values, count);
                assert_eq!(found, sorted[..count.min(sorted.len())], "{count} of {len}");
            }
        }
    }

    fn charge(sequence: u64, bytes: u64, time_ns: u64) -> Charge {
        let device_layer = DeviceLayer::new(0, RequestLayer::Top);
        let direction = Direction::Read;
        let measure = Measure { count: 1, bytes, time_ns, longest_ns: time_ns };
        Charge { sequence, device_layer, direction, open: false, measure }
    }

    #[test]
    fn parts_of_one_request_count_it_once() {
        let mut table = Bounded::new(8);
        table.charge('a', &charge(1, 10, 5));
        table.charge('b', &charge(1, 30, 15));
        table.charge('a', &charge(1, 20, 10));
        table.charge('a', &charge(2, 1, 1));
        let used: Vec<Measure> = table.rows().iter().map(|row| row.used.all()).collect();
        assert_eq!(used[0], Measure { count: 2, bytes: 31, time_ns: 16, longest_ns: 10 });
        assert_eq!(used[1], Measure { count: 1, bytes: 30, time_ns: 15, longest_ns: 15 });
    }

    #[test]
    fn a_full_table_keeps_the_largest_and_every_sum() {
        let mut table = Bounded::new(64);
        for index in 0..100_000_u64 {
            table.charge(index % 5, &charge(index * 3 + 1, 1000, 1));
            table.charge(7, &charge(index * 3 + 2, 1, 1000));
            table.charge(1000 + index, &charge(index * 3 + 3, 10, 10));
        }
        assert!(table.rows().len() <= 64);
        let mut all = Used::default();
        table.rows().iter().for_each(|row| all.add(&row.used));
        let mut keys = table.rows().len() as u64;
        for (_, aggregated) in table.aggregated() {
            all.add(&aggregated.used);
            keys += aggregated.keys;
        }
        assert_eq!(all.all().count, 300_000);
        assert_eq!(all.all().bytes, 100_000 * 1011);
        assert_eq!(keys, 100_006);
        let seventh = table.rows().iter().find(|row| row.key == 7).unwrap();
        assert_eq!(
            seventh.used.all(),
            Measure { count: 100_000, bytes: 100_000, time_ns: 100_000_000, longest_ns: 1000 }
        );
    }
}
