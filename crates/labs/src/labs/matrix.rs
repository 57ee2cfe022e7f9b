//! `cargo lab matrix`: runs every lab and writes tables of causes and outcomes into a page.

use super::outcome::{Impact, LabOutcome, Mark};
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
pub struct MatrixSettings {
    /// File that keeps the outcomes; an interrupted pass resumes from it
    #[arg(long, default_value = "target/labs-matrix.jsonl")]
    pub state: PathBuf,
    /// Discard that file and start over
    #[arg(long)]
    pub fresh: bool,
    /// Seconds to watch in each lab
    #[arg(long, default_value_t = 10)]
    pub seconds: u64,
    /// Passes
    #[arg(long, default_value_t = 1)]
    pub passes: usize,
    /// Only labs whose name contains one of these
    #[arg(long, value_delimiter = ',')]
    pub only: Vec<String>,
    /// Watch the whole machine, as without options, not only the lab's device
    #[arg(long)]
    pub whole: bool,
    /// Keep each lab's recording in this folder, named for the lab and the pass
    #[arg(long)]
    pub keep: Option<PathBuf>,
    /// Run no labs: diagnose the kept recordings again, and store the new findings
    #[arg(long, requires = "keep")]
    pub again: bool,
    /// Write the tables into this page
    #[arg(long)]
    pub page: Option<PathBuf>,
}

/// Runs the labs that are not done yet, and prints the tables.
pub fn run(settings: &MatrixSettings, say: &mut dyn FnMut(&str)) -> Result<()> {
    if settings.fresh {
        let _none_yet = fs::remove_file(&settings.state);
    }
    if let Some(folder) = &settings.keep {
        fs::create_dir_all(folder).context(|| format!("create {}", folder.display()))?;
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
            let done = outcomes.iter().filter(|outcome| outcome.lab == lab.name).count();
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

/// Runs one lab; a failure is an outcome, too.
fn one(lab: &Lab, settings: &MatrixSettings, pass: usize) -> LabOutcome {
    let keep = kept(settings, lab.name, pass);
    if let Some(earlier) = &keep {
        let _none_yet = fs::remove_dir_all(earlier);
    }
    let settings = run::LabSettings {
        name: None,
        seconds: settings.seconds,
        seed: None,
        whole: settings.whole,
        budget: None,
        keep,
    };
    run::watch(lab, &settings, &mut |_| {}).unwrap_or_else(|error| LabOutcome {
        lab: lab.name.to_owned(),
        broken: Some(error.to_string()),
        ..LabOutcome::default()
    })
}

/// Returns the path of the kept recording of a lab's pass.
fn kept(settings: &MatrixSettings, lab: &str, pass: usize) -> Option<PathBuf> {
    settings.keep.as_ref().map(|folder| folder.join(format!("{lab}.{pass}")))
}

/// Diagnoses the kept recordings with the current rules, so that rules can be compared on equal
/// input.
fn ask_again(outcomes: &mut [LabOutcome], settings: &MatrixSettings) -> Result<()> {
    let mut passes: BTreeMap<String, usize> = BTreeMap::new();
    for outcome in outcomes.iter_mut() {
        let pass = passes.entry(outcome.lab.clone()).or_default();
        *pass += 1;
        let recording = kept(settings, &outcome.lab, *pass).filter(|path| path.exists());
        if let Some(recording) = recording {
            outcome.findings = run::findings(&recording)?;
        }
    }
    let _none_yet = fs::remove_file(&settings.state);
    outcomes.iter().try_for_each(|outcome| append(&settings.state, outcome))
}

fn named(lab: &Lab, outcome: &LabOutcome) -> String {
    if let Some(reason) = outcome.skipped.as_ref().or(outcome.broken.as_ref()) {
        return reason.replace(['|', '\n'], " ");
    }
    let word = |found: &super::outcome::FoundCause| {
        let note = match () {
            () if outcome.is_elsewhere(found) => " (elsewhere)",
            () if outcome.is_of_the_machine(lab, found) => " (the machine)",
            () => "",
        };
        format!("{} {} {:.0} %{note}", found.severity, found.cause, found.impact * 100.0)
    };
    let mut words: Vec<String> = outcome.findings.iter().map(word).collect();
    if let Some((shown, false)) = &outcome.symptom {
        words.push(format!("iostat does not show the expected symptom: {shown}"));
    }
    words.join("; ")
}

fn read(path: &Path) -> Result<Vec<LabOutcome>> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let lines = text.lines().map(serde_json::from_str);
    lines.collect::<std::result::Result<_, _>>().context(|| format!("read {}", path.display()))
}

fn append(path: &Path, outcome: &LabOutcome) -> Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).context(|| format!("make {}", folder.display()))?;
    }
    let line = serde_json::to_string(outcome).context(|| "write an outcome".to_owned())?;
    let file = fs::OpenOptions::new().create(true).append(true).open(path);
    let written = file.and_then(|mut file| writeln!(file, "{line}"));
    written.context(|| format!("write to {}", path.display()))
}

