//! Tests of [`super`].

use super::*;
use crate::pass::Summarizer;
use crate::script::ScriptSummary;
use crate::summary::Summary;
use iowhy_model::script::{START_NS, Script};
use iowhy_model::{Sample, Scope};
use std::convert::Infallible;

const S: u64 = 1_000_000_000;

fn script() -> Script {
    let mut script = Script::new(4);
    for index in 0..40_u64 {
        let at = (index * S / 10) as i64;
        script.read("sda", 4096).by(7, "cat").at(at).direct(100, 200, 150_000_000).add();
    }
    script.read("sda", 512).at(3 * S as i64).status(Status::InFlight).add();
    script
}

/// The requests of each interval, with rows given `size` at a time and closed as they come.
fn counts(every_ns: u64, size: usize, count: Option<u64>, end_known: bool) -> Vec<(u64, u64)> {
    let script = script();
    let mut environment = script.environment.clone();
    if !end_known {
        environment.end_ns = 0;
    }
    let wanted = WantedIntervals { every_ns: Some(every_ns), count };
    let mut cutter = Cutter::new(Summarizer::new(&environment), wanted, &environment);
    let mut counts = Vec::new();
    let mut each = |interval: EndedInterval<Summary>| {
        counts.push((interval.figures.watch.requests, interval.figures.watch.duration_ns));
        Ok::<(), Infallible>(())
    };
    for batch in script.source(size).batches {
        cutter.add(&batch, &environment, &script.names);
        let until_ns = cutter.latest_ns().saturating_sub(S / 2);
        cutter.close_until(until_ns, &environment, &script.names, &mut each).unwrap();
    }
    assert_eq!(cutter.late(), 0);
    cutter.finish(&script.environment, &script.names, &mut each).unwrap();
    counts
}

#[test]
fn each_row_counts_where_it_ended() {
    for size in [1, 7, 100] {
        // The first of each second ends in it, but for the two that end in the next.
        assert_eq!(counts(S, size, None, true), [(9, S), (10, S), (10, S), (12, S)]);
        // Live, where the end is not known: what ends after the watch has an interval of its
        // own.
        let live = counts(S, size, None, false);
        assert_eq!(live.iter().map(|interval| interval.0).sum::<u64>(), 41);
    }
}

#[test]
fn an_interval_of_a_sampled_watch_has_its_own_exact_counts() {
    use iowhy_model::Metric;
    use iowhy_model::environment::{ExactCount, Thinning};
    let mut script = script();
    let number = {
        let device = script.device("sda", &[]);
        device.stat_start = vec![0; 17];
        (device.major, device.minor)
    };
    for (second, reads) in [0.0, 100.0, 250.0, 300.0, 400.0].into_iter().enumerate() {
        script.sample(second as u64 * S, Metric::Reads, "sda", reads);
        script.sample(second as u64 * S, Metric::QueueTime, "sda", 0.0);
    }
    for request in &mut script.batch.requests {
        (request.major, request.minor, request.weight) = (number.0, number.1, Some(8));
    }
    let level = Thinning { requests_one_in: 8, ..Thinning::default() };
    script.environment.thinning = vec![level];
    let (major, minor) = number;
    let operation = "read".to_owned();
    let whole = ExactCount { major, minor, operation, requests: 400, ..ExactCount::default() };
    script.environment.exact_counts = vec![whole];
    // One is in flight, and stands for eight.
    assert_eq!(script.summary().watch.requests, 408);
    let wanted = WantedIntervals { every_ns: Some(S), count: None };
    let environment = &script.environment;
    let mut cutter = Cutter::new(Summarizer::new(environment), wanted, environment);
    cutter.add(&script.batch, environment, &script.names);
    let mut counts = Vec::new();
    let mut each = |interval: EndedInterval<Summary>| {
        counts.push(interval.figures.watch.requests);
        Ok::<(), Infallible>(())
    };
    cutter.close_until(START_NS + 3 * S, environment, &script.names, &mut each).unwrap();
    assert_eq!(counts, [100, 150, 50]);
}

#[test]
fn a_number_of_intervals_is_enough() {
    assert_eq!(counts(S, 3, Some(2), true), [(9, S), (10, S)]);
    let summary = script().summary();
    assert_eq!(counts(u64::MAX, 3, None, true), [(41, summary.watch.duration_ns)]);
}

#[test]
fn what_is_left_over_joins_the_last() {
    assert_eq!(last_of(10 * S, S), 10 - 1);
    assert_eq!(last_of(10 * S + S / 20, S), 9);
    assert_eq!(last_of(10 * S + S / 2, S), 10);
    assert_eq!(last_of(S / 100, S), 0);
    assert_eq!(counts(3 * S / 2, 5, None, true).len(), 3);
}

