//! Ranks findings, removes symptoms of others, and assigns bottlenecks to the causes that explain
//! them.
//!
//! Only a certain cause hides what it explains; a likely one ranks above it and leaves it visible.
//! A bottleneck claims no mechanism: any likely cause of the same waits replaces it, and reports
//! whose waits they are.

use super::finding::{Confidence, Finding, FindingLayer, Severity};
#[cfg(test)]
use super::rule::Rule;
use super::rules;
use super::subject::Subject;
use std::cmp::Ordering;

/// The least ratio of a cause's impact to its symptom's, if it is less severe. Chosen.
const HALF: f64 = 0.5;
/// What an impact counts that is only an upper bound. Chosen: it decides between findings that are
/// nearly alike.
const UPPER_BOUND: f64 = 0.9;
/// What a likely cause must explain at least of a bottleneck's time to stand above it. Chosen: who
/// acts on it first gets a third of the time back.
const THIRD: f64 = 1.0 / 3.0;

/// Returns the findings in the order in which to act on them, without symptoms of others.
pub(super) fn rank(mut findings: Vec<Finding>) -> Vec<Finding> {
    findings.sort_by(order);
    let mut kept: Vec<Finding> = Vec::new();
    let mut symptoms: Vec<Finding> = Vec::new();
    for finding in findings.iter() {
        match findings.iter().find(|cause| explains(cause, finding)) {
            None => kept.push(finding.clone()),
            Some(_) => symptoms.push(finding.clone()),
        }
    }
    for symptom in &symptoms {
        let causes = behind(symptom, &findings);
        for cause in kept.iter_mut().filter(|cause| causes.contains(&cause.cause)) {
            cause.symptoms.push(symptom.cause);
        }
    }
    causes_first(kept)
}

/// Returns the findings, each below its likely causes, and those below theirs.
fn causes_first(findings: Vec<Finding>) -> Vec<Finding> {
    let mut order: Vec<usize> = Vec::with_capacity(findings.len());
    for at in 0..findings.len() {
        put_after_causes(&findings, at, &mut vec![false; findings.len()], &mut order);
    }
    order.into_iter().map(|at| findings[at].clone()).collect()
}

/// Adds a finding to the order after its causes; `begun` marks those still being added.
fn put_after_causes(findings: &[Finding], at: usize, begun: &mut [bool], order: &mut Vec<usize>) {
    if begun[at] || order.contains(&at) {
        return;
    }
    begun[at] = true;
    let finding = &findings[at];
    let is_cause = |it: &Finding| {
        it.unlost >= Confidence::Likely && it.cause != finding.cause && fits(it, finding)
    };
    for cause in (0..findings.len()).filter(|cause| is_cause(&findings[*cause])) {
        put_after_causes(findings, cause, begun, order);
    }
    order.push(at);
}

/// Returns the causes and the bottlenecks that none of them explains, in the order in which to act
/// on them. A cause takes over the waits of the first bottleneck that it explains.
///
/// A finding on a disk explains waits for its upper devices; `is_below` returns whether the first
/// device is a disk of the second.
pub(super) fn place(
    mut causes: Vec<Finding>,
    mut bottlenecks: Vec<Finding>,
    is_below: &dyn Fn(&str, &str) -> bool,
) -> Vec<Finding> {
    bottlenecks.sort_by(order);
    let mut left: Vec<Finding> = Vec::new();
    for bottleneck in bottlenecks {
        let same = |it: &Finding| it.subject.device == bottleneck.subject.device;
        let is_said = bottleneck.cause == SATURATED && left.iter().any(same);
        match causes.iter_mut().find(|cause| covers(cause, &bottleneck, is_below)) {
            Some(cause) => cause.explain(&bottleneck),
            None if !is_said => left.push(bottleneck),
            None => {}
        }
    }
    let mut at = 0;
    for bottleneck in left {
        let below = causes.iter().rposition(|it| stands_above(it, &bottleneck));
        at = below.map_or(at, |below| at.max(below + 1));
        causes.insert(at, bottleneck);
    }
    causes
}

