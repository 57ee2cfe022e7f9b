//! The hypervisor gives this machine's CPUs to others, so that completions are handled late.

use super::*;
use crate::analysis::summary::Series;
use crate::model::Metric;

/// The share of the CPU time that is stolen, from which on it is felt: providers and Linux vendors
/// call 5 to 10 % a reason to act.
const STOLEN: f64 = 0.05;
/// The share from which on nothing that runs here is without it: a CPU is away for as long as it is there, so
/// that half of all completions find it away. Chosen.
const MOST: f64 = 0.5;
/// How many times longer requests take in the seconds with more than that, on every device, than in the
/// others. Chosen.
const SLOWER: f64 = 1.5;
/// Requests in each kind of second that a device needs to be compared. Chosen.
const REQUESTS: u64 = 30;
/// Parts of the watch of each kind that it takes, so that one slow request makes no difference. Chosen.
const BINS: usize = 3;

rule!(
    "cpu-steal",
    "CPU time that the hypervisor gives to others",
    "While a virtual CPU does not run, no interrupt of its disk is handled and no woken thread \
     goes on. Requests seem to take longer, on every device at once, although the disks behind \
     them are as fast as before: the clock goes on, the machine does not.",
    "Devices of which only one is slower, or times that do not follow the steal.",
    needs: [Waits],
    symptoms: ["device-slow-tail", "noisy-neighbour", "cpu-starvation"],
);

fn judge(facts: &Facts<'_>) -> Judged {
    let samples = &facts.summary().samples;
    let Some(steal) = samples.system(Metric::CpuSteal) else {
        return Err(Missing("CPU times are not in the data".to_owned()));
    };
    let all = CPU_TIMES.iter().filter_map(|metric| samples.system(*metric));
    let all_ns: f64 = all.map(Series::grown).sum();
    let share = steal.grown() / all_ns.max(1.0);
    if all_ns <= 0.0 || share < STOLEN {
        return Ok(Verdict::Clear);
    }
    let compared = compare(facts, steal);
    let waited = facts.waits(|_| true);
    let cpus = f64::from(facts.summary().environment.cpus.max(1));
    let late: f64 = match &compared {
        // No request is late for longer than CPUs are away, if each were away at another time.
        Some(it) => it.extra_share.min(share * cpus),
        None => share,
    };
    let threads = late * waited.time_ns as f64 / facts.duration_ns().max(1) as f64;
    let sentence = match &compared {
        Some(it) => format!(
            "the hypervisor takes {} of the CPU time; in seconds with much of it requests take {} \
             times as long, on every device",
            words::percent(share),
            words::number(it.times),
        ),
        None => format!(
            "the hypervisor takes {} of the CPU time: requests and woken threads wait for a CPU \
             that does not run",
            words::percent(share),
        ),
    };
    let finding = Finding::of_share(ImpactOf::BlockedTime, late, threads, sentence)
        .upper_bound()
        .about(Subject { device: None, file: None, ..waited.subject() })
        .sure(if compared.is_some() || share >= MOST {
            Confidence::Likely
        } else {
            Confidence::Possible
        })
        .shown("stolen CPU time", share * 100.0, "%", "vmstat 1")
        .shown("stolen of each second, on all CPUs together", share * cpus, "CPUs", "vmstat 1")
        .fix(
            "a larger or dedicated instance (burstable ones, AWS T and the like, steal once \
             their CPU credit is used up: look at its graph), fewer guests on the host, or \
             less CPU work at a time",
        )
        .check("`vmstat 1`: where st is 0 while requests are as slow, something else slows them");
    Ok(finding.into())
}

/// All that CPUs can do with their time.
const CPU_TIMES: &[Metric] =
    &[Metric::CpuUser, Metric::CpuSystem, Metric::CpuIdle, Metric::CpuIoWait, Metric::CpuSteal];

/// Requests in seconds with and without steal.
struct Compared {
    /// How many times longer they take on the device on which the difference is smallest.
    times: f64,
    /// What all devices' requests took longer, as a share of their time.
    extra_share: f64,
}

/// A device's requests in one kind of second.
#[derive(Default)]
struct Side {
    requests: u64,
    time_ns: u64,
    /// The mean times of requests of each bin.
    means: Vec<f64>,
}

impl Side {
    fn add(&mut self, requests: u64, time_ns: u64) {
        if requests == 0 {
            return;
        }
        self.requests += requests;
        self.time_ns += time_ns;
        self.means.push(time_ns as f64 / requests as f64);
    }

    /// The median of the bins' means, which one slow request does not change; `None` where there are too few.
    fn usual_ns(&mut self) -> Option<f64> {
        self.means.sort_by(f64::total_cmp);
        let median = self.means.get(self.means.len() / 2).copied();
        median.filter(|_| self.requests >= REQUESTS && self.means.len() >= BINS)
    }
}

