//! Wait chains in a summary.
//!
//! What does not belong here: how chains are merged (`waits::chains`).

use super::Work;
use serde::Serialize;

/// Wait chains.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChainReport {
    /// Sleep of all threads that another thread woke, while that thread waited for storage,
    /// nanoseconds. It is not part of the ledger's blocked time, which contains the wait that all
    /// of them waited for.
    pub time_ns: u64,
    /// Number of these threads.
    pub threads: u64,
    /// The chains; the one with the most time first.
    pub rows: Vec<ChainRow>,
    /// Time of chains that are not listed, nanoseconds.
    pub further_ns: u64,
}

/// Chains of the same threads with the same end.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChainRow {
    /// How long the first threads waited while the last waited for storage, nanoseconds.
    pub time_ns: u64,
    /// Their total sleep, nanoseconds.
    pub slept_ns: u64,
    /// The longest of these times, nanoseconds.
    pub longest_ns: u64,
    /// Number of sleeps.
    pub sleeps: u64,
    /// Sleeps that were open at the beginning or the end of the watch: their times are lower
    /// bounds.
    pub censored_sleeps: u64,
    /// The last threads' waits for storage meanwhile.
    pub waits: u64,
    /// Whether the first threads' sleeps are waits for storage themselves (a lock of a file system,
    /// a journal), so that the ledger holds their time.
    pub is_in_ledger: bool,
    /// The threads by hop: those that slept, those that they waited for, and so on.
    pub steps: Vec<ChainStep>,
    /// What the last waited for.
    pub class: &'static str,
    /// Its device, if it is known.
    pub device: Option<String>,
    /// Its files with the most time, nanoseconds.
    pub files: Vec<(String, u64)>,
    /// The kernel stack of the last's waits with the most time, innermost function first.
    pub kernel_stack: Vec<String>,
}

/// Threads at one hop of a chain.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChainStep {
    /// How it is known that the previous threads waited for these: woken, owner, likely; `None` for
    /// the first.
    pub known_by: Option<&'static str>,
    /// The process; of several of one name, the one with the most time.
    pub pid: u32,
    /// How many processes.
    pub processes: u64,
    /// Its name.
    pub process: String,
    /// For whom that process works; `None` if it is not known.
    pub work: Option<Work>,
    /// The file whose lock they slept for, or asked for again and again.
    pub lock: Option<String>,
    /// The threads' name, digits as `*`.
    pub thread: String,
    /// How many threads.
    pub threads: u64,
    /// The thread id, if it is a single thread.
    pub tid: Option<u32>,
    /// The number of the system call that they slept in.
    pub syscall: Option<u32>,
    /// Their user stack with the most time, innermost function first; empty if none was taken.
    pub user_stack: Vec<String>,
    /// Whether that stack reaches its root; `None` if none was taken.
    pub user_stack_complete: Option<bool>,
    /// Why it does not; `None` if it does.
    pub user_stack_reason: Option<String>,
    /// How it was unwound: by `frame pointers` or `.eh_frame`; `None` where not known.
    pub user_stack_unwound_by: Option<String>,
}
