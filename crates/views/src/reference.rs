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
            Room::CutEnd | Room::CutMiddle | Room::Wrap => "shrinks".to_owned(),
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
