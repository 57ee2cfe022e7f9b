//! The tables of a summary: what each process, file, container, origin and code path used.

use super::axes::ByDirection;
use crate::model::Origin;
use serde::{Serialize, Serializer};

/// How many rows of a table are kept by time, and how many by bytes; the rest are its others.
pub const TABLE_ROWS: usize = 100;

/// The reason of what belongs to none because its source does not know such things.
pub const NOT_IN_DATA: &str = "not in the data";

/// What each of many used. `rows`, `others` and `unknown` add up to the whole.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Table<R> {
    /// The largest by time and the largest by bytes, most time first.
    pub rows: Vec<Row<R>>,
    /// All further ones together.
    pub others: Others,
    /// What belongs to none, by reason; most time first.
    pub unknown: Vec<Unknown>,
}

impl<R> Default for Table<R> {
    fn default() -> Self {
        Table { rows: Vec::new(), others: Others::default(), unknown: Vec::new() }
    }
}

impl<R> Table<R> {
    /// Whether the source knows nothing of such things, rather than nothing of these requests.
    pub fn is_absent(&self) -> bool {
        let silent = |unknown: &Unknown| unknown.reason == NOT_IN_DATA;
        self.rows.is_empty() && self.others.count == 0 && self.unknown.iter().all(silent)
    }
}

impl<R: Clone> Table<R> {
    /// The same table with fewer rows: the `by_time` largest by time and the `by_bytes` largest by
    /// bytes; the others grow accordingly, and of more than `reasons` reasons the last become one.
    pub fn top(&self, by_time: usize, by_bytes: usize, reasons: usize) -> Table<R> {
        let mut order: Vec<usize> = (0..self.rows.len()).collect();
        order.sort_by_key(|index| std::cmp::Reverse(self.rows[*index].usage.bytes));
        let heavy = &order[..by_bytes.min(order.len())];
        let hidden = (by_time..self.rows.len()).filter(|index| !heavy.contains(index)).count();
        // A row for the only one that is left takes no more room than saying that it is left.
        let by_time = if hidden == 1 && self.others.count == 0 { self.rows.len() } else { by_time };
        let mut top = Table { others: self.others.clone(), ..Table::default() };
        for (index, row) in self.rows.iter().enumerate() {
            if index < by_time || heavy.contains(&index) {
                top.rows.push(row.clone());
            } else {
                top.others.count += 1;
                top.others.usage.add(&row.usage);
            }
        }
        let (named, rest) = self.unknown.split_at(reasons.min(self.unknown.len()));
        top.unknown = named.to_vec();
        if let Some((first, more)) = rest.split_first() {
            let reason = format!("{} other reasons", rest.len());
            let mut together = Unknown { reason, usage: first.usage.clone() };
            more.iter().for_each(|unknown| together.usage.add(&unknown.usage));
            top.unknown.push(if more.is_empty() { first.clone() } else { together });
        }
        top
    }
}

/// One of many, and what it used.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row<R> {
    /// Which it is.
    #[serde(flatten)]
    pub subject: R,
    /// What it used.
    #[serde(flatten)]
    pub usage: Usage,
}

/// All that have no row of their own.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Others {
    /// How many; in a watch with more keys than memory, one may count more than once.
    pub count: u64,
    /// What they used together.
    #[serde(flatten)]
    pub usage: Usage,
}

/// What belongs to none.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Unknown {
    /// Why.
    pub reason: String,
    /// How much.
    #[serde(flatten)]
    pub usage: Usage,
}

/// Requests, bytes and time of one of many.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Usage {
    /// Requests that ended during the watch, wholly or in part its own; a folded row counts a
    /// request once for each of its members that has a part in it.
    pub requests: u64,
    /// Its bytes of them.
    pub bytes: u64,
    /// Its time of them (their Q2C, split by bytes), nanoseconds.
    pub time_ns: u64,
    /// Requests that had not ended.
    pub open_requests: u64,
    /// Their bytes.
    pub open_bytes: u64,
    /// Their time within the watch, nanoseconds: a lower bound.
    pub open_time_ns: u64,
    /// Share of all time, ended and open.
    pub time_share: f64,
    /// Share of all bytes of requests that ended.
    pub bytes_share: f64,
    /// The ended requests by direction.
    pub directions: ByDirection<FlowSummary>,
}

