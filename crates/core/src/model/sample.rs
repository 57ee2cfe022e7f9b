//! Counters read at intervals.

use super::block::words;
use super::names::Name;
use crate::table;

words! {
    /// What a counter is about.
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
    /// One row for each counter and time, about once a second: when it is first read, whenever its value has changed, and before a change what it was until then.
    pub struct Sample in "samples" {
        time_ns: u64 [Nanoseconds] "When it was read.",
        scope: Scope [None] "What it is about: system, device, process or cgroup.",
        subject: Name [None] "Which device, process (number, space, name) or cgroup; empty for the system.",
        metric: Name [None] "Which counter, in the kernel's own words; all of them stand below.",
        value: f64 [None] "Its value in the metric's unit, cumulative where the kernel's is.",
    }
}
