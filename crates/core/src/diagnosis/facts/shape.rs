//! The shape of a device's timeline: plateaus, steps, periodic bursts.

use crate::analysis::patterns::{Bin, Timeline};
use crate::analysis::summary::Bucket;

/// The least number of periods of a periodic burst.
const PERIODS: usize = 3;
/// A bin is in a burst from this multiple of the mean.
const BURST: f64 = 2.0;
/// The largest deviation of distances between bursts from their mean: four random bursts are as
/// even by chance once in twenty-four.
const REGULAR: f64 = 0.25;

/// Bursts at regular intervals.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Period {
    /// Period, nanoseconds.
    pub period_ns: u64,
    /// Where the first burst begins, nanoseconds since the beginning of the bins.
    pub first_ns: u64,
    /// Number of bursts.
    pub bursts: usize,
    /// Share of the bytes in the bursts.
    pub share: f64,
}

/// The pattern of bytes over time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rhythm {
    /// Bursts at regular intervals, at least three of these.
    Periodic(Period),
    /// Two or three bursts with calm between them: too few periods for a claim.
    TooFew(usize),
    /// Anything else.
    None,
}

/// Returns the rhythm of bytes in bins of `bin_ns`.
pub fn rhythm(bytes: &[u64], bin_ns: u64) -> Rhythm {
    let sum: f64 = bytes.iter().map(|amount| *amount as f64).sum();
    let mean = sum / bytes.len().max(1) as f64;
    if mean <= 0.0 {
        return Rhythm::None;
    }
    let mut starts: Vec<(usize, usize)> = Vec::new();
    let mut inside = 0.0;
    for (at, amount) in bytes.iter().enumerate() {
        if (*amount as f64) < BURST * mean {
            continue;
        }
        inside += *amount as f64;
        // A gap of one bin does not end a burst.
        match starts.last_mut() {
            Some(last) if at <= last.1 + 2 => last.1 = at,
            _ => starts.push((at, at)),
        }
    }
    regular(bin_ns, &starts, inside / sum)
}

fn regular(bin_ns: u64, starts: &[(usize, usize)], share: f64) -> Rhythm {
    let gaps: Vec<f64> = starts.windows(2).map(|pair| (pair[1].0 - pair[0].0) as f64).collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len().max(1) as f64;
    let even = gaps.iter().all(|gap| (gap - mean).abs() <= REGULAR * mean + 1.0);
    if gaps.is_empty() || share < 0.5 || !even {
        return Rhythm::None;
    }
    if gaps.len() < PERIODS {
        return Rhythm::TooFew(starts.len());
    }
    let period_ns = (mean * bin_ns as f64) as u64;
    let first_ns = starts.first().map_or(0, |(from, _)| *from as u64 * bin_ns);
    Rhythm::Periodic(Period { period_ns, first_ns, bursts: starts.len(), share })
}

/// Two levels of a rate, and the point of change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateStep {
    /// The first bin of the second level.
    pub at: usize,
    /// The mean before, per bin.
    pub before: f64,
    /// The mean from then on, per bin.
    pub after: f64,
}

/// Returns the point that best splits `values` into two levels: each of at least three bins, and
/// even within itself (its coefficient of variation at most `even`).
pub fn step(values: &[f64], even: f64) -> Option<RateStep> {
    const LEAST: usize = 3;
    let mut best: Option<(f64, RateStep)> = None;
    for at in LEAST..values.len().saturating_sub(LEAST - 1) {
        let (left, right) = values.split_at(at);
        let (before, after) = (mean(left), mean(right));
        let gain = (before - after).powi(2) * left.len() as f64 * right.len() as f64;
        if best.is_none_or(|(most, _)| gain > most) {
            best = Some((gain, RateStep { at, before, after }));
        }
    }
    let (_, step) = best?;
    let (left, right) = around(values, step.at);
    let is_even = |part: &[f64]| part.len() >= 2 && variation(part) <= even;
    (is_even(left) && is_even(right)).then_some(step)
}

/// Returns the values before and after the step at `at`. The bin in which it happens belongs to
/// neither.
pub fn around(values: &[f64], at: usize) -> (&[f64], &[f64]) {
    (&values[..at.saturating_sub(1)], &values[(at + 1).min(values.len())..])
}

/// Returns the mean; 0 without values.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Returns the standard deviation over the mean; infinite if the mean is 0.
pub fn variation(values: &[f64]) -> f64 {
    let mean = mean(values);
    if mean <= 0.0 {
        return f64::INFINITY;
    }
    let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    (squares / values.len() as f64).sqrt() / mean
}

/// Returns the bins between the first and the last with requests.
pub fn active(timeline: &Timeline) -> &[Bin] {
    let busy = |bin: &Bin| bin.requests > 0;
    let first = timeline.bins.iter().position(busy).unwrap_or(0);
    let last = timeline.bins.iter().rposition(busy).map_or(0, |at| at + 1);
    &timeline.bins[first..last.max(first)]
}

/// A latency with two modes: fast requests, and slow ones that take many times as long.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TwoModes {
    /// The median of the fast ones, nanoseconds.
    pub fast_ns: u64,
    /// The median of the slow ones, nanoseconds.
    pub slow_ns: u64,
    /// The share of the slow ones.
    pub slow_share: f64,
}

