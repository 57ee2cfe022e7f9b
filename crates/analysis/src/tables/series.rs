//! Counters and gauges over the watch: a series for each metric and subject.
//!
//! A series has a point at its first reading and at each change; in between its value is constant.
//! The points of a long watch are thinned out, its figures are not.
//!
//! What does not belong here: which metrics there are (see [`iowhy_model::metric`]).

use crate::summary::{Samples, Series};
use crate::sums::watch_window::WatchWindow;
use iowhy_model::bounded_map::CappedMap;
use iowhy_model::compact_sort::CompactSort;
use iowhy_model::metric::Shape;
use iowhy_model::source::Batch;
use iowhy_model::{Metric, Name, Names, Sample, Scope};
use rustc_hash::FxHashMap;

/// Maximum number of series; samples of further ones are counted.
const MOST_SERIES: usize = 1 << 15;
/// Maximum number of points of one series; beyond it every second one is removed.
const MOST_POINTS: usize = 512;

/// Sums samples as they arrive.
#[derive(Clone, Debug, Default)]
pub(crate) struct SampleTally {
    series: CappedMap<(Metric, Name), SampleLine, MOST_SERIES>,
    /// The metric of each name; unknown ones are included.
    metrics: FxHashMap<(Scope, Name), Option<Metric>>,
    /// The last reading of any counter: a series without a later point had not changed by then.
    looked_ns: u64,
    /// Samples of metrics that this version does not know.
    unknown: u64,
}

/// One series, so far.
#[derive(Clone, Debug)]
struct SampleLine {
    first: (u64, f64),
    latest: (u64, f64),
    least: f64,
    most: f64,
    /// For a gauge: its value times nanoseconds, from the first point to the latest.
    area: f64,
    points: Vec<(u64, f64)>,
    /// The thinning factor of points.
    step: u32,
    skipped: u32,
}

impl SampleTally {
    pub fn add(&mut self, batch: &Batch, names: &Names) {
        for sample in &batch.samples {
            self.looked_ns = self.looked_ns.max(sample.time_ns);
            let known = self
                .metrics
                .entry((sample.scope, sample.metric))
                .or_insert_with(|| Metric::find(sample.scope, names.get(sample.metric)));
            let Some(metric) = *known else {
                self.unknown += 1;
                continue;
            };
            let key = (metric, sample.subject);
            if let Some(line) = self.series.or_insert_with(key, || SampleLine::new(sample)) {
                line.add(sample, metric.info().shape);
            }
        }
    }

    /// The latest point of a metric of `subject`, as its time and its value.
    pub fn latest(&self, metric: Metric, subject: Name) -> Option<(u64, f64)> {
        self.series.get(&(metric, subject)).map(|line| line.latest)
    }

    /// The growth of a metric of `subject`; `None` if it was read only once.
    pub fn change(&self, metric: Metric, subject: Name) -> Option<f64> {
        self.series.get(&(metric, subject))?.change(self.looked_ns)
    }

    /// The subjects that have a metric.
    pub fn subjects(&self, metric: Metric) -> impl Iterator<Item = Name> {
        self.series.keys().filter(move |key| key.0 == metric).map(|key| key.1)
    }

    /// The series within `window`.
    pub fn series(&self, window: WatchWindow, names: &Names) -> Samples {
        let mut rows: Vec<Series> = self
            .series
            .iter()
            .map(|((metric, subject), line)| {
                line.series(*metric, names.get(*subject), window, self.looked_ns)
            })
            .collect();
        rows.compact_sort_by(|a, b| (a.metric, &a.subject).cmp(&(b.metric, &b.subject)));
        Samples { rows, left_out: self.unknown + self.series.refused() }
    }
}

impl SampleLine {
    fn new(sample: &Sample) -> SampleLine {
        let point = (sample.time_ns, sample.value);
        SampleLine {
            first: point,
            latest: point,
            least: f64::INFINITY,
            most: f64::NEG_INFINITY,
            area: 0.0,
            points: Vec::new(),
            step: 1,
            skipped: 0,
        }
    }

    fn add(&mut self, sample: &Sample, shape: Shape) {
        let (time_ns, value) = (sample.time_ns, sample.value);
        // Values that no counter can have, from a forged recording, would invalidate the rest.
        if !value.is_finite() || time_ns < self.latest.0 {
            return;
        }
        let span = (time_ns - self.latest.0) as f64;
        let figure = match shape {
            Shape::Gauge => Some(value),
            Shape::Counter => (span > 0.0).then(|| (value - self.latest.1).max(0.0) / span * 1e9),
        };
        if let Some(figure) = figure {
            self.least = self.least.min(figure);
            self.most = self.most.max(figure);
        }
        self.area += self.latest.1 * span;
        self.latest = (time_ns, value);
        self.keep((time_ns, value));
    }

