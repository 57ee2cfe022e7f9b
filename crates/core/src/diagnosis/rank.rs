//! Which finding comes first, and which is only another's symptom.

use super::finding::{Confidence, Finding, Severity};
use std::cmp::Ordering;

/// Causes and what else shows when they are there: where both are found on the same device, the second
/// is the first one's symptom.
const SYMPTOMS: &[(&str, &[&str])] = &[
    (
        "hung-io",
        &["device-slow-tail", "lock-behind-io", "journal-commit", "inode-lock", "noisy-neighbour"],
    ),
    (
        "cgroup-throttle",
        &[
            "lock-behind-io",
            "journal-commit",
            "serial-reads",
            "inode-lock",
            "provider-cap",
            "fsync-heavy",
            "bulk-scan",
            "device-slow-tail",
            "noisy-neighbour",
            "burst-credits",
            "readahead-waste",
        ],
    ),
    ("iocost-throttle", &["serial-reads", "journal-commit", "fsync-heavy"]),
    ("wbt-throttle", &["writeback-burst", "tag-starvation", "noisy-neighbour"]),
    ("writeback-burst", &["noisy-neighbour"]),
    ("journal-commit", &["noisy-neighbour"]),
    (
        "lock-behind-io",
        &["fsync-heavy", "journal-commit", "serial-reads", "flush-cost", "dirty-throttle"],
    ),
    ("burst-credits", &["provider-cap", "noisy-neighbour", "serial-reads", "device-slow-tail"]),
    ("provider-cap", &["serial-reads", "device-slow-tail", "tag-starvation", "journal-commit"]),
    ("noisy-neighbour", &["serial-reads", "device-slow-tail"]),
    (
        "readahead-waste",
        &[
            "page-cache-thrash",
            "serial-reads",
            "provider-cap",
            "bulk-scan",
            "cpu-starvation",
            "noisy-neighbour",
        ],
    ),
    ("page-cache-thrash", &["serial-reads", "noisy-neighbour"]),
    ("swap-io", &["major-faults", "serial-reads", "page-cache-thrash", "readahead-waste"]),
    (
        "metadata-scan",
        &["serial-reads", "atime-updates", "provider-cap", "device-slow-tail", "noisy-neighbour"],
    ),
    (
        "temp-file-churn",
        &[
            "journal-commit",
            "journal-full",
            "writeback-burst",
            "fsync-heavy",
            "log-flood",
            "small-writes",
            "provider-cap",
            "dirty-throttle",
            "noisy-neighbour",
        ],
    ),
    (
        "log-flood",
        &["fsync-heavy", "journal-commit", "small-writes", "flush-cost", "noisy-neighbour"],
    ),
    (
        "sync-storm",
        &["journal-commit", "fsync-heavy", "writeback-burst", "flush-cost", "noisy-neighbour"],
    ),
    ("flush-cost", &["fsync-heavy", "journal-commit", "device-slow-tail", "serial-reads"]),
    ("fsync-heavy", &["journal-commit", "small-writes", "serial-reads"]),
    ("journal-full", &["journal-commit"]),
    ("discard-storm", &["device-slow-tail", "journal-commit", "noisy-neighbour", "inode-lock"]),
    ("misaligned-rmw", &["small-writes", "serial-reads"]),
    ("split-requests", &["small-writes", "serial-reads"]),
    ("raid-resync", &["noisy-neighbour", "bulk-scan", "device-slow-tail"]),
    ("scheduler-overhead", &["tag-starvation", "serial-reads"]),
    ("bulk-scan", &["page-cache-thrash", "provider-cap", "noisy-neighbour", "device-slow-tail"]),
    (
        "direct-buffered-mix",
        &["inode-lock", "journal-commit", "writeback-burst", "noisy-neighbour"],
    ),
    ("fragmentation", &["serial-reads", "split-requests", "provider-cap", "device-slow-tail"]),
    ("multipath-failover", &["dm-layer", "device-slow-tail", "hung-io"]),
    ("io-uring-punt", &["inode-lock", "noisy-neighbour"]),
    ("dm-layer", &["serial-reads", "device-slow-tail"]),
    ("major-faults", &["readahead-waste", "page-cache-thrash", "serial-reads", "provider-cap"]),
];

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
/// device.
fn explains(cause: &Finding, symptom: &Finding) -> bool {
    let known = SYMPTOMS
        .iter()
        .any(|(name, symptoms)| *name == cause.cause && symptoms.contains(&symptom.cause));
    let same = match (&cause.subject.device, &symptom.subject.device) {
        (Some(a), Some(b)) => a == b,
        _ => true,
    };
    let weighs = cause.severity >= symptom.severity
        || (cause.severity > Severity::Info
            && (cause.impact >= HALF * symptom.impact || cause.impact_of != symptom.impact_of));
    known && same && weighs
}

/// Every cause that the table names.
#[cfg(test)]
pub(super) fn known() -> impl Iterator<Item = &'static str> {
    SYMPTOMS
        .iter()
        .flat_map(|(cause, symptoms)| [*cause].into_iter().chain(symptoms.iter().copied()))
}

/// Causes that are symptoms of their own symptoms, which would make both vanish.
#[cfg(test)]
pub(super) fn cycles() -> Vec<&'static str> {
    let symptoms = |cause: &str| {
        let row = SYMPTOMS.iter().find(|(name, _)| *name == cause);
        row.map_or(&[][..], |(_, symptoms)| *symptoms)
    };
    let mut found = Vec::new();
    for (cause, _) in SYMPTOMS {
        let mut reached: Vec<&str> = symptoms(cause).to_vec();
        let mut at = 0;
        while let Some(next) = reached.get(at).copied() {
            for symptom in symptoms(next) {
                if !reached.contains(symptom) {
                    reached.push(symptom);
                }
            }
            at += 1;
        }
        if reached.contains(cause) {
            found.push(*cause);
        }
    }
    found
}
