//! A thread's I/O has completed, but it does not get a CPU.

use super::*;
use facts::Waited;
use facts::thresholds::MOST;
use iowhy_analysis::summary::Series;
use iowhy_model::Metric;
use iowhy_model::command::shell_word;
use iowhy_model::compact_sort::CompactSort;
use iowhy_model::metric::process_of;
use std::collections::BTreeMap;

/// The least ratio of starved programs' run queue delays after waits to the blocked time. Chosen.
const SHARE: f64 = 0.2;
/// The least share of delays of 3 ms and more in the blocked time, and in all delays after waits:
/// below it a thread pays for context switches. Chosen; a fifth to a quarter, and three to seven
/// tenths in the lab.
const STARVED: f64 = 0.15;
const OF_DELAYS: f64 = 0.2;
/// The least waits per second of a program that does I/O all the time, so that throttling it
/// throttles its I/O. Chosen, as for syncs (fsync-heavy).
const WAITS_PER_S: f64 = 20.0;

rule!(
    "cpu-starvation",
    "CPU starvation after I/O completion",
    "The request has completed and the thread is woken, but its CPU is taken by a real-time task, \
     by its cgroup's limit (cpu.max) or by the hypervisor. The program measures slow I/O, although \
     the requests were fast. Since Linux 6.18 a limit stops a thread only when it returns to user \
     space, after its wait, so only the cgroup's own count (cpu.stat) shows it.",
    "The delays take microseconds, the cost of a context switch.",
    place: Pattern,
    needs: [Waits],
);

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_waits()?;
    if let Some(held) = held_back(facts) {
        return Ok(held.finding(facts).into());
    }
    Ok(starved(facts).map_or(RuleVerdict::Clear, RuleVerdict::from))
}

/// The time for which a program waits for a CPU, nanoseconds.
#[derive(Clone, Copy, Default)]
struct CpuWait {
    /// In delays of 3 ms and more after a wait.
    starved_ns: u64,
    /// After its waits, in total.
    after_ns: u64,
    /// Between its waits, if it does I/O all the time and waits longer for that: a program that
    /// computes is preempted wherever others compute, too.
    beside_ns: u64,
    /// The time of its waits.
    waited_ns: u64,
}

impl CpuWait {
    fn new(facts: &Facts<'_>, groups: &[&WaitGroup]) -> CpuWait {
        let sum = |of: fn(&WaitGroup) -> u64| {
            groups.iter().map(|group| of(group)).fold(0_u64, u64::saturating_add)
        };
        let does_io = sum(|it| it.waits) as f64 >= WAITS_PER_S * facts.seconds();
        let (beside_ns, waited_ns) = (sum(|it| it.beside_ns), sum(|it| it.time_ns));
        CpuWait {
            starved_ns: sum(|it| it.starved_ns),
            after_ns: sum(|it| it.run_queue_ns),
            beside_ns: if does_io && beside_ns <= waited_ns { beside_ns } else { 0 },
            waited_ns,
        }
    }

    fn all_ns(&self) -> u64 {
        self.after_ns + self.beside_ns
    }
}

