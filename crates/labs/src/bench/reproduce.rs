//! `cargo lab bench-reproduce`: labs are recorded, their recordings reproduced by one command each
//! on the same disk, and both compared: the same first finding, rates, sizes, mixes, latencies.
//!
//! The outcome of each lab is kept in a file, so that labs can be measured one after the other.
//!
//! What does not belong here: the comparison itself (crate `iowhy-diagnosis`).

use super::{Benchmark, TableOutput, table_of};
use crate::error::Context;
use crate::labs::run::any_seed;
use crate::labs::stage::LabStage;
use crate::labs::{self, Lab};
use crate::{LabError, Result, command, iowhy};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Delay between building a lab and watching it.
const SETTLE: Duration = Duration::from_millis(1500);
/// The prefix of the documents' cases.
const CASE: &str = "case-";
/// The labs that are measured unless others are named: the documents' cases, real programs, limits.
const LABS: &[&str] = &[
    "case-snapshot",
    "case-word-counter",
    "case-phantom-reads",
    "case-stat-storm",
    "case-suspicious-drive",
    "redis-snapshot",
    "postgres-commits",
    "postgres-checkpoint",
    "mariadb-commits",
    "rocksdb-compaction",
    "git-cold-status",
    "java-gc-log",
    "sqlite-rollback-journal",
    "etcd-puts",
    "dpkg-unpack",
    "postgres-scan",
    "cgroup-throttle",
    "provider-cap",
    "serial-reads",
];

/// What is measured.
#[derive(Clone, Debug, clap::Args)]
pub struct ReproduceSettings {
    /// Labs to measure; the outcomes of others are kept
    pub labs: Vec<String>,
    /// Seconds to watch each
    #[arg(long, default_value_t = 10)]
    pub seconds: u64,
    /// Rounds of fitting
    #[arg(long, default_value_t = 0)]
    pub fit: u32,
    /// Keep recordings and reproductions in this folder
    #[arg(long)]
    pub keep: Option<PathBuf>,
    /// The file with the outcomes so far
    #[arg(long, default_value = "target/bench-reproduce.json")]
    pub outcomes: PathBuf,
    /// Where the table goes.
    #[command(flatten)]
    pub output: TableOutput,
}

/// The outcome of one lab.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct ReproducedLab {
    /// The first finding of the original and of the reproduction.
    findings: [Option<String>; 2],
    /// Differences by figure.
    rows: Vec<ReproducedFigure>,
    /// The reason why there is no comparison.
    skipped: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct ReproducedFigure {
    what: String,
    difference: Option<f64>,
    agrees: bool,
}

impl Benchmark for ReproduceSettings {
    const TARGET: &'static str = "bench-reproduce";
    const PAGE: &'static str = "docs/reproduce.md";

    fn output(&self) -> &TableOutput {
        &self.output
    }

    fn measure(&self, machine: &str, progress: &mut dyn FnMut(&str)) -> Result<String> {
        let text = fs::read_to_string(&self.outcomes).unwrap_or_default();
        let mut outcomes: BTreeMap<String, ReproducedLab> =
            serde_json::from_str(&text).unwrap_or_default();
        let all: Vec<String> = LABS.iter().map(|&name| name.to_owned()).collect();
        for name in if self.labs.is_empty() { &all } else { &self.labs } {
            progress(name);
            let Some(lab) = labs::lab(name) else {
                progress(&format!("{name}: there is no such lab"));
                continue;
            };
            let outcome = match self.one(lab, progress) {
                Ok(outcome) => outcome,
                Err(error) => ReproducedLab {
                    skipped: Some(told(&error.to_string())),
                    ..ReproducedLab::default()
                },
            };
            outcomes.insert(name.clone(), outcome);
            let text = serde_json::to_string_pretty(&outcomes)
                .context(|| "write the outcomes".to_owned())?;
            fs::write(&self.outcomes, text)
                .context(|| format!("write {}", self.outcomes.display()))?;
        }
        table_of(|text| table(text, machine, self.seconds, &outcomes))
    }
}

