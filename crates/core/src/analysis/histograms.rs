//! How long requests took, by device, by flags, by process: the histograms of `iowhy latency`.
//!
//! What does not belong here: the histogram itself (see [`super::latency`]).

use super::axes::Interval;
use super::bins;
use super::intervals::Pass;
use super::latency::Latencies;
use super::life::{Life, Stand};
use super::summary::{Bucket, Stage};
use crate::model::{Environment, Name, Names, Request};
use crate::source::Batch;
use rustc_hash::FxHashMap;
use serde::Serialize;

/// Histograms that are kept apart; requests of any further group are those of all others together.
const MOST: usize = 1024;

/// What requests are distinguished by.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct By {
    /// Each device on its own.
    pub device: bool,
    /// Each rwbs text on its own: the operation and its flags.
    pub flags: bool,
    /// Each submitting process on its own, by number and name.
    pub process: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
struct Key {
    device: Option<Name>,
    flags: Option<Name>,
    process: Option<(u32, Option<Name>)>,
}

/// Collects how long requests took.
#[derive(Clone, Debug)]
pub struct Histograms {
    by: By,
    /// Which interval of a request's life.
    interval: Interval,
    groups: FxHashMap<Key, Latencies>,
    others: Latencies,
    censored: u64,
}

/// How long requests took, each group on its own.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Distributions {
    /// Which interval of a request's life: `d2c` or `q2c`.
    pub interval: &'static str,
    /// The groups, most time first.
    pub groups: Vec<Distribution>,
    /// All further groups together; `None` where there are none.
    pub others: Option<Distribution>,
    /// Requests of which the watch did not see the whole interval: not in any group.
    pub censored_requests: u64,
}

/// How long the requests of one group took.
#[derive(Clone, PartialEq, Default, Debug, Serialize)]
pub struct Distribution {
    /// Their device; `None` where devices are not distinguished.
    pub device: Option<String>,
    /// Their rwbs text; `None` where flags are not distinguished.
    pub flags: Option<String>,
    /// Their submitter's number; `None` where processes are not distinguished, or the kernel itself.
    pub pid: Option<u32>,
    /// Their submitter's name.
    pub process: Option<String>,
    /// The figures.
    pub stage: Option<Stage>,
    /// Requests by length, in powers of two of nanoseconds.
    pub histogram: Vec<Bucket>,
}

impl Histograms {
    /// Histograms of `interval`, kept apart by `by`.
    pub fn new(by: By, interval: Interval) -> Histograms {
        Histograms {
            by,
            interval,
            groups: FxHashMap::default(),
            others: Latencies::default(),
            censored: 0,
        }
    }

    fn record(&mut self, request: &Request) {
        let life = Life::of(request);
        let Some(time) = life.intervals[self.interval].filter(|_| life.stand == Stand::Whole)
        else {
            self.censored += 1;
            return;
        };
        let key = Key {
            device: self.by.device.then_some(request.device),
            flags: self.by.flags.then_some(request.rwbs),
            process: request.pid.filter(|_| self.by.process).map(|pid| (pid, request.process)),
        };
        match self.groups.len() < MOST || self.groups.contains_key(&key) {
            true => self.groups.entry(key).or_default().record(time),
            false => self.others.record(time),
        }
    }
}

impl Pass for Histograms {
    type Figures = Distributions;

    fn begin(&self, _environment: &Environment) -> Histograms {
        Histograms::new(self.by, self.interval)
    }

    fn add(&mut self, batch: &Batch, _names: &Names) {
        batch.requests.iter().for_each(|request| self.record(request));
    }

    fn finish(self, _environment: &Environment, names: &Names) -> Distributions {
        let text = |name: Name| names.get(name).to_owned();
        let mut groups: Vec<(u64, Distribution)> = self
            .groups
            .iter()
            .map(|(key, latencies)| {
                let named = Distribution {
                    device: key.device.map(text),
                    flags: key.flags.map(text),
                    pid: key.process.map(|(pid, _)| pid),
                    process: key.process.and_then(|(_, name)| name).map(text),
                    ..distribution(latencies)
                };
                (latencies.sum_ns(), named)
            })
            .collect();
        let name = |it: &Distribution| (it.device.clone(), it.flags.clone(), it.pid);
        groups.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| name(&a.1).cmp(&name(&b.1))));
        Distributions {
            interval: self.interval.word(),
            groups: groups.into_iter().map(|(_, group)| group).collect(),
            others: (self.others.count() > 0).then(|| distribution(&self.others)),
            censored_requests: self.censored,
        }
    }
}

fn distribution(latencies: &Latencies) -> Distribution {
    Distribution {
        stage: latencies.stage(latencies),
        histogram: bins::bins(&latencies.buckets(), 1),
        ..Distribution::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::Script;

    fn of(script: &Script, by: By, interval: Interval) -> Distributions {
        let mut pass = Histograms::new(by, interval);
        pass.add(&script.batch, &script.names);
        pass.finish(&script.environment, &script.names)
    }

    #[test]
    fn groups_hold_every_request_once() {
        let mut script = Script::new(1);
        for pid in 0..3 {
            for index in 0..5_u64 {
                let read = script.read(if pid == 0 { "sda" } else { "sdb" }, 512);
                read.by(pid, "cat").direct(1_000, 0, 1_000 << index).add();
            }
        }
        script.read("sda", 512).status(crate::model::Status::InFlight).add();
        let all = By { device: true, flags: true, process: true };
        for (by, groups) in
            [(By::default(), 1), (By { device: true, ..By::default() }, 2), (all, 3)]
        {
            let found = of(&script, by, Interval::D2c);
            assert_eq!((found.groups.len(), found.censored_requests), (groups, 1));
            let requests = found.groups.iter().flat_map(|group| &group.histogram);
            assert_eq!(requests.map(|bucket| bucket.requests).sum::<u64>(), 15);
        }
        let whole = of(&script, By::default(), Interval::Q2c);
        assert_eq!(whole.groups[0].stage.unwrap().max_ns, 17_000);
    }
}
