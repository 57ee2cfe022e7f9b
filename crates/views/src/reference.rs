//! `docs/screen.md`: every table and column of the screens, from their definitions.

use crate::check::CHECK;
use crate::diff;
use crate::fidelity::FIDELITY;
use crate::held::HELD;
use crate::interval::{cache, latency, proc, stat, waits};
use crate::opens::OPENED;
use crate::probe::PROBE;
use crate::rounds::ROUNDS;
use crate::stages;
use crate::table::{Definition, Room};
use crate::text::{
    ACTIVITY, BLAME, CHAINS, CODE_PATHS, CONTAINERS, CULPRITS, DEVICES, FILES, FILETOP, ORIGINS,
    PROCESSES, STAGES, WAITS,
};
use crate::top::{OPENED_BY, WAITED_BY};
use std::fmt::Write as _;

const OPENING: &str = "# What stands on iowhy's screens

This page is made from the definitions of the columns; a test fails when it is not current.

Numbers have three significant digits and a unit. `-` means that there was nothing to measure, `?`
that it is not in the data, `≥` that some requests have not completed, so that it is at least this.
On a narrow screen the columns with the highest number under \"leaves\" are left out first, those
with 0 never and those with `last` only where names would get very short; names take what is left.
";

/// The page.
pub fn screen() -> String {
    let mut page = OPENING.to_owned();
    describe(&mut page, &DEVICES);
    describe(&mut page, &WAITS);
    describe(&mut page, &CHAINS);
    describe(&mut page, &STAGES);
    [&PROCESSES, &CONTAINERS, &FILES, &ORIGINS, &CODE_PATHS]
        .into_iter()
        .for_each(|table| describe(&mut page, table));
    describe(&mut page, &ACTIVITY);
    describe(&mut page, &FILETOP);
    describe(&mut page, &OPENED);
    describe(&mut page, &HELD);
    describe(&mut page, &BLAME);
    describe(&mut page, &CULPRITS);
    describe(&mut page, &stat::DEVICES);
    describe(&mut page, &proc::PROCESSES);
    describe(&mut page, &latency::BUCKETS);
    describe(&mut page, &waits::GROUPS);
    [&cache::MEMORY, &cache::FLOWS, &cache::READS]
        .into_iter()
        .for_each(|table| describe(&mut page, table));
    describe(&mut page, &stages::STAGES);
    [&stages::DEVICE_SHARES, &stages::PROCESS_SHARES]
        .into_iter()
        .for_each(|table| describe(&mut page, table));
    describe(&mut page, &stages::TRAFFIC);
    describe(&mut page, &stages::SEEKS);
    describe(&mut page, &stages::PERIODS);
    describe(&mut page, &diff::TIMES);
    describe(&mut page, &diff::LOADS);
    OPENED_BY.iter().for_each(|table| describe(&mut page, table));
    WAITED_BY.iter().for_each(|table| describe(&mut page, table));
    describe(&mut page, &FIDELITY);
    describe(&mut page, &ROUNDS);
    describe(&mut page, &PROBE);
    describe(&mut page, &CHECK);
    page
}

fn describe<R>(page: &mut String, table: &Definition<R>) {
    let mut lines = format!("\n## {}\n\n{}\n\n", table.title, table.sentence);
    lines.push_str("| column | unit | dropped | meaning |\n|---|---|---|---|\n");
    for column in table.columns {
        let leaves = match column.room {
            Room::Rank(rank) => rank.to_string(),
            Room::Kept => "last".to_owned(),
            Room::CutEnd | Room::CutItems | Room::CutMiddle | Room::Wrap => "shrinks".to_owned(),
        };
        // Writing to a String cannot fail.
        writeln!(
            lines,
            "| {} | {} | {leaves} | {} |",
            column.heading, column.unit, column.sentence
        )
        .unwrap_or(());
    }
    page.push_str(&lines);
}

/// A table as a manual page describes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableReference {
    /// The table's heading on the screen.
    pub title: &'static str,
    /// One sentence on the meaning of a row.
    pub sentence: &'static str,
    /// The columns: heading, and the meaning with its unit.
    pub columns: Vec<(&'static str, String)>,
}

/// The tables that a command prints as its answer; none for commands that print no table.
pub fn tables_of(command: &str) -> Vec<TableReference> {
    match command {
        "iowhy" | "report" => {
            vec![described(&DEVICES), described(&WAITS), described(&PROCESSES), described(&FILES)]
        }
        "stages" => {
            let mut tables = vec![
                described(&stages::STAGES),
                described(&stages::TRAFFIC),
                described(&stages::SEEKS),
            ];
            tables.extend([&stages::DEVICE_SHARES, &stages::PROCESS_SHARES].map(described));
            tables
        }
        "stat" => vec![described(&stat::DEVICES)],
        "proc" => vec![described(&proc::PROCESSES)],
        "latency" => vec![described(&latency::BUCKETS)],
        "files" => vec![described(&FILETOP)],
        "opens" => vec![described(&OPENED), described(&HELD)],
        "waits" => vec![described(&waits::GROUPS)],
        "chains" => vec![described(&CHAINS)],
        "blame" => vec![described(&BLAME), described(&CULPRITS)],
        "stacks" => vec![described(&CODE_PATHS)],
        "cache" => [&cache::MEMORY, &cache::FLOWS, &cache::READS].map(described).to_vec(),
        "diff" => vec![described(&diff::TIMES), described(&diff::LOADS)],
        "top" => OPENED_BY.iter().map(described).chain(WAITED_BY.iter().map(described)).collect(),
        "probe" => vec![described(&PROBE)],
        "verify" => vec![described(&ROUNDS)],
        "check" => vec![described(&CHECK)],
        _ => Vec::new(),
    }
}

fn described<R>(table: &Definition<R>) -> TableReference {
    let meaning = |unit: &str, sentence: &str| match unit {
        "" | "-" => sentence.to_owned(),
        unit => format!("{sentence} ({unit})"),
    };
    let columns = table.columns.iter();
    let columns = columns.map(|column| (column.heading, meaning(column.unit, column.sentence)));
    TableReference { title: table.title, sentence: table.sentence, columns: columns.collect() }
}
