//! One run of one load: its threads' waits in the recording, and the program's own clock.
//!
//! The recording is read as by any other program: by column names.

use super::{ClassLoad, ClassScene, ClockAgreement, OwnClock};
use crate::error::Context;
use crate::fio::FioReport;
use crate::labs::stage::LabStage;
use crate::recorded::{RecordedRow, each_row};
use crate::{LabError, Result, command, iowhy};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// The largest share of blocked time that may be unknown.
const MOST_UNKNOWN: f64 = 0.05;
/// The largest relative difference of blocked time and the program's own clock.
const MOST_APART: f64 = 0.02;
/// Runs of a load at most, until all results are right.
const ROUNDS: u32 = 4;
/// Parts of waits that have columns of their own.
const PARTS: [(&str, &str); 3] =
    [("device", "device_ns"), ("queue", "queue_ns"), ("run_queue", "run_queue_ns")];

/// The result of one run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ClassMeasured {
    /// The load.
    pub load: String,
    /// The kernel on which it ran.
    pub kernel: String,
    /// Blocked time of its threads, nanoseconds.
    pub blocked_ns: u64,
    /// The part of the blocked time that waited for a CPU, nanoseconds.
    pub run_queue_ns: u64,
    /// The part of the blocked time in the produced classes, nanoseconds.
    pub made_ns: u64,
    /// The part of the blocked time whose class is unknown, nanoseconds.
    pub unknown_ns: u64,
    /// The time by the program's own clock, nanoseconds.
    pub own_clock_ns: Option<u64>,
    /// Blocked time by class, nanoseconds, as the ledger has it.
    pub ledger: BTreeMap<String, u64>,
    /// The number of waits.
    pub waits: u64,
}

impl ClassMeasured {
    /// The share of sleep in the produced classes, 0 to 1.
    pub fn made_share(&self) -> f64 {
        share(self.made_ns, self.blocked_ns - self.run_queue_ns)
    }

    /// The share of blocked time that is unknown, 0 to 1.
    pub fn unknown_share(&self) -> f64 {
        share(self.unknown_ns, self.blocked_ns)
    }

    /// Returns the difference of blocked time and the program's own clock, as a share of the clock.
    pub fn apart(&self) -> Option<f64> {
        let clock = self.own_clock_ns.filter(|clock| *clock > 0)? as f64;
        Some((self.blocked_ns as f64 - clock) / clock)
    }

    /// Violated expectations.
    pub fn problems(&self, load: &ClassLoad) -> Vec<String> {
        let mut problems = Vec::new();
        if self.blocked_ns == 0 {
            problems.push("no thread waited".to_owned());
        }
        if self.unknown_share() > MOST_UNKNOWN {
            problems.push(format!("{:.1} % is unknown", self.unknown_share() * 100.0));
        }
        if self.made_share() < load.least {
            let classes = load.classes.join(" or ");
            problems.push(format!("{:.1} % is {classes}", self.made_share() * 100.0));
        }
        match (load.clock, self.apart()) {
            (ClockAgreement::Shown(_), _) => (),
            (ClockAgreement::Agrees, None) => {
                problems.push("its own clock has no value".to_owned())
            }
            (ClockAgreement::Agrees, Some(apart)) if apart.abs() > MOST_APART => {
                problems.push(format!("blocked {:+.1} % of its own clock", apart * 100.0));
            }
            (ClockAgreement::Agrees, Some(_)) => (),
        }
        problems
    }
}

fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

/// Runs a load while iowhy watches, and repeats it if an expectation fails: on a busy machine a
/// thread loses run time that is in the program's clock and in no wait. The last run counts.
pub fn measure(load: &ClassLoad) -> Result<ClassMeasured> {
    let mut measured = measure_once(load)?;
    for _ in 1..ROUNDS {
        if measured.problems(load).is_empty() {
            break;
        }
        measured = measure_once(load)?;
    }
    Ok(measured)
}

