//! Changes over time: levels of a device's rate, when they changed, and programs with periodic
//! bursts.
//!
//! A claim needs data: a level lasts a tenth of the time that the device was used and is even
//! within itself, and a rhythm shows three periods. A shorter rhythm is reported as such.

#[cfg(test)]
mod tests;

use super::shape::{self, Rhythm};
use super::thresholds::FLAT;
use crate::words;
use iowhy_analysis::summary::Summary;
use iowhy_analysis::summary::patterns::{Bin, DevicePatterns, OwnerTimeline, Timeline};
use serde::Serialize;

/// The number of bins of a device's time.
const BINS: usize = 60;
/// The least number of bins of a level.
const LEAST: usize = 6;
/// The least difference between two levels. Chosen: two equal watches differ by less.
const FACTOR: f64 = 1.3;
/// The least distance in standard errors: adjacent bins are alike, so fewer would be chance. Chosen
/// with noise of several kinds, see the tests.
const ERRORS: f64 = 6.0;
/// The least distance for a trial cut: a part that contains two levels is uneven itself.
const TRIED: f64 = 3.0;
/// The largest coefficient of variation of a level.
const EVEN: f64 = 0.3;
const ROUND: f64 = 0.03;
/// The least mean number of requests per bin.
const REQUESTS: f64 = 5.0;
/// The largest depth of recursive splits of a stretch of time.
const DEPTH: usize = 2;
/// The least mean number of requests of a burst. Chosen.
const LEAST_REQUESTS: f64 = 4.0;
/// The least share of the device's bytes of a periodic program to report.
const LEAST_SHARE: f64 = 0.05;

/// Changes and rhythms of a watch.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OverTime {
    /// Changes of a device's rate or time per request, by device and time.
    pub changes: Vec<Change>,
    /// Programs with periodic bursts.
    pub bursts: Vec<ProgramBurst>,
    /// Possible rhythms with too few periods; a sentence each.
    pub not_enough: Vec<String>,
}

/// The kind of a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// Requests take longer, and no more of them complete.
    Slower,
    /// Requests take less time, and no fewer complete.
    Faster,
    /// Fewer complete, and take no longer: fewer were submitted.
    AskedLess,
    /// More complete, and take no less time: more were submitted.
    AskedMore,
}

/// A stretch of time with an even rate of a device.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Level {
    /// Start, nanoseconds since the watch began.
    pub from_ns: u64,
    /// End, nanoseconds since the watch began.
    pub to_ns: u64,
    /// Requests completed per second.
    pub requests_per_s: f64,
    /// Their bytes per second.
    pub bytes_per_s: f64,
    /// Their mean time from queueing to completion, nanoseconds.
    pub mean_ns: f64,
    /// Mean requests in flight (rate × time).
    pub in_flight: f64,
    /// The round number of requests per second that it stays at, if it is as flat as a limit.
    pub flat_at: Option<f64>,
}

/// A change from one level of a device to another.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Change {
    /// The device.
    pub device: String,
    /// Time of the change, nanoseconds since the watch began.
    pub at_ns: u64,
    /// Its kind.
    pub kind: ChangeKind,
    /// The level before.
    pub before: Level,
    /// The level from then on.
    pub after: Level,
    /// The same in one sentence.
    pub sentence: String,
}

/// A program with periodic bursts.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProgramBurst {
    /// The device.
    pub device: String,
    /// The program.
    pub process: String,
    /// Its PID, if it was one process all the time.
    pub pid: Option<u32>,
    /// The file with most of its bytes, if one has most of them.
    pub file: Option<String>,
    /// Period, nanoseconds.
    pub period_ns: u64,
    /// When the first one begins, nanoseconds since the watch began.
    pub first_ns: u64,
    /// Number of bursts.
    pub bursts: u64,
    /// The program's share of the device's bytes.
    pub bytes_share: f64,
    /// The same in one sentence.
    pub sentence: String,
}

/// All of it.
pub(super) fn over_time(summary: &Summary) -> OverTime {
    let mut found = OverTime::default();
    for patterns in &summary.patterns.devices {
        let mut changes = changes(&patterns.device, &patterns.timeline);
        for change in &mut changes {
            change.sentence = sentence(change, &words::moment(summary, change.at_ns));
        }
        found.changes.append(&mut changes);
        rhythms(patterns, &mut found);
    }
    found
}

