//! `cargo lab bench-budget`: what watches of ten seconds cost, beside their budget.
//!
//! fio reads at several speeds, and watches with their defaults come and go, one after the other.
//! The figures are those of the reports: CPU time of iowhy's process and of its programs in the
//! kernel, as a share of all CPUs, apart from what it took to start.
//!
//! What does not belong here: what the load loses (see [`super::capture`]).

use super::load::{FioLoad, LoadWindow, MeasuredLoad, ReadSpeed};
use super::{Benchmark, TableOutput, table_of};
use crate::error::Context;
use crate::scratch::Scratch;
use crate::{LabError, Result, command, iowhy, machine};
use serde_json::Value;
use std::fmt::Write;
use std::process::Command;

/// How often to measure.
#[derive(Clone, Debug, clap::Args)]
pub struct BudgetSettings {
    /// Seconds of each watch.
    #[arg(long, default_value_t = 10)]
    pub seconds: u64,
    /// How often each row is measured.
    #[arg(long, default_value_t = 5)]
    pub rounds: usize,
    /// Where the table goes.
    #[command(flatten)]
    pub output: TableOutput,
}

/// The budget of a watch with its defaults, as a share of all CPUs.
const BUDGET: f64 = 0.03;

/// The speeds: the last is what the machine gives.
const SPEEDS: [ReadSpeed; 5] = [
    ReadSpeed::Limited(1_000),
    ReadSpeed::USUAL,
    ReadSpeed::Limited(50_000),
    ReadSpeed::Limited(100_000),
    ReadSpeed::Full,
];

/// One watch, by its report.
struct Watch {
    /// Steady cost, as a share of all CPUs.
    share: f64,
    /// CPU time to start, seconds.
    start: f64,
    /// One in how many requests was recorded at the fewest.
    one_in: u64,
}

impl Watch {
    fn measure(scratch: &Scratch, seconds: u64) -> Result<Watch> {
        let folder = scratch.fresh("recording");
        let mut record = Command::new(iowhy::binary()?);
        record.args(["record", "-t", &seconds.to_string(), "-o"]).arg(&folder);
        command::output_of(record)?;
        let mut report = Command::new(iowhy::binary()?);
        report.args(["report", "--json"]).arg(&folder);
        let text = command::output_of(report)?;
        let _gone = std::fs::remove_dir_all(&folder);
        let report: Value = serde_json::from_str(&text).context(|| "read the report".to_owned())?;
        let levels = report["environment"]["thinning"].as_array().into_iter().flatten();
        let share = report["watch"]["cost_share"].as_f64();
        Ok(Watch {
            share: share.ok_or_else(|| LabError::failed("read the report", "it has no cost"))?,
            start: report["watch"]["start_cpu_ns"].as_f64().unwrap_or(0.0) / 1e9,
            one_in: levels.filter_map(|level| level["requests_one_in"].as_u64()).max().unwrap_or(1),
        })
    }
}

/// A speed, and its watches.
struct BudgetRow {
    name: String,
    unwatched: LoadWindow,
    watches: Vec<Watch>,
}

impl Benchmark for BudgetSettings {
    const TARGET: &'static str = "bench-budget";
    const PAGE: &'static str = "docs/budget.md";

    fn output(&self) -> &TableOutput {
        &self.output
    }

    fn measure(&self, about: &str, progress: &mut dyn FnMut(&str)) -> Result<String> {
        machine::need_bpf()?;
        let scratch = Scratch::new()?;
        let load = FioLoad::new(&scratch)?;
        let mut rows = Vec::new();
        for speed in SPEEDS {
            progress(&speed.name());
            let mut running = load.run(&scratch, speed)?;
            let unwatched = running.window(2)?;
            let watches = (0..self.rounds.max(1)).map(|_| Watch::measure(&scratch, self.seconds));
            let watches = watches.collect::<Result<Vec<Watch>>>()?;
            rows.push(BudgetRow { name: speed.name(), unwatched, watches });
        }
        table_of(|part| table(part, about, self, &rows))
    }
}

fn table(
    out: &mut String,
    about: &str,
    settings: &BudgetSettings,
    rows: &[BudgetRow],
) -> std::fmt::Result {
    writeln!(out, "{about}.")?;
    writeln!(
        out,
        "{} watches of {} s for each row, concurrent with fio's random reads of 4 KiB of a loop \
         device over memory. Cost as the report has it, a share of all CPUs; goal: {:.0} % in the \
         mean of the watches. Command: `make bench-budget`.\n",
        settings.rounds.max(1),
        settings.seconds,
        100.0 * BUDGET
    )?;
    out.push_str(
        "| load | reads per second, unwatched | CPUs busy | cost, mean | lowest | highest | goal | \
         fewest recorded | CPU time to start |\n|---|--:|--:|--:|--:|--:|---|--:|--:|\n",
    );
    rows.iter().try_for_each(|row| row.write(out))
}

impl BudgetRow {
    fn write(&self, out: &mut String) -> std::fmt::Result {
        let count = self.watches.len().max(1) as f64;
        let mean = self.watches.iter().map(|watch| watch.share).sum::<f64>() / count;
        let lowest = self.watches.iter().map(|watch| watch.share).fold(f64::INFINITY, f64::min);
        let highest = self.watches.iter().map(|watch| watch.share).fold(0.0, f64::max);
        let start = self.watches.iter().map(|watch| watch.start).sum::<f64>() / count;
        let one_in = self.watches.iter().map(|watch| watch.one_in).max().unwrap_or(1);
        writeln!(
            out,
            "| {} | {:.0} | {:.0} % | {:.1} % | {:.1} % | {:.1} % | {} | {} | {:.2} s |",
            self.name,
            self.unwatched.iops,
            100.0 * self.unwatched.busy,
            100.0 * mean,
            100.0 * lowest,
            100.0 * highest,
            if mean <= BUDGET { "reached" } else { "not reached" },
            if one_in > 1 { format!("1 of {one_in}") } else { "all".to_owned() },
            start
        )
    }
}
