//! Statistics that one sick drive, or a few, cannot bend: medians, their spread, and limits with a
//! stated rate of false alarms.
//!
//! What does not belong here: drives.

use statrs::distribution::{ContinuousCDF, StudentsT};
use statrs::function::gamma::digamma;
use std::ops::RangeInclusive;

/// The factor from a median absolute deviation to the standard deviation of a normal distribution.
const MAD_TO_SIGMA: f64 = 1.4826;
/// The efficiency of a deviation from medians relative to one from means: 37 % of the values count.
const EFFICIENCY: f64 = 0.37;
/// The factor from a quartile of the distances of all pairs to the standard deviation of a normal
/// distribution (Rousseeuw and Croux 1993, "Alternatives to the median absolute deviation"), and
/// the share of the values that counts: 63 % of a dozen, more of more.
const PAIRS_TO_SIGMA: f64 = 2.219_14;
const PAIRS_EFFICIENCY: f64 = 0.63;
/// The numbers of values for which pairs are more efficient than medians. Fewer values are bent
/// more by one that is sick; for more, there are too many pairs.
const PAIRED: RangeInclusive<usize> = 10..=200;

/// Groups from which on the median and the deviation from it are used; of fewer, mean and variance
/// are better.
const LEAST_ROBUST: usize = 10;
/// The least degrees of freedom for a limit.
pub(super) const LEAST_FREEDOM: f64 = 2.0;
/// The shares of the lower tail that are examined, if they have so many values: fewer could be bent
/// by some that are fast.
const TAIL_SHARES: [f64; 5] = [0.1, 0.05, 0.02, 0.01, 0.005];
const TAIL_VALUES: f64 = 10.0;
/// The share of the slow side that is examined.
const SLOW_SHARE: f64 = 0.25;

/// Returns the value that this share of the values is below; `None` without values. Reorders them.
pub fn quantile(values: &mut [f64], share: f64) -> Option<f64> {
    let last = values.len().checked_sub(1)?;
    let at = share.clamp(0.0, 1.0) * last as f64;
    let (below, above) = (at.floor() as usize, at.ceil() as usize);
    let (_, low, rest) = values.select_nth_unstable_by(below, f64::total_cmp);
    let low = *low;
    let high = match above > below {
        true => rest.iter().copied().min_by(f64::total_cmp)?,
        false => low,
    };
    Some(low + (high - low) * (at - below as f64))
}

/// The median; `None` without values. Reorders them.
pub fn median(values: &mut [f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// The median of values in order; 0 without any.
pub fn median_of_sorted(values: &[f64]) -> f64 {
    let count = values.len();
    match (count, count % 2) {
        (0, _) => 0.0,
        (_, 1) => values[count / 2],
        _ => (values[count / 2 - 1] + values[count / 2]) / 2.0,
    }
}

/// The middle of values and their standard deviation, which less than half of them cannot bend.
/// Values of which half are equal have none; `least` is then taken.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Spread {
    /// The median.
    pub middle: f64,
    /// The standard deviation of the values around it.
    pub sigma: f64,
    /// Values.
    pub count: usize,
    /// The number of normally distributed values that would give the same accuracy.
    pub freedom: f64,
}

impl Spread {
    /// Computes the spread of these values; `None` without any.
    pub fn new(values: &[f64], least: f64) -> Option<Spread> {
        let mut values = values.to_vec();
        let middle = median(&mut values)?;
        let (count, others) = (values.len(), values.len() as f64 - 1.0);
        let (sigma, freedom) = match PAIRED.contains(&count) {
            true => (pairs_sigma(&values), PAIRS_EFFICIENCY * others),
            false => {
                let distances = values.iter().map(|value| (value - middle).abs());
                let mut distances: Vec<f64> = distances.collect();
                (MAD_TO_SIGMA * median(&mut distances)?, EFFICIENCY * others)
            }
        };
        Some(Spread { middle, sigma: sigma.max(least), count, freedom })
    }

    /// Returns how many deviations above the middle a value must be, so that among `tested` healthy
    /// ones any is above it in at most the share `alarms` of all runs. It grows with fewer values.
    pub fn limit(&self, tested: usize, alarms: f64) -> f64 {
        upper_limit(self.freedom.max(LEAST_FREEDOM), alarms / tested.max(1) as f64)
    }
}

/// Returns the standard deviation from the distances of all pairs: the one that a quarter of them
/// reach.
fn pairs_sigma(values: &[f64]) -> f64 {
    let count = values.len();
    let mut distances = Vec::with_capacity(count * count / 2);
    for (index, value) in values.iter().enumerate() {
        distances.extend(values[..index].iter().map(|other| (value - other).abs()));
    }
    let half = count / 2 + 1;
    let at = (half * (half - 1) / 2).saturating_sub(1);
    if at >= distances.len() {
        return 0.0;
    }
    let (_, distance, _) = distances.select_nth_unstable_by(at, f64::total_cmp);
    // In few values, the nearest pairs are further apart than in many.
    let few = if count % 2 == 1 { 1.4 } else { 3.8 };
    PAIRS_TO_SIGMA * *distance * count as f64 / (count as f64 + few)
}

/// The deviation of groups of values, each group's own moderated by that of all: as far as groups
/// deviate alike, a small one borrows from the others (Smyth 2004, "Linear models and empirical
/// Bayes methods"). So twelve drives of a host are enough if there are more hosts.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SharedSpread {
    /// The variance that groups have in common.
    variance: f64,
    /// The number of values as which it counts in each group; 0 if there is only one group.
    freedom: f64,
}

