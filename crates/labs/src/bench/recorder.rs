//! `cargo lab bench-recorder`: the cost of the flight recorder, and the delay and size of an
//! incident on disk.
//!
//! The daemon runs as a package starts it, with its default budget and ring, while fio reads. Its
//! cost to the load is compared with the seconds just before and after it, in which nothing
//! watches. Only requests of people begin an incident.
//!
//! What does not belong here: the cost of a watch by part (see [`super::capture`]).

use super::daemon::{RunningDaemon, wait_for};
use super::load::{FioLoad, LoadWindow, MeasuredLoad, ReadSpeed};
use super::{Benchmark, TableOutput, cpus, table_of};
use crate::recorded::RecordedTotals;
use crate::scratch::Scratch;
use crate::{Result, command, machine};
use std::fmt::Write;
use std::fs;
use std::time::{Duration, Instant};

/// How long and how often to measure.
#[derive(Clone, Debug, clap::Args)]
pub struct RecorderSettings {
    /// Seconds of each measurement, and of the unwatched ones around it.
    #[arg(long, default_value_t = 10)]
    pub seconds: u64,
    /// How often each speed is measured.
    #[arg(long, default_value_t = 5)]
    pub rounds: usize,
    /// Seconds at 20k IOPS before an incident is asked for; a line of the history needs 70.
    #[arg(long, default_value_t = 150)]
    pub hold: u64,
    /// Where the table goes.
    #[command(flatten)]
    pub output: TableOutput,
}

/// Time for the daemon to attach, and to find its level.
const SETTLES: Duration = Duration::from_secs(8);
/// Minutes of a month of 31 days.
const MONTH: u64 = 31 * 24 * 60;
/// The least budget: everything that can be thinned is, and level 1 is left.
const LEVEL_1: &str = "[watch]\nbudget = 0.01\n";

/// The figures.
#[derive(Clone, Debug, Default)]
struct RecorderFigures {
    /// CPU time of the daemon at 10k IOPS with its default budget, in CPUs.
    process: Vec<f64>,
    /// CPU time of the daemon at 10k IOPS with the least budget, in CPUs.
    level_1: Vec<f64>,
    /// CPU time of the whole machine with the least budget, BPF programs included, beyond that of
    /// the unwatched load, in CPUs.
    level_1_whole: Vec<f64>,
    /// IOPS at full speed as a share of the unwatched ones.
    kept: Vec<f64>,
    /// The largest resident memory at the end of any run, and the largest at any time, bytes.
    memory: u64,
    peak: u64,
    /// The time from the request of an incident until it is on disk, seconds.
    on_disk: f64,
    /// The time before the request that it covers, seconds.
    before: f64,
    /// A line of the history, bytes.
    line: Option<u64>,
}

impl Benchmark for RecorderSettings {
    const TARGET: &'static str = "bench-recorder";
    const PAGE: &'static str = "docs/recorder.md";

    fn output(&self) -> &TableOutput {
        &self.output
    }

    fn measure(&self, about: &str, progress: &mut dyn FnMut(&str)) -> Result<String> {
        machine::need_bpf()?;
        let scratch = Scratch::new()?;
        let load = FioLoad::new(&scratch)?;
        let mut figures = RecorderFigures::default();
        let runs = [(ReadSpeed::USUAL, ""), (ReadSpeed::USUAL, LEVEL_1), (ReadSpeed::Full, "")];
        for (speed, config) in runs {
            for round in 1..=self.rounds.max(1) {
                figures.add(&scratch, &load, (speed, config), self.seconds)?;
                progress(&format!("{}: round {round} of {}", speed.name(), self.rounds.max(1)));
            }
        }
        progress(&format!("an incident after {} s at 20k IOPS", self.hold));
        figures.incident(&scratch, &load, self.hold)?;
        table_of(|part| figures.table(part, about, self))
    }
}

impl RecorderFigures {
    /// Measures again at that speed, with those lines in the configuration.
    fn add(
        &mut self,
        scratch: &Scratch,
        load: &FioLoad,
        (speed, config): (ReadSpeed, &str),
        seconds: u64,
    ) -> Result<()> {
        let mut running = load.run(scratch, speed)?;
        let before = running.window(seconds)?;
        let daemon = RunningDaemon::start(scratch, config)?;
        std::thread::sleep(SETTLES);
        let cpu_before = daemon.cpu_seconds()?;
        let watched = running.window(seconds)?;
        let own = (daemon.cpu_seconds()? - cpu_before) / seconds.max(1) as f64;
        self.add_memory(&daemon)?;
        daemon.stop()?;
        let after = running.window(seconds)?;
        let mean = |of: fn(&LoadWindow) -> f64| (of(&before) + of(&after)) / 2.0;
        if speed == ReadSpeed::Full {
            self.kept.push(watched.iops / mean(|window| window.iops).max(1.0));
        } else if config == LEVEL_1 {
            self.level_1.push(own);
            self.level_1_whole.push((watched.busy - mean(|window| window.busy)) * cpus() as f64);
        } else {
            self.process.push(own);
        }
        Ok(())
    }

