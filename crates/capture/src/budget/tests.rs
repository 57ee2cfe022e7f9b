//! Machines with known loads, and what a budget leaves of their records.

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
    /// A tenth of a second at these levels.
    fn load(self, levels: Levels) -> Load {
        let recorded = 1.0 / f64::from(levels.requests_one_in);
        let waits = 1.0 / f64::from(levels.waits_one_in);
        let skipped = |kept_ns, resting_ns| if levels.resting { resting_ns } else { kept_ns };
        let run = |program, per_s: f64, ns| ProgramRuns {
            program,
            runs: (per_s / 10.0) as u64,
            ns_each: Some(ns),
        };
        let mut programs = vec![
            run("on_queue", self.requests, skipped(40.0, 5.0) + 300.0 * recorded),
            run("on_issue", self.requests, skipped(30.0, 3.0) + 130.0 * recorded),
            run("on_complete", self.requests, skipped(90.0, 50.0) + 290.0 * recorded),
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

/// At 1 of 64 most measurements see no recorded window at all.
#[test]
fn a_time_without_a_recorded_window_is_no_rare_load() {
    let machine = Machine { requests: 100_000.0, switches: 50_000.0, calls: 0.0 };
    let mut controller = Controller::new(0.05);
    machine.run(&mut controller, 60);
    for measurement in 0..200 {
        let levels = controller.levels();
        assert_eq!(levels.requests_one_in, FEWEST_REQUESTS, "{measurement}");
        let seen = if measurement % 6 == 0 { 6 } else { 0 };
        let load = machine.load(levels);
        let (recorded, process_ns) = (load.recorded * seen, load.process_ns * seen);
        controller.step(&Load { recorded, process_ns, ..load });
    }
    // An idle disk is none of this: what comes then is recorded.
    let idle = Machine { switches: 1e3, ..Machine::default() };
    assert_eq!(idle.run(&mut controller, 20).0.requests_one_in, 1);
}

/// Ten seconds from the start on, the time until the first change included.
#[test]
fn the_budget_is_held_in_the_mean() {
    for (requests, switches, calls) in [(1e4, 2e4, 1e4), (1e5, 5e4, 1e5), (1e5, 2e5, 1e5)] {
        let mut controller = Controller::new(3.0);
        Machine { requests, switches, calls }.run(&mut controller, 100);
        let mean = controller.cost_share();
        assert!(mean <= 0.03, "{requests} requests per second: {mean}");
        assert_eq!(controller.unheld_share(), None);
    }
    // Only resting at the fewest requests holds it, which leaves nothing to make up for the first
    // tenths of such a load.
    let mut controller = Controller::new(3.0);
    Machine { requests: 3e5, switches: 1e5, calls: 3e5 }.run(&mut controller, 100);
    assert!(controller.levels().resting);
    assert!(controller.cost_share() <= 0.032, "{}", controller.cost_share());
    assert_eq!(controller.unheld_share(), None);
    // The fixed cost exceeds the budget of two CPUs: that is said, and little else is spent.
    for requests in [6e5, 1e6] {
        let machine = Machine { requests, switches: 1e5, calls: requests };
        let mut controller = Controller::new(3.0);
        machine.run(&mut controller, 100);
        let least = Levels {
            call_times: false,
            calls: false,
            waits_one_in: FEWEST_WAITS,
            requests_one_in: FEWEST_REQUESTS,
            resting: true,
        };
        assert_eq!(controller.levels(), least);
        let cost = |levels| CostShares::from_load(&machine.load(levels)).total();
        // Four of the hundred measurements see everything: until the first change.
        let (mean, most) = (controller.cost_share(), cost(least) + cost(Levels::ALL) * 0.04);
        assert!(cost(least) > 0.03 && mean <= most * 1.15, "{mean}, at most {most}");
        assert!(controller.unheld_share().is_some());
    }
}

/// A rate that no budget of two CPUs holds while words are kept of each request.
#[test]
fn programs_rest_within_a_second_and_no_longer_than_needed() {
    let slow = Machine { requests: 1e3, switches: 2e3, calls: 1e3 };
    let fast = Machine { requests: 3e5, switches: 1e5, calls: 3e5 };
    let mut controller = Controller::new(5.0);
    assert_eq!(slow.run(&mut controller, 100).0, Levels::ALL);
    let (levels, cost) = fast.run(&mut controller, 10);
    assert!(levels.resting && levels.requests_one_in >= RESTING_ONE_IN, "{levels:?}");
    assert!(cost <= 0.05, "{cost}");
    // Resting goes on: the cost that it saves is not taken for room to end it.
    for _ in 0..300 {
        assert!(fast.run(&mut controller, 1).0.resting);
    }
    assert_eq!(slow.run(&mut controller, 200).0, Levels::ALL);
    // If sampling is enough, words are kept of each request.
    let middling = Machine { requests: 5e4, switches: 2e4, calls: 5e4 };
    assert!(!middling.run(&mut controller, 300).0.resting);
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
    Machine { requests: 200_000.0, switches: 80_000.0, calls: 200_000.0 }.run(&mut controller, 100);
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
    Machine { requests: 200_000.0, switches: 80_000.0, calls: 200_000.0 }.run(&mut controller, 100);
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
        assert!(levels.requests_one_in <= FEWEST_REQUESTS && levels.waits_one_in <= FEWEST_WAITS);
    }
    let machine = Machine { requests: 300_000.0, switches: 90_000.0, calls: 90_000.0 };
    assert_eq!(machine.run(&mut Controller::new(100.0), 100).0, Levels::ALL);
}
