//! The tables of a summary: usage by process, file, container, origin and code path.

use super::axes::ByDirection;
use iowhy_model::Origin;
use iowhy_model::compact_sort::CompactSort;
use iowhy_model::request::NOT_IN_DATA;
use serde::{Serialize, Serializer};

/// Maximum number of rows of a table by time and by bytes; the rest are its others.
pub const TABLE_ROWS: usize = 100;

/// Usage by key. `rows`, `others` and `unknown` add up to the total.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UsageTable<R> {
    /// The largest by time and the largest by bytes, most time first.
    pub rows: Vec<UsedRow<R>>,
    /// The sum of further ones.
    pub others: OtherUsage,
    /// Usage without a key, by reason; most time first.
    pub unknown: Vec<Unknown>,
}

impl<R> Default for UsageTable<R> {
    fn default() -> Self {
        UsageTable { rows: Vec::new(), others: OtherUsage::default(), unknown: Vec::new() }
    }
}

impl<R> UsageTable<R> {
    /// Whether the source has no such data at all.
    pub fn is_absent(&self) -> bool {
        let silent = |unknown: &Unknown| unknown.reason == NOT_IN_DATA;
        self.rows.is_empty() && self.others.count == 0 && self.unknown.iter().all(silent)
    }
}

impl<R: Clone> UsageTable<R> {
    /// The same table with fewer rows: the `by_time` largest by time and the `by_bytes` largest by
    /// bytes; the others grow accordingly, and beyond `reasons` reasons the last are merged.
    pub fn top(&self, by_time: usize, by_bytes: usize, reasons: usize) -> UsageTable<R> {
        let mut order: Vec<usize> = (0..self.rows.len()).collect();
        order.compact_sort_by_key(|index| std::cmp::Reverse(self.rows[*index].usage.bytes));
        let heavy = &order[..by_bytes.min(order.len())];
        let hidden = (by_time..self.rows.len()).filter(|index| !heavy.contains(index)).count();
        // A row for a single remaining one takes no more space than a remark about it.
        let by_time = if hidden == 1 && self.others.count == 0 { self.rows.len() } else { by_time };
        let mut top = UsageTable { others: self.others.clone(), ..UsageTable::default() };
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

/// A key, and its usage.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UsedRow<R> {
    /// The key.
    #[serde(flatten)]
    pub subject: R,
    /// Its usage.
    #[serde(flatten)]
    pub usage: Usage,
}

/// All keys without a row of their own.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OtherUsage {
    /// Their number; in a watch with more keys than the table holds, one may count more than once.
    pub count: u64,
    /// Their usage in total.
    #[serde(flatten)]
    pub usage: Usage,
}

/// Usage without a key.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Unknown {
    /// Why.
    pub reason: String,
    /// The usage.
    #[serde(flatten)]
    pub usage: Usage,
}

/// Requests, bytes and time of a key.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Usage {
    /// Requests that completed during the watch and belong to it in full or in part; a folded row
    /// counts a request once for each of its members that has a part in it.
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
    /// Adds the usage of another key of the same table.
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FlowSummary {
    /// Requests.
    pub requests: u64,
    /// Bytes.
    pub bytes: u64,
    /// Time, nanoseconds.
    pub time_ns: u64,
}

/// A process: the owner of the bytes if it is known (the dirtier for writeback), else the
/// submitter.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProcessRow {
    /// Its number.
    pub pid: Option<u32>,
    /// Its name.
    pub process: String,
    /// The path of its executable.
    pub executable: Option<String>,
    /// Its user.
    pub user: Option<String>,
    /// Its I/O class and level: `idle`, `best-effort 7`, `realtime 0`; `None` if it has none of its
    /// own, or if it is not known.
    pub io_class: Option<String>,
    /// Its container or systemd unit.
    pub container: Option<String>,
}

/// Processes of one name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProgramRow {
    /// Their name.
    pub process: String,
    /// Their number; a lower bound if `processes` aggregates others.
    pub processes: u64,
    /// The PID, if there is only one.
    pub pid: Option<u32>,
    /// The container or systemd unit of all of them, if it is a single one.
    pub container: Option<String>,
}

/// A container, a systemd unit, or a cgroup that is neither.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ContainerRow {
    /// Its name, or the path of the cgroup.
    pub container: String,
    /// One of its cgroups: the one with the most time.
    pub cgroup: String,
}

/// A file.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FileRow {
    /// Its path as seen from the root mount.
    pub file: String,
    /// Whether it had already been deleted when it was first seen.
    pub deleted: bool,
    /// Its reads and writes that begin where an earlier one of their stream ended.
    pub sequential_requests: u64,
    /// Their share of its reads and writes; `None` if there are none.
    pub sequential_share: Option<f64>,
}

/// Why requests exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OriginRow {
    /// The origin.
    #[serde(serialize_with = "origin_word")]
    pub origin: Origin,
}

fn origin_word<S: Serializer>(origin: &Origin, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(origin.word())
}

/// The functions that submitted requests. Stacks may be sampled: the requests of one process and
/// origin are divided by their own stacks, so these figures are estimates.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CodePaths {
    /// Requests with a stack.
    pub sampled_requests: u64,
    /// Requests that these represent.
    pub represented_requests: u64,
    /// Requests that processes and files are charged with.
    pub counted_requests: u64,
    /// The paths; shares are of the counted requests. Processes without any stack are unknown.
    #[serde(flatten)]
    pub table: UsageTable<CodePathRow>,
}

/// One code path.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CodePathRow {
    /// Why its requests exist.
    #[serde(serialize_with = "origin_word")]
    pub origin: Origin,
    /// The submitting process.
    pub process: Option<String>,
    /// Functions of the kernel, innermost first, without those that every request goes through;
    /// empty where not known.
    pub kernel: Vec<String>,
    /// Whether the kernel functions are complete.
    pub kernel_complete: bool,
    /// Functions of the program, innermost first; empty where not known.
    pub user: Vec<String>,
    /// Whether the program's functions are complete.
    pub user_complete: bool,
    /// How they were found: by `frame pointers` or `.eh_frame`; `None` where not known.
    pub user_unwound_by: Option<String>,
    /// Requests of which this stack was taken: its figures rest on so many; 0 where it is not
    /// counted.
    pub samples: u64,
}
