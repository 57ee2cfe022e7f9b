//! Single requests: so many chosen by chance, and the slowest. One that stands for more than itself
//! has as much more of a chance, so that points lie as densely as the requests of the watch did.
//!
//! Priority sampling (Duffield, Lund, Thorup 2007): each gets the priority of what it stands for,
//! divided by a random number of (0, 1]; those with the highest are kept. Each then stands for the
//! highest priority that was not kept, or for more where it did so already: sums over any choice of
//! points are estimates without bias, and exact where all requests were kept.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Requests that are chosen by chance.
pub const CHOSEN: usize = 24_000;
/// The slowest that are kept whole.
pub const SLOWEST: usize = 400;

/// One request.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ChosenRequest {
    /// Its position among all requests of the source.
    pub sequence: u64,
    /// The time at which it was queued, nanoseconds after the first column begins.
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
    /// The number of requests that it stands for: of those that were chosen by chance, on average
    /// also for those that were not chosen.
    pub stands_for: f64,
}

/// The requests that were chosen, in the order of the source.
#[derive(Clone, Debug, Default)]
pub struct ChosenRequests {
    /// Chosen by chance, or all.
    pub by_chance: Vec<ChosenRequest>,
    /// The requests that took longest, of all that ended; longest first.
    pub slowest: Vec<ChosenRequest>,
    /// The number of recorded requests to choose from.
    pub of: u64,
}

/// Ordered by a rank, then by age: the earliest is the largest.
#[derive(Clone, Copy, Debug)]
struct Ranked {
    rank: u64,
    request: ChosenRequest,
}

impl Ranked {
    fn key(&self) -> (u64, Reverse<u64>) {
        (self.rank, Reverse(self.request.sequence))
    }
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Ranked {}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// The requests with the highest ranks.
#[derive(Clone, Debug, Default)]
struct Highest {
    heap: BinaryHeap<Reverse<Ranked>>,
    /// The highest rank that was not kept.
    passed: u64,
}

impl Highest {
    #[inline]
    fn add(&mut self, rank: u64, request: &ChosenRequest, most: usize) {
        if self.heap.len() < most {
            self.heap.push(Reverse(Ranked { rank, request: *request }));
            return;
        }
        let Some(mut least) = self.heap.peek_mut() else { return };
        if rank > least.0.rank {
            self.passed = self.passed.max(least.0.rank);
            *least = Reverse(Ranked { rank, request: *request });
        } else {
            self.passed = self.passed.max(rank);
        }
    }

    fn requests(self) -> Vec<ChosenRequest> {
        self.heap.into_sorted_vec().into_iter().map(|ranked| ranked.0.request).collect()
    }
}

/// Chooses as they come.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    by_chance: Highest,
    slowest: Highest,
    of: u64,
    random: u64,
}

impl Choice {
    pub fn new() -> Choice {
        Choice {
            by_chance: Highest::default(),
            slowest: Highest::default(),
            of: 0,
            random: 0x9e37_79b9_7f4a_7c15,
        }
    }

    #[inline]
    pub fn add(&mut self, request: &ChosenRequest, ended: bool) {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.of += 1;
        // Floating-point numbers that are not negative are ordered as their bits are.
        let part = ((self.random >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        self.by_chance.add((request.stands_for / part).to_bits(), request, CHOSEN);
        if let Some(time_ns) = request.time_ns.filter(|_| ended) {
            self.slowest.add(time_ns, request, SLOWEST);
        }
    }

    pub fn finish(self) -> ChosenRequests {
        let passed = f64::from_bits(self.by_chance.passed);
        let mut by_chance = self.by_chance.requests();
        for request in &mut by_chance {
            request.stands_for = request.stands_for.max(passed);
        }
        by_chance.sort_unstable_by_key(|by_chance| (by_chance.start_ns, by_chance.sequence));
        ChosenRequests { by_chance, slowest: self.slowest.requests(), of: self.of }
    }
}
