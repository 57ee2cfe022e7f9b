//! The cost that a watch may have, and the choice of what is thinned to keep to it. Pure: rates and
//! times go in, levels come out.
//!
//! The cost of a stream is the sum over its programs of their rate and what a run takes, and of
//! requests also the CPU time in which iowhy's own process reads them. Thinned are, in this order,
//! the times of system calls, the system calls, waits, and requests; at last nothing is kept of
//! requests that are not recorded. A stream that costs next to nothing is left alone. When the load
//! falls they come back in the opposite order.
//!
//! What does not belong here: measuring, attaching and detaching (see `thinning`).

use std::collections::VecDeque;
use std::ops::RangeInclusive;

/// The share of a machine's CPUs that a watch may use, if the user does not say.
pub const DEFAULT_PERCENT: f64 = 3.0;
/// The default share for a watch that never ends, percent.
pub const ALWAYS_PERCENT: f64 = 0.5;
/// Budgets that can be set, percent: below the least not even exact counts fit.
pub const PERCENT_RANGE: RangeInclusive<f64> = 0.01..=100.0;
/// The fewest requests that are recorded.
pub const FEWEST_REQUESTS: u32 = 64;
/// The fewest waits that are recorded.
const FEWEST_WAITS: u32 = 64;

/// The cost of a run beyond what its program can measure, nanoseconds: the tracepoint's call, and
/// the cache lines that it displaces. Measured with empty programs.
const ENTRY_NS: f64 = 25.0;
/// The additional cost of a run for system calls, which leave the kernel's fast path as soon as one
/// is traced, nanoseconds.
const CALL_ENTRY_NS: f64 = 60.0;
/// At most so much of the process's time belongs to a recorded request: to read, decode and write
/// it. The rest does not get less if fewer are recorded.
const READING_NS: f64 = 1000.0;
/// Of a program that was never timed.
const UNKNOWN_NS: f64 = 150.0;
/// A longer mean is that of interrupts or of the hypervisor, not of the program.
const MOST_NS: f64 = 3000.0;

/// Time of a request that is not recorded: while a few words of it are kept, and while nothing is.
/// Entering the programs is included. Measured; approximate.
const SKIPPING_NS: f64 = 300.0;
const RESTING_NS: f64 = 150.0;
/// Time of a request that is recorded, its reading included. Measured; approximate.
const RECORDED_NS: f64 = 1100.0;
/// At most so much of what is left for requests counts as that.
const KEPT_PART: f64 = 0.75;
/// The most requests that are recorded while programs rest, as one in so many: unrecorded ones are
/// known less then.
const RESTING_ONE_IN: u32 = 16;

/// Measurements over the budget after which something is thinned: what a watch costs in its first
/// tenths of a second says little.
const OVER: u32 = 3;
/// Measurements well below the budget after which something comes back.
const UNDER: u32 = 20;
/// Below this share of the budget there is room for something to come back.
const ROOM: f64 = 0.8;
/// While something is thinned, stacks are copied only below this share. Chosen.
const THINNED_ROOM: f64 = 0.5;
/// A stream below this share of the budget is not worth thinning.
const WORTH: f64 = 0.05;
/// The largest part of the budget that fixed costs count for. Beyond it the budget cannot be held,
/// and recording less of everything else would only cost the diagnosis.
const FIXED_PART: f64 = 0.5;
/// Requests per second that are always recorded: the budget is for rates, and so few cost at most a
/// thousandth of a CPU, whatever else a watch costs. Chosen.
const ALWAYS_PER_S: f64 = 500.0;
/// The share of the budget that the cost is kept below.
const AIM: f64 = 0.95;
/// The time in which what was spent beyond that share is saved again, nanoseconds: a watch of ten
/// seconds holds the budget in the mean although its first tenths are above it. Chosen.
const REPAY_NS: f64 = 3e9;
/// At most so much of the budget is saved for that, so that a load that no budget holds costs no
/// more of the diagnosis. Chosen.
const REPAY_PART: f64 = 0.5;
/// Measurements that tell how many requests there are: a second.
const RECENT: usize = 10;
/// Measurements until calls are tried again, at first and at most.
const RETRY: (u32, u32) = (50, 600);

/// The part of each stream that is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Levels {
    /// Whether system calls on files are timed.
    pub call_times: bool,
    /// Whether they are counted.
    pub calls: bool,
    /// One in so many waits is recorded; a power of two.
    pub waits_one_in: u32,
    /// One in so many requests is recorded; a power of two.
    pub requests_one_in: u32,
    /// Whether nothing is kept of requests that are not recorded.
    pub resting: bool,
}

