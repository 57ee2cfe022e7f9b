//! `cargo lab matrix`: every lab, a table of cause and outcome, and the page that keeps it.

use super::outcome::{Impact, Mark, Outcome};
use super::{Lab, Sort, run};
use crate::error::Context;
use crate::{Result, page};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// `cargo lab matrix`.
#[derive(Clone, Debug, clap::Args)]
pub struct Settings {
    /// Where outcomes are kept: a pass that was broken off goes on from there
    #[arg(long, default_value = "target/labs-matrix.jsonl")]
    pub state: PathBuf,
    /// Forget what is kept there and begin anew
    #[arg(long)]
    pub fresh: bool,
    /// Seconds to watch in each lab
    #[arg(long, default_value_t = 10)]
    pub seconds: u64,
    /// Passes
    #[arg(long, default_value_t = 1)]
    pub passes: usize,
    /// Only labs whose name holds one of these
    #[arg(long, value_delimiter = ',')]
    pub only: Vec<String>,
    /// Watch as a user would, without any option: the whole machine, not only the lab's device
    #[arg(long)]
    pub whole: bool,
    /// Keep each lab's recording in this folder, named for the lab and the pass
    #[arg(long)]
    pub keep: Option<PathBuf>,
    /// Run nothing: ask iowhy again about the recordings that were kept, and note its new answers
    #[arg(long, requires = "keep")]
    pub again: bool,
    /// Write the tables into this page
    #[arg(long)]
    pub page: Option<PathBuf>,
}

/// Runs what is not done yet, and prints the tables.
pub fn run(settings: &Settings, say: &mut dyn FnMut(&str)) -> Result<()> {
    if settings.fresh {
        let _none_yet = fs::remove_file(&settings.state);
    }
    let only = &settings.only;
    let wanted = |lab: &&Lab| only.is_empty() || only.iter().any(|part| lab.name.contains(part));
    let mut outcomes = read(&settings.state)?;
    if settings.again {
        ask_again(&mut outcomes, settings)?;
    }
    let passes = if settings.again { 0 } else { settings.passes };
    for pass in 1..=passes {
        for lab in super::all().filter(wanted) {
            let done = outcomes.iter().filter(|it| it.lab == lab.name).count();
            if done >= pass {
                continue;
            }
            let outcome = one(lab, settings, pass);
            let took = outcome.took_s;
            let mark = outcome.mark(lab);
            say(&format!(
                "{pass} {took:3.0} s {:<28} {mark:?}  {}",
                lab.name,
                named(lab, &outcome)
            ));
            append(&settings.state, &outcome)?;
            outcomes.push(outcome);
        }
    }
    let tables = format!("{}\n{}", by_cause(&outcomes), by_lab(&outcomes));
    say(&tables);
    match &settings.page {
        Some(path) => page::replace(path, "lab-matrix", &tables),
        None => Ok(()),
    }
}

/// One lab; what fails is an outcome, too.
fn one(lab: &Lab, settings: &Settings, pass: usize) -> Outcome {
    let keep = kept(settings, lab.name, pass);
    if let Some(earlier) = &keep {
        let _none_yet = fs::remove_dir_all(earlier);
    }
    let settings = run::Settings {
        name: None,
        seconds: settings.seconds,
        seed: None,
        whole: settings.whole,
        keep,
    };
    run::watch(lab, &settings, &mut |_| {}).unwrap_or_else(|error| Outcome {
        lab: lab.name.to_owned(),
        broken: Some(error.to_string()),
        ..Outcome::default()
    })
}

/// Where the recording of a lab in a pass is kept.
fn kept(settings: &Settings, lab: &str, pass: usize) -> Option<PathBuf> {
    settings.keep.as_ref().map(|folder| folder.join(format!("{lab}.{pass}")))
}

