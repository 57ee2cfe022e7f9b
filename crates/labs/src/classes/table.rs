//! `make bench-waits`: every load, here and in a guest, and the table of docs/waits.md.

use super::{ClassLoad, ClassMeasured, ClockAgreement, RunsOn, all, guest_loads, measure};
use crate::bench::{self, Benchmark, TableOutput, table_of};
use crate::error::Context;
use crate::vm::{Guest, Kernel};
use crate::{LabError, Result};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The time that a guest may take for all of its loads.
const PATIENCE: Duration = Duration::from_secs(900);
/// The file with the results of loads in a guest.
const LEFT: &str = "measured.json";

/// Which loads, and where.
#[derive(Clone, Debug, clap::Args)]
pub struct ClassSettings {
    /// The loads; all of them unless named
    pub names: Vec<String>,
    /// The guest's kernel; "none" leaves its loads out
    #[arg(long, default_value = "6.12")]
    pub guest: String,
    /// Runs the guests' loads here, and writes the measurements to this file
    #[arg(long, hide = true)]
    pub inside: Option<PathBuf>,
    /// Writes the measurements to this file too
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// Adds what an earlier run saved
    #[arg(long, value_name = "FILE")]
    pub also: Option<PathBuf>,
    /// Where the table goes.
    #[command(flatten)]
    pub output: TableOutput,
}

impl Benchmark for ClassSettings {
    const TARGET: &'static str = "bench-waits";
    const PAGE: &'static str = "docs/waits.md";

    fn output(&self) -> &TableOutput {
        &self.output
    }

    fn measure(&self, about: &str, progress: &mut dyn FnMut(&str)) -> Result<String> {
        let mut measured = here(self, RunsOn::Host, progress)?;
        let for_guest = chosen(self, RunsOn::Guest).next().is_some();
        if self.guest != "none" && for_guest {
            measured.extend(in_guest(self, progress)?);
        }
        if let Some(path) = &self.save {
            save(path, &measured)?;
        }
        if let Some(path) = &self.also {
            measured.extend(read(path)?);
        }
        table_of(|part| write(part, about, &measured))
    }
}

/// Runs the loads, prints the results, and writes them into the page; in a guest into a file.
///
/// # Errors
/// Fails if a load or a guest fails.
pub fn run(settings: &ClassSettings, progress: &mut dyn FnMut(&str)) -> Result<()> {
    match &settings.inside {
        Some(path) => save(path, &here(settings, RunsOn::Guest, progress)?),
        None => bench::run(settings, progress),
    }
}

fn chosen(settings: &ClassSettings, place: RunsOn) -> impl Iterator<Item = &'static ClassLoad> {
    let names = settings.names.clone();
    let is_named =
        move |load: &&ClassLoad| names.is_empty() || names.iter().any(|name| name == load.name);
    all().filter(move |load| load.place == place).filter(is_named)
}

/// Runs the loads of the host or of a guest. One that cannot run is skipped, which is reported.
fn here(
    settings: &ClassSettings,
    place: RunsOn,
    say: &mut dyn FnMut(&str),
) -> Result<Vec<ClassMeasured>> {
    let mut found = Vec::new();
    for load in chosen(settings, place) {
        match measure(load) {
            Ok(measured) => {
                say(&format!("{}: {:?} {:?}", load.name, measured.problems(load), measured.ledger));
                found.push(measured);
            }
            Err(error @ (LabError::Missing { .. } | LabError::Unsupported { .. })) => {
                say(&format!("{}: {error}", load.name));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

fn in_guest(settings: &ClassSettings, say: &mut dyn FnMut(&str)) -> Result<Vec<ClassMeasured>> {
    let kernel = Kernel::fetch(&settings.guest, say)?;
    let own = std::env::current_exe().context(|| "find this program".to_owned())?;
    let guest = Guest::new(kernel)
        .disk(guest_loads::disk())
        .patience(PATIENCE)
        .file("/usr/bin/iowhy-labs", own);
    let names: Vec<&str> = chosen(settings, RunsOn::Guest).map(|load| load.name).collect();
    let script = format!("iowhy-labs bench-waits --inside /out/{LEFT} {}", names.join(" "));
    let outcome = guest.run_saying(&script, say)?;
    if outcome.status != 0 {
        return Err(LabError::failed("run loads in a guest", outcome.said.clone()));
    }
    read(&outcome.out().join(LEFT))
}

fn save(path: &Path, measured: &[ClassMeasured]) -> Result<()> {
    let text = serde_json::to_string(measured).context(|| "write figures".to_owned())?;
    fs::write(path, text).context(|| format!("write {}", path.display()))
}

/// Reads the results that an earlier run saved.
pub fn read(path: &Path) -> Result<Vec<ClassMeasured>> {
    let text = fs::read_to_string(path).context(|| format!("read {}", path.display()))?;
    serde_json::from_str(&text).context(|| format!("read {}", path.display()))
}

fn write(part: &mut String, about: &str, measured: &[ClassMeasured]) -> std::fmt::Result {
    writeln!(
        part,
        "{about}. Devices are slow loop devices or a guest's disk, \
         so that waits are long compared with the CPU time of a call. `in it` is the share of \
         sleep in that class, including the stages of its requests; `clock` is what the program \
         itself measured around its calls (fio's total completion latency).\n"
    )?;
    writeln!(
        part,
        "| load | produced class | in it | unknown | blocked | clock | difference | Linux |"
    )?;
    writeln!(part, "|---|---|--:|--:|--:|--:|--:|---|")?;
    for load in all() {
        let Some(found) = measured.iter().find(|measured| measured.load == load.name) else {
            writeln!(part, "| {} | {} | not run | | | | | |", load.what, made(load))?;
            continue;
        };
        let seconds = |ns: u64| format!("{:.2} s", ns as f64 / 1e9);
        let (clock, apart) = match (load.clock, found.own_clock_ns, found.apart()) {
            (ClockAgreement::Agrees, Some(clock), Some(apart)) => {
                (seconds(clock), format!("{:+.1} %", apart * 100.0))
            }
            (ClockAgreement::Shown(why), ..) => (why.to_owned(), String::new()),
            _ => Default::default(),
        };
        writeln!(
            part,
            "| {} | {} | {:.1} % | {:.1} % | {} | {clock} | {apart} | {} |",
            load.what,
            made(load),
            found.made_share() * 100.0,
            found.unknown_share() * 100.0,
            seconds(found.blocked_ns),
            found.kernel,
        )?;
    }
    Ok(())
}

fn made(load: &ClassLoad) -> String {
    let words = load.classes.iter().map(|class| format!("`{class}`"));
    words.collect::<Vec<_>>().join(", ")
}
