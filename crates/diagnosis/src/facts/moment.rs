//! A device's I/O before and since a moment of the watch.
//!
//! What does not belong here: choosing the moment, and blaming the difference on something.

use super::shape;
use super::thresholds::{BIN_NS, MOST};
use iowhy_analysis::summary::patterns::{Bin, DevicePatterns, Timeline};
use std::ops::Range;

/// The number of bins next to the moment that are compared, on each side.
const NEAREST: usize = 10;
/// The least number of them with enough requests. Chosen: three of each differ by chance once in
/// twenty.
const LEAST_BINS: usize = 3;
/// The least number of requests in a bin for a meaningful mean.
const LEAST: u64 = 5;

/// The measure of work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WorkMeasure {
    /// Requests.
    Requests,
    /// Bytes, if the size of requests may have changed.
    Bytes,
}

/// A device's I/O in some of its bins.
#[derive(Clone, Copy, Debug, Default)]
pub struct MomentPart {
    time_ns: f64,
    requests: f64,
    reads: f64,
    bytes: f64,
    q2c_ns: f64,
    read_q2c_ns: f64,
}

impl MomentPart {
    fn from_bins<'b>(bin_ns: u64, bins: impl IntoIterator<Item = &'b Bin>) -> MomentPart {
        let mut part = MomentPart::default();
        for bin in bins {
            part.time_ns += bin_ns as f64;
            part.requests += bin.requests as f64;
            part.reads += bin.reads as f64;
            part.bytes += bin.bytes as f64;
            part.q2c_ns += bin.q2c_ns as f64;
            part.read_q2c_ns += bin.read_q2c_ns as f64;
        }
        part
    }

    /// Returns the bytes per second.
    pub fn bytes_per_s(&self) -> f64 {
        self.bytes * 1e9 / self.time_ns.max(1.0)
    }

    /// Returns the mean time of a request from queueing to completion, nanoseconds.
    pub fn mean_ns(&self) -> f64 {
        self.q2c_ns / self.requests.max(1.0)
    }

    /// Returns the mean size of a request, bytes.
    pub fn size(&self) -> f64 {
        self.bytes / self.requests.max(1.0)
    }

    /// Returns the share of reads among the requests.
    pub fn read_share(&self) -> f64 {
        self.reads / self.requests.max(1.0)
    }

    /// Returns the mean requests in flight.
    pub fn depth(&self) -> f64 {
        self.q2c_ns / self.time_ns.max(1.0)
    }

    fn work(&self, of: WorkMeasure) -> f64 {
        match of {
            WorkMeasure::Requests => self.requests,
            WorkMeasure::Bytes => self.bytes,
        }
    }

    /// Returns the work per nanosecond.
    pub fn pace(&self, of: WorkMeasure) -> f64 {
        self.work(of) / self.time_ns.max(1.0)
    }

    /// Returns the request time per unit of work, nanoseconds.
    pub fn cost(&self, of: WorkMeasure) -> f64 {
        self.q2c_ns / self.work(of).max(1.0)
    }

    /// Returns the ratio of these requests' time to what they would have taken at the mean times of
    /// `before`, for reads and others separately: more requests of the slower kind also raise the
    /// mean.
    pub fn times_as_long_as(&self, before: &MomentPart) -> f64 {
        let mean = |ns: f64, count: f64| if count > 0.0 { ns / count } else { before.mean_ns() };
        let read_ns = mean(before.read_q2c_ns, before.reads);
        let other_ns = mean(before.q2c_ns - before.read_q2c_ns, before.requests - before.reads);
        let as_before_ns = read_ns * self.reads + other_ns * (self.requests - self.reads);
        self.q2c_ns / as_before_ns.max(1.0)
    }
}

/// A device's I/O around a moment.
#[derive(Debug)]
pub struct Around<'a> {
    patterns: &'a DevicePatterns,
    timeline: Timeline,
    /// Bins of the device's own timeline per bin of `timeline`.
    finer: usize,
    left: Range<usize>,
    right: Range<usize>,
    /// The bins just before the moment.
    pub before: MomentPart,
    /// The bins just after it.
    pub since: MomentPart,
}

