//! Blame in a summary: whose requests threads waited behind.
//!
//! What does not belong here: how time is charged (`waits::blame`).

use serde::Serialize;

/// Blame: all time in which threads of programs waited for requests. It is the ledger's `device`
/// and `queue`, and the part of `tag` whose device is known.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BlameSummary {
    /// The total. The shares below add up to it to the nanosecond.
    #[serde(flatten)]
    pub whole: BlameShares,
    /// The processes that others delayed longest, first.
    pub waiters: Vec<BlamedWaiter>,
    /// The processes that delayed others longest, first.
    pub culprits: Vec<BlamedCulprit>,
    /// The one that most of the time in the queue is charged to.
    pub queue_behind: Option<String>,
}

/// A time, split by who is charged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BlameShares {
    /// The total, nanoseconds: the sum of `own_ns`, `others_ns`, `idle_ns` and `unknown_ns`, and of
    /// `queue_ns` and `device_ns`.
    pub waited_ns: u64,
    /// While the requests were only queued.
    pub queue_ns: u64,
    /// While at least one was at the device.
    pub device_ns: u64,
    /// Charged to requests of the waiter's own process.
    pub own_ns: u64,
    /// Charged to requests of others.
    pub others_ns: u64,
    /// The device had no request: the scheduler, a plug or the driver held them.
    pub idle_ns: u64,
    /// Not known: the requests were lost or are not in the data.
    pub unknown_ns: u64,
}

impl BlameShares {
    /// Adds another time.
    pub(crate) fn add(&mut self, other: &BlameShares) {
        for (sum, part) in [
            (&mut self.waited_ns, other.waited_ns),
            (&mut self.queue_ns, other.queue_ns),
            (&mut self.device_ns, other.device_ns),
            (&mut self.own_ns, other.own_ns),
            (&mut self.others_ns, other.others_ns),
            (&mut self.idle_ns, other.idle_ns),
            (&mut self.unknown_ns, other.unknown_ns),
        ] {
            *sum = sum.saturating_add(part);
        }
    }
}

/// A process that waited.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BlamedWaiter {
    /// Its PID; `None` for all processes that are not distinguished.
    pub pid: Option<u32>,
    /// Its name.
    pub process: String,
    /// Its waits for requests.
    pub waits: u64,
    /// Its time.
    #[serde(flatten)]
    pub shares: BlameShares,
    /// The other process that it waited for longest, with all its requests; with origin and file if
    /// one has four fifths of that time.
    pub foremost: Option<BehindRow>,
    /// The owners of the requests that were served, most time first.
    pub behind: Vec<BehindRow>,
    /// The time of culprits that are not listed, nanoseconds.
    pub further_ns: u64,
}

/// The owner of requests that the device had while a thread waited.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BehindRow {
    /// The process: the dirtier for writeback, else the submitter.
    pub pid: Option<u32>,
    /// Its name.
    pub process: Option<String>,
    /// Why it is not known.
    pub reason: Option<String>,
    /// The origin of the requests; `None` if several are aggregated.
    pub origin: Option<&'static str>,
    /// Their file; `None` if there is none, it is not known, or several are aggregated.
    pub file: Option<String>,
    /// Whether several files are aggregated.
    pub several_files: bool,
    /// Whether it is the waiter itself.
    pub own: bool,
    /// Time charged to it, nanoseconds.
    pub time_ns: u64,
    /// While it was queued.
    pub queue_ns: u64,
    /// While it was at the device.
    pub device_ns: u64,
}

/// A process that others waited for.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BlamedCulprit {
    /// The process.
    pub pid: Option<u32>,
    /// Its name.
    pub process: Option<String>,
    /// Why it is not known.
    pub reason: Option<String>,
    /// Others' time, nanoseconds.
    pub time_ns: u64,
    /// While they were queued.
    pub queue_ns: u64,
    /// While they were at the device.
    pub device_ns: u64,
}
