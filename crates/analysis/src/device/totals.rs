//! The figures of one device.

use super::busy_time::BusyTime;
use super::latency::Latencies;
use super::streams::Sequential;
use crate::summary::{ByDirection, ByInterval, Direction, Interval};
use crate::summary::{DirectionSummary, ErrorCount, InScheduler, ReasonCount, STALLED_NS};
use crate::sums::calibration::Calibration;
use crate::sums::device_layer::RequestLayer;
use crate::sums::request_times::{Life, Stand};
use crate::sums::watch_window::WatchWindow;
use iowhy_model::compact_sort::CompactSort;
use iowhy_model::environment::ExactCount;
use iowhy_model::{Name, Names, Operation, Request};
use rustc_hash::FxHashMap;

/// Whether completions may be missing from the data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LostEnds {
    /// None: requests without a completion are in flight.
    None,
    /// Some: a request that later ones overtook has completed without a record.
    Some,
    /// Too many for a missing completion to mean anything: files of some CPUs of a capture are
    /// missing.
    Many,
}

/// Maximum number of distinct errors and reasons of one device; about 30 exist.
const KINDS: usize = 64;

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
    sequential: Sequential,
    /// Those that are sequential among all requests of the device, where the files of some are not
    /// known.
    among_all: Sequential,
    /// The number of requests with a known G2C, and its sum.
    waits: (u64, u64),
    intervals: ByInterval<Latencies>,
    /// The latest completion, and the longest duration.
    latest_end_ns: u64,
    longest_ns: u64,
}

impl DirectionTally {
    /// Counts a request as the kernel's counters do.
    #[inline]
    fn count(&mut self, request: &Request, life: &Life) {
        let times = request.stands_for();
        self.merges += u64::from(request.merges) * times;
        self.requeues += u64::from(request.requeues) * times;
        if life.stand == Stand::Open {
            self.open += times;
            return;
        }
        self.requests += times;
        self.bytes = self.bytes.saturating_add(request.bytes.saturating_mul(times));
        self.errors += u64::from(request.error.is_some()) * times;
        match life.stand {
            Stand::Whole => self.count_wait(life, times),
            _ => self.begun_before += times,
        }
    }

    #[inline]
    fn count_wait(&mut self, life: &Life, times: u64) {
        if let Some(wait) = life.g2c_ns {
            let waited_ns = wait.saturating_mul(times);
            self.waits = (self.waits.0 + times, self.waits.1.saturating_add(waited_ns));
        }
    }

    #[inline]
    fn record_times(&mut self, life: &Life, times: u64) {
        for (latencies, interval) in self.intervals.0.iter_mut().zip(&life.intervals.0) {
            if let Some(nanoseconds) = interval {
                latencies.record_many(*nanoseconds, times);
            }
        }
    }

    /// Takes the kernel's exact counts instead of estimates; `beyond` is what they leave out.
    /// Returns the ratio between them.
    fn correct(&mut self, exact: &ExactCount, beyond: &DirectionTally) -> Calibration {
        let recorded = (self.requests.saturating_sub(beyond.requests), self.bytes);
        let timed = (
            self.waits.0.saturating_sub(beyond.waits.0),
            self.waits.1.saturating_sub(beyond.waits.1),
        );
        let found = Calibration::new(recorded, (exact.requests, exact.bytes))
            .of_times(timed, (exact.timed, exact.latency_ns));
        self.merges = found.count(self.merges);
        self.requeues = found.count(self.requeues);
        for sequential in [&mut self.sequential, &mut self.among_all] {
            sequential.requests = found.count(sequential.requests);
            sequential.bytes = found.bytes(sequential.bytes);
        }
        self.requests = exact.requests + beyond.requests;
        self.bytes = exact.bytes;
        self.errors = exact.errors.map_or(self.errors, |errors| errors + beyond.errors);
        if exact.timed > 0 {
            let (timed, latency_ns) = beyond.waits;
            self.waits = (exact.timed + timed, exact.latency_ns.saturating_add(latency_ns));
        }
        found
    }

