//! Rows of BCC's biotop: requests, bytes and mean time of a process on a disk, by the interval.
//!
//! What does not belong here: tables whose columns vary (see `rows`).

use super::columns::SECTOR;
use super::figures::number;
use crate::book::CounterBook;
use iowhy_core::model::Metric;

/// The rows so far.
#[derive(Debug, Default)]
pub(super) struct BiotopRows {
    /// Its reports.
    reports: u64,
    /// The length of each, seconds; 0 where it is not told.
    every_s: f64,
}

/// Whether a line is the header of a report.
pub(super) fn is_header(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    words.starts_with(&["PID", "COMM", "D", "MAJ", "MIN", "DISK"])
}

impl BiotopRows {
    /// Returns the length of all reports together, seconds.
    pub fn length_s(&self) -> f64 {
        let every_s = if self.every_s > 0.0 { self.every_s } else { super::figures::ASSUMED_S };
        self.reports as f64 * every_s
    }

    /// Reads a line; false if it is none of biotop.
    pub fn line(&mut self, line: &str, book: &mut CounterBook) -> bool {
        if is_header(line) {
            self.reports += 1;
            return true;
        }
        if let Some(rest) = line.trim_start().strip_prefix("Tracing... Output every ") {
            self.every_s = rest.split_whitespace().next().and_then(number).unwrap_or(0.0).max(0.0);
            return true;
        }
        self.reports > 0 && row(line, book).is_some()
    }
}

/// `14501  cksum            R 202 1   xvda1      361   28832   3.39`; a name may hold blanks.
fn row(line: &str, book: &mut CounterBook) -> Option<()> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [pid, name @ .., way, major, minor, disk, requests, kib, mean_ms] = &words[..] else {
        return None;
    };
    pid.parse::<u32>().ok()?;
    let (first, metric) = match *way {
        "R" => (0, Metric::CausedRead),
        "W" => (4, Metric::CausedWrite),
        _ => return None,
    };
    let told = |word: &str| number(word).filter(|number| *number >= 0.0);
    let (requests, bytes) = (told(requests)?, told(kib)? * 1024.0);
    let wait_ms = told(mean_ms)? * requests;
    let disk = if *disk == "?" { format!("{major}:{minor}") } else { (*disk).to_owned() };
    book.add(&disk, &[(first, requests), (first + 2, bytes / SECTOR), (first + 3, wait_ms)]);
    book.number(&disk, (major.parse().ok()?, minor.parse().ok()?));
    book.other(metric, &format!("{pid} {}", name.join(" ")), bytes);
    Some(())
}
