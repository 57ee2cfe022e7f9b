//! Counters and gauges over the watch: a series for each metric and subject.
//!
//! A series has a point where its value was first read and wherever it changed; in between it is what
//! it was. The points of a long watch are thinned out, its figures are not.
//!
//! What does not belong here: which metrics there are (see [`crate::model::metric`]).

use super::device::Window;
use crate::model::metric::Shape;
use crate::model::{Metric, Name, Names, Sample, Scope};
use crate::source::Batch;
use rustc_hash::FxHashMap;
use serde::ser::{Serialize, SerializeStruct, Serializer};

/// Series that are kept; samples of any further one are counted.
const MOST_SERIES: usize = 1 << 15;
/// Points kept of one series before every second one is forgotten.
const MOST_POINTS: usize = 512;

/// Adds up samples as they come.
#[derive(Clone, Debug, Default)]
pub(super) struct SampleTally {
    series: FxHashMap<(Metric, Name), Line>,
    /// Which metric a name stands for; the names of unknown ones are here too.
    metrics: FxHashMap<(Scope, Name), Option<Metric>>,
    /// When anything was read last: what has no later point had not changed by then.
    looked_ns: u64,
    left_out: u64,
}

/// One series, so far.
#[derive(Clone, Debug)]
struct Line {
    first: (u64, f64),
    latest: (u64, f64),
    least: f64,
    most: f64,
    /// Of a gauge: its value times nanoseconds, from the first point to the latest.
    area: f64,
    points: Vec<(u64, f64)>,
    /// Every how many-th point is kept.
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
                self.left_out += 1;
                continue;
            };
            let key = (metric, sample.subject);
            if self.series.len() >= MOST_SERIES && !self.series.contains_key(&key) {
                self.left_out += 1;
                continue;
            }
            let shape = metric.info().shape;
            self.series.entry(key).or_insert_with(|| Line::new(sample)).add(sample, shape);
        }
    }

    /// The latest point of a metric of `subject`, as its time and its value.
    pub fn latest(&self, metric: Metric, subject: Name) -> Option<(u64, f64)> {
        self.series.get(&(metric, subject)).map(|line| line.latest)
    }

    /// What a metric of `subject` grew by; `None` where it was read only once.
    pub fn change(&self, metric: Metric, subject: Name) -> Option<f64> {
        self.series.get(&(metric, subject))?.change(self.looked_ns)
    }

    /// The subjects that have a metric.
    pub fn subjects(&self, metric: Metric) -> impl Iterator<Item = Name> {
        self.series.keys().filter(move |key| key.0 == metric).map(|key| key.1)
    }

    /// The series within `window`.
    pub fn series(&self, window: Window, names: &Names) -> Samples {
        let mut rows: Vec<Series> = self
            .series
            .iter()
            .map(|((metric, subject), line)| {
                line.series(*metric, names.get(*subject), window, self.looked_ns)
            })
            .collect();
        rows.sort_by(|a, b| (a.metric, &a.subject).cmp(&(b.metric, &b.subject)));
        Samples { rows, left_out: self.left_out }
    }
}

impl Line {
    fn new(sample: &Sample) -> Line {
        let point = (sample.time_ns, sample.value);
        Line {
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
        // Values that no counter has, of a recording that somebody made: they would spoil the rest.
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

    /// What it grew by from its first look to the last, which was at `looked_ns`; `None` where that is
    /// one look.
    fn change(&self, looked_ns: u64) -> Option<f64> {
        (looked_ns > self.first.0).then_some(self.latest.1 - self.first.1)
    }

    fn series(&self, metric: Metric, subject: &str, window: Window, looked_ns: u64) -> Series {
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
                // It stood still where it has no points.
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

/// All series of a watch; in JSON without their points.
#[derive(Clone, PartialEq, Debug, Default, serde::Serialize)]
pub struct Samples {
    /// By metric, then by subject.
    pub rows: Vec<Series>,
    /// Samples of metrics that this iowhy does not know, or of more series than it keeps.
    pub left_out: u64,
}

/// One metric of one subject.
#[derive(Clone, PartialEq, Debug)]
pub struct Series {
    /// Which metric.
    pub metric: Metric,
    /// Which device, process or cgroup; empty for the system.
    pub subject: String,
    /// Its first value.
    pub first: f64,
    /// Its last value.
    pub last: f64,
    /// What it grew by; `None` where it was read only once.
    pub change: Option<f64>,
    /// Of a gauge the smallest value; of a counter the smallest growth per second, `None` where it was read
    /// only once.
    pub min: Option<f64>,
    /// Of a gauge the mean over time; of a counter its growth per second of the watch, `None` likewise.
    pub mean: Option<f64>,
    /// Of a gauge the largest value; of a counter the largest growth per second, `None` likewise.
    pub max: Option<f64>,
    /// When (CLOCK_MONOTONIC nanoseconds) it had which value: when it was first read and whenever it
    /// had changed; of a long watch not all of them.
    pub points: Vec<(u64, f64)>,
}

impl Series {
    /// What it is known to have grown by.
    pub fn grown(&self) -> f64 {
        self.change.unwrap_or(0.0)
    }
}

impl Samples {
    /// Whether there is none: the source has no samples.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The series of `metric` of `subject`.
    pub fn get(&self, metric: Metric, subject: &str) -> Option<&Series> {
        let order = |row: &Series| (row.metric, row.subject.as_str()).cmp(&(metric, subject));
        self.rows.binary_search_by(order).ok().and_then(|place| self.rows.get(place))
    }

    /// The series of a metric of the whole machine.
    pub fn system(&self, metric: Metric) -> Option<&Series> {
        self.get(metric, "")
    }

    /// The series of `metric`, of all subjects.
    pub fn of(&self, metric: Metric) -> &[Series] {
        let from = self.rows.partition_point(|row| row.metric < metric);
        let to = self.rows.partition_point(|row| row.metric <= metric);
        &self.rows[from..to]
    }
}

impl Serialize for Series {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let info = self.metric.info();
        let mut row = serializer.serialize_struct("Series", 10)?;
        row.serialize_field("scope", info.scope.word())?;
        row.serialize_field("subject", &self.subject)?;
        row.serialize_field("metric", info.word)?;
        row.serialize_field("unit", info.unit.symbol())?;
        row.serialize_field("first", &self.first)?;
        row.serialize_field("last", &self.last)?;
        row.serialize_field("change", &self.change)?;
        row.serialize_field("min", &self.min)?;
        row.serialize_field("mean", &self.mean)?;
        row.serialize_field("max", &self.max)?;
        row.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Scope;

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
        tally.series(Window { start_ns: 0, end_ns: 10 * S }, &names)
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
        // Whatever else was read later tells that nothing was to be said of it.
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
