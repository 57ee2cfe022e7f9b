//! `cargo lab bench-report`: the cost of `iowhy report` on recordings of millions of requests and
//! waits.
//!
//! What does not belong here: the HTML page (see [`super::html`]), captures (see
//! [`super::blktrace`]).

use super::cost::{CommandCost, TimedCommand};
use super::{Benchmark, TableOutput, table_of};
use crate::error::Context;
use crate::recorded::{self, RecordedTotals, rows_of};
use crate::scratch::Scratch;
use crate::{Result, command, iowhy};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Wall time for ten million requests and five million waits, seconds.
const SECONDS_GOAL: f64 = 2.0;
const REQUESTS_OF_GOAL: f64 = 10e6;
/// Anonymous memory, bytes.
const MEMORY_GOAL: u64 = 128 << 20;
/// The divisor of the waits of the recording in `demo` that are kept, which leaves about one for
/// two requests.
const ONE_WAIT_IN: u64 = 2;

/// How much to measure.
#[derive(Clone, Debug, clap::Args)]
pub struct ReadingSettings {
    /// Thousands of requests of each recording; one table column for each.
    #[arg(long, value_delimiter = ',', default_values_t = [1_000, 10_000])]
    pub thousands: Vec<u64>,
    /// The recording that is multiplied.
    #[arg(long, default_value = "demo/recording")]
    pub recording: PathBuf,
    /// How often each is read; the fastest run counts.
    #[arg(long, default_value_t = 3)]
    pub rounds: usize,
    /// Keeps the recordings in this folder, for profilers.
    #[arg(long)]
    pub keep: Option<PathBuf>,
    /// Where the table goes.
    #[command(flatten)]
    pub output: TableOutput,
}

/// The cost of reading one recording.
struct ReadingCost {
    requests: u64,
    waits: u64,
    /// Bytes of its files.
    bytes: u64,
    cost: CommandCost,
}

impl Benchmark for ReadingSettings {
    const TARGET: &'static str = "bench-report";
    const PAGE: &'static str = "docs/performance.md";

    fn output(&self) -> &TableOutput {
        &self.output
    }

    fn measure(&self, machine: &str, progress: &mut dyn FnMut(&str)) -> Result<String> {
        let scratch = Scratch::new()?;
        let mut costs = Vec::new();
        for thousands in &self.thousands {
            progress(&format!("{thousands} thousand requests ..."));
            costs.push(self.cost(&scratch, thousands * 1000)?);
        }
        table_of(|part| table(part, self, machine, &costs))
    }
}

impl ReadingSettings {
    fn cost(&self, scratch: &Scratch, requests: u64) -> Result<ReadingCost> {
        let recording = self.large(scratch, requests)?;
        let totals = RecordedTotals::from_folder(&recording)?;
        let mut report = TimedCommand {
            name: "iowhy report",
            file: iowhy::binary()?,
            arguments: vec!["report".to_owned(), recording.display().to_string()],
            output: "report",
            cost: CommandCost::UNKNOWN,
        };
        for round in 0..=self.rounds.max(1) {
            report.run(scratch.path(), round == 0)?;
        }
        let waits = rows_of(&recording, "waits")?;
        if self.keep.is_none() {
            fs::remove_dir_all(&recording).context(|| format!("remove {}", recording.display()))?;
        }
        let RecordedTotals { requests, bytes, .. } = totals;
        Ok(ReadingCost { requests, waits, bytes, cost: report.cost })
    }

    /// Makes a recording with about `requests` requests, as iowhy itself writes it.
    fn large(&self, scratch: &Scratch, requests: u64) -> Result<PathBuf> {
        let base = RecordedTotals::from_folder(&self.recording)?;
        let times = requests.div_ceil(base.requests.max(1));
        let copies = scratch.fresh("copies");
        recorded::multiply(&self.recording, &copies, times, ONE_WAIT_IN)?;
        let recording = match &self.keep {
            Some(folder) => folder.join(format!("{requests}")),
            None => scratch.fresh("recording"),
        };
        rewrite(&copies, &recording)?;
        fs::remove_dir_all(&copies).context(|| format!("remove {}", copies.display()))?;
        Ok(recording)
    }
}

fn rewrite(from: &Path, to: &Path) -> Result<()> {
    let mut export = Command::new(iowhy::binary()?);
    export.arg("export").arg(from).arg("--output").arg(to);
    command::output_of(export).map(|_| ())
}

fn table(
    part: &mut String,
    settings: &ReadingSettings,
    machine: &str,
    costs: &[ReadingCost],
) -> std::fmt::Result {
    writeln!(
        part,
        "{machine}. `iowhy report` of the recording in `demo`, many times over: with files, \
         samples, stacks, wait chains and the requests of waits. Best of {} rounds; anonymous \
         memory from a round of its own; command: `make bench-report`.\n",
        settings.rounds
    )?;
    write!(part, "| what |")?;
    for cost in costs {
        write!(
            part,
            " {:.1} M requests, {:.1} M waits | goal |",
            cost.requests as f64 / 1e6,
            cost.waits as f64 / 1e6
        )?;
    }
    writeln!(part, "\n|---|{}", "--:|---|".repeat(costs.len()))?;
    let goal = |is_reached| if is_reached { "reached" } else { "not reached" };
    write!(part, "| time (wall) |")?;
    for ReadingCost { requests, cost, .. } in costs {
        let most = SECONDS_GOAL * *requests as f64 / REQUESTS_OF_GOAL;
        write!(part, " {:.2} s | {most:.1} s: {} |", cost.wall, goal(cost.wall <= most))?;
    }
    write!(part, "\n| CPU time |")?;
    for ReadingCost { cost, .. } in costs {
        write!(part, " {:.2} s | |", cost.cpu)?;
    }
    write!(part, "\n| CPU time for each request and its share of waits |")?;
    for ReadingCost { requests, cost, .. } in costs {
        write!(part, " {:.0} ns | |", cost.cpu * 1e9 / *requests as f64)?;
    }
    write!(part, "\n| anonymous memory, peak |")?;
    for ReadingCost { cost, .. } in costs {
        let reached = goal(cost.memory <= MEMORY_GOAL);
        let (memory, most) = (cost.memory as f64 / 1048576.0, MEMORY_GOAL >> 20);
        write!(part, " {memory:.1} MiB | {most} MiB: {reached} |")?;
    }
    write!(part, "\n| bytes of the recording for each request |")?;
    for ReadingCost { requests, bytes, .. } in costs {
        write!(part, " {:.1} | |", *bytes as f64 / *requests as f64)?;
    }
    writeln!(part)
}
