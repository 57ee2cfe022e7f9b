//! What one device's requests add up to.

use super::axes::{ByDirection, ByInterval, Direction, Interval};
use super::bounded::Layer;
use super::busy::BusyTime;
use super::latency::Latencies;
use super::life::{Life, Stand};
use super::streams::Found;
use super::summary::{DirectionSummary, ErrorCount, InScheduler, ReasonCount, STALLED_NS};
use crate::model::{Name, Names, Request};
use rustc_hash::FxHashMap;

/// Whether ends of requests may be missing from the data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LostEnds {
    /// None: what has no end is in flight.
    None,
    /// Some: what later requests overtook has ended unseen.
    Some,
    /// So many that a request without an end says nothing: files of some CPUs are missing in a capture.
    Many,
}

/// Error numbers and reasons that are kept apart for one device; there are about 30 real ones.
const KINDS: usize = 64;

/// From when to when the watch lasted, CLOCK_MONOTONIC nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Window {
    pub start_ns: u64,
    pub end_ns: u64,
}

impl Window {
    pub fn duration_ns(self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    pub fn seconds(self) -> f64 {
        self.duration_ns() as f64 / 1e9
    }

    /// `amount` per second of the watch; 0 where the watch has no length.
    pub fn per_s(self, amount: u64) -> f64 {
        if self.duration_ns() == 0 { 0.0 } else { amount as f64 / self.seconds() }
    }

    /// `time_ns` as a share of the watch; `None` where the watch has no length.
    pub fn share(self, time_ns: u64) -> Option<f64> {
        (self.duration_ns() > 0).then(|| time_ns as f64 / self.duration_ns() as f64)
    }

    /// How much of the time since `since_ns` lies in the watch.
    pub fn since(self, since_ns: u64) -> u64 {
        self.end_ns.saturating_sub(since_ns.max(self.start_ns))
    }
}

/// One direction of one device, so far.
#[derive(Clone, Debug, Default)]
struct DirectionTally {
    requests: u64,
    bytes: u64,
    merges: u64,
    requeues: u64,
    errors: u64,
    begun_before: u64,
    open: u64,
    sequential: Found,
    /// Requests of which G2C is known, and their G2C.
    waits: (u64, u64),
    intervals: ByInterval<Latencies>,
    /// When the latest of its requests ended, and how long the longest took.
    latest_end_ns: u64,
    longest_ns: u64,
}

impl DirectionTally {
    /// Counts a request as the kernel's counters do.
    #[inline]
    fn count(&mut self, request: &Request, life: &Life) {
        self.merges += u64::from(request.merges);
        self.requeues += u64::from(request.requeues);
        if life.stand == Stand::Open {
            self.open += 1;
            return;
        }
        self.requests += 1;
        self.bytes = self.bytes.saturating_add(request.bytes);
        self.errors += u64::from(request.error.is_some());
        match life.stand {
            Stand::Whole => self.count_wait(life),
            _ => self.begun_before += 1,
        }
    }

    #[inline]
    fn count_wait(&mut self, life: &Life) {
        if let Some(wait) = life.g2c_ns {
            self.waits = (self.waits.0 + 1, self.waits.1.saturating_add(wait));
        }
    }

    #[inline]
    fn record_times(&mut self, life: &Life) {
        for (latencies, interval) in self.intervals.0.iter_mut().zip(&life.intervals.0) {
            if let Some(nanoseconds) = interval {
                latencies.record(*nanoseconds);
            }
        }
    }

