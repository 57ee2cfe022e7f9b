//! Counters read at intervals.

use super::block::words;
use super::names::Name;
use crate::table;

words! {
    /// The scope of a counter.
    pub enum Scope {
        /// The whole machine.
        System = "system",
        /// A block device.
        Device = "device",
        /// A process.
        Process = "process",
        /// A cgroup.
        Cgroup = "cgroup",
    }
}

table! {
    /// One row for each counter and time, about once a second: when it is first read, whenever its
    /// value has changed, and before a change with the old value.
    pub struct Sample in "samples" {
        time_ns: u64 [Nanoseconds] "The time of the reading.",
        scope: Scope [None] "The scope: system, device, process or cgroup.",
        subject: Name [None] "The device, process (PID, space, name) or cgroup; empty for the \
                              system.",
        metric: Name [None] "The counter, with the kernel's name; all of them are listed below.",
        value: f64 [None] "Its value in the metric's unit; cumulative if the kernel's counter is.",
    }
}
