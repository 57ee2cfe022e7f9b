//! Statistics that one sick drive, or a few, cannot bend: medians, their spread, and limits with a
//! stated rate of false alarms.
//!
//! What does not belong here: drives.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// From a median absolute deviation to the standard deviation of a normal distribution.
const MAD_TO_SIGMA: f64 = 1.4826;
/// How much less a deviation from medians knows than one from means: 37 % of the values count.
const EFFICIENCY: f64 = 0.37;

/// The value that this share of the values is below; `None` without values. Reorders them.
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

/// The middle of values and their standard deviation, from medians. Values of which half are equal
/// have none; `least` is then taken.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Spread {
    /// The median.
    pub middle: f64,
    /// The standard deviation of the values around it.
    pub sigma: f64,
    /// Values.
    pub count: usize,
}

impl Spread {
    /// Of these values; `None` without any.
    pub fn of(values: &[f64], least: f64) -> Option<Spread> {
        let mut values = values.to_vec();
        let middle = median(&mut values)?;
        let mut distances: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
        let sigma = (MAD_TO_SIGMA * median(&mut distances)?).max(least);
        Some(Spread { middle, sigma, count: values.len() })
    }

    /// How many deviations above the middle a value must be, so that among `tested` healthy ones
    /// any is beyond it in at most the share `alarms` of all runs. The fewer values the deviation
    /// is from, the more.
    pub fn limit(&self, tested: usize, alarms: f64) -> f64 {
        let freedom = (EFFICIENCY * self.count.saturating_sub(1) as f64).max(2.0);
        upper_limit(freedom, alarms / tested.max(1) as f64)
    }
}

/// The value that Student's t with so much freedom is above with this probability.
pub fn upper_limit(freedom: f64, probability: f64) -> f64 {
    let probability = probability.clamp(1e-12, 0.5);
    StudentsT::new(0.0, 1.0, freedom).map_or(f64::INFINITY, |t| -t.inverse_cdf(probability))
}

/// Where a series of values rises for good: the first index of the later part, and the means before
/// and after. `None` where it does not: no place divides it into two parts of which the later one
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
        let spread = Spread::of(&values, 0.0).unwrap();
        assert_eq!((spread.middle, spread.sigma), (3.0, MAD_TO_SIGMA));
        assert_eq!(Spread::of(&[5.0; 9], 0.25).unwrap().sigma, 0.25);
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
        let spread = |count| Spread { middle: 0.0, sigma: 1.0, count };
        assert!(spread(10).limit(100, 0.05) > spread(1000).limit(100, 0.05));
        assert!(spread(1000).limit(10_000, 0.05) > spread(1000).limit(100, 0.05));
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
