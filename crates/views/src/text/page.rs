//! The first screen: findings and their support, in at most [`LINES`] lines.
//!
//! | where | what |
//! |---|---|
//! | here | the sections, and how they are made to fit |
//! | [`top`] | processes, files and the code path, a line each |
//! | [`super::why`] | the findings, as short as they have to be |
//!
//! What does not belong here: complete sections ([`super::render`]).

mod top;

use super::{DEVICES, Screen, WAITS, header, latency, stages, waits, why};
use crate::escape::{escape, width};
use crate::human::{self, plural};
use crate::style::{Paint, Style};
use header::Note;
use iowhy_analysis::Summary;
use iowhy_analysis::summary::{ClassRow, DeviceSummary};
use iowhy_diagnosis::{Diagnosis, Finding, Picture};
use why::LineLimits;

/// Maximum number of lines of the first screen.
pub const LINES: usize = 40;
/// The least share of the blocked time of a class that always has a row. Chosen.
const LARGE_CLASS: f64 = 0.1;
/// Width of the labels of the last lines, columns.
const LABEL: usize = 9;

/// The limits of each section.
#[derive(Clone)]
struct Detail {
    /// Warnings above the findings.
    notes: usize,
    /// Small losses below everything.
    losses: usize,
    why: LineLimits,
    /// Wait classes.
    classes: usize,
    devices: usize,
    /// Histograms of the device that the first finding is about.
    histograms: usize,
}

const MOST: Detail = Detail {
    notes: 3,
    losses: 2,
    why: LineLimits { sentence: 4, waits: 3, evidence: 3, fix: 8, check: 5, others: 3, other: 3 },
    classes: 6,
    devices: 4,
    histograms: 3,
};
/// Less around the first finding, which is still whole.
const FEWER: Detail = Detail {
    notes: 1,
    losses: 0,
    why: LineLimits { waits: 1, evidence: 2, others: 2, other: 2, ..MOST.why },
    classes: 2,
    devices: 2,
    histograms: 1,
};
const LEAST: Detail = Detail {
    notes: 1,
    losses: 0,
    why: LineLimits { sentence: 2, waits: 1, evidence: 1, fix: 3, check: 1, others: 1, other: 2 },
    classes: 1,
    devices: 1,
    histograms: 0,
};

impl Detail {
    /// The least that a page may show. The histogram is the point of a finding about a few slow
    /// requests.
    fn least(diagnosis: &Diagnosis) -> Detail {
        let picture = diagnosis.findings.first().and_then(Finding::rule).map(|rule| rule.picture);
        Detail { histograms: usize::from(picture == Some(Picture::Tail)), ..LEAST }
    }

    /// Returns the limits, the least important first.
    fn numbers(&mut self) -> [&mut usize; 12] {
        let why = &mut self.why;
        [
            &mut self.losses,
            &mut self.devices,
            &mut self.classes,
            &mut why.evidence,
            &mut why.others,
            &mut why.other,
            &mut self.notes,
            &mut why.waits,
            &mut self.histograms,
            &mut why.check,
            &mut why.fix,
            &mut why.sentence,
        ]
    }

    /// As [`LEAST`], with the first finding whole.
    fn whole(diagnosis: &Diagnosis) -> Detail {
        let LineLimits { sentence, fix, check, .. } = MOST.why;
        let least = Detail::least(diagnosis);
        Detail { why: LineLimits { sentence, fix, check, ..least.why }, ..least }
    }

    /// Lowers the limit whose turn it is; false if none is above its floor.
    fn shrink(&mut self, turn: usize, floor: &Detail) -> bool {
        let mut floor = floor.clone();
        let mut pairs = self.numbers().into_iter().zip(floor.numbers()).collect::<Vec<_>>();
        let start = turn % pairs.len();
        pairs.rotate_left(start);
        let larger = pairs.into_iter().find(|(number, floor)| number > floor);
        larger.map(|(number, _)| *number -= 1).is_some()
    }
}

/// The source that commands about the same watch name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum PageSource<'a> {
    /// A source, as a command line names it.
    Named(&'a str),
    /// No name is needed: it is the last watch.
    Kept,
    /// No name is possible: the watch is gone, and they watch again.
    Gone,
}