    fn summary(&self, window: WatchWindow) -> DirectionSummary {
        let whole = &self.intervals[Interval::Q2c];
        let mean = |sum: u64, count: u64| (count > 0).then(|| sum as f64 / count as f64);
        // Neighbours may stand for different numbers of requests.
        let (of_streams, all) = (self.sequential, self.among_all);
        let sequential = Sequential {
            requests: of_streams.requests.max(all.requests).min(self.requests),
            bytes: of_streams.bytes.max(all.bytes).min(self.bytes),
        };
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
            sequential_requests: sequential.requests,
            sequential_bytes: sequential.bytes,
            sequential_share: mean(sequential.bytes, self.bytes),
            intervals: self.intervals.map(|latencies| latencies.stage(whole)),
            q2c_histogram: self.intervals[Interval::Q2c].buckets(),
            d2c_histogram: self.intervals[Interval::D2c].buckets(),
        }
    }
}

/// One device, so far.
#[derive(Clone, Debug)]
pub(crate) struct DeviceTotals {
    /// `None` for all devices beyond the limit.
    pub name: Option<Name>,
    /// The beginning of the watch, nanoseconds; 0 while it is not known.
    start_ns: u64,
    pub major: u32,
    pub minor: u32,
    /// Requests of an upper device.
    pub lower: u64,
    /// Requests that the kernel issued on behalf of others.
    pub helpers: u64,
    /// Whether some of its requests stand for others that were not recorded.
    is_thinned: bool,
    /// Requests that had begun before the watch.
    pub begun_before: u64,
    /// Time of completed requests, within the watch and before it.
    pub within_ns: u64,
    pub before_ns: u64,
    directions: ByDirection<DirectionTally>,
    /// Requested flushes, which are among the writes, too.
    asked: DirectionTally,
    /// The time at the device of requested flushes: that of the command sent for them.
    asked_flushes: Latencies,
    busy: BusyTime,
    latest_end_ns: u64,
    /// Open requests whose completion is presumably lost.
    pub overtaken: u64,
    /// The time at which the oldest open request was queued, nanoseconds.
    oldest_open_ns: Option<u64>,
    /// Open requests that are in the scheduler.
    in_scheduler: InScheduler,
    errors: FxHashMap<i32, u64>,
    unlinked: FxHashMap<Name, u64>,
}

/// Drivers abort a command by then.
const GIVEN_UP_NS: u64 = 30_000_000_000;

