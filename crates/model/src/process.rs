//! Processes that did I/O.

use super::names::Name;
use crate::table;

table! {
    /// One row for each thread that did I/O, written when it was first seen; for a process that is
    /// known from counters only (table samples), for its first thread.
    pub struct Process in "processes" {
        pid: u32 [None] "The process (thread group).",
        tid: u32 [None] "The thread.",
        start_ns: u64 [Nanoseconds] "When the process started: together with pid it identifies a \
                                     process whose PID was reused; with the resolution of a clock \
                                     tick for processes known from counters only.",
        process: Name [None] "The process's name (its first thread's).",
        thread: Name [None] "The thread's name.",
        executable: Option<Name> [None] "The path of its executable; null for kernel threads.",
        arguments: Option<Name> [None] "Its command line; only with --args, since it may hold \
                                        secrets.",
        parent_pid: u32 [None] "Its parent process.",
        user: Option<Name> [None] "The name of its user, or the number if there is no name.",
        io_class: Option<Name> [None] "The thread's I/O class and level, as ionice(1) has them: \
                                       idle, best-effort 7, realtime 0; also by its scheduling \
                                       policy, without a level. Null if it has none of its own, \
                                       or is known from counters only.",
        cgroup: Option<Name> [None] "Its cgroup: the v2 path, or v1's blkio path.",
        container: Option<Name> [None] "The container or systemd unit of the cgroup by its best \
                                        name: pod:NAMESPACE/POD/CONTAINER, docker:NAME, \
                                        jenkins.service; the beginning of its id if no name is \
                                        known.",
        pod: Option<Name> [None] "The Kubernetes pod, from files of the node; null outside a pod, \
                                  or if no file has its uid.",
        namespace: Option<Name> [None] "The pod's namespace.",
        container_name: Option<Name> [None] "The container's name, or the virtual machine's.",
        image: Option<Name> [None] "The image that the container was made from.",
        unit: Option<Name> [None] "The innermost systemd unit of the cgroup's path, or its slice \
                                   if it has none.",
    }
}
