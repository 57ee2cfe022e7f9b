//! Two watches compared: one sentence, then the differences in time per request, in the load and in
//! the environment.
//!
//! What does not belong here: comparing (see [`iowhy_diagnosis::diff`]).

use crate::escape::escape;
use crate::human;
use crate::style::{Paint, Style};
use crate::table::{Align, Column, Definition, Room, TableCell, explained, number};
use crate::text::{Screen, plural, readable, stage_place};
use iowhy_diagnosis::diff::environment::Difference;
use iowhy_diagnosis::diff::load::{LoadRow, PairLoad};
use iowhy_diagnosis::diff::times::{TimeGroup, TimeKind, TimePart};
use iowhy_diagnosis::diff::{Comparison, DiffVerdict, SideName, WatchedSide};
use iowhy_model::WaitClass;

/// A part without a change has no row if its share of the time is below this.
const LEAST_SHARE: f64 = 0.01;
/// Maximum number of listed environment differences that explain nothing.
const OTHERS: usize = 12;

/// A row of [`TIMES`].
#[derive(Clone, PartialEq, Debug)]
pub struct TimeRow {
    /// The devices and the direction, escaped; below it the stage or the wait class, indented.
    pub name: String,
    /// The stage, the wait class, or the total.
    pub part: TimePart,
    /// Whether it is the total.
    pub is_whole: bool,
    /// Whether the loads differ too much for a comparison.
    pub incomparable: bool,
}

/// The differences in time per request.
pub const TIMES: Definition<TimeRow> = Definition {
    title: "iowhy diff: times",
    sentence: "For each pair of devices and direction the time per request, then its stages; for \
               all requests together what threads waited for before the requests were queued. What \
               explains most of the difference comes first. Stages that both spend less than 1 % \
               in are left out.",
    columns: &[
        Column {
            heading: "TIME FOR EACH",
            unit: "",
            align: Align::Left,
            room: Room::CutEnd,
            sentence: "the devices and the direction of requests, with the total time; below it \
                       the stages (Q queued, G got a request, I inserted into the scheduler, D \
                       issued to the driver, C completed) or the classes of waits",
            legend: "below each its parts, the largest difference first",
            value: |row, style| TableCell { text: row.name.clone(), paint: paint(row, style) },
        },
        number("A", "time", 0, "the mean in A", |row, style| mean(&row.part, 0, style).into()),
        number("B", "time", 0, "the mean in B", |row, style| mean(&row.part, 1, style).into()),
        number("B - A", "time", 0, "how much longer (+) or shorter (-) B takes", |row, style| {
            TableCell { text: signed(row.part.difference_ns, style), paint: paint(row, style) }
        }),
        explained(
            "share of all differences beyond the variation of equal watches",
            number("%diff", "%", 1, "its share of all differences", |row, _| {
                if row.part.share > 0.0 {
                    human::percent(row.part.share).into()
                } else {
                    String::new().into()
                }
            }),
        ),
        number("p50 A", "time", 4, "median in A", |row, style| {
            known(row.part.p50_ns[0], style).into()
        }),
        number("p50 B", "time", 4, "the same in B", |row, style| {
            known(row.part.p50_ns[1], style).into()
        }),
        number("p99 A", "time", 3, "99th percentile in A", |row, style| {
            known(row.part.p99_ns[0], style).into()
        }),
        number("p99 B", "time", 3, "the same in B", |row, style| {
            known(row.part.p99_ns[1], style).into()
        }),
        number("max A", "time", 2, "the longest in A", |row, style| {
            known(row.part.max_ns[0], style).into()
        }),
        number("max B", "time", 2, "the longest in B", |row, style| {
            known(row.part.max_ns[1], style).into()
        }),
    ],
};