/// Has iowhy judge the recordings that were kept, as it does now: rules can be compared on the same watches.
fn ask_again(outcomes: &mut [Outcome], settings: &Settings) -> Result<()> {
    let mut passes: BTreeMap<String, usize> = BTreeMap::new();
    for outcome in outcomes.iter_mut() {
        let pass = passes.entry(outcome.lab.clone()).or_default();
        *pass += 1;
        let recording = kept(settings, &outcome.lab, *pass).filter(|it| it.exists());
        if let Some(recording) = recording {
            outcome.findings = run::findings(&recording)?;
        }
    }
    let _none_yet = fs::remove_file(&settings.state);
    outcomes.iter().try_for_each(|outcome| append(&settings.state, outcome))
}

fn named(lab: &Lab, outcome: &Outcome) -> String {
    if let Some(reason) = outcome.skipped.as_ref().or(outcome.broken.as_ref()) {
        return reason.replace(['|', '\n'], " ");
    }
    let word = |found: &super::outcome::Found| {
        let note = match () {
            () if outcome.is_elsewhere(found) => " (elsewhere)",
            () if outcome.is_of_the_machine(lab, found) => " (the machine)",
            () => "",
        };
        format!("{} {} {:.0} %{note}", found.severity, found.cause, found.impact * 100.0)
    };
    let mut words: Vec<String> = outcome.findings.iter().map(word).collect();
    if let Some((shown, false)) = &outcome.symptom {
        words.push(format!("iostat shows another trouble: {shown}"));
    }
    words.join("; ")
}

fn read(path: &Path) -> Result<Vec<Outcome>> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let lines = text.lines().map(serde_json::from_str);
    lines.collect::<std::result::Result<_, _>>().context(|| format!("read {}", path.display()))
}

fn append(path: &Path, outcome: &Outcome) -> Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).context(|| format!("make {}", folder.display()))?;
    }
    let line = serde_json::to_string(outcome).context(|| "write an outcome".to_owned())?;
    let file = fs::OpenOptions::new().create(true).append(true).open(path);
    let written = file.and_then(|mut file| writeln!(file, "{line}"));
    written.context(|| format!("write to {}", path.display()))
}

/// What became of one cause over all runs.
#[derive(Clone, Copy, Default)]
struct Tally {
    runs: usize,
    first: usize,
    found: usize,
    missed: usize,
    raised: usize,
}

/// The table of causes: how often each was found where it was, and where it was not.
pub fn by_cause(outcomes: &[Outcome]) -> String {
    let mut tallies: BTreeMap<&str, Tally> = BTreeMap::new();
    let (mut first, mut made, mut calm, mut controls) = (0, 0, 0, 0);
    for (lab, outcome) in outcomes.iter().filter_map(|it| Some((super::lab(&it.lab)?, it))) {
        let mark = outcome.mark(lab);
        match lab.sort {
            _ if matches!(mark, Mark::Skipped | Mark::Broken) => {}
            Sort::Cause => {
                made += 1;
                first += usize::from(mark == Mark::Right);
                count_cause(&mut tallies, lab, outcome);
            }
            Sort::NearMiss if mark == Mark::False => {
                lab.causes.iter().for_each(|it| tallies.entry(it).or_default().raised += 1);
            }
            Sort::NearMiss => {}
            Sort::Control => {
                controls += 1;
                calm += usize::from(mark == Mark::Right);
                for found in outcome.counted(lab) {
                    tallies.entry(found.cause.as_str()).or_default().raised += 1;
                }
            }
        }
    }
    let mut text =
        "| cause | runs | found first | found | missed | false |\n|---|---|---|---|---|---|\n"
            .to_owned();
    for (cause, it) in tallies {
        let Tally { runs, first, found, missed, raised } = it;
        // Writing to a String cannot fail.
        writeln!(text, "| {cause} | {runs} | {first} | {found} | {missed} | {raised} |")
            .unwrap_or(());
    }
    format!(
        "{text}\nThe expected cause stood first in {first} of {made} runs; {calm} of {controls} runs of controls were silent.\n"
    )
}

