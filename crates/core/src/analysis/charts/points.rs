//! Single requests: so many chosen by chance, each with the same chance, and the slowest.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Requests that are chosen by chance.
pub const CHOSEN: usize = 24_000;
/// The slowest that are kept whole.
pub const SLOWEST: usize = 400;

/// One request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChosenRequest {
    /// Its position among all requests of the source.
    pub sequence: u64,
    /// When it was queued, nanoseconds after the first column begins.
    pub start_ns: u64,
    /// Q2C, or the sum of the stages that are known; `None` where none is.
    pub time_ns: Option<u64>,
    /// Its stages, as in [`super::cells::STAGES`].
    pub stages: [u64; 5],
    /// The device's number.
    pub device: u16,
    /// The owner's number.
    pub owner: u16,
    /// The file's number.
    pub file: u16,
    /// The kind's number.
    pub kind: u8,
    /// Bytes.
    pub bytes: u64,
    /// The first byte on the device.
    pub offset: u64,
    /// The first byte in the file; `None` without one.
    pub file_offset: Option<u64>,
    /// The process.
    pub pid: u32,
    /// The CPU on which it was queued.
    pub cpu: u32,
}

/// The requests that were chosen, in the order of the source.
#[derive(Clone, Debug, Default)]
pub struct ChosenRequests {
    /// Chosen by chance, or all.
    pub by_chance: Vec<ChosenRequest>,
    /// Those of them all that took longest and ended, longest first.
    pub slowest: Vec<ChosenRequest>,
    /// How many there were to choose from.
    pub of: u64,
}

/// Ordered by how long it took.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct ByTime(ChosenRequest);

impl ByTime {
    fn key(&self) -> (Option<u64>, Reverse<u64>) {
        (self.0.time_ns, Reverse(self.0.sequence))
    }
}

impl Ord for ByTime {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for ByTime {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// Chooses as they come.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    by_chance: Vec<ChosenRequest>,
    slowest: BinaryHeap<Reverse<ByTime>>,
    of: u64,
    random: u64,
}

impl Choice {
    pub fn new() -> Choice {
        Choice {
            by_chance: Vec::new(),
            slowest: BinaryHeap::new(),
            of: 0,
            random: 0x9e37_79b9_7f4a_7c15,
        }
    }

    /// Every request has the same chance to be kept (Vitter's algorithm R).
    #[inline]
    pub fn add(&mut self, request: &ChosenRequest, ended: bool) {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.of += 1;
        if self.by_chance.len() < CHOSEN {
            self.by_chance.push(*request);
        } else if let Some(slot) = self.by_chance.get_mut((self.random % self.of) as usize) {
            *slot = *request;
        }
        if ended && request.time_ns.is_some() {
            self.note_slow(request);
        }
    }

    #[inline]
    fn note_slow(&mut self, request: &ChosenRequest) {
        let new = ByTime(*request);
        if self.slowest.len() < SLOWEST {
            self.slowest.push(Reverse(new));
        } else if self.slowest.peek().is_some_and(|least| new > least.0) {
            self.slowest.pop();
            self.slowest.push(Reverse(new));
        }
    }

    pub fn finish(self) -> ChosenRequests {
        let mut by_chance = self.by_chance;
        by_chance.sort_unstable_by_key(|it| (it.start_ns, it.sequence));
        let mut slowest: Vec<ByTime> = self.slowest.into_iter().map(|it| it.0).collect();
        slowest.sort_unstable_by(|a, b| b.cmp(a));
        let slowest = slowest.into_iter().map(|it| it.0).collect();
        ChosenRequests { by_chance, slowest, of: self.of }
    }
}
