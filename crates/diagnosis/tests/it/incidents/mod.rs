//! Published incidents as scripted sources: mailing lists, issue trackers and field reports whose
//! root cause is known. Each holds the published figures, and the other data that a watch of such a
//! machine would record beside them; `docs/incidents.md` has the diagnosis of each.
//!
//! A script is made from what was published, not from what a rule asks for: where a figure that a
//! source must have is not published, its comment says "chosen".
//!
//! What does not belong here: labs, which are real (crate `iowhy-labs`).

mod clouds;
mod containers;
mod databases;
mod devices;
mod documents;
mod file_systems;
mod least;
mod load;
mod memory;
mod page;
mod programs;

use iowhy_analysis::script::ScriptSummary;
use iowhy_diagnosis::finding::FindingLayer;
use iowhy_diagnosis::{Diagnosis, Finding, Severity, diagnose};
use iowhy_model::script::Script;

/// One incident.
pub struct Incident {
    /// A short name.
    pub name: &'static str,
    /// The place where it is published.
    pub source: &'static str,
    /// The root cause, in one sentence.
    pub root_cause: &'static str,
    /// The watch.
    pub script: fn() -> Script,
    /// Causes that may come first.
    pub expected: &'static [&'static str],
    /// Whether the data of the incident holds no more than the bottleneck, so that `expected` is
    /// one and the root cause is beyond it.
    pub only_bottleneck: bool,
    /// Causes that must not be worth a warning, and words that no advice may hold.
    pub must_not: &'static [&'static str],
}

/// Words that no advice may hold, whatever the incident: it risks data, or takes a path or a disk
/// away.
const HARMFUL: &[&str] = &[
    "fast_commit",
    "nobarrier",
    "barrier=0",
    "data=writeback",
    "multipathd del",
    "unsafe-no-fsync",
    "full_page_writes",
    "fsync=off",
    "fsync = off",
    "eatmydata",
];

/// Incidents that are not answered yet, with the reasons.
const UNANSWERED: &[(&str, &str)] = &[
    (
        "Scylla: an SSD that was not trimmed",
        "the drop is found, and taken for a full write cache or heat; nothing says to trim",
    ),
    (
        "002, phantom reads: two pages for each fault",
        "the pages that are read again are found; 8 KiB for a fault is below what readahead-waste \
         asks for",
    ),
    (
        "AKS: system disk of 500 IOPS",
        "provider-cap allows a limit to vary by 0.4 to 2.5 % from half second to half second; \
         published limits vary by 4 to 9 %",
    ),
    (
        "SMR: resilvering a WD Red",
        "write-cliff is found, and only possible, since a garbage-collecting SSD looks the same; \
         the journal that waits for the disk stands above it",
    ),
    (
        "MongoDB: read-ahead of 50 KiB for documents of 512 bytes",
        "nothing is read again within ten seconds: a cache that warms up looks the same, so that \
         readahead-waste is only possible",
    ),
    ("Cassandra: read-around of mapped files", "the same"),
];

/// The least number of incidents that are answered.
const ANSWERED: usize = 36;

fn all() -> impl Iterator<Item = &'static Incident> {
    let files = [
        databases::ALL,
        clouds::ALL,
        containers::ALL,
        memory::ALL,
        file_systems::ALL,
        devices::ALL,
        programs::ALL,
    ];
    files.into_iter().flatten()
}

/// The outcome of an incident.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IncidentOutcome {
    Right,
    Bottleneck,
    Missed,
}

/// The finding that comes first, of those that are worth a warning.
fn first(diagnosis: &Diagnosis) -> Option<&Finding> {
    diagnosis.findings.iter().find(|finding| finding.severity > Severity::Info)
}

