//! Conditions that begin an incident: on findings, requests in flight, threads that wait,
//! latencies, pressure and figures.
//!
//! | where | what |
//! |---|---|
//! | here | conditions on rows and findings |
//! | `condition` | those of the configuration, on figures |
//! | [`hung_task`] | threads that have waited for storage for long |
//!
//! What does not belong here: whether a trigger is kept (see [`crate::incidents::policy`]).

mod condition;
pub mod hung_task;

use crate::config::{FindingLimit, TriggerConfig};
use condition::ConditionWatch;
use iowhy_analysis::Summary;
use iowhy_diagnosis::{Confidence, Diagnosis, Finding, FindingLayer, Severity};
use iowhy_model::source::Batch;
use iowhy_model::{Metric, Names, Sample};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// The kinds of triggers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TriggerKind {
    /// A finding of the rolling diagnosis.
    Finding,
    /// The age of the oldest request of a device.
    InFlight,
    /// A thread that has waited for storage for long.
    HungTask,
    /// The latency of a request that completed.
    Latency,
    /// I/O pressure.
    PressureIo,
    /// A condition on a figure.
    Condition,
    /// SIGUSR1.
    Signal,
    /// `iowhy capture`.
    Command,
}

impl TriggerKind {
    /// Returns the kind's name.
    pub const fn word(self) -> &'static str {
        match self {
            TriggerKind::Finding => "finding",
            TriggerKind::InFlight => "in-flight",
            TriggerKind::HungTask => "hung-task",
            TriggerKind::Latency => "latency",
            TriggerKind::PressureIo => "pressure-io",
            TriggerKind::Condition => "condition",
            TriggerKind::Signal => "signal",
            TriggerKind::Command => "command",
        }
    }
}

/// The identity of a condition: two triggers with the same key are about the same condition.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct TriggerKey {
    /// The kind.
    pub kind: TriggerKind,
    /// The cause of a finding, a condition on a figure, or the file system of threads that wait for
    /// no known device; empty for other kinds.
    pub cause: String,
    /// The device; empty where it is not one device.
    pub device: String,
    /// Whether the finding is critical, so that a finding that gets worse is another condition.
    pub critical: bool,
}

/// A condition that was met.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Trigger {
    /// The identity of the condition.
    #[serde(flatten)]
    pub key: TriggerKey,
    /// The condition in one sentence.
    pub sentence: String,
}

impl Trigger {
    /// Makes a trigger of a person or program, which is never a duplicate of another one.
    pub fn manual(kind: TriggerKind, sentence: String) -> Trigger {
        Trigger { key: TriggerKey::new(kind, ""), sentence }
    }

    /// Makes a trigger of a finding that reaches `limit`; `None` if it does not.
    pub fn of_finding(finding: &Finding, limit: FindingLimit) -> Option<Trigger> {
        let least = match limit {
            FindingLimit::Off => return None,
            FindingLimit::Warning => Severity::Warning,
            FindingLimit::Critical => Severity::Critical,
        };
        // A bottleneck says where threads wait, and healthy databases have one, too.
        let is_cause = finding.layer == FindingLayer::Cause;
        let is_known = finding.confidence > Confidence::Possible;
        (is_cause && is_known && finding.severity >= least).then(|| Trigger {
            key: TriggerKey {
                cause: finding.cause.to_owned(),
                critical: finding.severity == Severity::Critical,
                ..TriggerKey::new(
                    TriggerKind::Finding,
                    finding.subject.device.as_deref().unwrap_or_default(),
                )
            },
            sentence: finding.sentence.clone(),
        })
    }

    /// Returns whether a person or program requested it.
    pub fn is_manual(&self) -> bool {
        matches!(self.key.kind, TriggerKind::Signal | TriggerKind::Command)
    }
}

impl TriggerKey {
    fn new(kind: TriggerKind, device: &str) -> TriggerKey {
        TriggerKey { kind, cause: String::new(), device: device.to_owned(), critical: false }
    }
}

/// Watches rows for conditions.
#[derive(Clone, Debug)]
pub struct TriggerWatch {
    config: TriggerConfig,
    /// The metric of each name; `None` for a name that this iowhy does not know.
    metrics: BTreeMap<usize, Option<Metric>>,
    /// The latest readings of time under full I/O pressure: their times and the counter.
    pressure: VecDeque<(u64, f64)>,
    /// The latest reading of both counters of I/O pressure, where the kernel has them.
    totals: PressureTotals,
    conditions: ConditionWatch,
}

