//! The hypervisor takes this machine's CPUs away, and completions are handled late.

use super::*;
use facts::thresholds::MOST;
use iowhy_analysis::summary::Series;
use iowhy_model::Metric;
use iowhy_model::compact_sort::CompactSort;

/// The least share of stolen CPU time that matters: providers and Linux vendors call 5 to 10 % a
/// reason to act.
const STOLEN: f64 = 0.05;
/// The least factor by which requests take longer on every device in seconds with steal than in the
/// others. Chosen.
const SLOWER: f64 = 1.5;
/// The least number of requests in each kind of second to compare a device. Chosen.
const REQUESTS: u64 = 30;
/// The least number of bins of each kind, so that one slow request makes no difference. Chosen.
const BINS: usize = 3;

rule!(
    "cpu-steal",
    "CPU steal by the hypervisor",
    "While a virtual CPU does not run, it handles no disk interrupt and runs no woken thread. \
     Requests seem to take longer, on every device at once, although the disks behind them are as \
     fast as before: the clock runs, the machine does not.",
    "Only one of several devices is slower, or the times do not follow the steal.",
    place: Fault,
    needs: [Waits],
);

fn judge(facts: &Facts<'_>) -> Judged {
    let samples = &facts.summary().samples;
    let steal = samples
        .system(Metric::CpuSteal)
        .ok_or(Missing("CPU times are not in the data".to_owned()))?;
    let all = CPU_TIMES.iter().filter_map(|metric| samples.system(*metric));
    let all_ns: f64 = all.map(Series::grown).sum();
    let share = steal.grown() / all_ns.max(1.0);
    clear_if(all_ns <= 0.0 || share < STOLEN)?;
    let compared = compare(facts, steal);
    let waited = facts.waits(|_| true);
    let cpus = f64::from(facts.summary().environment.cpus.max(1));
    let late: f64 = match &compared {
        // No request is delayed longer than CPUs are away, even if each is away at a different
        // time.
        Some(it) => it.extra_share.min(share * cpus),
        None => share,
    };
    let threads = late * waited.time_ns as f64 / facts.duration_ns().max(1) as f64;
    let sentence = match &compared {
        Some(it) => format!(
            "the hypervisor steals {} of the CPU time; in seconds with steal, requests take {} \
             times as long on every device",
            words::percent(share),
            words::number(it.times),
        ),
        None => format!(
            "the hypervisor steals {} of the CPU time: requests and woken threads wait for a CPU \
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
        .also("mean stolen CPUs", share * cpus, "CPUs")
        .fix(
            "use a larger or dedicated instance (burstable ones, AWS T and the like, steal once \
             their CPU credit is used up: check its graph), fewer guests on the host, or less \
             concurrent CPU load",
        )
        .check("`vmstat 1`: if st is 0 while requests are as slow, something else slows them");
    Ok(finding.into())
}

/// All states of CPU time.
const CPU_TIMES: &[Metric] =
    &[Metric::CpuUser, Metric::CpuSystem, Metric::CpuIdle, Metric::CpuIoWait, Metric::CpuSteal];

/// Requests in seconds with and without steal.
struct StealCompared {
    /// The factor by which they take longer, on the device with the smallest difference.
    times: f64,
    /// The extra time of all devices' requests, as a share of their time.
    extra_share: f64,
}

/// A device's requests in one kind of second.
#[derive(Default)]
struct StealSide {
    requests: u64,
    time_ns: u64,
    /// The mean request time of each bin, nanoseconds.
    means: Vec<f64>,
}

impl StealSide {
    fn add(&mut self, requests: u64, time_ns: u64) {
        if requests == 0 {
            return;
        }
        self.requests += requests;
        self.time_ns += time_ns;
        self.means.push(time_ns as f64 / requests as f64);
    }

    /// Returns the median of the bins' means, which one slow request does not change; `None` if
    /// there are too few.
    fn usual_ns(&mut self) -> Option<f64> {
        self.means.compact_sort_by(f64::total_cmp);
        let median = self.means.get(self.means.len() / 2).copied();
        median.filter(|_| self.requests >= REQUESTS && self.means.len() >= BINS)
    }
}

/// Returns `None` if there are not enough seconds of both kinds, or a device does not follow the
/// steal.
fn compare(facts: &Facts<'_>, steal: &Series) -> Option<StealCompared> {
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
        let (mut during, mut calm) = (StealSide::default(), StealSide::default());
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
        .then(|| StealCompared { times, extra_share: (extra / all.max(1.0)).min(1.0) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnose;
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::script::{MS, S, START_NS, Script};
    use iowhy_model::{Sample, Scope};

    /// Two devices; in the last five of ten seconds `stolen` of the CPU time is stolen, and
    /// requests of the first take `slow`, of the second `other`.
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
        diagnose(&script.summary())
            .findings
            .into_iter()
            .find(|finding| finding.cause == "cpu-steal")
    }

    #[test]
    fn all_devices_follow_the_steal() {
        let found = found(0.3, 4 * MS, 3 * MS).unwrap();
        assert_eq!(found.confidence, Confidence::Likely);
        assert!(found.impact_at_most && found.sentence.contains("every device"), "{found:?}");
    }

    #[test]
    fn one_slow_request_in_a_stolen_second_is_no_sign() {
        let mut device = StealSide::default();
        (0..5).for_each(|_| device.add(10, 10 * MS));
        device.add(1, 900 * MS);
        assert_eq!(device.usual_ns(), Some(MS as f64));
        let mut few = StealSide::default();
        (0..2).for_each(|_| few.add(100, 100 * MS));
        assert_eq!(few.usual_ns(), None, "two bins");
    }

    #[test]
    fn a_cpu_that_is_away_most_of_the_time_is_felt_by_all() {
        // Five of ten seconds.
        assert_eq!(found(0.98, 4 * MS, MS).unwrap().confidence, Confidence::Possible);
        assert_eq!(found(1.02, 4 * MS, MS).unwrap().confidence, Confidence::Likely);
    }

    #[test]
    fn one_device_alone_is_slow_by_itself_and_a_little_steal_is_normal() {
        assert_eq!(found(0.3, 4 * MS, MS).unwrap().confidence, Confidence::Possible);
        // Half of ten seconds.
        assert_eq!(found(0.09, 4 * MS, 3 * MS), None);
        assert!(found(0.11, 4 * MS, 3 * MS).is_some());
    }
}
