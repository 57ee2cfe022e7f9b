//! Two kinds of rounds compared: the difference of their means with its confidence interval
//! (Welch's, which does not assume equal variances).
//!
//! What does not belong here: running rounds (crate `iowhy-reproduce` and the binary).

use crate::fidelity::{FidelityUnit, WatchFigures};
use serde::Serialize;

/// The 97.5 % quantiles of Student's t for 1 to 30 degrees of freedom.
const T: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];
/// The quantile for more degrees of freedom: that of the normal distribution.
const NORMAL: f64 = 1.96;

/// The means of two kinds of rounds, and their difference.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RoundsCompared {
    /// Without and with the change.
    pub means: [f64; 2],
    /// With minus without.
    pub difference: f64,
    /// The 95 % confidence interval of the difference.
    pub interval: [f64; 2],
    /// Whether the interval excludes zero.
    pub is_clear: bool,
    /// Rounds of each kind.
    pub rounds: [usize; 2],
}

/// One figure of both kinds of rounds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RoundsRow {
    /// The figure's name.
    pub what: String,
    /// The figure's unit.
    pub unit: FidelityUnit,
    /// Both kinds.
    pub compared: RoundsCompared,
}

/// The figures of rounds without and with a change, of all disks together.
pub fn table(without: &[WatchFigures], with: &[WatchFigures]) -> Vec<RoundsRow> {
    let mut rows = Vec::new();
    let mut add = |what: &str, unit, of: &dyn Fn(&WatchFigures) -> Option<f64>| {
        let values = |rounds: &[WatchFigures]| rounds.iter().filter_map(of).collect::<Vec<f64>>();
        let (a, b) = (values(without), values(with));
        // A figure that rounds lack is not comparable.
        if a.len() == without.len()
            && b.len() == with.len()
            && let Some(compared) = compare(&a, &b)
            && compared.means.iter().any(|mean| *mean > 0.0)
        {
            rows.push(RoundsRow { what: what.to_owned(), unit, compared });
        }
    };
    add("reads", FidelityUnit::PerSecond, &|watch| {
        Some(watch.disks.iter().map(|disk| disk.read.per_s).sum())
    });
    add("writes", FidelityUnit::PerSecond, &|watch| {
        Some(watch.disks.iter().map(|disk| disk.write.per_s).sum())
    });
    let longest = |watch: &WatchFigures, of: fn(&crate::fidelity::DiskFigures) -> Option<u64>| {
        watch.disks.iter().filter_map(of).max().map(|ns| ns as f64)
    };
    let time = FidelityUnit::Nanoseconds;
    add("read p50", time, &|watch| longest(watch, |disk| disk.read.p50_ns));
    add("read p99", time, &|watch| longest(watch, |disk| disk.read.p99_ns));
    add("write p50", time, &|watch| longest(watch, |disk| disk.write.p50_ns));
    add("write p99", time, &|watch| longest(watch, |disk| disk.write.p99_ns));
    add("blocked threads", FidelityUnit::Number, &|watch| watch.blocked_threads);
    rows
}

/// Compares rounds without a change (`a`) and with it (`b`); `None` with fewer than two of a kind.
///
/// # Examples
///
/// ```
/// use iowhy_diagnosis::rounds::compare;
///
/// let compared = compare(&[10.0, 11.0, 9.0, 10.0], &[20.0, 21.0, 19.0, 20.0]).unwrap();
/// assert!(compared.is_clear && compared.difference == 10.0);
/// ```
pub fn compare(a: &[f64], b: &[f64]) -> Option<RoundsCompared> {
    if a.len() < 2 || b.len() < 2 {
        return None;
    }
    let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
    let (mean_a, mean_b) = (mean(a), mean(b));
    // The variance of a mean.
    let variance = |of: &[f64], mean: f64| {
        let sum: f64 = of.iter().map(|value| (value - mean).powi(2)).sum();
        sum / (of.len() - 1) as f64 / of.len() as f64
    };
    let (of_a, of_b) = (variance(a, mean_a), variance(b, mean_b));
    let part = |of: f64, count: usize| of.powi(2) / (count - 1) as f64;
    let freedom = (of_a + of_b).powi(2) / (part(of_a, a.len()) + part(of_b, b.len()));
    let half = quantile(freedom) * (of_a + of_b).sqrt();
    let difference = mean_b - mean_a;
    let interval = [difference - half, difference + half];
    Some(RoundsCompared {
        means: [mean_a, mean_b],
        difference,
        interval,
        is_clear: interval[0] > 0.0 || interval[1] < 0.0,
        rounds: [a.len(), b.len()],
    })
}

/// The 97.5 % quantile; with fewer degrees of freedom it is larger, so they are rounded down.
fn quantile(freedom: f64) -> f64 {
    // Two kinds without any variance have no degrees of freedom.
    if !freedom.is_finite() {
        return NORMAL;
    }
    let at = (freedom.floor() as usize).max(1) - 1;
    T.get(at).copied().unwrap_or(NORMAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_not_a_difference() {
        let compared = compare(&[10.0, 14.0, 8.0], &[11.0, 9.0, 13.0]).unwrap();
        assert!(!compared.is_clear, "{compared:?}");
        assert!(compared.interval[0] < 0.0 && compared.interval[1] > 0.0);
    }

    /// Checked with R: t.test(c(27.5,21,19,23.6,17), c(27.1,22,20.8,23.4,23.4)).
    #[test]
    fn the_interval_is_that_of_welch() {
        let a = [27.5, 21.0, 19.0, 23.6, 17.0];
        let b = [27.1, 22.0, 20.8, 23.4, 23.4];
        let compared = compare(&b, &a).unwrap();
        assert!((compared.difference + 1.72).abs() < 1e-9, "{compared:?}");
        // The degrees of freedom (6.2) are rounded down, so it is a little wider.
        assert!((-7.0..-6.0).contains(&compared.interval[0]), "{compared:?}");
        assert!((2.6..3.5).contains(&compared.interval[1]), "{compared:?}");
    }

    #[test]
    fn a_table_has_only_what_all_rounds_have() {
        let round = |reads: f64, p50_ns: Option<u64>| {
            let mut disk = crate::fidelity::DiskFigures::default();
            (disk.read.per_s, disk.read.p50_ns) = (reads, p50_ns);
            WatchFigures { disks: vec![disk], ..WatchFigures::default() }
        };
        let without = [round(10.0, Some(5)), round(11.0, Some(6))];
        let with = [round(20.0, Some(5)), round(21.0, None)];
        let rows = table(&without, &with);
        let names: Vec<&str> = rows.iter().map(|row| row.what.as_str()).collect();
        assert_eq!(names, ["reads"]);
        assert_eq!(rows[0].compared.difference, 10.0);
    }

    #[test]
    fn too_few_rounds_say_nothing() {
        assert_eq!(compare(&[1.0], &[2.0, 3.0]), None);
        let same = compare(&[1.0, 1.0], &[1.0, 1.0]).unwrap();
        assert!(!same.is_clear && same.difference == 0.0);
    }
}
