//! Runs a reproduction, records the run, and says how like the original it is.
//!
//! What does not belong here: the comparison (see [`iowhy_diagnosis::fidelity`]).

use super::rounds::{self, is_stopped};
use super::{ReadLoad, options};
use crate::args::reproduce::RerunArgs;
use crate::failure::Failure;
use crate::{interruption, output, sources};
use iowhy_diagnosis::fidelity::{Fidelity, WatchFigures};
use iowhy_model::figures::counted;

use iowhy_reproduce::plan::LoadPlan;
use iowhy_reproduce::replay::player::ReplayTimes;
use iowhy_reproduce::run::Prepared;
use iowhy_reproduce::settings::fix_of;
use iowhy_reproduce::{fit, folder};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The recorded time of a round of fitting.
const FIT: Duration = Duration::from_secs(4);

/// Runs, records, compares.
pub fn run(args: &RerunArgs) -> Result<(), Failure> {
    interruption::note_signals()?;
    interruption::set_outcome("no recording was written");
    let options = options(&args.places)?;
    let plan = folder::read(&args.folder)?;
    let recording = match &args.output {
        Some(path) => path.clone(),
        None => free_name(&args.folder),
    };
    let time = args.time.unwrap_or(Duration::from_secs(plan.seconds));
    output::note("laying out files");
    let mut prepared = Prepared::new(&args.folder, plan, &options, &is_stopped)?;
    for note in &prepared.notes {
        output::note(&format!("note: {note}"));
    }
    if let Some(rounds) = args.fit {
        fitted(&mut prepared, &args.folder, rounds)?;
    }
    output::note(&format!("recording for {} s", time.as_secs_f64()));
    let times = rounds::record(&prepared, time, &recording)?;
    interruption::set_outcome("the run's recording was written, and not compared");
    times.filter(|time| time.done > 0).iter().for_each(punctuality);
    let disks = prepared.disks();
    let original = prepared.plan().original.clone();
    // All is removed before the result is shown.
    drop(prepared);
    let load = ReadLoad::from_paths(std::slice::from_ref(&recording))?;
    let now = WatchFigures::new(&load.summary, &load.diagnosis, &disks);
    let fidelity = Fidelity::new(&original, &now);
    let text = match args.json {
        true => json(&fidelity),
        false => iowhy_views::fidelity::render(&fidelity, &output::style()),
    };
    output::print(&text)?;
    output::note(&format!("the run: `iowhy report {}`", sources::words(&[recording])));
    hint(args, &original);
    Ok(())
}

/// Says how punctual a replay was.
fn punctuality(times: &ReplayTimes) {
    let done = times.done as f64;
    output::note(&format!(
        "replayed {}: {:.1} % of them began within 1 ms of their time, on average {:.3} ms late",
        counted(times.done, "requests"),
        (1.0 - times.late as f64 / done) * 100.0,
        times.late_ns as f64 / done / 1e6
    ));
}

/// Names the command that tests a fix, where there is one.
fn hint(args: &RerunArgs, original: &WatchFigures) {
    let fix = original.finding.as_deref().and_then(fix_of);
    if let (Some(fix), Some(place)) = (fix, args.places.on.first()) {
        let words = sources::words(std::slice::from_ref(&args.folder));
        let place = sources::words(std::slice::from_ref(place));
        output::note(&format!("test a fix: `iowhy verify {words} --on {place} --with {fix}`"));
    }
}

fn json(fidelity: &Fidelity) -> String {
    let value = serde_json::json!({ "format": 1, "fidelity": fidelity });
    iowhy_views::json::escaped(format!("{value}\n"))
}

/// `run-1` in the reproduction, or the next that is free.
fn free_name(folder: &Path) -> PathBuf {
    let path = |number: u32| folder.join(format!("run-{number}"));
    (1..).map(path).find(|path| !path.exists()).unwrap_or_else(|| path(1))
}

/// Adjusts the plan over at most so many rounds, and saves it.
fn fitted(prepared: &mut Prepared, folder: &Path, rounds: u32) -> Result<(), Failure> {
    let recording = folder.join(".fit");
    for round in 1..=rounds {
        remove(&recording)?;
        rounds::record(prepared, FIT, &recording)?;
        let run = ReadLoad::from_paths(std::slice::from_ref(&recording))?.plan(true);
        let mut plan: LoadPlan = prepared.plan().clone();
        let found = fit::adjust(&mut plan, &run);
        let (compared, changed) = (found.compared, found.changed);
        output::note(&format!("fit {round}: {changed} of {compared} jobs adjusted"));
        prepared.replace(plan);
        if changed == 0 {
            break;
        }
    }
    remove(&recording)?;
    Ok(folder::write_below(folder, prepared.plan())?)
}

/// Removes the recording of a round of fitting.
fn remove(path: &Path) -> Result<(), Failure> {
    match iowhy_fs::remove_all(path) {
        Err(cause) if cause.kind() != std::io::ErrorKind::NotFound => {
            Err(Failure::not_written(path, &cause))
        }
        _ => Ok(()),
    }
}
