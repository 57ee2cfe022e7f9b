//! `iowhy opens`: a line for each open, as opensnoop prints it; for a recording, opens by process
//! and file.  What does not belong here: files that are held open (see [`crate::held`]).

use crate::escape::{cut, escape, fit, width};
use crate::json;
use crate::style::{Paint, Style};
use crate::table::{Align, Column, Definition, Room, TableCell, draw};
use iowhy_model::{Names, Open};
use serde::Serialize;

/// The headings of live lines.
pub fn heading(style: &Style) -> String {
    let line = line_of(&["PID", "COMM", "FD", "ERR"].map(str::to_owned), "PATH", style);
    format!("{}\n", style.paint(&line, Paint::Heading))
}

/// One open.
pub fn line(open: &Open, names: &Names, style: &Style) -> String {
    let process = open.process.map_or("-".into(), |name| escape(names.get(name), style));
    let cells = [
        open.pid.to_string(),
        process.into_owned(),
        open.fd.map_or("-1".to_owned(), |fd| fd.to_string()),
        open.error.unwrap_or(0).to_string(),
    ];
    format!("{}\n", line_of(&cells, &escape(names.get(open.file), style), style))
}

fn line_of(cells: &[String; 4], path: &str, style: &Style) -> String {
    let [pid, process, fd, error] = cells;
    let process = cut(process, 15, style);
    let pad = " ".repeat(15_usize.saturating_sub(width(&process)));
    let line = format!("{pid:>7} {process}{pad} {fd:>5} {error:>3} ");
    let room = style.columns().saturating_sub(width(&line)).max(12);
    format!("{line}{}", fit(path, room, style))
}

/// One open as one line of JSON.
pub fn json_line(open: &Open, names: &Names) -> String {
    let line = serde_json::json!({
        "time_ns": open.time_ns,
        "pid": open.pid,
        "tid": open.tid,
        "process": open.process.map(|name| names.get(name)),
        "fd": open.fd,
        "error": open.error,
        "duration_ns": open.duration_ns,
        "device": open.device.map(|name| names.get(name)),
        "file": names.get(open.file),
    });
    json::escaped(format!("{line}\n"))
}

/// Opens of a file by a process, from a recording.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct OpenedRow {
    /// The process.
    pub pid: u32,
    /// The process's name.
    pub process: Option<String>,
    /// Successful opens.
    pub opens: u64,
    /// Opens that created the file.
    pub creates: u64,
    /// Calls of any kind that failed.
    pub failures: u64,
    /// The path, or the pattern of many files.
    pub file: Option<String>,
}

/// The columns of `iowhy opens SOURCE`.
pub const OPENED: Definition<OpenedRow> = Definition {
    title: "iowhy opens SOURCE",
    sentence: "One row for each process and file of a recording that was opened, or where a call \
               failed; the most opened first.",
    columns: &[
        number("PID", "the process", |row, _| row.pid.to_string().into()),
        Column {
            heading: "COMM",
            unit: "",
            align: Align::Left,
            room: Room::Rank(0),
            sentence: "the process's name",
            legend: "",
            value: |row, style| {
                let name = row.process.as_deref().unwrap_or("-");
                cut(&escape(name, style), 15, style).into()
            },
        },
        number("OPENS", "successful opens", |row, _| row.opens.to_string().into()),
        number("CREATES", "opens that created the file", |row, _| row.creates.to_string().into()),
        number("FAILED", "calls of any kind that failed", |row, _| row.failures.to_string().into()),
        Column {
            heading: "FILE",
            unit: "",
            align: Align::Left,
            room: Room::CutMiddle,
            sentence: "its path; for many files their pattern; `/dir/*` for names looked up in a \
                directory",
            legend: "",
            value: |row, style| {
                let file = row.file.as_deref().unwrap_or("-");
                escape(file, style).into_owned().into()
            },
        },
    ],
};

const fn number(
    heading: &'static str,
    sentence: &'static str,
    value: fn(&OpenedRow, &Style) -> TableCell,
) -> Column<OpenedRow> {
    let room = Room::Rank(0);
    Column { heading, unit: "", align: Align::Right, room, sentence, legend: "", value }
}

/// The table.
pub fn render(rows: &[OpenedRow], style: &Style) -> String {
    draw(&OPENED, rows, style).lines().map(|line| line + "\n").collect()
}

/// Returns the rows as JSON, for programs.
pub fn json(rows: &[OpenedRow]) -> String {
    let mut text = serde_json::to_string_pretty(rows).unwrap_or_default();
    text.push('\n');
    json::escaped(text)
}
