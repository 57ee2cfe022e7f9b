//! `cargo lab bench-busy`: requests that a watch drops while other programs want all CPUs.
//!
//! fio reads as fast as it can, while programs of normal priority compute without end. Each number
//! of them is measured twice: with iowhy's reader at its raised priority, and with iowhy started
//! without CAP_SYS_NICE, so that its reader stays at normal priority. The last row is one long
//! watch while a compiler runs on every CPU.
//!
//! What does not belong here: the cost of a watch to the load (see the rest of [`super`]).

use super::load::{FioLoad, ReadSpeed};
use super::{BackgroundProcess, Benchmark, TableOutput, cpus, table_of};
use crate::error::Context;
use crate::recorded::RecordedTotals;
use crate::scratch::Scratch;
use crate::{Result, command, iowhy, machine};
use std::fmt::Write;
use std::process::Command;

/// How long and how often to measure.
#[derive(Clone, Debug, clap::Args)]
pub struct BusySettings {
    /// Seconds of each watch.
    #[arg(long, default_value_t = 10)]
    pub seconds: u64,
    /// How often each row is measured.
    #[arg(long, default_value_t = 3)]
    pub rounds: usize,
    /// Seconds of the long watch beside compilers, which must lose nothing.
    #[arg(long, default_value_t = 600)]
    pub long: u64,
    /// Where the table goes.
    #[command(flatten)]
    pub output: TableOutput,
}

/// Functions of the file that is compiled again and again: some seconds of work.
const FUNCTIONS: usize = 2000;

/// Computing programs per CPU, concurrent with fio.
const COMPETITORS_PER_CPU: [usize; 3] = [0, 1, 4];

/// The priority of iowhy's reader.
#[derive(Clone, Copy)]
enum ReaderPriority {
    Raised,
    Normal,
}

impl ReaderPriority {
    const BOTH: [ReaderPriority; 2] = [ReaderPriority::Raised, ReaderPriority::Normal];

    fn name(self) -> &'static str {
        match self {
            ReaderPriority::Raised => "raised",
            ReaderPriority::Normal => "normal (without CAP_SYS_NICE)",
        }
    }

    /// The command that starts iowhy's binary; its arguments follow.
    fn command(self) -> Result<Command> {
        let iowhy = iowhy::binary()?;
        if matches!(self, ReaderPriority::Raised) {
            return Ok(Command::new(iowhy));
        }
        let mut command = Command::new(command::find("setpriv")?);
        command.args(["--inh-caps", "-sys_nice", "--bounding-set", "-sys_nice"]).arg(iowhy);
        Ok(command)
    }
}

/// One row of the table: the sums of all rounds.
struct BusyRow {
    others: String,
    priority: ReaderPriority,
    seconds: u64,
    totals: RecordedTotals,
}

impl Benchmark for BusySettings {
    const TARGET: &'static str = "bench-busy";
    const PAGE: &'static str = "docs/performance.md";

    fn output(&self) -> &TableOutput {
        &self.output
    }

    fn measure(&self, about: &str, _progress: &mut dyn FnMut(&str)) -> Result<String> {
        machine::need_bpf()?;
        let scratch = Scratch::new()?;
        let load = FioLoad::new(&scratch)?;
        let _fio = load.run(&scratch, ReadSpeed::Full)?;
        let mut rows = Vec::new();
        for per_cpu in COMPETITORS_PER_CPU {
            let _competitors = competitors(per_cpu * cpus())?;
            for priority in ReaderPriority::BOTH {
                let mut row = BusyRow::new(format!("{per_cpu} computing"), priority);
                for _ in 0..self.rounds.max(1) {
                    row.add(&scratch, self.seconds)?;
                }
                rows.push(row);
            }
        }
        let _compilers = compilers(&scratch)?;
        let mut row = BusyRow::new("a compiler".to_owned(), ReaderPriority::Raised);
        row.add(&scratch, self.long)?;
        rows.push(row);
        table_of(|part| table(part, about, self, &rows))
    }
}

impl BusyRow {
    fn new(others: String, priority: ReaderPriority) -> BusyRow {
        BusyRow { others, priority, seconds: 0, totals: RecordedTotals::default() }
    }

    /// Runs another watch, and adds its figures.
    fn add(&mut self, scratch: &Scratch, seconds: u64) -> Result<()> {
        let output = scratch.fresh("recording");
        let mut record = self.priority.command()?;
        record.args(["record", "-t", &seconds.to_string(), "-o"]).arg(&output);
        command::output_of(record)?;
        let totals = RecordedTotals::from_folder(&output)?;
        self.seconds += seconds;
        self.totals.requests += totals.requests;
        self.totals.lost += totals.lost;
        for (meaning, count) in totals.losses {
            *self.totals.losses.entry(meaning).or_default() += count;
        }
        let _gone = std::fs::remove_dir_all(&output);
        Ok(())
    }
}

/// Programs that compute without end.
fn competitors(count: usize) -> Result<Vec<BackgroundProcess>> {
    let computing = |_| {
        let mut command = Command::new("sh");
        command.args(["-c", "while :; do :; done"]);
        BackgroundProcess::start(command)
    };
    (0..count).map(computing).collect()
}

/// A compiler for each CPU that compiles the same file again and again.
fn compilers(scratch: &Scratch) -> Result<Vec<BackgroundProcess>> {
    let source = scratch.fresh("compiled.c");
    let function = |index| {
        format!(
            "int f{index}(int *a, int n) {{ int s = {index}; for (int i = 0; i < n; i++) \
             s += a[i] * (a[(i + {index}) % n] ^ i); return s; }}\n"
        )
    };
    let text: String = (0..FUNCTIONS).map(function).collect();
    std::fs::write(&source, text).context(|| format!("write {}", source.display()))?;
    let compiling = |_| {
        let mut command = Command::new("sh");
        command.args(["-c", "while :; do cc -O2 -S -o /dev/null \"$0\"; done"]).arg(&source);
        BackgroundProcess::start(command)
    };
    command::find("cc")?;
    (0..cpus()).map(compiling).collect()
}

fn table(
    out: &mut String,
    about: &str,
    settings: &BusySettings,
    rows: &[BusyRow],
) -> std::fmt::Result {
    writeln!(out, "{about}.")?;
    writeln!(
        out,
        "{} watches of {} s for each row, concurrent with fio's random reads at full speed; the \
         last row is one watch of {} s. Goal of that row: no request lost. Requests whose end \
         was not seen were completed by process 1 (see the end of this page).\n",
        settings.rounds.max(1),
        settings.seconds,
        settings.long
    )?;
    out.push_str("| other programs per CPU | reader's priority | records/s | lost |\n");
    out.push_str("|---|---|--:|---|\n");
    for row in rows {
        let seen = row.totals.requests + row.totals.lost;
        let reasons = row.totals.losses.iter().filter(|(_, count)| **count > 0);
        let reasons = reasons.map(|(meaning, count)| format!("; {count} {meaning}"));
        writeln!(
            out,
            "| {} | {} | {} | {} ({:.4} %){} |",
            row.others,
            row.priority.name(),
            seen / row.seconds.max(1),
            row.totals.lost,
            100.0 * row.totals.lost as f64 / seen.max(1) as f64,
            reasons.collect::<String>()
        )?;
    }
    Ok(())
}
