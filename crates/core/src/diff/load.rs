//! What was asked of two devices, and whether it is alike enough that their times can be compared.
//!
//! A slower device is asked less by programs that wait for it, so a lower rate is no other load. Only
//! where rate and requests in flight differ in the same direction was one asked more.

use super::{LEAST_REQUESTS, Pair};
use crate::analysis::Direction;
use crate::analysis::summary::{DeviceSummary, DirectionSummary};
use crate::diagnosis::words;
use serde::Serialize;
use std::collections::BTreeMap;

/// A figure that differs by more than this factor is worth a word. Chosen: two equal runs of a busy load
/// differ by a tenth and more.
const NOTED: f64 = 1.25;
/// By more than this factor it is another load. Chosen.
const OTHER: f64 = 2.0;
/// The same of shares, in points.
const NOTED_SHARE: f64 = 0.20;
const OTHER_SHARE: f64 = 0.50;
/// Mixes of reads and writes are another load from this many points on.
const OTHER_MIX: f64 = 0.30;
/// A direction with less of the requests than this decides nothing.
const MINOR: f64 = 0.10;
/// From here on a device always has something to do.
const SATURATED: f64 = 0.95;
/// Programs listed.
const PROGRAMS: usize = 5;

/// How alike two loads are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Alike {
    /// Nothing that matters differs.
    Same,
    /// Something differs, and times can still be compared.
    Similar,
    /// Times say nothing.
    Different,
}

/// What was asked of one pair of devices.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PairLoad {
    /// The devices.
    pub devices: [String; 2],
    /// How alike the loads are.
    pub alike: Alike,
    /// What makes them differ, a few words each.
    pub reasons: Vec<String>,
    /// The figures.
    pub rows: Vec<LoadRow>,
    /// Who asked.
    pub programs: Vec<ProgramLoad>,
}

/// A figure of a load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LoadRow {
    /// What it is.
    pub what: String,
    /// Its unit: `1/s`, `bytes/s`, `bytes`, `%` or `requests`.
    pub unit: &'static str,
    /// The figures; `None` where there is none.
    pub figures: [Option<f64>; 2],
    /// Whether it differs by more than equal watches do.
    pub differs: bool,
}

/// The processes of one name.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProgramLoad {
    /// Their name.
    pub process: String,
    /// Their share of the device's time, of those that have most of it.
    pub time_shares: [f64; 2],
}

/// What was asked of one pair. Where threads of a side are `held_back` before they can ask, how much was
/// asked of the device says nothing about how much its programs want.
pub(super) fn of(pair: &Pair<'_>, held_back: bool) -> PairLoad {
    let programs = programs(pair);
    let mut judged = Judged { alike: Alike::Same, reasons: Vec::new() };
    judge_mix(pair, &mut judged);
    for direction in [Direction::Read, Direction::Write] {
        judge_direction(pair, direction, &mut judged);
    }
    if !held_back {
        judge_demand(pair, &mut judged);
    }
    judge_programs(&programs, &mut judged);
    PairLoad {
        devices: pair.names(),
        alike: judged.alike,
        reasons: judged.reasons,
        rows: rows(pair),
        programs,
    }
}

struct Judged {
    alike: Alike,
    reasons: Vec<String>,
}

impl Judged {
    fn note(&mut self, alike: Alike, reason: String) {
        if alike > Alike::Same {
            self.alike = self.alike.max(alike);
            self.reasons.push(reason);
        }
    }
}

fn requests(device: &DeviceSummary) -> u64 {
    device.directions.0.iter().map(|it| it.requests).sum()
}

fn share(device: &DeviceSummary, direction: Direction) -> f64 {
    device.directions[direction].requests as f64 / requests(device).max(1) as f64
}

fn graded(distance: f64, noted: f64, other: f64) -> Alike {
    match distance {
        d if d > other => Alike::Different,
        d if d > noted => Alike::Similar,
        _ => Alike::Same,
    }
}

/// The larger by the smaller; 1 where one is not known.
fn factor(figures: [f64; 2]) -> f64 {
    let [a, b] = figures;
    if a <= 0.0 || b <= 0.0 { 1.0 } else { (a / b).max(b / a) }
}

fn judge_mix(pair: &Pair<'_>, judged: &mut Judged) {
    let reads = pair.devices.map(|device| share(device, Direction::Read));
    let alike = graded((reads[0] - reads[1]).abs(), NOTED_SHARE, OTHER_MIX);
    let [a, b] = reads.map(words::percent);
    judged.note(alike, format!("{a} against {b} of the requests are reads"));
}

fn judge_direction(pair: &Pair<'_>, direction: Direction, judged: &mut Judged) {
    let both: [&DirectionSummary; 2] = pair.devices.map(|device| &device.directions[direction]);
    let is_minor = |device: &DeviceSummary| share(device, direction) < MINOR;
    if pair.devices.iter().any(|it| is_minor(it)) {
        return;
    }
    let name = direction.word();
    let sizes = both.map(|it| it.average_bytes.unwrap_or(0.0));
    let [a, b] = sizes.map(words::bytes);
    judged.note(graded(factor(sizes), NOTED, OTHER), format!("{name}s of {a} against {b}"));
    let [a, b] = both.map(|it| it.sequential_share.unwrap_or(0.0));
    let alike = graded((a - b).abs(), NOTED_SHARE, OTHER_SHARE);
    let [a, b] = [a, b].map(words::percent);
    judged.note(alike, format!("{a} against {b} of the {name}s go on where one ended"));
}

