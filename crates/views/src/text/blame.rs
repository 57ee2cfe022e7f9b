//! Blame: lines of the first screen, and `iowhy blame`.

use super::Screen;
use super::header;
use crate::escape::escape;
use crate::human::{self, plural};
use crate::style::{Paint, Style};
use crate::table::{Align, Column, Definition, Room, TableCell};
use iowhy_analysis::Summary;
use iowhy_analysis::summary::{BehindRow, BlameSummary, BlamedCulprit, BlamedWaiter};

/// Maximum number of lines on the first screen.
const MOST_LINES: usize = 3;
/// A culprit with a smaller share of all blocked time has no line there.
const LEAST_SHARE: f64 = 0.02;
/// Maximum number of rows of `iowhy blame`: waiters, culprits of each, and culprits of all.
const MOST_WAITERS: usize = 10;
const MOST_BEHIND: usize = 6;
const MOST_CULPRITS: usize = 10;

/// Said of a watch that recorded a sample of the waits.
const SAMPLED: &str = "a sample of the waits was recorded: times are of those, and not weighted as \
                       in WAITS; shares are estimates";

/// A row of `iowhy blame`: a waiter, or a culprit.
#[derive(Clone, Debug, Default)]
pub struct BlameRow {
    who: String,
    time_ns: u64,
    /// `None` if no culprit is charged.
    stages: Option<(u64, u64)>,
    /// Share of the waiter's time.
    share: Option<f64>,
    is_waiter: bool,
}

const TIME: Column<BlameRow> = Column {
    heading: "time",
    unit: "time",
    align: Align::Right,
    room: Room::Rank(0),
    sentence: "time that the waiter's threads waited for requests; `queue` and `device` add up to \
        it",
    legend: "",
    value: |row, style| human::time(row.time_ns as f64, style).into(),
};

const QUEUE: Column<BlameRow> = Column {
    heading: "queue",
    sentence: "while the waiter's requests were only queued and those named were at the device",
    legend: "the waiter's requests were only queued, those named were at the device",
    room: Room::Rank(2),
    value: |row, style| length(row.stages.map(|stages| stages.0), style),
    ..TIME
};

const DEVICE: Column<BlameRow> = Column {
    heading: "device",
    sentence: "while requests of the waiter and those named were at the device, in equal parts; an \
               upper bound if the device works on many at once",
    legend: "both were at the device, in equal parts; an upper bound if the device works on many \
             at once",
    value: |row, style| length(row.stages.map(|stages| stages.1), style),
    ..QUEUE
};

const fn who(heading: &'static str, sentence: &'static str) -> Column<BlameRow> {
    Column {
        heading,
        unit: "",
        align: Align::Left,
        room: Room::CutMiddle,
        sentence,
        legend: "",
        value: |row, _| TableCell {
            text: row.who.clone(),
            paint: if row.is_waiter { Paint::Heading } else { Paint::Plain },
        },
    }
}

/// Waiters and their culprits.
pub const BLAME: Definition<BlameRow> = Definition {
    title: "iowhy blame",
    sentence: "For each process that waited for requests, whose requests the device had meanwhile; \
               the process that others delayed longest comes first. See [blame.md](blame.md).",
    columns: &[
        who(
            "WHO WAITED, and for whom",
            "the process; below it, whose requests were served: their origin, file and owner (of \
             writeback, who dirtied the pages)",
        ),
        TIME,
        Column {
            heading: "%time",
            unit: "%",
            align: Align::Right,
            room: Room::Rank(1),
            sentence: "share of the waiter's time",
            legend: "",
            value: |row, _| row.share.map(human::percent).unwrap_or_default().into(),
        },
        QUEUE,
        DEVICE,
    ],
};

/// Culprits.
pub const CULPRITS: Definition<BlameRow> = Definition {
    title: "iowhy blame: who made others wait",
    sentence: "The processes whose requests others waited for, most time first.",
    columns: &[
        who("WHO MADE OTHERS WAIT", "the process, or the reason why it is not known"),
        Column { sentence: "time that threads of others waited for its requests", ..TIME },
        QUEUE,
        DEVICE,
    ],
};

fn length(time_ns: Option<u64>, style: &Style) -> TableCell {
    match time_ns {
        None | Some(0) => "-".to_owned().into(),
        Some(time_ns) => human::time(time_ns as f64, style).into(),
    }
}

/// Lines for the processes that others delayed longest.
pub(super) fn lines(summary: &Summary, screen: &mut Screen) {
    let (Some(blame), Some(ledger)) = (&summary.blame, &summary.ledger) else { return };
    let least = ledger.blocked_ns as f64 * LEAST_SHARE;
    let blamed = blame.waiters.iter().filter_map(|waiter| {
        let foremost = waiter.foremost.as_ref()?;
        (foremost.time_ns as f64 > least).then_some((waiter, foremost))
    });
    for (waiter, foremost) in blamed.take(MOST_LINES) {
        let style = screen.style;
        let time = |time_ns: u64| human::time(time_ns as f64, style);
        let text = format!(
            "{} waited {} for requests, {} of it {} {}",
            process(waiter.pid, &waiter.process, style),
            time(waiter.shares.waited_ns),
            time(foremost.time_ns),
            if foremost.queue_ns >= foremost.device_ns { "behind" } else { "beside" },
            phrase(foremost, style),
        );
        screen.prose(&text, 2, Paint::Plain);
    }
}

