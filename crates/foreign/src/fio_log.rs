//! fio's `--write_lat_log`: a line for each request, with the latency that fio saw.
//!
//! Its logs of bandwidth and of requests per second, and logs of means (`log_avg_msec`), tell
//! neither latencies nor sizes of requests, and are refused. Only their names distinguish them.
//! No memory grows with the file.
//!
//! What does not belong here: fio's JSON (see [`crate::json`]) and its log of what to do, which fio
//! replays.

use crate::book::BEGIN_NS;
use crate::text::RowsOut;
use iowhy_core::figures::counted;
use iowhy_core::model::{Environment, Operation, Request, Status};

/// The device that the rows are of: a log does not name it.
const DEVICE: &str = "fio";
/// Bytes of a sector.
const SECTOR: u64 = 512;

/// Reads the rows of a log.
#[derive(Debug, Default)]
pub struct FioLog {
    rows: u64,
    skipped: u64,
    /// Rows without a size, which are means over an interval.
    means: u64,
    end_ns: u64,
}

/// `1000, 2628, 0, 4096, 0, 0`: ms, ns, direction, size, then offset and priority.
struct FioRow {
    ended_ns: u64,
    latency_ns: u64,
    operation: Operation,
    rwbs: &'static str,
    bytes: u64,
    offset: u64,
}

impl FioRow {
    fn new(line: &str) -> Option<FioRow> {
        let words: Vec<&str> = line.split(',').map(str::trim).collect();
        if !(4..=7).contains(&words.len()) {
            return None;
        }
        let number = |at: usize| words.get(at)?.parse::<u64>().ok();
        let (operation, rwbs) = match number(2)? {
            0 => (Operation::Read, "R"),
            1 => (Operation::Write, "W"),
            2 => (Operation::Discard, "D"),
            _ => return None,
        };
        let ended_ns = BEGIN_NS.saturating_add(number(0)?.saturating_mul(1_000_000));
        let latency_ns = number(1)?.min(ended_ns);
        let (bytes, offset) = (number(3)?, number(4).unwrap_or(0));
        Some(FioRow { ended_ns, latency_ns, operation, rwbs, bytes, offset })
    }
}

/// Whether a log of this name holds latencies.
pub fn is_of_latencies(name: &str) -> bool {
    let Some(stem) = name.strip_suffix(".log") else { return false };
    // fio puts the number of the job behind.
    let stem = stem.trim_end_matches(|it: char| it.is_ascii_digit()).trim_end_matches('.');
    stem.ends_with("_lat") || stem.ends_with("_clat")
}

impl FioLog {
    /// Reads a line.
    pub fn line(&mut self, line: &str, out: &mut RowsOut<'_>) {
        let Some(row) = FioRow::new(line) else {
            self.skipped += u64::from(!line.trim().is_empty());
            return;
        };
        self.rows += 1;
        self.end_ns = self.end_ns.max(row.ended_ns);
        if row.bytes == 0 {
            self.means += 1;
            return;
        }
        out.batch.requests.push(Request {
            request_id: self.rows,
            status: Status::Complete,
            start_ns: row.ended_ns - row.latency_ns,
            q2c_ns: Some(row.latency_ns),
            sector: row.offset / SECTOR,
            bytes: row.bytes,
            operation: row.operation,
            ..Request::blank(out.names.intern(DEVICE), out.names.intern(row.rwbs))
        });
    }

    /// Ends the log.
    ///
    /// # Errors
    /// Why it tells nothing.
    pub fn finish(&mut self, environment: &mut Environment) -> Result<(), String> {
        if self.rows == 0 {
            return Err("none of its lines is a row of fio's logs".to_owned());
        }
        if self.means == self.rows {
            return Err("its rows are means over intervals (log_avg_msec, or a log of bandwidth \
                        or requests per second) and tell of no request"
                .to_owned());
        }
        environment.limits.push(
            "latencies are those that fio saw, from its call to the completion, in nanoseconds \
             as fio 3 writes them; a log of fio does not name its device"
                .to_owned(),
        );
        for (count, what) in [
            (self.means, "rows are means without a size, and were left out"),
            (self.skipped, "lines are no rows of fio's logs, and were skipped"),
        ] {
            if count > 0 {
                environment.limits.push(counted(count, what));
            }
        }
        (environment.start_ns, environment.end_ns) = (BEGIN_NS, self.end_ns);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_what_a_log_holds() {
        for name in ["a_lat.1.log", "nvme_clat.12.log", "a_lat.log"] {
            assert!(is_of_latencies(name), "{name}");
        }
        for name in ["a_bw.1.log", "a_iops.1.log", "a_slat.1.log", "lat.txt", "flat.log"] {
            assert!(!is_of_latencies(name), "{name}");
        }
    }
}