fn outcome(incident: &Incident, diagnosis: &Diagnosis) -> IncidentOutcome {
    let Some(first) = first(diagnosis) else { return IncidentOutcome::Missed };
    let is_expected = incident.expected.contains(&first.cause);
    match (is_expected && !incident.only_bottleneck, first.layer) {
        (true, _) => IncidentOutcome::Right,
        (false, FindingLayer::Bottleneck) => IncidentOutcome::Bottleneck,
        (false, FindingLayer::Cause) if is_expected => IncidentOutcome::Bottleneck,
        (false, FindingLayer::Cause) => IncidentOutcome::Missed,
    }
}

fn judged() -> Vec<(&'static Incident, Diagnosis, IncidentOutcome)> {
    let judge = |incident: &'static Incident| {
        let diagnosis = diagnose(&(incident.script)().summary());
        let outcome = outcome(incident, &diagnosis);
        (incident, diagnosis, outcome)
    };
    all().map(judge).collect()
}

/// Returns the forbidden words and causes that the findings name.
fn harm(must_not: &[&'static str], diagnosis: &Diagnosis) -> Vec<String> {
    let mut found = Vec::new();
    for finding in &diagnosis.findings {
        let advice = [&finding.fix, &finding.check];
        for word in HARMFUL.iter().chain(must_not) {
            if advice.iter().any(|text| text.contains(word)) {
                found.push(format!("{}: its advice says {word:?}", finding.cause));
            }
            if finding.cause == *word && finding.severity > Severity::Info {
                found.push(format!("{word}: {}", finding.sentence));
            }
        }
    }
    found
}

fn summary_of(diagnosis: &Diagnosis) -> String {
    let line = |finding: &Finding| {
        let severity = finding.severity.word();
        format!(
            "    {severity} {} ({}): {}\n",
            finding.cause,
            finding.confidence.word(),
            finding.sentence
        )
    };
    diagnosis.findings.iter().map(line).collect()
}

#[test]
fn incidents_lead_to_their_causes() {
    let judged = judged();
    let mut wrong = Vec::new();
    for (incident, diagnosis, outcome) in &judged {
        let reason = UNANSWERED.iter().find(|(name, _)| *name == incident.name);
        let is_said =
            first(diagnosis).is_some_and(|finding| incident.expected.contains(&finding.cause));
        let problem = match (reason, outcome) {
            (Some(_), IncidentOutcome::Right) => {
                "is answered: take it off the list of those that are not"
            }
            (Some(_), _) => continue,
            (None, IncidentOutcome::Right) => continue,
            (None, _) if incident.only_bottleneck && is_said => continue,
            (None, _) => "is not answered as it should be",
        };
        wrong.push(format!(
            "{} {problem}\n    expected {:?}\n{}",
            incident.name,
            incident.expected,
            summary_of(diagnosis)
        ));
    }
    let right = judged.iter().filter(|(.., outcome)| *outcome == IncidentOutcome::Right).count();
    eprintln!("{right} of {} incidents are answered", judged.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(right >= ANSWERED, "{right} of {}", judged.len());
}

#[test]
fn no_incident_gets_harmful_advice() {
    let harms: Vec<String> = judged()
        .iter()
        .flat_map(|(incident, diagnosis, _)| {
            let found = harm(incident.must_not, diagnosis);
            found.into_iter().map(|harm| format!("{}: {harm}", incident.name)).collect::<Vec<_>>()
        })
        .collect();
    assert!(harms.is_empty(), "{}", harms.join("\n"));
}

#[test]
fn the_list_of_incidents_is_sound() {
    let names: Vec<&str> = all().map(|incident| incident.name).collect();
    let mut unique = names.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), names.len(), "a name twice");
    assert!(names.len() >= 30, "{}", names.len());
    for (name, reason) in UNANSWERED {
        let is_document = documents::ALL.iter().any(|document| document.name == *name);
        assert!((is_document || names.contains(name)) && !reason.is_empty(), "{name}");
    }
    for incident in all() {
        assert!(incident.root_cause.ends_with('.'), "{}", incident.name);
        assert!(!incident.expected.is_empty(), "{}", incident.name);
        assert!(!incident.source.contains(' '), "{}", incident.source);
    }
}
