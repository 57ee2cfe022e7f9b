//! The likeness of a reproduction to the original: a few figures of each watch, side by side, and
//! whether the same finding comes first.
//!
//! Unlike [`crate::diff`], which looks for what changed, this asks whether two watches agree within
//! tolerances that are fixed beforehand.
//!
//! What does not belong here: making a reproduction (crate `iowhy-reproduce`), and drawing the
//! table (crate `iowhy-views`).

use crate::{Diagnosis, Severity};
use iowhy_analysis::page_cache::page_cache;
use iowhy_analysis::summary::{DeviceSummary, Direction, DirectionSummary, Interval, Summary};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The largest difference of rates, sizes and mixes, as a share of the original.
pub const LOAD_TOLERANCE: f64 = 0.10;
/// The largest difference of latencies and times, as a share of the original.
pub const TIME_TOLERANCE: f64 = 0.30;
/// The largest difference of shares of time, in percentage points.
pub const SHARE_TOLERANCE: f64 = 15.0;
/// Rates below this are not compared, per second: a few requests of the file system itself.
const LEAST_RATE: f64 = 2.0;
/// Wait classes with a smaller share of the blocked time are not compared.
const LEAST_CLASS: f64 = 0.05;

/// The compared figures of one watch; they are kept with a reproduction, so that the recording is
/// not needed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WatchFigures {
    /// The cause that comes first; `None` if there is no finding.
    pub finding: Option<String>,
    /// All causes above `info`, in order.
    pub causes: Vec<String>,
    /// Mean number of threads that waited for storage; `None` without waits.
    pub blocked_threads: Option<f64>,
    /// Share of the blocked time by wait class.
    pub waits: BTreeMap<String, f64>,
    /// Bytes that read calls returned per byte that devices read; `None` without such reads.
    pub read_per_device_byte: Option<f64>,
    /// The disks, in the given order.
    pub disks: Vec<DiskFigures>,
}

/// The compared figures of one disk. Rates are per second, times nanoseconds, shares 0 to 1.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiskFigures {
    /// Reads.
    pub read: DirectionFigures,
    /// Writes.
    pub write: DirectionFigures,
    /// Flushes per second.
    pub flushes_per_s: f64,
    /// Mean number of requests queued or in flight.
    pub in_flight: f64,
}

/// The compared figures of one direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DirectionFigures {
    /// Requests per second.
    pub per_s: f64,
    /// Average size, bytes.
    pub bytes: Option<f64>,
    /// Share of bytes that are sequential.
    pub sequential: Option<f64>,
    /// Median from queueing to completion.
    pub p50_ns: Option<u64>,
    /// 99th percentile.
    pub p99_ns: Option<u64>,
    /// Share of the time that is the driver's and the device's (D2C).
    pub d2c_share: Option<f64>,
}

impl WatchFigures {
    /// The figures of `devices` of a watch, by name.
    pub fn new(summary: &Summary, diagnosis: &Diagnosis, devices: &[String]) -> WatchFigures {
        let found = |name: &String| summary.devices.iter().find(|device| device.device == *name);
        let ledger = summary.ledger.as_ref();
        let seconds = summary.watch.duration_ns.max(1) as f64;
        let classes = ledger.iter().flat_map(|ledger| &ledger.classes);
        let notable = diagnosis.findings.iter().filter(|finding| finding.severity > Severity::Info);
        WatchFigures {
            finding: diagnosis.findings.first().map(|finding| finding.cause.to_owned()),
            causes: notable.map(|notable| notable.cause.to_owned()).collect(),
            blocked_threads: ledger.map(|ledger| ledger.blocked_ns as f64 / seconds),
            waits: classes.map(|row| (row.class.to_owned(), row.time_share)).collect(),
            read_per_device_byte: page_cache(summary).and_then(|cache| cache.asked_per_read),
            disks: devices
                .iter()
                .map(|device| found(device).map(DiskFigures::from_device).unwrap_or_default())
                .collect(),
        }
    }
}

impl DiskFigures {
    fn from_device(device: &DeviceSummary) -> DiskFigures {
        DiskFigures {
            read: DirectionFigures::from_summary(&device.directions[Direction::Read]),
            write: DirectionFigures::from_summary(&device.directions[Direction::Write]),
            flushes_per_s: device.directions[Direction::Flush].requests_per_s,
            in_flight: device.in_flight_mean,
        }
    }

    fn per_s(&self) -> f64 {
        self.read.per_s + self.write.per_s
    }
}

