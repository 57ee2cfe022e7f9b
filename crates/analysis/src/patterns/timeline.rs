//! A device over the watch, in bins of time.

use super::{CountedDirections, counted_bins, owners};
use crate::summary::patterns::{Bin, OwnerTimeline, Slow, Timeline};
use crate::summary::{Direction, Interval};
use crate::sums::request_times::{Life, Stand};
use iowhy_model::{Names, Origin, Request, RequestPart};

/// The initial length of a bin, nanoseconds: twenty bins in the shortest watch.
pub(super) const BIN_NS: u64 = 100_000_000;
/// Longer ones are not made because requests were thinned.
const LONGEST_BIN_NS: u64 = 1_600_000_000;
/// Number of bins from which pairs are merged.
pub(super) const BINS: usize = 600;

/// Number of slowest requests that are kept of each direction.
const SLOWEST: usize = 64;

/// The slowest reads or writes.
#[derive(Clone, Debug, Default)]
struct Slowest {
    kept: Vec<Slow>,
    least_ns: u64,
}

impl Slowest {
    #[inline]
    fn add(&mut self, slow: Slow) {
        if slow.d2c_ns <= self.least_ns {
            return;
        }
        self.kept.push(slow);
        if self.kept.len() >= 2 * SLOWEST {
            self.kept = self.finish();
            self.least_ns = self.kept.last().map_or(0, |request| request.d2c_ns);
        }
    }

    fn finish(&self) -> Vec<Slow> {
        let mut kept = self.kept.clone();
        kept.sort_by_key(|request| (std::cmp::Reverse(request.d2c_ns), request.ended_ns));
        kept.truncate(SLOWEST);
        kept
    }
}

/// Adds up requests as they come.
#[derive(Clone, Debug, Default)]
pub(super) struct TimelineTally {
    origin_ns: u64,
    bin_ns: u64,
    bins: Vec<Bin>,
    owners: owners::OwnerTally,
    slowest: [Slowest; 2],
}

impl TimelineTally {
    #[inline]
    pub fn add(&mut self, request: &Request, parts: &[RequestPart], life: &Life, start_ns: u64) {
        if self.bin_ns == 0 {
            self.bin_ns = BIN_NS;
            self.origin_ns = if start_ns > 0 { start_ns } else { life.queued_ns };
        }
        let since = life.ended_ns().saturating_sub(self.origin_ns);
        let times = request.stands_for();
        // The fewer requests are recorded, the longer a bin must be to hold enough of them.
        while (since / self.bin_ns) as usize >= BINS
            || (self.bin_ns < BIN_NS.saturating_mul(times) && self.bin_ns < LONGEST_BIN_NS)
        {
            self.halve();
        }
        let at = (since / self.bin_ns) as usize;
        if self.bins.len() <= at {
            self.bins.resize(at + 1, Bin::default());
        }
        self.owners.add(at, since, request, parts, life);
        let Some(bin) = self.bins.get_mut(at) else { return };
        let whole = life.whole_ns.unwrap_or(0);
        let d2c = life.intervals[Interval::D2c].unwrap_or(whole);
        let direction = Direction::from(request.operation);
        let write = direction == Direction::Write;
        if let Some(d2c_ns) = life.intervals[Interval::D2c].filter(|_| life.stand == Stand::Whole)
            && (write || direction == Direction::Read)
        {
            let slow = Slow { write, ended_ns: since, d2c_ns };
            self.slowest[usize::from(write)].add(slow);
        }
        bin.requests += times;
        let bytes = request.bytes.saturating_mul(times);
        let (d2c, whole) = (d2c.saturating_mul(times), whole.saturating_mul(times));
        bin.bytes = bin.bytes.saturating_add(bytes);
        bin.d2c_ns = bin.d2c_ns.saturating_add(d2c);
        let held = request.bytes.saturating_mul(d2c / 1000);
        bin.held_byte_us = bin.held_byte_us.saturating_add(held);
        bin.q2c_ns = bin.q2c_ns.saturating_add(whole);
        if direction == Direction::Read {
            bin.reads += times;
            bin.read_bytes = bin.read_bytes.saturating_add(bytes);
            bin.read_d2c_ns = bin.read_d2c_ns.saturating_add(d2c);
            bin.read_q2c_ns = bin.read_q2c_ns.saturating_add(whole);
        } else if direction == Direction::Write {
            bin.writes += times;
            bin.write_bytes = bin.write_bytes.saturating_add(bytes);
            let behind = [Origin::Writeback, Origin::Journal, Origin::Metadata];
            let behind = if behind.contains(&request.origin) { bytes } else { 0 };
            bin.writeback_bytes = bin.writeback_bytes.saturating_add(behind);
        }
    }