/// Returns the finding for starved programs; it names the first of them.
fn starved(facts: &Facts<'_>) -> Option<Finding> {
    let mut programs: BTreeMap<(u32, &str), Vec<&WaitGroup>> = BTreeMap::new();
    // Who asked for what others leave has just that.
    let wanting = |group: &&WaitGroup| !facts.is_of_idle_class(group.pid, &group.process);
    for group in facts.summary().patterns.waits.iter().filter(wanting) {
        programs.entry((group.pid, &group.process)).or_default().push(group);
    }
    let programs = programs.into_values().map(|groups| (CpuWait::new(facts, &groups), groups));
    let mut programs: Vec<_> = programs.filter(|(wanted, _)| wanted.starved_ns > 0).collect();
    programs.compact_sort_by_key(|(wanted, _)| std::cmp::Reverse(wanted.starved_ns));
    let sum = |of: fn(&CpuWait) -> u64| {
        programs.iter().map(|(wanted, _)| of(wanted)).fold(0_u64, u64::saturating_add)
    };
    let (starved_ns, after_ns) = (sum(|it| it.starved_ns), sum(|it| it.after_ns));
    let (lost_ns, beside_ns) = (sum(CpuWait::all_ns), sum(|it| it.beside_ns));
    let (wanted, groups) = programs.into_iter().next()?;
    let (starved, after, blocked) = (starved_ns as f64, after_ns as f64, facts.blocked_ns() as f64);
    if after < SHARE * blocked || starved < STARVED * blocked || starved < OF_DELAYS * after {
        return None;
    }
    let threads = groups.iter().map(|group| group.threads).max().unwrap_or(1);
    let subject = Subject { device: None, file: None, ..Waited::from_groups(groups).subject() };
    let its = wanted.all_ns() as f64 / (wanted.waited_ns + wanted.beside_ns).max(1) as f64;
    let sentence = format!(
        "{} waits for a CPU, not for the disk: {} of {}, {} of its apparent I/O time",
        words::who(&subject),
        words::time(wanted.all_ns() as f64 / threads.max(1) as f64),
        words::time(facts.duration_ns() as f64),
        words::percent(its),
    );
    let pid = subject.pid.unwrap_or(0);
    let all: Vec<&WaitGroup> = facts.summary().patterns.waits.iter().collect();
    let finding = of_lost(facts, lost_ns, beside_ns, sentence)
        .claiming(Claims::of_cpu(&Waited::from_groups(all)))
        .holding(share_of_thread(facts, wanted.all_ns(), threads))
        .about(subject)
        .sure(Confidence::Certain)
        .shown(
            "run queue delays of 3 ms and more after waits",
            starved_ns as f64,
            "ns",
            "iowhy waits",
        )
        .shown(
            "run queue delays in total, also between waits",
            lost_ns as f64,
            "ns",
            format!("cat /proc/{pid}/task/*/schedstat"),
        )
        .shown("share of waits and run queue delays without a CPU", its * 100.0, "%", "iowhy waits")
        .fix(
            "find what takes the CPU (`top`): real-time tasks (rt in PR), the hypervisor (st, \
             steal time: request more CPU), a limit (cpu.max of its cgroup), many other tasks; \
             reduce their load, or give the program its own CPU",
        )
        .check("on an idle CPU (taskset) the delay is gone; if not, the device wakes it late");
    Some(finding)
}

/// Returns a finding for `lost_ns`, of which `beside_ns` are between waits and therefore not part
/// of the blocked time.
fn of_lost(facts: &Facts<'_>, lost_ns: u64, beside_ns: u64, sentence: String) -> Finding {
    let all_ns = facts.blocked_ns() + beside_ns;
    let impact = lost_ns as f64 / all_ns.max(1) as f64;
    let threads = lost_ns as f64 / facts.duration_ns().max(1) as f64;
    Finding::of_share(ImpactOf::BlockedTime, impact, threads, sentence)
}

/// Returns the share of the watch that each of a program's threads lost.
fn share_of_thread(facts: &Facts<'_>, lost_ns: u64, threads: u64) -> f64 {
    lost_ns as f64 / threads.max(1) as f64 / facts.duration_ns().max(1) as f64
}

/// Programs throttled by their cgroup's CPU limit.
struct Throttled<'a> {
    waited: Waited<'a>,
    /// Their cgroup, if it is known.
    cgroup: Option<&'a str>,
    /// Throttled time of all CPUs together, nanoseconds.
    limited_ns: u64,
    /// The part of it that can be theirs, nanoseconds: delays within their waits, and at most the
    /// time that they did not wait.
    lost_ns: u64,
    /// Their waits, and the part of `lost_ns` outside them, nanoseconds.
    whole_ns: u64,
}