impl Usage {
    /// Adds what another of the same table used.
    pub fn add(&mut self, other: &Usage) {
        self.requests += other.requests;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.time_ns = self.time_ns.saturating_add(other.time_ns);
        self.open_requests += other.open_requests;
        self.open_bytes = self.open_bytes.saturating_add(other.open_bytes);
        self.open_time_ns = self.open_time_ns.saturating_add(other.open_time_ns);
        self.time_share += other.time_share;
        self.bytes_share += other.bytes_share;
        for (own, theirs) in self.directions.0.iter_mut().zip(&other.directions.0) {
            own.requests += theirs.requests;
            own.bytes = own.bytes.saturating_add(theirs.bytes);
            own.time_ns = own.time_ns.saturating_add(theirs.time_ns);
        }
    }

    /// Time of ended and open requests together, nanoseconds.
    pub fn all_time_ns(&self) -> u64 {
        self.time_ns.saturating_add(self.open_time_ns)
    }
}

/// Requests, bytes and time of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FlowSummary {
    /// Requests.
    pub requests: u64,
    /// Bytes.
    pub bytes: u64,
    /// Time, nanoseconds.
    pub time_ns: u64,
}

/// A process: the owner of the bytes where it is known (the dirtier for writeback), else the
/// submitter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProcessRow {
    /// Its number.
    pub pid: Option<u32>,
    /// Its name.
    pub process: String,
    /// The path of its executable.
    pub executable: Option<String>,
    /// Its user.
    pub user: Option<String>,
    /// Its container or systemd unit.
    pub container: Option<String>,
}

/// Processes of one name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProgramRow {
    /// Their name.
    pub process: String,
    /// How many there were: at least this where `processes` aggregates others.
    pub processes: u64,
    /// The number of the only one.
    pub pid: Option<u32>,
    /// The container or systemd unit that all of them run in, where it is one.
    pub container: Option<String>,
}

/// A container, a systemd unit, or a cgroup that is neither.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ContainerRow {
    /// Its name, or the path of the cgroup.
    pub container: String,
    /// One of its cgroups: the one with the most time.
    pub cgroup: String,
}

/// A file.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FileRow {
    /// Its path as seen from the root mount.
    pub file: String,
    /// Whether it had no name any more when it was first seen.
    pub deleted: bool,
    /// Its reads and writes that begin where an earlier one of their stream ended.
    pub sequential_requests: u64,
    /// Their share of its reads and writes; `None` where there are none.
    pub sequential_share: Option<f64>,
}

/// Why requests exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct OriginRow {
    /// The origin.
    #[serde(serialize_with = "origin_word")]
    pub origin: Origin,
}

fn origin_word<S: Serializer>(origin: &Origin, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(origin.word())
}

/// Which functions asked for requests. Stacks may be sampled: each stands for as many requests as
/// its weight says, so these figures are estimates.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CodePaths {
    /// Requests of which a stack was taken.
    pub sampled_requests: u64,
    /// Requests that those stand for.
    pub represented_requests: u64,
    /// Requests that processes and files are charged with.
    pub counted_requests: u64,
    /// The paths; shares are of what the stacks stand for.
    #[serde(flatten)]
    pub table: Table<CodePathRow>,
}

/// One code path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CodePathRow {
    /// Why its requests exist.
    #[serde(serialize_with = "origin_word")]
    pub origin: Origin,
    /// The process that asked for them (the submitter).
    pub process: Option<String>,
    /// Functions of the kernel, innermost first, without those that every request goes through;
    /// empty where not known.
    pub kernel: Vec<String>,
    /// Whether no function of the kernel is missing.
    pub kernel_complete: bool,
    /// Functions of the program, innermost first; empty where not known.
    pub user: Vec<String>,
    /// Whether no function of the program is missing.
    pub user_complete: bool,
}
