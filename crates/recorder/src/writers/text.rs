//! The account of writers as text.
//!
//! What does not belong here: figures.

use super::question::{AnswerDevice, AnswerRow, GroupedBy, WriterAnswer};
use super::{WriterKind, over_days::OverDaysFinding};
use crate::clock::LocalTime;
use iowhy_views::escape::{cut, escape};
use iowhy_views::fold::wrap;
use iowhy_views::human;
use iowhy_views::style::Style;
use std::fmt::Write;

/// Wakes that are listed.
const MOST_WAKES: usize = 6;
/// Rows whose amplification is explained.
const MOST_EXPLAINED: usize = 3;
/// The amplification from which on it is explained.
const WORTH: f64 = 3.0;
/// Columns of a terminal that has room for all of a row's figures.
const WIDE: usize = 110;
/// Bytes that a file system writes of a file at least.
const PAGE_BYTES: u64 = 4096;
/// Years of life beyond which a drive is replaced for other reasons.
const MOST_YEARS: f64 = 30.0;

/// Formats the answer, with at most `rows` rows.
pub fn page(answer: &WriterAnswer, rows: usize, style: &Style) -> String {
    let mut page = Page { text: String::new(), style };
    page.title(answer);
    page.rows(answer, rows);
    page.explained(answer);
    page.devices(answer);
    page.wakes(answer);
    page.findings(&answer.findings);
    page.text
}

struct Page<'a> {
    text: String,
    style: &'a Style,
}

impl Page<'_> {
    fn line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    fn title(&mut self, answer: &WriterAnswer) {
        let (from, until) =
            (LocalTime::of_seconds(answer.from_s), LocalTime::of_seconds(answer.until_s));
        let watched = human::time(answer.watched_s as f64 * 1e9, self.style);
        self.line(&format!("WHO WRITES  {from} to {until} ({watched} watched)"));
    }

    fn rows(&mut self, answer: &WriterAnswer, most: usize) {
        let name = match answer.by {
            GroupedBy::Program => "PROGRAM  CONTAINER",
            GroupedBy::File => "FILE  (PROGRAM)",
        };
        self.cells(["WRITTEN", "ASKED", "AMPLIF", "DATA", "JOURNAL", "METADATA", "READ"], name);
        for row in answer.rows.iter().take(most) {
            self.row(row, answer.by);
        }
        let more = answer.rows.len().saturating_sub(most);
        if more > 0 {
            self.line(&format!("  and {more} more: --rows"));
        }
    }

    /// Adds a line of the table; a narrow one has no metadata and no reads.
    fn cells<T: std::fmt::Display>(&mut self, cells: [T; 7], name: &str) {
        let shown = if self.style.columns() < WIDE { 5 } else { 7 };
        let mut line = String::new();
        for cell in cells.iter().take(shown) {
            let _ = write!(line, " {cell:>8}");
        }
        line.push_str("  ");
        let room = self.style.columns().saturating_sub(line.chars().count()).max(24);
        self.line(&format!("{line}{}", cut(name, room, self.style)));
    }

    fn row(&mut self, row: &AnswerRow, by: GroupedBy) {
        let sum = |name: &str| row.sums.get(name).copied().unwrap_or(0);
        let bytes = |bytes: u64| match bytes {
            0 => "-".to_owned(),
            bytes => human::bytes(bytes as f64),
        };
        let factor = row
            .amplification
            .map_or_else(|| "-".to_owned(), |factor| factor_text(factor, self.style));
        let cells = [
            bytes(row.written_bytes),
            bytes(sum("asked_bytes")),
            factor,
            bytes(sum("data_bytes")),
            bytes(sum("journal_bytes")),
            bytes(sum("metadata_bytes")),
            bytes(sum("read_bytes")),
        ];
        let name = name(row, by, self.style);
        self.cells(cells, &name);
    }

    /// Explains the bytes beyond those of the calls.
    fn explained(&mut self, answer: &WriterAnswer) {
        let worth = worth(answer);
        if worth.is_empty() {
            return;
        }
        self.line("\nWHAT IT COSTS");
        for row in worth {
            let sentence = sentence(row, answer.by, self.style);
            self.wrapped(&sentence);
        }
    }

    fn wrapped(&mut self, sentence: &str) {
        let room = self.style.columns().saturating_sub(4);
        for (place, line) in wrap(sentence, room).into_iter().enumerate() {
            self.line(&format!("{}{line}", if place == 0 { "  " } else { "    " }));
        }
    }

    fn devices(&mut self, answer: &WriterAnswer) {
        if answer.devices.is_empty() {
            return;
        }
        self.line("\nDEVICES\n   WRITTEN     A DAY      READ  DISCARD  UNSEEN  WAKES  DEVICE");
        for device in &answer.devices {
            let share = device.unseen_bytes as f64 / device.written_bytes.max(1) as f64;
            let mut line = format!(
                "  {:>8}  {:>8}  {:>8} {:>8}  {:>4} %  {:>5}  {}",
                human::bytes(device.written_bytes as f64),
                human::bytes(a_day(device, answer)),
                human::bytes(device.read_bytes as f64),
                human::bytes(device.discarded_bytes as f64),
                human::percent(share),
                device.wakes,
                escape(&device.device, self.style),
            );
            let wear = wear_text(device);
            if !wear.is_empty() {
                let _ = write!(line, "  {wear}");
            }
            self.line(&line);
        }
    }

    fn wakes(&mut self, answer: &WriterAnswer) {
        if answer.wakes.is_empty() {
            return;
        }
        self.line("\nWHO WAKES IDLE DISKS (the first request after a minute without one)");
        for wake in answer.wakes.iter().take(MOST_WAKES) {
            let program = waker(&wake.program, self.style);
            let (device, file) = (escape(&wake.device, self.style), escape(&wake.file, self.style));
            let times = human::plural(wake.wakes, "time");
            let line = format!("  {device:<10} {times:>12}  {program}  {file}");
            self.line(&cut(&line, self.style.columns(), self.style));
        }
    }

    fn findings(&mut self, findings: &[OverDaysFinding]) {
        if findings.is_empty() {
            return;
        }
        self.line("\nFOUND OVER DAYS");
        for finding in findings {
            let text = format!("{}: {}", finding.cause, finding.sentence);
            self.wrapped(&escape(&text, self.style));
            self.wrapped(&format!("  fix: {}", escape(&finding.fix, self.style)));
        }
    }
}