/// Returns the programs that lose most to a CPU limit. Programs of one cgroup share one count.
fn held_back<'a>(facts: &Facts<'a>) -> Option<Throttled<'a>> {
    let counts = facts.summary().samples.of(Metric::HeldBack);
    let mut cgroups: BTreeMap<u64, Vec<&'a Series>> = BTreeMap::new();
    for series in counts.iter().filter(|count| count.grown() > 0.0) {
        cgroups.entry(series.last.to_bits()).or_default().push(series);
    }
    let held = cgroups.values().filter_map(|members| held_in(facts, members));
    held.max_by_key(|held| held.lost_ns)
}

fn held_in<'a>(facts: &Facts<'a>, members: &[&'a Series]) -> Option<Throttled<'a>> {
    let limited_ns = members.iter().map(|member| member.grown() as u64).max()?;
    let cpu = |series: &&Series| {
        let used = facts.summary().samples.get(Metric::ProcessCpu, &series.subject);
        // Of a process that does I/O it was read before its cgroup was throttled, too.
        let since = series.points.first().map_or(0, |point| point.0);
        let before = |used: &Series| {
            let points = used.points.iter().take_while(|point| point.0 <= since);
            points.last().map_or(used.first, |point| point.1)
        };
        used.map_or(0.0, |used| (used.last - before(used)).max(0.0))
    };
    let waits_of = |series: &&Series| {
        let (pid, name) = process_of(&series.subject)?;
        let waited = facts.waits(|group| group.pid == pid && group.process == name);
        (waited.waits as f64 >= WAITS_PER_S * facts.seconds()).then_some(waited)
    };
    let of_all: f64 = members.iter().map(cpu).sum();
    let (mut of_them, mut room_ns, mut groups) = (0.0, 0, Vec::new());
    for (series, waited) in members.iter().filter_map(|member| Some((member, waits_of(member)?))) {
        of_them += cpu(series);
        let threads = waited.groups.iter().map(|group| group.threads).max().unwrap_or(1);
        room_ns += (threads * facts.duration_ns()).saturating_sub(waited.time_ns);
        groups.extend(waited.groups);
    }
    if groups.is_empty() || of_them < MOST * of_all {
        return None;
    }
    groups.compact_sort_by_key(|group| std::cmp::Reverse(group.time_ns));
    let waited = Waited::from_groups(groups);
    let in_waits_ns =
        waited.groups.iter().map(|group| group.starved_ns).fold(0_u64, u64::saturating_add);
    let beside_ns = limited_ns.saturating_sub(in_waits_ns).min(room_ns);
    let cgroups = facts.summary().samples.of(Metric::CgroupHeldBack);
    let last = members.first()?.last;
    let cgroup =
        cgroups.iter().find(|cgroup| cgroup.last == last).map(|cgroup| cgroup.subject.as_str());
    let (lost_ns, whole_ns) = (in_waits_ns + beside_ns, waited.time_ns + beside_ns);
    let counts = lost_ns as f64 >= SHARE * whole_ns as f64;
    counts.then_some(Throttled { waited, cgroup, limited_ns, lost_ns, whole_ns })
}

impl Throttled<'_> {
    /// Returns the path of its cgroup below /sys/fs/cgroup, quoted for the shell: version 1 has a
    /// hierarchy for CPUs.
    fn folder(&self, facts: &Facts<'_>) -> Option<String> {
        let path = self.cgroup?;
        let mut known = facts.summary().environment.cgroups.iter();
        let is_v1 = known.any(|it| it.settings_start.contains_key("cpu.cfs_quota_us"));
        Some(shell_word(&format!("{}{path}", if is_v1 { "/cpu" } else { "" })).into_owned())
    }

    fn finding(&self, facts: &Facts<'_>) -> Finding {
        let Throttled { limited_ns, lost_ns, whole_ns, ref waited, .. } = *self;
        let subject = Subject { device: None, file: None, ..waited.subject() };
        let (its, pid) = (lost_ns as f64 / whole_ns.max(1) as f64, words::pid(&subject));
        let cgroup = self.cgroup.map(|path| format!(" ({path})")).unwrap_or_default();
        let sentence = format!(
            "the CPU limit of its cgroup{cgroup} throttles {}: {} of its apparent I/O time",
            words::who(&subject),
            words::percent(its),
        );
        let threads = waited.groups.iter().map(|group| group.threads).max().unwrap_or(1);
        let beside_ns = whole_ns - waited.time_ns;
        let first = waited.groups.first().map_or(0, |group| group.pid);
        let beside = Claims::of_held_back(first, beside_ns);
        of_lost(facts, lost_ns, beside_ns, sentence)
            .claiming(Claims::of_cpu(waited).and(&beside))
            .holding(share_of_thread(facts, lost_ns, threads))
            .about(subject)
            .shown(
                "CPU throttled time, on all CPUs",
                limited_ns as f64,
                "ns",
                match self.folder(facts) {
                    Some(name) => format!("cat /sys/fs/cgroup{name}/cpu.stat"),
                    None => format!("cat /proc/{pid}/cgroup"),
                },
            )
            .shown(
                "share of waits and throttled time without a CPU",
                its * 100.0,
                "%",
                "iowhy waits",
            )
            .also("waits", waited.waits as f64 / facts.seconds(), "1/s")
            .fix(
                "raise the limit: cpu.max of its cgroup (version 1: cpu.cfs_quota_us, Kubernetes: \
                 limits.cpu), or reduce the CPU load within it",
            )
            .check(
                "nr_throttled in cpu.stat (version 1: below its cpu controller) stops growing with \
                 a higher limit; if its I/O is as slow then, the limit is not the cause",
            )
    }
}