    fn halve(&mut self) {
        self.bin_ns = self.bin_ns.saturating_mul(2);
        let merged = self.bins.chunks(2).map(|pair| {
            let mut sum = Bin::default();
            pair.iter().for_each(|bin| sum.merge(bin));
            sum
        });
        self.bins = merged.collect();
        self.owners.halve();
    }

    /// The bins until the watch ended, with what the kernel counted in them.
    /// With it the ratio by which the bytes of each bin were scaled to that.
    pub fn finish(&self, end_ns: u64, counted: &CountedDirections) -> (Timeline, Vec<f64>) {
        let length = end_ns.saturating_sub(self.origin_ns);
        let full = length.checked_div(self.bin_ns).unwrap_or(0) as usize;
        let mut bins = self.bins.clone();
        bins.resize(full.min(BINS), Bin::default());
        let ratios = counted_bins::scale(&mut bins, (self.origin_ns, self.bin_ns), counted);
        (Timeline { bin_ns: self.bin_ns, bins }, ratios)
    }

    /// The slowest reads and writes, slowest first of each.
    pub fn slowest(&self) -> Vec<Slow> {
        self.slowest.iter().flat_map(Slowest::finish).collect()
    }

    /// Returns the time that the device worked on requests, nanoseconds.
    pub fn served_ns(&self) -> u64 {
        self.owners.served_ns()
    }

    /// The programs that moved the bytes of the bins of the result, each scaled by its ratio.
    pub fn owners(&self, ratios: &[f64], names: &Names) -> Vec<OwnerTimeline> {
        self.owners.finish(ratios, names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::ScriptSummary;
    use iowhy_model::Metric;
    use iowhy_model::script::Script;

    /// Reads of which 1 of 16 was recorded, in every other second, while the kernel counted 1,000
    /// in each.
    fn thinned(counters: &[Metric]) -> Script {
        let mut script = Script::new(20);
        for number in 0..1_250_i64 {
            let (second, within) = (number / 125, number % 125);
            let at = second * 2_000_000_000 + within * 7_000_000;
            script.read("sda", 4096).by(1, "db").at(at).direct(0, 0, 1_000_000).add();
        }
        script.batch.requests.iter_mut().for_each(|request| request.weight = Some(16));
        for second in 0..=20 {
            for metric in counters {
                let unit = if *metric == Metric::ReadBytes { 4096.0 } else { 1.0 };
                script.counter(*metric, "sda", second * 1_000_000_000, 1e3 * unit * second as f64);
            }
        }
        script
    }

    #[test]
    fn bins_of_a_thinned_watch_add_up_to_what_the_kernel_counted() {
        let script = thinned(&[Metric::Reads, Metric::ReadBytes]);
        let summary = script.summary();
        let patterns = &summary.patterns.devices[0];
        let bins = &patterns.timeline.bins;
        let every = 1_600_000_000;
        assert_eq!(patterns.timeline.bin_ns, every);
        for bin in bins {
            assert!(bin.requests.abs_diff(1_600) <= 1, "{bin:?}");
            assert_eq!((bin.reads, bin.read_bytes), (bin.requests, bin.bytes));
            // A request takes as long as before.
            assert!((bin.q2c_ns as f64 / bin.requests as f64 - 1e6).abs() < 1e4, "{bin:?}");
        }
        // A program has as large a share of a bin as before.
        for (bin, bytes) in bins.iter().zip(&patterns.owners[0].bytes) {
            assert!(bytes.abs_diff(bin.bytes) <= 1 || *bytes == 0, "{bytes} of {bin:?}");
        }
    }

    #[test]
    fn bins_without_counters_are_as_recorded() {
        for counters in [&[][..], &[Metric::Reads][..]] {
            let patterns = thinned(counters).summary().patterns;
            let requests: u64 =
                patterns.devices[0].timeline.bins.iter().map(|bin| bin.requests).sum();
            assert!(requests.abs_diff(20_000) < 2_000, "{requests}");
        }
        // All was recorded: rows are exact, whatever a counter says.
        let mut script = thinned(&[Metric::Reads, Metric::ReadBytes]);
        script.batch.requests.iter_mut().for_each(|request| request.weight = None);
        let bins = script.summary().patterns.devices[0].timeline.bins.clone();
        assert!(bins.iter().map(|bin| bin.requests).sum::<u64>() <= 1_250);
    }

    #[test]
    fn bins_hold_every_request_once() {
        for seconds in [1, 10, 700, 100_000] {
            let mut script = Script::new(seconds);
            for at in 0..100 {
                let at = (seconds * 1_000_000_000 / 101 * at) as i64;
                script.read("sda", 4096).at(at).direct(0, 0, 1000).add();
            }
            let timeline = script.summary().patterns.devices[0].timeline.clone();
            assert!(timeline.bins.len() <= BINS && timeline.bins.len() >= 10);
            let requests: u64 = timeline.bins.iter().map(|bin| bin.requests).sum();
            assert!((99..=100).contains(&requests), "{seconds}: {requests}");
        }
    }
}
