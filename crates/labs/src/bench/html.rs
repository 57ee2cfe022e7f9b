//! `cargo lab bench-html`: the cost of the HTML report: writing it from a generated recording, and
//! drawing and filtering it in a headless Chromium.
//!
//! What does not belong here: the content of the page (its tests in `crates/views/web`).

use super::{Benchmark, TableOutput, table_of};
use crate::captures::{self, GeneratorSettings, Mix};
use crate::error::Context;
use crate::scratch::Scratch;
use crate::{LabError, Result, command, iowhy};
use serde::Deserialize;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// Events of a generated request: queued, got a request, inserted, issued, completed.
const EVENTS: u64 = 5;
/// Bytes of a page, at most.
const SIZE_GOAL: f64 = 5e6;
/// The time of the first picture at most, milliseconds.
const FIRST_GOAL: f64 = 1000.0;
/// Frames per second of a brush, and of a filter.
const FRAMES_GOAL: f64 = 30.0;
/// Memory of the page's process, MB.
const MEMORY_GOAL: f64 = 200.0;

/// How much to measure.
#[derive(Clone, Debug, clap::Args)]
pub struct PageSettings {
    /// Thousands of requests of each recording; one table column for each.
    #[arg(long, value_delimiter = ',', default_values_t = [1_000, 10_000])]
    pub thousands: Vec<u64>,
    /// How often a page is written and opened; the best counts.
    #[arg(long, default_value_t = 3)]
    pub rounds: usize,
    /// Where the table goes.
    #[command(flatten)]
    pub output: TableOutput,
}

/// The costs of one recording.
#[derive(Clone, Copy, Debug)]
struct PageCost {
    requests: u64,
    /// `iowhy report` without a page, seconds.
    report: f64,
    /// With a page.
    written: f64,
    /// Bytes of the page.
    bytes: f64,
    drawn: DrawnPage,
}

/// The figures of a browser for one page (`web/browser/measure.ts`).
#[derive(Clone, Copy, Debug, Deserialize)]
struct DrawnPage {
    /// The time from the request to open it until its charts were drawn, milliseconds.
    first_ms: f64,
    /// Frames per second while the selected time moves.
    brush_fps: f64,
    /// Frames per second while a process is selected and deselected in turns.
    filter_fps: f64,
    /// Memory of the page's process, with its share of shared memory, MB.
    memory_mb: f64,
}

impl DrawnPage {
    const UNKNOWN: DrawnPage = DrawnPage {
        first_ms: f64::INFINITY,
        brush_fps: 0.0,
        filter_fps: 0.0,
        memory_mb: f64::INFINITY,
    };

    /// Keeps the best of each figure.
    fn better(&mut self, other: DrawnPage) {
        self.first_ms = self.first_ms.min(other.first_ms);
        self.brush_fps = self.brush_fps.max(other.brush_fps);
        self.filter_fps = self.filter_fps.max(other.filter_fps);
        self.memory_mb = self.memory_mb.min(other.memory_mb);
    }
}