impl DeviceTotals {
    pub fn new(name: Option<Name>, (major, minor): (u32, u32), start_ns: u64) -> DeviceTotals {
        DeviceTotals {
            name,
            start_ns,
            major,
            minor,
            lower: 0,
            helpers: 0,
            is_thinned: false,
            begun_before: 0,
            within_ns: 0,
            before_ns: 0,
            directions: ByDirection::default(),
            asked: DirectionTally::default(),
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
    pub fn add(
        &mut self,
        request: &Request,
        life: &Life,
        direction: Direction,
        layer: RequestLayer,
    ) {
        // The kernel counts a requested flush as an empty write, and the command that it then sends
        // to the device as the flush.
        let counted = match (direction, layer) {
            (Direction::Flush, RequestLayer::Top | RequestLayer::Lower) => {
                self.asked.count(request, life);
                Direction::Write
            }
            _ => direction,
        };
        self.directions[counted].count(request, life);
        let times = request.stands_for();
        self.is_thinned |= times > 1;
        if life.stand == Stand::Whole {
            self.record_times(life, direction, layer, times);
        }
        if life.stand != Stand::Open {
            self.add_ended(life, direction, times);
        }
        match layer {
            RequestLayer::Top => {}
            RequestLayer::Lower => self.lower += times,
            RequestLayer::Helper => self.helpers += times,
        }
        if let Some(error) = request.error {
            count(&mut self.errors, error, i32::MIN);
        }
        if let Some(reason) = request.parent_reason {
            count(&mut self.unlinked, reason, Name::EMPTY);
        }
    }

    /// Records the duration of a request. Flush commands of the kernel count at the device; a
    /// requested flush takes the same time there, which must not count twice.
    #[inline]
    fn record_times(&mut self, life: &Life, direction: Direction, layer: RequestLayer, times: u64) {
        let is_asked = direction == Direction::Flush && layer != RequestLayer::Helper;
        if !is_asked {
            return self.directions[direction].record_times(life, times);
        }
        let mut above = *life;
        if let Some(nanoseconds) = above.intervals[Interval::D2c].take() {
            self.asked_flushes.record_many(nanoseconds, times);
        }
        self.directions[direction].record_times(&above, times);
    }

    /// The times at the device of one direction. For flushes without a recorded command, the times
    /// of the requested flushes.
    fn at_device(&self, direction: Direction) -> &Latencies {
        let own = &self.directions[direction].intervals[Interval::D2c];
        let is_asked = direction == Direction::Flush && own.count() == 0;
        if is_asked { &self.asked_flushes } else { own }
    }

    fn add_ended(&mut self, life: &Life, direction: Direction, times: u64) {
        let ended = life.ended_ns();
        let (from, start) = (life.queued_ns, self.start_ns);
        if ended > start {
            let (within_ns, before_ns) =
                (ended - from.max(start).min(ended), start.saturating_sub(from));
            self.within_ns = self.within_ns.saturating_add(within_ns.saturating_mul(times));
            self.before_ns = self.before_ns.saturating_add(before_ns.saturating_mul(times));
        }
        let tally = &mut self.directions[direction];
        tally.latest_end_ns = tally.latest_end_ns.max(ended);
        tally.longest_ns = tally.longest_ns.max(life.whole_ns.unwrap_or(0));
        self.latest_end_ns = self.latest_end_ns.max(ended);
        let at_device = life.intervals[Interval::D2c].or(life.whole_ns);
        let issued = at_device.map(|time| ended.saturating_sub(time));
        match life.stand {
            // It was in flight when the watch began; its stage at that time is not known.
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
    /// direction overtook by more than [`STALLED_NS`], or any by [`GIVEN_UP_NS`], is taken for
    /// ended unseen, so that its time is not known; and so is any, where many were.
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

    /// Records the oldest request that is in flight without a row, and of the one that was issued
    /// first: when it was queued, and issued, and when that was known.
    pub fn note_in_flight(&mut self, queued_ns: u64, issued_ns: Option<u64>, now_ns: u64) {
        self.oldest_open_ns = Some(self.oldest_open_ns.unwrap_or(u64::MAX).min(queued_ns));
        if let Some(issued_ns) = issued_ns.filter(|issued| *issued < now_ns) {
            self.busy.add(issued_ns, now_ns);
        }
    }

    /// Whether so many completions are lost that one more is not remarkable, even among the last
    /// requests.
    fn loses_many_ends(&self) -> bool {
        self.overtaken.saturating_mul(10) > self.requests()
    }

    /// Counts requests that are sequential within their stream, and among all of the device.
    #[inline]
    pub fn note_sequential(&mut self, direction: Direction, own: Sequential, all: Sequential) {
        let tally = &mut self.directions[direction];
        for (sequential, found) in [(&mut tally.sequential, own), (&mut tally.among_all, all)] {
            sequential.requests = sequential.requests.saturating_add(found.requests);
            sequential.bytes = sequential.bytes.saturating_add(found.bytes);
        }
    }

    /// Takes the kernel's exact counts of this device in a watch in which requests were sampled.
    /// Returns the ratios between them and what was recorded.
    pub fn correct(&mut self, exact: &[ExactCount]) -> ByDirection<Calibration> {
        let mut found = ByDirection::default();
        // Of a slow device each recorded request may stand for itself alone.
        self.is_thinned = true;
        let own =
            exact.iter().filter(|count| (count.major, count.minor) == (self.major, self.minor));
        let mut sums = ByDirection::<Option<ExactCount>>::default();
        for count in own {
            let Some(operation) = Operation::from_word(&count.operation) else { continue };
            let sum = &mut sums[Direction::from(operation)];
            match sum {
                Some(sum) => sum.add(count),
                None => *sum = Some(count.clone()),
            }
        }
        let none = DirectionTally::default();
        for direction in [Direction::Read, Direction::Write, Direction::Discard] {
            let Some(exact) = &sums[direction] else { continue };
            // An empty write that asks for a flush is not among the kernel's commands to the
            // device, which iowhy's programs count; the kernel's own counters, which have no
            // errors, have it.
            let is_beyond = direction == Direction::Write && exact.errors.is_some();
            let beyond = if is_beyond { &self.asked } else { &none };
            found[direction] = self.directions[direction].correct(exact, beyond);
        }
        found
    }

    /// Whether some of its requests stand for others that were not recorded.
    pub fn is_thinned(&self) -> bool {
        self.is_thinned
    }

    /// The requests and bytes of each direction that completed.
    pub fn counts(&self) -> ByDirection<(u64, u64)> {
        self.directions.map(|tally| (tally.requests, tally.bytes))
    }

    /// Its number of requests.
    pub fn requests(&self) -> u64 {
        self.directions
            .0
            .iter()
            .map(|tally| tally.requests + tally.open)
            .fold(0, u64::saturating_add)
    }

    /// Its number of open requests.
    pub fn open(&self) -> u64 {
        self.directions.0.iter().map(|tally| tally.open).fold(0, u64::saturating_add)
    }

    /// Number of requests that may serve an unknown upper device.
    pub fn unlinked_requests(&self) -> u64 {
        self.unlinked.values().sum()
    }

    pub fn directions(&self, window: WatchWindow) -> ByDirection<DirectionSummary> {
        let mut directions = self.directions.map(|tally| tally.summary(window));
        let flushes = &mut directions[Direction::Flush];
        let at_device = self.at_device(Direction::Flush);
        let whole = &self.directions[Direction::Flush].intervals[Interval::Q2c];
        flushes.intervals[Interval::D2c] = at_device.stage(whole);
        flushes.d2c_histogram = at_device.buckets();
        directions
    }

    /// iostat's aqu-sz: without `other`, which the kernel does not count; `None` if requests
    /// completed, but no wait is known.
    pub fn aqu_sz(&self, window: WatchWindow) -> Option<f64> {
        let counted = self.directions.iter().filter(|(at, _)| *at != Direction::Other);
        let (mut whole, mut known, mut waited_ns) = (0, 0, 0_u64);
        for (_, tally) in counted {
            whole += tally.requests - tally.begun_before;
            known += tally.waits.0;
            waited_ns = waited_ns.saturating_add(tally.waits.1);
        }
        if known == 0 && whole > 0 { None } else { window.share(waited_ns) }
    }

    /// The share of the watch in which the device was busy; `None` if no request has the data.
    pub fn util_share(&self, window: WatchWindow) -> Option<f64> {
        // Recorded requests leave gaps that those which are not recorded fill.
        if self.is_thinned || (self.busy.is_empty() && self.requests() > 0) {
            return None;
        }
        window.share(self.busy.within(window.start_ns, window.end_ns))
    }

    /// Mean number of requests at the driver while it was busy; `None` if no D2C is known.
    pub fn busy_depth_mean(&self) -> Option<f64> {
        let sums = Direction::ALL.into_iter().map(|direction| self.at_device(direction).sum_ns());
        let at_driver_ns = sums.fold(0, u64::saturating_add);
        let busy_ns = self.busy.within(0, u64::MAX);
        if self.is_thinned {
            return None;
        }
        (at_driver_ns > 0 && busy_ns > 0).then(|| at_driver_ns as f64 / busy_ns as f64)
    }

    /// The age of the oldest open request at the end of the watch.
    pub fn oldest_open(&self, window: WatchWindow) -> Option<u64> {
        self.oldest_open_ns.map(|since| window.end_ns.saturating_sub(since))
    }

    /// Its open requests that are in the scheduler at the end of the watch.
    pub fn in_scheduler(&self) -> InScheduler {
        self.in_scheduler
    }

    /// The longest duration of a completed request, nanoseconds.
    pub fn longest_ns(&self) -> u64 {
        self.directions.0.iter().map(|tally| tally.longest_ns).max().unwrap_or(0)
    }

    /// Time at the end of the watch in which requests were in flight and none completed.
    pub fn stalled(&self, window: WatchWindow) -> Option<u64> {
        let since = self.oldest_open_ns?.max(self.latest_end_ns);
        Some(window.since(since)).filter(|stalled| *stalled >= STALLED_NS)
    }

    pub fn errors(&self) -> Vec<ErrorCount> {
        let count =
            |(error, requests): (&i32, &u64)| ErrorCount { error: *error, requests: *requests };
        let mut errors: Vec<_> = self.errors.iter().map(count).collect();
        errors.compact_sort_by_key(|count| (std::cmp::Reverse(count.requests), count.error));
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
        reasons.compact_sort_by(|a, b| {
            b.requests.cmp(&a.requests).then_with(|| a.reason.cmp(&b.reason))
        });
        reasons
    }
}

/// The share of submitted requests that was merged into others.
pub(crate) fn merged_share(merges: u64, requests: u64) -> Option<f64> {
    let asked = merges.saturating_add(requests);
    (asked > 0).then(|| merges as f64 / asked as f64)
}

/// Counts `kind`; beyond the limit, all new kinds count as `rest`.
fn count<K: Copy + Eq + std::hash::Hash>(counts: &mut FxHashMap<K, u64>, kind: K, rest: K) {
    let full = counts.len() >= KINDS && !counts.contains_key(&kind);
    *counts.entry(if full { rest } else { kind }).or_default() += 1;
}
