//! Computes the charges of one interval of one device.
//!
//! While a device has requests, its time is divided equally among them. The curve `V` rises by 1/n
//! per nanosecond while there are n requests. A culprit with k requests gets `k·V`, so its curve
//! `C` is `k·V + K` at any time, where `K` changes only when k does. A waiter's charge is the
//! difference of `C` between the end and the beginning of its interval, summed over its intervals.
//! Each edge costs a sort and a step, and each edge of an interval a pass over the culprits.

use super::accounts::{Accounts, WaitedFor};
use super::culprit::{Culprit, CulpritSums, Culprits, UNITS};
use crate::sums::usage_by_key;
use rustc_hash::FxHashMap;

/// Maximum number of culprits in one interval, with their files and without.
const WITH_FILES: usize = 48;
const WITHOUT_FILES: usize = 15;
/// The last slot is for all others.
const SLOTS: usize = WITH_FILES + WITHOUT_FILES + 1;
/// Number of waiters that are charged in one pass.
const WAITERS: usize = 1 << 10;

/// A request, or a part of one, at the device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Service {
    pub from: u64,
    pub to: u64,
    /// Of [`UNITS`].
    pub units: u16,
    /// Its number in [`Culprits`].
    pub culprit: u32,
}

/// An interval of a wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitInterval {
    pub from: u64,
    pub to: u64,
    /// The waiter's number in [`Accounts`].
    pub waiter: u32,
    pub stage: WaitedFor,
}

/// Charges `intervals` to the owners of `services`; every nanosecond is charged to a culprit or to
/// idle time.
pub(super) fn sweep(
    services: &[Service],
    culprits: &Culprits,
    intervals: &[WaitInterval],
    accounts: &mut Accounts,
) {
    let mut kinds: FxHashMap<(u32, WaitedFor), usize> = FxHashMap::default();
    let mut waiters: Vec<(u32, WaitedFor)> = Vec::new();
    let mut latest = ((u32::MAX, WaitedFor::Queue), 0);
    let mut place_of = |interval: &WaitInterval| {
        let key = (interval.waiter, interval.stage);
        if latest.0 != key {
            let slot = *kinds.entry(key).or_insert_with(|| {
                waiters.push(key);
                waiters.len() - 1
            });
            latest = (key, slot);
        }
        latest.1
    };
    let assigned: Vec<(WaitInterval, usize)> =
        intervals.iter().map(|interval| (*interval, place_of(interval))).collect();
    let mut first = 0;
    for group in waiters.chunks(WAITERS) {
        let own = assigned.iter().filter_map(|(interval, slot)| {
            let slot = slot.checked_sub(first)?;
            (slot < group.len()).then_some((*interval, slot))
        });
        pass(services, culprits, &own.collect::<Vec<_>>(), group, accounts);
        first += group.len();
    }
}

fn pass(
    services: &[Service],
    culprits: &Culprits,
    intervals: &[(WaitInterval, usize)],
    waiters: &[(u32, WaitedFor)],
    accounts: &mut Accounts,
) {
    let Some(from) = intervals.iter().map(|(interval, _)| interval.from).min() else { return };
    let to = intervals.iter().map(|(interval, _)| interval.to).max().unwrap_or(from);
    let slots = CulpritSlots::new(services, culprits, from, to);
    let mut edges: Vec<Edge> = Vec::with_capacity((services.len() + intervals.len()) * 2);
    for (service, slot) in services.iter().zip(&slots.of_service) {
        if service.to > from && service.from < to {
            let (begin, end) = (service.from.max(from) - from, service.to.min(to) - from);
            edges.push(Edge::service(begin, service.units, usize::from(*slot), false));
            edges.push(Edge::service(end, service.units, usize::from(*slot), true));
        }
    }
    let mut totals = vec![0_u64; waiters.len()];
    for (interval, waiter) in intervals {
        edges.push(Edge::waiter(interval.from - from, *waiter, false));
        edges.push(Edge::waiter(interval.to - from, *waiter, true));
        totals[*waiter] = totals[*waiter].saturating_add(interval.to - interval.from);
    }
    edges.sort_unstable();
    let mut integral = Integral::new(slots.culprits.len(), waiters.len());
    edges.iter().for_each(|edge| integral.step(*edge));
    for (index, (waiter, stage)) in waiters.iter().enumerate() {
        let (shares, idle) = integral.shares_of(index, totals[index]);
        accounts.idle(*waiter, *stage, idle);
        for (culprit, time) in slots.culprits.iter().zip(shares) {
            accounts.charge(*waiter, *stage, *culprit, time);
        }
    }
}