impl<'a> Around<'a> {
    /// Returns the I/O around a moment between these times, nanoseconds since the watch began;
    /// `None` if there is too little on either side.
    pub fn new(patterns: &'a DevicePatterns, since_ns: u64, by_ns: u64) -> Option<Around<'a>> {
        let finer = (BIN_NS / patterns.timeline.bin_ns.max(1)).max(1) as usize;
        let timeline = patterns.timeline.coarser(finer);
        let bins = &timeline.bins;
        let first = bins.iter().position(|bin| bin.requests > 0)?;
        // The bins in which the load begins and ends are not full.
        let (first, last) = (first + 1, (first + shape::active(&timeline).len()).checked_sub(1)?);
        let bin = |at_ns: u64| (at_ns / timeline.bin_ns.max(1)) as usize;
        let (end, begin) =
            (bin(since_ns).min(last), bin(by_ns.saturating_sub(1)).saturating_add(1));
        let left = first.max(end.saturating_sub(NEAREST))..end;
        let right = begin.max(first)..last.min(begin.saturating_add(NEAREST));
        let is_enough = |range: &Range<usize>| enough(bins, range).count() >= LEAST_BINS;
        if !(is_enough(&left) && is_enough(&right)) {
            return None;
        }
        let part =
            |range: &Range<usize>| MomentPart::from_bins(timeline.bin_ns, enough(bins, range));
        let (before, since) = (part(&left), part(&right));
        Some(Around { patterns, finer, left, right, before, since, timeline })
    }

    /// Returns the length of a bin, nanoseconds: the resolution of a change.
    pub fn bin_ns(&self) -> u64 {
        self.timeline.bin_ns
    }

    fn costs(&self, range: &Range<usize>, of: WorkMeasure) -> Vec<f64> {
        let bins = enough(&self.timeline.bins, range);
        bins.map(|bin| MomentPart::from_bins(self.timeline.bin_ns, [bin]).cost(of)).collect()
    }

    /// Whether all bins since cost more than all before, and those next to the moment `times` as
    /// much, beyond the growth that the cost already had before.
    pub fn is_step(&self, times: f64, of: WorkMeasure) -> bool {
        let (left, right) = (self.costs(&self.left, of), self.costs(&self.right, of));
        let longest = left.iter().copied().fold(0.0, f64::max);
        let shortest = right.iter().copied().fold(f64::INFINITY, f64::min);
        let (older, newer) = left.split_at(left.len() / 2);
        let grew = (shape::mean(newer) / shape::mean(older).max(1e-9)).max(1.0);
        let (last, next) = (&left[left.len() - LEAST_BINS..], &right[..LEAST_BINS]);
        shortest > longest && shape::mean(next) >= times * grew * shape::mean(last)
    }

    /// Whether the program with most bytes before has a much smaller share since: then the load is
    /// another one.
    pub fn is_another_program(&self) -> bool {
        let raw = |range: &Range<usize>| range.start * self.finer..range.end * self.finer;
        let (left, right) = (raw(&self.left), raw(&self.right));
        let sum = |bytes: &[u64], range: &Range<usize>| -> f64 {
            let range = range.start.min(bytes.len())..range.end.min(bytes.len());
            bytes[range].iter().map(|count| *count as f64).sum()
        };
        let all: Vec<u64> = self.patterns.timeline.bins.iter().map(|bin| bin.bytes).collect();
        let share = |bytes: &[u64], range| sum(bytes, range) / sum(&all, range).max(1.0);
        let owners =
            self.patterns.owners.iter().map(|owner| (share(&owner.bytes, &left), &owner.bytes));
        let most = owners.max_by(|a, b| a.0.total_cmp(&b.0));
        most.is_some_and(|(had, bytes)| had >= MOST && share(bytes, &right) < MOST * had)
    }

    /// Returns the share of the device's time that the work since would not have taken at the cost
    /// before: of the request time, or of a load that waits for each request and therefore submits
    /// fewer.
    pub fn extra_share(&self, of: WorkMeasure) -> f64 {
        let used = |bin: &&Bin| bin.requests > 0;
        let bins = &self.timeline.bins;
        let whole = MomentPart::from_bins(self.timeline.bin_ns, bins.iter().filter(used));
        let late = || bins.iter().skip(self.left.end).filter(used);
        let after = MomentPart::from_bins(self.timeline.bin_ns, late());
        // A load that has ended, or continues with less, is not delayed.
        let depth = |bin: &Bin| MomentPart::from_bins(self.timeline.bin_ns, [bin]).depth();
        let is_as_deep = |bin: &&Bin| depth(bin) >= MOST * self.since.depth();
        let asked = MomentPart::from_bins(self.timeline.bin_ns, late().filter(is_as_deep));
        let of_requests = 1.0 - self.before.cost(of) * after.work(of) / after.q2c_ns.max(1.0);
        let of_pace = 1.0 - asked.pace(of) / self.before.pace(of).max(f64::MIN_POSITIVE);
        let of_requests = of_requests.max(0.0) * after.q2c_ns / whole.q2c_ns.max(1.0);
        let of_pace = of_pace.max(0.0) * asked.time_ns / whole.time_ns.max(1.0);
        of_requests.max(of_pace)
    }
}

/// Returns the bins with enough requests.
fn enough<'b>(bins: &'b [Bin], range: &Range<usize>) -> impl Iterator<Item = &'b Bin> {
    let bins = bins.get(range.clone()).unwrap_or_default();
    bins.iter().filter(|bin| bin.requests >= LEAST)
}
