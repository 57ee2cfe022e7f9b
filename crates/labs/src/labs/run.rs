//! Runs one lab: produces the cause, shows iostat's view, runs iowhy, compares.

use super::measure::{Measure, Relief, vanished};
use super::outcome::{FoundCause, Impact, LabOutcome};
use super::stage::LabStage;
use super::{Lab, Sort};
use crate::error::Context;
use crate::{LabError, Result, command, iowhy};
use serde::Deserialize;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

/// Delay between building a lab and watching it: the load has begun by then.
const SETTLE: Duration = Duration::from_millis(1500);
/// Seconds for which the load is watched and measured without the cause.
const RELIEVED_S: u64 = 4;
/// The interval of checking whether a watch has begun.
const POLL: Duration = Duration::from_millis(20);
/// The time before the end of a watch at which the last measurement is made.
const MARGIN: Duration = Duration::from_millis(200);

/// `cargo lab run`.
#[derive(Clone, Debug, clap::Args)]
pub struct LabSettings {
    /// The lab to run; if omitted, list all labs
    pub name: Option<String>,
    /// Seconds to watch
    #[arg(long, default_value_t = 10)]
    pub seconds: u64,
    /// Random seed; a new one in each run unless given
    #[arg(long)]
    pub seed: Option<u64>,
    /// Watch the whole machine, as without options, not only the lab's device
    #[arg(long)]
    pub whole: bool,
    /// What the watch may cost, in percent of the CPUs; iowhy's default unless given
    #[arg(long)]
    pub budget: Option<f64>,
    /// Keep the recording in this folder
    #[arg(long)]
    pub keep: Option<PathBuf>,
}

/// The scope and the budget of the watch.
#[derive(Clone, Copy, Debug)]
struct WatchScope {
    whole: bool,
    budget: Option<f64>,
}

/// A seed from the clock.
pub fn any_seed() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    now.as_nanos() as u64 % 1_000_000_007
}

/// Runs one lab and prints the result.
pub fn run(settings: &LabSettings, say: &mut dyn FnMut(&str)) -> Result<()> {
    let Some(name) = &settings.name else {
        super::all().for_each(|lab| {
            say(&format!("{:<28} {:?} {}", lab.name, lab.sort, lab.causes.join(" ")));
        });
        return Ok(());
    };
    let lab = super::lab(name).ok_or_else(|| {
        LabError::missing(format!("a lab named {name}"), "cargo lab run lists the labs")
    })?;
    let outcome = watch(lab, settings, say)?;
    if let Some((shown, is_it)) = &outcome.symptom {
        let word = if *is_it { "" } else { ": does not match the document's symptom" };
        say(&format!("iostat: {shown}{word}"));
    }
    outcome.findings.iter().for_each(|found| say(&sentence(lab, &outcome, found)));
    if let Some(Impact { found, at_most, measured, near }) = outcome.impact(lab) {
        let limit = if at_most { "at most " } else { "" };
        let word = if near { "close to" } else { "far from" };
        say(&format!(
            "impact {limit}{:.0} %, {word} the {:.0} % measured",
            found * 1e2,
            measured * 1e2
        ));
    } else if let Some(measured) = outcome.measured {
        say(&format!("{:.0} % measured", measured * 1e2));
    }
    if let Some(reason) = &outcome.not_measured {
        say(&format!("not measured: {reason}"));
    }
    outcome.differs(lab).iter().for_each(|part| say(part));
    let LabOutcome { seed, took_s, busy_percent, stolen_percent, .. } = outcome;
    say(&format!(
        "{}: {:?} (seed {seed}, {took_s:.0} s, other tasks waited for a CPU {busy_percent:.0} % of \
         the time, the hypervisor stole {stolen_percent:.0} % of it)",
        lab.name,
        outcome.mark(lab)
    ));
    Ok(())
}

fn sentence(lab: &Lab, outcome: &LabOutcome, found: &FoundCause) -> String {
    let note = match () {
        () if outcome.is_elsewhere(found) => " (elsewhere)",
        () if outcome.is_of_the_machine(lab, found) => " (the machine)",
        () => "",
    };
    let FoundCause { severity, cause, impact, sentence, .. } = found;
    format!("{severity} {cause} {:.0} %{note}: {sentence}", impact * 100.0)
}

