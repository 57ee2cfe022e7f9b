//! The features that iowhy can use on this machine, and what is lost without each missing one.

use crate::escape::escape;
use crate::fold;
use crate::style::{Paint, Style};
use crate::table::{Align, Column, Definition, Room, TableCell, draw};

/// Whether a feature is available.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CheckState {
    /// The feature is available.
    Yes,
    /// The feature is available in part.
    Partly,
    /// The feature is missing.
    No,
    /// The state could not be determined.
    Unknown,
}

impl CheckState {
    /// The word for it on the screen.
    pub const fn word(self) -> &'static str {
        match self {
            CheckState::Yes => "yes",
            CheckState::Partly => "partly",
            CheckState::No => "no",
            CheckState::Unknown => "unknown",
        }
    }
}

/// A feature that iowhy needs or can use. Its texts are untrusted and escaped here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CheckRow {
    /// The feature's name: "BTF", "cgroup v2" …
    pub what: String,
    /// Whether it is available.
    pub state: CheckState,
    /// The finding: a version, a path, a mode.
    pub value: String,
    /// The facts that iowhy cannot collect without it; empty if it is available.
    pub lost_without: String,
}

impl CheckRow {
    fn found(&self) -> String {
        match (self.value.as_str(), self.lost_without.as_str()) {
            (value, "") => value.to_owned(),
            ("", lost) => format!("lost: {lost}"),
            (value, lost) => format!("{value}; lost: {lost}"),
        }
    }
}

/// The table of `iowhy check`.
pub const CHECK: Definition<CheckRow> = Definition {
    title: "iowhy check",
    sentence: "One row for each feature that iowhy needs or can use on this machine.",
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
            sentence: "whether it is available: yes, partly, no, unknown",
            legend: "",
            value: |row, _| TableCell {
                text: row.state.word().to_owned(),
                paint: if row.state == CheckState::Yes { Paint::Plain } else { Paint::Alert },
            },
        },
        Column {
            heading: "found",
            unit: "",
            align: Align::Left,
            room: Room::Wrap,
            sentence: "what was found; after `lost:`, what iowhy cannot collect without it",
            legend: "",
            value: |row, style| escaped(&row.found(), style),
        },
    ],
};

fn escaped(text: &str, style: &Style) -> TableCell {
    escape(text, style).into_owned().into()
}

/// The answer: whether iowhy can watch, what is missing, and what is limited.
fn verdict(can_watch: bool, rows: &[CheckRow]) -> String {
    let named = |states: &[CheckState]| {
        let mut names: Vec<&str> = Vec::new();
        for row in rows.iter().filter(|row| states.contains(&row.state)) {
            if !names.contains(&row.what.as_str()) {
                names.push(&row.what);
            }
        }
        names.join(", ")
    };
    let mut answer = match can_watch {
        true => "iowhy can watch this machine.",
        false => "iowhy cannot watch this machine: it shows only what the kernel counts.",
    }
    .to_owned();
    for (states, word) in [
        (&[CheckState::No][..], "Missing"),
        (&[CheckState::Partly, CheckState::Unknown], "Limited or unknown"),
    ] {
        let names = named(states);
        if !names.is_empty() {
            answer.push_str(&format!(" {word}: {names}."));
        }
    }
    answer
}

/// Draws the answer and the table, and below it the command that grants the missing privileges.
/// The command is never wrapped, so that it can be copied.
pub fn render(can_watch: bool, rows: &[CheckRow], grant: Option<&str>, style: &Style) -> String {
    let verdict = verdict(can_watch, rows);
    let mut lines = fold::prose(&escape(&verdict, style), style.columns());
    lines.push(String::new());
    lines.extend(draw(&CHECK, rows, style).lines());
    if let Some(command) = grant {
        lines.push(String::new());
        let text = "Run it with sudo, or grant what it needs:";
        lines.extend(fold::prose(text, style.columns()));
        lines.push(format!("  {}", escape(command, style)));
    }
    lines.into_iter().map(|line| line + "\n").collect()
}