impl Levels {
    /// Everything.
    pub const ALL: Levels = Levels {
        call_times: true,
        calls: true,
        waits_one_in: 1,
        requests_one_in: 1,
        resting: false,
    };
}

/// Streams that can be thinned one by one, and the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CostStream {
    CallTimes,
    Calls,
    Waits,
    Requests,
    /// Programs that always run: exact counts, dirtied pages.
    Fixed,
}

impl CostStream {
    fn from_program(program: &str) -> CostStream {
        match program {
            "on_call_begins" => CostStream::CallTimes,
            "on_call" | "on_uring_complete" | "on_file_fault" | "on_file_mapped" => {
                CostStream::Calls
            }
            "on_switch" | "on_waking" => CostStream::Waits,
            "on_queue" | "on_get" | "on_insert" | "on_issue" | "on_complete" | "on_split"
            | "on_requeue" | "on_bio_complete" => CostStream::Requests,
            _ => CostStream::Fixed,
        }
    }
}

/// The runs of a program in an interval.
#[derive(Clone, Copy, Debug)]
pub struct ProgramRuns {
    /// The program's name.
    pub program: &'static str,
    /// Number of runs.
    pub runs: u64,
    /// Mean duration of a run by the program's own clock, nanoseconds; `None` if none was ever
    /// timed.
    pub ns_each: Option<f64>,
}

impl ProgramRuns {
    /// Returns the cost of these runs, nanoseconds.
    pub fn cost_ns(&self) -> f64 {
        let is_call = matches!(self.program, "on_call" | "on_call_begins");
        let entry = if is_call { CALL_ENTRY_NS } else { ENTRY_NS };
        self.runs as f64 * (self.ns_each.map_or(UNKNOWN_NS, |each| each.min(MOST_NS)) + entry)
    }
}

/// The measurements of an interval.
#[derive(Clone, Debug, Default)]
pub struct Load {
    /// Length of the interval, nanoseconds.
    pub length_ns: u64,
    /// CPUs online.
    pub cpus: u32,
    /// Every program that ran.
    pub programs: Vec<ProgramRuns>,
    /// CPU time of iowhy's own processes, nanoseconds.
    pub process_ns: u64,
    /// Requests that the process read: not those of devices that are not watched, for which the
    /// programs run, too.
    pub recorded: u64,
}

impl Load {
    /// Requests that completed, recorded or not.
    fn completed(&self) -> f64 {
        let ends = self.programs.iter().filter(|program| program.program == "on_complete");
        ends.map(|program| program.runs as f64).sum()
    }
}

/// Shares of the machine's CPUs, by stream.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct CostShares {
    call_times: f64,
    calls: f64,
    waits: f64,
    requests: f64,
    fixed: f64,
    /// The share that one more nanosecond per completed request would add.
    each_ns: f64,
}

/// The requests of the last measurements. One alone says little: of one in 64, windows in which
/// requests are recorded are up to half a second apart.
#[derive(Clone, Debug, Default)]
struct RecentRequests {
    /// Requests, as far as the recorded ones tell, and length of each, nanoseconds.
    measured: VecDeque<(f64, u64)>,
}

impl RecentRequests {
    /// Adds a measurement in which one in `one_in` was recorded.
    fn add(&mut self, load: &Load, one_in: u32) {
        self.measured.push_back((load.recorded as f64 * f64::from(one_in), load.length_ns));
        if self.measured.len() > RECENT {
            self.measured.pop_front();
        }
    }

    /// Whether there are so few requests that each is recorded, `times` as many included.
    fn are_rare(&self, times: f64) -> bool {
        let add = |sum: (f64, f64), one: &(f64, u64)| (sum.0 + one.0, sum.1 + one.1 as f64);
        let (requests, ns) = self.measured.iter().fold((0.0, 0.0), add);
        requests * times / (ns / 1e9).max(1e-9) < ALWAYS_PER_S
    }

    /// Whether it covers every window that is recorded.
    fn is_complete(&self) -> bool {
        self.measured.len() >= RECENT
    }
}

impl CostShares {
    fn from_load(load: &Load) -> CostShares {
        let all_ns = (load.length_ns as f64 * f64::from(load.cpus.max(1))).max(1.0);
        let process_ns = load.process_ns as f64;
        let reading_ns = process_ns.min(load.recorded as f64 * READING_NS);
        let mut shares = CostShares {
            requests: reading_ns / all_ns,
            fixed: (process_ns - reading_ns) / all_ns,
            each_ns: load.completed() / all_ns,
            ..CostShares::default()
        };
        for program in &load.programs {
            let own = match CostStream::from_program(program.program.trim_end_matches("_again")) {
                CostStream::CallTimes => &mut shares.call_times,
                CostStream::Calls => &mut shares.calls,
                CostStream::Waits => &mut shares.waits,
                CostStream::Requests => &mut shares.requests,
                CostStream::Fixed => &mut shares.fixed,
            };
            *own += program.cost_ns() / all_ns;
        }
        shares
    }

