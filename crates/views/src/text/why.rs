//! WHY: the named causes, first of all that a screen shows.
//!
//! What does not belong here: finding them (`iowhy_core::diagnosis`).

use super::Screen;
use crate::escape::escape;
use crate::fold::prose;
use crate::human::{self, plural};
use crate::style::{Paint, Style};
use iowhy_core::analysis::Summary;
use iowhy_core::diagnosis::finding::{Evidence, ImpactOf};
use iowhy_core::diagnosis::{Diagnosis, Finding, Severity};
use iowhy_core::figures::counted;

/// Findings that the first screen shows.
const SHOWN: usize = 3;
/// Evidence that it shows of each.
const EVIDENCE: usize = 3;
/// Columns before the text of a finding.
const INDENT: usize = 4;

pub(super) fn section(diagnosis: &Diagnosis, summary: &Summary, screen: &mut Screen) {
    if diagnosis.findings.is_empty() && diagnosis.clear == 0 && diagnosis.unjudged.is_none() {
        return;
    }
    screen.gap();
    let heading = screen.style.paint("WHY", Paint::Heading);
    screen.line(&heading);
    if let Some(judged) = judged(diagnosis, summary) {
        screen.prose(&readable(&judged, screen.style), 2, Paint::Faint);
    }
    let told = diagnosis.findings.iter().filter(|it| it.severity > Severity::Info).count();
    let shown = if told == 0 { 1 } else { told.min(SHOWN) };
    if told == 0 {
        screen.prose(&readable(&none(diagnosis), screen.style), 2, Paint::Plain);
    }
    for (index, finding) in diagnosis.findings.iter().take(shown).enumerate() {
        one(index + 1, finding, screen);
    }
    for sentence in &diagnosis.red_herrings {
        let text = format!("not the cause: {}", readable(sentence, screen.style));
        screen.prose(&text, 2, Paint::Faint);
    }
    rest(diagnosis, shown, screen);
}

/// What stands first where nothing is worth a warning.
fn none(diagnosis: &Diagnosis) -> String {
    if let Some(unjudged) = &diagnosis.unjudged {
        return unjudged.clone();
    }
    let checked = format!("No known cause detected ({} checked).", diagnosis.clear);
    match &diagnosis.quiet {
        Some(quiet) => format!("{checked} {quiet}"),
        None => checked,
    }
}

/// By what causes were judged, where that is more than what is shown.
fn judged(diagnosis: &Diagnosis, summary: &Summary) -> Option<String> {
    let (judged, shown) = (&diagnosis.judged_filter, &summary.environment.filter);
    let whole = match judged.as_str() {
        _ if judged == shown => return None,
        "" => "the whole watch".to_owned(),
        filter => format!("all that {filter} keeps"),
    };
    Some(format!("judged by {whole}, not only by what is shown below"))
}

fn one(number: usize, finding: &Finding, screen: &mut Screen) {
    let style = *screen.style;
    let paint = match finding.severity {
        Severity::Info => Paint::Plain,
        Severity::Warning => Paint::Heading,
        Severity::Critical => Paint::Alert,
    };
    let lead = format!("{number:>2}  ");
    let text = capitalised(&readable(&finding.sentence, &style));
    for (index, line) in prose(&text, style.columns() - INDENT).iter().enumerate() {
        let before = if index == 0 { lead.clone() } else { " ".repeat(INDENT) };
        let painted = style.paint(line, paint);
        screen.line(&format!("{before}{painted}"));
    }
    screen.prose(&weight(finding), INDENT, Paint::Faint);
    if let Some(waits) = &finding.waits {
        screen.prose(&capitalised(&readable(waits, &style)), INDENT, Paint::Plain);
    }
    for evidence in finding.evidence.iter().take(EVIDENCE) {
        screen.prose(&readable(&row(evidence, &style), &style), INDENT, Paint::Plain);
    }
    screen.prose(&format!("fix    {}", readable(&finding.fix, &style)), INDENT, Paint::Plain);
    screen.prose(&format!("check  {}", readable(&finding.check, &style)), INDENT, Paint::Faint);
}

/// How much it matters and how sure iowhy is: `critical: 88 % of the blocked time; certain`, or `at most
/// 88 %`.
pub(crate) fn weight(finding: &Finding) -> String {
    let of = match finding.impact_of {
        ImpactOf::BlockedTime => "of the blocked time",
        ImpactOf::DeviceTime => "of the device's time",
    };
    let mut text = format!(
        "{}: {} {of}; {}; {}",
        finding.severity.word(),
        share(finding),
        finding.confidence.word(),
        finding.cause,
    );
    if !finding.symptoms.is_empty() {
        text.push_str(&format!("; shows as {}", finding.symptoms.join(", ")));
    }
    text
}

/// `88 %`, or `at most 88 %` where it is not known what would be left without the cause.
pub(crate) fn share(finding: &Finding) -> String {
    let limit = if finding.impact_at_most { "at most " } else { "" };
    format!("{limit}{} %", human::percent(finding.impact))
}

/// `longest read between driver and completion: 1.15 s`.
pub(crate) fn row(evidence: &Evidence, style: &Style) -> String {
    format!("{}: {}", evidence.what, figure(evidence, style))
}

/// A figure with its unit.
pub(crate) fn figure(evidence: &Evidence, style: &Style) -> String {
    let figure = evidence.figure;
    match evidence.unit {
        "ns" => human::time(figure, style),
        "bytes" if figure < 1000.0 => format!("{} B", human::rate(figure)),
        "bytes" => human::bytes(figure),
        "bytes/s" => format!("{}/s", human::bytes(figure)),
        "%" => format!("{} %", human::percent(figure / 100.0)),
        "1/s" => format!("{} a second", human::rate(figure)),
        "" => human::rate(figure),
        // What is counted stands before it: `requests in flight: 32`.
        unit if evidence.what.split(' ').any(|word| word == unit) => plain(figure),
        unit if figure.fract() == 0.0 => counted(figure as u64, unit),
        unit => format!("{} {unit}", human::rate(figure)),
    }
}

fn plain(figure: f64) -> String {
    if figure.fract() == 0.0 { human::count(figure as u64) } else { human::rate(figure) }
}

/// Text of the diagnosis, which quotes names that anybody may have chosen.
pub(crate) fn readable(text: &str, style: &Style) -> String {
    let text = if style.unicode { text.to_owned() } else { text.replace('µ', "u") };
    escape(&text, style).into_owned()
}

fn capitalised(text: &str) -> String {
    // A name stays as it is: only sentences that begin with a word of their own are touched.
    for word in ["the ", "a ", "threads ", "memory "] {
        if text.starts_with(word) {
            let (first, rest) = text.split_at(1);
            return format!("{}{rest}", first.to_uppercase());
        }
    }
    text.to_owned()
}

fn rest(diagnosis: &Diagnosis, shown: usize, screen: &mut Screen) {
    if let Some(doubt) = &diagnosis.doubt {
        screen.prose(&format!("! {doubt}"), 2, Paint::Alert);
    }
    let more = diagnosis.findings.len().saturating_sub(shown);
    let mut text = Vec::new();
    if more > 0 {
        text.push(plural(more as u64, "smaller finding"));
    }
    if !diagnosis.not_judged.is_empty() {
        let causes = plural(diagnosis.not_judged.len() as u64, "cause");
        text.push(format!("{causes} could not be judged"));
    }
    if !text.is_empty() {
        let more = screen.command("iowhy explain");
        screen.prose(&format!("{} ({more})", text.join("; ")), 2, Paint::Faint);
    }
}
