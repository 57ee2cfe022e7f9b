//! `iowhy-fleet diff`: two kernels, or the time before and after a rollout, at equal load.
//!
//! Only hours are compared that have a counterpart: the same model, size, firmware, operation and
//! octaves of requests a second and of a request's size. Within each such set the median of side B
//! is compared with that of side A; sets count by their requests.
//!
//! What does not belong here: reading rows.

use super::cells::{DriveHour, DriveHours};
use super::robust::Spread;
use crate::error::{FleetError, Result};
use crate::output::{AnswerCell, AnswerSection, number_column, text_column};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Hours of each side that a set needs.
const LEAST_HOURS: usize = 5;
/// Deviations of the 95 % interval.
const INTERVAL: f64 = 1.96;
/// The least deviation that is believed of the logarithm of a latency.
const LEAST_SIGMA: f64 = 0.02;

/// The definition of the two sides.
#[derive(Clone, Debug, PartialEq)]
pub enum DiffSides {
    /// Hours under one kernel, and under another.
    Kernels(String, String),
    /// Hours before and from a time on, in hours since 1970.
    Rollout(i32),
}

impl DiffSides {
    /// Returns the names of the sides.
    pub fn names(&self) -> [String; 2] {
        match self {
            DiffSides::Kernels(a, b) => [a.clone(), b.clone()],
            DiffSides::Rollout(_) => ["before".to_owned(), "after".to_owned()],
        }
    }

    /// Checks that there are hours of both sides.
    ///
    /// # Errors
    /// Fails if a kernel has no hours, or none are before or after the rollout.
    pub fn must_exist(&self, data: &DriveHours) -> Result<()> {
        let sides: HashSet<usize> =
            data.hours.iter().filter_map(|hour| self.side(data, hour)).collect();
        let missing = (0..2).find(|side| !sides.contains(side));
        let Some(missing) = missing else { return Ok(()) };
        let [a, b] = self.names();
        let message = format!("there are no hours of {:?}", if missing == 0 { a } else { b });
        Err(FleetError::new(message)
            .hint("iowhy-fleet sql \"SELECT DISTINCT kernel FROM hosts\"; --from and --until"))
    }

    fn side(&self, data: &DriveHours, hour: &DriveHour) -> Option<usize> {
        match self {
            DiffSides::Kernels(a, b) => {
                let kernel = data.names.text(hour.kernel);
                [a, b].iter().position(|name| *name == kernel)
            }
            DiffSides::Rollout(from) => Some(usize::from(hour.hour >= *from)),
        }
    }
}

/// The latency of an operation on both sides.
#[derive(Clone, Debug, PartialEq)]
pub struct DiffRow {
    /// The operation.
    pub operation: String,
    /// Mean latency of side A in the compared hours, ns.
    pub before_ns: f64,
    /// The time by which B is longer, ns, with its 95 % interval.
    pub difference_ns: f64,
    /// Half the width of that interval, ns.
    pub interval_ns: f64,
    /// The share of B's requests that had a counterpart.
    pub covered: f64,
    /// Drives of A and B that were compared.
    pub drives: [usize; 2],
}

type StratumKey = (u32, u32, i64, u32, (i8, i8));

#[derive(Default)]
struct Stratum {
    means: [Vec<f64>; 2],
    requests: [f64; 2],
    drives: [std::collections::HashSet<u32>; 2],
}

/// Compares the sides, an operation a row.
pub fn compare(data: &DriveHours, sides: &DiffSides) -> Vec<DiffRow> {
    let mut strata: HashMap<StratumKey, Stratum> = HashMap::new();
    for hour in &data.hours {
        let Some(side) = sides.side(data, hour) else { continue };
        let Some(drive) = data.drives.get(hour.drive as usize) else { continue };
        let key = (hour.operation, drive.model, drive.size_bytes, drive.firmware, hour.load);
        let stratum = strata.entry(key).or_default();
        stratum.means[side].push(hour.mean_ns);
        stratum.requests[side] += hour.requests;
        stratum.drives[side].insert(hour.drive);
    }
    let mut operations: BTreeMap<u32, Vec<Stratum>> = BTreeMap::new();
    for (key, stratum) in strata {
        operations.entry(key.0).or_default().push(stratum);
    }
    let mut rows: Vec<DiffRow> = operations
        .into_iter()
        .filter_map(|(operation, strata)| row(data.names.text(operation), &strata))
        .collect();
    rows.sort_by(|a, b| a.operation.cmp(&b.operation));
    rows
}