/// Runs one lab while iowhy watches.
pub fn watch(lab: &Lab, settings: &LabSettings, say: &mut dyn FnMut(&str)) -> Result<LabOutcome> {
    let begun = Instant::now();
    let seed = settings.seed.unwrap_or_else(any_seed);
    let mut outcome = LabOutcome {
        lab: lab.name.to_owned(),
        seed,
        busy_percent: waiting_for_cpu(),
        ..LabOutcome::default()
    };
    let mut stage = LabStage::new(seed, settings.seconds)?;
    let kept = settings.keep.clone().unwrap_or_else(|| stage.scratch.path().join("watched"));
    stage.recording.clone_from(&kept);
    match (lab.build)(&mut stage) {
        Err(LabError::Missing { what, .. } | LabError::Unsupported { what, .. }) => {
            outcome.skipped = Some(format!("no {what}"));
            return Ok(outcome);
        }
        result => result?,
    }
    outcome.expected = stage.expected.clone();
    if let Some(scene) = stage.guest.take() {
        outcome.findings = scene.watch(settings.seconds, &kept, say)?;
        outcome.took_s = begun.elapsed().as_secs_f64();
        return Ok(outcome);
    }
    std::thread::sleep(SETTLE);
    let iostat = iostat(&stage, settings.seconds)?;
    let relief = stage.relief.take().filter(|_| lab.sort == Sort::Cause);
    let measure = relief.as_ref().map(|relief| relief.measure);
    let before = CpuTime::now();
    let scope = WatchScope { whole: settings.whole, budget: settings.budget };
    let with = record(&stage, settings.seconds, scope, measure, &kept)?;
    outcome.stolen_percent = CpuTime::now().stolen_since(before);
    outcome.pids = stage.pids();
    if let Some(relief) = relief {
        match without(&mut stage, relief, with, scope) {
            Ok(share) => outcome.measured = Some(share),
            Err(reason) => outcome.not_measured = Some(reason),
        }
    }
    outcome.symptom = symptom(lab, iostat)?;
    outcome.devices = stage.devices().map(str::to_owned).collect();
    outcome.findings = findings(&kept)?;
    drop(stage);
    outcome.took_s = begun.elapsed().as_secs_f64();
    Ok(outcome)
}

/// Per cent of the last ten seconds during which tasks waited for a CPU.
fn waiting_for_cpu() -> f64 {
    let text = std::fs::read_to_string("/proc/pressure/cpu").unwrap_or_default();
    let some = text.split_whitespace().find_map(|word| word.strip_prefix("avg10="));
    some.and_then(|number| number.parse().ok()).unwrap_or(0.0)
}

/// CPU time since boot, in clock ticks.
#[derive(Clone, Copy, Default)]
struct CpuTime {
    all: u64,
    stolen: u64,
}

impl CpuTime {
    fn now() -> CpuTime {
        CpuTime::parse(&std::fs::read_to_string("/proc/stat").unwrap_or_default())
    }

    /// Parses the first eight figures of `cpu`; the later ones are included in earlier ones.
    fn parse(stat: &str) -> CpuTime {
        let words = stat.lines().next().unwrap_or_default().split_whitespace();
        let ticks: Vec<u64> = words.skip(1).take(8).filter_map(|word| word.parse().ok()).collect();
        CpuTime { all: ticks.iter().sum(), stolen: ticks.get(7).copied().unwrap_or(0) }
    }

    /// Per cent of the time since `before` that the hypervisor withheld.
    fn stolen_since(self, before: CpuTime) -> f64 {
        let stolen = self.stolen.saturating_sub(before.stolen) as f64;
        stolen / self.all.saturating_sub(before.all).max(1) as f64 * 100.0
    }
}

/// Returns the share of an operation's cost that vanishes with the cause, given its cost with the
/// cause; or the reason why it is unknown.
fn without(
    stage: &mut LabStage,
    relief: Relief,
    with: Option<f64>,
    scope: WatchScope,
) -> std::result::Result<f64, String> {
    let said = |error: LabError| error.to_string();
    (relief.action)(stage).map_err(said)?;
    std::thread::sleep(relief.notice);
    let recording = stage.scratch.fresh("relieved");
    let without =
        record(stage, RELIEVED_S, scope, Some(relief.measure), &recording).map_err(said)?;
    vanished(with, without)
}

