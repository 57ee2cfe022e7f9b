//! `cargo lab bench-capture`: the cost of a watch, compared with perf and bpftrace.
//!
//! fio runs on while watchers come and go. Each watch is compared with the seconds just before and
//! just after it, in which nothing watches: the speed of a shared machine changes within a minute
//! by more than watching costs. Only these ratios mean anything.

mod account;
mod cpu_load;
mod table;
mod watcher;

use super::load::{FioLoad, LoadWindow, MeasuredLoad, ReadSpeed};
use super::{Benchmark, TableOutput, cpus};
use crate::devices::DebugFs;
use crate::scratch::Scratch;
use crate::{Result, machine};
use account::CostAccount;
use cpu_load::CpuLoad;
use std::time::Duration;
use watcher::{RunningVariant, Variant};

/// How long and how often to measure.
#[derive(Clone, Debug, clap::Args)]
pub struct CostSettings {
    /// Seconds of each measurement, and of the unwatched ones around it.
    #[arg(long, default_value_t = 3)]
    pub seconds: u64,
    /// How often each variant is measured at each speed.
    #[arg(long, default_value_t = 10)]
    pub rounds: usize,
    /// Seconds of the long watch that must lose nothing.
    #[arg(long, default_value_t = 60)]
    pub sustain: u64,
    /// Where the table goes.
    #[command(flatten)]
    pub output: TableOutput,
}

/// One measurement of one variant.
#[derive(Clone, Copy, Debug, Default)]
struct VariantFigures {
    /// I/Os per second, wall time.
    iops: f64,
    /// I/Os per second without a watcher, just before and just after.
    base_iops: f64,
    /// CPU time of the whole machine for each I/O, nanoseconds.
    cpu_ns: f64,
    /// CPU time of the whole machine for each I/O without a watcher, nanoseconds.
    base_cpu_ns: f64,
    /// Busy CPU time of the whole machine, 0 to 1.
    busy: f64,
    /// CPU time of the watcher's own process, in CPUs.
    watcher: f64,
    /// Bytes of the watcher's files for each I/O.
    bytes_per_io: f64,
    /// Requests that the watcher reports as lost.
    lost: u64,
}

/// The load that is watched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum WatchedLoad {
    Reads(ReadSpeed),
    Cpu(CpuLoad),
}

impl WatchedLoad {
    fn name(self) -> String {
        match self {
            WatchedLoad::Reads(speed) => speed.name(),
            WatchedLoad::Cpu(load) => load.name().to_owned(),
        }
    }

    /// Returns the variants that are compared while this load runs.
    fn variants(self) -> &'static [Variant] {
        match self {
            WatchedLoad::Reads(ReadSpeed::Full) => Variant::ALL,
            WatchedLoad::Reads(_) => Variant::WHOLE,
            WatchedLoad::Cpu(_) => Variant::WITHIN_AND_EVERY,
        }
    }

    /// The goal of a variant: the share of its speed that the load keeps, percent.
    fn goal(self, variant: Variant) -> Option<f64> {
        let is_limited = self == WatchedLoad::Reads(ReadSpeed::USUAL);
        match (self, variant) {
            (_, Variant::Iowhy | Variant::Requests) if is_limited => Some(99.5),
            (_, Variant::Iowhy) => Some(95.0),
            (WatchedLoad::Reads(_), Variant::Requests) => Some(90.0),
            _ => None,
        }
    }
}

/// All measurements of one variant with one load.
struct CostRow {
    variant: Variant,
    load: WatchedLoad,
    rounds: Vec<VariantFigures>,
}

/// All results of the measurement.
struct CostMeasured {
    rows: Vec<CostRow>,
    /// Each load, with fio's command line if it has one.
    loads: Vec<(WatchedLoad, Option<String>)>,
    account: CostAccount,
}

impl Benchmark for CostSettings {
    const TARGET: &'static str = "bench-capture";
    const PAGE: &'static str = "docs/performance.md";

    fn output(&self) -> &TableOutput {
        &self.output
    }