/// The loads.
pub const LOADS: Definition<(String, LoadRow)> = Definition {
    title: "iowhy diff: loads",
    sentence: "The load of each pair of devices, and the processes that caused it.",
    columns: &[
        Column {
            heading: "LOAD",
            unit: "",
            align: Align::Left,
            room: Room::CutEnd,
            sentence: "the figure, and the devices if there are several pairs",
            legend: "",
            value: |row, _| row.0.clone().into(),
        },
        number("A", "as the row says", 0, "its value in A", |row, _| figure(&row.1, 0).into()),
        number("B", "as the row says", 0, "its value in B", |row, _| figure(&row.1, 1).into()),
        Column {
            heading: "differs",
            unit: "",
            align: Align::Left,
            room: Room::Rank(0),
            sentence: "`*` if it differs by more than equal watches do",
            legend: "* beyond the variation of equal watches",
            value: |row, _| if row.1.differs { "*".to_owned() } else { String::new() }.into(),
        },
    ],
};

/// `  I2D scheduler`, `  cgroup limit`.
fn place(part: &TimePart) -> String {
    match part.kind {
        TimeKind::Wait => format!("  {}", WaitClass::phrase_of(part.what)),
        TimeKind::Stage => format!("  {} {}", part.what.to_uppercase(), stage_place(part.what)),
    }
}

/// A stage that a side does not have takes no time.
fn mean(part: &TimePart, at: usize, style: &Style) -> String {
    match part.mean_ns[at] {
        none if none < 0.5 => "-".to_owned(),
        some => human::time(some, style),
    }
}

fn paint(row: &TimeRow, _: &Style) -> Paint {
    match (row.part.moved, row.incomparable, row.is_whole) {
        (_, true, _) => Paint::Faint,
        (true, _, false) => Paint::Alert,
        _ => Paint::Plain,
    }
}

fn signed(nanoseconds: f64, style: &Style) -> String {
    let sign = if nanoseconds < 0.0 { "-" } else { "+" };
    match nanoseconds.abs() {
        none if none < 0.5 => "0".to_owned(),
        some => format!("{sign}{}", human::time(some, style)),
    }
}

fn known(nanoseconds: Option<u64>, style: &Style) -> String {
    nanoseconds.map_or_else(|| "-".to_owned(), |nanoseconds| human::time(nanoseconds as f64, style))
}

fn figure(row: &LoadRow, at: usize) -> String {
    let Some(figure) = row.figures[at] else { return "-".to_owned() };
    match row.unit {
        "%" => format!("{} %", human::percent(figure / 100.0)),
        "bytes" => human::bytes(figure),
        "bytes/s" => format!("{}/s", human::bytes(figure)),
        "1/s" => format!("{}/s", human::rate(figure)),
        _ => human::rate(figure),
    }
}

/// The complete screen.
pub fn render(comparison: &Comparison, style: &Style) -> String {
    let mut screen = Screen::new(style);
    watches(comparison, &mut screen);
    verdict(comparison, &mut screen);
    differences(comparison, &mut screen);
    screen.legend();
    screen.text
}

/// Writes the two watches, a line each.
pub(crate) fn watches(comparison: &Comparison, screen: &mut Screen<'_>) {
    let style = screen.style;
    for (which, side) in [SideName::A, SideName::B].into_iter().zip(&comparison.sides) {
        screen.prose(&watched(which, side, style), 0, Paint::Plain);
    }
}

fn verdict(comparison: &Comparison, screen: &mut Screen<'_>) {
    screen.gap();
    let paint = match comparison.verdict {
        DiffVerdict::Moved => Paint::Alert,
        _ => Paint::Heading,
    };
    screen.prose(&readable(&comparison.sentence, screen.style), 0, paint);
}

/// Writes findings and devices of only one watch, doubts about the comparison, and differences.
pub(crate) fn differences(comparison: &Comparison, screen: &mut Screen<'_>) {
    let style = *screen.style;
    for (which, side) in [SideName::A, SideName::B].into_iter().zip(&comparison.sides) {
        only(which, side, screen);
    }
    work(comparison, screen);
    for doubt in &comparison.doubts {
        screen.prose(&format!("! {}", readable(doubt, &style)), 0, Paint::Alert);
    }
    times(comparison, screen);
    loads(comparison, screen);
    environment(comparison, screen);
}

