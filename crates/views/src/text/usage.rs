//! Time by process, container, file and origin.

use super::Screen;
use crate::escape::escape;
use crate::human;
use crate::style::{Paint, Style};
use crate::table::{Align, Column, Definition, Room, TableCell, number};
use iowhy_analysis::Summary;
use iowhy_analysis::summary::{FileRow, ProcessRow, ProgramRow, Usage, UsageTable};
use iowhy_model::Origin;
use iowhy_model::compact_sort::CompactSort;
use iowhy_model::quantities::estimated_percent;

/// Maximum number of rows that are shown only for their bytes.
pub(super) const BY_BYTES: usize = 2;
/// Maximum number of reasons for usage that belongs to no row.
pub(super) const REASONS: usize = 3;

/// A row of usage.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct UsageRow {
    /// The row's name, escaped.
    pub name: String,
    /// The row's usage.
    pub usage: Usage,
    /// Share of its reads and writes that are sequential, if that is counted.
    pub sequential_share: Option<f64>,
    /// Stacks that its share is estimated from; `None` if it is not an estimate.
    pub estimated_from: Option<u64>,
    /// Whether it is a remainder, not one of the table's subjects.
    pub rest: bool,
}

const fn name(heading: &'static str, room: Room, sentence: &'static str) -> Column<UsageRow> {
    Column {
        heading,
        unit: "",
        align: Align::Left,
        room,
        sentence,
        legend: "",
        value: |row, _| TableCell {
            text: row.name.clone(),
            paint: if row.rest { Paint::Faint } else { Paint::Plain },
        },
    }
}

/// Time; marked if part of it is a lower bound.
pub(super) const TIME: Column<UsageRow> = Column {
    legend: "sum of Q2C, split by bytes over files and owners; ≥ if some have not completed",
    ..number(
        "time",
        "time",
        1,
        "Q2C of all its requests. They overlap, so it may exceed the watch. Split by bytes if a \
         request has several files or owners; ≥ if some have not completed",
        |row, style| {
            let bound = if row.usage.open_requests > 0 { style.either("≥", ">=") } else { "" };
            let text =
                |usage: &Usage| bound.to_owned() + &human::time(usage.all_time_ns() as f64, style);
            known_time(&row.usage).map_or_else(|| "?".to_owned(), text).into()
        },
    )
};
pub(super) const TIME_SHARE: Column<UsageRow> =
    number("%time", "%", 0, "share of the time of all requests", |row, _| {
        let share = |usage: &Usage| match row.estimated_from {
            Some(samples) => estimated_percent(usage.time_share, samples),
            None => Some(human::percent(usage.time_share)),
        };
        known_time(&row.usage).and_then(share).unwrap_or_else(|| "?".to_owned()).into()
    });

/// Whether its time is known: every request takes some time, so a sum of 0 means that no request
/// has one.
fn known_time(usage: &Usage) -> Option<&Usage> {
    (usage.all_time_ns() > 0 || usage.requests + usage.open_requests == 0).then_some(usage)
}

const BYTES: Column<UsageRow> =
    number("bytes", "bytes", 2, "bytes of its requests that completed", |row, _| {
        human::bytes(row.usage.bytes as f64).into()
    });
const BYTES_SHARE: Column<UsageRow> =
    number("%bytes", "%", 4, "share of the bytes of all requests", |row, _| {
        human::percent(row.usage.bytes_share).into()
    });
pub(super) const REQUESTS: Column<UsageRow> = number(
    "requests",
    "requests",
    5,
    "completed requests that belong to it, in full or in part",
    |row, _| human::count(row.usage.requests).into(),
);
const MIX: Column<UsageRow> = Column {
    align: Align::Left,
    legend: "% of requests: read, write, flush, discard, other",
    ..number(
        "mix",
        "%",
        3,
        "share of its requests that read (r), write (w), flush (f), discard (d) or do anything \
         else (o)",
        |row, _| mix(&row.usage).into(),
    )
};
const SEQUENTIAL: Column<UsageRow> = number(
    "%seq",
    "%",
    6,
    "share of its reads and writes at the sector where an earlier one of the same stream ended",
    |row, _| row.sequential_share.map_or_else(|| "-".to_owned(), human::percent).into(),
);

/// Processes.
pub const PROCESSES: Definition<UsageRow> = Definition {
    title: "PROCESSES",
    sentence: "Processes by name, most time first. Writeback is charged to the process that \
               dirtied the data, not to the kernel thread; data dirtied before the watch has no \
               owner.",
    columns: &[
        name(
            "PROCESSES",
            Room::CutEnd,
            "the name; the PID, or × and the number of processes; the container",
        ),
        TIME,
        TIME_SHARE,
        BYTES,
        BYTES_SHARE,
        MIX,
        REQUESTS,
    ],
};

/// Containers.
pub const CONTAINERS: Definition<UsageRow> = Definition {
    title: "CONTAINERS",
    sentence: "Containers and systemd units, else cgroups; most time first.",
    columns: &[
        name("CONTAINERS", Room::CutEnd, "the container or unit, else the path of the cgroup"),
        TIME,
        TIME_SHARE,
        BYTES,
        BYTES_SHARE,
        MIX,
        REQUESTS,
    ],
};

