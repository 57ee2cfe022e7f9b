//! `iowhy opens --held`: which processes hold which files open now, as lsof shows it.  What does
//! not belong here: finding them (crate `iowhy-capture`).

use crate::escape::{cut, escape};
use crate::fold::prose;
use crate::human;
use crate::json;
use crate::style::{Paint, Style};
use crate::table::{Align, Column, Definition, Room, TableCell, draw, number};
use serde::Serialize;

/// A file that a process holds.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct HeldRow {
    /// The process's name.
    pub process: String,
    /// The process.
    pub pid: u32,
    /// The process's user.
    pub user: String,
    /// The descriptor; or `cwd`, `txt` (the program), `mem` (mapped), as lsof calls them.
    pub fd: String,
    /// The access mode: `r`, `w`, or `u` for both; null if it is not known.
    pub mode: Option<&'static str>,
    /// The file's type, as lsof calls it: `REG`, `DIR`, `BLK`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// The file's length, bytes.
    pub size: Option<u64>,
    /// The descriptor's offset, bytes.
    pub offset: Option<u64>,
    /// Allocated space of the file, bytes.
    pub taken_bytes: Option<u64>,
    /// The device number of its file system: major:minor.
    pub device: String,
    /// The inode number.
    pub inode: u64,
    /// The path as seen from the root mount.
    pub file: String,
    /// Whether the name by which it was opened has been removed.
    pub deleted: bool,
    /// Whether it is kept in memory rather than on a device.
    pub in_memory: bool,
    /// Further rows that look the same on the screen.
    #[serde(skip)]
    pub further: u64,
}

impl HeldRow {
    /// Whether `other` looks the same on a screen: programs map an unnamed memory file many times.
    fn looks_like(&self, other: &HeldRow) -> bool {
        let looks = |row: &HeldRow| (row.pid, row.mode, row.size, row.offset, row.deleted);
        let is_same = looks(self) == looks(other) && self.file == other.file && self.fd == other.fd;
        is_same && self.in_memory && other.in_memory
    }
}

/// Rows that look the same as one.
fn folded(rows: &[HeldRow]) -> Vec<HeldRow> {
    let mut folded: Vec<HeldRow> = Vec::new();
    for row in rows {
        match folded.last_mut().filter(|last| last.looks_like(row)) {
            Some(last) => last.further += 1,
            None => folded.push(row.clone()),
        }
    }
    folded
}

/// The open files, and the processes that could not be inspected.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Holding {
    /// The files; deleted ones last, with the largest directly above the sum.
    pub held: Vec<HeldRow>,
    /// Files on devices without any name left, each counted once.
    pub deleted_files: u64,
    /// Space that these still take, bytes.
    pub deleted_bytes: u64,
    /// Processes that were inspected.
    pub processes: u64,
    /// Processes that this user may not inspect.
    pub refused_processes: u64,
    /// Processes that could not be inspected in time.
    pub unanswered_processes: u64,
    /// Open files beyond the limit.
    pub left_out: u64,
}

/// Screen width from which the process's name is shown in full, columns.
const ROOMY: usize = 110;

/// The columns of `iowhy opens --held`.
pub const HELD: Definition<HeldRow> = Definition {
    title: "iowhy opens --held",
    sentence: "One row for each file, directory and block device that a process holds open, by \
               process; deleted ones last, the largest at the end. The columns are lsof's, then \
               OFFSET.",
    columns: &[
        left(
            "COMMAND",
            0,
            "the process's name; on a narrow screen its first 9 characters",
            command,
        ),
        number("PID", "", 0, "the process", |row, _| row.pid.to_string().into()),
        left("USER", 1, "its user", |row, style| cut(&escape(&row.user, style), 12, style).into()),
        number(
            "FD",
            "",
            0,
            "the descriptor and its mode: `r` read, `w` write, `u` both; `cwd` the working \
             directory, `txt` the program, `mem` mapped",
            |row, _| format!("{}{}", row.fd, row.mode.unwrap_or("")).into(),
        ),
        left(
            "TYPE",
            2,
            "the file's type: `REG` regular file, `DIR` directory, `BLK` block device",
            |row, _| row.kind.to_owned().into(),
        ),
        number("DEVICE", "", 3, "the device number of its file system: major,minor", |row, _| {
            row.device.replace(':', ",").into()
        }),
        number("SIZE/OFF", "bytes", 0, "the file's length; else the offset, as `0t0`", size),
        number("NODE", "", 4, "its inode number", |row, _| row.inode.to_string().into()),
        number("OFFSET", "bytes", 5, "the descriptor's offset", |row, _| {
            row.offset.map_or("-".to_owned(), |offset| offset.to_string()).into()
        }),
        Column {
            room: Room::CutMiddle,
            ..left(
                "NAME",
                0,
                "the path as seen from the root mount; `(deleted)` if that name has been removed",
                name,
            )
        },
    ],
};

