//! File activity of processes, whether it reached a device or not.

use super::Screen;
use crate::escape::escape;
use crate::human::{self, plural};
use crate::style::{Paint, Style};
use crate::table::{Align, Column, Definition, Room, TableCell, number};
use iowhy_analysis::Summary;
use iowhy_analysis::summary::{ActivityReport, ActivityRow};

/// Maximum number of rows on the first screen.
const FEW: usize = 5;
/// Calls per second below which the first screen has no such section.
const LEAST_CALLS_PER_S: f64 = 10.0;

/// The largest users of files, on the first screen.
pub const ACTIVITY: Definition<ActivityRow> = Definition {
    title: "FILE CALLS",
    sentence: "File calls of programs by file and process, most time first: calls and bytes as \
               programs see them, from the page cache or from a device. Many files whose paths \
               differ in a number (N) or a name (*) share a row.",
    columns: &[
        Column { heading: "FILE CALLS", ..FILE },
        Column { heading: "by", ..COMM },
        Column { room: Room::Rank(3), ..PID },
        TIME,
        CALLS,
        READ,
        WRITTEN,
        FAILED,
        REMOVED,
        LIFE,
    ],
};

/// `iowhy files`: filetop's columns in its order, then further ones, which are dropped first.
pub const FILETOP: Definition<ActivityRow> = Definition {
    title: "iowhy files",
    sentence: "File calls of each process in the interval, most time first: calls and bytes as \
               programs see them, from the page cache or from a device. Many files whose paths \
               differ in a number (N) or a name (*) share a row.",
    columns: &[
        kept(PID),
        kept(COMM),
        kept(READS),
        kept(WRITES),
        R_KB,
        W_KB,
        TYPE,
        OPENS,
        SYNCS,
        ASKED,
        FAILED,
        FAULTS,
        REMOVED,
        LIFE,
        CALLS,
        TIME,
        FILE,
    ],
};

/// One of filetop's own columns.
const fn kept(column: Column<ActivityRow>) -> Column<ActivityRow> {
    Column { room: Room::Kept, ..column }
}

const R_KB: Column<ActivityRow> =
    kept(number("R_Kb", "KiB", 0, "bytes read", |row, _| kilobytes(row.counts.read_bytes)));
const W_KB: Column<ActivityRow> =
    kept(number("W_Kb", "KiB", 0, "bytes written", |row, _| kilobytes(row.counts.write_bytes)));

const TYPE: Column<ActivityRow> = Column {
    align: Align::Left,
    ..kept(number(
        "T",
        "",
        0,
        "the type: `R` regular file, `D` directory, `B` block device; `-` if it is not known, or \
         not the same for all",
        |row, _| {
            let letter = match row.file_type {
                Some("file") => "R",
                Some("directory") => "D",
                Some("block_device") => "B",
                _ => "-",
            };
            letter.to_owned().into()
        },
    ))
};

const PID: Column<ActivityRow> =
    number("PID", "", 3, "the process", |row, _| row.pid.to_string().into());
const COMM: Column<ActivityRow> = Column {
    align: Align::Left,
    ..number("COMM", "", 0, "the process's name", |row, style| name(row, style).into())
};
const READS: Column<ActivityRow> =
    number("READS", "calls", 5, "reads, by system calls, libaio and io_uring", |row, _| {
        count(row.counts.reads)
    });
const WRITES: Column<ActivityRow> =
    number("WRITES", "calls", 5, "writes, by system calls, libaio and io_uring", |row, _| {
        count(row.counts.writes)
    });
const READ: Column<ActivityRow> =
    number("read", "bytes", 2, "bytes returned by reads", |row, _| bytes(row.counts.read_bytes));
const WRITTEN: Column<ActivityRow> =
    number("written", "bytes", 2, "bytes written", |row, _| bytes(row.counts.write_bytes));
const OPENS: Column<ActivityRow> =
    number("opens", "calls", 6, "successful opens", |row, _| count(row.counts.opens));