pub(super) fn factor_text(factor: f64, style: &Style) -> String {
    let sign = style.either("×", "x");
    match factor {
        factor if factor < 9.95 => format!("{sign}{factor:.1}"),
        factor => format!("{sign}{factor:.0}"),
    }
}

/// Returns the program that woke a disk, escaped, or that it is not known.
pub(super) fn waker(program: &str, style: &Style) -> String {
    match program {
        "" => "(not known)".to_owned(),
        program => escape(program, style).into_owned(),
    }
}

/// Returns a row's program, escaped, or the kind of a row without a program.
pub(super) fn program(row: &AnswerRow, style: &Style) -> String {
    match row.kind {
        WriterKind::Program => escape(&row.program, style).into_owned(),
        WriterKind::Unknown => "(not known)".to_owned(),
        WriterKind::Others => "(others)".to_owned(),
        WriterKind::Unseen => "(not recorded)".to_owned(),
    }
}

/// Returns a row's name, escaped.
fn name(row: &AnswerRow, by: GroupedBy, style: &Style) -> String {
    let program = program(row, style);
    let file = row.file.as_ref().filter(|file| !file.is_empty());
    match (by, file) {
        (GroupedBy::File, Some(file)) => format!("{}  ({program})", escape(file, style)),
        (GroupedBy::File, None) => program,
        (GroupedBy::Program, _) => format!("{program}  {}", escape(&row.container, style)),
    }
}

/// Returns the rows whose bytes are worth explaining.
pub(super) fn worth(answer: &WriterAnswer) -> Vec<&AnswerRow> {
    let is_worth = |row: &&AnswerRow| {
        let factor = row.amplification.is_none_or(|factor| factor >= WORTH);
        row.kind == WriterKind::Program && row.written_bytes > 0 && factor
    };
    answer.rows.iter().filter(is_worth).take(MOST_EXPLAINED).collect()
}

/// Returns the life of a device, as its drive says and at this rate; empty if that is not known.
pub(super) fn wear_text(device: &AnswerDevice) -> String {
    let mut text = String::new();
    if let Some(used) = device.used_percent {
        let _ = write!(text, "{used:.0} % of its life used");
    }
    if let Some(days) = device.worn_in_days {
        let _ = match days / 365.25 {
            years if years > MOST_YEARS => {
                write!(text, ", worn in more than {MOST_YEARS:.0} years at this rate")
            }
            years if years >= 2.0 => write!(text, ", worn in {years:.1} years at this rate"),
            _ => write!(text, ", worn in {days:.0} days at this rate"),
        };
    }
    text
}

/// Returns the bytes per day, at the rate of the time that was watched.
pub(super) fn a_day(device: &AnswerDevice, answer: &WriterAnswer) -> f64 {
    device.written_bytes as f64 / answer.watched_s.max(1) as f64 * 86_400.0
}

/// Explains what a program's writes cost, and why.
pub(super) fn sentence(row: &AnswerRow, by: GroupedBy, style: &Style) -> String {
    let sum = |name: &str| row.sums.get(name).copied().unwrap_or(0);
    let (asked, syncs, data) = (sum("asked_bytes"), sum("syncs"), sum("data_bytes"));
    let mut text = name(row, by, style).trim_end().to_owned();
    match row.amplification {
        Some(factor) => {
            let _ =
                write!(text, ": {} bytes written for each byte asked", factor_text(factor, style));
        }
        None => text.push_str(": written through a mapping, or by calls that were not counted"),
    }
    let per_byte = |bytes: u64| match asked {
        0 => human::bytes(bytes as f64),
        asked => factor_text(bytes as f64 / asked as f64, style),
    };
    let is_small = asked > 0 && syncs > 0 && asked / syncs < PAGE_BYTES;
    let parts = [
        (data, if is_small { "whole pages for small syncs" } else { "data" }),
        (sum("journal_bytes"), "journal"),
        (sum("metadata_bytes"), "metadata"),
    ];
    let parts: Vec<String> = parts
        .iter()
        .filter(|(bytes, _)| *bytes > 0)
        .map(|(bytes, word)| format!("{word} {}", per_byte(*bytes)))
        .collect();
    let _ = write!(text, " ({})", parts.join(", "));
    if let Some(each) = row.bytes_per_sync {
        let _ = write!(text, "; {} for each of {} syncs", human::bytes(each), human::count(syncs));
    }
    text
}