impl ReproduceSettings {
    /// Records a lab, ends its load, and runs the reproduction on its disks.
    fn one(&self, lab: &Lab, progress: &mut dyn FnMut(&str)) -> Result<ReproducedLab> {
        let mut stage = LabStage::new(any_seed(), self.seconds)?;
        let base = match &self.keep {
            Some(keep) => keep.join(lab.name),
            None => stage.scratch.path().join("made"),
        };
        fs::create_dir_all(&base).context(|| format!("make {}", base.display()))?;
        let recording = base.join("recording");
        stage.recording.clone_from(&recording);
        (lab.build)(&mut stage)?;
        if stage.guest.is_some() {
            return Err(LabError::unsupported("a lab on this machine", "it runs in a guest"));
        }
        std::thread::sleep(SETTLE);
        let mut record = Command::new(iowhy::binary()?);
        record.args(["record", "-t", &self.seconds.to_string(), "-o"]).arg(&recording);
        record.args(stage.devices().flat_map(|device| ["-d", device]));
        command::output_of(record)?;
        stage.end_load();
        let folder = base.join("reproduction");
        let mut write = Command::new(iowhy::binary()?);
        write.args(["reproduce", "--keep-names", "-o"]).arg(&folder).arg(&recording);
        command::output_of(write)?;
        if self.keep.is_none() {
            // A reproduction needs no other files.
            fs::remove_dir_all(&recording).context(|| "remove the recording".to_owned())?;
        }
        let mut run = Command::new(folder.join("run"));
        run.env("IOWHY", iowhy::binary()?).args(["--json", "--affect-machine", "--keep-settings"]);
        if self.fit > 0 {
            run.arg(format!("--fit={}", self.fit));
        }
        run.args(places(&stage, &folder)?);
        let text = command::output_of(run)?;
        let answer: Value =
            serde_json::from_str(&text).context(|| "read the comparison".to_owned())?;
        let outcome: ReproducedLab = serde_json::from_value(with_none(&answer["fidelity"]))
            .context(|| "read the comparison".to_owned())?;
        progress(&format!("  {:?}", outcome.findings));
        for row in &outcome.rows {
            let difference = row.difference.map(|difference| (difference * 100.0).round());
            let mark = if row.agrees { "" } else { "  <-" };
            progress(&format!("  {}: {difference:?}{mark}", row.what));
        }
        Ok(outcome)
    }
}

/// Returns the line of a message that has the reason.
fn told(message: &str) -> String {
    let lines = || message.lines().map(|line| line.trim_start_matches("iowhy: "));
    let why = lines().find(|line| line.starts_with("failed to ") && !line.contains("/run "));
    why.or_else(|| lines().next()).unwrap_or_default().to_owned()
}

/// Returns the comparison without the parts that are not kept.
fn with_none(fidelity: &Value) -> Value {
    serde_json::json!({
        "findings": fidelity["findings"],
        "rows": fidelity["rows"],
        "skipped": null,
    })
}

/// `--on` or `--on-device` for each disk of the reproduction, in its order.
fn places(stage: &LabStage, folder: &Path) -> Result<Vec<String>> {
    let text =
        fs::read_to_string(folder.join("plan.json")).context(|| "read the plan".to_owned())?;
    let plan: Value = serde_json::from_str(&text).context(|| "read the plan".to_owned())?;
    let mut places = Vec::new();
    for (at, disk) in plan["disks"].as_array().into_iter().flatten().enumerate() {
        let name = disk["name"].as_str().unwrap_or_default();
        let name = stage.devices().find(|device| *device == name).unwrap_or(stage.device());
        let node = format!("/dev/{name}");
        match mount_point(&node) {
            Some(point) => {
                empty_disk(&point)?;
                let empty = point.join(format!("empty-{at}"));
                fs::create_dir(&empty).context(|| format!("make {}", empty.display()))?;
                places.extend(["--on".to_owned(), empty.display().to_string()]);
            }
            None => places.extend(["--on-device", &node, "--destroy", name].map(str::to_owned)),
        }
    }
    Ok(places)
}

/// Removes the original's files from a lab's disk, which a reproduction does not need.
fn empty_disk(point: &Path) -> Result<()> {
    for entry in fs::read_dir(point).context(|| format!("list {}", point.display()))?.flatten() {
        let path = entry.path();
        let removed = match path.is_dir() && !path.is_symlink() {
            true => fs::remove_dir_all(&path),
            false => fs::remove_file(&path),
        };
        removed.context(|| format!("remove {}", path.display()))?;
    }
    Ok(())
}