    fn total(&self) -> f64 {
        self.thinnable() + self.fixed
    }

    /// Returns the share of the streams that can be thinned.
    fn thinnable(&self) -> f64 {
        self.call_times + self.calls + self.waits + self.requests
    }

    /// Returns the share that is compared with the budget.
    fn counted(&self, budget: f64) -> f64 {
        self.thinnable() + self.fixed.min(budget * FIXED_PART)
    }
}

/// Keeps a watch within its budget.
#[derive(Clone, Debug)]
pub struct Controller {
    budget: f64,
    levels: Levels,
    /// Measurements in a row over the budget, and well below it.
    over: u32,
    under: u32,
    /// The share of calls when they were last thinned.
    calls_cost: f64,
    /// Measurements until calls are tried again, and how many after the next failure.
    retry_in: u32,
    retry_next: u32,
    since_retry: Option<u32>,
    total_ns: f64,
    measured_ns: f64,
    /// What was spent beyond the aim and is not saved yet: share of all CPUs times nanoseconds.
    debt: f64,
    latest: f64,
    unheld: u32,
    measurements: u32,
    keeps_calls: bool,
    recent: RecentRequests,
}

impl Controller {
    /// For a budget in percent of the machine's CPUs.
    pub fn new(percent: f64) -> Controller {
        Controller {
            budget: (percent / 100.0).clamp(0.0, 1.0),
            levels: Levels::ALL,
            over: 0,
            under: 0,
            calls_cost: 0.0,
            retry_in: 0,
            retry_next: RETRY.0,
            since_retry: None,
            total_ns: 0.0,
            measured_ns: 0.0,
            debt: 0.0,
            latest: 0.0,
            unheld: 0,
            measurements: 0,
            keeps_calls: false,
            recent: RecentRequests::default(),
        }
    }

    /// Whether file calls are counted whatever they cost: a watch that was asked for each open must
    /// not leave some out.
    pub fn keep_calls(self, keeps_calls: bool) -> Controller {
        Controller { keeps_calls, ..self }
    }

    /// Returns the levels at which streams are recorded now.
    pub fn levels(&self) -> Levels {
        self.levels
    }

    /// The mean cost so far, as a share of the machine's CPUs.
    pub fn cost_share(&self) -> f64 {
        if self.measured_ns > 0.0 { self.total_ns / self.measured_ns } else { 0.0 }
    }

    /// Returns the share of the machine's CPUs that the last measurement left of the budget for
    /// copying stacks; 0 until there is one, and negative beyond the budget.
    pub fn free_share(&self) -> f64 {
        if self.measurements == 0 {
            return 0.0;
        }
        // Thinned streams come back only while there is room.
        let part = if self.levels == Levels::ALL { ROOM } else { THINNED_ROOM };
        self.budget * part - self.latest
    }

    /// The cost of the last measurement, as a share of the machine's CPUs, if the budget could not
    /// be held for more than half of the watch.
    pub fn unheld_share(&self) -> Option<f64> {
        (self.unheld * 2 > self.measurements).then_some(self.latest)
    }

    /// Takes a measurement; the new levels, if they change.
    pub fn step(&mut self, load: &Load) -> Option<Levels> {
        let shares = CostShares::from_load(load);
        let (before, total) = (self.levels, shares.total());
        let all_ns = load.length_ns as f64 * f64::from(load.cpus.max(1));
        self.total_ns += total * all_ns;
        self.measured_ns += all_ns;
        self.latest = total;
        self.measurements += 1;
        self.retry_in = self.retry_in.saturating_sub(1);
        self.since_retry = self.since_retry.map(|since| since + 1);
        self.recent.add(load, self.levels.requests_one_in);
        let counted = shares.counted(self.budget);
        self.owe(counted, load.length_ns as f64);
        self.over = if counted > self.target() { self.over + 1 } else { 0 };
        self.under = if counted < self.room() { self.under + 1 } else { 0 };
        if self.over >= OVER {
            self.over = 0;
            self.thin(shares);
        } else if self.under >= UNDER {
            self.under = 0;
            self.restore(shares);
        }
        // Half of them, so that a rate at the limit does not change the level again and again.
        if self.recent.is_complete() && self.recent.are_rare(2.0) {
            (self.levels.requests_one_in, self.levels.resting) = (1, false);
        }
        self.unheld += u32::from(total > self.budget && self.levels == before);
        (self.levels != before).then_some(self.levels)
    }