#[cfg(test)]
mod tests {
    use super::{Claims, Facts};
    use crate::{Finding, Severity, diagnose};
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::script::{MS, S, START_NS, Script};
    use iowhy_model::{Metric, Sample, WaitClass};

    /// A reader of 100 requests per second, of `each` nanoseconds.
    fn reader(each: u64) -> Script {
        let mut script = Script::new(10);
        for index in 0..1000 {
            let read = script.read("sda", 4096).by(7, "cat").at((index * 10 * MS) as i64);
            read.sector(index * 7919 * 8).direct(500, 500, each - 1000).add();
            script.wait((7, "cat"), WaitClass::Device, each, each - 1000, 0);
        }
        script
    }

    /// Adds a counter that grows by `change` over the watch.
    fn counter(script: &mut Script, metric: Metric, subject: &str, change: u64) {
        let (scope, word) = (metric.info().scope, metric.info().word);
        let (subject, metric) = (script.names.intern(subject), script.names.intern(word));
        for (time_ns, value) in [(START_NS, 5), (START_NS + 10 * S, 5 + change)] {
            script.batch.samples.push(Sample {
                time_ns,
                scope,
                subject,
                metric,
                value: value as f64,
            });
        }
    }

    fn found(script: &Script) -> Option<Finding> {
        diagnose(&script.summary())
            .findings
            .into_iter()
            .find(|finding| finding.cause == "cpu-starvation")
    }

    /// The reader in a cgroup whose limit throttles it for this long, with `others` of its CPU
    /// time.
    fn limited(each: u64, limited_ns: u64, others: u64) -> Script {
        let mut script = reader(each);
        counter(&mut script, Metric::CgroupHeldBack, "/pods/a", limited_ns);
        for (subject, cpu_ns) in [("7 cat", 400 * MS), ("9 make", others)] {
            counter(&mut script, Metric::HeldBack, subject, limited_ns);
            counter(&mut script, Metric::ProcessCpu, subject, cpu_ns);
        }
        script
    }

    /// The same reader, which waits this long for a CPU after each wait, and before it.
    fn starved(after_ns: u64, before_ns: u64) -> Script {
        let mut script = reader(4 * MS);
        for (index, wait) in script.batch.waits.iter_mut().enumerate() {
            // One of ten waits has all of the delay: 10 ms and more.
            let late = if index % 10 == 0 { 10 * after_ns } else { 0 };
            wait.run_queue_ns = late;
            wait.duration_ns += late;
            wait.cpu_wait_before_ns = Some(before_ns);
        }
        script
    }

