//! Conditions of the configuration, judged every ten seconds.
//!
//! What does not belong here: their syntax (see [`crate::config::condition`]).

use super::{Trigger, TriggerKey, TriggerKind};
use crate::config::condition::{ConditionConfig, ConditionMetric};
use crate::rolling::WINDOW_NS;
use iowhy_analysis::summary::DeviceSummary;
use iowhy_analysis::{Direction, Interval, Summary};
use std::collections::BTreeMap;

/// Devices for which one condition can be met at most; further ones are ignored.
const MOST_DEVICES: usize = 64;

/// A figure of ten seconds.
#[derive(Clone, PartialEq, Debug)]
struct MeasuredFigure {
    /// The device; empty for a figure of the machine.
    device: String,
    /// The operation of a latency that was not named.
    operation: Option<&'static str>,
    value: f64,
}

/// Follows the conditions of a configuration.
#[derive(Clone, Debug)]
pub(super) struct ConditionWatch {
    conditions: Vec<ConditionConfig>,
    /// The number of windows without a break in which each is met, by its place and the device.
    met: BTreeMap<(usize, String), u64>,
}

impl ConditionWatch {
    /// Follows these conditions.
    pub(super) fn new(conditions: &[ConditionConfig]) -> ConditionWatch {
        ConditionWatch { conditions: conditions.to_vec(), met: BTreeMap::new() }
    }

    /// Returns the conditions that are met for long enough after another window.
    pub(super) fn window(&mut self, summary: &Summary) -> Vec<Trigger> {
        let before = std::mem::take(&mut self.met);
        let mut found = Vec::new();
        for (place, condition) in self.conditions.iter().enumerate() {
            let above = condition.above.value();
            let figures = figures(condition, summary).into_iter();
            for figure in figures.filter(|figure| figure.value > above).take(MOST_DEVICES) {
                let key = (place, figure.device.clone());
                let windows = before.get(&key).copied().unwrap_or(0) + 1;
                if windows.saturating_mul(WINDOW_NS) >= condition.lasting.ns() {
                    found.push(trigger(condition, &figure, windows));
                }
                self.met.insert(key, windows);
            }
        }
        found
    }
}

fn trigger(condition: &ConditionConfig, figure: &MeasuredFigure, windows: u64) -> Trigger {
    let of = match figure.device.as_str() {
        "" => String::new(),
        device => format!(" of {device}"),
    };
    let operation = figure.operation.map(|word| format!("{word} ")).unwrap_or_default();
    let words = match condition.metric {
        ConditionMetric::BlockedThreads => condition.class.as_deref(),
        _ => condition.operation.as_deref(),
    };
    let words = words.map(|word| format!("{word} ")).unwrap_or_default();
    let value = match condition.metric.is_time() {
        true => format!("{:.1} ms", figure.value / 1e6),
        false => format!("{:.1}", figure.value),
    };
    let seconds = windows.saturating_mul(WINDOW_NS) / 1_000_000_000;
    let (metric, above) = (condition.metric.word(), condition.above);
    Trigger {
        key: TriggerKey {
            cause: condition.words(),
            ..TriggerKey::new(TriggerKind::Condition, &figure.device)
        },
        sentence: format!(
            "{operation}{words}{metric}{of} is {value}, and above {above} for {seconds} s"
        ),
    }
}

/// Returns the figures that a condition is about.
fn figures(condition: &ConditionConfig, summary: &Summary) -> Vec<MeasuredFigure> {
    if condition.metric == ConditionMetric::BlockedThreads {
        let value = blocked_threads(condition.class.as_deref(), summary);
        let machine = |value| MeasuredFigure { device: String::new(), operation: None, value };
        return value.map(machine).into_iter().collect();
    }
    let named = condition.device.as_deref();
    let is_named = |device: &&DeviceSummary| named.is_none_or(|name| name == device.device);
    let devices = summary.devices.iter().filter(is_named);
    devices.filter_map(|device| of_device(condition, device)).collect()
}

fn blocked_threads(class: Option<&str>, summary: &Summary) -> Option<f64> {
    let ledger = summary.ledger.as_ref()?;
    let ns = match class {
        None => ledger.blocked_ns,
        Some(class) => {
            let rows = ledger.classes.iter().filter(|row| row.class == class);
            rows.map(|row| row.time_ns).sum()
        }
    };
    Some(ns as f64 / summary.watch.duration_ns.max(1) as f64)
}