/// Files.
pub const FILES: Definition<UsageRow> = Definition {
    title: "FILES",
    sentence: "Files, most time first.",
    columns: &[
        name("FILES", Room::CutMiddle, "the path as seen from the root mount"),
        TIME,
        TIME_SHARE,
        BYTES,
        BYTES_SHARE,
        MIX,
        REQUESTS,
        SEQUENTIAL,
    ],
};

/// Origins.
pub const ORIGINS: Definition<UsageRow> = Definition {
    title: "ORIGINS",
    sentence: "Why the requests exist, most time first.",
    columns: &[
        name(
            "ORIGINS",
            Room::CutEnd,
            "read, readahead, write, writeback, journal, metadata, flush …",
        ),
        TIME,
        TIME_SHARE,
        BYTES,
        BYTES_SHARE,
        MIX,
        REQUESTS,
    ],
};

/// The tables that have data.
pub(super) fn sections(summary: &Summary, screen: &mut Screen) {
    let style = *screen.style;
    let processes = rows(&summary.programs, &style, |row| (program_name(row, &style), None));
    let containers = rows(&summary.containers, &style, |row| {
        (escape(&row.container, &style).into_owned(), None)
    });
    let files = rows(&summary.files, &style, |row| (file_name(row, &style), row.sequential_share));
    let origins = match are_origins_unknown(summary) {
        true => Vec::new(),
        false => rows(&summary.origins, &style, |row| (row.origin.phrase().to_owned(), None)),
    };
    screen.tables(&[
        (&PROCESSES, &processes),
        (&CONTAINERS, &containers),
        (&FILES, &files),
        (&ORIGINS, &origins),
    ]);
}

/// Whether the origin of no request is known.
pub(super) fn are_origins_unknown(summary: &Summary) -> bool {
    matches!(summary.origins.rows.as_slice(), [row] if row.subject.origin == Origin::Unknown)
}

/// The rows that a screen shows: the largest, the others, and the remainder; no rows if the source
/// has no such data.
pub(super) fn rows<R: Clone>(
    table: &UsageTable<R>,
    style: &Style,
    name: impl Fn(&R) -> (String, Option<f64>),
) -> Vec<UsageRow> {
    if table.is_absent() {
        return Vec::new();
    }
    let top = table.top(style.rows, BY_BYTES, REASONS);
    let rest =
        |name: String, usage: Usage| UsageRow { name, usage, rest: true, ..UsageRow::default() };
    let named = top.rows.into_iter().map(|row| {
        let (name, sequential_share) = name(&row.subject);
        UsageRow { name, usage: row.usage, sequential_share, estimated_from: None, rest: false }
    });
    let mut rows: Vec<UsageRow> = named.collect();
    if top.others.count > 0 {
        let others = human::plural(top.others.count, "other");
        rows.push(rest(format!("({others})"), top.others.usage));
    }
    let unknown = top.unknown.into_iter();
    rows.extend(unknown.map(|row| rest(format!("({})", escape(&row.reason, style)), row.usage)));
    rows
}

fn mix(usage: &Usage) -> String {
    if usage.requests == 0 {
        return "-".to_owned();
    }
    let mut shares: Vec<(u64, &str)> = usage
        .directions
        .iter()
        .filter(|(_, flow)| flow.requests > 0)
        .map(|(direction, flow)| (flow.requests, &direction.word()[..1]))
        .collect();
    shares.compact_sort_by_key(|(requests, _)| std::cmp::Reverse(*requests));
    let share = |requests: u64| (requests as f64 * 100.0 / usage.requests as f64).round();
    let texts = shares.iter().map(|(requests, letter)| format!("{letter}{}", share(*requests)));
    texts.collect::<Vec<_>>().join(" ")
}

pub(super) fn program_name(row: &ProgramRow, style: &Style) -> String {
    let which = match row.pid {
        Some(pid) => pid.to_string(),
        None => format!("{}{}", style.either("×", "x"), human::count(row.processes)),
    };
    with_container(&row.process, &which, row.container.as_deref(), style)
}

/// `java (30603, jenkins.service)`.
pub(crate) fn process_name(row: &ProcessRow, style: &Style) -> String {
    let which = row.pid.map_or_else(|| "?".to_owned(), |pid| pid.to_string());
    with_container(&row.process, &which, row.container.as_deref(), style)
}

fn with_container(name: &str, which: &str, container: Option<&str>, style: &Style) -> String {
    let name = if name.is_empty() { "unknown process".into() } else { escape(name, style) };
    match container.filter(|container| !container.is_empty()) {
        Some(container) => format!("{name} ({which}, {})", escape(container, style)),
        None => format!("{name} ({which})"),
    }
}

pub(super) fn file_name(row: &FileRow, style: &Style) -> String {
    let path = escape(&row.file, style);
    if row.deleted { format!("{path} (deleted)") } else { path.into_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_that_no_request_tells_is_not_known() {
        let shown = |requests: u64, open_requests: u64, time_ns: u64| {
            let usage = Usage { requests, open_requests, time_ns, ..Usage::default() };
            let row = UsageRow { name: String::new(), usage, ..UsageRow::default() };
            let style = Style::plain(80);
            [TIME, TIME_SHARE].map(|column| (column.value)(&row, &style).text)
        };
        assert_eq!(shown(2, 0, 0), ["?", "?"]);
        assert_eq!(shown(0, 1, 0), ["?", "?"]);
        assert_eq!(shown(2, 1, 1_500), ["≥1.50 µs", "0"]);
        assert_eq!(shown(0, 0, 0), ["0 ns", "0"]);
    }
}
