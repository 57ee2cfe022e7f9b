//! The answer, as text: what is known to be incomplete, the findings with evidence, fix and check.

use super::{PageInput, prose};
use crate::escape::escape;
use crate::human::plural;
use crate::style::{Paint, Style};
use crate::text::over_time;
use crate::text::why::{capitalised, figure, judged, none, readable, weight_alone};
use crate::text::{ScreenPart, header, parts};
use iowhy_analysis::Summary;
use iowhy_diagnosis::{Diagnosis, Finding, Severity};
use iowhy_model::command::of_source;
use maud::{Markup, html};

/// The first finding's sentence as the page's heading.
pub(super) fn headline(diagnosis: &Diagnosis, style: &Style) -> Markup {
    let first = diagnosis.findings.first().filter(|finding| finding.severity > Severity::Info);
    match first {
        Some(finding) => {
            let text = capitalised(&readable(&finding.sentence, style));
            html! { h1 { (prose(&text)) } }
        }
        None if diagnosis.clear == 0 && diagnosis.unjudged.is_none() => {
            html! { h1 { "Disk report" } }
        }
        None => html! { h1 { (prose(&readable(&none(diagnosis), style))) } },
    }
}

/// Draws the notes that must be known before any figure.
pub(super) fn notes(summary: &Summary, source: Option<&str>, style: &Style) -> Markup {
    let notes = parts(source, style, |screen| header::notes(summary, screen));
    let texts: Vec<(String, Paint)> = notes
        .into_iter()
        .filter_map(|part| match part {
            ScreenPart::Text(text, paint) => Some((text, paint)),
            ScreenPart::Table(_) => None,
        })
        .collect();
    html! {
        @if !texts.is_empty() {
            ul.notes aria-label="Notes on this watch" {
                @for (text, paint) in &texts {
                    @let text = text.trim_start_matches(['!', '-', ' ']);
                    li.alert[*paint == Paint::Alert] { (prose(text)) }
                }
            }
        }
    }
}

/// Draws these notes if they hardly change the answer: one quiet line, with the rest behind it.
pub(super) fn quiet_notes(summary: &Summary, source: Option<&str>, style: &Style) -> Markup {
    let notes = parts(source, style, |screen| header::notes(summary, screen));
    let texts: Vec<String> = notes
        .into_iter()
        .filter_map(|part| match part {
            ScreenPart::Text(text, _) => Some(text),
            ScreenPart::Table(_) => None,
        })
        .collect();
    let shown = |text: &str| prose(text.trim_start_matches(['!', '-', ' ']));
    html! {
        @if let Some((first, others)) = texts.split_first() {
            @if others.is_empty() {
                p.faint.quiet { (shown(first)) }
            } @else {
                details.small.quiet {
                    summary.faint { (shown(first)) " (" (others.len()) " more notes)" }
                    ul { @for text in others { li { (shown(text)) } } }
                }
            }
        }
    }
}

/// The findings, the one to act on first comes first.
pub(super) fn findings(page: &PageInput<'_>, style: &Style) -> Markup {
    html! {
        section #findings aria-labelledby="why" data-side="0" {
            h2 #why { "Why" }
            (reasons(page, style, true))
        }
    }
}

/// The findings of one of two watches, below its name.
pub(super) fn findings_of(side: usize, name: &str, page: &PageInput<'_>, style: &Style) -> Markup {
    let (id, letter) = (format!("why-{side}"), if side == 0 { "A" } else { "B" });
    html! {
        section aria-labelledby=(id) data-side=(side) {
            h2 id=(id) { "Why: " (letter) ", " (escape(name, style)) }
            (reasons(page, style, false))
        }
    }
}

