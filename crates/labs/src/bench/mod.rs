//! Benchmarks: each measures iowhy and other tools in one run, and writes a table into a page of
//! docs/.
//!
//! | where | `make` | what |
//! |---|---|---|
//! | here | | what they share: the page, the machine, goals |
//! | `load` | | fio's random reads, for those that need a load |
//! | `cost` | | time and memory of a process |
//! | `daemon` | | a flight recorder to measure |
//! | [`capture`] | `bench-capture` | the cost of a watch, compared with perf and bpftrace |
//! | [`budget`] | `bench-budget` | what watches of ten seconds cost, beside their budget |
//! | [`busy`] | `bench-busy` | what a watch loses while other programs want all CPUs |
//! | [`calls`] | `bench-calls` | the cost of a system call |
//! | [`blktrace`] | `bench-blktrace` | reading captures, compared with blkparse and btt |
//! | [`locate`] | `bench-locate` | block to file, compared with debugfs |
//! | [`recorder`] | `bench-recorder` | the cost of the flight recorder, and its incidents |
//! | [`soak`] | `soak` | what the flight recorder holds on to after hours of churn |
//! | [`views`] | `bench-views` | the views, compared with iostat and pidstat |
//! | [`html`] | `bench-html` | the HTML report, written and drawn |
//! | [`report`] | `bench-report` | reading large recordings |
//! | [`replay`] | `bench-replay` | how punctual a replay is, compared with fio's |
//! | [`reproduce`] | `bench-reproduce` | reproductions, compared with their originals |
//! | [`sources`] | `bench-sources` | reading a large sosreport |
//! | [`screens`] | `bench-screens` | drawing `iowhy top`, and how soon commands answer |
//! | [`peers`] | `bench-peers` | blktrace and libbpf-tools, in guests |
//! | [`crate::classes::table`] | `bench-waits` | each wait class |
//!
//! What does not belong here: labs, whose result is right or wrong (see [`crate::labs`]).

pub mod blktrace;
pub mod budget;
pub mod busy;
pub mod calls;
pub mod capture;
mod cost;
mod daemon;
pub mod html;
mod load;
pub mod locate;
pub mod peers;
pub mod recorder;
pub mod replay;
pub mod report;
pub mod reproduce;
pub mod screens;
pub mod soak;
pub mod sources;
pub mod views;

use crate::error::Context;
use crate::{Result, machine, page};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A measurement whose table is part of a page.
pub trait Benchmark {
    /// The `make` target, which the marks in the page name.
    const TARGET: &'static str;
    /// The page, below the repository's root.
    const PAGE: &'static str;

    /// Returns the destination of its table.
    fn output(&self) -> &TableOutput;

    /// Measures, and returns the part of the page, which begins with a sentence about the machine.
    /// `progress` takes one line at a time.
    ///
    /// # Errors
    /// Fails if a tool is missing, or a program fails.
    fn measure(&self, machine: &str, progress: &mut dyn FnMut(&str)) -> Result<String>;
}

/// Where a table goes.
#[derive(Clone, Debug, clap::Args)]
pub struct TableOutput {
    /// The page whose marked part is replaced by the result, instead of the one in docs/.
    #[arg(long)]
    page: Option<PathBuf>,
    /// Only print the result.
    #[arg(long)]
    dry_run: bool,
}

/// Measures, prints the table, and writes it into its page.
///
/// # Errors
/// Fails as [`Benchmark::measure`] does, or if the page cannot be written.
pub fn run<B: Benchmark>(benchmark: &B, progress: &mut dyn FnMut(&str)) -> Result<()> {
    let machine = machine_sentence();
    let part = benchmark.measure(&format!("{machine}; {}", build()), progress)?;
    progress(&part);
    let output = benchmark.output();
    if output.dry_run {
        return Ok(());
    }
    page::replace(output.page.as_deref().unwrap_or(Path::new(B::PAGE)), B::TARGET, &part)
}

/// The commit that is measured: the one that is checked out, from which the programs were built.
fn build() -> String {
    let commit = crate::command::run("git", ["describe", "--always", "--dirty", "--abbrev=8"]);
    commit.map_or_else(
        |_| "no commit is known".to_owned(),
        |commit| format!("commit {}", commit.trim()),
    )
}

/// Kernel, CPUs, memory and load of this machine before the measurement, without a full stop.
fn machine_sentence() -> String {
    let first = |path: &str, key: &str| machine::line_of(path, key).unwrap_or_default();
    let memory = first("/proc/meminfo", "MemTotal");
    let kilobytes: u64 =
        memory.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0);
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!(
        "Linux {}; {} CPUs, {}; {} GiB of memory; load average {} before",
        kernel.trim(),
        cpus(),
        first("/proc/cpuinfo", "model name"),
        kilobytes >> 20,
        machine::load_average()
    )
}

/// CPUs of this machine.
pub fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The text that `write` writes.
pub(crate) fn table_of(write: impl FnOnce(&mut String) -> std::fmt::Result) -> Result<String> {
    let mut text = String::new();
    write(&mut text).context(|| "write the table".to_owned())?;
    Ok(text)
}

/// A cell of a table: the goal of a ratio, and whether it was reached; empty without a goal.
fn goal_cell(goal: Option<f64>, reached: f64) -> String {
    match goal {
        Some(goal) if reached >= goal => format!("{goal}: reached"),
        Some(goal) => format!("{goal}: not reached"),
        None => String::new(),
    }
}

/// A silent process that runs until it is dropped.
struct BackgroundProcess(Child);

impl BackgroundProcess {
    fn start(mut command: Command) -> Result<BackgroundProcess> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let shown = crate::command::shown(&command);
        let child = command.spawn().context(|| format!("start {shown}"))?;
        Ok(BackgroundProcess(child))
    }
}

impl Drop for BackgroundProcess {
    fn drop(&mut self) {
        crate::process::end(&mut self.0);
    }
}