/// The first screen, in lines that end with a newline. `source` is what it shows as a command line
/// names it; nothing of a live watch.
pub fn page(
    summary: &Summary,
    diagnosis: &Diagnosis,
    source: Option<&str>,
    style: &Style,
) -> String {
    fitted(summary, diagnosis, source.map_or(PageSource::Gone, PageSource::Named), style)
}

/// The first screen of a live watch that is kept: commands without a source mean it.
pub fn kept_page(summary: &Summary, diagnosis: &Diagnosis, style: &Style) -> String {
    fitted(summary, diagnosis, PageSource::Kept, style)
}

fn fitted(
    summary: &Summary,
    diagnosis: &Diagnosis,
    source: PageSource<'_>,
    style: &Style,
) -> String {
    let mut detail = MOST;
    let floors = [FEWER, Detail::whole(diagnosis), Detail::least(diagnosis)];
    for turn in 0.. {
        let page = draw(summary, diagnosis, source, style, &detail);
        if page.lines().count() <= LINES {
            return page;
        }
        if !floors.iter().any(|floor| detail.shrink(turn, floor)) {
            return page.lines().take(LINES).flat_map(|line| [line, "\n"]).collect();
        }
    }
    String::new()
}

fn draw(
    summary: &Summary,
    diagnosis: &Diagnosis,
    source: PageSource<'_>,
    style: &Style,
    detail: &Detail,
) -> String {
    let named = match source {
        PageSource::Named(source) => Some(source),
        // No word is needed: `iowhy --full` becomes `iowhy report --full`.
        PageSource::Kept => Some(""),
        PageSource::Gone => None,
    };
    let mut screen = Screen { source: named, ..Screen::new(style) };
    header::header(summary, &mut screen);
    let notes = PageNotes::new(summary, style);
    notes.above(detail.notes, &mut screen);
    header::kept(summary, &mut screen);
    why::brief(diagnosis, summary, &detail.why, &mut screen);
    classes(summary, detail.classes, &mut screen);
    let sick = sick(summary, diagnosis);
    devices(summary, sick, detail.devices, &mut screen);
    if let Some(sick) = sick {
        stages::lines(sick, &mut screen);
        latency::of_device(sick, detail.histograms, &mut screen);
    }
    top::section(summary, sick, &mut screen);
    notes.below(detail.losses, &mut screen);
    more(diagnosis, source, &mut screen);
    screen.text
}

/// The notes of a watch: those that limit the answer stand above it, the others below.
struct PageNotes {
    above: Vec<Note>,
    below: Vec<Note>,
}

impl PageNotes {
    fn new(summary: &Summary, style: &Style) -> PageNotes {
        let notes = |draw: fn(&Summary, &mut Screen)| {
            let mut screen = Screen::new(style);
            draw(summary, &mut screen);
            header::paragraphs(&screen.text)
        };
        // A capture's limits, or a lack of requests, reduce the value of everything below.
        let are_all_pressing = summary.environment.is_imported() || summary.watch.requests == 0;
        let mut pressing = notes(header::notes_beyond_losses);
        pressing.retain(|note| note.is_pressing || are_all_pressing);
        let losses = notes(header::losses);
        let (above, below) = match header::are_losses_material(summary) {
            true => (losses.into_iter().chain(pressing).collect(), Vec::new()),
            false => (pressing, losses),
        };
        PageNotes { above, below }
    }

    /// Warnings, a line or two each.
    fn above(&self, most: usize, screen: &mut Screen) {
        for note in self.above.iter().take(most) {
            note.lines.iter().take(2).for_each(|line| screen.line(line));
        }
        let hidden = self.above.len().saturating_sub(most);
        if hidden > 0 {
            let full = screen.command("iowhy --full");
            let notes = plural(hidden as u64, "note");
            screen.prose(&format!("! {notes} not shown: {full}"), 0, Paint::Alert);
        }
    }

    /// Writes small losses, below the answer that they hardly change; the first line counts them.
    fn below(&self, most: usize, screen: &mut Screen) {
        screen.gap();
        for note in self.below.iter().take(most) {
            note.lines.iter().take(2).for_each(|line| screen.line(line));
        }
    }
}