/// `A  before: db7, Linux 6.18, watched 10.0 s, 13,920 requests, 0 lost`.
fn watched(which: SideName, side: &WatchedSide, style: &Style) -> String {
    let mut facts = vec![format!("{}  {}:", which.word(), escape(&side.name, style))];
    if !side.host.is_empty() {
        facts.push(format!("{},", escape(&side.host, style)));
    }
    if !side.kernel.is_empty() {
        facts.push(format!("Linux {},", escape(&side.kernel, style)));
    }
    facts.push(format!("watched {},", human::time(side.duration_ns as f64, style)));
    facts.push(format!("{},", plural(side.requests, "request")));
    facts.push(format!("{} lost", human::count(side.lost_requests)));
    facts.join(" ")
}

/// Findings of one watch only.
fn only(which: SideName, side: &WatchedSide, screen: &mut Screen) {
    if !side.findings.is_empty() {
        let causes = side.findings.join(", ");
        let text = format!("only in {}: {causes} (`iowhy report`, `iowhy explain`)", which.word());
        screen.prose(&text, 2, Paint::Plain);
    }
    if !side.unpaired.is_empty() {
        let names: Vec<_> =
            side.unpaired.iter().map(|device| escape(device, screen.style)).collect();
        let text = format!("compared with none, of {}: {}", which.word(), names.join(" "));
        screen.prose(&text, 2, Paint::Faint);
    }
}

/// Writes the times of programs' calls, if the loads of devices cannot be compared.
fn work(comparison: &Comparison, screen: &mut Screen) {
    let is_needed = matches!(comparison.verdict, DiffVerdict::LoadDiffers | DiffVerdict::NotEnough);
    let style = *screen.style;
    for row in comparison.work.iter().filter(|_| is_needed) {
        let [a, b] = row.time_ns.map(|time| human::time(time, &style));
        let [of_a, of_b] = row.calls.map(|calls| plural(calls, row.call));
        let process = escape(&row.process, &style);
        let call = row.call;
        let text = format!("{process}, file calls for each {call}: A {a} ({of_a}), B {b} ({of_b})");
        screen.prose(&text, 2, Paint::Plain);
    }
}

fn times(comparison: &Comparison, screen: &mut Screen) {
    let shown = screen.style.rows + 1;
    let style = *screen.style;
    let groups = comparison.times.iter().take(shown);
    let rows: Vec<TimeRow> = groups.flat_map(|group| rows(group, &style)).collect();
    screen.table(&TIMES, &rows);
    let others = comparison.times.len().saturating_sub(shown);
    if others > 0 {
        screen.prose(&format!("devices and directions not shown: {others}"), 2, Paint::Faint);
    }
}

fn rows(group: &TimeGroup, style: &Style) -> Vec<TimeRow> {
    let longer = group.whole.mean_ns[0].max(group.whole.mean_ns[1]);
    let worth = |part: &&TimePart| {
        part.moved || part.mean_ns.iter().any(|mean| *mean >= LEAST_SHARE * longer)
    };
    let row = |name: String, part: &TimePart, is_whole| TimeRow {
        name,
        part: part.clone(),
        is_whole,
        incomparable: group.incomparable,
    };
    let mut rows = vec![row(name(group, style), &group.whole, true)];
    let parts = group.parts.iter().filter(|part| part.what != group.whole.what).filter(worth);
    rows.extend(parts.map(|part| row(place(part), part, false)));
    rows
}

fn name(group: &TimeGroup, style: &Style) -> String {
    let of = devices(&group.devices, style);
    match (group.direction, of.is_empty()) {
        (Some(direction), _) => format!("{of} {direction}{}", from_issue(group)),
        (None, true) => "request: blocked".to_owned(),
        (None, false) => format!("request of {of}: blocked"),
    }
}

