//! Rows of BCC's biotop: requests, bytes and mean time of a process on a disk, by the interval.
//!
//! What does not belong here: tables whose columns vary (see `rows`).

use super::columns::SECTOR;
use super::figures::{DAY_S, number, time_of_day};
use crate::book::CounterBook;
use iowhy_model::Metric;

/// The rows so far.
#[derive(Debug, Default)]
pub(super) struct BiotopRows {
    /// Its reports.
    reports: u64,
    /// The length of each as it says, seconds; 0 where it is not told.
    every_s: f64,
    /// The times of day before the reports: how many, the last one, and seconds from the first.
    times: u64,
    last_s: f64,
    passed_s: f64,
}

/// Whether a line is the header of a report.
pub(super) fn is_header(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    words.starts_with(&["PID", "COMM", "D", "MAJ", "MIN", "DISK"])
}

impl BiotopRows {
    /// Returns the length of all reports together, seconds.
    pub fn length_s(&self) -> f64 {
        self.reports as f64 * self.told_s().unwrap_or(super::figures::ASSUMED_S)
    }

    /// The length of a report as it says, or as the times before the reports tell.
    fn told_s(&self) -> Option<f64> {
        let of_times = || self.passed_s / self.times.saturating_sub(1).max(1) as f64;
        let told_s = if self.every_s > 0.0 { self.every_s } else { of_times() };
        (told_s > 0.0).then_some(told_s)
    }

    /// A sentence on the length that was assumed.
    pub fn limit(&self) -> Option<String> {
        (self.reports > 0 && self.told_s().is_none()).then(|| {
            "nothing tells how long a report of biotop is: it was taken for a second, and rates \
             may be wrong (two reports tell it)"
                .to_owned()
        })
    }

    /// `18:36:57 loadavg: 0.59 0.13 0.04 1/80 210`, before each report.
    fn time(&mut self, line: &str) -> Option<()> {
        let (time, rest) = time_of_day(line);
        let time = time.filter(|_| rest.starts_with("loadavg:"))?;
        if self.times > 0 {
            self.passed_s += (time - self.last_s).rem_euclid(DAY_S);
        }
        (self.times, self.last_s) = (self.times + 1, time);
        Some(())
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
        self.time(line).is_some() || self.reports > 0 && row(line, book).is_some()
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
    book.other(metric, format!("{pid} {}", name.join(" ")).trim_end(), bytes);
    Some(())
}