fn rhythms(patterns: &DevicePatterns, found: &mut OverTime) {
    let all: f64 = patterns.timeline.bins.iter().map(|bin| bin.bytes as f64).sum();
    for owner in &patterns.owners {
        let own: f64 = owner.bytes.iter().map(|bytes| *bytes as f64).sum();
        let share = own / all.max(1.0);
        if share < LEAST_SHARE {
            continue;
        }
        match shape::rhythm(&owner.fine, owner.fine_ns) {
            Rhythm::Periodic(period) if is_burst(owner, period) => {
                found.bursts.push(burst(patterns, owner, period, share));
            }
            Rhythm::TooFew(bursts) => found.not_enough.push(format!(
                "{bursts} bursts of {} on {}: a rhythm needs at least three periods",
                words::process(&owner.process, owner.pid, None),
                patterns.device,
            )),
            Rhythm::Periodic(_) | Rhythm::None => {}
        }
    }
}

/// Whether each burst is more than a request or two at an even pace.
fn is_burst(owner: &OwnerTimeline, period: shape::Period) -> bool {
    owner.requests as f64 >= LEAST_REQUESTS * period.bursts as f64
}

fn burst(
    patterns: &DevicePatterns,
    owner: &OwnerTimeline,
    period: shape::Period,
    bytes_share: f64,
) -> ProgramBurst {
    let file = owner.file.as_ref().map(|file| format!(", mostly of {file}")).unwrap_or_default();
    let sentence = format!(
        "{} does I/O in bursts on {} every {}: {} of them, {} of the device's bytes{file}",
        words::process(&owner.process, owner.pid, None),
        patterns.device,
        words::time(period.period_ns as f64),
        period.bursts,
        words::percent(bytes_share),
    );
    ProgramBurst {
        device: patterns.device.clone(),
        process: owner.process.clone(),
        pid: owner.pid,
        file: owner.file.clone(),
        period_ns: period.period_ns,
        first_ns: period.first_ns,
        bursts: period.bursts as u64,
        bytes_share,
        sentence,
    }
}

/// Returns the changes of one device.
fn changes(device: &str, timeline: &Timeline) -> Vec<Change> {
    let first = timeline.bins.iter().position(|bin| bin.requests > 0).unwrap_or(0);
    let used = Timeline { bin_ns: timeline.bin_ns, bins: shape::active(timeline).to_vec() };
    let coarse = used.coarser(used.bins.len().div_ceil(BINS));
    let offset_ns = first as u64 * timeline.bin_ns;
    let rates: Vec<f64> = coarse.bins.iter().map(|bin| bin.requests as f64).collect();
    if rates.len() < 2 * LEAST || shape::mean(&rates) < REQUESTS {
        return Vec::new();
    }
    let times: Vec<f64> = coarse.bins.iter().map(mean_ns).collect();
    let mut cuts: Vec<usize> = levels(&rates).into_iter().chain(levels(&times)).collect();
    cuts.sort_unstable();
    // The same moment in the rate and in the time per request.
    cuts.dedup_by(|later, earlier| *later - *earlier < LEAST / 2);
    let bounds: Vec<usize> = [0].into_iter().chain(cuts).chain([rates.len()]).collect();
    let levels: Vec<Level> =
        bounds.windows(2).map(|pair| level(&coarse, pair[0], pair[1], offset_ns)).collect();
    levels.windows(2).filter_map(|pair| change(device, pair[0], pair[1])).collect()
}

fn mean_ns(bin: &Bin) -> f64 {
    bin.q2c_ns as f64 / bin.requests.max(1) as f64
}

/// Returns where one level of `values` changes to another; empty if they do not consist of even
/// levels.
fn levels(values: &[f64]) -> Vec<usize> {
    let mut cuts = Vec::new();
    split(values, 0, DEPTH, &mut cuts);
    cuts.sort_unstable();
    let bounds = bounds(&cuts, values.len());
    let parts: Vec<&[f64]> = bounds.windows(2).map(|pair| &values[pair[0]..pair[1]]).collect();
    let is_even = |part: &&[f64]| shape::variation(inner(part)) <= EVEN;
    if !parts.iter().all(is_even) {
        return Vec::new();
    }
    let apart = parts.windows(2).map(|pair| lie_apart(pair[0], pair[1], ERRORS));
    cuts.into_iter().zip(apart).filter(|(_, apart)| *apart).map(|(cut, _)| cut).collect()
}

/// Returns the start and end of stretches cut at `cuts`.
fn bounds(cuts: &[usize], length: usize) -> Vec<usize> {
    [0].into_iter().chain(cuts.iter().copied()).chain([length]).collect()
}

