//! `iowhy explain`: a page about a cause, a page about a finding, the list of causes.

use crate::escape::escape;
use crate::fold;
use crate::json;
use crate::style::{Paint, Style};
use crate::text::{figure, readable, share, weight};
use iowhy_core::analysis::Summary;
use iowhy_core::command::of_source;
use iowhy_core::diagnosis::{Diagnosis, Finding, NotJudged, Rule, bottleneck, rules};
use serde::Serialize;

/// What was seen.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// All of it.
    pub summary: &'a Summary,
    /// What it means.
    pub diagnosis: &'a Diagnosis,
    /// Where it was seen, as a command line names it.
    pub source: &'a str,
}

/// A page in the making.
struct Page<'a> {
    style: &'a Style,
    text: String,
}

impl Page<'_> {
    fn line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    fn heading(&mut self, heading: &str) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        let painted = self.style.paint(heading, Paint::Heading);
        self.line(&painted);
    }

    fn prose(&mut self, text: &str) {
        let readable = readable(text, self.style);
        for line in fold::prose(&readable, self.style.columns() - 2) {
            self.line(&format!("  {line}"));
        }
    }

    /// A command in a line of its own, in one piece, so that it can be copied.
    fn command(&mut self, command: &str) {
        let line = format!("      {}", escape(command, self.style));
        self.line(&line);
    }
}

/// Every cause that iowhy knows, a line each; with a diagnosis, how each was judged.
pub fn causes(seen: Option<Seen<'_>>, style: &Style) -> String {
    let mut page = Page { style, text: String::new() };
    for (heading, rules) in [("CAUSES", rules::ALL), ("BOTTLENECKS", bottleneck::ALL)] {
        page.heading(heading);
        for rule in rules {
            let judged = seen.map(|seen| judged(seen.diagnosis, rule.cause).sentence());
            let judged = judged.map_or_else(String::new, |text| format!(": {text}"));
            page.prose(&format!("{:<20} {}{judged}", rule.cause, rule.title));
        }
    }
    page.line("");
    let source = seen.map_or("RECORDING", |seen| seen.source);
    page.prose(&format!(
        "`iowhy explain CAUSE` tells how it works; `iowhy explain CAUSE {source}`, what was seen."
    ));
    page.text
}

/// What became of a cause.
enum Judged<'a> {
    Found(&'a Finding),
    /// It is an effect of what was found.
    Symptom(&'a Finding),
    Unknown(&'a NotJudged),
    Clear,
}

fn judged<'a>(diagnosis: &'a Diagnosis, cause: &str) -> Judged<'a> {
    let found = diagnosis.findings.iter().find(|it| it.cause == cause);
    let mut findings = diagnosis.findings.iter();
    let symptom =
        findings.find(|it| it.symptoms.contains(&cause) || it.bottlenecks.contains(&cause));
    let missing = diagnosis.not_judged.iter().find(|it| it.cause == cause);
    match (found, symptom, missing) {
        (Some(found), ..) => Judged::Found(found),
        (_, Some(cause), _) => Judged::Symptom(cause),
        (.., Some(missing)) => Judged::Unknown(missing),
        _ => Judged::Clear,
    }
}

impl Judged<'_> {
    fn sentence(&self) -> String {
        match self {
            Judged::Found(found) => format!("{}, {}", found.severity.word(), share(found)),
            Judged::Symptom(cause) => format!("a symptom of {}", cause.cause),
            Judged::Unknown(missing) => format!("not enough data, {}", missing.reason),
            Judged::Clear => "not detected".to_owned(),
        }
    }

    /// The same in one word, for programs.
    const fn word(&self) -> &'static str {
        match self {
            Judged::Found(_) => "found",
            Judged::Symptom(_) => "symptom",
            Judged::Unknown(_) => "not_judged",
            Judged::Clear => "not_there",
        }
    }
}

/// What these rules are about, and what was seen of it, as JSON like that of [`json::render`].
pub fn json(rules: &[&Rule], seen: Option<Seen<'_>>) -> String {
    #[derive(Serialize)]
    struct Causes<'a> {
        causes: Vec<Cause<'a>>,
    }
    let diagnosis = seen.map(|seen| seen.diagnosis);
    let causes = rules.iter().map(|rule| Cause::of(rule, diagnosis)).collect();
    match seen {
        Some(seen) => json::part(seen.summary, Causes { causes }),
        None => json::document(Causes { causes }),
    }
}

/// A cause for programs.
#[derive(Serialize)]
struct Cause<'a> {
    cause: &'static str,
    title: &'static str,
    mechanism: &'static str,
    changes: &'static str,
    /// `None` where no source was named, like all that follows.
    verdict: Option<&'static str>,
    symptom_of: Option<&'static str>,
    /// Why it could not be judged.
    reason: Option<&'a str>,
    findings: Option<Vec<&'a Finding>>,
}

impl<'a> Cause<'a> {
    fn of(rule: &Rule, diagnosis: Option<&'a Diagnosis>) -> Cause<'a> {
        let Rule { cause, title, mechanism, changes, .. } = *rule;
        let judged = diagnosis.map(|diagnosis| judged(diagnosis, cause));
        let own = |it: &&Finding| it.cause == cause;
        Cause {
            cause,
            title,
            mechanism,
            changes,
            verdict: judged.as_ref().map(Judged::word),
            symptom_of: match judged {
                Some(Judged::Symptom(of)) => Some(of.cause),
                _ => None,
            },
            reason: match judged {
                Some(Judged::Unknown(missing)) => Some(missing.reason.as_str()),
                _ => None,
            },
            findings: diagnosis.map(|it| it.findings.iter().filter(own).collect()),
        }
    }
}

/// How a cause works, what was seen of it, what to do, what would change the verdict.
pub fn cause(rule: &Rule, found: Option<Seen<'_>>, style: &Style) -> String {
    let mut page = Page { style, text: String::new() };
    page.heading(&format!("{}: {}", rule.cause, rule.title));
    page.prose(rule.mechanism);
    if let Some(found) = found {
        seen(&mut page, rule, found);
    }
    page.heading("WHAT WOULD CHANGE THE VERDICT");
    page.prose(rule.changes);
    page.text
}

fn seen(page: &mut Page<'_>, rule: &Rule, Seen { diagnosis, source, .. }: Seen<'_>) {
    page.heading("WHAT WAS SEEN");
    match judged(diagnosis, rule.cause) {
        Judged::Found(finding) => finding_seen(page, finding, source),
        other => page.prose(&other.sentence()),
    }
}

fn finding_seen(page: &mut Page<'_>, finding: &Finding, source: &str) {
    page.prose(&finding.sentence);
    page.prose(&weight(finding));
    for evidence in &finding.evidence {
        let figure = figure(evidence, page.style);
        page.prose(&format!("{}: {figure}", evidence.what));
        page.command(&of_source(&evidence.command, source));
    }
    page.heading("WHAT TO DO");
    page.prose(&finding.fix);
    page.heading("HOW TO CHECK");
    page.prose(&finding.check);
}
