//! What a watch may cost, and what is thinned to keep to it. Pure: rates and times go in, levels
//! come out.
//!
//! The cost of a stream is the sum over its programs of their rate and what a run takes, and of
//! requests also the CPU time in which iowhy's own process reads them. Thinned are, in this order,
//! the times of system calls, the system calls, waits, and requests; a stream that costs next to
//! nothing is left alone. When the load falls they come back in the opposite order.
//!
//! What does not belong here: measuring, attaching and detaching (see `thinning`).

use std::ops::RangeInclusive;

/// The share of a machine's CPUs that a watch may use, if the user does not say.
pub const DEFAULT_PERCENT: f64 = 3.0;
/// The same of a watch that never ends.
pub const ALWAYS_PERCENT: f64 = 0.5;
/// Budgets that can be set, percent: below the least not even exact counts fit.
pub const PERCENT_RANGE: RangeInclusive<f64> = 0.01..=100.0;
/// The fewest requests that are recorded.
pub const FEWEST_REQUESTS: u32 = 64;
/// The fewest waits that are recorded.
const FEWEST_WAITS: u32 = 16;

/// What a run costs beyond what its program can measure: the tracepoint's call of it, and what it
/// pushes out of the caches. Measured with empty programs.
const ENTRY_NS: f64 = 30.0;
/// The same of system calls, which leave the kernel's fast path as soon as one is traced.
const CALL_ENTRY_NS: f64 = 60.0;
/// At most so much of the process's time belongs to a recorded request: to read, decode and write
/// it. The rest does not get less if fewer are recorded.
const READING_NS: f64 = 1000.0;
/// Of a program that was never timed.
const UNKNOWN_NS: f64 = 150.0;
/// A longer mean is that of interrupts or of the hypervisor, not of the program.
const MOST_NS: f64 = 3000.0;

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
/// At most so much of the budget is taken by what cannot be thinned. Beyond it the budget cannot be
/// held, and recording less of everything else would only cost the diagnosis.
const FIXED_PART: f64 = 0.5;
/// Requests per second that are always recorded: the budget is for rates, and so few cost at most a
/// thousandth of a CPU, whatever else a watch costs. Chosen.
const ALWAYS_PER_S: f64 = 500.0;
/// Measurements until calls are tried again, at first and at most.
const RETRY: (u32, u32) = (50, 600);

/// How much of each stream is recorded.
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
}

impl Levels {
    /// Everything.
    pub const ALL: Levels =
        Levels { call_times: true, calls: true, waits_one_in: 1, requests_one_in: 1 };
}

/// What can be thinned by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CostStream {
    CallTimes,
    Calls,
    Waits,
    Requests,
    /// What always runs: exact counts, dirtied pages.
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

/// What a program did in an interval.
#[derive(Clone, Copy, Debug)]
pub struct ProgramRuns {
    /// Its name.
    pub program: &'static str,
    /// How often it ran.
    pub runs: u64,
    /// What a run took by its own clock, nanoseconds; `None` if none was ever timed.
    pub ns_each: Option<f64>,
}

impl ProgramRuns {
    /// What it cost, nanoseconds.
    pub fn cost_ns(&self) -> f64 {
        let is_call = matches!(self.program, "on_call" | "on_call_begins");
        let entry = if is_call { CALL_ENTRY_NS } else { ENTRY_NS };
        self.runs as f64 * (self.ns_each.map_or(UNKNOWN_NS, |each| each.min(MOST_NS)) + entry)
    }
}

/// What was measured in an interval.
#[derive(Clone, Debug, Default)]
pub struct Load {
    /// Its length, nanoseconds.
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

/// CostShares of the machine's CPUs, by stream.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct CostShares {
    call_times: f64,
    calls: f64,
    waits: f64,
    requests: f64,
    fixed: f64,
}