    fn measure(&self, about: &str, progress: &mut dyn FnMut(&str)) -> Result<String> {
        machine::need_bpf()?;
        // debugfs brings tracefs, which bpftrace and perf need; iowhy does not.
        let _debugfs = DebugFs::new()?;
        let scratch = Scratch::new()?;
        let load = FioLoad::new(&scratch)?;
        let (mut rows, mut loads) = (Vec::new(), Vec::new());
        for speed in ReadSpeed::ALL {
            let mut running = load.run(&scratch, speed)?;
            let watched = WatchedLoad::Reads(speed);
            rows.extend(with_load(&scratch, &mut running, watched, self, progress)?);
            loads.push((watched, Some(load.shown(speed, self.seconds, running.jobs)?)));
        }
        for cpu in CpuLoad::ALL {
            let mut running = cpu.run(&scratch)?;
            let watched = WatchedLoad::Cpu(cpu);
            rows.extend(with_load(&scratch, &mut running, watched, self, progress)?);
            loads.push((watched, None));
        }
        progress("a long watch, then one with the kernel's own figures of each BPF program");
        let account = CostAccount::take(&scratch, &load, self)?;
        table::render(&CostMeasured { rows, loads, account }, about, self)
    }
}

fn with_load(
    scratch: &Scratch,
    running: &mut dyn MeasuredLoad,
    load: WatchedLoad,
    settings: &CostSettings,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<CostRow>> {
    let row = |variant: &Variant| CostRow { variant: *variant, load, rounds: Vec::new() };
    let mut rows: Vec<CostRow> = load.variants().iter().map(row).collect();
    let mut before = running.window(settings.seconds)?;
    for round in 0..settings.rounds {
        for index in 0..rows.len() {
            // Another variant is first in every round.
            let index = (index + round) % rows.len();
            let row = &mut rows[index];
            let (mut figures, watched) = watch(scratch, running, row.variant, settings)?;
            // The watcher's files have been deleted; their data may still be written.
            std::thread::sleep(Duration::from_millis(500));
            let after = running.window(settings.seconds)?;
            compare(&mut figures, watched, [before, after]);
            before = after;
            progress(&format!(
                "{:25} round {} of {}: {:22} {:8.0} per second, {:5.1} % of untraced",
                load.name(),
                round + 1,
                settings.rounds,
                row.variant.name(),
                figures.iops,
                100.0 * figures.iops / figures.base_iops
            ));
            row.rounds.push(figures);
        }
    }
    Ok(rows)
}

/// One watch: its own cost figures, and the device's counters meanwhile.
fn watch(
    scratch: &Scratch,
    running: &mut dyn MeasuredLoad,
    variant: Variant,
    settings: &CostSettings,
) -> Result<(VariantFigures, LoadWindow)> {
    let watcher = RunningVariant::start(scratch, variant)?;
    let before = (watcher.cpu_seconds(), watcher.written());
    let window = running.window(settings.seconds)?;
    let after = (watcher.cpu_seconds(), watcher.written());
    let left = watcher.stop()?;
    let (bytes, ios) = if variant.is_iowhy() {
        (left.bytes, left.requests)
    } else {
        (after.1.saturating_sub(before.1), window.ios)
    };
    let figures = VariantFigures {
        watcher: (after.0 - before.0) / settings.seconds.max(1) as f64,
        bytes_per_io: bytes as f64 / ios.max(1) as f64,
        lost: left.lost,
        ..VariantFigures::default()
    };
    Ok((figures, window))
}

fn compare(figures: &mut VariantFigures, watched: LoadWindow, around: [LoadWindow; 2]) {
    let cpu_ns = |window: LoadWindow| window.busy * cpus() as f64 * 1e9 / window.iops.max(1.0);
    let mean = |of: &dyn Fn(LoadWindow) -> f64| around.map(of).iter().sum::<f64>() / 2.0;
    figures.iops = watched.iops;
    figures.busy = watched.busy;
    figures.cpu_ns = cpu_ns(watched);
    figures.base_iops = mean(&|window| window.iops).max(1.0);
    figures.base_cpu_ns = mean(&cpu_ns);
}
