//! Recent requests and waits of one device. Requests come in order of completion, so one that was
//! issued long ago may come late: they are kept until there are many, then the older half is
//! settled.
//!
//! Waits and requests that reach into a settled interval are charged by its means, which is an
//! estimate.

use super::accounts::Accounts;
use super::culprit::{self, Culprit, CulpritSums, Culprits};
use super::sweep::{Service, WaitInterval, sweep};
use crate::sums::usage_by_key;
use iowhy_model::wait::split::Span;
use iowhy_model::{Request, RequestPart};
use rustc_hash::FxHashMap;

/// Number of settled intervals whose means are kept; older ones are merged.
const PAST: usize = 64;
/// Maximum number of culprits of a settled interval.
const PAST_CULPRITS: usize = 16;
/// Number of intervals per kept request from which they are settled early.
const MOST_INTERVALS: usize = 1 << 18;

/// A settled interval and its culprits.
#[derive(Clone, Debug)]
struct PastInterval {
    from: u64,
    to: u64,
    /// Time that their requests were at the device.
    culprits: Vec<(Culprit, u64)>,
}

/// The recent time of one device.
#[derive(Clone, Debug, Default)]
pub(super) struct ServiceWindow {
    services: Vec<Service>,
    culprits: Culprits,
    intervals: Vec<WaitInterval>,
    /// The time up to which everything is settled.
    settled_ns: u64,
    past: Vec<PastInterval>,
}

impl ServiceWindow {
    /// The number of services.
    pub fn len(&self) -> usize {
        self.services.len()
    }

    /// Adds a request that was at the device; returns the number of services that it adds.
    #[inline]
    pub fn serve(&mut self, request: &Request, parts: &[RequestPart], span: Span) -> usize {
        let before = self.services.len();
        let from = if span.issued_ns == 0 { span.queued_ns } else { span.issued_ns };
        let to = if span.completed_ns == 0 { u64::MAX } else { span.completed_ns };
        culprit::split(request, parts, |culprit, units| {
            let culprit = self.culprits.number(culprit);
            self.services.push(Service { from, to: to.max(from), units, culprit });
        });
        self.services.len() - before
    }

    /// Adds a wait for the device.
    pub fn wait(&mut self, interval: WaitInterval, accounts: &mut Accounts) {
        let early = WaitInterval { to: interval.to.min(self.settled_ns), ..interval };
        if early.from < early.to {
            self.estimate(early, accounts);
        }
        let from = interval.from.max(self.settled_ns);
        if from < interval.to {
            self.intervals.push(WaitInterval { from, ..interval });
        }
        if self.intervals.len() > MOST_INTERVALS {
            self.settle_older(accounts);
        }
    }

    /// Settles the older half.
    pub fn settle_older(&mut self, accounts: &mut Accounts) {
        let ends = self.services.iter().map(|service| service.to);
        let mut ends: Vec<u64> = ends.filter(|end| *end < u64::MAX).collect();
        let middle = ends.len() / 2;
        if ends.len() < self.services.len() / 2 || ends.is_empty() {
            // More open requests than any device has; they are not worth the memory.
            self.services.truncate(self.services.len() / 2);
            for WaitInterval { from, to, waiter, stage } in self.intervals.drain(..) {
                accounts.unknown(waiter, stage, to - from);
            }
            return;
        }
        let (_, until, _) = ends.select_nth_unstable(middle);
        let until = (*until).max(self.settled_ns);
        // Longer waits are not all known yet: a live watch and its recording must agree.
        let (ended, waiting): (Vec<WaitInterval>, Vec<WaitInterval>) =
            self.intervals.drain(..).partition(|interval| interval.to <= until);
        sweep(&self.services, &self.culprits, &ended, accounts);
        self.keep_past(until);
        self.services.retain(|service| service.to > until);
        self.forget_culprits();
        self.settled_ns = until;
        for interval in waiting {
            self.wait(interval, accounts);
        }
    }

    /// Settles everything; open requests were at the device until `end_ns`.
    pub fn settle_all(&mut self, end_ns: u64, accounts: &mut Accounts) {
        for service in self.services.iter_mut().filter(|service| service.to == u64::MAX) {
            service.to = end_ns.max(service.from);
        }
        sweep(&self.services, &self.culprits, &self.intervals, accounts);
        self.services.clear();
        self.intervals.clear();
    }