/// `iowhy blame`, in lines that end with a newline.
pub fn render(summary: &Summary, style: &Style) -> String {
    let mut screen = Screen::new(style);
    header::header(summary, &mut screen);
    header::losses(summary, &mut screen);
    header::kept(summary, &mut screen);
    tables(summary, &mut screen);
    if summary.blame.is_some() {
        screen.legend();
    }
    screen.text
}

/// Writes who waited for whom, who made others wait, and the sum.
pub(crate) fn tables(summary: &Summary, screen: &mut Screen<'_>) {
    let (Some(blame), style) = (&summary.blame, screen.style) else { return };
    let waiters = blame.waiters.iter().take(MOST_WAITERS);
    let rows: Vec<BlameRow> = waiters.flat_map(|waiter| rows_of(waiter, style)).collect();
    screen.table(&BLAME, &rows);
    let culprits = blame.culprits.iter().take(MOST_CULPRITS);
    let rows: Vec<BlameRow> = culprits.map(|culprit| culprit_row(culprit, style)).collect();
    screen.table(&CULPRITS, &rows);
    screen.gap();
    screen.prose(&whole(blame, style), 0, Paint::Plain);
    if summary.environment.thinning.iter().any(|level| level.waits_one_in > 1) {
        screen.prose(SAMPLED, 0, Paint::Faint);
    }
}

fn whole(blame: &BlameSummary, style: &Style) -> String {
    let time = |time_ns: u64| human::time(time_ns as f64, style);
    let all = &blame.whole;
    if all.waited_ns == 0 {
        return "no thread waited for requests".to_owned();
    }
    let mut text = format!(
        "{} waited for requests in all: {} for others' requests, {} for their own",
        time(all.waited_ns),
        time(all.others_ns),
        time(all.own_ns),
    );
    if all.idle_ns > 0 {
        text.push_str(&format!(", {} while the device had none", time(all.idle_ns)));
    }
    if all.unknown_ns > 0 {
        text.push_str(&format!(", {} not known", time(all.unknown_ns)));
    }
    let hidden = blame.waiters.len().saturating_sub(MOST_WAITERS);
    if hidden > 0 {
        text.push_str(&format!("; {} more waited", plural(hidden as u64, "process")));
    }
    text
}

fn rows_of(waiter: &BlamedWaiter, style: &Style) -> Vec<BlameRow> {
    let shares = &waiter.shares;
    let row = |who: String, time_ns: u64, stages| BlameRow {
        who,
        time_ns,
        stages,
        share: Some(time_ns as f64 / shares.waited_ns.max(1) as f64),
        is_waiter: false,
    };
    let who = process(waiter.pid, &waiter.process, style);
    let who = format!("{who}, {}", plural(waiter.waits, "wait"));
    let stages = Some((shares.queue_ns, shares.device_ns));
    let mut rows = vec![BlameRow { is_waiter: true, ..row(who, shares.waited_ns, stages) }];
    let mut further = waiter.further_ns;
    for (index, behind) in waiter.behind.iter().enumerate() {
        if index < MOST_BEHIND {
            let stages = Some((behind.queue_ns, behind.device_ns));
            rows.push(row(format!("  {}", phrase(behind, style)), behind.time_ns, stages));
        } else {
            further += behind.time_ns;
        }
    }
    let rest = [
        ("requests of further ones", further),
        ("the device had none", shares.idle_ns),
        ("not known", shares.unknown_ns),
    ];
    let rest = rest.into_iter().filter(|(_, time_ns)| *time_ns > 0);
    rows.extend(rest.map(|(who, time_ns)| row(format!("  {who}"), time_ns, None)));
    rows
}

fn culprit_row(culprit: &BlamedCulprit, style: &Style) -> BlameRow {
    let BlamedCulprit { pid, process: name, reason, time_ns, queue_ns, device_ns } = culprit;
    let who = match (name, reason) {
        (None, Some(reason)) => format!("({})", escape(reason, style)),
        _ => process(*pid, name.as_deref().unwrap_or_default(), style),
    };
    let stages = Some((*queue_ns, *device_ns));
    BlameRow { who, time_ns: *time_ns, stages, ..BlameRow::default() }
}

fn process(pid: Option<u32>, name: &str, style: &Style) -> String {
    let name = escape(name, style);
    match pid {
        Some(pid) if name.is_empty() => format!("process {pid}"),
        Some(pid) => format!("{name} ({pid})"),
        None => name.into_owned(),
    }
}

/// `writeback of /var/log/app.log, dirtied by logger (9)`; `reads of /srv/data by itself`.
fn phrase(behind: &BehindRow, style: &Style) -> String {
    let mut text = behind.origin.map_or("requests", noun).to_owned();
    match &behind.file {
        Some(file) => text.push_str(&format!(" of {}", escape(file, style))),
        None if behind.several_files => text.push_str(" of several files"),
        None => {}
    }
    let owner = match (&behind.reason, &behind.process) {
        (Some(reason), None) => return format!("{text} ({})", escape(reason, style)),
        _ if behind.own => "itself".to_owned(),
        (_, name) => process(behind.pid, name.as_deref().unwrap_or_default(), style),
    };
    let by = if behind.origin == Some("writeback") { ", dirtied by" } else { " by" };
    format!("{text}{by} {owner}")
}

/// Returns the noun for requests of an origin.
fn noun(origin: &'static str) -> &'static str {
    match origin {
        "read" => "reads",
        "page_fault" => "page faults",
        "write" => "writes",
        "journal" => "journal requests",
        "metadata" => "metadata requests",
        "flush" => "flushes",
        "discard" => "discards",
        "stacked" => "requests of a device above",
        "passthrough" => "commands",
        "unknown" => "requests",
        other => other,
    }
}
