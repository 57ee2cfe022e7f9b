//! Time in file calls for each write or read of a program: what a change gained where it changed
//! the load itself, as a program does that syncs every sixteenth write instead of each.
//!
//! What does not belong here: requests, whose number such a change alters (see [`super::times`]).

use super::{ComparedTimes, LEAST_REQUESTS};
use iowhy_analysis::summary::Summary;
use iowhy_model::compact_sort::CompactSort;
use serde::Serialize;
use std::collections::BTreeMap;

/// Programs that are listed.
const MOST: usize = 3;
/// Factor from which a time differs. Chosen: as for loads, two equal runs differ by a tenth.
const DIFFERS: f64 = 1.25;

/// The time of a program's file calls for each of its writes or reads.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WorkTime {
    /// The program's name.
    pub process: String,
    /// The call that is counted: `write` or `read`.
    pub call: &'static str,
    /// Number of these calls.
    pub calls: [u64; 2],
    /// Time in all its file calls, syncs too, for each of them, nanoseconds.
    pub time_ns: [f64; 2],
    /// Whether it differs by more than equal watches do.
    pub differs: bool,
}

/// The file calls of the processes of one name.
#[derive(Clone, Copy, Default)]
struct ProgramCalls {
    reads: u64,
    writes: u64,
    time_ns: u64,
}

/// The programs that did enough in both watches, most time first.
pub(super) fn work(compared: &ComparedTimes<'_>) -> Vec<WorkTime> {
    let [a, b] = compared.sides.map(|side| calls(side.summary));
    let both = a.iter().filter_map(|(name, of_a)| Some((*name, [*of_a, *b.get(name)?])));
    let mut rows: Vec<(u64, WorkTime)> = both
        .filter_map(|(name, sides)| {
            let time_ns = sides.iter().map(|side| side.time_ns).max().unwrap_or(0);
            Some((time_ns, row(name, sides)?))
        })
        .collect();
    rows.compact_sort_by(|(a, _), (b, _)| b.cmp(a));
    rows.into_iter().map(|(_, row)| row).take(MOST).collect()
}

fn calls(summary: &Summary) -> BTreeMap<&str, ProgramCalls> {
    let mut programs: BTreeMap<&str, ProgramCalls> = BTreeMap::new();
    for row in summary.activity.iter().flat_map(|activity| &activity.rows) {
        let (Some(process), Some(time_ns)) = (row.process.as_deref(), row.time_ns) else {
            continue;
        };
        let own = programs.entry(process).or_default();
        own.reads = own.reads.saturating_add(row.counts.reads);
        own.writes = own.writes.saturating_add(row.counts.writes);
        own.time_ns = own.time_ns.saturating_add(time_ns);
    }
    programs
}

fn row(process: &str, sides: [ProgramCalls; 2]) -> Option<WorkTime> {
    let writes = ("write", [sides[0].writes, sides[1].writes]);
    let reads = ("read", [sides[0].reads, sides[1].reads]);
    let counted = [writes, reads];
    let enough =
        counted.into_iter().filter(|(_, calls)| calls.iter().all(|count| *count >= LEAST_REQUESTS));
    let (call, calls) = enough.max_by_key(|(_, calls)| calls[0].saturating_add(calls[1]))?;
    let time_ns = [0, 1].map(|at| sides[at].time_ns as f64 / calls[at] as f64);
    let [a, b] = time_ns;
    let differs = a.max(b) > DIFFERS * a.min(b);
    Some(WorkTime { process: process.to_owned(), call, calls, time_ns, differs })
}