/// Returns the two modes of a latency histogram, if it has two: medians at least a factor of
/// `APART` apart, with a power of two between them that has few requests.
pub fn two_modes(buckets: &[Bucket]) -> Option<TwoModes> {
    let total: u64 = buckets.iter().map(|it| it.requests).sum();
    let octave = |it: &Bucket| it.from_ns.checked_ilog2().unwrap_or(0);
    let (first, last) = (octave(buckets.first()?), octave(buckets.last()?));
    let parted = |valley: u32| -> Option<(f64, TwoModes)> {
        let left = &buckets[..buckets.partition_point(|it| octave(it) < valley)];
        let right = &buckets[buckets.partition_point(|it| octave(it) <= valley)..];
        let count = |part: &[Bucket]| part.iter().map(|it| it.requests).sum::<u64>();
        let (fast, slow) = (count(left), count(right));
        let (fast_ns, slow_ns) = (median(left)?, median(right)?);
        let depth = (total - fast - slow) as f64 / fast.min(slow).max(1) as f64;
        let slow_share = slow as f64 / total.max(1) as f64;
        let is_mode = slow >= LEAST_SLOW && (SLOW_SHARE..=1.0 - SLOW_SHARE).contains(&slow_share);
        let is_apart = slow_ns as f64 >= APART * fast_ns.max(1) as f64;
        let found = TwoModes { fast_ns, slow_ns, slow_share };
        (is_mode && is_apart && depth <= VALLEY).then_some((depth, found))
    };
    let found = (first + 1..last).filter_map(parted);
    found.min_by(|a, b| a.0.total_cmp(&b.0)).map(|it| it.1)
}

/// The largest ratio of the requests between two modes to the smaller mode. Chosen.
const VALLEY: f64 = 0.1;
/// The least ratio between the medians of two modes. Chosen.
const APART: f64 = 8.0;
/// The least share of requests in a mode: 1 %, what a 99th percentile shows.
const SLOW_SHARE: f64 = 0.01;
/// The least number of slow requests.
const LEAST_SLOW: u64 = 5;

fn median(buckets: &[Bucket]) -> Option<u64> {
    let total: u64 = buckets.iter().map(|it| it.requests).sum();
    let mut seen = 0;
    let middle = buckets.iter().find(|it| {
        seen += it.requests;
        seen * 2 >= total
    })?;
    Some(middle.from_ns)
}

/// Returns the nearest number that a person would choose as a limit: one or two digits and zeroes,
/// or a power of two, or a multiple of 50.
pub fn is_round(value: f64, tolerance: f64) -> Option<f64> {
    if value < 1.0 {
        return None;
    }
    let scale = 10_f64.powf(value.log10().floor() - 1.0).max(1.0);
    let two_digits = (value / scale).round() * scale;
    let power = 2_f64.powf(value.log2().round());
    [two_digits, power].into_iter().find(|round| (value - round).abs() <= tolerance * round)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BIN_NS: u64 = 100_000_000;

    #[test]
    fn three_periods_are_needed() {
        let waves = |count: usize| -> Vec<u64> {
            (0..count * 20).map(|at| if at % 20 < 3 { 1000 } else { 1 }).collect()
        };
        let found = rhythm(&waves(5), BIN_NS);
        assert!(
            matches!(found, Rhythm::Periodic(it) if it.period_ns == 2_000_000_000),
            "{found:?}"
        );
        // The first one begins where its bytes do.
        let late: Vec<u64> = [vec![1; 7], waves(5)].concat();
        let found = rhythm(&late, BIN_NS);
        assert!(matches!(found, Rhythm::Periodic(it) if it.first_ns == 7 * BIN_NS), "{found:?}");
        assert_eq!(rhythm(&waves(3), BIN_NS), Rhythm::TooFew(3));
        assert_eq!(rhythm(&[5; 100], BIN_NS), Rhythm::None);
        assert_eq!(rhythm(&[], BIN_NS), Rhythm::None);
    }

    #[test]
    fn two_modes_lie_apart() {
        let buckets = |modes: &[(u64, u64)]| -> Vec<Bucket> {
            modes
                .iter()
                .map(|&(at, requests)| Bucket { from_ns: at, to_ns: at + at / 64, requests })
                .collect()
        };
        let found =
            two_modes(&buckets(&[(120, 400), (126, 500), (93_000, 55), (99_000, 5)])).unwrap();
        assert_eq!((found.fast_ns, found.slow_ns), (126, 93_000));
        assert!((found.slow_share - 0.0625).abs() < 1e-3);
        // Too near, too few, and one broad mode.
        assert_eq!(two_modes(&buckets(&[(100, 500), (700, 500)])), None);
        assert_eq!(two_modes(&buckets(&[(100, 5000), (93_000, 4)])), None);
        let broad: Vec<(u64, u64)> = (0..20).map(|at| (100 << at, 50)).collect();
        assert_eq!(two_modes(&buckets(&broad)), None, "steps of two");
    }

    #[test]
    fn a_step_is_found_where_it_is() {
        let values: Vec<f64> = (0..40).map(|at| if at < 25 { 100.0 } else { 30.0 }).collect();
        assert_eq!(step(&values, 0.1).unwrap().at, 25);
        let noisy: Vec<f64> = (0..40).map(|at| f64::from(at * 7919 % 97)).collect();
        assert_eq!(step(&noisy, 0.1), None);
        assert_eq!(step(&[1.0; 3], 0.1), None);
    }
}