/// How much is asked: rate and depth in the same direction, or a deeper queue before a device that has
/// no more to give.
fn judge_demand(pair: &Pair<'_>, judged: &mut Judged) {
    let rate = |it: &DeviceSummary| it.directions.0.iter().map(|of| of.requests_per_s).sum::<f64>();
    let rates = pair.devices.map(rate);
    let depths = pair.devices.map(|device| device.in_flight_mean);
    let same_way = (rates[0] < rates[1]) == (depths[0] < depths[1]);
    let [a, b] = rates.map(words::number);
    let [few, many] = depths.map(words::number);
    if same_way {
        let least = factor(rates).min(factor(depths));
        let reason = format!(
            "{a} requests a second with {few} in flight against {b} with {many}: more is asked of one"
        );
        judged.note(graded(least, NOTED, OTHER), reason);
    }
    let full = pair.devices.iter().all(|it| it.util_share.is_some_and(|share| share >= SATURATED));
    if full && factor(depths) > NOTED && factor(rates) <= NOTED {
        let reason = format!(
            "{few} against {many} in flight at the same rate: before a device that gives no more, \
             each waits longer the more there are"
        );
        judged.note(Alike::Similar, reason);
    }
}

fn judge_programs(programs: &[ProgramLoad], judged: &mut Judged) {
    let most = |at: usize| {
        let largest =
            |a: &&ProgramLoad, b: &&ProgramLoad| a.time_shares[at].total_cmp(&b.time_shares[at]);
        programs.iter().filter(|it| it.time_shares[at] > 0.0).max_by(largest)
    };
    let (Some(a), Some(b)) = (most(0), most(1)) else { return };
    if a.time_shares[1] <= 0.0 && b.time_shares[0] <= 0.0 {
        judged.note(Alike::Similar, format!("{} asks against {}", a.process, b.process));
    }
}

/// The programs that take most of the devices' time.
fn programs(pair: &Pair<'_>) -> Vec<ProgramLoad> {
    let mut found: BTreeMap<&str, [f64; 2]> = BTreeMap::new();
    for (at, device) in pair.devices.iter().enumerate() {
        let whole: u64 = device.processes.iter().map(|row| row.usage.all_time_ns()).sum();
        for row in &device.processes {
            let share = row.usage.all_time_ns() as f64 / whole.max(1) as f64;
            found.entry(&row.subject.process).or_default()[at] += share;
        }
    }
    let mut rows: Vec<ProgramLoad> = found
        .into_iter()
        .map(|(process, time_shares)| ProgramLoad { process: process.to_owned(), time_shares })
        .collect();
    let weight = |row: &ProgramLoad| row.time_shares[0].max(row.time_shares[1]);
    rows.sort_by(|a, b| weight(b).total_cmp(&weight(a)));
    rows.truncate(PROGRAMS);
    rows
}

fn rows(pair: &Pair<'_>) -> Vec<LoadRow> {
    let mut rows = Vec::new();
    for direction in Direction::ALL {
        let both: [&DirectionSummary; 2] = pair.devices.map(|device| &device.directions[direction]);
        if both.iter().all(|it| it.requests == 0) {
            continue;
        }
        let name = direction.word();
        let rates = both.map(|it| Some(it.requests_per_s));
        rows.push(row(format!("{name} requests"), "1/s", rates));
        if both.iter().any(|it| it.bytes > 0) {
            rows.push(row(format!("{name} bytes"), "bytes/s", both.map(|it| Some(it.bytes_per_s))));
            rows.push(row(format!("{name} size"), "bytes", both.map(|it| it.average_bytes)));
        }
        if direction.has_sectors() {
            let percent = both.map(|it| it.sequential_share.map(|share| share * 100.0));
            rows.push(row(format!("{name} sequential"), "%", percent));
        }
    }
    let depth = pair.devices.map(|it| Some(it.in_flight_mean));
    rows.push(row("in flight".to_owned(), "requests", depth));
    let busy = pair.devices.map(|it| it.util_share.map(|share| share * 100.0));
    rows.push(row("busy".to_owned(), "%", busy));
    rows
}

fn row(what: String, unit: &'static str, figures: [Option<f64>; 2]) -> LoadRow {
    let known = figures.map(|figure| figure.unwrap_or(0.0));
    let differs = match unit {
        "%" => (known[0] - known[1]).abs() > NOTED_SHARE * 100.0,
        _ => factor(known) > NOTED || (known[0] > 0.0) != (known[1] > 0.0),
    };
    LoadRow { what, unit, figures, differs }
}

/// Whether both devices have enough requests of a direction.
pub(super) fn is_enough(pair: &Pair<'_>, direction: Direction) -> bool {
    pair.devices.iter().all(|it| it.directions[direction].requests >= LEAST_REQUESTS)
}
