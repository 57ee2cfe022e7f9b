//! Processes that work in the background, by what was seen of those that may wait for them, and by
//! names where nobody looked.
//!
//! What does not belong here: how a kind of work is decided (`analysis::waits::work`).

use super::Facts;
use crate::facts::thresholds::WARNING_SHARE;
use crate::programs;
use iowhy_analysis::summary::patterns::WaitGroup;
use iowhy_analysis::summary::{Series, Work, WorkKind};
use iowhy_model::Metric;
use iowhy_model::metric::process_of;
use std::collections::BTreeMap;

impl<'a> Facts<'a> {
    /// Returns a process's series of a metric; of several programs that it ran, one each.
    pub fn of_process(&self, metric: Metric, pid: u32) -> impl Iterator<Item = &'a Series> {
        let series = self.summary.samples.of(metric).iter();
        series.filter(move |series| process_of(&series.subject).is_some_and(|own| own.0 == pid))
    }

    /// Returns the CPU time of a process, by that counter, for each unit of time: 1 for one CPU
    /// that is never idle. `None` if it was not read twice.
    pub fn cpu_share(&self, metric: Metric, pid: u32) -> Option<f64> {
        let series = self.of_process(metric, pid).next()?;
        let [(first_ns, first), .., (last_ns, last)] = series.points.as_slice() else {
            return None;
        };
        let time_ns = last_ns.checked_sub(*first_ns).filter(|time_ns| *time_ns > 0)?;
        Some((last - first).max(0.0) / time_ns as f64)
    }
}

impl Facts<'_> {
    /// Whether a process was seen to work in the background, while a program that somebody waits
    /// for is held up by the same device; by any, if none is given. Where nobody is held up, the
    /// machine is there for such work.
    pub(super) fn is_seen_in_background(&self, pid: u32, device: Option<&str>) -> bool {
        let is = self.work_of(pid).is_some_and(|work| work.kind == WorkKind::Background);
        is && self.is_another_held_up(device)
    }

    /// Whether what one process waits behind another one is no harm: it works in the background,
    /// and the other one does not.
    pub fn yields_to(&self, one: (Option<u32>, &str), other: (Option<u32>, &str)) -> bool {
        let is_behind = |pid: u32| self.is_seen_in_background(pid, None);
        let is_seen = one.0.is_some_and(is_behind)
            && other.0.and_then(|pid| self.work_of(pid)).is_some_and(Work::is_waited_for);
        is_seen || programs::yields_to(one.1, other.1)
    }

    /// Whether a person waits at a terminal for a process.
    pub fn is_interactive(&self, pid: u32) -> bool {
        self.has_had(Metric::WorkTerminal, pid)
    }

    /// Whether a process has had any of what a gauge counts.
    pub(super) fn has_had(&self, gauge: Metric, pid: u32) -> bool {
        self.of_process(gauge, pid).any(|series| series.max.unwrap_or(series.last) > 0.0)
    }

    /// Whether a process works for clients.
    pub(super) fn is_serving(&self, pid: u32) -> bool {
        self.work_of(pid).is_some_and(|work| work.kind == WorkKind::Serving)
    }

    pub(super) fn work_of(&self, pid: u32) -> Option<&Work> {
        self.summary().work.get(&pid)
    }

    /// Whether a program that somebody waits for loses a tenth of its time to this device.
    fn is_another_held_up(&self, device: Option<&str>) -> bool {
        let least_ns = (WARNING_SHARE * self.duration_ns() as f64) as u64;
        let is_on = |group: &&WaitGroup| device.is_none() || group.device.as_deref() == device;
        let mut lost: BTreeMap<u32, u64> = BTreeMap::new();
        for group in self.summary().patterns.waits.iter().filter(is_on) {
            if self.work_of(group.pid).is_some_and(Work::is_waited_for) {
                let sum = lost.entry(group.pid).or_default();
                *sum = sum.saturating_add(group.time_ns);
            }
        }
        lost.values().any(|time_ns| *time_ns >= least_ns)
    }
}

#[cfg(test)]
mod tests {
    use crate::facts::Facts;
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::metric::process_subject;
    use iowhy_model::script::Script;
    use iowhy_model::{Metric, WaitClass};

    const MS: u64 = 1_000_000;

    /// A job that waits for 5 s, started by this scheduler, beside a server that waits so long.
    fn job(scheduler: u32, server_ms: u64) -> Script {
        let mut script = Script::new(10);
        script.wait((7, "job"), WaitClass::Fsync, 5000 * MS, 5000 * MS, 0);
        script.wait((8, "server"), WaitClass::Fsync, server_ms * MS, server_ms * MS, 0);
        let subject = process_subject(7, "job");
        for metric in
            [Metric::WorkClients, Metric::WorkPeers, Metric::WorkTerminal, Metric::WorkWaiter]
        {
            script.sample(1, metric, &subject, 0.0);
        }
        script.sample(1, Metric::WorkScheduler, &subject, f64::from(scheduler));
        script.sample(1, Metric::WorkClients, &process_subject(8, "server"), 1.0);
        script
    }

    #[test]
    fn a_job_is_in_the_background_beside_a_server_that_is_held_up() {
        for (scheduler, server_ms, is) in
            [(3, 1, false), (0, 1, false), (0, 2000, true), (3, 2000, true)]
        {
            let summary = job(scheduler, server_ms).summary();
            let facts = Facts::new(&summary);
            assert_eq!(facts.is_seen_in_background(7, None), is, "{scheduler} {server_ms}");
            assert!(!facts.is_seen_in_background(7, Some("elsewhere")));
        }
    }

    #[test]
    fn what_a_job_waits_behind_a_server_is_no_harm() {
        let summary = job(3, 2000).summary();
        let facts = Facts::new(&summary);
        let (job, server) = ((Some(7), "job"), (Some(8), "server"));
        assert!(facts.yields_to(job, server) && !facts.yields_to(server, job));
        assert!(!facts.yields_to(job, (Some(9), "other")), "nothing is known of it");
        assert!(facts.yields_to((None, "restic"), (None, "postgres")));
    }
}
