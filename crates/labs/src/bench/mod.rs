//! `cargo lab bench-capture`: what watching costs, beside perf and bpftrace.
//!
//! Rounds are interleaved, so that whatever else the machine does falls on every variant alike; only
//! ratios within one run mean anything.

mod account;
mod load;
pub mod locate;
mod table;
mod watcher;

use crate::scratch::Scratch;
use crate::{Result, machine, page};
use account::Account;
pub use load::machine_lines;
use load::{Load, Speed};
use std::path::PathBuf;
use watcher::Variant;

/// How long and how often to measure.
#[derive(Clone, Debug, clap::Args)]
pub struct Settings {
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 8)]
    pub seconds: u64,
    /// How often each variant is measured at each speed.
    #[arg(long, default_value_t = 5)]
    pub rounds: usize,
    /// Seconds of the long watch that must lose nothing.
    #[arg(long, default_value_t = 60)]
    pub sustain: u64,
    /// The page whose marked part is replaced by the result.
    #[arg(long, default_value = "docs/performance.md")]
    pub page: PathBuf,
    /// Only print the result.
    #[arg(long)]
    pub dry_run: bool,
}

/// One measurement of one variant.
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    /// I/Os per second, wall time.
    iops: f64,
    /// Mean time from submission to completion as fio saw it, microseconds of wall time.
    latency: f64,
    /// Busy CPU time of the whole machine, 0 to 1.
    busy: f64,
    /// CPU time of the watcher's own process, in CPUs.
    watcher: f64,
    /// Bytes that the watcher left on disk for each I/O.
    bytes_per_io: f64,
    /// Requests that the watcher itself says it lost.
    lost: u64,
}

/// All measurements of one variant at one speed.
struct Row {
    variant: Variant,
    speed: Speed,
    rounds: Vec<Figures>,
}

/// Everything that was measured.
struct Measured {
    rows: Vec<Row>,
    /// fio's command line at each speed.
    loads: Vec<(Speed, String)>,
    account: Account,
}

/// Measures, says how far it is by `progress`, and gives the page's new part.
pub fn run(settings: &Settings, progress: &mut dyn FnMut(&str)) -> Result<String> {
    machine::need_bpf()?;
    let scratch = Scratch::new()?;
    let load = Load::new(&scratch)?;
    let mut rows = empty_rows();
    for round in 0..settings.rounds {
        for index in 0..rows.len() {
            // Another variant is first in every round.
            let index = (index + round) % rows.len();
            let row = &mut rows[index];
            let figures = load.measure(&scratch, row.variant, row.speed, settings.seconds)?;
            progress(&format!(
                "round {} of {}: {:16} {:25} {:8.0} IOPS",
                round + 1,
                settings.rounds,
                row.variant.name(),
                row.speed.name(),
                figures.iops
            ));
            row.rounds.push(figures);
        }
    }
    progress("a long watch, then one with the kernel's own figures of each BPF program");
    let account = Account::take(&scratch, &load, settings)?;
    let mut loads = Vec::new();
    for speed in Speed::ALL {
        loads.push((speed, load.shown(speed, settings.seconds)?));
    }
    let part = table::render(&Measured { rows, loads, account }, settings)?;
    if !settings.dry_run {
        page::replace(&settings.page, "bench-capture", &part)?;
    }
    Ok(part)
}

fn empty_rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for speed in Speed::ALL {
        for variant in Variant::ALL {
            rows.push(Row { variant, speed, rounds: Vec::new() });
        }
    }
    rows
}
