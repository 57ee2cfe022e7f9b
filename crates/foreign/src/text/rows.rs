//! Reports of tables: their beginning and end, and the length of their interval. Tables of one file
//! each have a timeline: `sar -A` prints a day of one table, then the same day of the next.
//!
//! What does not belong here: the meaning of columns (see `columns`), and rows that are requests
//! (see `requests`).

use super::RowsOut;
use super::columns::{TableRow, cpu};
use super::figures::{self, ReportClock, number, time_of_day};
use super::header::TableHeader;
use super::timeline::TableTimes;
use crate::book::CounterBook;
use crate::kind::ForeignKind;
use iowhy_model::figures::counted;
use std::collections::{BTreeMap, BTreeSet};

/// Rows of one report that are kept, and their bytes: three reports may be held at once.
const MOST_ROWS: usize = 16 << 10;
const MOST_HELD: usize = 16 << 20;
/// Bytes that a word takes in addition to its own.
const OF_WORD: usize = 48;

/// The report whose rows are being read.
#[derive(Debug, Default)]
pub(super) struct PendingReport {
    header: Option<TableHeader>,
    rows: Vec<Vec<String>>,
    /// Bytes of the rows.
    held: usize,
    /// The part of a table whose rows follow, if it has several.
    part: Option<TableHeader>,
    /// The first report of iostat and of vmstat, and the tools of which there were others.
    since_boot: BTreeMap<ForeignKind, SinceBoot>,
    /// The tools whose present run has had its first report.
    begun: BTreeSet<ForeignKind>,
    /// Whether it has had its first table of CPUs.
    has_cpu: bool,
    others: BTreeSet<ForeignKind>,
    /// The first table of CPUs, which is since boot if iostat's first report is.
    first_cpu: Option<SinceBoot>,
    is_first_left_out: bool,
    /// Runs whose first report was left out behind that of another run.
    firsts_left_out: u64,
    is_first_taken: bool,
    times: TableTimes,
    /// Whether times are those of minutes, and several reports have the same.
    is_coarse: bool,
    assumed: u64,
    left_out: u64,
}

/// The first report of iostat or vmstat, which is the mean since boot.
#[derive(Clone, Debug)]
struct SinceBoot {
    header: TableHeader,
    rows: Vec<Vec<String>>,
}

/// The time and the words of a row below a header. The columns of a row of sar are its last words,
/// whatever a locale writes before.
fn split_row(header: &TableHeader, line: &str) -> (Option<f64>, Vec<String>) {
    let has_mean = matches!(header.kind, ForeignKind::Sar | ForeignKind::Pidstat);
    let mean = figures::behind_mean(line).filter(|_| has_mean);
    let (mut time, rest) = mean.map_or_else(|| time_of_day(line), |rest| (None, rest));
    let mut words: Vec<String> = rest.split_whitespace().map(str::to_owned).collect();
    let width = header.columns.len();
    match header.kind {
        ForeignKind::Sar if words.len() > width && words.len() <= width + header.before => {
            words.drain(..words.len() - width);
        }
        ForeignKind::Pidstat => {
            // Behind a time of day it is a user's number.
            let first = words.first().filter(|_| time.is_none());
            let stamp = first.and_then(|word| figures::since_1970(word));
            let before = header.before + usize::from(stamp.is_some());
            if mean.is_none() {
                words.drain(..before.min(words.len()));
            }
            time = time.or(stamp);
            if words.len() > width {
                let command = words.split_off(width - 1).join(" ");
                words.push(command);
            }
        }
        // `-t` puts date and time behind.
        ForeignKind::Vmstat if words.len() > width => {
            let behind = words.split_off(width);
            return (behind.iter().find_map(|word| figures::clock(word)), words);
        }
        _ => {}
    }
    (time, words)
}

impl PendingReport {
    /// Begins the report of `header`, whose line may tell the time.
    pub fn begin(
        &mut self,
        header: &TableHeader,
        clock: &mut ReportClock,
        line: &str,
        book: &mut CounterBook,
        out: &mut RowsOut<'_>,
    ) {
        if self.widen(header) {
            return;
        }
        self.end_rows(clock, book, out);
        let time = time_of_day(line.trim_start_matches('#')).0;
        self.times.begin(header, time, clock, book);
        if let Some(time) = time {
            clock.at(time);
        }
        self.header = Some(header.clone());
    }