/// Requests spread over `length_ns`, in intervals of `every_ns`: the numbers of the intervals
/// that were passed on, and how many were left out.
fn spread(length_ns: u64, requests: u64, every_ns: u64) -> (Vec<u64>, u64) {
    let mut script = Script::new(1);
    for index in 0..requests {
        let at = (length_ns / requests * index) as i64;
        script.read("sda", 512).at(at).direct(0, 0, 1000).add();
    }
    let environment = Environment { end_ns: 0, ..script.environment.clone() };
    let wanted = WantedIntervals { every_ns: Some(every_ns), count: None };
    let cutter = Cutter::new(Summarizer::new(&environment), wanted, &environment);
    let mut cutter = cutter.leaving_out_empty();
    let mut numbers = Vec::new();
    let mut each = |interval: EndedInterval<Summary>| {
        assert!(interval.figures.watch.requests > 0, "{}", interval.number);
        numbers.push(interval.number);
        Ok::<(), Infallible>(())
    };
    for batch in script.source(1_000).batches {
        cutter.add(&batch, &environment, &script.names);
        if cutter.is_crowded() {
            cutter.close_until(0, &environment, &script.names, &mut each).unwrap();
        }
    }
    let left_out = cutter.finish(&environment, &script.names, &mut each).unwrap();
    (numbers, left_out)
}

#[test]
fn one_time_that_cannot_be_prints_no_intervals_without_end() {
    let century_ns = 100 * 365 * 86_400 * S;
    let (numbers, left_out) = spread(century_ns, 3, S);
    assert_eq!(numbers.len(), 3);
    assert_eq!(left_out, numbers[2] - 2);
    // A run of a hundred is shown.
    let (numbers, left_out) = spread(3_000 * S, 3, 1_000 * S);
    assert_eq!((numbers.len(), left_out), (3, 0));
}

#[test]
fn intervals_without_number_have_a_bound() {
    let (numbers, left_out) = spread(500 * S, 500, S / 1_000);
    assert_eq!((numbers.len(), left_out), (500, 499 * 999));
}

#[test]
fn quiet_intervals_are_intervals_too() {
    let mut script = Script::new(3);
    script.read("sda", 512).at(2 * S as i64).direct(0, 0, 1000).add();
    let environment = &script.environment;
    let wanted = WantedIntervals { every_ns: Some(S), count: None };
    let mut cutter = Cutter::new(Summarizer::new(environment), wanted, environment);
    let mut numbers = Vec::new();
    cutter.add(&script.batch, environment, &script.names);
    let mut each = |ended_interval: EndedInterval<Summary>| {
        numbers.push((
            ended_interval.number,
            ended_interval.environment.start_ns - START_NS,
            ended_interval.figures.devices.len(),
        ));
        Ok::<(), Infallible>(())
    };
    cutter.finish(environment, &script.names, &mut each).unwrap();
    assert_eq!(numbers, [(0, 0, 0), (1, S, 0), (2, 2 * S, 1)]);
}

/// Returns the number of intervals of a source of one batch, if empty ones are left out.
fn passed_on(batch: &Batch, environment: &Environment, names: &Names) -> usize {
    let wanted = WantedIntervals { every_ns: Some(S), count: None };
    let cutter = Cutter::new(Summarizer::new(environment), wanted, environment);
    let mut cutter = cutter.leaving_out_empty();
    let mut count = 0;
    let mut each = |_: EndedInterval<Summary>| {
        count += 1;
        Ok::<(), Infallible>(())
    };
    cutter.add(batch, environment, names);
    cutter.close_until(cutter.latest_ns(), environment, names, &mut each).unwrap();
    cutter.finish(environment, names, &mut each).unwrap();
    count
}

/// Returns the number of intervals of a source that ends when it begins, at `start_ns`, and was
/// read so long after that.
fn intervals_of_samples(start_ns: u64, after_ns: [u64; 2]) -> usize {
    let mut script = Script::new(1);
    let name = script.names.intern("pgfault");
    let (scope, value) = (Scope::System, 1.0);
    script.batch.samples = after_ns
        .map(|after_ns| start_ns + after_ns)
        .map(|time_ns| Sample { time_ns, scope, subject: name, metric: name, value })
        .to_vec();
    let environment = Environment { start_ns, end_ns: start_ns, ..script.environment.clone() };
    passed_on(&script.batch, &environment, &script.names)
}

#[test]
fn samples_of_another_time_print_no_intervals_without_end() {
    assert!(intervals_of_samples(START_NS, [1, 1 << 50]) <= 3);
    // Where the beginning is not known, either.
    assert!(intervals_of_samples(0, [2, 1 << 60]) <= 3);
}