fn of_device(condition: &ConditionConfig, device: &DeviceSummary) -> Option<MeasuredFigure> {
    let wanted = condition.operation.as_deref();
    let directions = Direction::ALL.into_iter();
    let directions =
        directions.filter(|direction| wanted.is_none_or(|word| word == direction.word()));
    let sum = |of: &dyn Fn(Direction) -> f64| Some(directions.clone().map(of).sum::<f64>());
    let figure =
        |operation, value| MeasuredFigure { device: device.device.clone(), operation, value };
    let longest = |of: &dyn Fn(Direction) -> Option<u64>| {
        let (ns, word) = directions
            .clone()
            .filter_map(|direction| Some((of(direction)?, direction.word())))
            .max()?;
        Some(figure(wanted.is_none().then_some(word), ns as f64))
    };
    let stage = |direction: Direction| device.directions[direction].intervals[Interval::Q2c];
    let value = match condition.metric {
        ConditionMetric::Iops => sum(&|direction| device.directions[direction].requests_per_s),
        ConditionMetric::MbPerSecond => {
            sum(&|direction| device.directions[direction].bytes_per_s / 1e6)
        }
        ConditionMetric::P50 => return longest(&|direction| Some(stage(direction)?.p50_ns)),
        ConditionMetric::P99 => return longest(&|direction| Some(stage(direction)?.p99_ns)),
        ConditionMetric::Max => return longest(&|direction| Some(stage(direction)?.max_ns)),
        ConditionMetric::Utilization => device.util_share.map(|share| share * 100.0),
        ConditionMetric::InFlight => Some(device.in_flight_mean),
        ConditionMetric::BlockedThreads => None,
    };
    Some(figure(None, value?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::RecorderConfig;
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::WaitClass;
    use iowhy_model::script::Script;
    use std::path::Path;

    const MS: u64 = 1_000_000;

    fn watch(text: &str) -> ConditionWatch {
        let config = RecorderConfig::parse(Path::new("iowhy.toml"), text).unwrap();
        ConditionWatch::new(&config.trigger.when)
    }

    /// Returns ten seconds in which writes to sda take so long, and sdb is read at once.
    fn seconds(write_ms: u64) -> Summary {
        let mut script = Script::new(10);
        for index in 0..100_i64 {
            let at = index * 100 * MS as i64;
            script.write("sda", 1 << 20).by(7, "db").at(at).direct(1, 2, write_ms * MS).add();
            script.read("sdb", 4096).by(7, "db").at(at).direct(1, 2, MS).add();
        }
        script.wait((7, "db"), WaitClass::Fsync, 5_000 * MS, 0, 0);
        script.summary()
    }

    fn met(watch: &mut ConditionWatch, summary: &Summary) -> Vec<(String, String)> {
        let found = watch.window(summary);
        found.into_iter().map(|trigger| (trigger.key.device, trigger.sentence)).collect()
    }

    #[test]
    fn a_latency_above_its_limit_for_long_enough_is_one() {
        let when = "[[trigger.when]]\nmetric = \"p99\"\nabove = \"20ms\"\nfor = \"25s\"\n";
        let mut watch = watch(when);
        let (slow, fast) = (seconds(50), seconds(5));
        for summary in [&slow, &slow, &fast, &slow, &slow] {
            assert!(met(&mut watch, summary).is_empty());
        }
        let found = met(&mut watch, &slow);
        let (device, sentence) = &found[0];
        assert_eq!((found.len(), device.as_str()), (1, "sda"));
        assert_eq!(sentence, "write p99 of sda is 50.0 ms, and above 20ms for 30 s");
        assert_eq!(met(&mut watch, &slow).len(), 1, "it lasts");
        assert!(met(&mut watch, &fast).is_empty());
    }

    #[test]
    fn rates_depths_and_threads_are_figures_too() {
        let summary = seconds(50);
        for (when, expected) in [
            ("metric = \"iops\"\nabove = 9\ndevice = \"sda\"", Some("sda")),
            ("metric = \"iops\"\nabove = 11\ndevice = \"sda\"", None),
            ("metric = \"iops\"\nabove = 1\ndevice = \"sda\"\noperation = \"read\"", None),
            ("metric = \"mb-per-second\"\nabove = 10\n", Some("sda")),
            ("metric = \"max\"\nabove = \"10ms\"\noperation = \"read\"", None),
            ("metric = \"p50\"\nabove = \"10ms\"\noperation = \"write\"", Some("sda")),
            ("metric = \"utilization\"\nabove = 40", Some("sda")),
            ("metric = \"in-flight\"\nabove = 0.4", Some("sda")),
            ("metric = \"blocked-threads\"\nabove = 0.4", Some("")),
            ("metric = \"blocked-threads\"\nabove = 0.4\nclass = \"fsync\"", Some("")),
            ("metric = \"blocked-threads\"\nabove = 0.4\nclass = \"swap\"", None),
        ] {
            let found = met(&mut watch(&format!("[[trigger.when]]\n{when}\n")), &summary);
            let devices: Vec<&str> = found.iter().map(|(device, _)| device.as_str()).collect();
            assert_eq!(devices, expected.into_iter().collect::<Vec<_>>(), "{when}: {found:?}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_its_line() {
        for (when, said) in [
            ("metric = \"p99\"\nabove = 5", "line 3: trigger.when: the limit of p99 is a time"),
            ("metric = \"iops\"\nabove = \"5ms\"", "line 3: trigger.when: the limit of iops"),
            ("metric = \"iops\"\nabove = -1", "line 3: trigger.when: -1 is no limit"),
            (
                "metric = \"iops\"\nabove = 1\noperation = \"chew\"",
                "line 4: trigger.when: \"chew\"",
            ),
            ("metric = \"iops\"\nabove = 1\nclass = \"swap\"", "line 4: trigger.when: iops has no"),
            ("metric = \"blocked-threads\"\nabove = 1\nclass = \"x\"", "\"x\" is no wait class"),
            ("metric = \"blocked-threads\"\nabove = 1\ndevice = \"x\"", "line 4: trigger.when"),
            ("metric = \"utilization\"\nabove = 1\noperation = \"read\"", "has no operation"),
            ("metric = \"iops\"\nabove = 1\nfor = \"2h\"", "line 4: trigger.when: for is 2h"),
            ("metric = \"speed\"\nabove = 1", "line 2: unknown variant `speed`"),
            ("metric = \"iops\"", "line 1: missing field `above`"),
        ] {
            let text = format!("[[trigger.when]]\n{when}\n");
            let error = RecorderConfig::parse(Path::new("iowhy.toml"), &text).unwrap_err();
            assert!(error.to_string().contains(said), "{when}: {error}");
        }
    }
}
