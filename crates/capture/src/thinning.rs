//! Keeps a live watch within its budget: measures what the programs and iowhy itself cost, and
//! carries out what the [`Controller`] decides.
//!
//! What does not belong here: the decision (see [`crate::budget`]), and which requests are recorded
//! then (`bpf/thinning.bpf.h`).

use crate::aggregates::{AggregateReader, AggregateSnapshot, LatencyTotal};
use crate::budget::{Controller, Levels, Load, ProgramRuns};
use crate::host::{own, read_text, system};
use crate::kernel::KernelFeatures;
use crate::plan::Plan;
use crate::session::Session;
use crate::wire;
use iowhy_model::Environment;
use iowhy_model::environment::{ExactCount, Thinning};
use std::collections::BTreeMap;
use zerocopy::{FromBytes, IntoBytes};

/// Time between two measurements of the cost.
const INTERVAL_NS: u64 = 100_000_000;
/// Time between two lists of those requests in flight that were left out.
const LIST_NS: u64 = 1_000_000_000;
/// Requests that take so long are recorded at every level.
const SLOW_NS: u64 = 10_000_000;
/// Above this quantile, too, but none below [`LEAST_SLOW_NS`].
const SLOW_QUANTILE: f64 = 0.995;
const LEAST_SLOW_NS: u64 = 20_000;
/// Resolution of the time until which the ring buffer made the programs leave out requests.
const SPAN_STEP_NS: u64 = 1_000_000;
/// Measurements between two looks at the quantile.
const QUANTILE_EVERY: u32 = 10;
/// Requests per second of a disk from which programs rest on it, where the budget needs it. Chosen:
/// so many of one disk that is not worth it cost two thousandths of a CPU.
const RESTING_PER_S: f64 = 10_000.0;
/// Counts of a longer time are not those of the load as it is now.
const RECENT_NS: u64 = 2_000_000_000;
/// Measurements between two readings of files: online CPUs, and CPU time of iowhy's other
/// processes.
const FILES_EVERY: u32 = 10;
/// Timed runs whose mean says something.
const FEW: u64 = 16;
/// From this level on the kernel's own time of getting a request replaces a program of ours.
const WITHOUT_GET: u32 = 4;

/// Programs that are detached when calls on files are thinned.
const CALL_PROGRAMS: [&str; 4] =
    ["on_call", "on_uring_complete", "on_file_fault", "on_file_mapped"];
/// Programs whose time stamp the kernel takes itself.
const GET_PROGRAMS: [&str; 2] = ["on_get", "on_get_again"];

/// Numbers of disks; 0 for none.
type RestingDisks = [u32; wire::WIRE_RESTING_DISKS as usize];

/// Runs and time of a program so far.
#[derive(Clone, Copy, Debug, Default)]
struct MeasuredCost {
    runs: u64,
    timed: u64,
    ns: u64,
}

/// A watch's budget, while it runs.
pub(crate) struct Thinner {
    controller: Controller,
    plan: Plan,
    reader: Option<AggregateReader>,
    first: AggregateSnapshot,
    quantile_since: AggregateSnapshot,
    quantile_in: u32,
    slow_ns: u64,
    /// The disks on which programs rest, and since when these are the ones.
    resting: RestingDisks,
    kept_from_ns: u64,
    costs: Vec<MeasuredCost>,
    measured_ns: u64,
    process_ns: u64,
    /// Requests that were read since the last measurement.
    recorded: u64,
    /// CPUs that were online, and CPU time of iowhy's other processes, as they were read last.
    cpus: u32,
    aside_ns: u64,
    /// Measurements until both are read again.
    reads_in: u32,
    /// Time at which requests that hang were last looked for, CLOCK_MONOTONIC nanoseconds.
    listed_ns: u64,
    /// The changes of the levels, with their times.
    pub history: Vec<Thinning>,
}

impl Thinner {
    /// Begins to measure. Requests are recorded in full until it costs too much.
    pub fn begin(
        session: &Session,
        plan: &Plan,
        facts: &KernelFeatures,
        controller: Controller,
        process_ns: u64,
    ) -> Thinner {
        let reader = AggregateReader::of(session, facts);
        let first = reader.as_ref().map(AggregateReader::snapshot).unwrap_or_default();
        let thinner = Thinner {
            controller,
            plan: plan.clone(),
            reader,
            quantile_since: first.clone(),
            first,
            quantile_in: QUANTILE_EVERY,
            slow_ns: SLOW_NS,
            resting: RestingDisks::default(),
            kept_from_ns: 0,
            costs: costs(session),
            measured_ns: system::now_ns(),
            process_ns,
            recorded: 0,
            cpus: cpus_online(),
            aside_ns: 0,
            reads_in: 0,
            listed_ns: 0,
            history: Vec::new(),
        };
        thinner.tell(session);
        thinner
    }

