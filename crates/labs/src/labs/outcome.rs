//! iowhy's findings for one run of a lab, and how well they match.

use super::expected::Expected;
use super::{Lab, Sort};
use serde::{Deserialize, Serialize};

/// Per cent of the time before a lab during which other tasks waited for a CPU. From this share on,
/// a finding that threads wait for a CPU is true and not a false one. Chosen: an idle machine is
/// far below.
const BUSY_PERCENT: f64 = 10.0;
/// Per cent of the CPU time that the hypervisor withheld during the watch. From this share on, a
/// finding of steal is true and not a false one: providers call it a reason to act.
const STOLEN_PERCENT: f64 = 5.0;
/// The largest distance of a finding's impact from the lab's measurement.
const NEAR: f64 = 0.20;

/// iowhy's findings in a run of a lab.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LabOutcome {
    /// The lab.
    pub lab: String,
    /// The random seed.
    pub seed: u64,
    /// Findings in their rank order.
    pub findings: Vec<FoundCause>,
    /// The expectations that were stated before it ran, in addition to the cause.
    pub expected: Expected,
    /// The reason why it could not run, if it was skipped.
    pub skipped: Option<String>,
    /// The failure, if there was one.
    pub broken: Option<String>,
    /// The lab's devices.
    pub devices: Vec<String>,
    /// The lab's processes.
    pub pids: Vec<u32>,
    /// Per cent of the time before it began during which other tasks waited for a CPU.
    pub busy_percent: f64,
    /// Per cent of the CPU time that the hypervisor withheld during the watch, from `/proc/stat`.
    pub stolen_percent: f64,
    /// Total duration, seconds.
    pub took_s: f64,
    /// The figures that iostat showed, and whether they match the symptom of the lab's document.
    pub symptom: Option<(String, bool)>,
    /// The cause's share of the time by the lab's own measurement.
    pub measured: Option<f64>,
    /// The reason why that could not be measured, if the lab measures it.
    pub not_measured: Option<String>,
}

/// The impact of a lab's cause.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Impact {
    /// The impact as found.
    pub found: f64,
    /// Whether iowhy reports it as an upper bound.
    pub at_most: bool,
    /// The impact as measured by the lab.
    pub measured: f64,
    /// Whether the two are close.
    pub near: bool,
}

/// One finding.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct FoundCause {
    /// The cause's id.
    pub cause: String,
    /// Whether it is a cause or a bottleneck.
    pub layer: String,
    /// info, warning or critical.
    pub severity: String,
    /// certain, likely or possible.
    pub confidence: String,
    /// The share of the time, 0 to 1.
    pub impact: f64,
    /// Whether that is an upper bound.
    pub impact_at_most: bool,
    /// The sentence.
    pub sentence: String,
    /// The threads that wait because of it, and where, if that is known.
    pub waits: Option<String>,
    /// The fix.
    pub fix: String,
    /// Causes that are its symptoms.
    pub symptoms: Vec<String>,
    /// Its subject.
    pub subject: FoundSubject,
}

/// The subject of a finding.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct FoundSubject {
    /// The device.
    pub device: Option<String>,
    /// The process.
    pub process: Option<String>,
    /// The process id.
    pub pid: Option<u32>,
    /// The file, or the common part of several file names.
    pub file: Option<String>,
}

/// The match of the findings with a lab.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mark {
    /// Every cause, the first one ranked first; for near misses and controls, nothing that must not
    /// be found.
    Right,
    /// Every cause, but another one is ranked first, or the first one's subject or fix differs from
    /// what was stated.
    Found,
    /// A cause was not found, or not above "info".
    Missed,
    /// A cause that is not present was found above "info".
    False,
    /// The lab did not produce the symptom of its document, or failed.
    Broken,
    /// The lab cannot run here.
    Skipped,
}