impl SharedSpread {
    /// Computes the common variance of these groups.
    pub fn from_groups(groups: &[Spread]) -> SharedSpread {
        let known = groups.iter().filter(|group| group.sigma > 0.0 && group.count > 3);
        let mut known: Vec<(f64, f64)> =
            known.map(|group| (2.0 * group.sigma.ln(), group.freedom / 2.0)).collect();
        // Sums of doubles depend on their order, and groups come in any.
        known.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let count = known.len() as f64;
        if known.len() < 2 {
            return SharedSpread { variance: 0.0, freedom: 0.0 };
        }
        // The logarithm of a variance, without the bias from its few values.
        let bias = |half: f64| digamma(half) - half.ln();
        let mut logs: Vec<f64> = known.iter().map(|(log, half)| log - bias(*half)).collect();
        // In many groups some have sick values, which must not make all of them seem uneven.
        let robust = Spread::new(&logs, 0.0).filter(|spread| spread.count >= LEAST_ROBUST);
        let (middle, spread) = match robust {
            Some(robust) => (robust.middle, robust.sigma.powi(2)),
            None => {
                let middle = logs.iter().sum::<f64>() / count;
                logs.iter_mut().for_each(|log| *log = (*log - middle).powi(2));
                (middle, logs.iter().sum::<f64>() / (count - 1.0))
            }
        };
        let chance = known.iter().map(|(_, half)| trigamma(*half)).sum::<f64>() / count;
        // The common variance is known no better than from all of the values.
        let most = 2.0 * known.iter().map(|(_, half)| half).sum::<f64>();
        let freedom = (2.0 * inverse_trigamma(spread - chance)).min(most);
        SharedSpread { variance: (middle + bias(freedom / 2.0)).exp(), freedom }
    }

    /// Computes the common variance; `None` if too few of the groups are usable.
    pub fn known(groups: &[Spread]) -> Option<SharedSpread> {
        Some(SharedSpread::from_groups(groups)).filter(|shared| shared.freedom > 0.0)
    }

    /// Returns a group's spread, and the number of normal values that would give its accuracy.
    pub fn moderated(&self, group: Spread) -> (Spread, f64) {
        // Up to three values say nothing of their spread, if others do.
        let says = group.count > 3 || self.freedom <= 0.0;
        let own = if says { group.freedom } else { 0.0 };
        let freedom = self.freedom + own;
        let variance = (self.freedom * self.variance + own * group.sigma.powi(2))
            / freedom.max(f64::MIN_POSITIVE);
        (Spread { sigma: variance.sqrt(), ..group }, freedom.max(LEAST_FREEDOM))
    }
}

/// The second derivative of the logarithm of the gamma function.
fn trigamma(value: f64) -> f64 {
    let (mut value, mut sum) = (value.max(1e-6), 0.0);
    while value < 8.0 {
        sum += value.powi(-2);
        value += 1.0;
    }
    let square = value.powi(-2);
    sum + 1.0 / value
        + square / 2.0
        + square / value * (1.0 / 6.0 - square * (1.0 / 30.0 - square / 42.0))
}

/// Returns the argument at which [`trigamma`] has this value; very large if nothing is left to
/// explain.
fn inverse_trigamma(value: f64) -> f64 {
    let (mut low, mut high) = (1e-3, 1e6);
    if value <= trigamma(high) {
        return high;
    }
    for _ in 0..100 {
        let middle: f64 = f64::sqrt(low * high);
        match trigamma(middle) > value {
            true => low = middle,
            false => high = middle,
        }
    }
    low
}