    fn summary(&self, window: Window) -> DirectionSummary {
        let whole = &self.intervals[Interval::Q2c];
        let mean = |sum: u64, count: u64| (count > 0).then(|| sum as f64 / count as f64);
        DirectionSummary {
            requests: self.requests,
            bytes: self.bytes,
            requests_per_s: window.per_s(self.requests),
            bytes_per_s: window.per_s(self.bytes),
            average_bytes: mean(self.bytes, self.requests),
            merges_per_s: window.per_s(self.merges),
            merged_share: merged_share(self.merges, self.requests),
            await_ns: mean(self.waits.1, self.waits.0),
            requeues: self.requeues,
            error_requests: self.errors,
            begun_before_requests: self.begun_before,
            open_requests: self.open,
            sequential_requests: self.sequential.requests,
            sequential_bytes: self.sequential.bytes,
            sequential_share: mean(self.sequential.bytes, self.bytes),
            intervals: self.intervals.map(|latencies| latencies.stage(whole)),
            q2c_histogram: self.intervals[Interval::Q2c].buckets(),
            d2c_histogram: self.intervals[Interval::D2c].buckets(),
        }
    }
}

/// One device, so far.
#[derive(Clone, Debug)]
pub(super) struct DeviceTally {
    /// `None` stands for all devices beyond the limit.
    pub name: Option<Name>,
    /// When the watch began, or 0 where that is not known yet.
    start_ns: u64,
    pub major: u32,
    pub minor: u32,
    /// Requests that a device above asked for.
    pub lower: u64,
    /// Requests that the kernel made to carry out others.
    pub helpers: u64,
    /// Requests that had begun before the watch.
    pub begun_before: u64,
    /// Time of those that ended, within the watch, and before it.
    pub within_ns: u64,
    pub before_ns: u64,
    directions: ByDirection<DirectionTally>,
    /// The time at the device of flushes that somebody asked for: that of the command sent for them.
    asked_flushes: Latencies,
    busy: BusyTime,
    latest_end_ns: u64,
    /// Open requests whose end is presumably lost.
    pub overtaken: u64,
    /// When the oldest open request was queued.
    oldest_open_ns: Option<u64>,
    /// Those of the open requests that stand in the scheduler.
    in_scheduler: InScheduler,
    errors: FxHashMap<i32, u64>,
    unlinked: FxHashMap<Name, u64>,
}

/// Drivers give up a command by then.
const GIVEN_UP_NS: u64 = 30_000_000_000;

impl DeviceTally {
    pub fn new(name: Option<Name>, (major, minor): (u32, u32), start_ns: u64) -> DeviceTally {
        DeviceTally {
            name,
            start_ns,
            major,
            minor,
            lower: 0,
            helpers: 0,
            begun_before: 0,
            within_ns: 0,
            before_ns: 0,
            directions: ByDirection::default(),
            asked_flushes: Latencies::default(),
            busy: BusyTime::default(),
            latest_end_ns: 0,
            overtaken: 0,
            oldest_open_ns: None,
            in_scheduler: InScheduler::default(),
            errors: FxHashMap::default(),
            unlinked: FxHashMap::default(),
        }
    }

    #[inline]
    pub fn add(&mut self, request: &Request, life: &Life, direction: Direction, layer: Layer) {
        // The kernel counts a flush that somebody asked for as an empty write, and the command that
        // it then sends to the device as the flush.
        let counted = match (direction, layer) {
            (Direction::Flush, Layer::Top | Layer::Lower) => Direction::Write,
            _ => direction,
        };
        self.directions[counted].count(request, life);
        if life.stand == Stand::Whole {
            self.record_times(life, direction, layer);
        }
        if life.stand != Stand::Open {
            self.add_ended(life, direction);
        }
        match layer {
            Layer::Top => {}
            Layer::Lower => self.lower += 1,
            Layer::Helper => self.helpers += 1,
        }
        if let Some(error) = request.error {
            count(&mut self.errors, error, i32::MIN);
        }
        if let Some(reason) = request.parent_reason {
            count(&mut self.unlinked, reason, Name::EMPTY);
        }
    }

    /// Records how long a request took. At the device are the commands that the kernel sends to it:
    /// a flush that somebody asked for takes the same time there, which must not count twice.
    #[inline]
    fn record_times(&mut self, life: &Life, direction: Direction, layer: Layer) {
        let is_asked = direction == Direction::Flush && layer != Layer::Helper;
        if !is_asked {
            return self.directions[direction].record_times(life);
        }
        let mut above = *life;
        if let Some(nanoseconds) = above.intervals[Interval::D2c].take() {
            self.asked_flushes.record(nanoseconds);
        }
        self.directions[direction].record_times(&above);
    }

    /// The times at the device of one direction. Of flushes, where no command was seen that carried them
    /// out, those of who asked for them.
    fn at_device(&self, direction: Direction) -> &Latencies {
        let own = &self.directions[direction].intervals[Interval::D2c];
        let is_asked = direction == Direction::Flush && own.count() == 0;
        if is_asked { &self.asked_flushes } else { own }
    }

