//! The shape of a device's timeline: plateaus, steps, periodic bursts.

use super::thresholds::MOST;
use iowhy_analysis::summary::Bucket;
use iowhy_analysis::summary::patterns::{Bin, Timeline};

/// The least number of periods of a periodic burst.
const PERIODS: usize = 3;
/// A bin is in a burst from this multiple of the mean.
const BURST: f64 = 2.0;
/// The largest deviation of distances between bursts from their mean: four random bursts are as
/// even by chance once in twenty-four.
const REGULAR: f64 = 0.25;
/// Fewer bins are not searched for a period: chance agreements would be as good. Chosen.
const LEAST_BINS: usize = 64;
/// The least autocorrelation at a period, and how many standard errors of noise it must be above.
/// Chosen with bursts of which some are missing, late, or five times larger than others.
const LEAST_AGREEMENT: f64 = 0.35;
const CHANCE: f64 = 4.0;
/// The least ratio to the highest autocorrelation: that of a multiple of the period may be higher.
const NEAR_HIGHEST: f64 = 0.5;
/// The least share of distances that are the period, or two or three of it.
const MOST_REGULAR: f64 = 0.85;
/// The least share of the time between bursts. Chosen: requests at an even pace have gaps, too.
const LEAST_CALM: f64 = 0.35;

/// Bursts at regular intervals.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Period {
    /// Period, nanoseconds.
    pub period_ns: u64,
    /// The beginning of the first burst, nanoseconds since the beginning of the bins.
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

/// Returns the rhythm of bytes in bins of `bin_ns`: the shortest period at which the bursts agree
/// with themselves, in ever wider bins until one is found.
pub fn rhythm(bytes: &[u64], bin_ns: u64) -> Rhythm {
    let mut bins = bytes.to_vec();
    let mut bin_ns = bin_ns;
    while bins.len() >= LEAST_BINS {
        let found = period(&bins).and_then(|lag| confirmed(&bins, lag, bin_ns));
        if let Some(period) = found {
            return Rhythm::Periodic(period);
        }
        bins =
            bins.chunks(2).map(|pair| pair.iter().copied().fold(0, u64::saturating_add)).collect();
        bin_ns = bin_ns.saturating_mul(2);
    }
    too_few(bytes)
}

/// Returns two or three bursts that are far more than the rest, and as far apart from each other.
fn too_few(bytes: &[u64]) -> Rhythm {
    let bursts = bursts(bytes, BURST, bytes.len() / LEAST_BINS + 1);
    let gaps = gaps(&bursts);
    let mean = mean(&gaps);
    let even = gaps.iter().all(|gap| (gap - mean).abs() <= REGULAR * mean + 1.0);
    if gaps.is_empty() || gaps.len() >= PERIODS || !even || share_of(bytes, &bursts) < MOST {
        return Rhythm::None;
    }
    Rhythm::TooFew(bursts.len())
}

/// The first and the last bin of each burst: of bins with at least `factor` times the mean, where
/// a distance of up to `pause` bins does not end one.
fn bursts(bytes: &[u64], factor: f64, pause: usize) -> Vec<(usize, usize)> {
    let mean = sum_of(bytes) / bytes.len().max(1) as f64;
    let mut bursts: Vec<(usize, usize)> = Vec::new();
    for (at, amount) in bytes.iter().enumerate() {
        if mean <= 0.0 || (*amount as f64) < factor * mean {
            continue;
        }
        match bursts.last_mut() {
            Some(last) if at - last.1 <= pause => last.1 = at,
            _ => bursts.push((at, at)),
        }
    }
    bursts
}

fn gaps(bursts: &[(usize, usize)]) -> Vec<f64> {
    bursts.windows(2).map(|pair| (pair[1].0 - pair[0].0) as f64).collect()
}

fn sum_of(bytes: &[u64]) -> f64 {
    bytes.iter().map(|amount| *amount as f64).sum()
}

fn share_of(bytes: &[u64], bursts: &[(usize, usize)]) -> f64 {
    let inside = bursts.iter().map(|(from, to)| sum_of(&bytes[*from..=*to]));
    inside.sum::<f64>() / sum_of(bytes).max(1.0)
}

/// Returns the shortest lag, in bins, at which the autocorrelation of "is in a burst" has a peak:
/// how large a burst is does not matter.
fn period(bytes: &[u64]) -> Option<usize> {
    let count = bytes.len();
    let signal = burst_signal(bytes);
    let variance: f64 = signal.iter().map(|value| value * value).sum();
    if variance <= 1e-9 * count as f64 {
        return None;
    }
    let at_lag = |lag: usize| -> f64 {
        let products = signal.iter().zip(&signal[lag..]).map(|(a, b)| a * b);
        products.sum::<f64>() / variance * count as f64 / (count - lag) as f64
    };
    let all: Vec<f64> = (0..=count / PERIODS).map(at_lag).collect();
    let highest = all.iter().skip(2).copied().fold(0.0, f64::max);
    let least = LEAST_AGREEMENT.max(CHANCE / (count as f64).sqrt()).max(highest * NEAR_HIGHEST);
    let mut lowest = 1.0_f64;
    for lag in 1..all.len().saturating_sub(1) {
        lowest = lowest.min(all[lag]);
        let is_peak = all[lag] >= all[lag - 1] && all[lag] >= all[lag + 1];
        if lag >= 2 && is_peak && all[lag] >= least && lowest <= all[lag] / 2.0 {
            return Some(lag);
        }
    }
    None
}