fn measure_once(load: &ClassLoad) -> Result<ClassMeasured> {
    let mut stage = LabStage::new(1, 0)?;
    let scene = (load.build)(&mut stage)?;
    let recording = stage.scratch.fresh("recording");
    watch(&stage.watched, &recording, &scene.command)?;
    let mut measured = waits_of(&recording, scene.process, load.classes)?;
    measured.load = load.name.to_owned();
    measured.kernel = kernel();
    measured.own_clock_ns = own_clock(&scene)?;
    Ok(measured)
}

/// The running kernel's version, the distribution's part left out.
fn kernel() -> String {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    release.trim().split(['-', '+']).next().unwrap_or_default().to_owned()
}

/// Watches the device, or everything if it has no name, while `program` runs.
fn watch(device: &str, recording: &Path, program: &Command) -> Result<()> {
    let mut record = Command::new(iowhy::binary()?);
    record.args(["record", "--every"]);
    if !device.is_empty() {
        record.args(["-d", device]);
    }
    record.arg("-o").arg(recording).arg("--").arg(program.get_program()).args(program.get_args());
    let result = record.stdin(Stdio::null()).output().context(|| "run iowhy".to_owned())?;
    let said = String::from_utf8_lossy(&result.stderr);
    // A load that was ended early does not count.
    if !result.status.success() || said.contains("the command ended with") {
        return Err(LabError::failed(format!("watch {}", command::shown(program)), said.trim()));
    }
    Ok(())
}

fn own_clock(scene: &ClassScene) -> Result<Option<u64>> {
    match &scene.measured {
        OwnClock::None => Ok(None),
        OwnClock::Fio(report) => FioReport::read(report).map(|report| Some(report.waited_ns())),
        OwnClock::File(path) => {
            let text = fs::read_to_string(path).context(|| format!("read {}", path.display()))?;
            let number = text.trim().parse().context(|| format!("read {}", path.display()))?;
            Ok(Some(number))
        }
    }
}

fn waits_of(recording: &Path, process: &str, classes: &[&str]) -> Result<ClassMeasured> {
    let mut measured = ClassMeasured::default();
    each_row(recording, "waits", |row| {
        if row.text("process") != Some(process) {
            return Ok(());
        }
        let lacks = || LabError::failed("read the waits", "a documented column is missing");
        measured.add(row, classes).ok_or_else(lacks)
    })?;
    Ok(measured)
}

impl ClassMeasured {
    /// Adds a row of the table `waits`; `None` where it lacks a column.
    fn add(&mut self, row: &RecordedRow, classes: &[&str]) -> Option<()> {
        let class = row.text("class")?;
        let whole = row.number("duration_ns")?;
        let mut rest = whole;
        self.waits += 1;
        self.blocked_ns += whole;
        for (part, column) in PARTS {
            let time = row.number(column)?;
            rest = rest.checked_sub(time)?;
            *self.ledger.entry(part.to_owned()).or_default() += time;
            // A wait of the produced class counts completely, with all stages of its requests.
            if part == "run_queue" {
                self.run_queue_ns += time;
            } else if classes.contains(&class) || classes.contains(&part) {
                self.made_ns += time;
            }
        }
        *self.ledger.entry(class.to_owned()).or_default() += rest;
        self.made_ns += if classes.contains(&class) { rest } else { 0 };
        self.unknown_ns += if class == "unknown" { rest } else { 0 };
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classes::loads::LOADS;

    fn measured() -> ClassMeasured {
        ClassMeasured {
            blocked_ns: 1_000,
            run_queue_ns: 100,
            made_ns: 880,
            unknown_ns: 20,
            own_clock_ns: Some(1_010),
            ..ClassMeasured::default()
        }
    }

    #[test]
    fn what_is_not_as_it_must_be_is_said() {
        let load = ClassLoad { least: 0.95, clock: ClockAgreement::Agrees, ..LOADS[0] };
        assert_eq!(measured().problems(&load), Vec::<String>::new());
        let bad =
            ClassMeasured { unknown_ns: 60, made_ns: 500, own_clock_ns: Some(900), ..measured() };
        assert_eq!(bad.problems(&load).len(), 3);
        assert_eq!(ClassMeasured::default().problems(&load).len(), 3);
    }
}