    #[test]
    fn who_asked_for_what_others_leave_is_not_starved() {
        let mut script = starved(2 * MS, 3 * MS);
        script.process(7, "cat", "/", "");
        assert!(found(&script).is_some());
        let idle = script.names.intern("idle");
        script.batch.processes.last_mut().unwrap().io_class = Some(idle);
        assert_eq!(found(&script), None);
    }

    #[test]
    fn time_between_waits_counts_where_waits_tell_of_starvation() {
        let starving = found(&starved(2 * MS, 3 * MS)).unwrap();
        // Two of six seconds of waits are for a CPU, and three more are between waits.
        assert!((starving.impact - 5.0 / 9.0).abs() < 0.01, "{starving:?}");
        assert_eq!((starving.evidence[0].figure, starving.evidence[1].figure), (2e9, 5e9));
        // A program that computes is preempted occasionally, and gets its CPU when its I/O
        // completes.
        assert_eq!(found(&starved(0, 9 * MS)), None);
        // Or it waits longer for the CPU than for I/O.
        let busy = found(&starved(2 * MS, 9 * MS)).unwrap();
        assert_eq!(busy.evidence[1].figure, 2e9);
    }

    #[test]
    fn short_delays_are_the_price_of_switches() {
        let mut script = starved(MS, 0);
        for wait in &mut script.batch.waits {
            (wait.run_queue_ns, wait.duration_ns) = (2 * MS, 6 * MS);
        }
        assert_eq!(found(&script), None);
    }

    #[test]
    fn who_does_little_io_is_not_held_back_in_it() {
        let mut script = starved(2 * MS, 3 * MS);
        script.batch.waits.retain(|wait| wait.wait_id % 10 == 1);
        let starving = found(&script).unwrap();
        assert_eq!(starving.evidence[1].figure, 2e9);
    }

    #[test]
    fn a_limit_of_cpu_time_is_named() {
        let found = found(&limited(100_000, 8 * S, 0)).unwrap();
        assert!(
            (0.97..1.0).contains(&found.impact) && found.severity == Severity::Critical,
            "{found:?}"
        );
        assert_eq!((found.subject.pid, found.evidence[0].figure), (Some(7), 8e9));
        assert!(found.sentence.contains("(/pods/a) throttles cat (7)"), "{}", found.sentence);
    }

    #[test]
    fn a_limit_outside_the_waits_is_no_symptom_of_them() {
        let mut script = limited(100_000, 8 * S, 0);
        for wait in &mut script.batch.waits {
            // A sync of 2 ms, and hardly any of it without a CPU.
            (wait.class, wait.syscall) = (WaitClass::JournalCommit, Some(75));
            (wait.run_queue_ns, wait.duration_ns) = (MS / 100, 2 * MS);
        }
        let summary = script.summary();
        let found = diagnose(&summary).findings.remove(0);
        assert_eq!(found.cause, "cpu-starvation", "{found:?}");
        let waits = Claims::of_waits(&Facts::new(&summary).waits(|_| true));
        let (shared_ns, own_ns) = found.claims.shared_with(&waits);
        assert!(2 * shared_ns < own_ns, "{shared_ns} of {own_ns} are in its waits");
    }

    #[test]
    fn a_limit_that_holds_nobody_back_is_silent() {
        assert_eq!(found(&limited(100_000, 0, 0)), None);
        // It waits nine and a half of ten seconds: the disk is slow.
        assert_eq!(found(&limited(9_500_000, 8 * S, 0)), None);
    }

    #[test]
    fn who_uses_the_limit_up_is_held_back() {
        assert_eq!(found(&limited(100_000, 8 * S, 4 * S)), None);
        let mut idle = Script::new(10);
        counter(&mut idle, Metric::HeldBack, "9 make", 8 * S);
        counter(&mut idle, Metric::ProcessCpu, "9 make", 8 * S);
        assert_eq!(found(&idle), None);
    }
}
