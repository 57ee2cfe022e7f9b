//! Single opens of files, while a watch runs. Recordings have their counts (see [`super::file`]).

use super::names::Name;

/// A call that opened a file, or failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Open {
    /// Time at which the call ended, CLOCK_MONOTONIC nanoseconds.
    pub time_ns: u64,
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// The process's name, if it is known.
    pub process: Option<Name>,
    /// The path as seen from the root mount; as the program passed it if its beginning is not
    /// known.
    pub file: Name,
    /// The disk that its file system is on; `None` if it is on none, on several, or not known.
    pub device: Option<Name>,
    /// The descriptor; `None` if it failed.
    pub fd: Option<u32>,
    /// The error number; `None` if it succeeded.
    pub error: Option<u32>,
    /// Duration of the call, nanoseconds; `None` if it was not timed.
    pub duration_ns: Option<u64>,
}