/// Returns a level without its first and last bins.
fn inner(values: &[f64]) -> &[f64] {
    match values {
        [_, inner @ .., _] if inner.len() >= 2 => inner,
        all => all,
    }
}

/// Cuts `values` where the two parts differ most, and then each part again.
fn split(values: &[f64], offset: usize, depth: usize, cuts: &mut Vec<usize>) {
    let mut best: Option<(f64, usize)> = None;
    for at in LEAST..(values.len() + 1).saturating_sub(LEAST) {
        let (left, right) = values.split_at(at);
        let distance = (shape::mean(left) - shape::mean(right)).powi(2);
        let gain = distance * left.len() as f64 * right.len() as f64;
        if best.is_none_or(|(most, _)| gain > most) {
            best = Some((gain, at));
        }
    }
    let Some((_, at)) = best else { return };
    let (left, right) = values.split_at(at);
    if !lie_apart(left, right, TRIED) {
        return;
    }
    cuts.push(offset + at);
    if depth > 0 {
        split(left, offset, depth - 1, cuts);
        split(right, offset + at, depth - 1, cuts);
    }
}

fn lie_apart(left: &[f64], right: &[f64], errors: f64) -> bool {
    let (a, b) = (shape::mean(left), shape::mean(right));
    if a.min(b) <= 0.0 || a.max(b) < FACTOR * a.min(b) {
        return false;
    }
    let error =
        |part: &[f64]| (shape::variation(part) * shape::mean(part)).powi(2) / part.len() as f64;
    (a - b).abs() >= errors * (error(left) + error(right)).sqrt()
}

fn level(timeline: &Timeline, from: usize, to: usize, offset_ns: u64) -> Level {
    let bins = &timeline.bins[from..to];
    let seconds = (bins.len() as f64 * timeline.bin_ns as f64 / 1e9).max(1e-9);
    let sum = |of: fn(&Bin) -> u64| bins.iter().map(|bin| of(bin) as f64).sum::<f64>();
    let (requests, q2c_ns) = (sum(|bin| bin.requests), sum(|bin| bin.q2c_ns));
    let rates: Vec<f64> = bins.iter().map(|bin| timeline.per_s(bin.requests)).collect();
    let rates = inner(&rates);
    let flat = shape::variation(rates) <= FLAT;
    let round = flat.then(|| shape::is_round(shape::mean(rates), ROUND)).flatten();
    Level {
        from_ns: offset_ns + from as u64 * timeline.bin_ns,
        to_ns: offset_ns + to as u64 * timeline.bin_ns,
        requests_per_s: requests / seconds,
        bytes_per_s: sum(|bin| bin.bytes) / seconds,
        mean_ns: q2c_ns / requests.max(1.0),
        in_flight: q2c_ns / 1e9 / seconds,
        flat_at: round,
    }
}

fn change(device: &str, before: Level, after: Level) -> Option<Change> {
    let rate = after.requests_per_s / before.requests_per_s.max(1e-9);
    let time = after.mean_ns / before.mean_ns.max(1e-9);
    let kind = if time >= FACTOR && rate <= FACTOR {
        ChangeKind::Slower
    } else if time <= 1.0 / FACTOR && rate >= 1.0 / FACTOR {
        ChangeKind::Faster
    } else if rate <= 1.0 / FACTOR {
        ChangeKind::AskedLess
    } else if rate >= FACTOR {
        ChangeKind::AskedMore
    } else {
        return None;
    };
    let (device, sentence) = (device.to_owned(), String::new());
    Some(Change { device, at_ns: after.from_ns, kind, before, after, sentence })
}

fn sentence(change: &Change, moment: &str) -> String {
    let Change { device, kind, before, after, .. } = change;
    let flat = match after.flat_at {
        Some(round) => format!(", flat at {}", words::number(round)),
        None => String::new(),
    };
    let what = match kind {
        ChangeKind::Slower => "slower",
        ChangeKind::Faster => "faster",
        ChangeKind::AskedLess => "less loaded",
        ChangeKind::AskedMore => "more loaded",
    };
    format!(
        "{device} is {what} from {moment}: {} instead of {} requests per \
         second{flat}, {} instead of {} per request",
        words::number(after.requests_per_s),
        words::number(before.requests_per_s),
        words::time(after.mean_ns),
        words::time(before.mean_ns),
    )
}
