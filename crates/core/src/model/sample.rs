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
    /// One row for each counter and time.
    pub struct Sample in "samples" {
        time_ns: u64 [Nanoseconds] "When it was read.",
        scope: Scope [None] "What it is about: system, device, process or cgroup.",
        subject: Name [None] "Which device, process or cgroup; empty for the system.",
        metric: Name [None] "Which counter, in the kernel's own words.",
        value: f64 [None] "Its value, cumulative where the kernel's is.",
    }
}
