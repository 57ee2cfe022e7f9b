//! What iowhy said of one run of a lab, and how well that fits.

use super::expected::Expected;
use super::{Lab, Sort};
use serde::{Deserialize, Serialize};

/// From which share of the time on, before a lab began, tasks of others waited for a CPU, a thread that
/// gets none after its I/O is a fact and no false finding. Chosen: an idle machine is far below.
const BUSY_PERCENT: f64 = 10.0;
/// From which share of the CPU time on, which the hypervisor withheld while a lab was watched, that is a
/// fact and no false finding: what providers call a reason to act.
const STOLEN_PERCENT: f64 = 5.0;
/// How far a finding's impact may be from what the lab measures.
const NEAR: f64 = 0.20;

/// What iowhy found in a run of a lab.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Outcome {
    /// The lab.
    pub lab: String,
    /// The dice.
    pub seed: u64,
    /// Findings in their order.
    pub findings: Vec<Found>,
    /// What was stated before it ran, beside the cause.
    pub expected: Expected,
    /// Why it could not run, if it could not.
    pub skipped: Option<String>,
    /// What went wrong, if it did.
    pub broken: Option<String>,
    /// The lab's devices.
    pub devices: Vec<String>,
    /// The lab's processes.
    pub pids: Vec<u32>,
    /// The share of the time that others' tasks waited for a CPU before it began, per cent.
    pub busy_percent: f64,
    /// The share of the CPU time that the hypervisor withheld while it was watched, by `/proc/stat`, per
    /// cent.
    pub stolen_percent: f64,
    /// How long all of it took, seconds.
    pub took_s: f64,
    /// What iostat showed, and whether it is the trouble of the lab's document.
    pub symptom: Option<(String, bool)>,
    /// The share of the time that the cause takes by the lab's own measure.
    pub measured: Option<f64>,
    /// Why that could not be measured, where the lab would.
    pub not_measured: Option<String>,
}

/// The impact of a lab's cause.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Impact {
    /// As found.
    pub found: f64,
    /// Whether iowhy says that it is that at most.
    pub at_most: bool,
    /// As measured by the lab.
    pub measured: f64,
    /// Whether they are near.
    pub near: bool,
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
    /// Whether that is an upper bound.
    pub impact_at_most: bool,
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
    /// Its number.
    pub pid: Option<u32>,
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
    /// The lab did not make the trouble of its document, or failed.
    Broken,
    /// The lab cannot run here.
    Skipped,
}

impl Outcome {
    /// How well.
    pub fn mark(&self, lab: &Lab) -> Mark {
        if self.skipped.is_some() {
            return Mark::Skipped;
        }
        if self.broken.is_some() || self.symptom.as_ref().is_some_and(|(_, shown)| !shown) {
            return Mark::Broken;
        }
        let named: Vec<&str> = self.counted(lab).map(|it| it.cause.as_str()).collect();
        match lab.sort {
            Sort::Control if named.is_empty() => Mark::Right,
            Sort::Control => Mark::False,
            Sort::NearMiss if named.iter().any(|it| lab.causes.contains(it)) => Mark::False,
            Sort::NearMiss => Mark::Right,
            Sort::Cause if !Self::names_enough(lab, &named) => Mark::Missed,
            Sort::Cause if named.first().is_none_or(|it| !lab.causes.contains(it)) => Mark::Found,
            Sort::Cause if self.differs(lab).is_empty() => Mark::Right,
            Sort::Cause => Mark::Found,
        }
    }

    /// Whether every cause of the lab was named, or one of them where that is enough.
    fn names_enough(lab: &Lab, named: &[&str]) -> bool {
        let mut causes = lab.causes.iter();
        match lab.any {
            true => causes.any(|it| named.contains(it)),
            false => causes.all(|it| named.contains(it)),
        }
    }

    /// In what the first finding differs from what was stated of it, in words.
    pub fn differs(&self, lab: &Lab) -> Vec<String> {
        let first = self.counted(lab).next();
        first.map(|found| self.expected.missing_in(found)).unwrap_or_default()
    }

    /// The findings that count: above "info", about this lab, and not the machine's own want of CPUs.
    pub fn counted<'a>(&'a self, lab: &'a Lab) -> impl Iterator<Item = &'a Found> {
        self.findings.iter().filter(|it| {
            it.severity != "info" && !self.is_elsewhere(it) && !self.is_of_the_machine(lab, it)
        })
    }

