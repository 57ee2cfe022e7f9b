//! The first screen: the answer and what supports it, in at most [`LINES`] lines.
//!
//! | where | what |
//! |---|---|
//! | here | which sections there are, and how they are made to fit |
//! | [`top`] | processes, files and the code path, a line each |
//! | [`super::why`] | the findings, as short as they have to be |
//!
//! What does not belong here: whole sections ([`super::render`]).

mod top;

use super::{DEVICES, Screen, WAITS, header, latency, stages, waits, why};
use crate::escape::{cut, escape};
use crate::human::{self, plural};
use crate::style::{Paint, Style};
use iowhy_core::analysis::Summary;
use iowhy_core::analysis::summary::{ClassRow, DeviceSummary};
use iowhy_core::diagnosis::Diagnosis;
use why::Limits;

/// Lines of the first screen, whatever the machine.
pub const LINES: usize = 40;

/// How much each section may show.
struct Detail {
    /// Warnings above the findings.
    notes: usize,
    why: Limits,
    /// Wait classes.
    classes: usize,
    devices: usize,
    /// Histograms of the device that the first finding is about.
    histograms: usize,
}

/// From the most to the least: the first that fits is taken.
const DETAILS: &[Detail] = &[
    Detail {
        notes: 3,
        why: Limits { sentence: 4, waits: 3, evidence: 3, fix: 7, check: 4, others: 3 },
        classes: 4,
        devices: 4,
        histograms: 3,
    },
    Detail {
        notes: 3,
        why: Limits { sentence: 3, waits: 2, evidence: 2, fix: 5, check: 3, others: 2 },
        classes: 3,
        devices: 3,
        histograms: 2,
    },
    Detail {
        notes: 2,
        why: Limits { sentence: 3, waits: 2, evidence: 1, fix: 4, check: 2, others: 2 },
        classes: 3,
        devices: 2,
        histograms: 1,
    },
    Detail {
        notes: 2,
        why: Limits { sentence: 3, waits: 2, evidence: 1, fix: 3, check: 2, others: 1 },
        classes: 2,
        devices: 2,
        histograms: 1,
    },
    Detail {
        notes: 1,
        why: Limits { sentence: 2, waits: 1, evidence: 1, fix: 3, check: 1, others: 1 },
        classes: 1,
        devices: 1,
        histograms: 0,
    },
];

/// The first screen, in lines that end with a newline. `source` is what it shows as a command line names it;
/// nothing of a live watch.
pub fn page(
    summary: &Summary,
    diagnosis: &Diagnosis,
    source: Option<&str>,
    style: &Style,
) -> String {
    let mut pages = DETAILS.iter().map(|detail| draw(summary, diagnosis, source, style, detail));
    let fits = |page: &String| page.lines().count() <= LINES;
    pages.find(fits).unwrap_or_else(|| {
        let least = DETAILS.last().map(|detail| draw(summary, diagnosis, source, style, detail));
        let lines = least.iter().flat_map(|page| page.lines()).take(LINES);
        lines.flat_map(|line| [line, "\n"]).collect()
    })
}

fn draw(
    summary: &Summary,
    diagnosis: &Diagnosis,
    source: Option<&str>,
    style: &Style,
    detail: &Detail,
) -> String {
    let mut screen = Screen { source, ..Screen::new(style) };
    header::header(summary, &mut screen);
    notes(summary, detail.notes, &mut screen);
    why::brief(diagnosis, summary, &detail.why, &mut screen);
    classes(summary, detail.classes, &mut screen);
    let sick = sick(summary, diagnosis);
    devices(summary, sick, detail.devices, &mut screen);
    if let Some(sick) = sick {
        stages::line(sick, &mut screen);
        latency::of_device(sick, detail.histograms, &mut screen);
    }
    top::section(summary, &mut screen);
    more(diagnosis, source, &mut screen);
    screen.text
}

/// The most pressing of what must be known before any figure, a line or two each; and how many others there are.
fn notes(summary: &Summary, most: usize, screen: &mut Screen) {
    let style = *screen.style;
    let mut all = Screen::new(&style);
    header::notes(summary, &mut all);
    let notes = header::paragraphs(&all.text);
    let (pressing, others): (Vec<_>, Vec<_>) = notes.into_iter().partition(|note| note.is_pressing);
    for note in pressing.iter().take(most) {
        note.lines.iter().take(2).for_each(|line| screen.line(line));
    }
    let hidden = pressing.len().saturating_sub(most) + others.len();
    if hidden > 0 {
        let full = screen.command("iowhy --full");
        let notes = if hidden == 1 { "note" } else { "notes" };
        let text = format!("{} more {notes}: {full}", human::count(hidden as u64));
        screen.prose(&text, 2, Paint::Faint);
    }
}

/// Where blocked threads waited: the longest classes, and the sum.
fn classes(summary: &Summary, most: usize, screen: &mut Screen) {
    let Some(ledger) = &summary.ledger else { return };
    let rows: Vec<ClassRow> = waits::worth(ledger).take(most).cloned().collect();
    if rows.is_empty() {
        return;
    }
    screen.table(&WAITS, &rows);
    let mut text = format!("{} in total", human::time(ledger.blocked_ns as f64, screen.style));
    if let Some(share) = ledger.explained_share {
        text.push_str(&format!(", {} % explained", human::percent(share)));
    }
    screen.prose(&text, 2, Paint::Faint);
}

/// The device that the first finding is about, else the one with the most time.
fn sick<'a>(summary: &'a Summary, diagnosis: &Diagnosis) -> Option<&'a DeviceSummary> {
    let named = diagnosis.findings.first().and_then(|it| it.subject.device.as_deref());
    let found = summary.devices.iter().find(|it| Some(it.device.as_str()) == named);
    found.or_else(|| summary.devices.first())
}

/// The devices with the most time; the sick one first.
fn devices(summary: &Summary, sick: Option<&DeviceSummary>, most: usize, screen: &mut Screen) {
    let is_sick = |it: &&DeviceSummary| sick.is_some_and(|sick| sick.device == it.device);
    let others = summary.devices.iter().filter(|it| !is_sick(it));
    let rows: Vec<DeviceSummary> = sick.into_iter().chain(others).take(most).cloned().collect();
    screen.table(&DEVICES, &rows);
    let hidden = summary.devices.len() - rows.len();
    if hidden > 0 {
        screen.prose(&format!("{} not shown", plural(hidden as u64, "device")), 2, Paint::Faint);
    }
}

/// Where there is more.
fn more(diagnosis: &Diagnosis, source: Option<&str>, screen: &mut Screen) {
    screen.gap();
    let text = match source {
        Some(source) => {
            let source = escape(source, screen.style);
            let explain = match diagnosis.findings.is_empty() {
                true => String::new(),
                false => format!(", iowhy explain 1 {source}"),
            };
            format!("more: iowhy report --full {source}{explain}, iowhy --help")
        }
        None => "more: iowhy --full; to keep a watch: iowhy record; all views: iowhy --help".into(),
    };
    let line = cut(&text, screen.style.columns(), screen.style);
    let painted = screen.style.paint(&line, Paint::Faint);
    screen.line(&painted);
}
