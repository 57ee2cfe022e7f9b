//! `pmrep`'s text and CSV: rates of PCP's metrics, a column for each metric and instance.
//!
//! What does not belong here: the metrics (see `json::pcp`).

use super::RowsOut;
use super::figures::{ReportClock, clock, number, time_alone};
use crate::book::CounterBook;
use crate::json::pcp;

/// Columns of one table that are kept.
const MOST_COLUMNS: usize = 4096;

/// A column: its metric, its instance, and the factor from its unit to PCP's.
#[derive(Clone, Debug)]
struct PmrepColumn {
    metric: &'static str,
    instance: String,
    factor: f64,
    /// The column at which it ends in the lines of the header.
    end: usize,
}

/// The table that is being read.
#[derive(Debug, Default)]
pub(super) struct PmrepText {
    /// The columns of the table; `None` stands for a metric that is not about storage.
    columns: Vec<Option<PmrepColumn>>,
    is_csv: bool,
    /// Lines of the header that follow: instances, then units.
    header_left: u8,
    /// Whether a row came before, so that the next one has rates.
    has_rates: bool,
}

/// Whether a line is the first of a header.
pub(super) fn is_header(line: &str) -> bool {
    line.starts_with("Time,\"")
        || named(line).is_some_and(|columns| columns.iter().any(Option::is_some))
}

/// The columns of a header like `d.d.read  d.d.read  m.u.free`; `None` if it is none.
fn named(line: &str) -> Option<Vec<Option<PmrepColumn>>> {
    let first = line.split_ascii_whitespace().next()?;
    if !first.contains('.') || !first.starts_with(|character: char| character.is_ascii_lowercase())
    {
        return None;
    }
    let words = ends(line);
    let is_name = |word: &str| {
        word.split('.').count() > 2
            && word.split('.').all(|part| !part.is_empty())
            && word.starts_with(|character: char| character.is_ascii_lowercase())
    };
    if words.is_empty()
        || words.len() > MOST_COLUMNS
        || !words.iter().all(|(word, _)| is_name(word))
    {
        return None;
    }
    let column = |(word, end): &(&str, usize)| {
        let metric =
            pcp::metrics().find(|metric| *metric == *word || abbreviated(metric) == *word)?;
        Some(PmrepColumn { metric, instance: String::new(), factor: 1.0, end: *end })
    };
    Some(words.iter().map(column).collect())
}

/// `d.d.read` of `disk.dev.read`.
fn abbreviated(metric: &str) -> String {
    let mut parts: Vec<&str> = metric.split('.').collect();
    let last = parts.pop().unwrap_or("");
    let mut short: String = parts
        .iter()
        .filter_map(|part| part.get(..1))
        .fold(String::new(), |text, letter| text + letter + ".");
    short.push_str(last);
    short
}

/// The words of a line with the places where they end.
fn ends(line: &str) -> Vec<(&str, usize)> {
    let mut at = 0;
    let mut words = Vec::new();
    for word in line.split(' ') {
        at += word.len() + 1;
        if !word.is_empty() {
            words.push((word, at - 1));
        }
    }
    words
}

impl PmrepText {
    /// Reads a line; false if it is none of a table of pmrep.
    pub fn line(
        &mut self,
        line: &str,
        clock: &mut ReportClock,
        book: &mut CounterBook,
        out: &mut RowsOut<'_>,
    ) -> bool {
        if let Some(rest) = line.strip_prefix("Time,") {
            self.columns = rest.split(',').take(MOST_COLUMNS).map(csv_column).collect();
            (self.is_csv, self.header_left) = (true, 0);
            return true;
        }
        if let Some(columns) = named(line).filter(|columns| columns.iter().any(Option::is_some)) {
            self.columns = columns;
            (self.is_csv, self.header_left) = (false, 2);
            return true;
        }
        if self.columns.is_empty() {
            return false;
        }
        if self.header_left > 0 {
            self.header_left -= 1;
            self.describe(line);
            return true;
        }
        self.row(line, clock, book, out).is_some()
    }

    /// A line of instances or of units below the names.
    fn describe(&mut self, line: &str) {
        let is_units = self.header_left == 0;
        for (word, end) in ends(line) {
            // Names and units are set flush right below the metric.
            let column = self.columns.iter_mut().flatten().find(|column| column.end == end);
            let Some(column) = column else { continue };
            match is_units {
                true => column.factor = factor(word),
                false => word.clone_into(&mut column.instance),
            }
        }
    }

    fn row(
        &mut self,
        line: &str,
        report: &mut ReportClock,
        book: &mut CounterBook,
        out: &mut RowsOut<'_>,
    ) -> Option<()> {
        let (words, time): (Vec<&str>, _) = if self.is_csv {
            let mut words = line.split(',');
            let time = words.next()?;
            (words.map(|word| word.trim_matches('"')).collect(), time_alone(time))
        } else {
            let mut words: Vec<&str> = line.split_whitespace().collect();
            let before = words.len().checked_sub(self.columns.len()).filter(|more| *more <= 2)?;
            let time = words.drain(..before).find_map(clock);
            (words, time)
        };
        let is_value = |word: &&str| *word == "N/A" || word.is_empty() || number(word).is_some();
        if words.len() != self.columns.len() || !words.iter().all(is_value) {
            return None;
        }
        if let Some(time) = time {
            report.at(time);
        }
        let has_all = words.iter().all(|word| number(word).is_some());
        let came_before = std::mem::replace(&mut self.has_rates, true);
        let has_rates = has_all || came_before;
        if !has_rates {
            // The first row has no rates, since no row is before it.
            return Some(());
        }
        let seconds = report.interval();
        book.advance(seconds);
        for (column, word) in self.columns.iter().zip(words) {
            if let (Some(column), Some(value)) = (column, number(word)) {
                pcp::take(column.metric, &column.instance, value * column.factor, seconds, book);
            }
        }
        book.sample(out.batch, out.names);
        Some(())
    }
}

/// `"disk.dev.read[sda]"`; older ones have `disk.dev.read-sda`.
fn csv_column(word: &str) -> Option<PmrepColumn> {
    let word = word.trim_matches('"');
    let metric = pcp::metrics()
        .filter(|metric| word.starts_with(metric))
        .max_by_key(|metric| metric.len())?;
    let instance = word.strip_prefix(metric)?;
    let is_whole = instance.is_empty() || instance.starts_with(['[', '-', ' ']);
    let instance = instance.trim_start_matches(['[', '-']).split([']', ' ']).next()?;
    is_whole.then(|| PmrepColumn { metric, instance: instance.to_owned(), factor: 1.0, end: 0 })
}

/// Returns the factor from a unit to PCP's own: of sizes KiB, of times milliseconds.
fn factor(unit: &str) -> f64 {
    match unit.split('/').next().unwrap_or("").to_ascii_lowercase().as_str() {
        "b" | "byte" => 1.0 / 1024.0,
        "mb" | "mbyte" => 1024.0,
        "gb" | "gbyte" => 1024.0 * 1024.0,
        "s" | "sec" => 1e3,
        "us" | "usec" => 1e-3,
        "ns" | "nanosec" => 1e-6,
        _ => 1.0,
    }
}