fn row(operation: &str, strata: &[Stratum]) -> Option<DiffRow> {
    let (mut weight, mut before, mut difference, mut variance) = (0.0, 0.0, 0.0, 0.0);
    let mut drives = [std::collections::HashSet::new(), std::collections::HashSet::new()];
    let all: f64 = strata.iter().map(|stratum| stratum.requests[1]).sum();
    for stratum in strata {
        if stratum.means.iter().any(|means| means.len() < LEAST_HOURS) {
            continue;
        }
        let [a, b] = &stratum.means;
        let (a, b) = (Spread::new(a, 0.0)?, Spread::new(b, 0.0)?);
        let requests = stratum.requests[1];
        weight += requests;
        before += requests * a.middle;
        difference += requests * (b.middle - a.middle);
        // Hours of one drive are alike: only drives are independent.
        let part = |spread: Spread, drives: usize| {
            let sigma = spread.sigma.max(LEAST_SIGMA * spread.middle);
            (1.2533 * sigma).powi(2) / drives.max(1) as f64
        };
        let deviation = part(a, stratum.drives[0].len()) + part(b, stratum.drives[1].len());
        variance += requests * requests * deviation;
        for (all, own) in drives.iter_mut().zip(&stratum.drives) {
            all.extend(own.iter().copied());
        }
    }
    (weight > 0.0).then(|| DiffRow {
        operation: operation.to_owned(),
        before_ns: before / weight,
        difference_ns: difference / weight,
        interval_ns: INTERVAL * variance.sqrt() / weight,
        covered: weight / all,
        drives: [drives[0].len(), drives[1].len()],
    })
}

/// The comparison as a person reads it.
pub fn section(rows: &[DiffRow], sides: &DiffSides) -> AnswerSection {
    let [a, b] = sides.names();
    let cells = |row: &DiffRow| {
        let sign = if row.difference_ns < 0.0 { "" } else { "+" };
        let of = |value: f64| crate::output::duration_text(value);
        let is_clear = row.difference_ns.abs() > row.interval_ns;
        vec![
            AnswerCell::text(row.operation.clone()),
            AnswerCell::duration(row.before_ns),
            AnswerCell::number(row.difference_ns, format!("{sign}{}", of(row.difference_ns))),
            AnswerCell::number(row.interval_ns, format!("±{}", of(row.interval_ns))),
            AnswerCell::text(if is_clear { "differs" } else { "no difference seen" }),
            AnswerCell::number(row.covered, format!("{:.0} %", row.covered * 100.0)),
            AnswerCell::count(row.drives[0] as u64),
            AnswerCell::count(row.drives[1] as u64),
        ]
    };
    let columns = vec![
        text_column("operation", "operation"),
        number_column("mean of A", "before_ns"),
        number_column("B is longer by", "difference_ns"),
        number_column("95 %", "interval_ns"),
        text_column("", "verdict"),
        number_column("compared", "covered"),
        number_column("drives of A", "drives_a"),
        number_column("drives of B", "drives_b"),
    ];
    let notes = match rows.is_empty() {
        true => vec!["No hours of both sides had equal load on equal drives.".to_owned()],
        false => vec!["Compared are equal drives at equal load only.".to_owned()],
    };
    let title = format!("A: {a}; B: {b}");
    AnswerSection { name: "diff", title, notes, columns, rows: rows.iter().map(cells).collect() }
}