const SYNCS: Column<ActivityRow> =
    number("syncs", "calls", 6, "fsync and similar calls", |row, _| count(row.counts.fsyncs));
const ASKED: Column<ActivityRow> =
    number("asked", "calls", 7, "stat, access, readlink, getdents", |row, _| {
        count(row.counts.stats + row.counts.scans)
    });
const FAILED: Column<ActivityRow> =
    number("failed", "calls", 7, "failed calls, most often names that do not exist", |row, _| {
        count(row.counts.failures)
    });
const FAULTS: Column<ActivityRow> =
    number("faults", "faults", 9, "page faults on mappings of it", |row, _| {
        count(row.counts.faults)
    });
const REMOVED: Column<ActivityRow> =
    number("removed", "calls", 8, "names removed", |row, _| count(row.counts.unlinks));
const LIFE: Column<ActivityRow> = number(
    "life",
    "time",
    8,
    "mean lifetime of files that were created and removed meanwhile",
    |row, style| {
        let life = |ns| human::time(ns as f64, style);
        row.lifetime_ns.map_or_else(|| "-".to_owned(), life).into()
    },
);
const CALLS: Column<ActivityRow> =
    number("calls", "calls", 4, "all calls, failed ones included", |row, _| {
        count(row.counts.calls())
    });
const TIME: Column<ActivityRow> = Column {
    legend: "time in calls on files; ~ if only some of them were timed",
    ..number("time", "time", 1, "time in all the calls", |row, style| {
        let Some(ns) = row.time_ns else { return "?".to_owned().into() };
        let about = if row.counts.timed_calls < row.counts.calls() { "~" } else { "" };
        format!("{about}{}", human::time(ns as f64, style)).into()
    })
};
const FILE: Column<ActivityRow> = Column {
    heading: "FILE",
    unit: "",
    align: Align::Left,
    room: Room::CutMiddle,
    sentence: "the path; for many files the pattern and their number",
    legend: "",
    value: |row, style| file(row, style).into(),
};

fn count(value: u64) -> TableCell {
    if value == 0 { "-".to_owned().into() } else { human::count(value).into() }
}

fn kilobytes(value: u64) -> TableCell {
    human::rate(value as f64 / 1024.0).into()
}

fn bytes(value: u64) -> TableCell {
    if value == 0 { "-".to_owned().into() } else { human::bytes(value as f64).into() }
}

fn name(row: &ActivityRow, style: &Style) -> String {
    match &row.process {
        Some(process) => escape(process, style).into_owned(),
        None if row.pid == 0 => "(others)".to_owned(),
        None => "?".to_owned(),
    }
}

fn file(row: &ActivityRow, style: &Style) -> String {
    let Some(path) = &row.file else { return "(path not known)".to_owned() };
    let path = escape(path, style);
    match row.files {
        Some(files) if files > 1 => {
            format!("{path} {} {}", style.either("×", "x"), human::count(files))
        }
        _ => path.into_owned(),
    }
}

/// The largest rows, if there are enough calls.
pub(super) fn section(summary: &Summary, screen: &mut Screen) {
    let Some(activity) = &summary.activity else { return };
    let seconds = summary.watch.duration_ns as f64 / 1e9;
    if (activity.total.calls() as f64) < LEAST_CALLS_PER_S * seconds {
        return;
    }
    screen.table(&ACTIVITY, activity.rows.get(..FEW).unwrap_or(&activity.rows));
}

/// The complete table, as `iowhy files` shows it.
pub(crate) fn whole(activity: &ActivityReport, screen: &mut Screen) {
    let shown = screen.style.rows * 2;
    let rows = activity.rows.get(..shown).unwrap_or(&activity.rows);
    screen.table(&FILETOP, rows);
    let left = activity.others.rows + (activity.rows.len() - rows.len()) as u64;
    if left > 0 {
        let total = human::count(activity.total.calls());
        screen.prose(
            &format!("{} more; {total} calls in all", plural(left, "row")),
            2,
            Paint::Faint,
        );
    }
}
