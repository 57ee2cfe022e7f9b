//! Tables whose lines a mail program or `fold` wrapped: their headers and rows, joined again. Rows
//! are only joined below a header that was wrapped, as they are as long as it is.
//!
//! What does not belong here: the meaning of columns (see `columns`).

use super::figures::{ends_with_number, human_bytes, number, time_of_day};
use super::header::{OF_SAR, TableHeader};
use crate::kind::ForeignKind;

/// Lines that one line was wrapped into at most.
const MOST_PARTS: u32 = 8;
/// Columns of devices, by which a name that was cut in two is known.
const OF_DEVICES: &[&str] = &[
    "tps", "r/s", "rkB/s", "rMB/s", "rsec/s", "rrqm/s", "%rrqm", "r_await", "rareq-sz", "w/s",
    "wkB/s", "wMB/s", "wsec/s", "wrqm/s", "%wrqm", "w_await", "wareq-sz", "d/s", "dkB/s", "dMB/s",
    "dsec/s", "drqm/s", "%drqm", "d_await", "dareq-sz", "f/s", "f_await", "areq-sz", "aqu-sz",
    "avgrq-sz", "avgqu-sz", "await", "svctm", "%util",
];

/// The line that may go on in the next one.
#[derive(Debug, Default)]
pub(super) struct WrappedLines {
    held: String,
    parts: u32,
    is_header: bool,
    /// The columns of the table, if its header was wrapped; else 0.
    columns: usize,
}

impl WrappedLines {
    /// Returns the lines that are whole with this one: none if it may go on, two if the one before
    /// it does not.
    pub fn take(&mut self, line: &str) -> [Option<String>; 2] {
        let is_more = self.parts > 0 && self.parts < MOST_PARTS;
        if is_more && self.is_header && is_part_of_header(&self.held, line) {
            self.held = joined(&self.held, line, |cut| OF_DEVICES.contains(&&*cut.concat()));
            self.parts += 1;
            return [None, None];
        }
        if is_more && !self.is_header && line.split_whitespace().all(is_figure) && !is_empty(line) {
            self.held = joined(&self.held, line, |cut| !cut.iter().all(|word| is_whole(word)));
            self.parts += 1;
            return [self.row(), None];
        }
        let before = self.end();
        if begins_header(line) {
            (self.is_header, self.parts, self.held) = (true, 1, line.to_owned());
            return [before, None];
        }
        if self.begins_row(line) {
            (self.is_header, self.parts, self.held) = (false, 1, line.to_owned());
            return [before, self.row()];
        }
        [before, Some(line.to_owned())]
    }

    /// Whether lines are joined at the moment, or this one may be the first of them.
    pub fn concerns(&self, line: &str) -> bool {
        self.parts > 0 || self.columns > 0 || begins_header(line)
    }

    /// Ends the line that is held.
    pub fn end(&mut self) -> Option<String> {
        let parts = std::mem::take(&mut self.parts);
        if parts == 0 {
            return None;
        }
        let line = std::mem::take(&mut self.held);
        if self.is_header {
            let header = TableHeader::new(&line).filter(|_| parts > 1);
            let header =
                header.filter(|it| matches!(it.kind, ForeignKind::Iostat | ForeignKind::Sar));
            self.columns = header.map_or(0, |header| header.columns.len());
        }
        Some(line)
    }

    /// The row that is held, if it is whole.
    fn row(&mut self) -> Option<String> {
        let words = time_of_day(&self.held).1.split_whitespace();
        let is_last_whole = words.clone().next_back().is_some_and(is_whole);
        if words.count() >= self.columns && is_last_whole { self.end() } else { None }
    }

    /// Whether a line is the first part of a row of the table: a name and figures.
    fn begins_row(&self, line: &str) -> bool {
        let mut words = time_of_day(line).1.split_whitespace();
        let name = words.next().filter(|name| !is_figure(name));
        let mut figures = words.peekable();
        self.columns > 0 && name.is_some() && figures.peek().is_some() && figures.all(is_figure)
    }
}

fn is_empty(line: &str) -> bool {
    line.trim().is_empty()
}

fn is_figure(word: &str) -> bool {
    number(word).or(human_bytes(word)).is_some()
}

/// Whether a line begins a table of devices or of sar, as far as its first words tell.
fn begins_header(line: &str) -> bool {
    if ends_with_number(line) {
        return false;
    }
    let mut words = time_of_day(line).1.split_whitespace();
    let (first, second) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let is_first =
        matches!(first.trim_end_matches(':'), "Device" | "DEV") || OF_SAR.contains(&first);
    is_first && is_name(second)
}

/// Whether a word looks like the name of a column.
fn is_name(word: &str) -> bool {
    OF_DEVICES.contains(&word) || word.contains(['/', '%', '_', '-']) && !is_figure(word)
}

/// Whether a line holds names of columns alone; the first may be the end of one.
fn is_part_of_header(before: &str, line: &str) -> bool {
    let is_cut = !has_gap(before, line) && OF_DEVICES.contains(&&*halves(before, line).concat());
    let mut words = line.split_whitespace();
    words.next().is_some_and(|first| is_cut || is_name(first)) && words.all(is_name)
}

/// Whether there is a blank where two parts meet.
fn has_gap(before: &str, line: &str) -> bool {
    before.ends_with(char::is_whitespace) || line.starts_with(char::is_whitespace)
}

/// The words at which two parts meet.
fn halves<'a>(before: &'a str, line: &'a str) -> [&'a str; 2] {
    let last = before.split_whitespace().next_back().unwrap_or("");
    [last, line.split_whitespace().next().unwrap_or("")]
}

/// Joins two parts of a line: a word was cut in two if there is no blank, and `is_cut` says so of
/// both halves.
fn joined(before: &str, line: &str, is_cut: impl Fn([&str; 2]) -> bool) -> String {
    let is_cut = !has_gap(before, line) && is_cut(halves(before, line));
    format!("{before}{}{line}", if is_cut { "" } else { " " })
}

/// Whether a figure of a row is whole: sysstat prints two decimals. So is the name of a device.
fn is_whole(word: &str) -> bool {
    let decimals = word.rsplit_once(['.', ',']).map(|(_, decimals)| decimals);
    decimals.is_some_and(|decimals| decimals.len() == 2) || !is_figure(word)
}
