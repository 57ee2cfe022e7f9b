//! The loads of two devices, and whether they are similar enough to compare times.
//!
//! Programs that wait for a slower device submit less, so a lower rate alone is not a different
//! load. Only if rate and requests in flight differ in the same direction, the load does.

use super::{DevicePair, LEAST_REQUESTS};
use crate::words;
use iowhy_analysis::summary::{DeviceSummary, Direction, DirectionSummary};
use iowhy_model::compact_sort::CompactSort;
use serde::Serialize;
use std::collections::BTreeMap;

/// A figure that differs by more than this factor is mentioned. Chosen: two equal runs of a busy
/// load differ by a tenth and more.
const NOTED: f64 = 1.25;
/// Beyond this factor it is a different load. Chosen.
const OTHER: f64 = 2.0;
/// The two limits for shares, in percentage points.
const NOTED_SHARE: f64 = 0.20;
const OTHER_SHARE: f64 = 0.50;
/// Percentage points from which mixes of reads and writes are different loads.
const OTHER_MIX: f64 = 0.30;
/// A direction with a smaller share of the requests than this is ignored.
const MINOR: f64 = 0.10;
/// Requests in flight from which a device is always busy.
const SATURATED: f64 = 0.95;
/// Maximum number of listed programs.
const PROGRAMS: usize = 5;

/// The similarity of two loads.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LoadSimilarity {
    /// The loads have no relevant difference.
    Same,
    /// The loads differ, but times can be compared.
    Similar,
    /// Times cannot be compared.
    Different,
}

/// The loads of one pair of devices.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PairLoad {
    /// The devices.
    pub devices: [String; 2],
    /// The similarity of the loads.
    pub alike: LoadSimilarity,
    /// Reasons why they differ, a few words each.
    pub reasons: Vec<String>,
    /// The figures.
    pub rows: Vec<LoadRow>,
    /// The programs.
    pub programs: Vec<ProgramLoad>,
}

/// A figure of a load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LoadRow {
    /// The figure's name.
    pub what: String,
    /// The unit: `1/s`, `bytes/s`, `bytes`, `%` or `requests`.
    pub unit: &'static str,
    /// The values; `None` if there is none.
    pub figures: [Option<f64>; 2],
    /// Whether it differs by more than equal watches do.
    pub differs: bool,
}

/// The processes of one name.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProgramLoad {
    /// The processes' name.
    pub process: String,
    /// The processes' shares of the device's time, if they are among the largest.
    pub time_shares: [f64; 2],
}

