//! fio's logs: a line for each request, or a mean for each interval (`log_avg_msec`).
//!
//! | log | rows of requests | rows of means |
//! |---|---|---|
//! | `--write_lat_log` | sizes and latencies | mean latency |
//! | `--write_bw_log`, `--write_iops_log` | sizes | bytes, or requests, per second |
//!
//! The rows tell neither which of the three it is, nor the device: the file's name does. No memory
//! grows with the file.
//!
//! What does not belong here: fio's JSON (see [`crate::json`]) and the I/O logs that fio replays.

use crate::book::{BEGIN_NS, CounterBook};
use crate::kind::ForeignKind;
use crate::text::RowsOut;
use iowhy_model::figures::{counted, three};
use iowhy_model::{Environment, Operation, Request, Status};

/// The device that the rows are of: a log does not name it.
const DEVICE: &str = "fio";
/// Bytes of a sector.
const SECTOR: u64 = 512;
/// Sectors of a KiB, the unit of bandwidth.
const KIB_SECTORS: f64 = 2.0;
/// The columns of requests and of sectors of reads, writes and discards, as in `/proc/diskstats`.
const COLUMNS: [[usize; 2]; 3] = [[0, 2], [4, 6], [11, 13]];

/// Reads the rows of a log.
#[derive(Debug)]
pub struct FioLog {
    kind: ForeignKind,
    rows: u64,
    skipped: u64,
    /// Rows without a size, which are means over an interval.
    means: u64,
    end_ns: u64,
    /// The time of the last mean of each direction, and the mean latencies so far.
    last_ns: [u64; 3],
    latencies: [MeanLatencies; 3],
}

/// Mean latencies of one direction's intervals.
#[derive(Clone, Copy, Debug, Default)]
struct MeanLatencies {
    intervals: u64,
    sum_ns: u64,
    max_ns: u64,
}

/// `1000, 2628, 0, 4096, 0, 0`: ms, value, direction, size, then offset and priority.
struct FioRow {
    ended_ns: u64,
    value: u64,
    /// 0 for reads, 1 for writes, 2 for discards.
    direction: usize,
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
        let direction = usize::try_from(number(2)?).ok().filter(|index| *index < COLUMNS.len())?;
        let ended_ns = BEGIN_NS.saturating_add(number(0)?.saturating_mul(1_000_000));
        let (bytes, offset) = (number(3)?, number(4).unwrap_or(0));
        Some(FioRow { ended_ns, value: number(1)?, direction, bytes, offset })
    }
}

/// The kind of a log of this name; fio puts the number of the job behind.
pub fn kind_of_name(name: &str) -> Option<ForeignKind> {
    let stem = name.strip_suffix(".log")?;
    let stem =
        stem.trim_end_matches(|character: char| character.is_ascii_digit()).trim_end_matches('.');
    match stem.rsplit_once('_')?.1 {
        "lat" | "clat" => Some(ForeignKind::FioLatLog),
        "bw" => Some(ForeignKind::FioBwLog),
        "iops" => Some(ForeignKind::FioIopsLog),
        _ => None,
    }
}

/// Whether a kind is one of fio's logs.
pub const fn is_log(kind: ForeignKind) -> bool {
    use ForeignKind::{FioBwLog, FioIopsLog, FioLatLog};
    matches!(kind, FioLatLog | FioBwLog | FioIopsLog)
}

impl FioLog {
    /// Reads a log of this kind.
    pub fn new(kind: ForeignKind) -> FioLog {
        let (last_ns, latencies) = ([BEGIN_NS; 3], [MeanLatencies::default(); 3]);
        FioLog { kind, rows: 0, skipped: 0, means: 0, end_ns: BEGIN_NS, last_ns, latencies }
    }

    /// Reads a line.
    pub fn line(&mut self, line: &str, book: &mut CounterBook, out: &mut RowsOut<'_>) {
        let Some(row) = FioRow::new(line) else {
            self.skipped += u64::from(!line.trim().is_empty());
            return;
        };
        self.rows += 1;
        self.means += u64::from(row.bytes == 0);
        match (self.kind, row.bytes) {
            (ForeignKind::FioLatLog, 0) => self.latencies[row.direction].add(row.value),
            (ForeignKind::FioLatLog, _) => self.request(&row, out),
            (_, 0) => self.rate(&row, book, out),
            _ => self.size(&row, book, out),
        }
        self.end_ns = self.end_ns.max(row.ended_ns);
    }

    fn request(&self, row: &FioRow, out: &mut RowsOut<'_>) {
        let (operation, rwbs) = match row.direction {
            0 => (Operation::Read, "R"),
            1 => (Operation::Write, "W"),
            _ => (Operation::Discard, "D"),
        };
        let latency_ns = row.value.min(row.ended_ns);
        out.batch.requests.push(Request {
            request_id: self.rows,
            status: Status::Complete,
            start_ns: row.ended_ns - latency_ns,
            q2c_ns: Some(latency_ns),
            sector: row.offset / SECTOR,
            bytes: row.bytes,
            operation,
            ..Request::blank(out.names.intern(DEVICE), out.names.intern(rwbs))
        });
    }

