//! `cargo lab matrix`: every lab, a table of cause and outcome, and the page that keeps it.

use super::run::{self, Mark, Outcome};
use super::{Lab, Sort};
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
    /// Seconds to watch in each lab
    #[arg(long, default_value_t = 10)]
    pub seconds: u64,
    /// Passes
    #[arg(long, default_value_t = 1)]
    pub passes: usize,
    /// Only labs whose name holds this
    #[arg(long)]
    pub only: Option<String>,
    /// Watch the whole machine instead of the lab's device
    #[arg(long)]
    pub whole: bool,
    /// Write the table into this page
    #[arg(long)]
    pub page: Option<PathBuf>,
}

/// Runs what is not done yet, and prints the table.
pub fn run(settings: &Settings, say: &mut dyn FnMut(&str)) -> Result<()> {
    let wanted = |lab: &&Lab| settings.only.as_ref().is_none_or(|part| lab.name.contains(part));
    let mut outcomes = read(&settings.state)?;
    for pass in 1..=settings.passes {
        for lab in super::all().filter(wanted) {
            let done = outcomes.iter().filter(|it| it.lab == lab.name).count();
            if done >= pass {
                continue;
            }
            let outcome = one(lab, settings)?;
            say(&format!("{pass} {:<28} {:?}{}", lab.name, outcome.mark(lab), named(&outcome)));
            append(&settings.state, &outcome)?;
            outcomes.push(outcome);
        }
    }
    let table = table(&outcomes);
    say(&table);
    match &settings.page {
        Some(path) => page::replace(path, "lab-matrix", &table),
        None => Ok(()),
    }
}

fn one(lab: &Lab, settings: &Settings) -> Result<Outcome> {
    let settings = run::Settings {
        name: None,
        seconds: settings.seconds,
        seed: None,
        whole: settings.whole,
        keep: None,
    };
    run::watch(lab, &settings, &mut |_| {})
}

fn named(outcome: &Outcome) -> String {
    if let Some(reason) = &outcome.skipped {
        return format!(" ({reason})");
    }
    outcome.findings.iter().fold(String::new(), |mut all, found| {
        // Writing to a String cannot fail.
        write!(all, "  {} {} {:.0} %", found.severity, found.cause, found.impact * 100.0)
            .unwrap_or(());
        all
    })
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

/// The table: a row for each lab, a column for each pass.
pub fn table(outcomes: &[Outcome]) -> String {
    let mut by_lab: BTreeMap<&str, Vec<&Outcome>> = BTreeMap::new();
    for outcome in outcomes {
        by_lab.entry(&outcome.lab).or_default().push(outcome);
    }
    let mut text = "| lab | is | makes | passes | iowhy's findings in the last pass |\n|---|---|---|---|---|\n".to_owned();
    let (mut right, mut all) = (0, 0);
    for lab in super::all() {
        let Some(passes) = by_lab.get(lab.name) else { continue };
        let marks: Vec<Mark> = passes.iter().map(|it| it.mark(lab)).collect();
        right += marks.iter().filter(|mark| **mark == Mark::Right).count();
        all += marks.iter().filter(|mark| **mark != Mark::Skipped).count();
        let words: Vec<&str> = marks.iter().map(|mark| word(lab, *mark)).collect();
        let last = passes.last().map(|it| named(it)).unwrap_or_default();
        let causes = lab.causes.join(", ");
        // Writing to a String cannot fail.
        writeln!(
            text,
            "| {} | {} | {causes} | {} | {} |",
            lab.name,
            sort(lab),
            words.join(", "),
            last.trim()
        )
        .unwrap_or(());
    }
    format!("{text}\n{right} of {all} runs right.\n")
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
        (_, Mark::Skipped) => "skipped",
    }
}
