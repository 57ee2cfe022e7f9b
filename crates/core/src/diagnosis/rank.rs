//! Which finding comes first, and which is only another's symptom.

use super::finding::{Confidence, Finding, Severity, Subject};
#[cfg(test)]
use super::rule::Rule;
use super::rules;
use std::cmp::Ordering;

/// What a cause must explain at least of what its symptom does, where it is less severe. Chosen.
const HALF: f64 = 0.5;

/// The findings in the order in which to act on them, without those that are symptoms of others.
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
    kept
}

/// What explains a symptom, and what explains that: else the symptom of a symptom would be nobody's.
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
    let key = |it: &Finding| (it.severity, weight(it));
    let (a_key, b_key) = (key(a), key(b));
    b_key.0.cmp(&a_key.0).then(b_key.1.total_cmp(&a_key.1)).then(a.cause.cmp(b.cause))
}

/// Impact, less where it is less sure.
fn weight(finding: &Finding) -> f64 {
    let trust = match finding.confidence {
        Confidence::Certain => 1.0,
        Confidence::Likely => 0.8,
        Confidence::Possible => 0.5,
    };
    finding.impact * trust
}

/// Whether `symptom` is what `cause` looks like: known to be so, of about the same weight, on the same
/// device, and of the same file where it is one file's.
fn explains(cause: &Finding, symptom: &Finding) -> bool {
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

/// What else shows when a cause is there.
#[cfg(test)]
fn symptoms_of(rule: &Rule) -> impl Iterator<Item = &'static str> {
    rule.symptoms.iter().chain(rule.symptoms_of_file).copied()
}

/// Every cause that is another's symptom.
#[cfg(test)]
pub(super) fn known() -> impl Iterator<Item = &'static str> {
    rules::ALL.iter().flat_map(symptoms_of)
}

/// Causes that are symptoms of their own symptoms, which would make both vanish.
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