/// Returns 1 in bursts and 0 elsewhere, smoothed over three bins and without its mean.
fn burst_signal(bytes: &[u64]) -> Vec<f64> {
    let mean_bytes = sum_of(bytes) / bytes.len().max(1) as f64;
    let inside = |at: usize| f64::from(u8::from(bytes[at] as f64 >= mean_bytes.max(1.0)));
    let last = bytes.len().saturating_sub(1);
    let smooth = |at: usize| {
        (inside(at.saturating_sub(1)) + 2.0 * inside(at) + inside((at + 1).min(last))) / 4.0
    };
    let smoothed: Vec<f64> = (0..bytes.len()).map(smooth).collect();
    let mean = mean(&smoothed);
    smoothed.into_iter().map(|value| value - mean).collect()
}

/// Returns the period if the bursts themselves are that far apart: some may be missing.
fn confirmed(bytes: &[u64], lag: usize, bin_ns: u64) -> Option<Period> {
    let bursts = bursts(bytes, 1.0, (lag / 4).max(1));
    let (first, last) = (bursts.first()?.0, bursts.last()?.0);
    let gaps = gaps(&bursts);
    let periods: f64 = gaps.iter().map(|gap| (gap / lag as f64).round().max(1.0)).sum();
    let off = |gap: f64, times: f64| (gap - times * lag as f64).abs();
    let near = gaps.iter().filter(|gap| off(**gap, 1.0) <= 0.3 * lag as f64 + 1.0).count();
    let missed = |gap: &&f64| [2.0, 3.0].iter().any(|n| off(**gap, *n) <= 0.2 * lag as f64 + 1.0);
    let far = gaps.iter().filter(missed).count();
    let share = share_of(bytes, &bursts);
    let busy: usize = bursts.iter().rev().skip(1).map(|(from, to)| to - from + 1).sum();
    let calm = 1.0 - busy as f64 / (last - first).max(1) as f64;
    let is_regular = near >= PERIODS
        && near * 2 >= gaps.len()
        && (near + far) as f64 >= MOST_REGULAR * gaps.len() as f64;
    (is_regular && calm >= LEAST_CALM && share >= MOST && periods >= PERIODS as f64).then(|| {
        Period {
            period_ns: ((last - first) as f64 / periods * bin_ns as f64) as u64,
            first_ns: first as u64 * bin_ns,
            bursts: bursts.len(),
            share,
        }
    })
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
    let total: u64 = buckets.iter().map(|bucket| bucket.requests).fold(0, u64::saturating_add);
    let octave = |bucket: &Bucket| bucket.from_ns.checked_ilog2().unwrap_or(0);
    let (first, last) = (octave(buckets.first()?), octave(buckets.last()?));
    let parted = |valley: u32| -> Option<(f64, TwoModes)> {
        let left = &buckets[..buckets.partition_point(|bucket| octave(bucket) < valley)];
        let right = &buckets[buckets.partition_point(|bucket| octave(bucket) <= valley)..];
        let count = |part: &[Bucket]| {
            part.iter().map(|bucket| bucket.requests).fold(0_u64, u64::saturating_add)
        };
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
    found.min_by(|a, b| a.0.total_cmp(&b.0)).map(|found| found.1)
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
    let total: u64 = buckets.iter().map(|bucket| bucket.requests).fold(0, u64::saturating_add);
    let mut seen = 0;
    let middle = buckets.iter().find(|bucket| {
        seen += bucket.requests;
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

    /// Bursts of four bins every 22: each `large`th is five times larger, each `missing`th is
    /// missing, and they begin up to `late` bins late.
    fn uneven(large: usize, missing: usize, late: usize) -> Vec<u64> {
        let mut bytes = vec![1; 1000];
        for burst in (0..45).filter(|burst| burst % missing != missing - 1) {
            let from = burst * 22 + burst * 7919 % (late + 1);
            let amount = if burst % large == 0 { 5000 } else { 1000 };
            bytes[from..from + 4].iter_mut().for_each(|bin| *bin = amount);
        }
        bytes
    }

    #[test]
    fn a_period_is_found_whatever_the_bursts_are_like() {
        for (large, missing, late) in [(1, 99, 0), (5, 99, 0), (2, 99, 0), (5, 99, 4), (5, 6, 2)] {
            let found = rhythm(&uneven(large, missing, late), 10_000_000);
            let Rhythm::Periodic(period) = found else {
                panic!("{large} {missing} {late}: {found:?}")
            };
            assert!(period.period_ns.abs_diff(220_000_000) <= 3_000_000, "{period:?}");
            assert_eq!(
                period.bursts,
                (0..45).filter(|burst| burst % missing != missing - 1).count()
            );
        }
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