    /// Whether a finding is about somebody else's device or process: others use the machine, too.
    pub fn is_elsewhere(&self, found: &Found) -> bool {
        match (&found.subject.device, found.subject.pid) {
            // A guest is there for its lab alone.
            _ if self.devices.is_empty() => false,
            (Some(device), _) => !self.devices.contains(device),
            (None, Some(pid)) => !self.pids.is_empty() && !self.pids.contains(&pid),
            (None, None) => false,
        }
    }

    /// Whether a finding is that the machine had no CPU to give: before the lab began, or because its
    /// hypervisor gave it none.
    pub fn is_of_the_machine(&self, lab: &Lab, found: &Found) -> bool {
        let is_fact = match found.cause.as_str() {
            "cpu-starvation" => self.busy_percent >= BUSY_PERCENT,
            "cpu-steal" => self.stolen_percent >= STOLEN_PERCENT,
            _ => false,
        };
        is_fact && (lab.sort != Sort::Cause || !lab.causes.contains(&found.cause.as_str()))
    }

    /// The impact of the lab's cause as found and as measured, and whether they are near: an upper bound
    /// is held to it as well.
    pub fn impact(&self, lab: &Lab) -> Option<Impact> {
        let measured = self.measured?;
        let found = self.counted(lab).find(|it| lab.causes.contains(&it.cause.as_str()))?;
        let near = (found.impact - measured).abs() <= NEAR;
        Some(Impact { found: found.impact, at_most: found.impact_at_most, measured, near })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAB: Lab = Lab::cause("some", &["hung-io"], |_| Ok(()));

    fn outcome(findings: &[(&str, &str, &str)]) -> Outcome {
        let found = |(cause, severity, device): &(&str, &str, &str)| Found {
            cause: (*cause).to_owned(),
            severity: (*severity).to_owned(),
            subject: Subject { device: Some((*device).to_owned()), ..Subject::default() },
            ..Found::default()
        };
        Outcome {
            devices: vec!["loop0".to_owned()],
            findings: findings.iter().map(found).collect(),
            ..Outcome::default()
        }
    }

    #[test]
    fn only_findings_about_the_lab_count() {
        let right = outcome(&[
            ("provider-cap", "critical", "vda"),
            ("serial-reads", "info", "loop0"),
            ("hung-io", "warning", "loop0"),
        ]);
        assert_eq!(right.mark(&LAB), Mark::Right);
        assert_eq!(outcome(&[("hung-io", "warning", "vda")]).mark(&LAB), Mark::Missed);
        assert_eq!(outcome(&[("hung-io", "info", "loop0")]).mark(&LAB), Mark::Missed);
        let found = outcome(&[("swap-io", "warning", "loop0"), ("hung-io", "warning", "loop0")]);
        assert_eq!(found.mark(&LAB), Mark::Found);
    }

    #[test]
    fn one_of_several_causes_is_enough_where_the_lab_says_so() {
        let lab = Lab::any("some", &["slow-sync", "flush-cost"], |_| Ok(()));
        let first = outcome(&[("flush-cost", "critical", "loop0")]);
        assert_eq!(first.mark(&lab), Mark::Right);
        assert_eq!(first.mark(&Lab { any: false, ..lab }), Mark::Missed);
        let second =
            outcome(&[("swap-io", "warning", "loop0"), ("flush-cost", "critical", "loop0")]);
        assert_eq!(second.mark(&lab), Mark::Found);
        assert_eq!(outcome(&[]).mark(&lab), Mark::Missed);
    }

    #[test]
    fn a_machine_without_a_free_cpu_is_no_false_finding() {
        let control = Lab::control("calm", |_| Ok(()));
        let mut outcome = outcome(&[("cpu-starvation", "warning", "loop0")]);
        assert_eq!(outcome.mark(&control), Mark::False);
        outcome.busy_percent = 50.0;
        assert_eq!(outcome.mark(&control), Mark::Right);
        outcome.findings[0].cause = "cpu-steal".to_owned();
        assert_eq!(outcome.mark(&control), Mark::False, "nobody saw that");
        outcome.stolen_percent = 12.0;
        assert_eq!(outcome.mark(&control), Mark::Right);
    }
}
