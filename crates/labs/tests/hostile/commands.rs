//! The kinds of input, and the commands that read each.
//!
//! What does not belong here: running a command (see [`crate::runs`]).

use crate::damage::{ABSENT, BITS, CUT, END, NUMBERS, REPEATED, SPECIAL, VALUES, WORDS};

/// Rows of a recording that are written as iowhy writes them.
pub const ROWS: &str = "rows that cannot be";
/// Cells of a recording that no type of iowhy's holds.
pub const CELLS: &str = "cells that cannot be";

/// A kind of input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InputKind {
    Recording,
    Capture,
    Text,
    Json,
    Incident,
    History,
    Case,
    Settings,
}

/// A kind, with its share in a hundred, the ways to spoil it, and the commands that read it: `IN`
/// is its directory, `OUT` a place for an output.
pub struct KindOfInput {
    pub kind: InputKind,
    pub name: &'static str,
    pub share: usize,
    pub damages: &'static [&'static str],
    pub commands: &'static [&'static str],
}

pub const KINDS: &[KindOfInput] = &[
    KindOfInput {
        kind: InputKind::Recording,
        name: "recording",
        share: 60,
        // If the layout is sound, rows are easily wrong.
        damages: &[
            ROWS, ROWS, ROWS, ROWS, CELLS, CELLS, BITS, CUT, END, VALUES, NUMBERS, WORDS, SPECIAL,
        ],
        commands: &[
            "report IN",
            "report IN --full",
            "report IN --json",
            "report IN --json=brief",
            "report IN --redact --full",
            "report IN --html OUT",
            "report IN --redact --html OUT",
            "stat IN",
            "stat IN 1",
            "stat IN 0.1 --redact",
            "stat IN 1 --json",
            "proc IN 1",
            "cache IN 1",
            "latency IN 1",
            "waits IN 1",
            "files IN 1",
            "stacks IN 1",
            "stacks IN --folded",
            "blame IN",
            "chains IN",
            "stages IN",
            "snoop IN",
            "events IN",
            "opens IN",
            "diff IN IN",
            "diff IN IN --json",
            "diff IN IN --html OUT",
            "explain 1 IN",
            "reproduce IN -o OUT",
            "reproduce IN -o OUT --replay",
            "export IN --format recording -o OUT",
            "export IN --format recording --redact -o OUT",
            "export IN --format perfetto -o OUT",
            "export IN --format pprof -o OUT",
            "export IN --format otlp -o OUT",
            "export IN --format collapsed -o OUT",
            "export IN --format iolog -o OUT",
            "export IN --format blktrace -o OUT",
            "export IN --format csv -o OUT",
            "export IN --format csv --table waits --spreadsheet -o OUT",
        ],
    },
    KindOfInput {
        kind: InputKind::Capture,
        name: "capture of blktrace",
        share: 12,
        damages: &[BITS, BITS, BITS, CUT, REPEATED, SPECIAL],
        commands: &[
            "report IN/gen0",
            "report IN/gen0 --json",
            "report IN/gen0 --html OUT",
            "stat IN/gen0 1",
            "events IN/gen0",
            "events IN/gen0 --blkparse-compat",
            "stages IN/gen0",
            "stages IN/gen0 --btt-compat",
            "snoop IN/gen0",
            "blame IN/gen0",
            "diff IN/gen0 IN/gen0",
            "reproduce IN/gen0 -o OUT",
            "import IN/gen0 -o OUT",
            "import IN/gen0 --events -o OUT",
            "export IN/gen0 --format iolog -o OUT",
            "export IN/gen0 --format blktrace -o OUT",
            "export IN/gen0 --format perfetto -o OUT",
        ],
    },
    KindOfInput {
        kind: InputKind::Text,
        name: "text of another tool",
        share: 12,
        damages: &[BITS, CUT, REPEATED, NUMBERS, NUMBERS, WORDS, ABSENT],
        commands: &[
            "report IN/file",
            "report IN/file --json",
            "report IN/file --html OUT",
            "report IN/file --redact",
            "stat IN/file 1",
            "stages IN/file",
            "events IN/file",
            "diff IN/file IN/file",
            "import IN/file -o OUT",
            "reproduce IN/file -o OUT",
        ],
    },
    KindOfInput {
        kind: InputKind::Json,
        name: "JSON of another tool",
        share: 5,
        damages: &[VALUES, VALUES, NUMBERS, WORDS, BITS, CUT, REPEATED],
        commands: &[
            "report IN/file",
            "report IN/file --json",
            "report IN/file --html OUT",
            "diff IN/file IN/file",
            "import IN/file -o OUT",
        ],
    },
    KindOfInput {
        kind: InputKind::Incident,
        name: "incident",
        share: 4,
        damages: &[VALUES, VALUES, NUMBERS, WORDS, BITS, CUT, REPEATED, SPECIAL],
        commands: &[
            "incidents list --state IN",
            "incidents list --state IN --json",
            "incidents show 7 --state IN",
            "incidents show 7 --state IN --json",
            "incidents show IN/incidents/000007",
            "report IN/incidents/000007",
            "report --at 09:35 --state IN",
        ],
    },
    KindOfInput {
        kind: InputKind::History,
        name: "history",
        share: 3,
        damages: &[VALUES, NUMBERS, NUMBERS, WORDS, BITS, CUT, REPEATED, SPECIAL],
        commands: &[
            "history --state IN --last 31d",
            "history --state IN --last 31d --json",
            "history --state IN --last 31d -d sda",
        ],
    },
    KindOfInput {
        kind: InputKind::Case,
        name: "case",
        share: 2,
        damages: &[VALUES, VALUES, NUMBERS, WORDS, BITS, CUT, SPECIAL],
        // The place is not empty: nothing is run.
        commands: &["rerun IN --on IN -o OUT", "verify IN --on IN --with scheduler=none"],
    },
    KindOfInput {
        kind: InputKind::Settings,
        name: "settings of the daemon",
        share: 2,
        damages: &[NUMBERS, WORDS, BITS, CUT, REPEATED, SPECIAL],
        commands: &["daemon --check-config --config IN/file"],
    },
];