/// Returns the factor by which scores spread more to the slow side than by chance, from their upper
/// quartile: a quarter of all must be slow to bend it.
pub fn slow_side(scores: &[f64], freedom: f64) -> f64 {
    let upper = quantile(&mut scores.to_vec(), 1.0 - SLOW_SHARE).unwrap_or(0.0);
    (upper / upper_limit(freedom, SLOW_SHARE)).max(1.0)
}

/// Returns the factor by which the lower tail of scores is longer than by chance: 1 for the
/// distribution that limits assume. Slow drives are in the upper tail; the lower one shows the
/// spread of healthy values.
pub fn tail(scores: &[f64], freedom: f64) -> f64 {
    let mut scores = scores.to_vec();
    let mut longest = 1.0_f64;
    for share in TAIL_SHARES {
        let is_known = scores.len() as f64 * share >= TAIL_VALUES;
        if let Some(low) = quantile(&mut scores, share).filter(|_| is_known) {
            longest = longest.max(-low / upper_limit(freedom, share));
        }
    }
    longest
}

/// The probability that Student's t with so much freedom is above a value.
pub fn upper_probability(freedom: f64, value: f64) -> f64 {
    StudentsT::new(0.0, 1.0, freedom).map_or(1.0, |t| t.sf(value))
}

/// Returns the probability up to which the tested are named (Benjamini and Hochberg 1995): if
/// nothing is wrong, anything is named in at most the share `alarms` of all runs, and if something
/// is, at most that share of those named is innocent on average.
pub fn named_up_to(probabilities: &[f64], alarms: f64) -> f64 {
    let mut sorted = probabilities.to_vec();
    sorted.sort_by(f64::total_cmp);
    let each = alarms / sorted.len().max(1) as f64;
    let is_named =
        |(index, probability): &(usize, &f64)| **probability <= each * (index + 1) as f64;
    let named = sorted.iter().enumerate().filter(is_named).map(|(index, _)| index + 1).max();
    each * named.unwrap_or(1) as f64
}

/// The value that Student's t with so much freedom is above with this probability.
pub fn upper_limit(freedom: f64, probability: f64) -> f64 {
    let probability = probability.clamp(1e-12, 0.5);
    StudentsT::new(0.0, 1.0, freedom).map_or(f64::INFINITY, |t| -t.inverse_cdf(probability))
}