    /// Whether requests or waits were left out so far: because of the levels, or because the ring
    /// buffer filled up, on which the programs decide alone.
    pub fn has_left_out(&self, session: &Session) -> bool {
        self.history.iter().any(|level| level.requests_one_in > 1 || level.waits_one_in > 1)
            || session.words::<1>("skipped_span") != [0]
    }

    /// Whether it is time to look for requests in flight that were left out: once a second.
    pub fn is_list_due(&mut self, session: &Session) -> bool {
        let now_ns = system::now_ns();
        let is_time = now_ns.saturating_sub(self.listed_ns) >= LIST_NS;
        if is_time {
            self.listed_ns = now_ns;
        }
        is_time && self.has_left_out(session)
    }

    /// Notes that so many requests were read.
    pub fn add_recorded(&mut self, requests: usize) {
        self.recorded += requests as u64;
    }

    /// CPU time that the budget leaves, nanoseconds per second.
    pub fn free_ns(&self) -> f64 {
        self.controller.free_share() * f64::from(self.cpus) * 1e9
    }

    /// Passes the levels to the programs.
    fn tell(&self, session: &Session) {
        let levels = self.controller.levels();
        let thinning = wire::wire_thinning {
            adaptive: 1,
            one_in: levels.requests_one_in,
            waits_one_in: levels.waits_one_in,
            last_padding: 0,
            slow_ns: self.slow_ns,
            kept_from_ns: self.kept_from_ns,
            resting: self.resting,
        };
        session.set("thinning", thinning.as_bytes());
    }

    /// Measures if it is time; `aside_ns` gives the CPU time of iowhy's other processes so far,
    /// from a file, as the number of CPUs is: they are read once a second. Returns whether calls
    /// are timed, if that changed.
    pub fn measure_if_due(
        &mut self,
        session: &mut Session,
        aside_ns: impl FnOnce() -> u64,
    ) -> Option<bool> {
        let now_ns = system::now_ns();
        let length_ns = now_ns.saturating_sub(self.measured_ns);
        if length_ns < INTERVAL_NS {
            return None;
        }
        if self.reads_in == 0 {
            (self.aside_ns, self.cpus, self.reads_in) = (aside_ns(), cpus_online(), FILES_EVERY);
        }
        self.reads_in -= 1;
        let (costs, process_ns) = (costs(session), own::cpu_ns() + self.aside_ns);
        let programs = wire::PROGRAMS.iter().zip(&costs).zip(&self.costs);
        let programs = programs.filter(|((_, now), before)| now.runs > before.runs);
        let load = Load {
            length_ns,
            cpus: self.cpus,
            programs: programs
                .map(|((program, now), before)| ProgramRuns {
                    program,
                    runs: now.runs - before.runs,
                    ns_each: each(now, before),
                })
                .collect(),
            process_ns: process_ns.saturating_sub(self.process_ns),
            recorded: std::mem::take(&mut self.recorded),
        };
        (self.costs, self.measured_ns, self.process_ns) = (costs, now_ns, process_ns);
        let before = self.controller.levels();
        let changed = self.controller.step(&load);
        let is_different = self.follow_disks(before.resting);
        if changed.is_some() || is_different {
            self.tell(session);
        }
        let levels = changed?;
        self.carry_out(session, before, levels);
        self.note(now_ns, levels);
        (levels.call_times != before.call_times).then_some(levels.call_times)
    }

    fn carry_out(&self, session: &mut Session, before: Levels, now: Levels) {
        let mut set = |programs: &[&'static str], wanted: bool| {
            for program in programs {
                if wanted {
                    session.attach_program(&self.plan, program);
                } else {
                    session.detach_program(program);
                }
            }
        };
        if before.calls != now.calls {
            set(&CALL_PROGRAMS, now.calls);
        }
        if before.call_times != now.call_times {
            set(&["on_call_begins"], now.call_times);
        }
        let gets = |levels: Levels| levels.requests_one_in < WITHOUT_GET;
        if gets(before) != gets(now) {
            set(&GET_PROGRAMS, gets(now));
        }
    }