    /// Removes unused culprits, once there are many.
    fn forget_culprits(&mut self) {
        if self.culprits.len() > self.services.len() * 2 {
            let mut culprits = Culprits::default();
            for service in &mut self.services {
                service.culprit = culprits.number(self.culprits.of(service.culprit));
            }
            self.culprits = culprits;
        }
    }

    /// Keeps the culprits that were served until `until`.
    fn keep_past(&mut self, until: u64) {
        let from = self.settled_ns;
        let begun = self.services.iter().map(|service| service.from).min().unwrap_or(until);
        let from = from.max(begun);
        let mut sums = CulpritSums::new(&self.culprits);
        for service in &self.services {
            let time = service.to.min(until).saturating_sub(service.from.max(from));
            if time > 0 {
                let time = time.saturating_mul(u64::from(service.units));
                sums.add(&self.culprits, service.culprit, time);
            }
        }
        // Each culprit has one sum already.
        let culprits = shortened(sums.sums);
        self.past.push(PastInterval { from, to: until, culprits });
        if self.past.len() > PAST {
            self.join_past();
        }
    }

    /// Merges neighbours in the older half.
    fn join_past(&mut self) {
        let newer = self.past.split_off(PAST / 2);
        let mut older = std::mem::take(&mut self.past).into_iter();
        while let Some(mut first) = older.next() {
            if let Some(second) = older.next() {
                first.to = second.to;
                first.culprits.extend(second.culprits);
                first.shorten();
            }
            self.past.push(first);
        }
        self.past.extend(newer);
    }

    /// Charges an interval that is already settled by the means of the settled intervals that it
    /// overlaps.
    fn estimate(&self, interval: WaitInterval, accounts: &mut Accounts) {
        let mut charged = 0;
        for past in &self.past {
            let time = interval.to.min(past.to).saturating_sub(interval.from.max(past.from));
            if time > 0 {
                past.charge(interval, time, accounts);
                charged += time;
            }
        }
        let rest = (interval.to - interval.from).saturating_sub(charged);
        accounts.idle(interval.waiter, interval.stage, rest);
    }
}

/// The largest sums, and all others as one.
fn shortened(sums: Vec<(Culprit, u64)>) -> Vec<(Culprit, u64)> {
    let time = |(_, time): &(Culprit, u64)| *time;
    let times: Vec<u64> = sums.iter().map(time).collect();
    let all = times.iter().copied().fold(0, u64::saturating_add);
    let order = usage_by_key::largest(&times, PAST_CULPRITS);
    let mut kept: Vec<(Culprit, u64)> = order.into_iter().map(|index| sums[index]).collect();
    let rest = all.saturating_sub(kept.iter().map(time).fold(0, u64::saturating_add));
    if rest > 0 {
        kept.push((Culprit::FURTHER, rest));
    }
    kept
}

impl PastInterval {
    /// Merges entries of the same culprit, and all beyond the largest.
    fn shorten(&mut self) {
        let mut index: FxHashMap<Culprit, usize> = FxHashMap::default();
        let mut sums: Vec<(Culprit, u64)> = Vec::new();
        for (culprit, time) in self.culprits.drain(..) {
            let slot = *index.entry(culprit).or_insert(sums.len());
            match sums.get_mut(slot) {
                Some((_, sum)) => *sum = sum.saturating_add(time),
                None => sums.push((culprit, time)),
            }
        }
        self.culprits = shortened(sums);
    }

    /// Charges `time` of an interval in proportion to each culprit's time at the device.
    fn charge(&self, interval: WaitInterval, time: u64, accounts: &mut Accounts) {
        let whole: u128 = self.culprits.iter().map(|(_, sum)| u128::from(*sum)).sum();
        let (mut sum, mut done) = (0_u128, 0);
        for (culprit, part) in &self.culprits {
            sum += u128::from(*part);
            let until = (u128::from(time) * sum / whole.max(1)) as u64;
            accounts.charge(interval.waiter, interval.stage, *culprit, until - done);
            done = until;
        }
        accounts.idle(interval.waiter, interval.stage, time - done);
    }
}
