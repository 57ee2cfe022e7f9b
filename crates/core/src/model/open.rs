//! Single opens of files, while a watch runs. Recordings have their counts (see [`super::file`]).

use super::names::Name;

/// A call that opened a file, or failed to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Open {
    /// When it ended, CLOCK_MONOTONIC nanoseconds.
    pub time_ns: u64,
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// The process's name, where it is known.
    pub process: Option<Name>,
    /// The path as seen from the root mount; as the program gave it where its beginning is not known.
    pub file: Name,
    /// The descriptor; `None` where it failed.
    pub fd: Option<u32>,
    /// The number of the error; `None` where it worked.
    pub error: Option<u32>,
    /// How long it took, nanoseconds; `None` where it was not timed.
    pub duration_ns: Option<u64>,
}
