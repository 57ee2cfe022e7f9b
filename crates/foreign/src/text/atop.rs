//! Lines of `atop -P`: label, host, time, interval, and figures that grew in that interval.
//!
//! What does not belong here: atop's JSON (see [`crate::json`]), and its binary files, which
//! `atop -r FILE -P ALL` prints.

use super::RowsOut;
use crate::book::CounterBook;
use iowhy_model::{Environment, Metric};

/// Labels that tell of storage.
const LABELS: &[&str] = &["CPU", "MEM", "PAG", "DSK", "LVM", "MDD", "PRD"];
/// Words before the figures: label, host, seconds since 1970, date, time, interval.
const BEFORE: usize = 6;
/// An interval that is longer is the time since boot, seconds.
const LONGEST_S: f64 = 86_400.0;

/// The lines so far.
#[derive(Debug, Default)]
pub(super) struct AtopLines {
    /// The end of the interval whose lines are read, seconds since 1970.
    time_s: f64,
    /// The lines are of the time since boot: behind RESET.
    is_since_boot: bool,
    intervals: u64,
    left_out: u64,
}

/// A line's label, time, interval and figures.
struct AtopLine<'a> {
    label: &'a str,
    host: &'a str,
    time_s: f64,
    interval_s: f64,
    words: Vec<&'a str>,
}

impl<'a> AtopLine<'a> {
    fn new(line: &'a str) -> Option<AtopLine<'a>> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [label, host, time, date, clock, interval, ..] = words[..] else { return None };
        let is_one = LABELS.contains(&label)
            && date.len() == 10
            && date.matches('/').count() == 2
            && clock.matches(':').count() == 2;
        is_one.then_some(())?;
        Some(AtopLine {
            label,
            host,
            time_s: time.parse::<u64>().ok()? as f64,
            interval_s: interval.parse::<u64>().ok()? as f64,
            words: words[BEFORE..].to_vec(),
        })
    }

    fn number(&self, at: usize) -> Option<f64> {
        self.words.get(at)?.parse().ok()
    }
}

/// Whether a line is one of `atop -P`.
pub(super) fn is_line(line: &str) -> bool {
    AtopLine::new(line).is_some()
}

impl AtopLines {
    /// Reads a line; false if it is none.
    pub fn line(
        &mut self,
        line: &str,
        book: &mut CounterBook,
        environment: &mut Environment,
        out: &mut RowsOut<'_>,
    ) -> bool {
        match line {
            "RESET" => self.is_since_boot = true,
            "SEP" => {
                if !self.is_since_boot && self.intervals > 0 {
                    book.sample(out.batch, out.names);
                }
                self.is_since_boot = false;
            }
            _ => {
                let Some(line) = AtopLine::new(line) else { return false };
                if environment.host.is_empty() {
                    line.host.clone_into(&mut environment.host);
                }
                if self.is_since_boot || line.interval_s > LONGEST_S {
                    self.left_out += 1;
                    return true;
                }
                if line.time_s > self.time_s {
                    self.time_s = line.time_s;
                    self.intervals += 1;
                    book.advance(line.interval_s);
                }
                take(&line, book);
            }
        }
        true
    }

    /// Whether there were intervals.
    pub fn finish(&self, book: &mut CounterBook, out: &mut RowsOut<'_>) -> Option<String> {
        if self.intervals > 0 {
            book.sample(out.batch, out.names);
        }
        (self.left_out > 0 && self.intervals == 0)
            .then(|| "its only sample is the time since boot: `atop -P ALL 10 6`".to_owned())
    }
}

fn take(line: &AtopLine<'_>, book: &mut CounterBook) {
    match line.label {
        "DSK" | "LVM" | "MDD" => disk(line, book),
        "CPU" => {
            let tick_ns = 1e9 / line.number(0).filter(|hertz| *hertz > 0.0).unwrap_or(100.0);
            for (at, metric) in [
                (2, Metric::CpuSystem),
                (3, Metric::CpuUser),
                (4, Metric::CpuUser),
                (5, Metric::CpuIdle),
                (6, Metric::CpuIoWait),
                (7, Metric::CpuSystem),
                (8, Metric::CpuSystem),
                (9, Metric::CpuSteal),
            ] {
                if let Some(ticks) = line.number(at) {
                    book.other(metric, "", ticks * tick_ns);
                }
            }
        }
        "MEM" => paged(line, &[(2, Metric::MemoryFree), (3, Metric::Cached)], book),
        "PAG" => paged(line, &[(4, Metric::SwappedIn), (5, Metric::SwappedOut)], book),
        "PRD" => process(line, book),
        _ => {}
    }
}

/// Figures in pages, whose size is the first.
fn paged(line: &AtopLine<'_>, columns: &[(usize, Metric)], book: &mut CounterBook) {
    let Some(page) = line.number(0) else { return };
    for (at, metric) in columns {
        if let Some(pages) = line.number(*at) {
            book.other(*metric, "", pages * page);
        }
    }
}

/// Name, busy ms, reads, their sectors, writes, theirs, discards, theirs, in flight, mean depth.
fn disk(line: &AtopLine<'_>, book: &mut CounterBook) {
    let Some(name) = line.words.first() else { return };
    let name = name.trim_start_matches("/dev/");
    let mut grown = Vec::new();
    for (at, column) in [(1, 9), (2, 0), (3, 2), (4, 4), (5, 6), (6, 11), (7, 13)] {
        grown.extend(line.number(at).map(|value| (column, value)));
    }
    // The last is the mean depth while it was busy.
    let depth = line.number(9).zip(line.number(1)).map(|(depth, busy_ms)| depth * busy_ms);
    grown.extend(depth.map(|queued_ms| (10, queued_ms)));
    let requests = line.number(2).zip(line.number(4)).map(|(a, b)| a + b);
    book.add(name, &grown);
    if let Some(requests) = requests {
        book.undirected(name, requests, depth);
    }
}

/// PID, name in brackets, state, two marks, reads, sectors, writes, sectors, cancelled sectors.
fn process(line: &AtopLine<'_>, book: &mut CounterBook) {
    let Some(pid) = line.words.first() else { return };
    let Some(end) = line.words.iter().position(|word| word.ends_with(')')) else { return };
    let name = line.words[1..=end].join(" ");
    let subject = format!("{pid} {}", name.trim_matches(['(', ')']));
    let figures: Vec<f64> =
        line.words[end + 1..].iter().skip(3).map_while(|word| word.parse().ok()).collect();
    for (at, metric) in
        [(1, Metric::CausedRead), (3, Metric::CausedWrite), (4, Metric::CancelledWrite)]
    {
        if let Some(sectors) = figures.get(at).filter(|figure| **figure > 0.0) {
            book.other(metric, &subject, sectors * 512.0);
        }
    }
}