impl LabOutcome {
    /// Returns how well the findings match the lab.
    pub fn mark(&self, lab: &Lab) -> Mark {
        if self.skipped.is_some() {
            return Mark::Skipped;
        }
        if self.broken.is_some() || self.symptom.as_ref().is_some_and(|(_, shown)| !shown) {
            return Mark::Broken;
        }
        let named: Vec<&str> = self.counted(lab).map(|finding| finding.cause.as_str()).collect();
        match lab.sort {
            Sort::Control if named.is_empty() => Mark::Right,
            Sort::Control => Mark::False,
            Sort::NearMiss if named.iter().any(|cause| lab.causes.contains(cause)) => Mark::False,
            Sort::NearMiss => Mark::Right,
            Sort::Cause if !Self::names_enough(lab, &named) => Mark::Missed,
            Sort::Cause if named.first().is_none_or(|cause| !lab.causes.contains(cause)) => {
                Mark::Found
            }
            Sort::Cause if self.differs(lab).is_empty() => Mark::Right,
            Sort::Cause => Mark::Found,
        }
    }

    /// Returns whether every cause of the lab was found, or one of them if that is enough.
    fn names_enough(lab: &Lab, named: &[&str]) -> bool {
        let mut causes = lab.causes.iter();
        match lab.any {
            true => causes.any(|cause| named.contains(cause)),
            false => causes.all(|cause| named.contains(cause)),
        }
    }

    /// Returns the differences of the first finding from the expectations.
    pub fn differs(&self, lab: &Lab) -> Vec<String> {
        let first = self.counted(lab).next();
        first.map(|found| self.expected.missing_in(found)).unwrap_or_default()
    }

    /// The findings that count: above "info", about this lab, and not about the machine's own lack
    /// of CPU.
    pub fn counted<'a>(&'a self, lab: &'a Lab) -> impl Iterator<Item = &'a FoundCause> {
        self.findings.iter().filter(|finding| {
            finding.severity != "info"
                && !self.is_elsewhere(finding)
                && !self.is_of_the_machine(lab, finding)
        })
    }

    /// Whether a finding is about a device or process outside the lab: others use the machine, too.
    pub fn is_elsewhere(&self, found: &FoundCause) -> bool {
        match (&found.subject.device, found.subject.pid) {
            // A guest runs only its lab.
            _ if self.devices.is_empty() => false,
            (Some(device), _) => !self.devices.contains(device),
            (None, Some(pid)) => !self.pids.is_empty() && !self.pids.contains(&pid),
            (None, None) => false,
        }
    }

    /// Whether a finding is that the machine itself lacked CPU: before the lab began, or because of
    /// its hypervisor.
    pub fn is_of_the_machine(&self, lab: &Lab, found: &FoundCause) -> bool {
        let is_fact = match found.cause.as_str() {
            "cpu-starvation" => self.busy_percent >= BUSY_PERCENT,
            "cpu-steal" => self.stolen_percent >= STOLEN_PERCENT,
            _ => false,
        };
        is_fact && (lab.sort != Sort::Cause || !lab.causes.contains(&found.cause.as_str()))
    }

    /// The impact of the lab's cause as found and as measured, and whether they are close: an upper
    /// bound has to be close as well.
    pub fn impact(&self, lab: &Lab) -> Option<Impact> {
        let measured = self.measured?;
        let found =
            self.counted(lab).find(|finding| lab.causes.contains(&finding.cause.as_str()))?;
        let near = (found.impact - measured).abs() <= NEAR;
        Some(Impact { found: found.impact, at_most: found.impact_at_most, measured, near })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAB: Lab = Lab::cause("some", &["hung-io"], |_| Ok(()));

    fn outcome(findings: &[(&str, &str, &str)]) -> LabOutcome {
        let found = |(cause, severity, device): &(&str, &str, &str)| FoundCause {
            cause: (*cause).to_owned(),
            severity: (*severity).to_owned(),
            subject: FoundSubject { device: Some((*device).to_owned()), ..FoundSubject::default() },
            ..FoundCause::default()
        };
        LabOutcome {
            devices: vec!["loop0".to_owned()],
            findings: findings.iter().map(found).collect(),
            ..LabOutcome::default()
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
        assert_eq!(outcome.mark(&control), Mark::False, "no steal was measured");
        outcome.stolen_percent = 12.0;
        assert_eq!(outcome.mark(&control), Mark::Right);
    }
}