fn count_cause<'a>(tallies: &mut BTreeMap<&'a str, Tally>, lab: &Lab, outcome: &'a Outcome) {
    let named: Vec<&str> = outcome.counted(lab).map(|it| it.cause.as_str()).collect();
    let leads = named.first().is_some_and(|it| lab.causes.contains(it));
    // Where one is enough, it counts; the others are neither found nor missed.
    let one = lab.causes.iter().find(|it| named.contains(it)).or(lab.causes.first());
    let counted: Vec<&str> = match lab.any {
        true => one.into_iter().copied().collect(),
        false => lab.causes.to_vec(),
    };
    for cause in counted {
        let tally = tallies.entry(cause).or_default();
        tally.runs += 1;
        match named.contains(&cause) {
            true if leads => tally.first += 1,
            true => tally.found += 1,
            false => tally.missed += 1,
        }
    }
}

/// The table of labs: a row for each, a word for each pass.
pub fn by_lab(outcomes: &[Outcome]) -> String {
    let mut text = "| lab | is | makes | passes | impact, found / measured | iowhy's findings in the last pass |\n|---|---|---|---|---|---|\n".to_owned();
    let (mut right, mut all, mut took) = (0, 0, 0.0);
    let (mut near, mut compared, mut unmeasured) = (0, 0, 0);
    for lab in super::all() {
        let passes: Vec<&Outcome> = outcomes.iter().filter(|it| it.lab == lab.name).collect();
        let Some(last) = passes.last() else { continue };
        let marks: Vec<Mark> = passes.iter().map(|it| it.mark(lab)).collect();
        right += marks.iter().filter(|mark| **mark == Mark::Right).count();
        all += marks.iter().filter(|mark| **mark != Mark::Skipped).count();
        took += last.took_s;
        let words: Vec<&str> = marks.iter().map(|mark| word(lab, *mark)).collect();
        let impacts: Vec<Impact> = passes.iter().filter_map(|it| it.impact(lab)).collect();
        compared += impacts.len();
        unmeasured += passes.iter().filter(|it| it.not_measured.is_some()).count();
        near += impacts.iter().filter(|it| it.near).count();
        let impact = impact(last, last.impact(lab));
        let (sort, causes) = (sort(lab), lab.causes.join(if lab.any { " or " } else { ", " }));
        // Writing to a String cannot fail.
        writeln!(
            text,
            "| {} | {sort} | {causes} | {} | {impact} | {} |",
            lab.name,
            words.join(", "),
            named(lab, last)
        )
        .unwrap_or(());
    }
    format!(
        "{text}\n{right} of {all} runs right; impact within 20 points of the lab's own measure in {near} of {compared}, {unmeasured} could not be measured (≤: iowhy says that it is an upper bound); the last pass took {:.0} minutes.\n",
        took / 60.0
    )
}

/// The impact as found and as measured, or what there is of them.
fn impact(outcome: &Outcome, compared: Option<Impact>) -> String {
    let percent = |share: f64| format!("{:.0}", share * 100.0);
    match (compared, outcome.measured, &outcome.not_measured) {
        (Some(it), ..) => {
            let limit = if it.at_most { "≤ " } else { "" };
            let mark = if it.near { "" } else { " **far**" };
            format!("{limit}{} / {} %{mark}", percent(it.found), percent(it.measured))
        }
        (None, Some(measured), _) => format!("– / {} %", percent(measured)),
        (None, None, Some(reason)) => format!("not measured: {}", reason.replace(['|', '\n'], " ")),
        (None, None, None) => String::new(),
    }
}

fn sort(lab: &Lab) -> &'static str {
    match lab.sort {
        Sort::Cause => "cause",
        Sort::NearMiss => "near miss",
        Sort::Control => "control",
    }
}

fn word(lab: &Lab, mark: Mark) -> &'static str {
    match (lab.sort, mark) {
        (Sort::Cause, Mark::Right) => "found first",
        (_, Mark::Right) => "silent",
        (_, Mark::Found) => "found",
        (_, Mark::Missed) => "**missed**",
        (_, Mark::False) => "**false**",
        (_, Mark::Broken) => "**not made**",
        (_, Mark::Skipped) => "skipped",
    }
}