    /// A mean rate, since the last one of its direction.
    fn rate(&mut self, row: &FioRow, book: &mut CounterBook, out: &mut RowsOut<'_>) {
        let last_ns = std::mem::replace(&mut self.last_ns[row.direction], row.ended_ns);
        // The rows of the next job begin at zero again.
        let since_ns = row.ended_ns.checked_sub(last_ns).unwrap_or(row.ended_ns - BEGIN_NS);
        let grown = row.value as f64 * since_ns as f64 / 1e9;
        let [requests, sectors] = COLUMNS[row.direction];
        let grown = match self.kind {
            ForeignKind::FioBwLog => (sectors, grown * KIB_SECTORS),
            _ => (requests, grown),
        };
        self.grow(row, &[grown], book, out);
    }

    /// A request, of which a log of bandwidth or of requests per second tells the size.
    fn size(&mut self, row: &FioRow, book: &mut CounterBook, out: &mut RowsOut<'_>) {
        let [requests, sectors] = COLUMNS[row.direction];
        let moved = row.bytes as f64 / SECTOR as f64;
        self.grow(row, &[(requests, 1.0), (sectors, moved)], book, out);
    }

    fn grow(
        &self,
        row: &FioRow,
        grown: &[(usize, f64)],
        book: &mut CounterBook,
        out: &mut RowsOut<'_>,
    ) {
        if row.ended_ns > self.end_ns {
            // A request at the beginning has no time before it, and counts with the next.
            if book.now_ns() > BEGIN_NS {
                book.sample(out.batch, out.names);
            }
            book.advance((row.ended_ns - self.end_ns) as f64 / 1e9);
        }
        book.add(DEVICE, grown);
    }

    /// Ends the log.
    ///
    /// # Errors
    /// Fails if no line is a row of fio's logs.
    pub fn finish(
        &mut self,
        book: &mut CounterBook,
        environment: &mut Environment,
        out: &mut RowsOut<'_>,
    ) -> Result<(), String> {
        if self.rows == 0 {
            return Err("none of its lines is a row of fio's logs".to_owned());
        }
        book.sample(out.batch, out.names);
        let limits = &mut environment.limits;
        limits.push(match self.kind {
            ForeignKind::FioLatLog => {
                "latencies are those that fio saw, from its call to the completion, in \
                 nanoseconds as fio 3 writes them; a log of fio does not name its device"
                    .to_owned()
            }
            _ => "a log of fio does not name its device".to_owned(),
        });
        let names = ["reads", "writes", "discards"];
        limits.extend(names.iter().zip(&self.latencies).filter_map(|(name, mean)| mean.said(name)));
        let means = match self.kind {
            ForeignKind::FioLatLog => {
                "rows are means of an interval: how many requests there were is not told"
            }
            _ => "rows are means of an interval",
        };
        for (count, what) in [
            (self.means, means),
            (self.skipped, "lines are no rows of fio's logs, and were skipped"),
        ] {
            if count > 0 {
                limits.push(counted(count, what));
            }
        }
        (environment.start_ns, environment.end_ns) = (BEGIN_NS, self.end_ns);
        Ok(())
    }
}

impl MeanLatencies {
    fn add(&mut self, mean_ns: u64) {
        self.intervals += 1;
        self.sum_ns = self.sum_ns.saturating_add(mean_ns);
        self.max_ns = self.max_ns.max(mean_ns);
    }

    /// A sentence on them; nothing without an interval.
    fn said(&self, name: &str) -> Option<String> {
        let mean_ns = self.sum_ns.checked_div(self.intervals)?;
        let (mean, most) = (three(mean_ns as f64 / 1e6), three(self.max_ns as f64 / 1e6));
        let meaning = format!(
            "intervals of {name}: {mean} ms is the mean of their means, {most} ms the highest"
        );
        Some(counted(self.intervals, &meaning))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_what_a_log_holds() {
        use ForeignKind::{FioBwLog, FioIopsLog, FioLatLog};
        for (name, kind) in [
            ("a_lat.1.log", Some(FioLatLog)),
            ("nvme_clat.12.log", Some(FioLatLog)),
            ("a_lat.log", Some(FioLatLog)),
            ("a_bw.1.log", Some(FioBwLog)),
            ("a_iops.1.log", Some(FioIopsLog)),
            ("a_slat.1.log", None),
            ("lat.txt", None),
            ("flat.log", None),
        ] {
            assert_eq!(kind_of_name(name), kind, "{name}");
        }
    }
}