impl DirectionFigures {
    fn from_summary(direction: &DirectionSummary) -> DirectionFigures {
        let whole = direction.intervals[Interval::Q2c].as_ref();
        let device = direction.intervals[Interval::D2c].as_ref();
        DirectionFigures {
            per_s: direction.requests_per_s,
            bytes: direction.average_bytes,
            sequential: direction.sequential_share,
            p50_ns: whole.map(|whole| whole.p50_ns),
            p99_ns: whole.map(|whole| whole.p99_ns),
            d2c_share: device.and_then(|device| device.q2c_share),
        }
    }
}

/// The unit of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FidelityUnit {
    /// Per second.
    PerSecond,
    /// Bytes.
    Bytes,
    /// Nanoseconds.
    Nanoseconds,
    /// Percent; the difference is in percentage points.
    Percent,
    /// A plain number.
    Number,
}

/// One figure in both watches.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FidelityRow {
    /// The figure's name.
    pub what: String,
    /// The figure's unit.
    pub unit: FidelityUnit,
    /// In the original; `None` if there was none, or it is not known.
    pub original: Option<f64>,
    /// In the reproduction.
    pub now: Option<f64>,
    /// The reproduction's excess, as a share of the original; in percentage points for percentages.
    /// `None` if one is not known.
    pub difference: Option<f64>,
    /// The largest difference with which they agree.
    pub tolerance: f64,
    /// Whether they agree.
    pub agrees: bool,
}

/// Two watches side by side.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fidelity {
    /// The first cause of the original and of the reproduction.
    pub findings: [Option<String>; 2],
    /// Whether both name the same cause first.
    pub same_finding: bool,
    /// All figures.
    pub rows: Vec<FidelityRow>,
}

impl Fidelity {
    /// Compares a reproduction with its original.
    ///
    /// # Examples
    ///
    /// ```
    /// use iowhy_diagnosis::fidelity::{Fidelity, WatchFigures};
    ///
    /// let original = WatchFigures { finding: Some("fsync-heavy".into()), ..Default::default() };
    /// let fidelity = Fidelity::new(&original, &original.clone());
    /// assert!(fidelity.same_finding && fidelity.rows.is_empty());
    /// ```
    pub fn new(original: &WatchFigures, now: &WatchFigures) -> Fidelity {
        let mut rows = Vec::new();
        let several = original.disks.len() > 1;
        for (at, (was, is)) in original.disks.iter().zip(&now.disks).enumerate() {
            let of = if several { format!("disk {} ", at + 1) } else { String::new() };
            disk_rows(&of, was, is, &mut rows);
        }
        wait_rows(original, now, &mut rows);
        Fidelity {
            same_finding: original.finding == now.finding,
            findings: [original.finding.clone(), now.finding.clone()],
            rows,
        }
    }

    /// Returns the number of rows that agree.
    pub fn agreeing(&self) -> usize {
        self.rows.iter().filter(|row| row.agrees).count()
    }

    /// The row of a figure.
    pub fn row(&self, what: &str) -> Option<&FidelityRow> {
        self.rows.iter().find(|row| row.what == what)
    }
}

fn row(
    what: String,
    unit: FidelityUnit,
    (original, now): (Option<f64>, Option<f64>),
    tolerance: f64,
) -> FidelityRow {
    let difference = match (original, now) {
        (Some(a), Some(b)) if unit == FidelityUnit::Percent => Some(b - a),
        (Some(a), Some(b)) if a.abs() > f64::EPSILON => Some((b - a) / a),
        (Some(_), Some(b)) => Some(if b.abs() > f64::EPSILON { 1.0 } else { 0.0 }),
        _ => None,
    };
    let agrees = match difference {
        Some(difference) => difference.abs() <= tolerance,
        None => original.is_none() && now.is_none(),
    };
    FidelityRow { what, unit, original, now, difference, tolerance, agrees }
}

