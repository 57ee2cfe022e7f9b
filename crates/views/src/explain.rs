//! `iowhy explain`: a page about a cause, a page about a finding, the list of causes.

use crate::escape::escape;
use crate::fold;
use crate::json;
use crate::style::{Paint, Style};
use crate::text::{figure, readable, share, weight};
use iowhy_analysis::Summary;
use iowhy_diagnosis::{Diagnosis, Finding, NotJudged, Rule, Severity, bottleneck, rule_of, rules};
use iowhy_model::command::of_source;
use serde::Serialize;
use std::collections::BTreeSet;

/// The source that was examined.
#[derive(Clone, Copy, Debug)]
pub struct SeenCause<'a> {
    /// The source's summary.
    pub summary: &'a Summary,
    /// The source's diagnosis.
    pub diagnosis: &'a Diagnosis,
    /// The source as a command line names it.
    pub source: &'a str,
}

/// A page that is being built.
struct CausePage<'a> {
    style: &'a Style,
    text: String,
}

impl CausePage<'_> {
    fn line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    fn heading(&mut self, heading: &str) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        for line in fold::wrap(heading, self.style.columns()) {
            let painted = self.style.paint(&line, Paint::Heading);
            self.line(&painted);
        }
    }

    fn prose(&mut self, text: &str) {
        let readable = readable(text, self.style);
        for line in fold::prose(&readable, self.style.columns() - 2) {
            self.line(&format!("  {line}"));
        }
    }

    /// A command on a line of its own, never wrapped, so that it can be copied.
    fn command(&mut self, command: &str) {
        let line = format!("      {}", escape(command, self.style));
        self.line(&line);
    }
}

/// Lists every cause; with a diagnosis, the found ones first, and the others in one paragraph.
pub fn causes(seen: Option<SeenCause<'_>>, style: &Style) -> String {
    let mut page = CausePage { style, text: String::new() };
    match seen {
        Some(seen) => page.judged(&seen),
        None => {
            for (heading, rules) in [("CAUSES", rules::ALL), ("BOTTLENECKS", bottleneck::ALL)] {
                page.heading(heading);
                for rule in rules {
                    page.prose(&format!("{:<20} {}", rule.cause, rule.title));
                }
            }
        }
    }
    page.line("");
    let source = seen.map_or("RECORDING", |seen| seen.source);
    page.prose(&format!(
        "`iowhy explain CAUSE` explains the mechanism; `iowhy explain CAUSE {source}` also shows \
         what was observed."
    ));
    page.text
}

impl CausePage<'_> {
    /// Lists the findings by their numbers and the other causes by their outcome.
    fn judged(&mut self, seen: &SeenCause<'_>) {
        self.found(seen.diagnosis);
        self.not_judged(seen.diagnosis);
        let all = rules::ALL.iter().chain(bottleneck::ALL);
        let clear =
            all.filter(|rule| matches!(judged(seen.diagnosis, rule.cause), JudgedCause::Clear));
        let clear: Vec<&str> = clear.map(|rule| rule.cause).collect();
        if !clear.is_empty() {
            self.heading("NOT DETECTED");
            self.prose(&clear.join(", "));
        }
    }

    /// The findings as the first screen numbers them, each with what it explains.
    fn found(&mut self, diagnosis: &Diagnosis) {
        if diagnosis.findings.is_empty() {
            return;
        }
        self.heading("FOUND");
        for (number, finding) in (1..).zip(&diagnosis.findings) {
            self.listed(&number.to_string(), finding.cause, &JudgedCause::Found(finding));
            let symptoms: BTreeSet<_> =
                finding.symptoms.iter().chain(&finding.bottlenecks).copied().collect();
            for cause in symptoms {
                let judged = judged(diagnosis, cause);
                // One finding has a symptom that several explain.
                if matches!(judged, JudgedCause::Symptom(of) if std::ptr::eq(of, finding)) {
                    self.listed("-", cause, &judged);
                }
            }
        }
    }

    fn not_judged(&mut self, diagnosis: &Diagnosis) {
        let verdicts = diagnosis.not_judged.iter().map(|missing| judged(diagnosis, missing.cause));
        let unknown = verdicts.filter_map(|verdict| match verdict {
            JudgedCause::Unknown(missing) => Some(missing),
            _ => None,
        });
        for (index, missing) in unknown.enumerate() {
            if index == 0 {
                self.heading("NOT JUDGED");
            }
            self.listed("", missing.cause, &JudgedCause::Unknown(missing));
        }
    }

    fn listed(&mut self, number: &str, cause: &str, judged: &JudgedCause<'_>) {
        let title = rule_of(cause).map_or(cause, |rule| rule.title);
        let text = readable(&format!("{cause:<20} {title}: {}", judged.sentence()), self.style);
        for (index, line) in fold::prose(&text, self.style.columns() - 4).iter().enumerate() {
            let before = if index == 0 { number } else { "" };
            self.line(&format!("{before:>2}  {line}"));
        }
    }
}