    fn note(&mut self, from_ns: u64, levels: Levels) {
        self.history.push(Thinning {
            from_ns,
            requests_one_in: levels.requests_one_in,
            waits_one_in: levels.waits_one_in,
            calls: levels.calls,
            call_times: levels.call_times,
            resting: levels.resting,
        });
    }

    /// Adapts the limit of slow requests to the disks of this machine, and the list of fast disks.
    /// Returns whether either changed.
    fn follow_disks(&mut self, has_rested: bool) -> bool {
        self.quantile_in = self.quantile_in.saturating_sub(1);
        let levels = self.controller.levels();
        let is_due = self.quantile_in == 0 || levels.resting != has_rested;
        let thinned = levels.requests_one_in > 1 || has_rested;
        let Some(reader) = self.reader.as_ref().filter(|_| thinned && is_due) else {
            return false;
        };
        let now = reader.snapshot();
        let new = now.since(&self.quantile_since);
        let length_ns = now.time_ns.saturating_sub(self.quantile_since.time_ns);
        // While requests are not thinned, nobody reads the counts: those of the last moment count.
        self.quantile_in = if length_ns > RECENT_NS { 1 } else { QUANTILE_EVERY };
        let resting = match levels.resting {
            true => fast_disks(&new, length_ns),
            false => RestingDisks::default(),
        };
        let is_other = std::mem::replace(&mut self.resting, resting) != resting;
        if is_other {
            self.kept_from_ns = now.time_ns;
        }
        let mut all = LatencyTotal::default();
        new.disks.values().for_each(|disk| all.merge(&disk.latency));
        self.quantile_since = now;
        let Some(quantile_ns) = all.quantile_ns(SLOW_QUANTILE) else { return is_other };
        let slow_ns = quantile_ns.clamp(LEAST_SLOW_NS, SLOW_NS);
        std::mem::replace(&mut self.slow_ns, slow_ns) != slow_ns || is_other
    }

    /// Returns the time that the programs took so far, nanoseconds.
    pub fn programs_ns(session: &Session) -> u64 {
        let sum = |sum: f64, (program, cost): (&&'static str, MeasuredCost)| {
            let ns_each = each(&cost, &MeasuredCost::default());
            sum + ProgramRuns { program, runs: cost.runs, ns_each }.cost_ns()
        };
        wire::PROGRAMS.iter().zip(costs(session)).fold(0.0, sum) as u64
    }

    /// Notes in `environment` the changes of levels, and the exact counts.
    pub fn finish(&self, session: &Session, environment: &mut Environment) {
        environment.thinning.clone_from(&self.history);
        if environment.requests_one_in().is_none() {
            let [first_ns, latest_ns] = session.words("skipped_span");
            // The latest is written once a millisecond.
            environment.ring_sampled_ns =
                if first_ns > 0 { (latest_ns + SPAN_STEP_NS).saturating_sub(first_ns) } else { 0 };
        }
        if let Some(reader) = &self.reader {
            let new = reader.snapshot().since(&self.first);
            environment.exact_counts = new
                .disks
                .iter()
                .filter(|((device, _), _)| *device != 0)
                .map(|((device, operation), total)| ExactCount {
                    major: device >> 20,
                    minor: device & 0xf_ffff,
                    operation: operation.word().to_owned(),
                    requests: total.requests,
                    bytes: total.bytes,
                    errors: Some(total.errors),
                    timed: total.latency.count,
                    latency_ns: total.latency.sum_ns,
                })
                .collect();
        }
        environment.limits.extend(self.limits(environment));
    }

