//! `cargo lab bench-blktrace`: analyses captures with iowhy and with blkparse and btt in one run,
//! and compares the processes.
//!
//! | where | what |
//! |---|---|
//! | `speed` | time and memory on large generated captures |
//! | `beside` | the same text and the same figures, capture by capture |
//!
//! What does not belong here: making the captures (see [`crate::captures`]).

mod beside;
mod speed;

use super::{Benchmark, TableOutput};
use crate::captures::{self, Mix};
use crate::error::Context;
use crate::scratch::Scratch;
use crate::{Result, command};
use std::fs;
use std::path::PathBuf;

/// How much to measure.
#[derive(Clone, Debug, clap::Args)]
pub struct BlktraceSettings {
    /// Thousands of events of each capture.
    #[arg(long, default_value_t = 10_000)]
    pub thousands: u64,
    /// How often each program is run, interleaved; the fastest run counts.
    #[arg(long, default_value_t = 3)]
    pub rounds: usize,
    /// Directory of real captures; skipped if it does not exist.
    #[arg(long, default_value = "../shared/traces")]
    pub traces: PathBuf,
    /// Where the table goes.
    #[command(flatten)]
    pub output: TableOutput,
}

/// One capture, by hand.
#[derive(Clone, Debug, clap::Args)]
pub struct MadeCapture {
    /// The folder to write it into.
    pub folder: PathBuf,
    /// About how many events.
    #[arg(long, default_value_t = 20_000)]
    pub events: u64,
    /// Devices.
    #[arg(long, default_value_t = 3)]
    pub devices: u32,
    /// CPUs.
    #[arg(long, default_value_t = 4)]
    pub cpus: u32,
    /// Q G I D C only.
    #[arg(long)]
    pub plain: bool,
}

impl MadeCapture {
    /// Writes the capture.
    ///
    /// # Errors
    /// Fails if the folder cannot be made or written.
    pub fn write(&self) -> Result<()> {
        let mix = if self.plain { Mix::Plain } else { Mix::Rich };
        let (events, devices, cpus) = (self.events, self.devices, self.cpus);
        let settings = captures::GeneratorSettings {
            events,
            devices,
            cpus,
            mix,
            ..captures::GeneratorSettings::default()
        };
        fs::create_dir_all(&self.folder).context(|| format!("make {}", self.folder.display()))?;
        captures::generate(&self.folder, settings)
            .map(|_| ())
            .context(|| format!("write a capture into {}", self.folder.display()))
    }
}

/// Measures both kinds of capture, compares the outputs on many, and prints the results.
///
impl Benchmark for BlktraceSettings {
    const TARGET: &'static str = "bench-blktrace";
    const PAGE: &'static str = "docs/blktrace-benchmarks.md";

    fn output(&self) -> &TableOutput {
        &self.output
    }

    fn measure(&self, machine: &str, progress: &mut dyn FnMut(&str)) -> Result<String> {
        let scratch = Scratch::new()?;
        let memory = scratch.memory()?;
        let mut part = String::new();
        let mut add = |text: &str| {
            progress(text);
            part.push_str(text);
            part.push('\n');
        };
        add(&about(machine, self)?);
        let plain = captures::GeneratorSettings {
            events: self.thousands * 1000,
            devices: 1,
            cpus: 4,
            mix: Mix::Plain,
            ..captures::GeneratorSettings::default()
        };
        // Without splits: btt 1.2.0 pairs them wrongly, and its figures could not be compared.
        let rich = captures::GeneratorSettings { devices: 40, mix: Mix::Unsplit, ..plain };
        let split = captures::GeneratorSettings { mix: Mix::Rich, ..rich };
        let kinds = [
            ("Merges, requeues, flushes, remaps, plugs, messages; 40 devices, 4 CPUs", rich, 40.0),
            ("The same with splits", split, 40.0),
            ("Q G I D C; 1 device, 4 CPUs", plain, 25.0),
        ];
        for (title, capture, goal) in kinds {
            let folder = memory.join("capture");
            fs::create_dir(&folder).context(|| format!("make {}", folder.display()))?;
            let table = speed::measure(&folder, capture, self.rounds, goal)?;
            add(&format!("\n### {title}\n\n{table}"));
            fs::remove_dir_all(&folder).context(|| format!("remove {}", folder.display()))?;
        }
        add(&format!("\n### The same answers\n\n{}", beside::table(&memory, &self.traces)?));
        Ok(part)
    }
}

fn about(machine: &str, settings: &BlktraceSettings) -> Result<String> {
    let version = |program: &str, flag: &str| -> Result<String> {
        // "/usr/bin/btt version 2.09"
        let said = command::run(program, [flag])?;
        let version = said.split_whitespace().last().unwrap_or_default();
        Ok(format!("{program} {version}"))
    };
    Ok(format!(
        "{machine}; {} and {} (both of Debian's blktrace package). Best of {} \
         interleaved rounds; captures and outputs lie in memory (tmpfs). Command: `make \
         bench-blktrace`.",
        version("blkparse", "-V")?,
        version("btt", "-V")?,
        settings.rounds
    ))
}