    fn add_ended(&mut self, life: &Life, direction: Direction) {
        let ended = life.ended_ns();
        let (from, start) = (life.queued_ns, self.start_ns);
        if ended > start {
            self.within_ns = self.within_ns.saturating_add(ended - from.max(start).min(ended));
            self.before_ns = self.before_ns.saturating_add(start.saturating_sub(from));
        }
        let tally = &mut self.directions[direction];
        tally.latest_end_ns = tally.latest_end_ns.max(ended);
        tally.longest_ns = tally.longest_ns.max(life.whole_ns.unwrap_or(0));
        self.latest_end_ns = self.latest_end_ns.max(ended);
        let at_device = life.intervals[Interval::D2c].or(life.whole_ns);
        let issued = at_device.map(|time| ended.saturating_sub(time));
        match life.stand {
            // It was in flight when the watch began; where it then was is not known.
            Stand::BegunBefore => {
                self.begun_before += 1;
                let since = if self.start_ns > 0 { Some(self.start_ns) } else { issued };
                since.into_iter().for_each(|since| self.busy.add(since, ended));
            }
            _ => issued.into_iter().for_each(|since| self.busy.add(since, ended)),
        }
    }

    /// Says until when an open request was in flight, and counts the device busy for as long: until
    /// `now_ns`, the end of the watch. But where ends may be lost, one that later ones of its
    /// direction overtook by more than [`STALLED_NS`], or any by [`GIVEN_UP_NS`], is taken for ended
    /// unseen, so that its time is not known; and so is any, where many were.
    pub fn settle_open(
        &mut self,
        life: &Life,
        direction: Direction,
        now_ns: u64,
        ends: LostEnds,
    ) -> u64 {
        let overtaken = |by_ns: u64, after_ns| by_ns > life.queued_ns.saturating_add(after_ns);
        let is_lost = match ends {
            LostEnds::None => false,
            LostEnds::Some => {
                overtaken(self.directions[direction].latest_end_ns, STALLED_NS)
                    || overtaken(self.latest_end_ns, GIVEN_UP_NS)
                    || self.loses_many_ends()
            }
            LostEnds::Many => true,
        };
        if is_lost {
            self.overtaken += 1;
            return life.queued_ns;
        }
        self.begun_before += u64::from(life.queued_ns < self.start_ns);
        let oldest = self.oldest_open_ns.unwrap_or(u64::MAX);
        self.oldest_open_ns = Some(oldest.min(life.queued_ns));
        if let Some(since) = life.inserted_ns() {
            self.in_scheduler.add(now_ns.saturating_sub(since.max(self.start_ns)));
        }
        let before = life.intervals[Interval::Q2d].unwrap_or(0);
        let issued = life.queued_ns.saturating_add(before);
        if issued < now_ns {
            self.busy.add(issued, now_ns);
        }
        now_ns
    }

    /// Takes note of the oldest request that is in flight without a row, and of the one that was
    /// issued first: when it was queued, and issued, and when that was known.
    pub fn note_under_way(&mut self, queued_ns: u64, issued_ns: Option<u64>, now_ns: u64) {
        self.oldest_open_ns = Some(self.oldest_open_ns.unwrap_or(u64::MAX).min(queued_ns));
        if let Some(issued_ns) = issued_ns.filter(|issued| *issued < now_ns) {
            self.busy.add(issued_ns, now_ns);
        }
    }

    /// Whether so many ends are lost that one more, even of the last requests, is nothing odd.
    fn loses_many_ends(&self) -> bool {
        self.overtaken.saturating_mul(10) > self.requests()
    }

    #[inline]
    pub fn note_sequential(&mut self, direction: Direction, found: Found) {
        let sequential = &mut self.directions[direction].sequential;
        sequential.requests += found.requests;
        sequential.bytes = sequential.bytes.saturating_add(found.bytes);
    }

    /// How many requests there are of it.
    pub fn requests(&self) -> u64 {
        self.directions.0.iter().map(|tally| tally.requests + tally.open).sum()
    }

    /// How many had not ended.
    pub fn open(&self) -> u64 {
        self.directions.0.iter().map(|tally| tally.open).sum()
    }

    /// How many may serve a device above that is not known.
    pub fn unlinked_requests(&self) -> u64 {
        self.unlinked.values().sum()
    }

