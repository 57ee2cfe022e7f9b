//! `iowhy proc`: pidstat -d and iotop, with the device I/O of each process.

use super::IntervalView;
use crate::escape::escape;
use crate::human::{self, plural};
use crate::style::{Paint, Style};
use crate::table::{Align, Column, Definition, Room, TableCell, explained, number};
use crate::text::Screen;
use iowhy_analysis::Summary;
use iowhy_analysis::processes::{ProcessActivity, processes};
use iowhy_model::Metric;

/// `iowhy proc`.
pub const PROC: IntervalView<Summary> = IntervalView {
    name: "proc",
    draw,
    json: |summary| serde_json::to_value(processes(summary)).unwrap_or_default(),
};

/// Processes shown in each interval.
const SHOWN: usize = 20;

const USER: Column<ProcessActivity> = Column {
    heading: "UID",
    unit: "",
    align: Align::Left,
    room: Room::Rank(2),
    sentence: "its user's name",
    legend: "",
    value: |row, style| text(row.user.as_deref(), style),
};
const PID: Column<ProcessActivity> =
    number("PID", "", 0, "its number", |row, _| row.pid.to_string().into());
const BLOCKED: Column<ProcessActivity> = explained(
    "share of the interval in which its threads were blocked for storage; above 100 if several \
     were",
    number(
        "%blocked",
        "%",
        0,
        "share of the interval in which its threads were blocked for storage; above 100 if several \
         wait at once. iotop's IO and pidstat's iodelay are 0 without kernel.task_delayacct; this \
         is not",
        |row, _| row.blocked_share.map_or_else(|| "?".to_owned(), human::percent).into(),
    ),
);
const DEVICE_READS: Column<ProcessActivity> =
    number("dev r/s", "1/s", 3, "reads that devices completed for it", |row, _| {
        human::rate(row.device_reads_per_s).into()
    });
const DEVICE_WRITES: Column<ProcessActivity> = explained(
    "requests that devices completed with its data, whichever process submitted them",
    number(
        "dev w/s",
        "1/s",
        3,
        "writes that devices completed with its data, whichever process submitted them (writeback \
         is its dirtier's)",
        |row, _| human::rate(row.device_writes_per_s).into(),
    ),
);
const DEVICE_BYTES: Column<ProcessActivity> =
    number("dev kB/s", "KiB/s", 4, "bytes of these reads and writes", |row, _| {
        human::rate(row.device_bytes_per_s / 1024.0).into()
    });
const COMMAND: Column<ProcessActivity> = Column {
    heading: "Command",
    unit: "",
    align: Align::Left,
    room: Room::CutEnd,
    sentence: "its name",
    legend: "",
    value: |row, style| escape(&row.process, style).into_owned().into(),
};

/// The columns of `iowhy proc`.
pub const PROCESSES: Definition<ProcessActivity> = Definition {
    title: "iowhy proc",
    sentence: "One row for each process that did I/O in the interval or was blocked by it, the one \
               with the most bytes first; the columns are those of pidstat -d, then iotop's share \
               of time, then its device I/O.",
    columns: &[
        USER,
        PID,
        number(
            "kB_rd/s",
            "KiB/s",
            0,
            "device reads that it caused (read_bytes of /proc/PID/io), readahead included; what \
             others read ahead for it is theirs",
            |row, _| kilobytes(row.read_bytes_per_s).into(),
        ),
        explained(
            "pages made dirty and direct writes, not what reached the device",
            number(
                "kB_wr/s",
                "KiB/s",
                0,
                "pages that it made dirty, and its direct writes (write_bytes): what devices have \
                 to write for it, now or later",
                |row, _| kilobytes(row.write_bytes_per_s).into(),
            ),
        ),
        number(
            "kB_ccwr/s",
            "KiB/s",
            1,
            "dirty pages that it discarded before they were written, by truncating or deleting",
            |row, _| kilobytes(row.cancelled_bytes_per_s).into(),
        ),
        BLOCKED,
        DEVICE_READS,
        DEVICE_WRITES,
        DEVICE_BYTES,
        number(
            "rchar/s",
            "KiB/s",
            7,
            "bytes that its read calls returned, from any source",
            |row, _| kilobytes(row.logical_read_bytes_per_s).into(),
        ),
        number(
            "wchar/s",
            "KiB/s",
            7,
            "bytes that its write calls wrote, to any target",
            |row, _| kilobytes(row.logical_write_bytes_per_s).into(),
        ),
        number("majflt/s", "1/s", 5, "page faults that had to read from a device", |row, _| {
            row.major_faults_per_s.map_or_else(|| "?".to_owned(), human::rate).into()
        }),
        COMMAND,
    ],
};

/// The columns if no process has counters: a recording without them, or a capture.
const UNCOUNTED: Definition<ProcessActivity> = Definition {
    columns: &[
        USER,
        PID,
        Column { room: Room::Kept, ..DEVICE_READS },
        Column { room: Room::Kept, ..DEVICE_WRITES },
        Column { room: Room::Kept, ..DEVICE_BYTES },
        BLOCKED,
        COMMAND,
    ],
    ..PROCESSES
};

/// The columns that fit the rows: those of the kernel's counters only where one has them.
pub fn processes_table(rows: &[ProcessActivity]) -> &'static Definition<ProcessActivity> {
    if rows.iter().any(ProcessActivity::is_counted) { &PROCESSES } else { &UNCOUNTED }
}

fn text(text: Option<&str>, style: &Style) -> TableCell {
    text.map_or_else(|| "-".to_owned(), |text| escape(text, style).into_owned()).into()
}

fn kilobytes(bytes: Option<f64>) -> String {
    bytes.map_or_else(|| "?".to_owned(), |bytes| human::rate(bytes / 1024.0))
}

fn draw(summary: &Summary, screen: &mut Screen<'_>) {
    let rows = processes(summary);
    if rows.is_empty() {
        screen.prose("no process did I/O", 0, Paint::Faint);
    }
    // A process that lived too briefly to be read twice has no figures of its own.
    let (brief, rows): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| row.is_only_blocked());
    let (shown, hidden) = rows.split_at(rows.len().min(SHOWN));
    let is_counted = rows.iter().any(ProcessActivity::is_counted);
    screen.rows(processes_table(&rows), shown);
    let mut notes = Vec::new();
    if !is_counted && !rows.is_empty() {
        notes.push("the kernel's counters of processes are not in this source".to_owned());
    }
    if !brief.is_empty() {
        let blocked: f64 = brief.iter().filter_map(|row| row.blocked_share).sum();
        let processes = plural(brief.len() as u64, "more process");
        let blocked = human::percent(blocked);
        notes.push(format!("{processes} without I/O of their own, blocked {blocked} % together"));
    }
    if !hidden.is_empty() {
        notes.push(format!("{} more did less", plural(hidden.len() as u64, "process")));
    }
    for (metric, what) in [
        (Metric::ProcessesUntold, "did less and are counted in a later interval"),
        (Metric::ProcessesUnread, "were not read: the time budget was used up"),
    ] {
        let count = summary.samples.system(metric).and_then(|series| series.max).unwrap_or(0.0);
        if count > 0.0 {
            notes.push(format!("up to {} {what}", plural(count as u64, "process")));
        }
    }
    if !notes.is_empty() {
        screen.prose(&notes.join("; "), 2, Paint::Faint);
    }
}
