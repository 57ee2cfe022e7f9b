//! `[[trigger.when]]`: a condition on a figure of ten seconds.
//!
//! What does not belong here: the figure's value (see the module `trigger::condition`).

use super::lines::Contradiction;
use crate::units::TimeSpan;
use iowhy_analysis::Direction;
use iowhy_model::WaitClass;
use serde::{Deserialize, Deserializer, de};
use std::fmt;

/// Conditions in a configuration at most.
pub const MOST_CONDITIONS: usize = 32;
/// The shortest time that a condition can last: a window of the rolling diagnosis.
const LEAST_TIME: TimeSpan = TimeSpan::seconds(10);
const MOST_TIME: TimeSpan = TimeSpan::minutes(60);

/// A figure that a condition can be about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConditionMetric {
    /// Completed requests per second.
    Iops,
    /// 10^6 bytes per second of completed requests.
    MbPerSecond,
    /// Median of Q2C.
    P50,
    /// 99th percentile of Q2C.
    P99,
    /// The longest Q2C.
    Max,
    /// Share of the time with a request at the driver, percent.
    Utilization,
    /// Mean number of requests queued or in flight.
    InFlight,
    /// Mean number of threads that wait.
    BlockedThreads,
}

impl ConditionMetric {
    /// Returns the metric's name.
    pub const fn word(self) -> &'static str {
        match self {
            ConditionMetric::Iops => "iops",
            ConditionMetric::MbPerSecond => "mb-per-second",
            ConditionMetric::P50 => "p50",
            ConditionMetric::P99 => "p99",
            ConditionMetric::Max => "max",
            ConditionMetric::Utilization => "utilization",
            ConditionMetric::InFlight => "in-flight",
            ConditionMetric::BlockedThreads => "blocked-threads",
        }
    }

    /// Returns whether the metric is a time.
    pub const fn is_time(self) -> bool {
        matches!(self, ConditionMetric::P50 | ConditionMetric::P99 | ConditionMetric::Max)
    }

    /// Returns whether the metric exists for each operation.
    const fn has_operations(self) -> bool {
        self.is_time() || matches!(self, ConditionMetric::Iops | ConditionMetric::MbPerSecond)
    }
}

/// The limit of a figure: a time, or a number in the unit of the figure.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Threshold {
    /// A time.
    Time(TimeSpan),
    /// A number.
    Number(f64),
}

impl Threshold {
    /// Returns the number, or the time in nanoseconds.
    pub fn value(self) -> f64 {
        match self {
            Threshold::Time(time) => time.ns() as f64,
            Threshold::Number(number) => number,
        }
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Threshold::Time(time) => time.fmt(f),
            Threshold::Number(number) => number.fmt(f),
        }
    }
}

impl<'de> Deserialize<'de> for Threshold {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Threshold, D::Error> {
        match toml::Value::deserialize(deserializer)? {
            toml::Value::String(text) => {
                text.parse().map(Threshold::Time).map_err(de::Error::custom)
            }
            toml::Value::Integer(number) => Ok(Threshold::Number(number as f64)),
            toml::Value::Float(number) => Ok(Threshold::Number(number)),
            _ => Err(de::Error::custom("a limit is a number, or a time such as \"50ms\"")),
        }
    }
}

/// A condition on a figure of ten seconds.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ConditionConfig {
    /// The figure.
    pub metric: ConditionMetric,
    /// The limit that it must exceed.
    pub above: Threshold,
    /// The device by kernel name; without it, each device by itself.
    pub device: Option<String>,
    /// The operation; without it, all together, or each by itself for a latency.
    pub operation: Option<String>,
    /// The wait class of blocked threads; without it, all classes together.
    pub class: Option<String>,
    /// The time that it must be above the limit without a break, rounded up to tens of seconds.
    #[serde(rename = "for", default = "ten_seconds")]
    pub lasting: TimeSpan,
}

const fn ten_seconds() -> TimeSpan {
    LEAST_TIME
}

impl ConditionConfig {
    /// Returns the condition in words, which identify it.
    pub fn words(&self) -> String {
        let mut words: Vec<&str> = Vec::new();
        words.extend(self.device.as_deref());
        words.extend(self.operation.as_deref());
        words.extend(self.class.as_deref());
        words.push(self.metric.word());
        format!("{} above {}", words.join(" "), self.above)
    }

    /// Returns the contradiction in the condition `index`, if there is one.
    pub fn contradiction(&self, index: usize) -> Option<Contradiction> {
        let wrong = |name: &'static str, reason: String| {
            let (key, item) = ("trigger.when", Some((index, name)));
            Some(Contradiction { key, item, reason: format!("trigger.when: {reason}") })
        };
        let word = self.metric.word();
        let is_time = matches!(self.above, Threshold::Time(_));
        let operation = self.operation.as_deref();
        let class = self.class.as_deref();
        let is_operation =
            |name: &str| Direction::ALL.iter().any(|direction| direction.word() == name);
        if is_time != self.metric.is_time() {
            let wanted = if is_time { "a number" } else { "a time such as \"50ms\"" };
            wrong("above", format!("the limit of {word} is {wanted}"))
        } else if !(self.above.value() > 0.0 && self.above.value().is_finite()) {
            wrong("above", format!("{} is no limit", self.above))
        } else if self.metric == ConditionMetric::BlockedThreads && self.device.is_some() {
            wrong("device", "blocked-threads has no device".to_owned())
        } else if operation.is_some() && !self.metric.has_operations() {
            wrong("operation", format!("{word} has no operation"))
        } else if let Some(name) = operation.filter(|name| !is_operation(name)) {
            let all = Direction::ALL
                .iter()
                .map(|direction| direction.word())
                .collect::<Vec<_>>()
                .join(", ");
            wrong("operation", format!("{name:?} is no operation: {all}"))
        } else if class.is_some() && self.metric != ConditionMetric::BlockedThreads {
            wrong("class", format!("{word} has no wait class"))
        } else if let Some(name) = class.filter(|name| WaitClass::from_word(name).is_none()) {
            wrong("class", format!("{name:?} is no wait class"))
        } else if !(LEAST_TIME..=MOST_TIME).contains(&self.lasting) {
            let reason = format!("for is {}, not from {LEAST_TIME} to {MOST_TIME}", self.lasting);
            wrong("for", reason)
        } else {
            None
        }
    }
}
