//! `iowhy explain`: a page about a cause, a page about a finding, the list of causes.

use crate::escape::escape;
use crate::fold;
use crate::style::{Paint, Style};
use crate::text::{figure, readable, share, weight};
use iowhy_core::command::of_source;
use iowhy_core::diagnosis::{Diagnosis, Finding, Rule, rules};

/// What was seen.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
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
    page.heading("CAUSES");
    for rule in rules::ALL {
        let judged = seen.map(|seen| judged(seen.diagnosis, rule.cause)).unwrap_or_default();
        page.prose(&format!("{:<20} {}{judged}", rule.cause, rule.title));
    }
    page.line("");
    let source = seen.map_or("RECORDING", |seen| seen.source);
    page.prose(&format!(
        "`iowhy explain CAUSE` tells how it works; `iowhy explain CAUSE {source}`, what was seen."
    ));
    page.text
}

fn judged(diagnosis: &Diagnosis, cause: &str) -> String {
    let found = diagnosis.findings.iter().find(|it| it.cause == cause);
    let symptom = diagnosis.findings.iter().find(|it| it.symptoms.contains(&cause));
    let missing = diagnosis.not_judged.iter().find(|it| it.cause == cause);
    match (found, symptom, missing) {
        (Some(found), ..) => {
            format!(": {}, {}", found.severity.word(), share(found))
        }
        (_, Some(cause), _) => format!(": a symptom of {}", cause.cause),
        (.., Some(missing)) => format!(": not enough data, {}", missing.reason),
        _ => ": not there".to_owned(),
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

fn seen(page: &mut Page<'_>, rule: &Rule, Seen { diagnosis, source }: Seen<'_>) {
    page.heading("WHAT WAS SEEN");
    match diagnosis.findings.iter().find(|it| it.cause == rule.cause) {
        Some(finding) => finding_seen(page, finding, source),
        None => {
            let judged = judged(diagnosis, rule.cause);
            page.prose(judged.trim_start_matches(": "));
        }
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