/// The largest wait classes, and the total.
fn classes(summary: &Summary, most: usize, screen: &mut Screen) {
    let Some(ledger) = &summary.ledger else { return };
    // "others" must not be what most of the time went to.
    let large = ledger.classes.iter().filter(|row| row.time_share >= LARGE_CLASS).count();
    let rows: Vec<ClassRow> = waits::shown(ledger, most.max(large));
    if rows.is_empty() {
        return;
    }
    screen.table(&WAITS, &rows);
    let mut text = format!("{} in total", human::time(ledger.blocked_ns as f64, screen.style));
    if let Some(share) = ledger.explained_share {
        text.push_str(&format!(", {} % classified", human::percent(share)));
    }
    screen.prose(&text, 2, Paint::Faint);
}

/// The device that the first finding is about, else the one with the most time.
fn sick<'a>(summary: &'a Summary, diagnosis: &Diagnosis) -> Option<&'a DeviceSummary> {
    let named = diagnosis.findings.first().and_then(|finding| finding.subject.device.as_deref());
    let found = summary.devices.iter().find(|device| Some(device.device.as_str()) == named);
    found.or_else(|| summary.devices.first())
}

/// The devices with the most time; the one of the first finding comes first.
fn devices(summary: &Summary, sick: Option<&DeviceSummary>, most: usize, screen: &mut Screen) {
    let is_sick = |device: &&DeviceSummary| sick.is_some_and(|sick| sick.device == device.device);
    let others = summary.devices.iter().filter(|device| !is_sick(device));
    let rows: Vec<DeviceSummary> = sick.into_iter().chain(others).take(most).cloned().collect();
    screen.table(&DEVICES, &rows);
    if let Some(sick) = sick {
        super::devices::place(sick, &summary.environment, screen);
        super::devices::reported(sick, screen);
    }
    let hidden = summary.devices.len() - rows.len();
    if hidden > 0 {
        screen.prose(&format!("{} not shown", plural(hidden as u64, "device")), 2, Paint::Faint);
    }
}

/// The place of a watch until the next one, and the command that keeps it longer.
const KEPT: &str = "in memory until the next watch; as a recording: iowhy export -o DIR";

/// Commands that show more: on one line where they fit.
fn more(diagnosis: &Diagnosis, source: PageSource<'_>, screen: &mut Screen) {
    screen.gap();
    let first = diagnosis.findings.first();
    let views = "views: iowhy --help".to_owned();
    let commands = match source {
        PageSource::Named(source) => {
            let source = escape(source, screen.style);
            let explain = first.map(|_| format!("iowhy explain 1 {source}"));
            [Some(format!("iowhy report --full {source}")), explain, Some(views)]
        }
        PageSource::Kept => {
            let explain = first.map(|_| "iowhy explain 1".to_owned());
            [explain, Some("iowhy report --full".to_owned()), Some(views)]
        }
        PageSource::Gone => {
            let explain = first.map(|first| format!("iowhy explain {}", first.cause));
            [Some("iowhy --full".to_owned()), explain, Some(views)]
        }
    };
    let columns = screen.style.columns() - LABEL;
    let mut lines = joined(commands.into_iter().flatten(), columns);
    let keep = match source {
        PageSource::Named(_) => None,
        PageSource::Gone => Some("iowhy record -o DIR"),
        PageSource::Kept if columns < KEPT.len() => Some("iowhy export -o DIR"),
        PageSource::Kept => Some(KEPT),
    };
    lines.extend(keep.map(str::to_owned));
    let last = lines.len() - 1;
    for (index, line) in lines.iter().enumerate() {
        let label = match index {
            0 => "more",
            _ if index == last && keep.is_some() => "keep it",
            _ => "",
        };
        let painted = screen.style.paint(&format!("{label:LABEL$}{line}"), Paint::Faint);
        screen.line(&painted);
    }
}

/// Commands with semicolons between them, in lines of at most `columns`; none is broken.
fn joined(commands: impl Iterator<Item = String>, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for command in commands {
        match lines.last_mut() {
            Some(line) if width(line) + 2 + width(&command) <= columns => {
                line.push_str(&format!("; {command}"));
            }
            _ => lines.push(command),
        }
    }
    lines
}
