//! One lab: makes it happen, shows it as the classic tool does, asks iowhy, compares.

use super::expected::Expected;
use super::stage::Stage;
use super::{Lab, Sort};
use crate::error::Context;
use crate::{Error, Result, command, iowhy};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

/// `cargo lab run`.
#[derive(Clone, Debug, clap::Args)]
pub struct Settings {
    /// The lab; without one, list them
    pub name: Option<String>,
    /// Seconds to watch
    #[arg(long, default_value_t = 10)]
    pub seconds: u64,
    /// The dice; a different one each time unless given
    #[arg(long)]
    pub seed: Option<u64>,
    /// Watch the whole machine instead of the lab's device
    #[arg(long)]
    pub whole: bool,
    /// Keep the recording there
    #[arg(long)]
    pub keep: Option<PathBuf>,
}

/// What iowhy found in a lab.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// The lab.
    pub lab: String,
    /// The dice.
    pub seed: u64,
    /// Findings in their order: cause, severity, device, impact, symptoms.
    pub findings: Vec<Found>,
    /// What was stated before it ran, beside the cause.
    #[serde(default)]
    pub expected: Expected,
    /// Why it could not run, if it could not.
    pub skipped: Option<String>,
}

/// One finding.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Found {
    /// The cause's id.
    pub cause: String,
    /// info, warning or critical.
    pub severity: String,
    /// The share of the time, 0 to 1.
    pub impact: f64,
    /// The sentence.
    pub sentence: String,
    /// What to do.
    pub fix: String,
    /// Causes that are its symptoms.
    pub symptoms: Vec<String>,
    /// The device.
    pub subject: Subject,
}

/// What a finding is about.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Subject {
    /// The device.
    pub device: Option<String>,
    /// The process.
    pub process: Option<String>,
    /// The file, or what files' names have in common.
    pub file: Option<String>,
}

/// How well it was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mark {
    /// Every cause, the first one first; in near misses and controls nothing that must not be.
    Right,
    /// Every cause, but another one stands first, or the first one's subject or fix is another than what
    /// was stated.
    Found,
    /// A cause is not there, or not above "info".
    Missed,
    /// Something that is not there was found above "info".
    False,
    /// The lab cannot run here.
    Skipped,
}

impl Found {
    fn counts(&self) -> bool {
        self.severity != "info"
    }
}

impl Outcome {
    /// How well.
    pub fn mark(&self, lab: &Lab) -> Mark {
        if self.skipped.is_some() {
            return Mark::Skipped;
        }
        let named: Vec<&str> =
            self.findings.iter().filter(|it| it.counts()).map(|it| it.cause.as_str()).collect();
        match lab.sort {
            Sort::Control if named.is_empty() => Mark::Right,
            Sort::Control => Mark::False,
            Sort::NearMiss if named.iter().any(|it| lab.causes.contains(it)) => Mark::False,
            Sort::NearMiss => Mark::Right,
            Sort::Cause if !lab.causes.iter().all(|it| named.contains(it)) => Mark::Missed,
            Sort::Cause if named.first().is_none_or(|it| !lab.causes.contains(it)) => Mark::Found,
            Sort::Cause if self.differs().is_empty() => Mark::Right,
            Sort::Cause => Mark::Found,
        }
    }

    /// In what the first finding differs from what was stated of it, in words.
    pub fn differs(&self) -> Vec<String> {
        let first = self.findings.iter().find(|found| found.counts());
        first.map(|found| self.expected.missing_in(found)).unwrap_or_default()
    }
}

/// A seed that nobody chose.
pub fn any_seed() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    now.as_nanos() as u64 % 1_000_000_007
}

/// Runs one lab and says what happens.
pub fn run(settings: &Settings, say: &mut dyn FnMut(&str)) -> Result<()> {
    let Some(name) = &settings.name else {
        super::all().for_each(|lab| {
            say(&format!("{:<28} {:?} {}", lab.name, lab.sort, lab.causes.join(" ")));
        });
        return Ok(());
    };
    let lab = super::lab(name).ok_or_else(|| {
        Error::missing(format!("a lab called {name}"), "cargo lab run lists the labs")
    })?;
    let outcome = watch(lab, settings, say)?;
    for found in &outcome.findings {
        say(&format!(
            "{} {} {:.0} %: {}",
            found.severity,
            found.cause,
            found.impact * 100.0,
            found.sentence
        ));
    }
    outcome.differs().iter().for_each(|part| say(part));
    say(&format!("{}: {:?}", lab.name, outcome.mark(lab)));
    Ok(())
}

/// Runs one lab under iowhy.
pub fn watch(lab: &Lab, settings: &Settings, say: &mut dyn FnMut(&str)) -> Result<Outcome> {
    let seed = settings.seed.unwrap_or_else(any_seed);
    let mut outcome = Outcome { lab: lab.name.to_owned(), seed, ..Outcome::default() };
    let mut stage = Stage::new(seed, settings.seconds)?;
    match (lab.build)(&mut stage) {
        Err(Error::Missing { what, .. } | Error::Unsupported { what, .. }) => {
            outcome.skipped = Some(format!("no {what}"));
            return Ok(outcome);
        }
        result => result?,
    }
    outcome.expected = stage.expected.clone();
    let recording = settings.keep.clone().unwrap_or_else(|| stage.scratch.path().join("watched"));
    if let Some(scene) = stage.guest.take() {
        outcome.findings = scene.watch(settings.seconds, &recording, say)?;
        return Ok(outcome);
    }
    std::thread::sleep(Duration::from_millis(1500));
    let symptom = symptom(&stage, settings.seconds)?;
    record(&stage, settings, &recording)?;
    let shown = symptom.wait_with_output().context(|| "wait for iostat".to_owned())?;
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    shown.lines().rev().filter(|line| !line.is_empty()).take(2).for_each(&mut *say);
    outcome.findings = findings(&recording)?;
    Ok(outcome)
}

/// What iostat shows of the device meanwhile.
fn symptom(stage: &Stage, seconds: u64) -> Result<std::process::Child> {
    let mut iostat = Command::new(command::find("iostat")?);
    iostat.args(["-dx", "-y"]).args(stage.watched.split_whitespace());
    iostat.args([&seconds.to_string(), "1"]);
    iostat.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    iostat.spawn().context(|| "start iostat".to_owned())
}

fn record(stage: &Stage, settings: &Settings, recording: &Path) -> Result<()> {
    let mut record = Command::new(iowhy::binary()?);
    record.args(["record", "-t", &settings.seconds.to_string(), "-o"]).arg(recording);
    if !settings.whole {
        record.args(stage.watched.split_whitespace().flat_map(|device| ["-d", device]));
    }
    command::output_of(record).map(drop)
}

/// What iowhy says of a recording.
pub fn findings(recording: &Path) -> Result<Vec<Found>> {
    #[derive(Deserialize)]
    struct Report {
        findings: Vec<Found>,
    }
    let mut report = Command::new(iowhy::binary()?);
    report.args(["report", "--json"]).arg(recording);
    let text = command::output_of(report)?;
    let report: Report =
        serde_json::from_str(&text).context(|| "read the report's JSON".to_owned())?;
    Ok(report.findings)
}
