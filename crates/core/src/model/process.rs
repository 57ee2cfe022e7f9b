//! The processes that were seen doing I/O.

use super::names::Name;
use crate::table;

table! {
    /// One row for each thread that was seen doing I/O, written when it was first seen; for the first thread of a process of which only counters told (table samples).
    pub struct Process in "processes" {
        pid: u32 [None] "The process (thread group).",
        tid: u32 [None] "The thread.",
        start_ns: u64 [Nanoseconds] "When the process started: with pid it tells apart two processes that shared a number; to a clock tick of those of which only counters told.",
        process: Name [None] "The process's name (its first thread's).",
        thread: Name [None] "The thread's name.",
        executable: Option<Name> [None] "The path of its executable; null for kernel threads.",
        arguments: Option<Name> [None] "Its command line; only with --args, since it may hold secrets.",
        parent_pid: u32 [None] "Its parent process.",
        user: Option<Name> [None] "The name of its user, or the number where there is no name.",
        cgroup: Option<Name> [None] "Its cgroup: the v2 path, or v1's blkio path.",
        container: Option<Name> [None] "The container or systemd unit derived from the cgroup.",
    }
}
