//! The overhead of iowhy itself: its CPU time and memory, from /proc/self.

use super::cgroup::Roots;
use super::read_text;
use rustix::time::{ClockId, clock_gettime};

/// The use of CPU by this process so far.
#[derive(Clone, Copy, Debug)]
pub struct OwnUse {
    /// CPU time, ns.
    pub cpu_ns: u64,
    /// Time for which a limit of CPU time on the process's cgroup has throttled it, ns.
    pub throttled_ns: u64,
}

impl OwnUse {
    /// Reads both.
    pub fn now() -> OwnUse {
        OwnUse { cpu_ns: cpu_ns(), throttled_ns: Roots::find().own_throttled_ns() }
    }
}

/// CPU time of this process so far, ns.
pub fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    (time.tv_sec * 1_000_000_000 + time.tv_nsec) as u64
}

/// Resident anonymous memory of this process, bytes.
pub fn anonymous_bytes() -> u64 {
    anonymous_in(&read_text("/proc/self/status").unwrap_or_default())
}

/// Returns the resident anonymous memory of the process with this `status`, bytes.
pub fn anonymous_in(status: &str) -> u64 {
    let kilobytes = status.lines().find_map(|line| {
        line.strip_prefix("RssAnon:")?.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
    });
    kilobytes.unwrap_or(0) * 1024
}