/// Time under I/O pressure since the machine started, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PressureTotals {
    /// Time in which at least one task waited for I/O; `None` if it was not read.
    pub some_ns: Option<u64>,
    /// Time in which every task with work to do waited for I/O; `None` if it was not read.
    pub full_ns: Option<u64>,
}

/// Time over which pressure is judged, nanoseconds.
const PRESSURE_NS: u64 = 10_000_000_000;

impl TriggerWatch {
    /// Watches for the conditions of `config`.
    pub fn new(config: &TriggerConfig) -> TriggerWatch {
        TriggerWatch {
            config: config.clone(),
            metrics: BTreeMap::new(),
            pressure: VecDeque::new(),
            totals: PressureTotals::default(),
            conditions: ConditionWatch::new(&config.when),
        }
    }

    /// Forgets the names, since those of another watch follow.
    pub fn begin(&mut self) {
        self.metrics.clear();
        self.pressure.clear();
    }

    /// Returns the conditions that the rows of `batch` meet, one for each device and kind.
    pub fn rows(&mut self, batch: &Batch, names: &Names) -> Vec<Trigger> {
        let mut found = BTreeMap::new();
        for sample in &batch.samples {
            let known = self.metrics.entry(sample.metric.index());
            known.or_insert_with(|| Metric::find(sample.scope, names.get(sample.metric)));
            if let Some(trigger) = self.sample(sample, names) {
                found.insert(trigger.key.clone(), trigger);
            }
        }
        if let Some(limit) = self.config.latency.value() {
            for request in &batch.requests {
                let took_ns = request.q2c_ns.unwrap_or(0);
                if took_ns >= limit.ns() {
                    let trigger = latency(names.get(request.device), took_ns);
                    found.insert(trigger.key.clone(), trigger);
                }
            }
        }
        found.into_values().collect()
    }

    fn sample(&mut self, sample: &Sample, names: &Names) -> Option<Trigger> {
        match self.metrics.get(&sample.metric.index())?.as_ref()? {
            Metric::OldestAge => {
                let limit = self.config.in_flight.value()?;
                let is_old = sample.value >= limit.ns() as f64;
                is_old.then(|| in_flight(names.get(sample.subject), sample.value))
            }
            Metric::PressureIoSome => {
                self.totals.some_ns = Some(sample.value as u64);
                None
            }
            Metric::PressureIoFull => {
                self.totals.full_ns = Some(sample.value as u64);
                self.pressure_io(sample.time_ns, sample.value)
            }
            _ => None,
        }
    }

    fn pressure_io(&mut self, time_ns: u64, stalled_ns: f64) -> Option<Trigger> {
        let limit = self.config.pressure_io.value()?;
        self.pressure.push_back((time_ns, stalled_ns));
        // The oldest reading that is kept is the last one before the window.
        let from_ns = time_ns.saturating_sub(PRESSURE_NS);
        while self.pressure.get(1).is_some_and(|(at_ns, _)| *at_ns <= from_ns) {
            self.pressure.pop_front();
        }
        let (first_ns, first) = *self.pressure.front()?;
        let span_ns = time_ns.saturating_sub(first_ns);
        let share = (stalled_ns - first) / span_ns.max(1) as f64 * 100.0;
        let is_high = span_ns >= PRESSURE_NS && share >= f64::from(limit);
        is_high.then(|| Trigger {
            key: TriggerKey::new(TriggerKind::PressureIo, ""),
            sentence: format!("in {share:.0} % of 10 s every task with work to do waited for I/O"),
        })
    }

    /// Returns the conditions that findings of the last window meet.
    pub fn findings<'a>(&self, diagnosis: &'a Diagnosis) -> Vec<(Trigger, &'a Finding)> {
        let of = |finding| Some((Trigger::of_finding(finding, self.config.finding)?, finding));
        diagnosis.findings.iter().filter_map(of).collect()
    }

    /// Returns the conditions on figures that are met after another window.
    pub fn figures(&mut self, summary: &Summary) -> Vec<Trigger> {
        self.conditions.window(summary)
    }

    /// Returns the latest reading of time under I/O pressure.
    pub fn pressure_totals(&self) -> PressureTotals {
        self.totals
    }

    /// Returns the time that a thread must have waited for storage to be a condition, in
    /// nanoseconds.
    pub fn hung_task_ns(&self) -> Option<u64> {
        self.config.hung_task.value().map(|limit| limit.ns())
    }

    /// Returns the age that a request must have reached to be a condition, in nanoseconds.
    pub fn in_flight_ns(&self) -> u64 {
        self.config.in_flight.value().map_or(u64::MAX, |limit| limit.ns())
    }
}