/// Starts iostat on the lab's devices, to run during the watch.
fn iostat(stage: &LabStage, seconds: u64) -> Result<Child> {
    let mut iostat = Command::new(command::find("iostat")?);
    iostat.args(["-o", "JSON", "-dxy", &seconds.to_string(), "1"]).args(stage.devices());
    iostat.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    iostat.spawn().context(|| "start iostat".to_owned())
}

/// Returns iostat's figures, and whether they match the lab's document.
fn symptom(lab: &Lab, iostat: Child) -> Result<Option<(String, bool)>> {
    let shown = iostat.wait_with_output().context(|| "wait for iostat".to_owned())?;
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap_or_default();
    let disks = shown["sysstat"]["hosts"][0]["statistics"][0]["disk"].as_array();
    let value = |disk: &Value, name: &str| disk[name].as_f64().unwrap_or(0.0);
    let names = ["r/s", "w/s", "rkB/s", "wkB/s", "r_await", "w_await", "aqu-sz", "util"];
    let line = |disk: &Value| {
        let words = names.iter().map(|name| format!("{name} {:.1}", value(disk, name)));
        words.collect::<Vec<_>>().join("  ")
    };
    let disks = disks.map_or(&[][..], Vec::as_slice);
    let lines: Vec<String> = disks.iter().map(line).collect();
    // iostat has its own order: any of the lab's devices may match.
    let shows = |disk: &Value| lab.symptom.iter().all(|(name, least)| value(disk, name) >= *least);
    let is_it = lab.symptom.is_empty() || disks.iter().any(shows);
    Ok((lab.sort != Sort::Control).then(|| (lines.join("; "), is_it)))
}

/// Watches, and returns the cost of an operation of the load in that time.
fn record(
    stage: &LabStage,
    seconds: u64,
    scope: WatchScope,
    measure: Option<Measure>,
    recording: &Path,
) -> Result<Option<f64>> {
    let mut record = Command::new(iowhy::binary()?);
    record.args(["record", "-t", &seconds.to_string(), "-o"]).arg(recording);
    if let Some(budget) = scope.budget {
        record.args(["--budget", &budget.to_string()]);
    }
    if !scope.whole {
        record.args(stage.devices().flat_map(|device| ["-d", device]));
    }
    std::thread::scope(|scope| {
        let watch = scope.spawn(|| command::output_of(record).map(drop));
        let cost = measure.map(|measure| {
            let begun = || recording.join("recording.json").exists();
            let length = Duration::from_secs(seconds).saturating_sub(MARGIN);
            cost_meanwhile(stage, measure, length, begun, || watch.is_finished())
        });
        let watched =
            watch.join().unwrap_or_else(|_| Err(LabError::failed("watch", "it panicked")));
        watched.and(cost.transpose()).map(Option::flatten)
    })
}

/// The cost of an operation over `length` from the start of the watch; `None` if there was none, or
/// if the watch ended first.
fn cost_meanwhile(
    stage: &LabStage,
    measure: Measure,
    length: Duration,
    begun: impl Fn() -> bool,
    ended: impl Fn() -> bool,
) -> Result<Option<f64>> {
    while !begun() {
        if ended() {
            return Ok(None);
        }
        std::thread::sleep(POLL);
    }
    let before = measure.read(stage)?;
    std::thread::sleep(length);
    let after = measure.read(stage)?;
    Ok(measure.cost(&before, &after))
}

/// iowhy's findings for a recording.
pub fn findings(recording: &Path) -> Result<Vec<FoundCause>> {
    #[derive(Deserialize)]
    struct RunReport {
        findings: Vec<FoundCause>,
    }
    let mut report = Command::new(iowhy::binary()?);
    report.args(["report", "--json"]).arg(recording);
    let text = command::output_of(report)?;
    let report: RunReport =
        serde_json::from_str(&text).context(|| "read the report's JSON".to_owned())?;
    Ok(report.findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stolen_time_is_a_share_of_all() {
        let before = CpuTime::parse("cpu  100 0 50 800 0 0 0 50 7 7\ncpu0 1 2 3\n");
        let after = CpuTime::parse("cpu  150 0 80 900 0 0 0 70 9 9\n");
        assert_eq!(after.stolen_since(before), 10.0);
        assert_eq!(CpuTime::parse("").stolen_since(after), 0.0);
    }
}
