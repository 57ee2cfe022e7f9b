//! Durations, kept as a mergeable histogram: [`hdrhistogram`] with two significant digits, which is
//! a relative error below 1 %.
//!
//! Most devices and stages of a machine see few requests, and a histogram costs about 25 KiB: up to
//! 64 values are kept exactly, and the histogram is created if there are more.

use crate::summary::{Bucket, StageTime};
use hdrhistogram::Histogram;

/// Number of values that are kept exactly before a histogram is created.
const FEW: usize = 64;
/// Two significant digits: buckets are at most 1/128 of their value wide.
const DIGITS: u8 = 2;

/// A distribution of durations.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    few: Vec<u64>,
    many: Option<Box<Histogram<u64>>>,
    count: u64,
    sum: u64,
    max: u64,
}

impl Latencies {
    /// Adds a duration in nanoseconds.
    #[inline]
    pub fn record(&mut self, nanoseconds: u64) {
        self.record_many(nanoseconds, 1);
    }

    /// Adds the same length of time `times` times.
    #[inline]
    pub fn record_many(&mut self, nanoseconds: u64, times: u64) {
        self.count = self.count.saturating_add(times);
        self.sum = self.sum.saturating_add(nanoseconds.saturating_mul(times));
        self.max = self.max.max(nanoseconds);
        if times == 1 {
            return self.keep(nanoseconds);
        }
        if self.many.is_none() {
            self.grow();
        }
        if let Some(histogram) = &mut self.many {
            // It fails only where 60 KiB cannot be addressed.
            histogram.record_n(nanoseconds, times).unwrap_or(());
        }
    }

    #[inline]
    fn keep(&mut self, nanoseconds: u64) {
        match &mut self.many {
            Some(histogram) => put(histogram, nanoseconds),
            None => {
                self.few.push(nanoseconds);
                if self.few.len() > FEW {
                    self.grow();
                }
            }
        }
    }

    /// Creates the histogram from the exact values.
    fn grow(&mut self) {
        self.many = histogram_of(&self.few);
        if self.many.is_some() {
            self.few = Vec::new();
        }
    }

    /// Adds all values of `other`.
    pub fn merge(&mut self, other: &Latencies) {
        self.count += other.count;
        self.sum = self.sum.saturating_add(other.sum);
        self.max = self.max.max(other.max);
        other.few.iter().for_each(|value| self.keep(*value));
        if let Some(others) = &other.many {
            if self.many.is_none() {
                self.grow();
            }
            if let Some(own) = &mut self.many {
                // It fails only if a histogram cannot grow; both hold 64-bit values.
                own.add(others.as_ref()).unwrap_or(());
            }
        }
    }

    /// The number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their sum, nanoseconds.
    pub fn sum_ns(&self) -> u64 {
        self.sum
    }

    /// The value that `share` (0 to 1) of all values do not exceed, nanoseconds: exact up to 64
    /// values, within 1 % above; never above the largest. `None` without values.
    pub fn quantile_ns(&self, share: f64) -> Option<u64> {
        if let Some(histogram) = &self.many {
            return Some(histogram.value_at_quantile(share).min(self.max));
        }
        let mut sorted = self.few.clone();
        sorted.sort_unstable();
        let rank = (share * sorted.len() as f64).ceil() as usize;
        sorted.get(rank.saturating_sub(1)).copied()
    }

    /// The figures of this stage as part of `whole`; `None` without values.
    pub fn stage(&self, whole: &Latencies) -> Option<StageTime> {
        let comparable = whole.sum > 0 && self.count <= whole.count;
        Some(StageTime {
            requests: self.count,
            sum_ns: self.sum,
            mean_ns: self.sum as f64 / self.count as f64,
            p50_ns: self.quantile_ns(0.5)?,
            p90_ns: self.quantile_ns(0.9)?,
            p99_ns: self.quantile_ns(0.99)?,
            p999_ns: self.quantile_ns(0.999)?,
            max_ns: self.max,
            q2c_share: comparable.then(|| self.sum as f64 / whole.sum as f64),
        })
    }

    /// The histogram's non-empty buckets, in order.
    pub fn buckets(&self) -> Vec<Bucket> {
        let made = if self.many.is_none() { histogram_of(&self.few) } else { None };
        let Some(histogram) = self.many.as_ref().or(made.as_ref()) else { return Vec::new() };
        histogram
            .iter_recorded()
            .map(|step| Bucket {
                from_ns: histogram.lowest_equivalent(step.value_iterated_to()),
                to_ns: histogram.next_non_equivalent(step.value_iterated_to()),
                requests: step.count_at_value(),
            })
            .collect()
    }
}

/// A histogram of `values`; `None` never happens, since two digits of any 64-bit value fit.
fn histogram_of(values: &[u64]) -> Option<Box<Histogram<u64>>> {
    let mut histogram = Box::new(Histogram::new(DIGITS).ok()?);
    values.iter().for_each(|value| put(&mut histogram, *value));
    Some(histogram)
}

#[inline]
fn put(histogram: &mut Histogram<u64>, value: u64) {
    // The histogram grows by itself; recording fails only where 60 KiB cannot be addressed.
    histogram.record(value).unwrap_or(());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: impl IntoIterator<Item = u64>) -> Latencies {
        let mut latencies = Latencies::default();
        values.into_iter().for_each(|value| latencies.record(value));
        latencies
    }

    #[test]
    fn no_value_has_no_figures() {
        assert_eq!(Latencies::default().stage(&of([1])), None);
        assert!(Latencies::default().buckets().is_empty());
    }

    #[test]
    fn few_values_are_exact() {
        let stage = of([700, 100, 900]).stage(&of([1000, 1000, 1400])).unwrap();
        assert_eq!(stage.q2c_share, Some(0.5));
        assert_eq!((stage.p50_ns, stage.p99_ns, stage.max_ns, stage.sum_ns), (700, 900, 900, 1700));
        assert_eq!(of([5]).quantile_ns(0.5), Some(5));
    }

    #[test]
    fn many_values_are_within_one_percent() {
        let latencies = of((1..=100_000).map(|value| value * 1000));
        for share in [0.01, 0.5, 0.9, 0.99, 0.999] {
            let exact = share * 100_000_000.0;
            let error = latencies.quantile_ns(share).unwrap() as f64 / exact - 1.0;
            assert!((-0.001..0.01).contains(&error), "{share}: {error}");
        }
        assert_eq!(latencies.quantile_ns(1.0), Some(100_000_000));
    }

    #[test]
    fn merging_is_recording_together() {
        for (left, right) in [(3, 4), (40, 40), (3, 1000), (1000, 3), (1000, 1000)] {
            let mut merged = of((0..left).map(|value| value * 977));
            merged.merge(&of((0..right).map(|value| value * 1_000_003)));
            let both = of((0..left)
                .map(|value| value * 977)
                .chain((0..right).map(|value| value * 1_000_003)));
            let all = of([]);
            assert_eq!(merged.stage(&all), both.stage(&all), "{left} and {right}");
            assert_eq!(merged.buckets(), both.buckets());
        }
    }

    #[test]
    fn buckets_hold_every_value_once() {
        let latencies = of([0, 1, 1, 250, 1_000_000, u64::MAX]);
        let buckets = latencies.buckets();
        assert_eq!(buckets.iter().map(|bucket| bucket.requests).sum::<u64>(), 6);
        assert_eq!((buckets[1].from_ns, buckets[1].to_ns, buckets[1].requests), (1, 2, 2));
        assert!(buckets.windows(2).all(|pair| pair[0].to_ns <= pair[1].from_ns));
    }
}
