//! What this machine lets iowhy see, and what is lost for each thing that is missing.

use crate::escape::escape;
use crate::fold;
use crate::style::{Paint, Style};
use crate::table::{Align, Cell, Column, Definition, Room, draw};

/// Whether something is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// It is there.
    Yes,
    /// Some of it is there.
    Partly,
    /// It is not there.
    No,
    /// It could not be found out.
    Unknown,
}

impl State {
    /// The word that stands for it.
    pub const fn word(self) -> &'static str {
        match self {
            State::Yes => "yes",
            State::Partly => "partly",
            State::No => "no",
            State::Unknown => "unknown",
        }
    }
}

/// One thing that iowhy needs or can use. Its texts may hold anything: they are escaped here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    /// What it is: "BTF", "cgroup v2" …
    pub what: String,
    /// Whether it is there.
    pub state: State,
    /// What was found: a version, a path, a mode.
    pub value: String,
    /// What iowhy cannot see without it; empty where it is there.
    pub lost_without: String,
}

impl Row {
    fn found(&self) -> String {
        match (self.value.as_str(), self.lost_without.as_str()) {
            (value, "") => value.to_owned(),
            ("", lost) => format!("lost: {lost}"),
            (value, lost) => format!("{value}; lost: {lost}"),
        }
    }
}

/// The table of `iowhy check`.
pub const CHECK: Definition<Row> = Definition {
    title: "iowhy check",
    sentence: "One row for each thing that iowhy needs or can use on this machine.",
    columns: &[
        Column {
            heading: "WHAT",
            unit: "",
            align: Align::Left,
            room: Room::Rank(0),
            sentence: "what iowhy needs or can use",
            legend: "",
            value: |row, style| escaped(&row.what, style),
        },
        Column {
            heading: "there",
            unit: "",
            align: Align::Left,
            room: Room::Rank(0),
            sentence: "whether it is there: yes, partly, no, unknown",
            legend: "",
            value: |row, _| Cell {
                text: row.state.word().to_owned(),
                paint: if row.state == State::Yes { Paint::Plain } else { Paint::Alert },
            },
        },
        Column {
            heading: "found",
            unit: "",
            align: Align::Left,
            room: Room::Wrap,
            sentence: "what was found; after `lost:`, what iowhy cannot see without it",
            legend: "",
            value: |row, style| escaped(&row.found(), style),
        },
    ],
};

fn escaped(text: &str, style: &Style) -> Cell {
    escape(text, style).into_owned().into()
}

/// The table, and below it the command that grants what is missing: in one piece, however long it is, so
/// that it can be copied.
pub fn render(rows: &[Row], grant: Option<&str>, style: &Style) -> String {
    let mut lines: Vec<String> = draw(&CHECK, rows, style).lines().collect();
    if let Some(command) = grant {
        lines.push(String::new());
        let text = "Run it with sudo, or grant what it needs:";
        lines.extend(fold::prose(text, style.columns()));
        lines.push(format!("  {}", escape(command, style)));
    }
    lines.into_iter().map(|line| line + "\n").collect()
}
