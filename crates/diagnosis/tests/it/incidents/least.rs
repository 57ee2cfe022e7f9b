//! The part of a capture that each cause needs, at both sides: the incidents as captures, with one
//! request less than a cause needs, and with as many; and the table in `docs/sources.md`.

use super::all;
use iowhy_analysis::script::ScriptSummary;
use iowhy_analysis::summary::Summary;
use iowhy_diagnosis::{Diagnosis, LeastData, Rule, diagnose};
use iowhy_model::Environment;
use std::collections::{BTreeMap, BTreeSet};

/// An incident as if blktrace had recorded it.
fn captured(summary: Summary) -> Summary {
    let environment = Environment { source: "blktrace".to_owned(), ..summary.environment };
    Summary { environment, ..summary }
}

fn has(diagnosis: &Diagnosis, cause: &str) -> bool {
    diagnosis
        .findings
        .iter()
        .any(|finding| finding.cause == cause || finding.symptoms.contains(&cause))
}

/// Returns the reason why a cause is not judged.
fn reason<'a>(diagnosis: &'a Diagnosis, cause: &str) -> &'a str {
    diagnosis
        .not_judged
        .iter()
        .find(|missing| missing.cause == cause)
        .map_or("", |missing| &missing.reason)
}

#[test]
fn a_request_or_a_moment_too_few_is_silent_and_enough_is_found() {
    let mut seen = BTreeSet::new();
    for incident in all() {
        let mut summary = captured((incident.script)().summary());
        let (requests, duration_ns) = (summary.watch.requests, summary.watch.duration_ns);
        let found = diagnose(&summary);
        for rule in iowhy_diagnosis::rules::ALL.iter().filter(|rule| has(&found, rule.cause)) {
            let LeastData { requests: least, time_ns } = rule.least;
            let name = format!("{}: {}", incident.name, rule.cause);
            assert!(requests == 0 || requests >= least && duration_ns >= time_ns, "{name}");
            if requests == 0 {
                continue;
            }
            summary.watch.requests = least;
            let enough = diagnose(&summary);
            assert!(has(&enough, rule.cause), "{name}: {:?}", reason(&enough, rule.cause));
            if rule.least == LeastData::EVENT {
                summary.watch.requests = requests;
                continue;
            }
            summary.watch.requests = least - 1;
            let few = diagnose(&summary);
            assert!(!has(&few, rule.cause), "{name}");
            assert!(reason(&few, rule.cause).contains("are too few"), "{name}");
            summary.watch.requests = requests;
            summary.watch.duration_ns = time_ns - 1;
            let short = diagnose(&summary);
            assert!(!has(&short, rule.cause), "{name}");
            assert!(reason(&short, rule.cause).contains("is too short"), "{name}");
            summary.watch.duration_ns = time_ns;
            assert!(!reason(&diagnose(&summary), rule.cause).contains("too short"), "{name}");
            summary.watch.duration_ns = duration_ns;
            seen.insert(rule.cause);
        }
    }
    assert!(seen.len() > 20, "{seen:?}");
}

fn table() -> String {
    let mut by_need: BTreeMap<LeastData, Vec<&str>> = BTreeMap::new();
    let bottleneck = iowhy_diagnosis::rule_of("device-saturated");
    for rule in iowhy_diagnosis::rules::ALL.iter().chain(bottleneck) {
        let Rule { cause, least, .. } = rule;
        by_need.entry(*least).or_default().push(cause);
    }
    let mut text = "| requests | time | causes |\n|---|---|---|\n".to_owned();
    let time = |ns: u64| match ns {
        0 => "any".to_owned(),
        ns if ns < 1_000_000_000 => format!("{} ms", ns / 1_000_000),
        ns => format!("{} s", ns / 1_000_000_000),
    };
    for (least, causes) in by_need {
        let causes = causes.iter().map(|cause| format!("`{cause}`")).collect::<Vec<_>>().join(", ");
        text += &format!("| {} | {} | {causes} |\n", least.requests, time(least.time_ns));
    }
    text
}

#[test]
fn the_table_of_least_data_is_current() {
    crate::table_is_current("sources.md", "least", &table());
}
