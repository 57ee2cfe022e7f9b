//! Who is charged by whom. Sums are exact; of those that there is no room for, first the files and then
//! the owners are forgotten.

use super::culprit::Culprit;
use super::sweep::Stage;
use crate::analysis::attribution::ProcessKey;
use rustc_hash::FxHashMap;

/// Pairs of a waiter and a culprit that are kept apart.
const PAIRS: usize = 1 << 14;
/// Waiters that are kept apart; any further one is the last.
const WAITERS: usize = 1 << 12;

/// Time by stage, nanoseconds.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Times {
    pub queue_ns: u64,
    pub device_ns: u64,
}

impl Times {
    pub fn whole(self) -> u64 {
        self.queue_ns.saturating_add(self.device_ns)
    }

    pub fn add(&mut self, other: Times) {
        self.queue_ns = self.queue_ns.saturating_add(other.queue_ns);
        self.device_ns = self.device_ns.saturating_add(other.device_ns);
    }

    fn in_stage(stage: Stage, time: u64) -> Times {
        match stage {
            Stage::Queue => Times { queue_ns: time, device_ns: 0 },
            Stage::Device => Times { queue_ns: 0, device_ns: time },
        }
    }
}

/// One who waited.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiter {
    /// `None` stands for all further ones.
    pub key: Option<ProcessKey>,
    pub waits: u64,
    /// While nobody was served.
    pub idle: Times,
    /// Of which nothing is known.
    pub unknown: Times,
}

/// What a culprit is charged with by a waiter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair {
    pub waiter: u32,
    pub culprit: Culprit,
    pub times: Times,
}

/// Who is charged by whom.
#[derive(Clone, Debug, Default)]
pub(super) struct Accounts {
    numbers: FxHashMap<ProcessKey, u32>,
    waiters: Vec<Waiter>,
    index: FxHashMap<(u32, Culprit), u32>,
    /// In the order of first sight, which does not depend on hashes.
    pairs: Vec<Pair>,
}

impl Accounts {
    /// The number of a waiter.
    pub fn waiter(&mut self, key: ProcessKey) -> u32 {
        if let Some(number) = self.numbers.get(&key) {
            return *number;
        }
        let number = self.waiters.len().min(WAITERS) as u32;
        if self.waiters.len() <= WAITERS {
            let key = (self.waiters.len() < WAITERS).then_some(key);
            let (idle, unknown) = (Times::default(), Times::default());
            self.waiters.push(Waiter { key, waits: 0, idle, unknown });
        }
        if (number as usize) < WAITERS {
            self.numbers.insert(key, number);
        }
        number
    }

    /// Counts a wait, of whose time in `unknown` no request tells.
    pub fn note_wait(&mut self, waiter: u32, unknown: Times) {
        if let Some(waiter) = self.waiters.get_mut(waiter as usize) {
            waiter.waits += 1;
            waiter.unknown.add(unknown);
        }
    }

    /// Takes note of a waiter's time of which nothing is known.
    pub fn unknown(&mut self, waiter: u32, stage: Stage, time: u64) {
        if let Some(waiter) = self.waiters.get_mut(waiter as usize) {
            waiter.unknown.add(Times::in_stage(stage, time));
        }
    }

    /// Charges a waiter's time to nobody.
    pub fn idle(&mut self, waiter: u32, stage: Stage, time: u64) {
        if let Some(waiter) = self.waiters.get_mut(waiter as usize) {
            waiter.idle.add(Times::in_stage(stage, time));
        }
    }

    /// Charges a waiter's time to a culprit.
    pub fn charge(&mut self, waiter: u32, stage: Stage, culprit: Culprit, time: u64) {
        if time > 0 {
            self.add(waiter, culprit, Times::in_stage(stage, time));
            if self.pairs.len() > PAIRS {
                self.make_room();
            }
        }
    }

    fn add(&mut self, waiter: u32, culprit: Culprit, times: Times) {
        let next = self.pairs.len() as u32;
        let slot = *self.index.entry((waiter, culprit)).or_insert(next);
        match self.pairs.get_mut(slot as usize) {
            Some(pair) => pair.times.add(times),
            None => self.pairs.push(Pair { waiter, culprit, times }),
        }
    }

    /// Keeps the half with the most time; the others lose their file, and where that is gone, their
    /// owner.
    fn make_room(&mut self) {
        let mut pairs = std::mem::take(&mut self.pairs);
        pairs.sort_by_key(|pair| std::cmp::Reverse(pair.times.whole()));
        let rest = pairs.split_off(PAIRS / 2);
        self.index.clear();
        for pair in pairs {
            self.add(pair.waiter, pair.culprit, pair.times);
        }
        for pair in rest {
            // Where even these fill the table, nothing is distinguished but the waiter.
            let full = self.pairs.len() > PAIRS * 5 / 8;
            let culprit = if full { Culprit::FURTHER } else { pair.culprit.coarser() };
            self.add(pair.waiter, culprit, pair.times);
        }
    }

    /// All waiters, by number.
    pub fn waiters(&self) -> &[Waiter] {
        &self.waiters
    }

    /// All pairs.
    pub fn pairs(&self) -> &[Pair] {
        &self.pairs
    }
}