impl Load {
    /// Whether there are so few requests that each is recorded, while one in `one_in` is.
    fn is_rare(&self, one_in: u32) -> bool {
        let seconds = (self.length_ns as f64 / 1e9).max(1e-9);
        self.recorded as f64 * f64::from(one_in) / seconds < ALWAYS_PER_S
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

    /// What can be thinned.
    fn thinnable(&self) -> f64 {
        self.call_times + self.calls + self.waits + self.requests
    }

    /// What is compared with the budget.
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
    latest: f64,
    unheld: u32,
    measurements: u32,
    keeps_calls: bool,
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
            latest: 0.0,
            unheld: 0,
            measurements: 0,
            keeps_calls: false,
        }
    }

    /// Whether file calls are counted whatever they cost: a watch that was asked for each open must
    /// not leave some out.
    pub fn keep_calls(self, keeps_calls: bool) -> Controller {
        Controller { keeps_calls, ..self }
    }

    /// What is recorded now.
    pub fn levels(&self) -> Levels {
        self.levels
    }

    /// The mean cost so far, as a share of the machine's CPUs.
    pub fn cost_share(&self) -> f64 {
        if self.measured_ns > 0.0 { self.total_ns / self.measured_ns } else { 0.0 }
    }

    /// What the last measurement left of the budget for stacks that are copied, as a share of the
    /// machine's CPUs; 0 until there is one, and negative beyond the budget.
    pub fn free_share(&self) -> f64 {
        if self.measurements == 0 {
            return 0.0;
        }
        // What was thinned comes back only while there is room.
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
        let counted = shares.counted(self.budget);
        self.over = if counted > self.budget { self.over + 1 } else { 0 };
        self.under = if counted < self.budget * ROOM { self.under + 1 } else { 0 };
        if self.over >= OVER {
            self.over = 0;
            self.thin(shares, load);
        } else if self.under >= UNDER {
            self.under = 0;
            self.restore(shares);
        }
        // Half of them, so that a rate at the limit does not change the level again and again.
        if load.is_rare(self.levels.requests_one_in.saturating_mul(2)) {
            self.levels.requests_one_in = 1;
        }
        self.unheld += u32::from(total > self.budget && self.levels == before);
        (self.levels != before).then_some(self.levels)
    }

    fn thin(&mut self, shares: CostShares, load: &Load) {
        let mut expected = shares.counted(self.budget);
        let worth = self.budget * WORTH;
        if self.levels.calls && shares.calls + shares.call_times > worth {
            if self.levels.call_times && shares.call_times > worth {
                self.levels.call_times = false;
                self.calls_cost = shares.call_times;
                expected -= shares.call_times;
            }
            if expected > self.budget && shares.calls > worth && !self.keeps_calls {
                self.levels.calls = false;
                self.levels.call_times = false;
                self.calls_cost = shares.calls + shares.call_times;
                expected -= shares.calls;
            }
            self.hold_off_calls();
        }
        if expected > self.budget && shares.waits > worth && self.levels.waits_one_in < FEWEST_WAITS
        {
            self.levels.waits_one_in *= 4;
            expected -= shares.waits * 0.4;
        }
        let most = FEWEST_REQUESTS;
        let may_thin =
            self.levels.requests_one_in < most && !load.is_rare(self.levels.requests_one_in);
        if expected > self.budget && shares.requests > worth && may_thin {
            let left = (self.budget - (expected - shares.requests)).max(self.budget * 0.1);
            let factor = (shares.requests / left).clamp(2.0, 8.0) as u32;
            let one_in = self.levels.requests_one_in * factor.next_power_of_two();
            self.levels.requests_one_in = one_in.min(most);
        }
    }

    /// Calls come back later each time that they did not stay.
    fn hold_off_calls(&mut self) {
        let failed = self.since_retry.take().is_some_and(|since| since < UNDER);
        self.retry_next =
            if failed { self.retry_next.saturating_mul(2).min(RETRY.1) } else { RETRY.0 };
        self.retry_in = self.retry_next;
    }

    fn restore(&mut self, shares: CostShares) {
        let room = self.budget * ROOM - shares.counted(self.budget);
        if self.levels.requests_one_in > 1 {
            if shares.requests * 0.8 < room {
                self.levels.requests_one_in /= 2;
            }
        } else if self.levels.waits_one_in > 1 {
            if shares.waits < room {
                self.levels.waits_one_in /= 4;
            }
        } else if !self.levels.call_times && self.retry_in == 0 {
            // What calls would cost now is not known while they are not counted.
            self.levels.calls = true;
            self.levels.call_times = self.calls_cost < room;
            self.calls_cost = 0.0;
            self.since_retry = Some(0);
            self.retry_in = self.retry_next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TENTH_NS: u64 = 100_000_000;

    /// Loads of a machine with two CPUs; all per second.
    #[derive(Clone, Copy, Default)]
    struct Machine {
        requests: f64,
        switches: f64,
        calls: f64,
    }

    impl Machine {
        /// A tenth of a second, with what the levels leave of it.
        fn load(self, levels: Levels) -> Load {
            let recorded = 1.0 / f64::from(levels.requests_one_in);
            let waits = 1.0 / f64::from(levels.waits_one_in);
            let run = |program, per_s: f64, ns| ProgramRuns {
                program,
                runs: (per_s / 10.0) as u64,
                ns_each: Some(ns),
            };
            let mut programs = vec![
                run("count_completion", self.requests, 60.0),
                run("on_queue", self.requests, 40.0 + 300.0 * recorded),
                run("on_issue", self.requests, 20.0 + 130.0 * recorded),
                run("on_complete", self.requests, 30.0 + 290.0 * recorded),
                run("on_switch", self.switches, 20.0 + 140.0 * waits),
            ];
            if levels.calls {
                programs.push(run("on_call", self.calls, 80.0));
            }
            if levels.call_times {
                programs.push(run("on_call_begins", self.calls, 70.0));
            }
            let recorded = (self.requests / 10.0 * recorded) as u64;
            let process_ns = recorded * 370;
            Load { length_ns: TENTH_NS, cpus: 2, programs, process_ns, recorded }
        }

        /// The levels and the cost after so many measurements.
        fn run(self, controller: &mut Controller, measurements: u32) -> (Levels, f64) {
            for _ in 0..measurements {
                controller.step(&self.load(controller.levels()));
            }
            let levels = controller.levels();
            (levels, CostShares::from_load(&self.load(levels)).total())
        }
    }

    #[test]
    fn what_is_left_for_copies_shrinks_with_the_load() {
        let mut controller = Controller::new(3.0);
        assert!(controller.free_share() <= 0.0, "nothing was measured");
        Machine::default().run(&mut controller, 1);
        let idle = controller.free_share();
        assert!((idle - 0.03 * ROOM).abs() < 1e-9, "{idle}");
        Machine { requests: 2000.0, switches: 5000.0, calls: 20_000.0 }.run(&mut controller, 1);
        assert!(controller.free_share() < idle);
        Machine { requests: 100_000.0, switches: 5e6, calls: 1e6 }.run(&mut controller, 600);
        assert!(controller.free_share() <= 0.0);
    }

    #[test]
    fn a_slow_disk_loses_nothing() {
        let machine = Machine { requests: 2000.0, switches: 5000.0, calls: 20_000.0 };
        assert_eq!(machine.run(&mut Controller::new(3.0), 600).0, Levels::ALL);
    }

    #[test]
    fn few_requests_are_recorded_whatever_else_costs() {
        let machine = Machine { requests: 190.0, switches: 80_000.0, calls: 500_000.0 };
        let (levels, cost) = machine.run(&mut Controller::new(0.05), 600);
        assert_eq!(levels.requests_one_in, 1);
        assert!(cost > 0.0005, "{cost}: the budget is not exceeded, so nothing is tested");
        let busy = Machine { requests: 5000.0, ..machine };
        let mut controller = Controller::new(0.05);
        assert!(busy.run(&mut controller, 60).0.requests_one_in > 1);
        assert_eq!(machine.run(&mut controller, 60).0.requests_one_in, 1, "they come back");
    }

    #[test]
    fn system_calls_go_first_and_alone_where_that_is_enough() {
        let machine = Machine { requests: 2000.0, switches: 5000.0, calls: 1_000_000.0 };
        let (levels, cost) = machine.run(&mut Controller::new(3.0), 20);
        assert_eq!(levels, Levels { call_times: false, calls: false, ..Levels::ALL });
        assert!(cost < 0.03, "{cost}");
    }

    #[test]
    fn calls_that_were_asked_for_stay_and_the_rest_is_thinned() {
        let machine = Machine { requests: 200_000.0, switches: 5000.0, calls: 1_000_000.0 };
        let mut controller = Controller::new(3.0).keep_calls(true);
        let mut kept = true;
        for _ in 0..600 {
            kept &= machine.run(&mut controller, 1).0.calls;
        }
        assert!(kept);
        assert!(!controller.levels().call_times && controller.levels().requests_one_in > 1);
        assert!(controller.unheld_share().is_some(), "the budget is exceeded, and it is said");
    }

    #[test]
    fn only_the_times_of_calls_go_where_that_is_enough() {
        let machine = Machine { calls: 350_000.0, ..Machine::default() };
        let (levels, _) = machine.run(&mut Controller::new(3.0), 20);
        assert_eq!(levels, Levels { call_times: false, ..Levels::ALL });
    }

    #[test]
    fn a_fast_disk_is_thinned_until_the_budget_holds() {
        let machine = Machine { requests: 120_000.0, switches: 60_000.0, calls: 130_000.0 };
        let mut controller = Controller::new(3.0);
        let (levels, cost) = machine.run(&mut controller, 60);
        assert!(levels.requests_one_in > 1 && !levels.calls, "{levels:?}");
        assert!(cost <= 0.03, "{cost}");
        assert_eq!(controller.unheld_share(), None);
    }

    #[test]
    fn a_budget_that_cannot_be_held_says_what_is_spent() {
        let machine = Machine { requests: 900_000.0, ..Machine::default() };
        let mut controller = Controller::new(0.1);
        let (levels, cost) = machine.run(&mut controller, 300);
        assert_eq!(levels.requests_one_in, FEWEST_REQUESTS);
        let unheld = controller.unheld_share().expect("it was not held");
        assert!((unheld - cost).abs() < 1e-9 && unheld > 0.001, "{unheld} {cost}");
    }

    #[test]
    fn everything_comes_back_when_the_load_falls() {
        let mut controller = Controller::new(3.0);
        Machine { requests: 200_000.0, switches: 80_000.0, calls: 200_000.0 }
            .run(&mut controller, 100);
        assert_ne!(controller.levels(), Levels::ALL);
        let quiet = Machine { requests: 100.0, switches: 300.0, calls: 1000.0 };
        assert_eq!(quiet.run(&mut controller, 600).0, Levels::ALL);
    }

    #[test]
    fn calls_that_stay_too_dear_are_tried_less_and_less_often() {
        let machine = Machine { calls: 2_000_000.0, ..Machine::default() };
        let mut controller = Controller::new(3.0);
        let mut tries = Vec::new();
        for measurement in 0..6000 {
            let was = controller.levels().calls;
            controller.step(&machine.load(controller.levels()));
            if controller.levels().calls && !was {
                tries.push(measurement);
            }
        }
        // Ten minutes: after 5 s, 10 s, 20 s …, then once a minute.
        assert!((5..=16).contains(&tries.len()), "{tries:?}");
        // Each try lasts three tenths of a second.
        assert!(controller.cost_share() < 0.03, "{}", controller.cost_share());
    }

    #[test]
    fn a_busy_process_is_no_reason_to_record_less_of_a_slow_disk() {
        let machine = Machine { requests: 1000.0, switches: 2000.0, calls: 5000.0 };
        let mut controller = Controller::new(3.0);
        for _ in 0..50 {
            let load = machine.load(controller.levels());
            controller.step(&Load { process_ns: TENTH_NS / 2, ..load });
        }
        assert_eq!(controller.levels(), Levels::ALL);
        assert!(controller.unheld_share().is_some_and(|share| share > 0.2));
    }

    #[test]
    fn a_busy_process_does_not_keep_away_what_was_thinned() {
        let mut controller = Controller::new(3.0);
        Machine { requests: 200_000.0, switches: 80_000.0, calls: 200_000.0 }
            .run(&mut controller, 100);
        let quiet = Machine { requests: 100.0, switches: 300.0, calls: 1000.0 };
        for _ in 0..600 {
            let load = quiet.load(controller.levels());
            controller.step(&Load { process_ns: TENTH_NS / 2, ..load });
        }
        assert_eq!(controller.levels(), Levels::ALL);
    }

    #[test]
    fn other_devices_are_no_reason_to_record_less_of_the_watched_one() {
        let mut controller = Controller::new(3.0);
        let machine = Machine { requests: 18_000.0, switches: 20_000.0, calls: 5000.0 };
        for _ in 0..100 {
            let load = machine.load(controller.levels());
            controller.step(&Load { process_ns: TENTH_NS / 25, recorded: 50, ..load });
        }
        assert_eq!(controller.levels(), Levels::ALL);
    }

    #[test]
    fn a_run_that_the_hypervisor_interrupted_is_no_cost() {
        let mut controller = Controller::new(3.0);
        for _ in 0..100 {
            let runs = 8;
            let programs = ["on_queue", "on_issue", "on_complete", "on_switch"]
                .map(|program| ProgramRuns { program, runs, ns_each: Some(2e6) });
            let programs = programs.to_vec();
            controller.step(&Load { length_ns: TENTH_NS, cpus: 2, programs, ..Load::default() });
        }
        assert_eq!(controller.levels(), Levels::ALL);
    }

    #[test]
    fn a_burst_shorter_than_three_measurements_changes_nothing() {
        let mut controller = Controller::new(3.0);
        let burst = Machine { requests: 500_000.0, ..Machine::default() };
        for _ in 0..50 {
            burst.run(&mut controller, OVER - 1);
            Machine::default().run(&mut controller, 1);
        }
        assert_eq!(controller.levels(), Levels::ALL);
    }

    #[test]
    fn extreme_budgets_and_empty_measurements_are_harmless() {
        for percent in [0.0, 100.0, f64::NAN, -5.0, 1e300] {
            let mut controller = Controller::new(percent);
            controller.step(&Load::default());
            Machine { requests: 50_000.0, ..Machine::default() }.run(&mut controller, 50);
            let levels = controller.levels();
            assert!(levels.requests_one_in <= FEWEST_REQUESTS && levels.waits_one_in <= 16);
        }
        let machine = Machine { requests: 300_000.0, switches: 90_000.0, calls: 90_000.0 };
        assert_eq!(machine.run(&mut Controller::new(100.0), 100).0, Levels::ALL);
    }
}