/// Whether a finding ranks above a bottleneck that it does not cover: it weighs more, or it is a
/// likely cause on the same device that explains a third of the waits, or whose share of the
/// device's time is not comparable.
fn stands_above(finding: &Finding, bottleneck: &Finding) -> bool {
    let same = finding.subject.device.is_some()
        && (bottleneck.subject.device.is_none()
            || finding.subject.device == bottleneck.subject.device);
    let is_worth = finding.severity > Severity::Info && finding.unlost >= Confidence::Likely;
    let is_part = finding.impact_of == bottleneck.impact_of;
    let is_enough = !is_part || finding.impact >= THIRD * bottleneck.impact;
    let is_cause = finding.layer == FindingLayer::Cause && is_enough;
    order(finding, bottleneck) != Ordering::Greater || same && is_worth && is_cause
}

/// The bottleneck that reports for a device what others report for its waits.
const SATURATED: &str = "device-saturated";

/// Whether a cause explains most of the time of a bottleneck, on the same device or a disk of it;
/// where the bottleneck's device is not known, of the same process.
fn covers(cause: &Finding, bottleneck: &Finding, is_below: &dyn Fn(&str, &str) -> bool) -> bool {
    let same = match (&cause.subject.device, &bottleneck.subject.device) {
        (Some(a), Some(b)) => a == b || is_below(a, b),
        (Some(_), None) => match (&cause.subject.process, &bottleneck.subject.process) {
            (Some(a), Some(b)) => a == b,
            _ => true,
        },
        _ => true,
    };
    let time = match cause.impact_of == bottleneck.impact_of {
        true => HALF * bottleneck.impact,
        false => HALF,
    };
    let is_worth = cause.severity > Severity::Info || bottleneck.severity == Severity::Info;
    same && is_worth && cause.unlost >= Confidence::Likely && cause.impact >= time
}

/// Returns what explains a symptom, transitively: otherwise the symptom of a symptom would have no
/// cause.
fn behind(symptom: &Finding, findings: &[Finding]) -> Vec<&'static str> {
    let mut reached: Vec<&Finding> = vec![symptom];
    let mut at = 0;
    while let Some(next) = reached.get(at).copied() {
        let known: Vec<&str> = reached.iter().map(|it| it.cause).collect();
        let further = findings.iter().filter(|it| explains(it, next) && !known.contains(&it.cause));
        reached.extend(further);
        at += 1;
    }
    reached.iter().map(|it| it.cause).collect()
}

fn order(a: &Finding, b: &Finding) -> Ordering {
    // If nothing is worth a warning, bottlenecks are more useful than minor causes.
    let is_first =
        |it: &Finding| it.severity == Severity::Info && it.layer == FindingLayer::Bottleneck;
    let key = |it: &Finding| (it.severity, is_first(it), it.is_of_stall);
    let by_weight = || weight(b).total_cmp(&weight(a));
    key(b).cmp(&key(a)).then_with(by_weight).then(a.cause.cmp(b.cause))
}

/// The impact, weighted by confidence.
fn weight(finding: &Finding) -> f64 {
    let trust = match finding.confidence {
        Confidence::Certain => 1.0,
        Confidence::Likely => 0.8,
        Confidence::Possible => 0.5,
    };
    // The most that can be gained counts a little less than what was seen to be lost.
    let bound = if finding.impact_at_most { UPPER_BOUND } else { 1.0 };
    finding.impact * trust * bound
}

/// Whether `cause` explains `symptom`: its mechanism was observed, and they match.
fn explains(cause: &Finding, symptom: &Finding) -> bool {
    cause.unlost == Confidence::Certain && fits(cause, symptom)
}