fn disk_rows(of: &str, was: &DiskFigures, is: &DiskFigures, rows: &mut Vec<FidelityRow>) {
    let percent = |share: Option<f64>| share.map(|share| share * 100.0);
    for (name, a, b) in [("read", &was.read, &is.read), ("write", &was.write, &is.write)] {
        if a.per_s < LEAST_RATE && b.per_s < LEAST_RATE {
            continue;
        }
        let mut add = |what: &str, unit, pair, tolerance| {
            rows.push(row(format!("{of}{name} {what}"), unit, pair, tolerance));
        };
        let both = (Some(a.per_s), Some(b.per_s));
        add("requests", FidelityUnit::PerSecond, both, LOAD_TOLERANCE);
        add("size", FidelityUnit::Bytes, (a.bytes, b.bytes), LOAD_TOLERANCE);
        let sequential = (percent(a.sequential), percent(b.sequential));
        add("sequential", FidelityUnit::Percent, sequential, SHARE_TOLERANCE);
        let time = |time: Option<u64>| time.map(|time| time as f64);
        let p50 = (time(a.p50_ns), time(b.p50_ns));
        add("p50", FidelityUnit::Nanoseconds, p50, TIME_TOLERANCE);
        let p99 = (time(a.p99_ns), time(b.p99_ns));
        add("p99", FidelityUnit::Nanoseconds, p99, TIME_TOLERANCE);
        let stage = (percent(a.d2c_share), percent(b.d2c_share));
        add("D2C share", FidelityUnit::Percent, stage, SHARE_TOLERANCE);
    }
    if was.flushes_per_s >= LEAST_RATE || is.flushes_per_s >= LEAST_RATE {
        let both = (Some(was.flushes_per_s), Some(is.flushes_per_s));
        rows.push(row(format!("{of}flushes"), FidelityUnit::PerSecond, both, LOAD_TOLERANCE));
    }
    if was.per_s() >= LEAST_RATE || is.per_s() >= LEAST_RATE {
        let mix = |disk_figures: &DiskFigures| {
            Some(disk_figures.read.per_s / disk_figures.per_s().max(1e-9) * 100.0)
        };
        let mixes = (mix(was), mix(is));
        let tolerance = LOAD_TOLERANCE * 100.0;
        rows.push(row(format!("{of}reads of all"), FidelityUnit::Percent, mixes, tolerance));
        let depth = (Some(was.in_flight), Some(is.in_flight));
        rows.push(row(format!("{of}in flight"), FidelityUnit::Number, depth, TIME_TOLERANCE));
    }
}

fn wait_rows(original: &WatchFigures, now: &WatchFigures, rows: &mut Vec<FidelityRow>) {
    let both = (original.blocked_threads, now.blocked_threads);
    if both.0.is_some() && both.1.is_some() {
        let what = "blocked threads".to_owned();
        rows.push(row(what, FidelityUnit::Number, both, TIME_TOLERANCE));
    }
    let mut classes: Vec<&String> = original.waits.keys().chain(now.waits.keys()).collect();
    classes.sort_unstable();
    classes.dedup();
    for class in classes {
        let share =
            |watch_figures: &WatchFigures| watch_figures.waits.get(class).copied().unwrap_or(0.0);
        let (a, b) = (share(original), share(now));
        if a.max(b) >= LEAST_CLASS {
            let shares = (Some(a * 100.0), Some(b * 100.0));
            let what = format!("waits: {class}");
            rows.push(row(what, FidelityUnit::Percent, shares, SHARE_TOLERANCE));
        }
    }
    let reads = |watch_figures: &WatchFigures| {
        watch_figures.disks.iter().any(|disk| disk.read.per_s >= LEAST_RATE)
    };
    if let (Some(a), Some(b)) = (original.read_per_device_byte, now.read_per_device_byte)
        && reads(original)
        && reads(now)
    {
        let what = "read calls per device byte".to_owned();
        let both = (Some(a), Some(b));
        rows.push(row(what, FidelityUnit::Number, both, TIME_TOLERANCE));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnose;
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::script::Script;

    fn figures(every_ns: i64, d2c_ns: u64) -> WatchFigures {
        let mut script = Script::new(10);
        for index in 0..200_u64 {
            let read = script.read("sda", 4096).by(7, "cat").sector(index * 7919 % 1000 * 8);
            read.at(index as i64 * every_ns).direct(300, 500, d2c_ns).add();
        }
        let summary = script.summary();
        WatchFigures::new(&summary, &diagnose(&summary), &["sda".to_owned()])
    }

    #[test]
    fn a_watch_agrees_with_itself() {
        let own = figures(10_000_000, 200_000);
        let fidelity = Fidelity::new(&own, &own.clone());
        assert!(fidelity.same_finding);
        assert_eq!(fidelity.agreeing(), fidelity.rows.len(), "{fidelity:#?}");
        assert_eq!(fidelity.row("read requests").and_then(|row| row.now), Some(20.0));
    }

    #[test]
    fn a_slower_disk_does_not_agree() {
        let fidelity = Fidelity::new(&figures(10_000_000, 200_000), &figures(10_000_000, 400_000));
        assert!(!fidelity.row("read p50").is_some_and(|row| row.agrees), "{fidelity:#?}");
        assert!(fidelity.row("read size").is_some_and(|row| row.agrees));
    }

    #[test]
    fn what_is_new_does_not_agree() {
        let mut other = figures(10_000_000, 200_000);
        other.disks[0].write.per_s = 50.0;
        let fidelity = Fidelity::new(&figures(10_000_000, 200_000), &other);
        assert!(!fidelity.row("write requests").is_some_and(|row| row.agrees), "{fidelity:#?}");
    }
}