    /// Whether a header has further columns of the devices whose rows were read: with `--pretty`
    /// iostat shows reads, writes and the rest one below another.
    fn widen(&mut self, header: &TableHeader) -> bool {
        let Some(whole) = self.header.as_mut().filter(|_| !self.rows.is_empty()) else {
            return false;
        };
        if !header.continues(whole) {
            return false;
        }
        let width = whole.columns.len();
        self.rows.iter_mut().for_each(|row| row.resize(width, String::new()));
        let further = header.columns.iter().filter(|column| *column != "Device");
        whole.columns.extend(further.cloned());
        self.part = Some(header.clone());
        true
    }

    /// Adds a row of a further part to the device's row.
    fn add_to_row(&mut self, part: &TableHeader, words: Vec<String>) -> Option<()> {
        let whole = self.header.as_ref()?;
        let name = words.get(part.column(&["Device"])?)?;
        let at = whole.column(&["Device"])?;
        let row = self.rows.iter_mut().find(|row| row.get(at) == Some(name))?;
        let further = part.columns.iter().zip(&words).filter(|(column, _)| *column != "Device");
        row.extend(further.map(|(_, word)| word.clone()));
        Some(())
    }

    /// Takes a row; false if it is none of the table.
    pub fn row(
        &mut self,
        header: &TableHeader,
        line: &str,
        clock: &mut ReportClock,
        book: &mut CounterBook,
        out: &mut RowsOut<'_>,
    ) -> bool {
        let has_mean = matches!(header.kind, ForeignKind::Sar | ForeignKind::Pidstat);
        let is_mean = has_mean && figures::behind_mean(line).is_some();
        let (time, words) = split_row(header, line);
        let is_figure = |word: &&String| number(word).or(figures::human_bytes(word)).is_some();
        let figures = words.iter().filter(is_figure).count();
        if words.len() != header.columns.len() || figures * 2 < words.len() {
            return false;
        }
        if is_mean {
            return true;
        }
        self.header.get_or_insert_with(|| header.clone());
        if let Some(time) = time.filter(|_| !self.is_coarse) {
            self.meet(time, clock, book, out);
        }
        if self.is_repeated(header, &words) {
            self.is_coarse |= time.is_some_and(|time| time % 60.0 == 0.0);
            self.end_rows(clock, book, out);
            self.header = Some(header.clone());
        }
        if header.kind == ForeignKind::Vmstat {
            self.rows.push(words);
            self.end_rows(clock, book, out);
            self.header = Some(header.clone());
            return true;
        }
        if let Some(part) = self.part.take() {
            let is_taken = self.add_to_row(&part, words).is_some();
            self.left_out += u64::from(!is_taken);
            self.part = Some(part);
        } else if self.rows.len() < MOST_ROWS && self.held < MOST_HELD {
            self.held += words.iter().map(|word| word.len() + OF_WORD).sum::<usize>();
            self.rows.push(words);
        } else {
            self.left_out += 1;
        }
        true
    }

    /// Whether a row of sar is of the subject of the first one, so that the next report begins: the
    /// times of some locales have no seconds.
    fn is_repeated(&self, header: &TableHeader, words: &[String]) -> bool {
        let Some(first) = self.rows.first().filter(|_| header.kind == ForeignKind::Sar) else {
            return false;
        };
        // `--pretty` puts the device behind.
        header.column(&["DEV", "CPU"]).is_none_or(|at| first.get(at) == words.get(at))
    }

    /// A row's time: if it is another than that of the rows before, their report has ended.
    fn meet(
        &mut self,
        time: f64,
        clock: &mut ReportClock,
        book: &mut CounterBook,
        out: &mut RowsOut<'_>,
    ) {
        let header = self.header.clone();
        if clock.is_later(time) && !self.rows.is_empty() {
            self.end_rows(clock, book, out);
        }
        clock.at(time);
        self.header = header;
    }