/// Totals of one cause over all runs.
#[derive(Clone, Copy, Default)]
struct CauseTally {
    runs: usize,
    first: usize,
    found: usize,
    missed: usize,
    raised: usize,
}

/// Formats the table of causes: how often each was found where it was present, and where it was
/// not.
pub fn by_cause(outcomes: &[LabOutcome]) -> String {
    let mut tallies: BTreeMap<&str, CauseTally> = BTreeMap::new();
    let (mut first, mut made, mut calm, mut controls) = (0, 0, 0, 0);
    for (lab, outcome) in
        outcomes.iter().filter_map(|outcome| Some((super::lab(&outcome.lab)?, outcome)))
    {
        let mark = outcome.mark(lab);
        match lab.sort {
            _ if matches!(mark, Mark::Skipped | Mark::Broken) => {}
            Sort::Cause => {
                made += 1;
                first += usize::from(mark == Mark::Right);
                count_cause(&mut tallies, lab, outcome);
            }
            Sort::NearMiss if mark == Mark::False => {
                lab.causes.iter().for_each(|cause| tallies.entry(cause).or_default().raised += 1);
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
        let CauseTally { runs, first, found, missed, raised } = it;
        // Writing to a String cannot fail.
        writeln!(text, "| {cause} | {runs} | {first} | {found} | {missed} | {raised} |")
            .unwrap_or(());
    }
    format!(
        "{text}\nThe expected cause ranked first in {first} of {made} runs; {calm} of {controls} \
         runs of controls had no finding.\n"
    )
}

fn count_cause<'a>(
    tallies: &mut BTreeMap<&'a str, CauseTally>,
    lab: &Lab,
    outcome: &'a LabOutcome,
) {
    let named: Vec<&str> = outcome.counted(lab).map(|finding| finding.cause.as_str()).collect();
    let leads = named.first().is_some_and(|cause| lab.causes.contains(cause));
    // If one cause is enough, only the one that was found counts; the others are neither found nor
    // missed.
    let one = lab.causes.iter().find(|cause| named.contains(cause)).or(lab.causes.first());
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

/// The table of labs: a row per lab, a word per pass.
pub fn by_lab(outcomes: &[LabOutcome]) -> String {
    let mut text = "| lab | kind | causes | passes | impact, found / measured | iowhy's findings \
                    in the last pass |\n|---|---|---|---|---|---|\n"
        .to_owned();
    let (mut right, mut all, mut took) = (0, 0, 0.0);
    let (mut near, mut compared, mut unmeasured) = (0, 0, 0);
    for lab in super::all() {
        let passes: Vec<&LabOutcome> =
            outcomes.iter().filter(|outcome| outcome.lab == lab.name).collect();
        let Some(last) = passes.last() else { continue };
        let marks: Vec<Mark> = passes.iter().map(|pass| pass.mark(lab)).collect();
        right += marks.iter().filter(|mark| **mark == Mark::Right).count();
        all += marks.iter().filter(|mark| **mark != Mark::Skipped).count();
        took += last.took_s;
        let words: Vec<&str> = marks.iter().map(|mark| word(lab, *mark)).collect();
        let impacts: Vec<Impact> = passes.iter().filter_map(|pass| pass.impact(lab)).collect();
        compared += impacts.len();
        unmeasured += passes.iter().filter(|pass| pass.not_measured.is_some()).count();
        near += impacts.iter().filter(|impact| impact.near).count();
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
        "{text}\n{right} of {all} runs right; impact within 20 percentage points of the lab's own \
         measurement in {near} of {compared}, {unmeasured} could not be measured (≤: iowhy reports \
         an upper bound); the last pass took {:.0} minutes.\n",
        took / 60.0
    )
}

/// Formats the impact as found and as measured, or the reason why one is missing.
fn impact(outcome: &LabOutcome, compared: Option<Impact>) -> String {
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