    /// Returns sentences about the thinned streams.
    fn limits(&self, environment: &Environment) -> Vec<String> {
        let end_ns = environment.end_ns.max(environment.start_ns + 1);
        let all = Levels::ALL;
        let mut at = (environment.start_ns, true, true, true, false);
        let (mut without_calls, mut without_times, mut without_waits, mut rested) = (0, 0, 0, 0);
        let last = Thinning {
            from_ns: end_ns,
            requests_one_in: all.requests_one_in,
            waits_one_in: all.waits_one_in,
            calls: true,
            call_times: true,
            resting: false,
        };
        for level in self.history.iter().chain([&last]) {
            let length = level.from_ns.saturating_sub(at.0);
            without_calls += if at.1 { 0 } else { length };
            without_times += if at.2 { 0 } else { length };
            without_waits += if at.3 { 0 } else { length };
            rested += if at.4 { length } else { 0 };
            let all_waits = level.waits_one_in == 1;
            at = (level.from_ns, level.calls, level.call_times, all_waits, level.resting);
        }
        let share = |ns: u64| ns as f64 / (end_ns - environment.start_ns).max(1) as f64;
        let budget = "to keep to the budget (--budget; --every records all)";
        let mut limits = Vec::new();
        if without_calls > 0 {
            let share = percent(share(without_calls));
            limits.push(format!("file calls were not counted {share} % of the time, {budget}"));
        } else if without_times > 0 {
            let share = percent(share(without_times));
            limits.push(format!("file calls were not timed {share} % of the time, {budget}"));
        }
        if let Some(one_in) = environment.waits_one_in() {
            let share = percent(share(without_waits));
            limits.push(format!(
                "{share} % of the time only a sample of the waits was recorded (down to 1 of \
                 {one_in}), {budget}"
            ));
        }
        if rested > 0 {
            let share = percent(share(rested));
            limits.push(format!(
                "{share} % of the time slow requests beyond the sample were recorded without their \
                 submitter, and with the kernel's own time of their start, {budget}"
            ));
        }
        if environment.ring_sampled_ns > 0 {
            limits.push(format!(
                "only a sample of the requests was recorded for {:.1} s: the ring buffer filled \
                 up while iowhy waited for a CPU; counts of devices are exact",
                environment.ring_sampled_ns as f64 / 1e9
            ));
        }
        if let Some(cost) = self.controller.unheld_share() {
            limits.push(format!(
                "the budget could not be held: watching costs {} % of the CPUs although as little \
                 as possible is recorded",
                percent(cost)
            ));
        }
        limits
    }
}

/// Returns the disks with so many requests that programs rest on them: those of others are still
/// kept.
fn fast_disks(counted: &AggregateSnapshot, length_ns: u64) -> RestingDisks {
    let mut requests: BTreeMap<u32, u64> = BTreeMap::new();
    for ((disk, _), total) in counted.disks.iter().filter(|((disk, _), _)| *disk != 0) {
        *requests.entry(*disk).or_default() += total.requests;
    }
    let per_s = |count: u64| count as f64 * 1e9 / length_ns.max(1) as f64;
    let mut fast: Vec<(u64, u32)> =
        requests.into_iter().map(|(disk, count)| (count, disk)).collect();
    fast.retain(|(count, _)| per_s(*count) >= RESTING_PER_S);
    fast.sort_unstable_by(|one, other| other.cmp(one));
    let mut disks = RestingDisks::default();
    for (place, (_, disk)) in disks.iter_mut().zip(fast) {
        *place = disk;
    }
    disks
}

/// A share as a percentage for a sentence.
fn percent(share: f64) -> String {
    format!("{:.1}", share * 100.0)
}

fn each(now: &MeasuredCost, before: &MeasuredCost) -> Option<f64> {
    let recent = (now.ns.saturating_sub(before.ns), now.timed.saturating_sub(before.timed));
    // A few runs can be off by an interrupt.
    let (ns, timed) = if recent.1 >= FEW { recent } else { (now.ns, now.timed) };
    (timed >= FEW).then(|| ns as f64 / timed as f64)
}

/// Runs and times of all programs, over all CPUs.
fn costs(session: &Session) -> Vec<MeasuredCost> {
    let mut sums = vec![MeasuredCost::default(); wire::PROGRAMS.len()];
    for value in session.each_cpu("costs") {
        let Ok((costs, _)) = wire::wire_costs::read_from_prefix(&value) else { continue };
        for (sum, cost) in sums.iter_mut().zip(costs.of) {
            sum.runs += cost.runs;
            sum.timed += cost.timed;
            sum.ns += cost.ns;
        }
    }
    sums
}

/// CPUs that are online now: some may be taken offline while a watch runs.
fn cpus_online() -> u32 {
    let text = read_text("/sys/devices/system/cpu/online").unwrap_or_default();
    let count = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(last.parse::<u32>().ok()?.checked_sub(first.parse().ok()?)? + 1)
    };
    text.trim().split(',').filter_map(count).sum::<u32>().max(1)
}