    /// Adds the rows of the report to the book.
    pub fn end_rows(
        &mut self,
        clock: &mut ReportClock,
        book: &mut CounterBook,
        out: &mut RowsOut<'_>,
    ) {
        let rows = std::mem::take(&mut self.rows);
        (self.part, self.held) = (None, 0);
        let Some(header) = self.header.take().filter(|_| !rows.is_empty()) else { return };
        if header.is_cpu {
            return self.cpu(header, rows, book);
        }
        let has_first = matches!(header.kind, ForeignKind::Iostat | ForeignKind::Vmstat);
        if has_first && self.begun.insert(header.kind) {
            // The time between two runs is nobody's.
            clock.take_passed();
            let first = SinceBoot { header, rows };
            self.firsts_left_out += u64::from(self.since_boot.contains_key(&first.header.kind));
            self.since_boot.entry(first.header.kind).or_insert(first);
            return;
        }
        self.others.insert(header.kind);
        if self.is_coarse {
            clock.take_passed();
        }
        self.take(&header, &rows, clock.interval(), book);
        self.assumed += clock.take_assumed();
        book.sample(out.batch, out.names);
    }

    fn take(
        &mut self,
        header: &TableHeader,
        rows: &[Vec<String>],
        seconds: f64,
        book: &mut CounterBook,
    ) {
        book.table(self.times.id(header));
        book.advance(seconds);
        for words in rows {
            TableRow { header, words, seconds }.take(book);
        }
    }

    /// Ends the last report and begins another run of sysstat's tools, whose first report is a mean
    /// since boot, too.
    pub fn next_run(
        &mut self,
        clock: &mut ReportClock,
        book: &mut CounterBook,
        out: &mut RowsOut<'_>,
    ) {
        self.end_rows(clock, book, out);
        self.begun.remove(&ForeignKind::Iostat);
        self.has_cpu = false;
    }

    /// Ends the last report. If there is no other, the one since boot is used.
    pub fn finish(
        &mut self,
        clock: &mut ReportClock,
        book: &mut CounterBook,
        out: &mut RowsOut<'_>,
    ) {
        self.end_rows(clock, book, out);
        for (kind, first) in std::mem::take(&mut self.since_boot) {
            if self.others.contains(&kind) {
                self.is_first_left_out = true;
                continue;
            }
            self.is_first_taken = true;
            if let Some(SinceBoot { header, rows }) = self.first_cpu.take() {
                cpu(&header, &rows, figures::ASSUMED_S, book);
            }
            self.take(&first.header, &first.rows, figures::ASSUMED_S, book);
            book.sample(out.batch, out.names);
        }
    }

    /// A table of CPUs: its interval is that of the devices below it.
    fn cpu(&mut self, header: TableHeader, rows: Vec<Vec<String>>, book: &mut CounterBook) {
        if self.has_cpu {
            return cpu(&header, &rows, figures::ASSUMED_S, book);
        }
        self.has_cpu = true;
        self.first_cpu.get_or_insert(SinceBoot { header, rows });
    }

    /// Returns sentences on the limits of the reports.
    pub fn limits(&self) -> Vec<String> {
        let mut limits = Vec::new();
        if self.is_first_taken {
            limits.push(
                "its only report is usually the mean since boot: `iostat -x -t 1 10` shows what \
                 happens now"
                    .to_owned(),
            );
        }
        if self.is_first_left_out {
            limits.push("the first report, usually the mean since boot, was left out".to_owned());
        }
        if self.firsts_left_out > 0 {
            let meaning = "further runs whose first report, usually a mean since boot, was left \
                           out (of `iostat -y` it is none: give one run at a time)";
            limits.push(counted(self.firsts_left_out, meaning));
        }
        if self.assumed > 0 {
            let meaning = "intervals have no time in the text: with a second for each, rates are \
                           right, totals and its length may not be (`-t` adds the time)";
            limits.push(counted(self.assumed, meaning));
        }
        if self.left_out > 0 {
            limits.push(counted(self.left_out, "rows of very long reports were left out"));
        }
        limits
    }
}