impl Benchmark for PageSettings {
    const TARGET: &'static str = "bench-html";
    const PAGE: &'static str = "docs/html.md";

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

impl PageSettings {
    fn cost(&self, scratch: &Scratch, requests: u64) -> Result<PageCost> {
        let recording = recording(scratch, requests)?;
        let mut cost = PageCost {
            requests,
            report: f64::INFINITY,
            written: f64::INFINITY,
            bytes: 0.0,
            drawn: DrawnPage::UNKNOWN,
        };
        for _ in 0..self.rounds.max(1) {
            cost.report = cost.report.min(seconds(report(&recording)?)?);
            let page = scratch.fresh("page").with_extension("html");
            let mut command = report(&recording)?;
            command.arg("--html").arg(&page);
            cost.written = cost.written.min(seconds(command)?);
            let about = fs::metadata(&page).context(|| format!("find {}", page.display()))?;
            cost.bytes = about.len() as f64;
            cost.drawn.better(drawn(&page)?);
            fs::remove_file(&page).context(|| format!("remove {}", page.display()))?;
        }
        fs::remove_dir_all(&recording).context(|| format!("remove {}", recording.display()))?;
        Ok(cost)
    }
}

/// A recording of a generated capture: requests of six processes of each of four CPUs on one
/// device, with all stages.
fn recording(scratch: &Scratch, requests: u64) -> Result<PathBuf> {
    let (folder, recording) = (scratch.fresh("capture"), scratch.fresh("recording"));
    fs::create_dir(&folder).context(|| format!("make {}", folder.display()))?;
    let settings = GeneratorSettings {
        events: requests * EVENTS,
        devices: 1,
        mix: Mix::Plain,
        ..GeneratorSettings::default()
    };
    captures::generate(&folder, settings)
        .context(|| format!("write a capture into {}", folder.display()))?;
    let mut import = Command::new(iowhy::binary()?);
    import.arg("import").arg(folder.join(captures::device_name(0)));
    import.arg("--output").arg(&recording);
    command::output_of(import)?;
    fs::remove_dir_all(&folder).context(|| format!("remove {}", folder.display()))?;
    Ok(recording)
}

fn report(recording: &Path) -> Result<Command> {
    let mut command = Command::new(iowhy::binary()?);
    command.arg("report").arg(recording);
    Ok(command)
}

fn seconds(command: Command) -> Result<f64> {
    let began = Instant::now();
    command::output_of(command)?;
    Ok(began.elapsed().as_secs_f64())
}

fn drawn(page: &Path) -> Result<DrawnPage> {
    let mut command = Command::new("scripts/web");
    command.arg("measure").arg(page);
    let shown = command::shown(&command);
    let text = command::output_of(command)?;
    let line = text.lines().last().unwrap_or_default();
    serde_json::from_str(line).map_err(|cause| LabError::failed(format!("read {shown}"), cause))
}

fn table(
    part: &mut String,
    settings: &PageSettings,
    machine: &str,
    costs: &[PageCost],
) -> std::fmt::Result {
    writeln!(
        part,
        "{machine}. Recordings of generated captures: requests of 24 processes on one device, with \
         all stages; files and waits are not in them. Writing is the whole process, reading \
         included. Headless Chromium without a graphics card, best of {} rounds; command: `make \
         bench-html`.\n",
        settings.rounds
    )?;
    write!(part, "| what |")?;
    for cost in costs {
        write!(part, " {} M requests | goal |", cost.requests as f64 / 1e6)?;
    }
    writeln!(part, "\n|---|{}", "--:|---|".repeat(costs.len()))?;
    for row in ROWS {
        write!(part, "| {} |", row.what)?;
        for cost in costs {
            let value = (row.value)(cost);
            let goal = (row.goal)(cost).map_or(String::new(), |goal| {
                let reached = if row.is_more_better { value >= goal } else { value <= goal };
                format!("{}: {}", row.shown(goal), if reached { "reached" } else { "not reached" })
            });
            write!(part, " {} | {goal} |", row.shown(value))?;
        }
        writeln!(part)?;
    }
    Ok(())
}

/// A row of the table.
struct PageRow {
    what: &'static str,
    unit: &'static str,
    digits: usize,
    is_more_better: bool,
    value: fn(&PageCost) -> f64,
    goal: fn(&PageCost) -> Option<f64>,
}

impl PageRow {
    const fn new(what: &'static str, unit: &'static str, value: fn(&PageCost) -> f64) -> PageRow {
        PageRow { what, unit, digits: 1, is_more_better: false, value, goal: |_| None }
    }

    fn shown(&self, value: f64) -> String {
        format!("{value:.*} {}", self.digits, self.unit)
    }
}

/// The goal of writing: 1.5 s for a million requests, 20 s for 50 million.
fn writing_goal(cost: &PageCost) -> Option<f64> {
    let millions = cost.requests as f64 / 1e6;
    Some(if millions <= 1.0 { 1.5 } else { 20.0 * (millions / 50.0).max(0.2) })
}

const ROWS: &[PageRow] = &[
    PageRow::new("`iowhy report`", "s", |cost| cost.report),
    PageRow {
        goal: writing_goal,
        ..PageRow::new("the same with `--html`", "s", |cost| cost.written)
    },
    PageRow {
        goal: |_| Some(SIZE_GOAL / 1e6),
        ..PageRow::new("size of the page", "MB", |cost| cost.bytes / 1e6)
    },
    PageRow {
        digits: 0,
        goal: |_| Some(FIRST_GOAL),
        ..PageRow::new("opened to first picture", "ms", |cost| cost.drawn.first_ms)
    },
    PageRow {
        digits: 0,
        is_more_better: true,
        goal: |_| Some(FRAMES_GOAL),
        ..PageRow::new("brush", "frames/s", |cost| cost.drawn.brush_fps)
    },
    PageRow {
        digits: 0,
        is_more_better: true,
        goal: |_| Some(FRAMES_GOAL),
        ..PageRow::new("filter", "frames/s", |cost| cost.drawn.filter_fps)
    },
    PageRow {
        digits: 0,
        goal: |_| Some(MEMORY_GOAL),
        ..PageRow::new("memory of the page's process", "MB", |cost| cost.drawn.memory_mb)
    },
];