/// The slot of each service: the culprits that were served longest have one each.
struct CulpritSlots {
    of_service: Vec<u8>,
    culprits: Vec<Culprit>,
}

impl CulpritSlots {
    fn new(services: &[Service], culprits: &Culprits, from: u64, to: u64) -> CulpritSlots {
        let mut sums = CulpritSums::new(culprits);
        let of_service: Vec<u32> = services
            .iter()
            .map(|service| {
                let time = service.to.min(to).saturating_sub(service.from.max(from));
                let time = time.saturating_mul(u64::from(service.units));
                sums.add(culprits, service.culprit, time)
            })
            .collect();
        let found = FoundCulprits { sums: sums.sums, ..FoundCulprits::default() };
        let named = found.largest(WITH_FILES);
        let mut rest = FoundCulprits::default();
        let coarser: Vec<Option<u32>> = (0..found.sums.len())
            .map(|index| {
                let (culprit, time) = found.sums[index];
                named[index].is_none().then(|| rest.add(culprit.coarser(), time))
            })
            .collect();
        let aggregated = rest.largest(WITHOUT_FILES);
        let mut culprits: Vec<Culprit> = found.kept(&named);
        let with_files = culprits.len() as u8;
        culprits.extend(rest.kept(&aggregated));
        let last = culprits.len() as u8;
        if aggregated.contains(&None) {
            culprits.push(Culprit::FURTHER);
        }
        let slot = |index: u32| -> u8 {
            let index = index as usize;
            match (named[index], coarser[index]) {
                (Some(slot), _) => slot,
                (None, Some(coarse)) => {
                    aggregated[coarse as usize].map_or(last, |slot| with_files + slot)
                }
                (None, None) => last,
            }
        };
        CulpritSlots { of_service: of_service.into_iter().map(slot).collect(), culprits }
    }
}

/// Culprits in order of first occurrence, and the time that they were served.
#[derive(Default)]
struct FoundCulprits {
    /// By [`Culprit::packed`].
    index: FxHashMap<(u64, u64), u32>,
    sums: Vec<(Culprit, u64)>,
    latest: u32,
}

impl FoundCulprits {
    #[inline]
    fn add(&mut self, culprit: Culprit, time: u64) -> u32 {
        let is_latest = self.sums.get(self.latest as usize).is_some_and(|sum| sum.0 == culprit);
        if !is_latest {
            let sums = &mut self.sums;
            self.latest = *self.index.entry(culprit.packed()).or_insert_with(|| {
                sums.push((culprit, 0));
                sums.len() as u32 - 1
            });
        }
        if let Some((_, sum)) = self.sums.get_mut(self.latest as usize) {
            *sum = sum.saturating_add(time);
        }
        self.latest
    }

    /// The indices of the `most` with the longest time; among equal ones, the earlier.
    fn largest(&self, most: usize) -> Vec<Option<u8>> {
        let mut slots = vec![None; self.sums.len()];
        let sums: Vec<u64> = self.sums.iter().map(|(_, sum)| *sum).collect();
        let order = usage_by_key::largest(&sums, most);
        for (slot, index) in order.into_iter().enumerate() {
            slots[index] = Some(slot as u8);
        }
        slots
    }

    /// The culprits with a slot, in the order of slots.
    fn kept(&self, slots: &[Option<u8>]) -> Vec<Culprit> {
        let assigned = self.sums.iter().zip(slots);
        let mut kept: Vec<(u8, Culprit)> =
            assigned.filter_map(|((culprit, _), slot)| Some(((*slot)?, *culprit))).collect();
        kept.sort_unstable_by_key(|(slot, _)| *slot);
        kept.into_iter().map(|(_, culprit)| culprit).collect()
    }
}

/// The beginning or end of an interval in one word that sorts by time: 46 bits of nanoseconds (19
/// hours), then its kind.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Edge(u64);

impl Edge {
    const TIME_SHIFT: u32 = 18;
    const WAITER: u64 = 1 << 17;
    const END: u64 = 1 << 16;
    const UNITS_SHIFT: u32 = 10;
    const SLOT: u64 = (1 << Self::UNITS_SHIFT) - 1;
    /// Later times are clamped.
    const LATEST: u64 = (1 << (64 - Self::TIME_SHIFT)) - 1;

