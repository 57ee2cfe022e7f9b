//! The order of findings: each explains time, and time is explained once.
//!
//! The first finding is the one whose programs lose most; then the one that explains most of what
//! is left, and so on. A finding is a symptom of another one that acts earlier (see
//! [`super::place`]) and claims at least half of its time, if that one's mechanism was seen; a
//! cause that is only likely stands above it and leaves it visible. Findings that claim different
//! time never hide each other, whatever they are called.
//!
//! Of two findings of one severity, one whose programs may only be idle comes last.
//!
//! A bottleneck claims no mechanism: any likely cause of half of its time replaces it, and says
//! whose waits they are. What no cause claims remains, as the bottleneck.
//!
//! What does not belong here: what a finding claims (see [`super::claims`]).

use super::claims::Claims;
use super::facts::thresholds::MOST;
use super::finding::{Confidence, Finding, FindingLayer, Severity};

/// The weight of a bottleneck's time: a cause that is likely and explains as much comes before it.
/// Chosen.
const UNEXPLAINED: f64 = 0.7;

/// The least share of the time of a bottleneck, or of a device or limit that is used up, that a
/// likely cause must claim to stand above it. Chosen: who acts on it first gets a third of the time
/// back.
const THIRD: f64 = 1.0 / 3.0;
/// The weight of a time that is only an upper bound. Chosen: it decides between findings that are
/// nearly alike.
const UPPER_BOUND: f64 = 0.9;

/// Returns the causes, and the bottlenecks that none of them explains, in the order in which to act
/// on them, without symptoms of others.
pub(super) fn rank(causes: Vec<Finding>, bottlenecks: Vec<Finding>) -> Vec<Finding> {
    let mut causes = without_symptoms(causes);
    let mut left = Vec::new();
    for bottleneck in in_order(bottlenecks) {
        match first_that_covers(&causes, &bottleneck) {
            Some(place) => causes[place].explain(&bottleneck),
            None => left.push(bottleneck),
        }
    }
    causes.extend(left);
    in_order(causes)
}

/// Returns the findings that no other one explains; those name what they explain.
fn without_symptoms(findings: Vec<Finding>) -> Vec<Finding> {
    let hides = |place: usize| {
        let symptom = &findings[place];
        let certain = |cause: &Finding| cause.unlost == Confidence::Certain;
        (0..findings.len()).find(|at| certain(&findings[*at]) && explains(&findings[*at], symptom))
    };
    let hidden_by: Vec<Option<usize>> = (0..findings.len()).map(hides).collect();
    let mut kept = findings.clone();
    for (place, symptom) in findings.iter().enumerate() {
        // The symptom of a symptom is one of its cause.
        let mut cause = hidden_by[place];
        while let Some(next) = cause.and_then(|at| hidden_by[at]) {
            cause = Some(next);
        }
        if let Some(cause) = cause {
            kept[cause].symptoms.push(symptom.cause);
        }
    }
    let places = hidden_by.into_iter();
    kept.into_iter().zip(places).filter(|(_, by)| by.is_none()).map(|pair| pair.0).collect()
}

/// Whether a cause acts earlier than another finding, matters as much, and claims at least half of
/// its time.
fn explains(cause: &Finding, other: &Finding) -> bool {
    let matters = cause.severity > Severity::Info || other.severity == Severity::Info;
    cause.place < other.place && matters && claimed_share(cause, other) >= MOST
}

/// Returns the share of a finding's time that a cause claims, too.
fn claimed_share(cause: &Finding, finding: &Finding) -> f64 {
    let (shared_ns, all_ns) = finding.claims.shared_with(&cause.caused);
    if all_ns == 0 { 0.0 } else { shared_ns as f64 / all_ns as f64 }
}