/// `None` where there are no seconds of both kinds, or a device does not follow.
fn compare(facts: &Facts<'_>, steal: &Series) -> Option<Compared> {
    let cpus = f64::from(facts.summary().environment.cpus.max(1));
    let start_ns = facts.summary().environment.start_ns;
    let spans: Vec<(u64, u64, bool)> = steal
        .points
        .windows(2)
        .map(|pair| {
            let length = pair[1].0.saturating_sub(pair[0].0).max(1);
            let stolen = (pair[1].1 - pair[0].1) / (length as f64 * cpus);
            let since = |at: u64| at.saturating_sub(start_ns);
            (since(pair[0].0), since(pair[1].0), stolen >= STOLEN)
        })
        .collect();
    let is_stolen = |at: u64| spans.iter().any(|(from, to, is)| *is && (*from..*to).contains(&at));
    let (mut times, mut extra, mut all) = (f64::INFINITY, 0.0, 0.0);
    for patterns in &facts.summary().patterns.devices {
        let (mut during, mut calm) = (Side::default(), Side::default());
        for (index, bin) in patterns.timeline.bins.iter().enumerate() {
            let middle = index as u64 * patterns.timeline.bin_ns + patterns.timeline.bin_ns / 2;
            let side = if is_stolen(middle) { &mut during } else { &mut calm };
            side.add(bin.requests, bin.d2c_ns);
        }
        let (Some(slow), Some(fast)) = (during.usual_ns(), calm.usual_ns()) else { continue };
        times = times.min(slow / fast.max(1.0));
        extra += (slow - fast).max(0.0) * during.requests as f64;
        all += (during.time_ns + calm.time_ns) as f64;
    }
    (times.is_finite() && times >= SLOWER)
        .then(|| Compared { times, extra_share: (extra / all.max(1.0)).min(1.0) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::diagnose;
    use crate::model::{Sample, Scope, WaitClass};
    use crate::script::{START_NS, Script};

    const MS: u64 = 1_000_000;
    const S: u64 = 1_000_000_000;

    /// Two devices; in the last five of ten seconds `stolen` of the CPU time goes, and requests of the first
    /// take `slow`, of the second `other`.
    fn found(stolen: f64, slow: u64, other: u64) -> Option<Finding> {
        let mut script = Script::new(10);
        let (mut steal, mut idle) = (0.0, 0.0);
        for second in 0..=10_u64 {
            if second > 5 {
                steal += 4.0 * stolen * S as f64;
            }
            idle += 4.0 * S as f64;
            for (metric, value) in [(Metric::CpuSteal, steal), (Metric::CpuIdle, idle - steal)] {
                let sample = Sample {
                    time_ns: START_NS + second * S,
                    scope: Scope::System,
                    subject: script.names.intern(""),
                    metric: script.names.intern(metric.info().word),
                    value,
                };
                script.batch.samples.push(sample);
            }
        }
        for index in 0..400_u64 {
            let at = index * 25 * MS;
            for (device, late) in [("vda", slow), ("vdb", other)] {
                let d2c = if at > 5 * S { late } else { MS };
                let read = script.read(device, 4096).at(at as i64).sector(index * 7919);
                read.by(7, "db").direct(0, 0, d2c).add();
            }
        }
        script.wait((7, "db"), WaitClass::Device, 5 * S, 5 * S, 0);
        diagnose(&script.summary()).findings.into_iter().find(|it| it.cause == "cpu-steal")
    }

    #[test]
    fn all_devices_follow_the_steal() {
        let found = found(0.3, 4 * MS, 3 * MS).unwrap();
        assert_eq!(found.confidence, Confidence::Likely);
        assert!(found.impact_at_most && found.sentence.contains("every device"), "{found:?}");
    }

    #[test]
    fn one_slow_request_in_a_stolen_second_is_no_sign() {
        let mut device = Side::default();
        (0..5).for_each(|_| device.add(10, 10 * MS));
        device.add(1, 900 * MS);
        assert_eq!(device.usual_ns(), Some(MS as f64));
        let mut few = Side::default();
        (0..2).for_each(|_| few.add(100, 100 * MS));
        assert_eq!(few.usual_ns(), None, "two bins");
    }

    #[test]
    fn a_cpu_that_is_away_most_of_the_time_is_felt_by_all() {
        // Of ten seconds five.
        assert_eq!(found(0.98, 4 * MS, MS).unwrap().confidence, Confidence::Possible);
        assert_eq!(found(1.02, 4 * MS, MS).unwrap().confidence, Confidence::Likely);
    }

    #[test]
    fn one_device_alone_is_slow_by_itself_and_a_little_steal_is_normal() {
        assert_eq!(found(0.3, 4 * MS, MS).unwrap().confidence, Confidence::Possible);
        // Of ten seconds half.
        assert_eq!(found(0.09, 4 * MS, 3 * MS), None);
        assert!(found(0.11, 4 * MS, 3 * MS).is_some());
    }
}
