//! Doubts about a comparison, and data that one of the watches lacks.

use super::{ComparedTimes, DevicePair, LEAST_REQUESTS, SideName};
use crate::words;
use iowhy_analysis::summary::{Direction, Interval, Summary};
use iowhy_model::figures::plural;

/// Maximum number of changed settings that are listed.
const MOST_CHANGES: usize = 4;

/// The sentences.
pub(super) fn doubts(compared: &ComparedTimes<'_>) -> Vec<String> {
    let mut doubts = Vec::new();
    for which in [SideName::A, SideName::B] {
        let summary = compared.sides[which.index()].summary;
        doubts.extend(of_side(summary).into_iter().map(|text| format!("{}: {text}", which.word())));
    }
    doubts.extend(missing(compared));
    doubts.extend(too_few(compared));
    let filters = compared.sides.map(|side| side.summary.environment.filter.as_str());
    if filters[0] != filters[1] {
        let filters = filters.map(|filter| if filter.is_empty() { "everything" } else { filter });
        doubts.push(format!("A keeps {}, B {}", filters[0], filters[1]));
    }
    doubts
}

fn of_side(summary: &Summary) -> Vec<String> {
    let mut doubts = Vec::new();
    for loss in &summary.losses.items {
        doubts.push(loss.note());
    }
    if summary.environment.hides_others() {
        let filter = &summary.environment.filter;
        doubts.push(format!("no diagnosis: the recording was filtered by {filter}"));
    }
    if !summary.watch.finished {
        doubts.push("the watch was cut off".to_owned());
    }
    let changed = &summary.changed_settings;
    for change in changed.iter().take(MOST_CHANGES) {
        let of = change.device.as_deref().unwrap_or("the machine");
        doubts.push(format!(
            "{} of {of} changed during the watch, from {} to {}",
            change.setting, change.before, change.after
        ));
    }
    if let Some(more @ 1..) = changed.len().checked_sub(MOST_CHANGES) {
        doubts.push(format!("{} more of settings", plural(more as u64, "change")));
    }
    for device in summary.devices.iter().filter(|device| device.stalled_ns.is_some()) {
        let stalled = words::time(device.stalled_ns.unwrap_or(0) as f64);
        doubts.push(format!("{} completed nothing in the last {stalled}", device.device));
    }
    doubts
}

/// A stream's name, and whether a watch has it.
type Stream = (&'static str, fn(&Summary) -> bool);

/// Data that only one side has, so that it is not compared.
fn missing(compared: &ComparedTimes<'_>) -> Vec<String> {
    let queueing: fn(&Summary) -> bool = |summary| {
        let mut all = summary.devices.iter().flat_map(|device| &device.directions.0);
        all.any(|direction| direction.intervals[Interval::Q2c].is_some())
    };
    let streams: [Stream; 3] = [
        ("waits of threads", |summary| summary.ledger.is_some()),
        ("processes", |summary| !summary.processes.is_absent()),
        ("settings", |summary| !summary.environment.settings_start.is_empty()),
    ];
    let sides = compared.sides.map(|side| side.summary);
    let mut lacking: [(&str, Vec<&str>); 3] =
        [("neither", Vec::new()), ("A", Vec::new()), ("B", Vec::new())];
    let timed = sides.iter().all(|side| side.watch.requests > 0);
    let all = streams.into_iter().chain(timed.then_some(("times before the issue", queueing)));
    for (what, has) in all {
        match sides.map(has) {
            [true, true] => {}
            [false, false] => lacking[0].1.push(what),
            [false, true] => lacking[1].1.push(what),
            [true, false] => lacking[2].1.push(what),
        }
    }
    let missing = lacking.iter().filter(|(_, what)| !what.is_empty());
    missing
        .map(|(side, what)| {
            let (in_it, what) = (if *side == "neither" { "in" } else { "not in" }, what.join(", "));
            format!("{in_it} {side}, and not compared: {what}")
        })
        .collect()
}

/// Directions with too few requests on one side.
fn too_few(compared: &ComparedTimes<'_>) -> Vec<String> {
    let mut doubts = Vec::new();
    if compared.pairs.is_empty() {
        doubts.push("no device has requests in both".to_owned());
    }
    let alike = |pair: &DevicePair<'_>| pair.devices[0].device == pair.devices[1].device;
    if !compared.chosen && compared.pairs.iter().any(|pair| !alike(pair)) {
        doubts.push("no device is in both; the busiest of each are compared (-d A=B)".to_owned());
    }
    for pair in &compared.pairs {
        for direction in [Direction::Read, Direction::Write, Direction::Flush] {
            let counts = pair.devices.map(|device| device.directions[direction].requests);
            let few = counts.iter().any(|count| *count < LEAST_REQUESTS);
            if few && counts.iter().any(|count| *count >= LEAST_REQUESTS) {
                let [a, b] = counts.map(words::count);
                doubts.push(format!(
                    "{a} against {b} {} requests of {}: at least {LEAST_REQUESTS} of each are \
                     needed",
                    direction.word(),
                    both(&pair.names()),
                ));
            }
        }
    }
    doubts
}

/// `sda`, or `sda and sdb`.
pub(super) fn both(devices: &[String; 2]) -> String {
    match devices[0] == devices[1] {
        true => devices[0].clone(),
        false => format!("{} and {}", devices[0], devices[1]),
    }
}