    fn add_memory(&mut self, daemon: &RunningDaemon) -> Result<()> {
        self.memory = self.memory.max(daemon.memory("VmRSS")?);
        self.peak = self.peak.max(daemon.memory("VmHWM")?);
        Ok(())
    }

    /// Requests an incident after `hold` seconds at 20k IOPS.
    fn incident(&mut self, scratch: &Scratch, load: &FioLoad, hold: u64) -> Result<()> {
        let _running = load.run(scratch, ReadSpeed::Limited(20_000))?;
        let daemon = RunningDaemon::start(scratch, "")?;
        std::thread::sleep(Duration::from_secs(hold));
        let (asked, asked_ns) = (Instant::now(), machine::monotonic_ns());
        command::output_of(daemon.command(&["capture", "a benchmark"])?)?;
        let incident = daemon.state.join("incidents/000001");
        let record = incident.join("incident.json");
        wait_for("an incident on disk", || record.exists())?;
        self.on_disk = asked.elapsed().as_secs_f64();
        let is_complete = || {
            let text = fs::read_to_string(&record).unwrap_or_default();
            text.contains("\"complete\": true")
        };
        wait_for("a complete incident", is_complete)?;
        let mut first_ns = None;
        for part in ["recording", "earlier"].map(|part| incident.join(part)) {
            if part.exists() {
                let totals = RecordedTotals::from_folder(&part)?;
                first_ns = first_ns.into_iter().chain(totals.first_ns).min();
            }
        }
        let first_ns = first_ns.unwrap_or(asked_ns);
        self.before = asked_ns.saturating_sub(first_ns) as f64 / 1e9;
        self.add_memory(&daemon)?;
        self.line = daemon.history_line();
        daemon.stop()
    }

    fn table(
        &self,
        out: &mut String,
        about: &str,
        settings: &RecorderSettings,
    ) -> std::fmt::Result {
        writeln!(out, "{about}.")?;
        writeln!(
            out,
            "Medians of {} rounds of {} s; fio reads 4 KiB at random from a loop device over \
             memory.\n",
            settings.rounds.max(1),
            settings.seconds
        )?;
        out.push_str("| what | measured | goal |\n|---|---|---|\n");
        let percent = |values: &[f64]| 100.0 * median(values);
        let (process, level_1) = (percent(&self.process), percent(&self.level_1));
        let whole = percent(&self.level_1_whole);
        let lost = 100.0 - percent(&self.kept);
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let mut row = |what: &str, value: String, goal: &str, reached: bool| {
            let verdict = if reached { "reached" } else { "not reached" };
            writeln!(out, "| {what} | {value} | {goal}: {verdict} |")
        };
        let cpu = "at most 0.3 %";
        let what = "level 1 alone (`budget = 0.01`): CPU of the daemon at 10k IOPS";
        row(what, format!("{level_1:.2} %"), cpu, level_1 <= 0.3)?;
        let what = "the same with its BPF programs (the machine's CPU time beyond the unwatched)";
        row(what, format!("{whole:.2} %"), cpu, whole <= 0.3)?;
        let budget = 0.5 * cpus() as f64;
        let goal = format!("its budget, {budget:.1} % of a CPU");
        let what = "both levels: CPU of the daemon at 10k IOPS";
        row(what, format!("{process:.2} %"), &goal, process <= budget)?;
        row("IOPS lost at full speed", format!("{lost:.1} %"), "at most 1 %", lost <= 1.0)?;
        let (now, peak) = (mib(self.memory), mib(self.peak));
        let value = format!("{now:.0} MiB ({peak:.0} MiB at most)");
        row("resident memory", value, "at most 48 MiB", now <= 48.0)?;
        let (soon, held) = (self.on_disk <= 5.0, self.before >= 60.0);
        row("incident on disk", format!("after {:.1} s", self.on_disk), "within 5 s", soon)?;
        let what = "what it holds from before, at 20k IOPS";
        row(what, format!("{:.0} s of {}", self.before, settings.hold), "at least 60 s", held)?;
        match self.line {
            None => out.push_str("| a month of history | no minute was over | at most 200 MB |\n"),
            Some(line) => {
                let mb = (line * MONTH) as f64 / 1e6;
                let value = format!("{mb:.0} MB ({line} bytes a minute)");
                row("a month of history", value, "at most 200 MB", mb <= 200.0)?;
            }
        }
        Ok(())
    }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}
