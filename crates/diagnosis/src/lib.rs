//! Names the cause: from a [`Summary`] to findings with evidence, or to "not enough data".
//!
//! | where | what |
//! |---|---|
//! | [`facts`] | what rules query of a summary: computed once, pure |
//! | [`rule`] | what a rule is and what it returns |
//! | [`rules`] | one file for each cause, and the list of them |
//! | [`bottleneck`] | without a known cause: who waits in which call, for what, from the ledger |
//! | [`finding`] | a named cause with severity, confidence, evidence, fix and check |
//! | `around` | what a finding says of its program besides: what it does, who waits for it |
//! | `claims` | the ledger of cells: which time a finding claims |
//! | `convoy` | threads that wait for another one |
//! | `place` | where a cause acts, which decides what it may explain |
//! | `needs` | what may be missing in the data, so that a cause cannot be ruled out |
//! | `counters` | what counters alone say, of summaries of other tools |
//! | `captures` | what differs for the data of another tool |
//! | `rank` | which finding comes first, and which is another's symptom |
//! | `herrings` | processes with much I/O that are not the cause |
//! | [`programs`] | programs that store data: their processes, files and own settings |
//! | `unusual` | settings other than the usual ones that can make a finding's waits longer |
//! | `words` | figures within sentences |
//!
//! Beside them, what needs both a summary and its findings:
//!
//! | where | what |
//! |---|---|
//! | [`moments`] | a watch second by second, with the findings of its last seconds |
//! | [`mod@diff`] | two summaries compared: environment, load, stages |
//! | [`fidelity`] | how like the original a reproduction is |
//! | [`rounds`] | two kinds of rounds compared, with confidence intervals |
//! | [`redact`] | names replaced by placeholders, so that a recording can be given to others |
//!
//! Adding a cause touches one file: its own in [`rules`].
//!
//! What does not belong here: gathering data (see [`iowhy_analysis`]), and displaying a finding.
#![forbid(unsafe_code)]

mod around;
pub mod bottleneck;
mod captures;
mod claims;
mod convoy;
mod counters;
pub mod diff;
pub mod facts;
pub mod fidelity;
pub mod finding;
mod herrings;
#[cfg(test)]
mod impacts;
mod missing;
pub mod moments;
mod needs;
mod place;
pub mod programs;
mod rank;
pub mod redact;
pub mod rounds;
pub mod rule;
pub mod rules;
mod subject;
#[cfg(test)]
mod tests;
mod unusual;
pub(crate) mod words;

use facts::{Facts, OverTime};
use iowhy_analysis::summary::Summary;
use iowhy_model::command::shell_word;
use rule::RuleVerdict;
use serde::Serialize;

pub use facts::Gain;
pub use finding::{Confidence, Evidence, Finding, FindingLayer, Severity};
pub use rule::{IncidentStart, LeastData, Picture, Rule};
pub use subject::Subject;

/// The diagnosis of a watch.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Diagnosis {
    /// Named causes, and bottlenecks that none of them explains; the one to act on first comes
    /// first.
    pub findings: Vec<Finding>,
    /// The total time that threads waited, as a sentence, if no finding is worth a warning; `None`
    /// if one is, or if waits are not in the data.
    pub quiet: Option<String>,
    /// Whether that sentence is about a program that does little else than wait: then it is the
    /// answer.
    #[serde(skip)]
    pub is_bound: bool,
    /// Whether it says why: by a cause that is no warning.
    #[serde(skip)]
    pub is_explained: bool,
    /// Suspects that are not the cause, one sentence each.
    pub red_herrings: Vec<String>,
    /// Causes that could not be judged, and why.
    pub not_judged: Vec<NotJudged>,
    /// Why causes may have been missed, in half a sentence; `None` if there is no reason.
    pub doubt: Option<String>,
    /// The number of causes that were judged and not detected.
    pub clear: usize,
    /// Why no cause can be ruled out, in one sentence; `None` if some can.
    pub unjudged: Option<String>,
    /// The filter of the judged data: empty if it was the complete watch, whatever the view shows.
    pub judged_filter: String,
    /// Changes and rhythms over time.
    pub over_time: OverTime,
}