fn in_flight(device: &str, age_ns: f64) -> Trigger {
    Trigger {
        key: TriggerKey::new(TriggerKind::InFlight, device),
        sentence: format!("a request has been in flight on {device} for {:.1} s", age_ns / 1e9),
    }
}

fn latency(device: &str, took_ns: u64) -> Trigger {
    Trigger {
        key: TriggerKey::new(TriggerKind::Latency, device),
        sentence: format!("a request on {device} took {:.3} s", took_ns as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{OptionalLimit, TimeSpan};
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_diagnosis::diagnose;
    use iowhy_model::Scope;
    use iowhy_model::script::Script;

    const S: u64 = 1_000_000_000;

    fn sample(names: &mut Names, scope: Scope, word: &str, at_ns: u64, value: f64) -> Sample {
        let (metric, subject) = (names.intern(word), names.intern("sda"));
        Sample { time_ns: at_ns, scope, subject, metric, value }
    }

    fn kinds(found: &[Trigger]) -> Vec<(TriggerKind, &str)> {
        found.iter().map(|trigger| (trigger.key.kind, trigger.key.device.as_str())).collect()
    }

    #[test]
    fn an_old_request_queued_or_issued_is_one() {
        let (mut names, mut watch) = (Names::new(), TriggerWatch::new(&TriggerConfig::default()));
        let mut at = |age: f64| {
            let word = "under_way.oldest_ns";
            let samples = vec![sample(&mut names, Scope::Device, word, S, age)];
            watch.rows(&Batch { samples, ..Batch::default() }, &names)
        };
        assert!(at(1.9e9).is_empty());
        assert_eq!(kinds(&at(2.5e9)), [(TriggerKind::InFlight, "sda")]);
    }

    #[test]
    fn pressure_is_one_only_after_ten_seconds_of_it() {
        let (mut names, mut watch) = (Names::new(), TriggerWatch::new(&TriggerConfig::default()));
        let mut fired = Vec::new();
        for second in 0..30_u64 {
            // Everything stalls for the seconds 5 to 19.
            let stalled = second.clamp(5, 20) - 5;
            let value = (stalled * S) as f64;
            let word = "pressure.io.full";
            let samples = vec![sample(&mut names, Scope::System, word, second * S, value)];
            let found = watch.rows(&Batch { samples, ..Batch::default() }, &names);
            fired.extend(found.iter().map(|_| second));
        }
        assert_eq!(fired.first(), Some(&11), "{fired:?}");
        assert_eq!(fired.last(), Some(&24), "{fired:?}");
        assert_eq!(
            watch.pressure_totals(),
            PressureTotals { some_ns: None, full_ns: Some(15 * S) }
        );
    }

    #[test]
    fn latency_is_off_until_it_is_set() {
        let mut script = Script::new(10);
        script.read("sda", 4096).direct(300, 500, 3 * S).add();
        script.read("sdb", 4096).direct(300, 500, 1_000).add();
        let mut watch = TriggerWatch::new(&TriggerConfig::default());
        assert!(watch.rows(&script.batch, &script.names).is_empty());
        let latency = OptionalLimit::Of(TimeSpan::seconds(1));
        let mut watch = TriggerWatch::new(&TriggerConfig { latency, ..TriggerConfig::default() });
        let found = watch.rows(&script.batch, &script.names);
        assert_eq!(kinds(&found), [(TriggerKind::Latency, "sda")]);
    }

    #[test]
    fn a_healthy_watch_has_no_finding_that_is_one() {
        let mut script = Script::new(10);
        for index in 0..1000 {
            script.read("sda", 4096).at(index * 10_000_000).direct(300, 500, 80_000).add();
        }
        let watch = TriggerWatch::new(&TriggerConfig::default());
        assert!(watch.findings(&diagnose(&script.summary())).is_empty());
    }
}
