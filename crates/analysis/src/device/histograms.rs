//! Latency by device, flags and process: the histograms of `iowhy latency`.
//!
//! What does not belong here: the histogram itself (see `super::latency`).

use super::latency::Latencies;
use super::latency_bins;
use crate::summary::{Bucket, Interval, StageTime};
use crate::sums::request_times::{Life, Stand};
use crate::sums::row_consumers::Pass;
use iowhy_model::bounded_map::CappedMap;
use iowhy_model::compact_sort::CompactSort;
use iowhy_model::source::Batch;
use iowhy_model::{Environment, Name, Names, Request};
use serde::Serialize;

/// Maximum number of histograms; requests of further groups are aggregated.
const MOST: usize = 1024;

/// The grouping of requests.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct HistogramBy {
    /// By device.
    pub device: bool,
    /// By rwbs: the operation and its flags.
    pub flags: bool,
    /// By submitting process, with PID and name.
    pub process: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
struct HistogramKey {
    device: Option<Name>,
    flags: Option<Name>,
    process: Option<(u32, Option<Name>)>,
}

/// Collects the latency of requests.
#[derive(Clone, Debug)]
pub struct Histograms {
    by: HistogramBy,
    /// The interval of a request.
    interval: Interval,
    groups: CappedMap<HistogramKey, Latencies, MOST>,
    others: Latencies,
    censored: u64,
}

/// Latency by group.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Distributions {
    /// The interval of a request: `d2c` or `q2c`.
    pub interval: &'static str,
    /// The groups, most time first.
    pub groups: Vec<Distribution>,
    /// All further groups together; `None` if there are none.
    pub others: Option<Distribution>,
    /// Requests whose interval is incomplete, which are in no group.
    pub censored_requests: u64,
}

/// The latency of one group.
#[derive(Clone, PartialEq, Default, Debug, Serialize)]
pub struct Distribution {
    /// Their device; `None` if devices are not distinguished.
    pub device: Option<String>,
    /// Their rwbs text; `None` if flags are not distinguished.
    pub flags: Option<String>,
    /// Their submitter's PID; `None` if processes are not distinguished, or for the kernel itself.
    pub pid: Option<u32>,
    /// Their submitter's name.
    pub process: Option<String>,
    /// The figures.
    pub stage: Option<StageTime>,
    /// Requests by latency, in powers of two of nanoseconds.
    pub histogram: Vec<Bucket>,
}

impl Histograms {
    /// Histograms of `interval`, grouped by `by`.
    pub fn new(by: HistogramBy, interval: Interval) -> Histograms {
        Histograms {
            by,
            interval,
            groups: CappedMap::default(),
            others: Latencies::default(),
            censored: 0,
        }
    }

    fn record(&mut self, request: &Request) {
        let life = Life::from_request(request);
        let Some(time) = life.intervals[self.interval].filter(|_| life.stand == Stand::Whole)
        else {
            self.censored += request.stands_for();
            return;
        };
        let key = HistogramKey {
            device: self.by.device.then_some(request.device),
            flags: self.by.flags.then_some(request.rwbs),
            process: request.pid.filter(|_| self.by.process).map(|pid| (pid, request.process)),
        };
        let histogram = self.groups.or_default(key).unwrap_or(&mut self.others);
        histogram.record_many(time, request.stands_for());
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
        let name = |distribution: &Distribution| {
            (distribution.device.clone(), distribution.flags.clone(), distribution.pid)
        };
        groups.compact_sort_by(|a, b| b.0.cmp(&a.0).then_with(|| name(&a.1).cmp(&name(&b.1))));
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
        histogram: latency_bins::bins(&latencies.buckets(), 1),
        ..Distribution::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iowhy_model::script::Script;

    fn of(script: &Script, by: HistogramBy, interval: Interval) -> Distributions {
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
        script.read("sda", 512).status(iowhy_model::Status::InFlight).add();
        let all = HistogramBy { device: true, flags: true, process: true };
        for (by, groups) in [
            (HistogramBy::default(), 1),
            (HistogramBy { device: true, ..HistogramBy::default() }, 2),
            (all, 3),
        ] {
            let found = of(&script, by, Interval::D2c);
            assert_eq!((found.groups.len(), found.censored_requests), (groups, 1));
            let requests = found.groups.iter().flat_map(|group| &group.histogram);
            assert_eq!(requests.map(|bucket| bucket.requests).sum::<u64>(), 15);
        }
        let whole = of(&script, HistogramBy::default(), Interval::Q2c);
        assert_eq!(whole.groups[0].stage.unwrap().max_ns, 17_000);
    }
}