/// The verdict on a cause.
enum JudgedCause<'a> {
    Found(&'a Finding),
    /// Another cause that was found explains it.
    Symptom(&'a Finding),
    Unknown(&'a NotJudged),
    Clear,
}

fn judged<'a>(diagnosis: &'a Diagnosis, cause: &str) -> JudgedCause<'a> {
    let found = diagnosis.findings.iter().find(|finding| finding.cause == cause);
    let mut findings = diagnosis.findings.iter();
    let symptom = findings
        .find(|finding| finding.symptoms.contains(&cause) || finding.bottlenecks.contains(&cause));
    let missing = diagnosis.not_judged.iter().find(|missing| missing.cause == cause);
    match (found, symptom, missing) {
        (Some(found), ..) => JudgedCause::Found(found),
        (_, Some(cause), _) => JudgedCause::Symptom(cause),
        (.., Some(missing)) => JudgedCause::Unknown(missing),
        _ => JudgedCause::Clear,
    }
}

impl JudgedCause<'_> {
    fn sentence(&self) -> String {
        match self {
            JudgedCause::Found(found) => format!("{}, {}", found.severity.word(), share(found)),
            JudgedCause::Symptom(cause) => format!("a symptom of {}", cause.cause),
            JudgedCause::Unknown(missing) => format!("not enough data, {}", missing.reason),
            JudgedCause::Clear => "not detected".to_owned(),
        }
    }

    /// Returns the verdict in one word, for JSON.
    const fn word(&self) -> &'static str {
        match self {
            JudgedCause::Found(_) => "found",
            JudgedCause::Symptom(_) => "symptom",
            JudgedCause::Unknown(_) => "not_judged",
            JudgedCause::Clear => "not_there",
        }
    }
}

/// Returns the rules and the observations, as JSON like that of [`json::render`].
pub fn json(rules: &[&Rule], seen: Option<SeenCause<'_>>) -> String {
    #[derive(Serialize)]
    struct Causes<'a> {
        causes: Vec<CauseJson<'a>>,
    }
    let diagnosis = seen.map(|seen| seen.diagnosis);
    let causes = rules.iter().map(|rule| CauseJson::new(rule, diagnosis)).collect();
    match seen {
        Some(seen) => json::part(seen.summary, Causes { causes }),
        None => json::document(Causes { causes }),
    }
}

/// A cause in JSON.
#[derive(Serialize)]
struct CauseJson<'a> {
    cause: &'static str,
    title: &'static str,
    mechanism: &'static str,
    changes: &'static str,
    /// `None` without a source, like all fields below.
    verdict: Option<&'static str>,
    symptom_of: Option<&'static str>,
    /// The reason why there is no verdict.
    reason: Option<&'a str>,
    findings: Option<Vec<&'a Finding>>,
}

impl<'a> CauseJson<'a> {
    fn new(rule: &Rule, diagnosis: Option<&'a Diagnosis>) -> CauseJson<'a> {
        let Rule { cause, title, mechanism, changes, .. } = *rule;
        let judged = diagnosis.map(|diagnosis| judged(diagnosis, cause));
        let own = |finding: &&Finding| finding.cause == cause;
        CauseJson {
            cause,
            title,
            mechanism,
            changes,
            verdict: judged.as_ref().map(JudgedCause::word),
            symptom_of: match judged {
                Some(JudgedCause::Symptom(of)) => Some(of.cause),
                _ => None,
            },
            reason: match judged {
                Some(JudgedCause::Unknown(missing)) => Some(missing.reason.as_str()),
                _ => None,
            },
            findings: diagnosis.map(|diagnosis| diagnosis.findings.iter().filter(own).collect()),
        }
    }
}

/// Returns the mechanism of a cause, the observations, the advice, and what would change the
/// verdict.
pub fn cause(rule: &Rule, found: Option<SeenCause<'_>>, style: &Style) -> String {
    let mut page = CausePage { style, text: String::new() };
    page.heading(&format!("{}: {}", rule.cause, rule.title));
    page.prose(rule.mechanism);
    if let Some(found) = found {
        seen(&mut page, rule, found);
    }
    page.heading("WHAT WOULD CHANGE THE VERDICT");
    page.prose(rule.changes);
    page.text
}

fn seen(page: &mut CausePage<'_>, rule: &Rule, SeenCause { diagnosis, source, .. }: SeenCause<'_>) {
    page.heading("WHAT WAS OBSERVED");
    match judged(diagnosis, rule.cause) {
        JudgedCause::Found(finding) => finding_seen(page, finding, source),
        other => page.prose(&other.sentence()),
    }
}

/// What an information asks for.
const FOR_INFORMATION: &str = "Nothing has to be done. Only if what was observed is too slow:";

fn finding_seen(page: &mut CausePage<'_>, finding: &Finding, source: &str) {
    page.prose(&finding.sentence);
    page.prose(&weight(finding, page.style));
    for evidence in &finding.evidence {
        let figure = figure(evidence, page.style);
        page.prose(&format!("{}: {figure}", evidence.what));
        page.command(&of_source(&evidence.command, source));
    }
    if finding.severity == Severity::Info {
        page.heading("WHAT WOULD HELP");
        page.prose(FOR_INFORMATION);
    } else {
        page.heading("WHAT TO DO");
    }
    page.prose(&finding.fix);
    page.heading("HOW TO CHECK");
    page.prose(&finding.check);
}