/// Finds the place where a series of values rises for good: the first index of the later part, and
/// the means before and after. `None` if no place divides it into two parts of which the later one
/// is more than twice as high above zero.
pub fn onset(values: &[f64]) -> Option<(usize, f64, f64)> {
    let total: f64 = values.iter().sum();
    let (mut before, mut best) = (0.0, None::<(f64, usize, f64, f64)>);
    for (index, value) in values.iter().enumerate() {
        if index > 0 {
            let (left, right) = (index as f64, (values.len() - index) as f64);
            let (low, high) = (before / left, (total - before) / right);
            let gain = (high - low) * (left * right / values.len() as f64).sqrt();
            if best.is_none_or(|best| gain > best.0) {
                best = Some((gain, index, low, high));
            }
        }
        before += value;
    }
    let (_, index, low, high) = best?;
    (high > 0.0 && low < high / 2.0).then_some((index, low, high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_wild_value_does_not_bend_them() {
        let mut values = vec![1.0, 2.0, 3.0, 4.0, 1e9];
        assert_eq!(median(&mut values), Some(3.0));
        let spread = Spread::new(&values, 0.0).unwrap();
        assert_eq!((spread.middle, spread.sigma), (3.0, MAD_TO_SIGMA));
        // A normal distribution's quantiles, by pairs and by medians.
        for count in [12, 101, 501] {
            let normal = StudentsT::new(0.0, 1.0, 1e6).unwrap();
            let share = |at: i32| (f64::from(at) - 0.5) / f64::from(count);
            let values: Vec<f64> = (1..=count).map(|at| normal.inverse_cdf(share(at))).collect();
            let sigma = Spread::new(&values, 0.0).unwrap().sigma;
            assert!((0.85..1.15).contains(&sigma), "{count}: {sigma}");
        }
        assert_eq!(Spread::new(&[5.0; 9], 0.25).unwrap().sigma, 0.25);
        assert_eq!(median(&mut []), None);
        assert_eq!(quantile(&mut [1.0, 2.0], 0.75), Some(1.75));
    }

    #[test]
    fn limits_are_those_of_the_tables() {
        // Student's t, one-sided: 10 degrees, 0.005; 2 degrees, 0.025; 1000 degrees, 0.001.
        for (freedom, probability, value) in
            [(10.0, 0.005, 3.169), (2.0, 0.025, 4.303), (1000.0, 0.001, 3.098)]
        {
            assert!((upper_limit(freedom, probability) - value).abs() < 0.01, "{freedom}");
        }
        let spread = |count: usize| Spread {
            middle: 0.0,
            sigma: 1.0,
            count,
            freedom: EFFICIENCY * (count as f64 - 1.0),
        };
        assert!(spread(10).limit(100, 0.05) > spread(1000).limit(100, 0.05));
        assert!(spread(1000).limit(10_000, 0.05) > spread(1000).limit(100, 0.05));
    }

    #[test]
    fn alike_groups_share_what_they_deviate_by() {
        let group = |sigma, count: usize| Spread {
            middle: 0.0,
            sigma,
            count,
            freedom: EFFICIENCY * (count as f64 - 1.0),
        };
        let alike: Vec<Spread> = (0..40).map(|at| group(1.0 + 0.01 * f64::from(at), 12)).collect();
        let (shared, freedom) = SharedSpread::from_groups(&alike).moderated(group(3.0, 12));
        assert!(freedom > 100.0 && shared.sigma < 1.8, "{shared:?} {freedom}");
        // Groups that differ a thousandfold have nothing in common.
        let uneven: Vec<Spread> =
            (0..40).map(|at| group(f64::exp(0.2 * f64::from(at)), 12)).collect();
        let (own, freedom) = SharedSpread::from_groups(&uneven).moderated(group(3.0, 12));
        assert!(freedom < 8.0 && (2.0..6.0).contains(&own.sigma), "{own:?} {freedom}");
        // A single group has only its own variance.
        let (alone, freedom) = SharedSpread::from_groups(&alike[..1]).moderated(group(3.0, 12));
        assert!((alone.sigma - 3.0).abs() < 1e-9 && freedom < 5.0);
        // Abramowitz and Stegun, table 6.1: the trigamma function of 1 and 2.
        assert!((trigamma(1.0) - 1.644_934).abs() < 1e-5);
        assert!((trigamma(2.0) - 0.644_934).abs() < 1e-5);
        assert!((inverse_trigamma(trigamma(3.3)) - 3.3).abs() < 1e-6);
    }

    #[test]
    fn where_many_are_sick_less_is_asked_of_each() {
        let healthy: Vec<f64> = (1..=100).map(|at| f64::from(at) / 100.0).collect();
        assert!((named_up_to(&healthy, 0.05) - 0.0005).abs() < 1e-12);
        let mut sick = healthy.clone();
        sick[..10].fill(1e-3);
        assert!((named_up_to(&sick, 0.05) - 0.005).abs() < 1e-12);
        assert_eq!(named_up_to(&[], 0.05), 0.05);
        for freedom in [2.0, 10.0, 1e4] {
            let value = upper_limit(freedom, 1e-3);
            assert!((upper_probability(freedom, value) / 1e-3 - 1.0).abs() < 1e-3);
        }
    }

    #[test]
    fn a_long_tail_of_healthy_values_is_seen() {
        let normal: Vec<f64> = (1..2000)
            .map(|at| StudentsT::new(0.0, 1.0, 1e6).unwrap().inverse_cdf(f64::from(at) / 2000.0))
            .collect();
        assert!(tail(&normal, 1e6) < 1.02);
        let long: Vec<f64> =
            normal.iter().map(|value| if *value < -2.0 { value * 2.0 } else { *value }).collect();
        assert!((1.8..2.2).contains(&tail(&long, 1e6)));
        assert!(slow_side(&normal, 1e6) < 1.02);
        let skew: Vec<f64> =
            normal.iter().map(|value| if *value > 0.0 { value * 2.0 } else { *value }).collect();
        assert!((1.9..2.1).contains(&slow_side(&skew, 1e6)) && tail(&skew, 1e6) < 1.02);
        // Slow ones do not hide themselves.
        let sick: Vec<f64> =
            normal.iter().map(|value| if *value > 1.7 { 9.0 } else { *value }).collect();
        assert!(tail(&sick, 1e6).max(slow_side(&sick, 1e6)) < 1.1);
    }

    #[test]
    fn an_onset_is_where_it_was_put() {
        let noise = |index: usize| ((index * 7919) % 13) as f64 * 0.01 - 0.06;
        for at in [1, 5, 12, 20, 23] {
            let values: Vec<f64> =
                (0..24).map(|index| noise(index) + f64::from(u8::from(index >= at))).collect();
            assert_eq!(onset(&values).unwrap().0, at);
        }
        let always: Vec<f64> = (0..24).map(|index| 1.0 + noise(index)).collect();
        assert_eq!(onset(&always), None);
        assert_eq!(onset(&[]), None);
        assert_eq!(onset(&[1.0]), None);
    }
}