/// Compares the loads of one pair. If threads of a side are `held_back` before they can submit, the
/// load of the device does not show how much its programs need.
pub(super) fn of(pair: &DevicePair<'_>, held_back: bool) -> PairLoad {
    let programs = programs(pair);
    let mut judged = JudgedLoad { alike: LoadSimilarity::Same, reasons: Vec::new() };
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

struct JudgedLoad {
    alike: LoadSimilarity,
    reasons: Vec<String>,
}

impl JudgedLoad {
    fn note(&mut self, alike: LoadSimilarity, reason: String) {
        if alike > LoadSimilarity::Same {
            self.alike = self.alike.max(alike);
            self.reasons.push(reason);
        }
    }
}

fn requests(device: &DeviceSummary) -> u64 {
    device.directions.0.iter().map(|direction| direction.requests).sum()
}

fn share(device: &DeviceSummary, direction: Direction) -> f64 {
    device.directions[direction].requests as f64 / requests(device).max(1) as f64
}

fn graded(distance: f64, noted: f64, other: f64) -> LoadSimilarity {
    match distance {
        d if d > other => LoadSimilarity::Different,
        d if d > noted => LoadSimilarity::Similar,
        _ => LoadSimilarity::Same,
    }
}

/// The larger divided by the smaller; 1 if one is not known.
fn factor(figures: [f64; 2]) -> f64 {
    let [a, b] = figures;
    if a <= 0.0 || b <= 0.0 { 1.0 } else { (a / b).max(b / a) }
}

fn judge_mix(pair: &DevicePair<'_>, judged: &mut JudgedLoad) {
    let reads = pair.devices.map(|device| share(device, Direction::Read));
    let alike = graded((reads[0] - reads[1]).abs(), NOTED_SHARE, OTHER_MIX);
    let [a, b] = reads.map(words::percent);
    judged.note(alike, format!("{a} against {b} of the requests are reads"));
}

fn judge_direction(pair: &DevicePair<'_>, direction: Direction, judged: &mut JudgedLoad) {
    let both: [&DirectionSummary; 2] = pair.devices.map(|device| &device.directions[direction]);
    let is_minor = |device: &DeviceSummary| share(device, direction) < MINOR;
    if pair.devices.iter().any(|device| is_minor(device)) {
        return;
    }
    let name = direction.word();
    let sizes = both.map(|side| side.average_bytes.unwrap_or(0.0));
    let [a, b] = sizes.map(words::bytes);
    judged.note(graded(factor(sizes), NOTED, OTHER), format!("{name}s of {a} against {b}"));
    let [a, b] = both.map(|side| side.sequential_share.unwrap_or(0.0));
    let alike = graded((a - b).abs(), NOTED_SHARE, OTHER_SHARE);
    let [a, b] = [a, b].map(words::percent);
    judged.note(alike, format!("{a} against {b} of the {name}s are sequential"));
}

/// The amount of load: rate and depth in the same direction, or a deeper queue at a saturated
/// device.
fn judge_demand(pair: &DevicePair<'_>, judged: &mut JudgedLoad) {
    let rate = |device: &DeviceSummary| {
        device.directions.0.iter().map(|of| of.requests_per_s).sum::<f64>()
    };
    let rates = pair.devices.map(rate);
    let depths = pair.devices.map(|device| device.in_flight_mean);
    let same_way = (rates[0] < rates[1]) == (depths[0] < depths[1]);
    let [a, b] = rates.map(words::number);
    let [few, many] = depths.map(words::number);
    if same_way {
        let least = factor(rates).min(factor(depths));
        let reason = format!(
            "{a} requests/s with {few} in flight against {b} with {many}: one has more load"
        );
        judged.note(graded(least, NOTED, OTHER), reason);
    }
    let full =
        pair.devices.iter().all(|device| device.util_share.is_some_and(|share| share >= SATURATED));
    if full && factor(depths) > NOTED && factor(rates) <= NOTED {
        let reason = format!(
            "{few} against {many} in flight at the same rate: at a saturated device, each waits \
             longer the more there are"
        );
        judged.note(LoadSimilarity::Similar, reason);
    }
}

fn judge_programs(programs: &[ProgramLoad], judged: &mut JudgedLoad) {
    let most = |at: usize| {
        let largest =
            |a: &&ProgramLoad, b: &&ProgramLoad| a.time_shares[at].total_cmp(&b.time_shares[at]);
        programs.iter().filter(|program| program.time_shares[at] > 0.0).max_by(largest)
    };
    let (Some(a), Some(b)) = (most(0), most(1)) else { return };
    if a.time_shares[1] <= 0.0 && b.time_shares[0] <= 0.0 {
        judged.note(
            LoadSimilarity::Similar,
            format!(
                "{} against {} \
            submits",
                a.process, b.process
            ),
        );
    }
}

/// The programs with the most device time.
fn programs(pair: &DevicePair<'_>) -> Vec<ProgramLoad> {
    let mut found: BTreeMap<&str, [f64; 2]> = BTreeMap::new();
    for (at, device) in pair.devices.iter().enumerate() {
        let whole: u64 =
            device.processes.iter().map(|row| row.usage.all_time_ns()).fold(0, u64::saturating_add);
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
    rows.compact_sort_by(|a, b| weight(b).total_cmp(&weight(a)));
    rows.truncate(PROGRAMS);
    rows
}

fn rows(pair: &DevicePair<'_>) -> Vec<LoadRow> {
    let mut rows = Vec::new();
    for direction in Direction::ALL {
        let both: [&DirectionSummary; 2] = pair.devices.map(|device| &device.directions[direction]);
        if both.iter().all(|side| side.requests == 0) {
            continue;
        }
        let name = direction.word();
        let rates = both.map(|side| Some(side.requests_per_s));
        rows.push(row(format!("{name} requests"), "1/s", rates));
        if both.iter().any(|side| side.bytes > 0) {
            rows.push(row(
                format!("{name} bytes"),
                "bytes/s",
                both.map(|side| Some(side.bytes_per_s)),
            ));
            rows.push(row(format!("{name} size"), "bytes", both.map(|side| side.average_bytes)));
        }
        if direction.has_sectors() {
            let percent = both.map(|side| side.sequential_share.map(|share| share * 100.0));
            rows.push(row(format!("{name} sequential"), "%", percent));
        }
    }
    let depth = pair.devices.map(|device| Some(device.in_flight_mean));
    rows.push(row("in flight".to_owned(), "requests", depth));
    let busy = pair.devices.map(|device| device.util_share.map(|share| share * 100.0));
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
pub(super) fn is_enough(pair: &DevicePair<'_>, direction: Direction) -> bool {
    pair.devices.iter().all(|device| device.directions[direction].requests >= LEAST_REQUESTS)
}
