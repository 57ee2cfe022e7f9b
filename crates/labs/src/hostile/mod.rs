//! `cargo lab hostile`: thousands of damaged and impossible recordings, each put through a command
//! of the built iowhy. None may panic, be killed, take more memory or time than it may, or print a
//! control character.
//!
//! | where | what |
//! |---|---|
//! | [`inputs`] | a recording that is damaged, by a number |
//! | [`runs`] | the commands, and the verdict on one run |
//!
//! What does not belong here: readers fed with any bytes inside of one process (`fuzz/`).

pub mod inputs;
pub mod runs;

use crate::bench::{Benchmark, TableOutput, cpus, table_of};
use crate::error::Context;
use crate::scratch::Scratch;
use crate::{LabError, Result, iowhy};
use inputs::DamagedRecordings;
use runs::{COMMANDS, HostileRun, MOST_BYTES, MOST_TIME};
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;

/// Inputs between two lines of progress.
const TOLD_EVERY: u64 = 1_000;

/// How many inputs, and from which.
#[derive(Clone, Debug, clap::Args)]
pub struct HostileSettings {
    /// Inputs; each is put through one command, in turn.
    #[arg(long, default_value_t = 10_000)]
    pub inputs: u64,
    /// The number of the first input: others with another number.
    #[arg(long, default_value_t = 0)]
    pub first: u64,
    /// The recording that is damaged.
    #[arg(long, default_value = "demo/recording")]
    pub recording: PathBuf,
    /// Where the table goes.
    #[command(flatten)]
    pub output: TableOutput,
}

impl Benchmark for HostileSettings {
    const TARGET: &'static str = "hostile";
    const PAGE: &'static str = "docs/hostile-input.md";

    fn output(&self) -> &TableOutput {
        &self.output
    }

    fn measure(&self, machine: &str, progress: &mut dyn FnMut(&str)) -> Result<String> {
        let runs = self.run(progress)?;
        let failed: Vec<&HostileRun> = runs.iter().filter(|run| run.fault.is_some()).collect();
        for run in &failed {
            let fault = run.fault.as_deref().unwrap_or_default();
            let (number, kind, command) = (run.number, run.kind, run.command);
            progress(&format!("input {number} ({kind}), iowhy {command}: {fault}"));
        }
        if !failed.is_empty() {
            let said = format!("{} of {} inputs", failed.len(), runs.len());
            return Err(LabError::failed("survive hostile inputs".to_owned(), said));
        }
        table_of(|part| write(part, machine, &runs))
    }
}

impl HostileSettings {
    /// Runs all, as many at once as there are CPUs.
    fn run(&self, progress: &mut dyn FnMut(&str)) -> Result<Vec<HostileRun>> {
        let (binary, scratch) = (iowhy::binary()?, Scratch::new()?);
        let damaged = DamagedRecordings::read(&self.recording)?;
        let (next, last) = (AtomicU64::new(self.first), self.first.saturating_add(self.inputs));
        let (done, runs) = channel();
        std::thread::scope(|scope| {
            for _ in 0..cpus() {
                let (done, place) = (done.clone(), scratch.fresh("input"));
                let (next, damaged, binary) = (&next, &damaged, &binary);
                scope.spawn(move || {
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= last {
                            return;
                        }
                        let run = damaged
                            .write(number, &place)
                            .and_then(|kind| runs::run(binary, number, kind, &place));
                        // The other side is gone after a first error.
                        if done.send(run).is_err() {
                            return;
                        }
                    }
                });
            }
            drop(done);
            let mut all = Vec::new();
            for run in runs {
                all.push(run?);
                if (all.len() as u64).is_multiple_of(TOLD_EVERY) {
                    progress(&format!("{} inputs", all.len()));
                }
            }
            Ok(all)
        })
    }
}

fn write(part: &mut String, machine: &str, runs: &[HostileRun]) -> std::fmt::Result {
    let (most_mb, most_s) = (MOST_BYTES >> 20, MOST_TIME.as_secs());
    writeln!(
        part,
        "{machine}. {} recordings, damaged in one way each, were put through one command each. No \
         run panicked, was ended by a signal, took more than {most_mb} MiB or {most_s} s, or \
         printed a control character. Command: `make hostile`.\n",
        runs.len()
    )?;
    writeln!(part, "| damage | inputs | read | refused | most memory | longest |")?;
    writeln!(part, "|---|--:|--:|--:|--:|--:|")?;
    rows(part, runs, inputs::KINDS, |run| run.kind)?;
    writeln!(part, "\n| command | inputs | read | refused | most memory | longest |")?;
    writeln!(part, "|---|--:|--:|--:|--:|--:|")?;
    rows(part, runs, COMMANDS, |run| run.command)
}

fn rows(
    part: &mut String,
    runs: &[HostileRun],
    keys: &[&'static str],
    key: fn(&HostileRun) -> &'static str,
) -> std::fmt::Result {
    for name in keys {
        let of_key: Vec<&HostileRun> = runs.iter().filter(|run| key(run) == *name).collect();
        let read = of_key.iter().filter(|run| run.code == Some(0)).count();
        let most = of_key.iter().map(|run| run.bytes).max().unwrap_or(0);
        let longest = of_key.iter().map(|run| run.time).max().unwrap_or_default();
        writeln!(
            part,
            "| {name} | {} | {read} | {} | {} MiB | {:.1} s |",
            of_key.len(),
            of_key.len() - read,
            most >> 20,
            longest.as_secs_f64()
        )?;
    }
    Ok(())
}

/// Reads a file; the error names it.
fn bytes_of(path: &std::path::Path) -> Result<Vec<u8>> {
    std::fs::read(path).context(|| format!("read {}", path.display()))
}