const fn left(
    heading: &'static str,
    rank: u8,
    sentence: &'static str,
    value: fn(&HeldRow, &Style) -> TableCell,
) -> Column<HeldRow> {
    Column { align: Align::Left, ..number(heading, "", rank, sentence, value) }
}

fn command(row: &HeldRow, style: &Style) -> TableCell {
    // Program names have at most 15 characters, kernel threads' can have more. lsof shows 9.
    let room = if style.columns() >= ROOMY { 15 } else { 9 };
    cut(&escape(&row.process, style), room, style).into()
}

fn name(row: &HeldRow, style: &Style) -> TableCell {
    let path = escape(&row.file, style);
    let times = style.either("×", "x");
    let times = match row.further {
        0 => String::new(),
        further => format!(" {times} {}", human::count(further + 1)),
    };
    match row.deleted {
        false => format!("{path}{times}").into(),
        true => TableCell { text: format!("{path} (deleted){times}"), paint: Paint::Alert },
    }
}

fn size(row: &HeldRow, _style: &Style) -> TableCell {
    match (row.size, row.offset) {
        (Some(size), _) => human::bytes(size as f64).into(),
        (None, Some(offset)) => format!("0t{offset}").into(),
        (None, None) => "-".to_owned().into(),
    }
}

/// Draws the table, the space that deleted files take, and notes on processes that could not be
/// inspected.
pub fn render(holding: &Holding, style: &Style) -> String {
    let mut lines: Vec<String> = draw(&HELD, &folded(&holding.held), style).lines().collect();
    lines.extend(sentences(holding).iter().flat_map(|sentence| prose(sentence, style.columns())));
    lines.into_iter().map(|line| line + "\n").collect()
}

fn sentences(holding: &Holding) -> Vec<String> {
    let mut sentences = Vec::new();
    if holding.held.is_empty() {
        sentences.push("No matching file is held open.".to_owned());
    }
    if holding.deleted_files > 0 {
        sentences.push(format!(
            "Files without a name that are held open: {}; they still take {}.",
            human::count(holding.deleted_files),
            human::bytes(holding.deleted_bytes as f64),
        ));
    }
    if holding.left_out > 0 {
        sentences.push(format!("Left out: {} more.", human::count(holding.left_out)));
    }
    if holding.refused_processes > 0 {
        sentences.push(format!(
            "Not shown: open files of {} of {}, which this user may not inspect.",
            human::count(holding.refused_processes),
            human::plural(holding.processes, "process"),
        ));
    }
    if holding.unanswered_processes > 0 {
        sentences.push(format!(
            "Not shown: open files of {} of {}: a file system did not answer in time, or their \
             memory was locked.",
            human::count(holding.unanswered_processes),
            human::plural(holding.processes, "process"),
        ));
    }
    sentences
}

/// Returns the open files as JSON, with exact figures.
pub fn json(holding: &Holding) -> String {
    let mut text = serde_json::to_string_pretty(holding).unwrap_or_default();
    text.push('\n');
    json::escaped(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deleted_file_stands_above_the_sum_and_names_are_harmless() {
        let row = HeldRow {
            process: "l\u{1b}g".to_owned(),
            pid: 4_194_304,
            user: "postgres".to_owned(),
            kind: "REG",
            device: "259:7".to_owned(),
            inode: 131_074,
            fd: "3".to_owned(),
            mode: Some("w"),
            size: Some(3 << 30),
            offset: Some(3 << 30),
            file: format!("/var/log/{}/app.log", "deep/".repeat(20)),
            deleted: true,
            ..HeldRow::default()
        };
        let holding = Holding {
            held: vec![row],
            deleted_files: 1,
            deleted_bytes: 3 << 30,
            processes: 12,
            refused_processes: 2,
            unanswered_processes: 3,
            left_out: 0,
        };
        let text = render(&holding, &Style::plain(80));
        assert!(text.lines().all(|line| crate::escape::width(line) <= 80), "{text}");
        assert!(text.contains("l\\x1bg") && text.contains("app.log (deleted)"), "{text}");
        assert!(text.contains(": 1; they still take 3.00 GiB."), "{text}");
        assert!(text.contains("2 of 12 processes"), "{text}");
        assert!(text.contains("3 of 12 processes: a file system did not answer"), "{text}");
        assert!(!json(&holding).contains('\u{1b}'));
        let headings = |width: usize| {
            let text = render(&holding, &Style::plain(width));
            text.lines().next().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
        };
        let lsof = "COMMAND PID USER FD TYPE DEVICE SIZE/OFF NODE OFFSET NAME";
        assert_eq!(headings(10_000), lsof);
        assert_eq!(headings(120), lsof.replace(" OFFSET", ""));
        assert_eq!(headings(80), "COMMAND PID USER FD TYPE SIZE/OFF NAME");
    }
}