fn mount_point(node: &str) -> Option<PathBuf> {
    let text = fs::read_to_string("/proc/self/mounts").ok()?;
    let mut own = text.lines().filter(|line| line.split(' ').next() == Some(node));
    own.next_back()?.split(' ').nth(1).map(PathBuf::from)
}

/// The largest difference among figures whose name ends so, as a cell.
fn cell(outcome: &ReproducedLab, endings: &[&str]) -> String {
    let ours = |row: &&ReproducedFigure| endings.iter().any(|ending| row.what.ends_with(ending));
    let rows: Vec<&ReproducedFigure> = outcome.rows.iter().filter(ours).collect();
    let size = |row: &&&ReproducedFigure| row.difference.unwrap_or(0.0).abs();
    let worst = rows.iter().max_by(|a, b| size(a).total_cmp(&size(b)));
    let Some(worst) = worst else { return "-".to_owned() };
    let points = worst.what.ends_with("of all");
    let text = match worst.difference {
        Some(difference) if points => format!("{difference:+.0} points"),
        Some(difference) => format!("{:+.0} %", difference * 100.0),
        None => "one is missing".to_owned(),
    };
    if rows.iter().all(|row| row.agrees) { text } else { format!("**{text}**") }
}

fn table(
    text: &mut String,
    machine: &str,
    seconds: u64,
    outcomes: &BTreeMap<String, ReproducedLab>,
) -> std::fmt::Result {
    let run = outcomes.values().filter(|outcome| outcome.skipped.is_none());
    let same = run.clone().filter(|run| run.findings[0] == run.findings[1]).count();
    writeln!(
        text,
        "{machine}. Each lab is recorded for {seconds} s; then its load is ended and \
         `iowhy reproduce --keep-names` and `run` make it again on the same disk. The worst of all \
         disks and directions; what is beyond its tolerance is in bold. The same finding comes \
         first in {same} of {}. Command: `make bench-reproduce`.\n",
        run.count()
    )?;
    let (cases, others): (Vec<_>, Vec<_>) =
        outcomes.iter().partition(|(name, _)| name.starts_with(CASE));
    if !cases.is_empty() {
        writeln!(text, "The cases of the five documents:\n")?;
        rows(text, &cases)?;
        writeln!(text)?;
    }
    if !others.is_empty() {
        writeln!(text, "Real programs, and limits:\n")?;
        rows(text, &others)?;
    }
    Ok(())
}

fn rows(text: &mut String, outcomes: &[(&String, &ReproducedLab)]) -> std::fmt::Result {
    writeln!(
        text,
        "| lab | first finding | reproduction | rate | size | reads | p50 | p99 | agree |"
    )?;
    writeln!(text, "|---|---|---|--:|--:|--:|--:|--:|--:|")?;
    for (name, outcome) in outcomes {
        if let Some(reason) = &outcome.skipped {
            writeln!(text, "| {name} | - | not run: {reason} | | | | | | |")?;
            continue;
        }
        let finding = |at: usize| outcome.findings[at].clone().unwrap_or("none".to_owned());
        let agree = outcome.rows.iter().filter(|row| row.agrees).count();
        let reproduced = match outcome.findings[0] == outcome.findings[1] {
            true => "the same".to_owned(),
            false => format!("**{}**", finding(1)),
        };
        writeln!(
            text,
            "| {name} | {} | {reproduced} | {} | {} | {} | {} | {} | {agree} of {} |",
            finding(0),
            cell(outcome, &["requests"]),
            cell(outcome, &["size"]),
            cell(outcome, &["reads of all"]),
            cell(outcome, &["p50"]),
            cell(outcome, &["p99"]),
            outcome.rows.len(),
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misses_are_bold() {
        let row = |what: &str, difference, agrees| ReproducedFigure {
            what: what.to_owned(),
            difference: Some(difference),
            agrees,
        };
        let outcome = ReproducedLab {
            findings: [Some("hung-io".to_owned()), None],
            rows: vec![row("read requests", 0.05, true), row("write requests", -0.4, false)],
            skipped: None,
        };
        let outcomes = BTreeMap::from([("some".to_owned(), outcome)]);
        let text = table_of(|text| table(text, "Linux", 10, &outcomes)).unwrap();
        assert!(text.contains("| hung-io | **none** | **-40 %** | - |"), "{text}");
        assert!(text.contains("first in 0 of 1"), "{text}");
    }
}