    pub fn directions(&self, window: Window) -> ByDirection<DirectionSummary> {
        let mut directions = self.directions.map(|tally| tally.summary(window));
        let flushes = &mut directions[Direction::Flush];
        let at_device = self.at_device(Direction::Flush);
        let whole = &self.directions[Direction::Flush].intervals[Interval::Q2c];
        flushes.intervals[Interval::D2c] = at_device.stage(whole);
        flushes.d2c_histogram = at_device.buckets();
        directions
    }

    /// iostat's aqu-sz: from what the kernel counts, which leaves `other` out; `None` where requests
    /// completed and the wait of none is known.
    pub fn aqu_sz(&self, window: Window) -> Option<f64> {
        let counted = self.directions.iter().filter(|(at, _)| *at != Direction::Other);
        let (mut whole, mut known, mut waited_ns) = (0, 0, 0_u64);
        for (_, tally) in counted {
            whole += tally.requests - tally.begun_before;
            known += tally.waits.0;
            waited_ns = waited_ns.saturating_add(tally.waits.1);
        }
        if known == 0 && whole > 0 { None } else { window.share(waited_ns) }
    }

    /// The share of the watch in which the device was busy; `None` where no request tells.
    pub fn util_share(&self, window: Window) -> Option<f64> {
        if self.busy.is_empty() && self.requests() > 0 {
            return None;
        }
        window.share(self.busy.within(window.start_ns, window.end_ns))
    }

    /// Requests at the driver on average while there was one; `None` where no D2C is known.
    pub fn busy_depth_mean(&self) -> Option<f64> {
        let sums = Direction::ALL.into_iter().map(|it| self.at_device(it).sum_ns());
        let at_driver_ns = sums.fold(0, u64::saturating_add);
        let busy_ns = self.busy.within(0, u64::MAX);
        (at_driver_ns > 0 && busy_ns > 0).then(|| at_driver_ns as f64 / busy_ns as f64)
    }

    /// The age of the oldest open request at the end of the watch.
    pub fn oldest_open(&self, window: Window) -> Option<u64> {
        self.oldest_open_ns.map(|since| window.end_ns.saturating_sub(since))
    }

    /// Its open requests that stand in the scheduler at the end of the watch.
    pub fn in_scheduler(&self) -> InScheduler {
        self.in_scheduler
    }

    /// The longest that a request that ended took, nanoseconds.
    pub fn longest_ns(&self) -> u64 {
        self.directions.0.iter().map(|tally| tally.longest_ns).max().unwrap_or(0)
    }

    /// For how long at the end of the watch requests were in flight and none completed.
    pub fn stalled(&self, window: Window) -> Option<u64> {
        let since = self.oldest_open_ns?.max(self.latest_end_ns);
        Some(window.since(since)).filter(|stalled| *stalled >= STALLED_NS)
    }

    pub fn errors(&self) -> Vec<ErrorCount> {
        let count =
            |(error, requests): (&i32, &u64)| ErrorCount { error: *error, requests: *requests };
        let mut errors: Vec<_> = self.errors.iter().map(count).collect();
        errors.sort_by_key(|count| (std::cmp::Reverse(count.requests), count.error));
        errors
    }

    pub fn unlinked(&self, names: &Names) -> Vec<ReasonCount> {
        let words = |reason: Name| match names.get(reason) {
            "" => "other reasons".to_owned(),
            words => words.to_owned(),
        };
        let count = |(reason, requests): (&Name, &u64)| ReasonCount {
            reason: words(*reason),
            requests: *requests,
        };
        let mut reasons: Vec<_> = self.unlinked.iter().map(count).collect();
        reasons.sort_by(|a, b| b.requests.cmp(&a.requests).then_with(|| a.reason.cmp(&b.reason)));
        reasons
    }
}

/// The share of what was asked for that was merged into other requests.
pub(super) fn merged_share(merges: u64, requests: u64) -> Option<f64> {
    let asked = merges.saturating_add(requests);
    (asked > 0).then(|| merges as f64 / asked as f64)
}

/// Counts `kind`; beyond the limit, all new kinds as `rest`.
fn count<K: Copy + Eq + std::hash::Hash>(counts: &mut FxHashMap<K, u64>, kind: K, rest: K) {
    let full = counts.len() >= KINDS && !counts.contains_key(&kind);
    *counts.entry(if full { rest } else { kind }).or_default() += 1;
}
