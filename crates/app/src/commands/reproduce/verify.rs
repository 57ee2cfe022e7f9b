//! `iowhy verify`: rounds of a reproduction without and with one change, interleaved.
//!
//! What does not belong here: statistics (see [`iowhy_diagnosis::rounds`]).

use super::rounds::{self, is_stopped};
use super::{ReadLoad, options};
use crate::args::reproduce::VerifyArgs;
use crate::failure::Failure;
use crate::{interruption, output};
use iowhy_diagnosis::fidelity::WatchFigures;
use iowhy_diagnosis::rounds::table;
use iowhy_reproduce::folder;
use iowhy_reproduce::plan::LoadPlan;
use iowhy_reproduce::run::Prepared;
use iowhy_reproduce::settings::Alteration;
use std::path::Path;
use std::process::Command;

/// The rounds of both kinds.
#[derive(Default)]
struct AllRounds {
    without: Vec<WatchFigures>,
    with: Vec<WatchFigures>,
}

/// Runs all rounds and shows the difference.
pub fn run(args: &VerifyArgs) -> Result<(), Failure> {
    interruption::note_signals()?;
    interruption::set_outcome("no recording was written");
    let options = options(&args.places)?;
    let parsed = args.with.iter().map(|text| Alteration::parse(text));
    let alterations = parsed.collect::<Result<Vec<_>, _>>()?;
    let plan = folder::read(&args.folder)?;
    let mut altered = plan.clone();
    alterations.iter().for_each(|alteration| alteration.alter(&mut altered));
    output::note("laying out files");
    let mut prepared = Prepared::new(&args.folder, plan.clone(), &options, &is_stopped)?;
    for note in &prepared.notes {
        output::note(&format!("note: {note}"));
    }
    if let Some(undo) = &args.undo_command {
        prepared.undo().will_run(undo)?;
    }
    let mut all = AllRounds::default();
    for round in 0..args.rounds {
        // A drift of the disk meets both kinds alike: AB, then BA.
        let order = if round % 2 == 0 { [false, true] } else { [true, false] };
        for with in order {
            let change = TestedChange { args, alterations: &alterations };
            let plans = [&plan, &altered];
            let figures = one(&mut prepared, &change, with, plans)?;
            let kind = if with { "with" } else { "without" };
            let cause = figures.finding.as_deref().unwrap_or("no finding");
            output::note(&format!("round {}, {kind} the change: {cause}", round + 1));
            if with { &mut all.with } else { &mut all.without }.push(figures);
        }
    }
    drop(prepared);
    show(args, &plan, &all)
}

/// The difference in the rounds with the change.
struct TestedChange<'a> {
    args: &'a VerifyArgs,
    alterations: &'a [Alteration],
}

/// One round.
fn one(
    prepared: &mut Prepared,
    change: &TestedChange<'_>,
    with: bool,
    [plan, altered]: [&LoadPlan; 2],
) -> Result<WatchFigures, Failure> {
    let mut before = Vec::new();
    prepared.replace(if with { altered.clone() } else { plan.clone() });
    if with {
        for alteration in change.alterations {
            before.extend(prepared.alter(alteration)?);
        }
        change.args.with_command.iter().try_for_each(|command| shell(command))?;
    }
    let recording = prepared.undo().folder().join("round");
    let result = measured(prepared, change.args, &recording);
    if with {
        prepared.restore(&before)?;
        change.args.undo_command.iter().try_for_each(|command| shell(command))?;
    }
    result
}

fn measured(
    prepared: &Prepared,
    args: &VerifyArgs,
    recording: &Path,
) -> Result<WatchFigures, Failure> {
    rounds::record(prepared, args.time, recording)?;
    let load = ReadLoad::from_paths(&[recording.to_owned()])?;
    let figures = WatchFigures::new(&load.summary, &load.diagnosis, &prepared.disks());
    iowhy_fs::remove_all(recording).map_err(|cause| Failure::not_written(recording, &cause))?;
    Ok(figures)
}

fn shell(command: &str) -> Result<(), Failure> {
    let failed = |cause: String| {
        let hint = "settings are given back; try the command by itself".to_owned();
        Failure::new(format!("failed to run {command:?}: {cause}"), Some(hint))
    };
    let status =
        Command::new(iowhy_fs::programs::find_or_name("sh")).args(["-c", command]).status();
    let status = status.map_err(|cause| failed(cause.to_string()))?;
    if status.success() { Ok(()) } else { Err(failed(status.to_string())) }
}

fn show(args: &VerifyArgs, plan: &LoadPlan, all: &AllRounds) -> Result<(), Failure> {
    let rows = table(&all.without, &all.with);
    let change = match &args.with_command {
        Some(command) => command.clone(),
        None => args.with.join(" "),
    };
    if args.json {
        let value = serde_json::json!({
            "format": 1,
            "change": change,
            "without": all.without,
            "with": all.with,
            "rows": rows,
        });
        return output::print(&iowhy_views::json::escaped(format!("{value}\n")));
    }
    let mut sentences = vec![format!(
        "{} rounds of {} s without and with {}, interleaved.",
        args.rounds,
        args.time.as_secs_f64(),
        output::escaped(&change)
    )];
    if let Some(cause) = &plan.original.finding {
        let found = |rounds: &[WatchFigures]| {
            rounds.iter().filter(|round| round.finding.as_ref() == Some(cause)).count()
        };
        let (without, with) = (found(&all.without), found(&all.with));
        sentences.push(format!(
            "{cause} comes first in {without} of {} rounds without the change, in {with} of {} \
             with it.",
            all.without.len(),
            all.with.len()
        ));
    }
    output::print(&iowhy_views::rounds::render(&sentences, &rows, &output::style()))
}