    fn new(time: u64, what: u64, is_end: bool) -> Edge {
        let end = if is_end { Self::END } else { 0 };
        Edge(time.min(Self::LATEST) << Self::TIME_SHIFT | what | end)
    }

    #[inline]
    fn service(time: u64, units: u16, slot: usize, is_end: bool) -> Edge {
        Edge::new(time, u64::from(units) << Self::UNITS_SHIFT | slot as u64, is_end)
    }

    fn waiter(time: u64, waiter: usize, is_end: bool) -> Edge {
        Edge::new(time, Self::WAITER | waiter as u64, is_end)
    }
}

/// The curves, up to the latest edge.
struct Integral {
    latest: u64,
    /// Units of all requests that are served.
    served: u64,
    /// Nanoseconds for each unit that is served.
    per_unit: f64,
    idle_ns: u64,
    units: [f64; SLOTS],
    /// The offset of `units * per_unit` to a slot's curve.
    offsets: [f64; SLOTS],
    used: usize,
    /// The charges of each waiter, by slot.
    charges: Vec<[f64; SLOTS]>,
    /// The time that each waiter waited while the device had no request; wraps until all its
    /// intervals have ended.
    idle: Vec<u64>,
}

impl Integral {
    fn new(used: usize, waiters: usize) -> Integral {
        Integral {
            latest: 0,
            served: 0,
            per_unit: 0.0,
            idle_ns: 0,
            units: [0.0; SLOTS],
            offsets: [0.0; SLOTS],
            used,
            charges: vec![[0.0; SLOTS]; waiters],
            idle: vec![0; waiters],
        }
    }

    #[inline]
    fn step(&mut self, Edge(edge): Edge) {
        let time = edge >> Edge::TIME_SHIFT;
        let passed = time - self.latest;
        if passed > 0 {
            self.latest = time;
            match self.served {
                0 => self.idle_ns += passed,
                served => self.per_unit += passed as f64 / served as f64,
            }
        }
        let (slot, is_end) = ((edge & Edge::SLOT) as usize, edge & Edge::END != 0);
        if edge & Edge::WAITER != 0 {
            self.wait(slot, is_end);
        } else {
            let units = (edge & (Edge::END - 1)) >> Edge::UNITS_SHIFT;
            self.serve(slot, units, is_end);
        }
    }

    #[inline]
    fn serve(&mut self, slot: usize, units: u64, is_end: bool) {
        let change = if is_end { -(units as f64) } else { units as f64 };
        self.served = if is_end { self.served - units } else { self.served + units };
        if let (Some(own), Some(offset)) = (self.units.get_mut(slot), self.offsets.get_mut(slot)) {
            *own += change;
            *offset -= change * self.per_unit;
        }
    }

    #[inline]
    fn wait(&mut self, waiter: usize, is_end: bool) {
        let sign = if is_end { 1.0 } else { -1.0 };
        if let Some(charges) = self.charges.get_mut(waiter) {
            let curves = self.units.iter().zip(&self.offsets);
            for (charge, (units, offset)) in charges.iter_mut().zip(curves).take(self.used) {
                *charge += sign * (units * self.per_unit + offset);
            }
        }
        if let Some(idle) = self.idle.get_mut(waiter) {
            let change = if is_end { self.idle_ns } else { self.idle_ns.wrapping_neg() };
            *idle = idle.wrapping_add(change);
        }
    }

    /// The charges of a waiter of `total` nanoseconds by slot, and the time in which the device had
    /// no request. They add up to the total, to the nanosecond.
    fn shares_of(&self, waiter: usize, total: u64) -> (Vec<u64>, u64) {
        let idle = self.idle.get(waiter).map_or(total, |idle| (*idle).min(total));
        let charges = self.charges.get(waiter).map_or(&[][..], |charges| &charges[..self.used]);
        let mut shares: Vec<u64> =
            charges.iter().map(|time| time.round().max(0.0) as u64).collect();
        let (sum, busy) = (shares.iter().copied().fold(0, u64::saturating_add), total - idle);
        // The largest share takes the nanoseconds that rounding leaves.
        let largest = shares.iter_mut().max();
        match largest
            .and_then(|largest| Some((largest.saturating_add(busy).checked_sub(sum)?, largest)))
        {
            Some((whole, largest)) => *largest = whole,
            None => return (vec![0; shares.len()], total),
        }
        (shares, idle)
    }
}

/// A whole request's units fit into an edge.
const _: () = assert!(UNITS < 1 << 6);