    /// Counts what an interval cost beyond the aim, or saved below it.
    fn owe(&mut self, counted: f64, length_ns: f64) {
        let most = self.budget * REPAY_PART * REPAY_NS;
        self.debt = (self.debt + (counted - self.budget * AIM) * length_ns).max(0.0).min(most);
    }

    /// Returns the share below which the cost is kept.
    fn target(&self) -> f64 {
        self.budget * AIM - self.debt / REPAY_NS
    }

    /// Returns the share below which something may come back.
    fn room(&self) -> f64 {
        self.target().min(self.budget * ROOM)
    }

    fn thin(&mut self, shares: CostShares) {
        let target = self.target();
        let mut expected = shares.counted(self.budget);
        let worth = self.budget * WORTH;
        if self.levels.calls && shares.calls + shares.call_times > worth {
            if self.levels.call_times && shares.call_times > worth {
                self.levels.call_times = false;
                self.calls_cost = shares.call_times;
                expected -= shares.call_times;
            }
            if expected > target && shares.calls > worth && !self.keeps_calls {
                self.levels.calls = false;
                self.levels.call_times = false;
                self.calls_cost = shares.calls + shares.call_times;
                expected -= shares.calls;
            }
            self.hold_off_calls();
        }
        if expected > target && shares.waits > worth && self.levels.waits_one_in < FEWEST_WAITS {
            self.levels.waits_one_in *= 4;
            expected -= shares.waits * 0.4;
        }
        let most = FEWEST_REQUESTS;
        let is_least = self.levels.requests_one_in == most && self.levels.resting;
        let may_thin = !is_least && !self.recent.are_rare(1.0);
        if expected > target && shares.requests > worth && may_thin {
            let left = (target - (expected - shares.requests)).max(self.budget * 0.1);
            if shares.each_ns * SKIPPING_NS > left && !self.levels.resting {
                self.rest(shares, left);
                return;
            }
            // What each request costs that is not recorded does not get less.
            let kept_ns = if self.levels.resting { RESTING_NS } else { SKIPPING_NS };
            let kept = (shares.each_ns * kept_ns).min(left * KEPT_PART);
            let factor = ((shares.requests - kept) / (left - kept)).clamp(2.0, 8.0) as u32;
            let one_in = self.levels.requests_one_in * factor.next_power_of_two();
            self.levels.requests_one_in = one_in.min(most);
        }
    }

    /// Keeps nothing of unrecorded requests: deciding about each would cost more than is left.
    fn rest(&mut self, shares: CostShares, left: f64) {
        let fits =
            |one_in: &u32| shares.each_ns * (RESTING_NS + RECORDED_NS / f64::from(*one_in)) < left;
        let rates = (RESTING_ONE_IN.ilog2()..FEWEST_REQUESTS.ilog2()).map(|bits| 1 << bits);
        let one_in = rates.into_iter().find(fits).unwrap_or(FEWEST_REQUESTS);
        self.levels.requests_one_in = self.levels.requests_one_in.max(one_in);
        self.levels.resting = true;
    }

    /// Makes programs that rest do more, if there is room. Returns whether they rest.
    fn wake(&mut self, shares: CostShares, room: f64) -> bool {
        let one_in = self.levels.requests_one_in;
        let is_resting = self.levels.resting;
        if is_resting && shares.each_ns * (SKIPPING_NS - RESTING_NS) < room {
            self.levels.resting = false;
        } else if is_resting && one_in > RESTING_ONE_IN {
            let more = shares.each_ns * RECORDED_NS / f64::from(one_in);
            self.levels.requests_one_in = if more < room { one_in / 2 } else { one_in };
        }
        is_resting
    }

    /// Calls come back later each time that they did not stay.
    fn hold_off_calls(&mut self) {
        let failed = self.since_retry.take().is_some_and(|since| since < UNDER);
        self.retry_next =
            if failed { self.retry_next.saturating_mul(2).min(RETRY.1) } else { RETRY.0 };
        self.retry_in = self.retry_next;
    }

    fn restore(&mut self, shares: CostShares) {
        let room = self.room() - shares.counted(self.budget);
        if self.wake(shares, room) {
            return;
        }
        if self.levels.requests_one_in > 1 {
            if shares.requests * 0.8 < room {
                self.levels.requests_one_in /= 2;
            }
        } else if self.levels.waits_one_in > 1 {
            if shares.waits < room {
                self.levels.waits_one_in /= 4;
            }
        } else if !self.levels.call_times && self.retry_in == 0 {
            // The cost of calls is not known while they are not counted.
            self.levels.calls = true;
            self.levels.call_times = self.calls_cost < room;
            self.calls_cost = 0.0;
            self.since_retry = Some(0);
            self.retry_in = self.retry_next;
        }
    }
}

#[cfg(test)]
mod tests;
