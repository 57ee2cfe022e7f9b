//! The charges of waiters to culprits. Sums are exact; if the table is full, entries lose first
//! their file, then their owner.

use super::culprit::Culprit;
use crate::sums::keys::ProcessKey;
use rustc_hash::FxHashMap;

/// Maximum number of pairs of a waiter and a culprit.
const PAIRS: usize = 1 << 14;
/// Maximum number of waiters; further ones share the last entry.
const WAITERS: usize = 1 << 12;

/// The stage of a waiter.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum WaitedFor {
    /// Its requests are queued, none of them is at the device.
    Queue,
    /// At least one of its requests is at the device.
    Device,
}

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

    fn in_stage(stage: WaitedFor, time: u64) -> Times {
        match stage {
            WaitedFor::Queue => Times { queue_ns: time, device_ns: 0 },
            WaitedFor::Device => Times { queue_ns: 0, device_ns: time },
        }
    }
}

/// A waiter.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChargedWaiter {
    /// `None` for all further ones.
    pub key: Option<ProcessKey>,
    pub waits: u64,
    /// While the device had no request.
    pub idle: Times,
    /// Without any data.
    pub unknown: Times,
}

/// The time that a waiter charges to a culprit.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlamePair {
    pub waiter: u32,
    pub culprit: Culprit,
    pub times: Times,
}

/// All charges.
#[derive(Clone, Debug, Default)]
pub(super) struct Accounts {
    numbers: FxHashMap<ProcessKey, u32>,
    waiters: Vec<ChargedWaiter>,
    index: FxHashMap<(u32, Culprit), u32>,
    /// In order of first occurrence, which does not depend on hashes.
    pairs: Vec<BlamePair>,
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
            self.waiters.push(ChargedWaiter { key, waits: 0, idle, unknown });
        }
        if (number as usize) < WAITERS {
            self.numbers.insert(key, number);
        }
        number
    }

    /// Counts a wait; no request is known for its time in `unknown`.
    pub fn note_wait(&mut self, waiter: u32, unknown: Times) {
        if let Some(waiter) = self.waiters.get_mut(waiter as usize) {
            waiter.waits += 1;
            waiter.unknown.add(unknown);
        }
    }

    /// Records time of a waiter without any data.
    pub fn unknown(&mut self, waiter: u32, stage: WaitedFor, time: u64) {
        if let Some(waiter) = self.waiters.get_mut(waiter as usize) {
            waiter.unknown.add(Times::in_stage(stage, time));
        }
    }

    /// Charges a waiter's time to no culprit.
    pub fn idle(&mut self, waiter: u32, stage: WaitedFor, time: u64) {
        if let Some(waiter) = self.waiters.get_mut(waiter as usize) {
            waiter.idle.add(Times::in_stage(stage, time));
        }
    }

    /// Charges a waiter's time to a culprit.
    pub fn charge(&mut self, waiter: u32, stage: WaitedFor, culprit: Culprit, time: u64) {
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
            None => self.pairs.push(BlamePair { waiter, culprit, times }),
        }
    }

    /// Keeps the half with the most time; the others lose their file, or their owner if the file is
    /// already gone.
    fn make_room(&mut self) {
        let mut pairs = std::mem::take(&mut self.pairs);
        pairs.sort_by_key(|pair| std::cmp::Reverse(pair.times.whole()));
        let rest = pairs.split_off(PAIRS / 2);
        self.index.clear();
        for pair in pairs {
            self.add(pair.waiter, pair.culprit, pair.times);
        }
        for pair in rest {
            // If even these fill the table, only waiters are distinguished.
            let full = self.pairs.len() > PAIRS * 5 / 8;
            let culprit = if full { Culprit::FURTHER } else { pair.culprit.coarser() };
            self.add(pair.waiter, culprit, pair.times);
        }
    }

    /// All waiters, by number.
    pub fn waiters(&self) -> &[ChargedWaiter] {
        &self.waiters
    }

    /// All pairs.
    pub fn pairs(&self) -> &[BlamePair] {
        &self.pairs
    }
}
