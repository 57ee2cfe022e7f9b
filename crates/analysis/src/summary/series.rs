//! Counters and gauges over the watch in a summary: a series for each metric and subject.
//!
//! What does not belong here: how samples become a series (`tables::series`).

use iowhy_model::Metric;
#[cfg(feature = "schema")]
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};
#[cfg(feature = "schema")]
use std::borrow::Cow;

/// All series of a watch; in JSON without their points.
#[derive(Clone, PartialEq, Debug, Default, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Samples {
    /// By metric, then by subject.
    pub rows: Vec<Series>,
    /// Samples of unknown metrics, or of series beyond the limit.
    pub left_out: u64,
}

/// One metric of one subject.
#[derive(Clone, PartialEq, Debug)]
pub struct Series {
    /// The metric.
    pub metric: Metric,
    /// The device, process or cgroup; empty for the system.
    pub subject: String,
    /// Its first value.
    pub first: f64,
    /// Its last value.
    pub last: f64,
    /// Its growth; `None` if it was read only once.
    pub change: Option<f64>,
    /// For a gauge the smallest value; for a counter the smallest growth per second, `None` if it
    /// was read only once.
    pub min: Option<f64>,
    /// For a gauge the mean over time; for a counter its growth per second of the watch, `None`
    /// likewise.
    pub mean: Option<f64>,
    /// For a gauge the largest value; for a counter the largest growth per second, `None` likewise.
    pub max: Option<f64>,
    /// Its points: time (CLOCK_MONOTONIC nanoseconds) and value at the first reading and at each
    /// change; thinned in a long watch.
    pub points: Vec<(u64, f64)>,
}

impl Series {
    /// Its known growth.
    pub fn grown(&self) -> f64 {
        self.change.unwrap_or(0.0)
    }

    /// Its growth per second in the second half of the time from its first reading to `until_ns`
    /// (CLOCK_MONOTONIC): what it grows by once something has gone on for a while; `None` if it was
    /// read only once.
    pub fn late_growth(&self, until_ns: u64) -> Option<f64> {
        let ((from_ns, _), (_, last)) = (*self.points.first()?, *self.points.last()?);
        self.change?;
        let half_ns = until_ns.checked_sub(from_ns).filter(|whole| *whole > 1)? / 2;
        let middle_ns = from_ns + half_ns;
        let read = self.points.partition_point(|(time_ns, _)| *time_ns <= middle_ns);
        let (_, value) = *self.points.get(read.checked_sub(1)?)?;
        Some((last - value).max(0.0) * 1e9 / half_ns as f64)
    }
}

impl Samples {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The series of `metric` of `subject`.
    pub fn get(&self, metric: Metric, subject: &str) -> Option<&Series> {
        let order = |row: &Series| (row.metric, row.subject.as_str()).cmp(&(metric, subject));
        self.rows.binary_search_by(order).ok().and_then(|index| self.rows.get(index))
    }

    /// The time of the latest reading, CLOCK_MONOTONIC nanoseconds; 0 if there is none.
    pub fn latest_ns(&self) -> u64 {
        let last = self.rows.iter().filter_map(|series| series.points.last());
        last.map(|(time_ns, _)| *time_ns).max().unwrap_or(0)
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

/// A [`Series`] as JSON has it: with what is known of its metric, without its points.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Series"))]
struct SeriesJson<'a> {
    /// What it is about: system, device, process or cgroup.
    scope: &'static str,
    /// The device, process or cgroup; empty for the system.
    subject: &'a str,
    /// Which counter, in the kernel's own words.
    metric: &'static str,
    /// The unit of its values.
    unit: &'static str,
    /// Its first value.
    first: f64,
    /// Its last value.
    last: f64,
    /// What it grew by; null where it was read only once.
    change: Option<f64>,
    /// The smallest value, or growth per second of a counter; null where it was read only once.
    min: Option<f64>,
    /// The mean over time, or growth per second of a counter; null likewise.
    mean: Option<f64>,
    /// The largest value, or growth per second of a counter; null likewise.
    max: Option<f64>,
}

impl Serialize for Series {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let info = self.metric.info();
        let row = SeriesJson {
            scope: info.scope.word(),
            subject: &self.subject,
            metric: info.word,
            unit: info.unit.symbol(),
            first: self.first,
            last: self.last,
            change: self.change,
            min: self.min,
            mean: self.mean,
            max: self.max,
        };
        row.serialize(serializer)
    }
}

#[cfg(feature = "schema")]
impl JsonSchema for Series {
    fn schema_name() -> Cow<'static, str> {
        SeriesJson::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        SeriesJson::json_schema(generator)
    }
}