/// Whether `symptom` matches `cause`: a known symptom of about the same weight, on the same device,
/// and on the same file if it is about one.
fn fits(cause: &Finding, symptom: &Finding) -> bool {
    let Some(rule) = rules::rule_of(cause.cause) else { return false };
    let same =
        |of: fn(&Subject) -> &Option<String>| match (of(&cause.subject), of(&symptom.subject)) {
            (Some(a), Some(b)) => a == b,
            _ => true,
        };
    let known = rule.symptoms.contains(&symptom.cause)
        || rule.symptoms_of_file.contains(&symptom.cause) && same(|it| &it.file);
    let weighs = cause.severity >= symptom.severity
        || (cause.severity > Severity::Info
            && (cause.impact >= HALF * symptom.impact || cause.impact_of != symptom.impact_of));
    known && same(|it| &it.device) && weighs
}

/// Returns the symptoms of a cause.
#[cfg(test)]
fn symptoms_of(rule: &Rule) -> impl Iterator<Item = &'static str> {
    rule.symptoms.iter().chain(rule.symptoms_of_file).copied()
}

/// Returns every cause that is another's symptom.
#[cfg(test)]
pub(super) fn known() -> impl Iterator<Item = &'static str> {
    rules::ALL.iter().flat_map(symptoms_of)
}

/// Returns causes that are symptoms of their own symptoms, which would remove both.
#[cfg(test)]
pub(super) fn cycles() -> Vec<&'static str> {
    let mut found = Vec::new();
    for rule in rules::ALL {
        let mut reached: Vec<&str> = symptoms_of(rule).collect();
        let mut at = 0;
        while let Some(next) = reached.get(at).copied() {
            for symptom in rules::rule_of(next).into_iter().flat_map(symptoms_of) {
                if !reached.contains(&symptom) {
                    reached.push(symptom);
                }
            }
            at += 1;
        }
        if reached.contains(&rule.cause) {
            found.push(rule.cause);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::finding::ImpactOf;
    use super::*;

    /// Returns what ranks first of a cause with that share of the blocked time and a bottleneck
    /// with 90 % of it, on devices of those names.
    fn first(share: f64, severity: Severity, devices: [&str; 2]) -> FindingLayer {
        let finding = |cause, layer, severity, impact, device: &str| {
            let subject = Subject { device: Some(device.to_owned()), ..Subject::default() };
            let it = Finding::of_share(ImpactOf::BlockedTime, impact, 1.0, String::new());
            let mut it = it.about(subject);
            (it.cause, it.layer, it.severity) = (cause, layer, severity);
            it
        };
        let cause =
            finding("kernel-housekeeping", FindingLayer::Cause, severity, share, devices[0]);
        let slow =
            finding("slow-reads", FindingLayer::Bottleneck, Severity::Critical, 0.9, devices[1]);
        place(vec![cause], vec![slow], &|_, _| false)[0].layer
    }

    #[test]
    fn the_cause_of_a_cause_stands_above_both() {
        let finding = |cause, impact: f64| {
            let mut it = Finding::of_share(ImpactOf::BlockedTime, impact, 1.0, String::new());
            (it.cause, it.severity) = (cause, Severity::Warning);
            it
        };
        let findings = vec![
            finding("device-slow-tail", 0.5),
            finding("noisy-neighbour", 0.35),
            finding("writeback-burst", 0.33),
        ];
        let order: Vec<&str> = rank(findings).iter().map(|it| it.cause).collect();
        assert_eq!(order, ["writeback-burst", "noisy-neighbour", "device-slow-tail"]);
    }

    #[test]
    fn a_cause_of_a_third_of_the_waits_stands_above_them() {
        let same = ["sda", "sda"];
        assert_eq!(first(0.31, Severity::Warning, same), FindingLayer::Cause);
        assert_eq!(first(0.29, Severity::Warning, same), FindingLayer::Bottleneck);
        assert_eq!(first(0.31, Severity::Info, same), FindingLayer::Bottleneck);
        assert_eq!(first(0.31, Severity::Warning, ["sda", "sdb"]), FindingLayer::Bottleneck);
    }
}