/// A cause that could not be judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NotJudged {
    /// The cause's id.
    pub cause: &'static str,
    /// What is missing.
    pub reason: String,
}

/// Applies every rule to a complete watch, and none to a part of the devices' I/O.
///
/// # Examples
///
/// What the first finding of a recording names, and how sure it is:
///
/// ```
/// use iowhy_analysis::summarize;
/// use iowhy_diagnosis::{Confidence, diagnose};
/// use iowhy_model::recording::RecordingReader;
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../demo/recording");
///
/// let summary = summarize(&mut RecordingReader::open(path.as_ref())?)?;
/// let diagnosis = diagnose(&summary);
/// let first = &diagnosis.findings[0];
/// assert_eq!(first.confidence, Confidence::Certain);
/// assert_eq!(first.subject.process.as_deref(), Some("fio"));
/// for evidence in &first.evidence {
///     println!("{}: {} {}", evidence.what, evidence.figure, evidence.unit);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn diagnose(summary: &Summary) -> Diagnosis {
    let judged_filter = summary.environment.filter.clone();
    if summary.environment.hides_others() {
        return of_a_part(judged_filter);
    }
    if let Some(name) = strange_device(summary) {
        return of_nobody(
            format!("{name:?} is not a device name that Linux assigns"),
            judged_filter,
        );
    }
    let facts = Facts::new(summary);
    let mut diagnosis = Diagnosis {
        doubt: lost(&facts),
        unjudged: unseen(summary),
        judged_filter,
        ..Diagnosis::default()
    };
    for rule in rules::ALL {
        if let Some(reason) = captures::too_few(rule.cause, summary) {
            diagnosis.not_judged.push(NotJudged { cause: rule.cause, reason });
            continue;
        }
        match (rule.judge)(&facts) {
            RuleVerdict::Clear => match needs::missing(rule.needs, &facts) {
                None => {}
                Some(reason) => {
                    diagnosis.not_judged.push(NotJudged { cause: rule.cause, reason });
                }
            },
            RuleVerdict::Finding(finding) => diagnosis.take(vec![*finding], rule, &facts),
            RuleVerdict::Findings(findings) => diagnosis.take(findings, rule, &facts),
            RuleVerdict::NotEnough(reason) => {
                diagnosis.not_judged.push(NotJudged { cause: rule.cause, reason });
            }
        }
    }
    diagnosis.judge_apart(&facts);
    let is_said = |cause: &str| {
        diagnosis.findings.iter().any(|finding| finding.cause == cause)
            || diagnosis.not_judged.iter().any(|missing| missing.cause == cause)
    };
    diagnosis.clear = rules::ALL.iter().filter(|rule| !is_said(rule.cause)).count();
    let ranked = rank::rank(std::mem::take(&mut diagnosis.findings), bottleneck::findings(&facts));
    let ranked = counters::with_counters(ranked, &facts);
    diagnosis.findings = ranked
        .into_iter()
        .map(|finding| finding.with_unusual_settings(&facts).dated(&facts))
        .collect();
    let is_calm = diagnosis.findings.iter().all(|finding| finding.severity == Severity::Info);
    if let Some(quiet) = is_calm.then(|| bottleneck::quiet(&facts, &diagnosis.findings)).flatten() {
        (diagnosis.is_bound, diagnosis.is_explained) = (quiet.is_bound, quiet.is_explained);
        diagnosis.quiet = Some(quiet.sentence);
    }
    diagnosis.over_time = facts.over_time().clone();
    diagnosis.red_herrings = herrings::red_herrings(&facts, &diagnosis.findings);
    diagnosis
}

impl Diagnosis {
    /// Adds the findings of a rule that matter; without one its cause is not detected.
    fn take(&mut self, findings: Vec<Finding>, rule: &Rule, facts: &Facts<'_>) {
        let complete = findings
            .into_iter()
            .map(|finding| finding.of_rule(rule).complete(FindingLayer::Cause, facts));
        let complete = complete.map(|complete| captures::adapted(complete, facts.summary()));
        self.findings.extend(complete.filter(Finding::matters));
    }