/// Returns the cause that claims most of a bottleneck's time, if that is half of it.
fn first_that_covers(causes: &[Finding], bottleneck: &Finding) -> Option<usize> {
    let covers = |cause: &Finding| {
        let matters = cause.severity > Severity::Info || bottleneck.severity == Severity::Info;
        let share = claimed_share(cause, bottleneck);
        (matters && cause.unlost >= Confidence::Likely && share >= MOST).then_some(share)
    };
    let found = causes.iter().enumerate().filter_map(|(at, cause)| Some((at, covers(cause)?)));
    let earlier = |at: usize| std::cmp::Reverse((causes[at].place, at));
    found
        .max_by(|a, b| a.1.total_cmp(&b.1).then(earlier(a.0).cmp(&earlier(b.0))))
        .map(|found| found.0)
}

/// Returns the findings in the order of the time that they explain and those before them do not.
fn in_order(mut findings: Vec<Finding>) -> Vec<Finding> {
    let mut order: Vec<Finding> = Vec::with_capacity(findings.len());
    let mut explained = Claims::default();
    while !findings.is_empty() {
        // What storage does to one program comes before what the CPUs do to another.
        let key = |finding: &Finding| {
            let is_of_storage = !finding.claims.are_of_cpu();
            let is_seen = !finding.is_doubtful;
            (finding.severity, is_first(finding), finding.is_of_stall, is_of_storage, is_seen)
        };
        let best = (0..findings.len()).max_by(|a, b| {
            let (a, b) = (&findings[*a], &findings[*b]);
            let weights = weight(a, &explained).total_cmp(&weight(b, &explained));
            key(a).cmp(&key(b)).then(weights).then_with(|| b.cause.cmp(a.cause))
        });
        let best = cause_of(&findings, best.unwrap_or(0));
        let finding = findings.swap_remove(best);
        explained = explained.and(&finding.claims);
        order.push(finding);
    }
    order
}

/// Whether it is a bottleneck that is more useful than minor causes: nothing is worth a warning.
fn is_first(finding: &Finding) -> bool {
    finding.severity == Severity::Info && finding.layer == FindingLayer::Bottleneck
}

/// Returns the likely cause of a finding that stands above it, or of that one; itself if there is
/// none.
fn cause_of(findings: &[Finding], place: usize) -> usize {
    let mut place = place;
    for _ in 0..findings.len() {
        let finding = &findings[place];
        let above = (0..findings.len()).find(|at| stands_above(&findings[*at], finding));
        match above {
            Some(above) => place = above,
            None => break,
        }
    }
    place
}

/// Whether a likely cause stands above a finding of which it explains much.
fn stands_above(cause: &Finding, finding: &Finding) -> bool {
    let is_worth = cause.unlost >= Confidence::Likely && cause.severity > Severity::Info;
    let least = match finding.layer {
        FindingLayer::Cause if !finding.place.is_capacity() => MOST,
        _ => THIRD,
    };
    let is_earlier = cause.place < finding.place
        || cause.layer == FindingLayer::Cause && finding.layer == FindingLayer::Bottleneck;
    // Of a mechanism that was seen to cost more, it explains a part.
    let is_less = finding.layer == FindingLayer::Cause
        && cause.severity < finding.severity
        && cause.unlost < finding.unlost;
    is_worth && is_earlier && !is_less && claimed_share(cause, finding) >= least
}

/// Returns the time that a finding explains and `explained` does not, by how sure it is.
fn weight(finding: &Finding, explained: &Claims) -> f64 {
    let trust: f64 = match finding.confidence {
        Confidence::Certain => 1.0,
        Confidence::Likely => 0.8,
        Confidence::Possible => 0.5,
    };
    // That somebody waits is certain, and why is not said.
    let most = if finding.layer == FindingLayer::Bottleneck { UNEXPLAINED } else { 1.0 };
    let trust = trust.min(most);
    // The most that can be gained counts a little less than what was seen to be lost.
    let bound = if finding.impact_at_most { UPPER_BOUND } else { 1.0 };
    let left = finding.claims.clone().without(explained);
    left.weight_ns() as f64 * trust * bound
}