/// Returns the words for a total that lacks queueing; empty for a whole one.
fn from_issue(group: &TimeGroup) -> &'static str {
    if group.whole.what == "q2c" { "" } else { ", from its issue" }
}

/// `sda`, or `sda/sdb`.
fn devices(devices: &[String; 2], style: &Style) -> String {
    let [a, b] = [&devices[0], &devices[1]].map(|device| escape(device, style));
    if a == b { a.into_owned() } else { format!("{a}/{b}") }
}

fn loads(comparison: &Comparison, screen: &mut Screen) {
    let style = *screen.style;
    let all = comparison.loads.len() == 1;
    let rows: Vec<(String, LoadRow)> =
        comparison.loads.iter().flat_map(|load| load_rows(load, all, &style)).collect();
    screen.table(&LOADS, &rows);
    // The sentence already names them.
    let is_stated = comparison.verdict == DiffVerdict::LoadDiffers && all;
    for load in comparison.loads.iter().filter(|load| !load.reasons.is_empty() && !is_stated) {
        let reasons = readable(&load.reasons.join("; "), &style);
        screen.prose(&format!("{}: {reasons}", devices(&load.devices, &style)), 2, Paint::Faint);
    }
}

/// The figures of one pair: all of them, or those that differ.
fn load_rows(load: &PairLoad, all: bool, style: &Style) -> Vec<(String, LoadRow)> {
    // With one pair, the times above already name the devices.
    let of = if all { String::new() } else { format!("{} ", devices(&load.devices, style)) };
    let named = |row: &LoadRow| (format!("{of}{}", row.what), row.clone());
    let mut rows: Vec<(String, LoadRow)> =
        load.rows.iter().filter(|row| all || row.differs).map(named).collect();
    for program in &load.programs {
        let figures = program.time_shares.map(|share| Some(share * 100.0));
        let differs = (program.time_shares[0] - program.time_shares[1]).abs() > 0.2;
        if all || differs {
            let what = format!("{of}time of {}", escape(&program.process, style));
            let row = LoadRow { what: String::new(), unit: "%", figures, differs };
            rows.push((what, row));
        }
    }
    rows
}

fn environment(comparison: &Comparison, screen: &mut Screen) {
    if comparison.environment.is_empty() {
        return;
    }
    screen.gap();
    let heading = screen.style.paint("ENVIRONMENT", Paint::Heading);
    screen.line(&heading);
    let (telling, others): (Vec<_>, Vec<_>) =
        comparison.environment.iter().partition(|difference| difference.explains);
    for difference in &telling {
        let words: Vec<String> =
            difference.can_explain.iter().map(|word| shown_part(word)).collect();
        let what = if difference.explains_all { "any stage".to_owned() } else { words.join(", ") };
        let text = format!("{}; can change {what}", line(difference, screen.style));
        screen.prose(&text, 2, Paint::Plain);
    }
    for difference in others.iter().take(OTHERS) {
        let text = line(difference, screen.style);
        screen.prose(&text, 2, Paint::Faint);
    }
    if others.len() > OTHERS {
        let more = plural((others.len() - OTHERS) as u64, "more difference");
        screen.prose(&format!("{more} (--json)"), 2, Paint::Faint);
    }
}

fn shown_part(word: &str) -> String {
    match stage_place(word) {
        "" => WaitClass::phrase_of(word).to_owned(),
        _ => word.to_uppercase(),
    }
}

/// `queue/scheduler of sda: A none, B mq-deadline`.
fn line(difference: &Difference, style: &Style) -> String {
    let of = difference.devices.as_ref().map(|device| format!(" of {}", devices(device, style)));
    let value = |at: usize| match &difference.values[at] {
        Some(value) => escape(value, style).into_owned(),
        None => "-".to_owned(),
    };
    let name = escape(&difference.name, style);
    format!("{name}{}: A {}, B {}", of.unwrap_or_default(), value(0), value(1))
}