    /// Judges each device that programs wait for without what happens on the others, and adds the
    /// findings that those hid.
    fn judge_apart(&mut self, facts: &Facts<'_>) {
        for name in facts.apart() {
            let summary = facts.near(name);
            let near = Facts::new(&summary);
            let of_whole = near.blocked_ns() as f64 / facts.blocked_ns().max(1) as f64;
            for rule in rules::ALL {
                let found = match (rule.judge)(&near) {
                    RuleVerdict::Finding(finding) => vec![*finding],
                    RuleVerdict::Findings(findings) => findings,
                    RuleVerdict::Clear | RuleVerdict::NotEnough(_) => continue,
                };
                let is_new = |finding: &Finding| {
                    finding.subject.device.as_deref() == Some(name)
                        && !self.findings.iter().any(|known| {
                            known.cause == rule.cause
                                && known.subject.device == finding.subject.device
                        })
                };
                let found: Vec<Finding> = found.into_iter().filter(is_new).collect();
                let found = found.into_iter().map(|finding| finding.of_a_part(of_whole)).collect();
                self.take(found, rule, facts);
            }
        }
    }
}

/// Returns every cause, then every bottleneck.
pub fn all() -> impl Iterator<Item = &'static Rule> {
    rules::ALL.iter().chain(bottleneck::ALL)
}

/// Returns the rule of a cause or a bottleneck.
pub fn rule_of(id: &str) -> Option<&'static Rule> {
    all().find(|rule| rule.cause == id)
}

fn lost(facts: &Facts<'_>) -> Option<String> {
    let share = words::percent(facts.lost_share()?);
    let of = match facts.summary().watch.left_out_requests {
        0 => "the requests",
        _ => "the requests in total",
    };
    Some(format!("{share} of {of} have no record, so a cause may be missed"))
}

/// Without any data, for example if everything was lost, no cause can be judged.
fn unseen(summary: &Summary) -> Option<String> {
    let nothing = summary.watch.requests == 0 && summary.patterns.waits.is_empty();
    if nothing && summary.environment.is_imported() {
        return Some(counters::sentence(summary));
    }
    let idle = "Idle: no requests and no waits were recorded, so there is nothing to judge.";
    nothing.then(|| idle.to_owned())
}

/// Returns the diagnosis of data without the requests and waits of others: rates, shares and the
/// other users of a device would be wrong.
fn of_a_part(filter: String) -> Diagnosis {
    Diagnosis {
        unjudged: Some(format!(
            "The data was filtered by {filter}: no cause can be judged without the rest."
        )),
        ..of_nobody(format!("the data was filtered by {filter}"), filter)
    }
}

/// Returns a device name that a shell would not parse as one word. Findings put device names into
/// commands unquoted: a forged recording must not inject a command.
fn strange_device(summary: &Summary) -> Option<&str> {
    let known = summary.environment.devices.iter().map(|device| device.name.as_str());
    let seen = summary.devices.iter().map(|device| device.device.as_str());
    let below = summary.devices.iter().flat_map(|device| &device.below).map(String::as_str);
    let waited_for = summary.patterns.waits.iter().filter_map(|wait| wait.device.as_deref());
    let is_strange = |name: &&str| !name.is_empty() && shell_word(name) != *name;
    known.chain(seen).chain(below).chain(waited_for).find(is_strange)
}

/// Returns a diagnosis in which nothing is judged, for this reason.
fn of_nobody(reason: String, filter: String) -> Diagnosis {
    let not_judged = |rule: &Rule| NotJudged { cause: rule.cause, reason: reason.clone() };
    Diagnosis {
        not_judged: rules::ALL.iter().map(not_judged).collect(),
        unjudged: Some(format!("No cause can be judged: {reason}.")),
        judged_filter: filter,
        ..Diagnosis::default()
    }
}
