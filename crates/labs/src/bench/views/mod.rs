//! `cargo lab bench-views`: compares the views with the tools that they replace, on one load in one
//! run.
//!
//! | where | what |
//! |---|---|
//! | [`scene`] | the load, and every tool asked at once |
//! | [`calls`] | one program's syncs, timed by itself, by strace and by iowhy |
//! | [`compare`] | the same figure of two tools |
//!
//! What does not belong here: the meaning of the figures (docs/views.md).

pub mod calls;
pub mod compare;
pub mod scene;

use super::{Benchmark, TableOutput, table_of};
use crate::Result;
use crate::error::Context;
use compare::{ComparedFigures, ComparedLine};
use std::fmt::Write as _;

/// Duration of the tools.
#[derive(Clone, Debug, clap::Args)]
pub struct ViewSettings {
    /// Seconds that every tool runs; the load is shorter by the time that tools need to begin and
    /// end.
    #[arg(long, default_value_t = 40)]
    pub seconds: u64,
    /// Steps of the load: a direct read and a direct write each.
    #[arg(long, default_value_t = 4000)]
    pub steps: u64,
    /// Where the table goes.
    #[command(flatten)]
    pub output: TableOutput,
}

impl Benchmark for ViewSettings {
    const TARGET: &'static str = "bench-views";
    const PAGE: &'static str = "docs/views.md";

    fn output(&self) -> &TableOutput {
        &self.output
    }

    fn measure(&self, about: &str, _progress: &mut dyn FnMut(&str)) -> Result<String> {
        let own = std::env::current_exe().context(|| "find this program".to_owned())?;
        let answers = scene::play(&own, self.seconds, self.steps)?;
        let mut compared = compare::compare(&answers)?;
        compared.add(calls::compare)?;
        table_of(|part| write(part, self, about, &compared))
    }
}

fn write(
    part: &mut String,
    settings: &ViewSettings,
    machine: &str,
    compared: &ComparedFigures,
) -> std::fmt::Result {
    let ViewSettings { seconds, steps, .. } = settings;
    writeln!(
        part,
        "{machine}. A program reads and writes {steps} random blocks of 4 KiB each past the page \
         cache on ext4 on a loop device in memory, in between appends 16 KiB and syncs, and opens \
         files, every second of which does not exist. It begins after all tools have begun and \
         ends before they do, so that all of them see the same. Each runs for {seconds} s; rates \
         per second are multiplied by the length of each tool's interval (× s). The lines of fio \
         and strace are of a second load: fio appends 4 KiB and syncs, on ext4 on a device that \
         takes 3 ms for each request, while strace and iowhy time its calls. Command: `make \
         bench-views`.\n"
    )?;
    writeln!(part, "| figure | theirs | iowhy | difference |\n|---|--:|--:|--:|")?;
    for ComparedLine { figure, theirs, ours } in &compared.lines {
        let difference = match *theirs {
            theirs if theirs == *ours => "none".to_owned(),
            0.0 => "-".to_owned(),
            theirs => format!("{:+.2} %", (ours / theirs - 1.0) * 100.0),
        };
        let shown = |value: f64| match value.fract() == 0.0 {
            true => format!("{value}"),
            false => format!("{value:.3}"),
        };
        writeln!(part, "| {figure} | {} | {} | {difference} |", shown(*theirs), shown(*ours))?;
    }
    for reason in &compared.absent {
        writeln!(part, "\nNot compared: {}", reason.replace('\n', " "))?;
    }
    Ok(())
}
