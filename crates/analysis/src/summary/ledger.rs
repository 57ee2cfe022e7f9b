//! The ledger of blocked time in a summary: by class and by process.
//!
//! What does not belong here: how waits are added up (`waits::ledger`).

use serde::Serialize;
use std::collections::BTreeMap;

/// Where blocked threads waited.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Ledger {
    /// Waits of programs' threads, nanoseconds: the sum of the classes.
    pub blocked_ns: u64,
    /// The share of it whose class is known; `None` without waits.
    pub explained_share: Option<f64>,
    /// Waits of the kernel's own threads, nanoseconds, which are not in the classes.
    pub kernel_threads_ns: u64,
    /// Waits that were open at the beginning or the end of the watch.
    pub censored_waits: u64,
    /// By class; the one with the most time first.
    pub classes: Vec<ClassRow>,
    /// The processes that waited longest.
    pub processes: Vec<ProcessLedger>,
    /// The time of each process, under whatever names, nanoseconds.
    #[serde(skip)]
    pub by_pid: BTreeMap<u32, u64>,
}

/// One class.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClassRow {
    /// Its word, as in the recording's `waits.class`.
    pub class: &'static str,
    /// Time of all threads, nanoseconds.
    pub time_ns: u64,
    /// Its share of all blocked time.
    pub time_share: f64,
    /// Number of waits that contain it.
    pub waits: u64,
    /// Its longest share of one wait, nanoseconds.
    pub longest_ns: u64,
    /// Who waited longest.
    pub most: Vec<LedgerWaiter>,
    /// The same by program: processes of one name together.
    pub programs: Vec<ProgramWaiter>,
    /// For `queue`, the process that most of it is charged to, if there is one.
    pub behind: Option<String>,
}

/// Who waited.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LedgerWaiter {
    /// The process.
    pub pid: u32,
    /// Its name.
    pub process: String,
    /// Time of its threads, nanoseconds.
    pub time_ns: u64,
}

/// The processes of one name that waited.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProgramWaiter {
    /// Their name.
    pub process: String,
    /// Their number.
    pub processes: u64,
    /// Time of all their threads, nanoseconds.
    pub time_ns: u64,
}

/// One process.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProcessLedger {
    /// The process.
    pub pid: u32,
    /// Its name.
    pub process: String,
    /// Blocked time of its threads, nanoseconds.
    pub time_ns: u64,
    /// Its waits.
    pub waits: u64,
    /// The same time by class.
    pub classes: Vec<(&'static str, u64)>,
}
