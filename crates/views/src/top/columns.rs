//! Columns of what is behind a line: shares of what was opened, by process, file or code path.

use crate::human;
use crate::style::{Paint, Style};
use crate::table::{Align, Column, Definition, Room, TableCell, number};
use crate::text::waits::{BlockedTime, longest, share, time, waits};
use iowhy_analysis::Direction;
use iowhy_analysis::summary::Usage;
use iowhy_analysis::summary::WaitedRow;

/// The usage of one subject in a moment.
#[derive(Clone, PartialEq, Debug)]
pub struct TopUsedRow {
    /// The subject's name, escaped.
    pub name: String,
    /// The subject's usage.
    pub usage: Usage,
    /// Length of the moment, seconds.
    pub seconds: f64,
    /// Whether it is the usage that belongs to no subject of the table.
    pub is_rest: bool,
}

/// The blocked time of one subject's threads in a moment.
#[derive(Clone, PartialEq, Debug)]
pub struct TopWaitedRow {
    /// The subject's name, escaped.
    pub name: String,
    /// The blocked time.
    pub waited: WaitedRow,
    /// Whether it is the time that belongs to no subject of the table.
    pub is_rest: bool,
}

impl BlockedTime for TopWaitedRow {
    fn time_ns(&self) -> u64 {
        self.waited.time_ns
    }
    fn time_share(&self) -> f64 {
        self.waited.time_share
    }
    fn waits(&self) -> u64 {
        self.waited.waits
    }
    fn longest_ns(&self) -> u64 {
        self.waited.longest_ns
    }
}

fn paint(is_rest: bool) -> Paint {
    if is_rest { Paint::Faint } else { Paint::Plain }
}

const fn used_name(heading: &'static str, room: Room) -> Column<TopUsedRow> {
    Column {
        heading,
        unit: "",
        align: Align::Left,
        room,
        sentence: "its name; in brackets why none is known",
        legend: "",
        value: |row, _| TableCell { text: row.name.clone(), paint: paint(row.is_rest) },
    }
}

const fn waited_name(heading: &'static str, room: Room) -> Column<TopWaitedRow> {
    Column {
        heading,
        unit: "",
        align: Align::Left,
        room,
        sentence: "its name; in brackets why none is known",
        legend: "",
        value: |row, _| TableCell { text: row.name.clone(), paint: paint(row.is_rest) },
    }
}

const SHARE: Column<TopUsedRow> =
    number("%time", "%", 0, "share of the time of the requests that are listed", |row, _| {
        human::percent(row.usage.time_share).into()
    });
const TIME: Column<TopUsedRow> =
    number("time", "time", 2, "Q2C of its requests; ≥ where some have not completed", bounded_time);

fn bounded_time(row: &TopUsedRow, style: &Style) -> TableCell {
    let bound = if row.usage.open_requests > 0 { style.either("≥", ">=") } else { "" };
    format!("{bound}{}", human::time(row.usage.all_time_ns() as f64, style)).into()
}

const READS: Column<TopUsedRow> =
    number("r/s", "1/s", 1, "reads completed per second", |row, _| rate(row, Direction::Read));
const WRITES: Column<TopUsedRow> =
    number("w/s", "1/s", 1, "writes completed per second", |row, _| rate(row, Direction::Write));
const READ_BYTES: Column<TopUsedRow> =
    number("read/s", "bytes/s", 3, "bytes read per second", |row, _| bytes(row, Direction::Read));
const WRITE_BYTES: Column<TopUsedRow> =
    number("write/s", "bytes/s", 3, "bytes written per second", |row, _| {
        bytes(row, Direction::Write)
    });
const OPEN: Column<TopUsedRow> =
    number("in flight", "requests", 4, "its requests that had not completed", |row, _| {
        human::count(row.usage.open_requests).into()
    });

fn rate(row: &TopUsedRow, direction: Direction) -> TableCell {
    human::rate(row.usage.directions[direction].requests as f64 / row.seconds).into()
}

fn bytes(row: &TopUsedRow, direction: Direction) -> TableCell {
    human::bytes(row.usage.directions[direction].bytes as f64 / row.seconds).into()
}

macro_rules! opened_by {
    ($title:literal, $heading:literal, $room:expr, $sentence:literal) => {
        Definition {
            title: $title,
            sentence: $sentence,
            columns: &[
                SHARE,
                TIME,
                READS,
                WRITES,
                READ_BYTES,
                WRITE_BYTES,
                OPEN,
                used_name($heading, $room),
            ],
        }
    };
}

/// The tables behind a line of requests: by process, by file, by code path; and all by unit.
pub const OPENED_BY: [Definition<TopUsedRow>; 4] = [
    opened_by!(
        "iowhy top: processes behind a line",
        "PROCESS",
        Room::CutEnd,
        "Who used the device or the file: the owner of the data where it is known, else the \
         submitter."
    ),
    opened_by!(
        "iowhy top: files",
        "FILE",
        Room::CutMiddle,
        "The files of the requests, of what was opened alone."
    ),
    opened_by!(
        "iowhy top: code paths behind a line",
        "CODE PATH",
        Room::CutEnd,
        "Which functions submitted the requests, of those of which a stack was taken."
    ),
    opened_by!(
        "iowhy top: units",
        "UNIT",
        Room::CutMiddle,
        "The container or systemd unit whose processes own the data; Enter shows its processes."
    ),
];

macro_rules! waited_by {
    ($title:literal, $heading:literal, $room:expr, $sentence:literal) => {
        Definition {
            title: $title,
            sentence: $sentence,
            columns: &[share(), time(), waits(1), longest(2), waited_name($heading, $room)],
        }
    };
}

/// The tables behind a wait class: by process, by file, by code path.
pub const WAITED_BY: [Definition<TopWaitedRow>; 3] = [
    waited_by!(
        "iowhy top: processes behind a wait class",
        "PROCESS",
        Room::CutEnd,
        "Whose threads waited."
    ),
    waited_by!(
        "iowhy top: files behind a wait class",
        "FILE",
        Room::CutMiddle,
        "The file of the system call in which they waited."
    ),
    waited_by!(
        "iowhy top: code paths behind a wait class",
        "CODE PATH",
        Room::CutEnd,
        "The functions in which they waited."
    ),
];