/// `is_heading`: the first finding's sentence is the page's heading.
fn reasons(page: &PageInput<'_>, style: &Style, is_heading: bool) -> Markup {
    let diagnosis = page.diagnosis;
    let is_judged = diagnosis.clear > 0 || diagnosis.unjudged.is_some();
    html! {
        @if let Some(judged) = judged(diagnosis, page.summary) {
            p.faint { (prose(&readable(&judged, style))) }
        }
        @if let Some(doubt) = &diagnosis.doubt { p.alert { (prose(&readable(doubt, style))) } }
        @if diagnosis.findings.is_empty() && is_judged {
            p { (prose(&readable(&none(diagnosis), style))) }
        }
        @for (index, finding) in diagnosis.findings.iter().enumerate() {
            (one(index + 1, finding, page, style, is_heading))
        }
        @for sentence in &diagnosis.red_herrings {
            p.herring { b { "Not the cause: " } (prose(&readable(sentence, style))) }
        }
        (changes(page, style))
        (not_judged(diagnosis, style))
    }
}

fn changes(page: &PageInput<'_>, style: &Style) -> Markup {
    let over_time = parts(page.source, style, |screen| over_time::section(page.diagnosis, screen));
    html! {
        @if over_time.len() > 1 {
            h3 { "Changes and bursts" }
            ul { @for part in over_time.iter().skip(1) {
                @if let ScreenPart::Text(text, _) = part { li { (prose(text)) } }
            } }
        }
    }
}

fn one(
    number: usize,
    finding: &Finding,
    page: &PageInput<'_>,
    style: &Style,
    is_heading: bool,
) -> Markup {
    let text = capitalised(&readable(&finding.sentence, style));
    let weight = readable(&weight_alone(finding, style), style);
    let subject = &finding.subject;
    let shown =
        |text: &Option<String>| text.as_deref().map(|text| escape(text, style).into_owned());
    let (device, process) = (shown(&subject.device), shown(&subject.process));
    let file = shown(&subject.file);
    let picture = finding.rule().map(|rule| rule.picture.word());
    let is_small = finding.severity == Severity::Info;
    // The page's heading is the first finding's sentence.
    let is_above = is_heading && number == 1 && !is_small;
    html! {
        article.finding .{(finding.severity.word())} data-cause=(finding.cause)
            data-picture=[picture] data-device=[device] data-process=[process] data-file=[file] {
            details open[!is_small] {
                summary {
                    span.badge { (finding.severity.word()) }
                    h3 { span.number { (number) ". " }
                        @if is_above { (weight) } @else { (prose(&text)) } }
                }
                @if !is_above { p.faint { (weight) } }
                @if let Some(waits) = &finding.waits {
                    p { (prose(&capitalised(&readable(waits, style)))) }
                }
                div.columns {
                    div {
                        (evidence(finding, page.source, style))
                        dl {
                            dt { "Fix" } dd { (prose(&readable(&finding.fix, style))) }
                            dt { "Check" } dd { (prose(&readable(&finding.check, style))) }
                        }
                    }
                    div.picture hidden {}
                }
            }
        }
    }
}

/// The figures that support a finding, each with the command that shows it.
fn evidence(finding: &Finding, source: Option<&str>, style: &Style) -> Markup {
    let command = |command: &str| match source {
        Some(source) => of_source(command, source),
        None => command.to_owned(),
    };
    html! {
        @if !finding.evidence.is_empty() {
            table.evidence {
                caption { "Evidence" }
                thead { tr {
                    th scope="col" { "What" } th scope="col" { "Figure" }
                    th scope="col" { "Shown by" }
                } }
                tbody { @for it in &finding.evidence {
                    tr {
                        td { (prose(&readable(&it.what, style))) }
                        td.figure { (figure(it, style)) }
                        td { code { (readable(&command(&it.command), style)) } }
                    }
                } }
            }
        }
    }
}

/// Causes of which nothing can be said.
fn not_judged(diagnosis: &Diagnosis, style: &Style) -> Markup {
    html! {
        @if !diagnosis.not_judged.is_empty() {
            details.small {
                summary {
                    (plural(diagnosis.not_judged.len() as u64, "cause"))
                    " could not be judged, " (diagnosis.clear) " were judged and not detected"
                }
                table {
                    thead { tr {
                        th scope="col" { "Cause" } th scope="col" { "What is missing" }
                    } }
                    tbody { @for it in &diagnosis.not_judged {
                        @let reason = readable(&it.reason, style);
                        tr { td { code { (it.cause) } } td { (prose(&reason)) } }
                    } }
                }
            }
        }
    }
}
