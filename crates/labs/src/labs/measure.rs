//! What one operation of a lab's load costs, by the kernel's own counters: once with the cause, once
//! after it was taken away. The difference is the impact that iowhy should find.

use crate::Result;
use crate::error::Context;
use crate::process;
use std::fs;
use std::time::Instant;

/// What counts as an operation, and which time is its cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Measure {
    /// Bytes of the watched device, of a load that sends the next when one is done: the time between them.
    Bytes,
    /// Requests of the watched device: the time that each takes.
    Requests,
    /// Faults of the load's mapped files: the time between them, less what its processes computed.
    Faults,
}

/// Fields of a device's counters (Documentation/block/stat.rst): sectors read and written; reads, writes,
/// discards and flushes; the milliseconds of each.
const SECTORS: &[usize] = &[2, 6];
const REQUESTS: &[usize] = &[0, 4, 11, 15];
const TIMES: &[usize] = &[3, 7, 14, 16];

/// The counters at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    at: Instant,
    operations: u64,
    /// CPU time of the load for faults; the requests' time for requests. Milliseconds.
    time_ms: f64,
}

impl Measure {
    /// Reads the counters of `device` or of the processes below `pids`.
    pub fn read(self, device: &str, pids: &[u32]) -> Result<Reading> {
        let at = Instant::now();
        let (operations, time_ms) = match self {
            Measure::Bytes => (sum_of(device, SECTORS)?, 0.0),
            Measure::Requests => (sum_of(device, REQUESTS)?, sum_of(device, TIMES)? as f64),
            Measure::Faults => faults(pids),
        };
        Ok(Reading { at, operations, time_ms })
    }

    /// What one operation cost between two readings, milliseconds; `None` without any.
    pub fn cost(self, before: &Reading, after: &Reading) -> Option<f64> {
        let operations =
            after.operations.checked_sub(before.operations).filter(|it| *it > 0)? as f64;
        let time = after.time_ms - before.time_ms;
        let whole = (after.at - before.at).as_secs_f64() * 1e3;
        Some(match self {
            Measure::Requests => time / operations,
            Measure::Bytes | Measure::Faults => (whole - time).max(0.0) / operations,
        })
    }
}

/// The sum of some fields of a device's counters.
fn sum_of(device: &str, fields: &[usize]) -> Result<u64> {
    let path = format!("/sys/block/{device}/stat");
    let text = fs::read_to_string(&path).context(|| format!("read {path}"))?;
    let values: Vec<u64> = text.split_whitespace().filter_map(|it| it.parse().ok()).collect();
    Ok(fields.iter().map(|at| values.get(*at).copied().unwrap_or(0)).sum())
}

/// Major faults of these processes, and their CPU time.
fn faults(pids: &[u32]) -> (u64, f64) {
    let each =
        pids.iter().filter_map(|pid| Some((process::major_faults(*pid)?, process::cpu_ms(*pid)?)));
    each.fold((0, 0.0), |sum, it| (sum.0 + it.0, sum.1 + it.1))
}