    fn keep(&mut self, point: (u64, f64)) {
        self.skipped += 1;
        if self.skipped < self.step {
            return;
        }
        self.skipped = 0;
        self.points.push(point);
        if self.points.len() >= MOST_POINTS {
            let mut index = 0;
            self.points.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            self.step *= 2;
        }
    }

    /// Its growth from its first poll to the last, at `looked_ns`; `None` with a single poll.
    fn change(&self, looked_ns: u64) -> Option<f64> {
        (looked_ns > self.first.0).then_some(self.latest.1 - self.first.1)
    }

    fn series(&self, metric: Metric, subject: &str, window: WatchWindow, looked_ns: u64) -> Series {
        let until_ns = window.end_ns.max(self.latest.0);
        let rest = (until_ns - self.latest.0) as f64;
        let length = until_ns.saturating_sub(self.first.0) as f64;
        let counted = self.least <= self.most;
        let (min, max) = if counted { (self.least, self.most) } else { (0.0, 0.0) };
        let change = self.change(looked_ns);
        let (min, mean, max) = match (metric.info().shape, change) {
            (Shape::Gauge, _) => {
                let mean = (self.area + self.latest.1 * rest) / length;
                (Some(min), Some(if length > 0.0 { mean } else { self.latest.1 }), Some(max))
            }
            (Shape::Counter, Some(change)) => {
                // It was constant between points.
                let still = self.points.len() < 2 || rest > 2e9;
                let mean = change / window.seconds().max(1e-9);
                (Some(if still { 0.0 } else { min }), Some(mean), Some(max))
            }
            (Shape::Counter, None) => (None, None, None),
        };
        Series {
            metric,
            subject: subject.to_owned(),
            first: self.first.1,
            last: self.latest.1,
            change,
            min,
            mean,
            max,
            points: self.points.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iowhy_model::Scope;

    const S: u64 = 1_000_000_000;

    fn of(points: &[(Metric, u64, f64)]) -> Samples {
        let (mut names, mut batch) = (Names::new(), Batch::default());
        for (metric, seconds, value) in points {
            batch.samples.push(Sample {
                time_ns: seconds * S,
                scope: metric.info().scope,
                subject: names.intern(if metric.info().scope == Scope::System {
                    ""
                } else {
                    "sda"
                }),
                metric: names.intern(metric.info().word),
                value: *value,
            });
        }
        let mut tally = SampleTally::default();
        tally.add(&batch, &names);
        tally.series(WatchWindow { start_ns: 0, end_ns: 10 * S }, &names)
    }

    #[test]
    fn a_gauge_has_a_mean_over_time() {
        let dirty = Metric::Dirty;
        let found = of(&[(dirty, 0, 10.0), (dirty, 4, 60.0), (dirty, 9, 0.0)]);
        let series = found.system(dirty).unwrap();
        assert_eq!((series.min, series.mean, series.max), (Some(0.0), Some(34.0), Some(60.0)));
        assert_eq!((series.first, series.last, series.points.len()), (10.0, 0.0, 3));
    }

    #[test]
    fn a_counter_has_rates() {
        let reads = Metric::Reads;
        let found = of(&[(reads, 0, 5.0), (reads, 8, 5.0), (reads, 9, 105.0), (reads, 10, 305.0)]);
        let series = found.get(reads, "sda").unwrap();
        assert_eq!((series.min, series.mean, series.max), (Some(0.0), Some(30.0), Some(200.0)));
        assert_eq!(series.change, Some(300.0));
        assert_eq!(found.of(reads).len(), 1);
        assert!(found.of(Metric::Writes).is_empty() && found.get(reads, "sdb").is_none());
    }

    #[test]
    fn what_was_read_once_is_not_known_to_have_stood_still() {
        let (reads, dirty) = (Metric::Reads, Metric::Dirty);
        let found = of(&[(reads, 3, 5.0), (dirty, 3, 10.0)]);
        let [gauge, counter] = found.rows.as_slice() else { panic!("{found:?}") };
        assert_eq!((gauge.mean, gauge.max, gauge.change), (Some(10.0), Some(10.0), None));
        assert_eq!(
            (counter.last, counter.mean, counter.max, counter.change),
            (5.0, None, None, None)
        );
        // A later reading of another counter shows that it had not changed.
        let found = of(&[(reads, 3, 5.0), (dirty, 3, 10.0), (dirty, 4, 12.0)]);
        assert_eq!(found.get(reads, "sda").unwrap().mean, Some(0.0));
    }

    #[test]
    fn a_long_watch_keeps_few_points() {
        let points: Vec<_> = (0..5_000).map(|at| (Metric::Dirty, at, at as f64)).collect();
        let found = of(&points);
        let series = found.system(Metric::Dirty).unwrap();
        assert!(series.points.len() < MOST_POINTS);
        assert_eq!((series.min, series.max, series.last), (Some(0.0), Some(4_999.0), 4_999.0));
    }
}
