//! WHY: the findings, which come before everything else on a screen.
//!
//! What does not belong here: the diagnosis (`iowhy_diagnosis`).

use super::Screen;
use crate::escape::{cut, escape, fit};
use crate::fold::{prose, prose_within};
use crate::human::{self, plural};
use crate::style::{Paint, Style};
use iowhy_analysis::Summary;
use iowhy_diagnosis::finding::{Evidence, FindingLayer, ImpactOf};
use iowhy_diagnosis::{Diagnosis, Finding, Severity};
use iowhy_model::figures::counted;

/// Maximum number of findings on the first screen.
const SHOWN: usize = 3;
/// The widths to which names in a sentence are cut, columns: the first at which it fits.
const NAME_COLUMNS: [usize; 3] = [48, 36, 24];
/// Words that must not end a sentence that was cut.
const OPEN: &[&str] =
    &["a", "an", "and", "at", "by", "for", "from", "in", "of", "on", "the", "to", "waits", "with"];
/// Maximum number of evidence items of each.
const EVIDENCE: usize = 3;
/// The least share of its time that a program loses, to be said. Chosen.
const LEAST_LOSS: f64 = 0.01;
/// Indentation of a finding, columns.
const INDENT: usize = 4;

/// Maximum number of lines of each part on the first screen.
#[derive(Clone)]
pub(super) struct LineLimits {
    pub sentence: usize,
    /// The bottleneck that the first finding explains.
    pub waits: usize,
    pub evidence: usize,
    pub fix: usize,
    pub check: usize,
    /// Further findings.
    pub others: usize,
    /// Lines of each of them.
    pub other: usize,
}

/// The first finding in full, as far as `limits` allow, and a line for each further one.
pub(super) fn brief(
    diagnosis: &Diagnosis,
    summary: &Summary,
    limits: &LineLimits,
    screen: &mut Screen,
) {
    if diagnosis.findings.is_empty() && diagnosis.clear == 0 && diagnosis.unjudged.is_none() {
        return;
    }
    screen.gap();
    let heading = screen.style.paint("WHY", Paint::Heading);
    screen.line(&heading);
    if let Some(judged) = judged(diagnosis, summary) {
        screen.prose(&readable(&judged, screen.style), 2, Paint::Faint);
    }
    let mut worth = diagnosis.findings.iter().filter(|finding| finding.severity > Severity::Info);
    match worth.next() {
        Some(first) => whole(first, limits, screen),
        None => {
            let text = readable(&none_above(diagnosis), screen.style);
            // Nothing else has to be told, so that there is room for what to do.
            let most = if diagnosis.is_bound { 2 * limits.sentence } else { limits.sentence };
            capped("", &text, 2, most, Paint::Plain, screen);
        }
    }
    let is_first_shown = diagnosis.findings.iter().any(|finding| finding.severity > Severity::Info);
    let shown = match is_first_shown {
        true => 1 + worth.count().min(limits.others),
        // Without a warning, the first finding may still help.
        false => diagnosis.findings.len().min(1),
    };
    for (index, finding) in diagnosis.findings.iter().enumerate().take(shown) {
        if index == 0 && is_first_shown {
            continue;
        }
        let style = *screen.style;
        let text = capitalised(&readable(&finding.sentence, &style));
        // Without a warning it is all that there is to say, and nothing to act on.
        let most = if index == 0 { limits.sentence } else { limits.other };
        let within = |columns: usize| sentence_within(&text, columns, most, &style);
        let columns = style.columns() - INDENT;
        match finding.severity {
            Severity::Info if index == 0 => {
                hung(&within(columns - 2), INDENT, Paint::Plain, screen)
            }
            severity => numbered(index + 1, &within(columns), severity, screen),
        }
    }
    if let Some(sentence) = diagnosis.red_herrings.first() {
        let text = format!("not the cause: {}", readable(sentence, screen.style));
        capped("", &text, 2, 1, Paint::Faint, screen);
    }
    rest(diagnosis, shown, screen);
}

/// The first finding.
fn whole(finding: &Finding, limits: &LineLimits, screen: &mut Screen) {
    let style = *screen.style;
    let text = capitalised(&readable(&finding.sentence, &style));
    let lines = sentence_within(&text, style.columns() - INDENT, limits.sentence, &style);
    numbered(1, &lines, finding.severity, screen);
    screen.prose(&readable(&loss(finding, &style), &style), INDENT, Paint::Faint);
    if let Some(waits) = &finding.waits {
        let text = capitalised(&readable(waits, &style));
        let lines = sentence_within(&text, style.columns() - INDENT - 2, limits.waits, &style);
        hung(&lines, INDENT, Paint::Plain, screen);
    }
    let evidence: Vec<String> =
        finding.evidence.iter().take(EVIDENCE).map(|evidence| row(evidence, &style)).collect();
    let text = readable(&evidence.join("; "), &style);
    capped("", &text, INDENT, limits.evidence, Paint::Plain, screen);
    let fix = format!("fix    {}", readable(&finding.fix, &style));
    let most = lines_with_risk(&fix, style.columns() - INDENT - 2, limits.fix, &style);
    capped("", &fix, INDENT, most, Paint::Plain, screen);
    // Half an instruction is worth less than none.
    let check = format!("check  {}", readable(&finding.check, &style));
    if clauses_within(&check, style.columns() - INDENT - 2, limits.check, &style).is_some() {
        capped("", &check, INDENT, limits.check, Paint::Faint, screen);
    }
}

/// Text in at most `most` lines, behind a label.
fn capped(label: &str, text: &str, indent: usize, most: usize, paint: Paint, screen: &mut Screen) {
    if text.is_empty() || most == 0 {
        return;
    }
    let columns = screen.style.columns() - indent - 2;
    let lines = at_most(&format!("{label}{text}"), columns, most, screen.style);
    hung(&lines, indent, paint, screen);
}

/// Words of advice that tell what it may cost.
const RISKS: [&str; 3] = ["crash", "lose", "may be gone"];
/// Lines more that a risk may take. Chosen: the longest advice has as many.
const RISK_LINES: usize = 5;

/// Returns the fewest lines, `most` and more, in which advice is not parted from its risk.
fn lines_with_risk(text: &str, columns: usize, most: usize, style: &Style) -> usize {
    let is_told = |lines: &usize| {
        let shown = at_most(text, columns, *lines, style).join(" ");
        RISKS.iter().all(|risk| !text.contains(risk) || shown.contains(risk))
    };
    (most..=most + RISK_LINES).find(is_told).unwrap_or(most)
}

/// Lines below each other, those after the first two columns further in.
fn hung(lines: &[String], indent: usize, paint: Paint, screen: &mut Screen) {
    for (index, line) in lines.iter().enumerate() {
        let before = " ".repeat(if index == 0 { indent } else { indent + 2 });
        let painted = screen.style.paint(line, paint);
        screen.line(&format!("{before}{painted}"));
    }
}

/// Text in at most `most` lines. A longer one loses its last clauses, at last words; no word,
/// command or figure is cut.
fn at_most(text: &str, columns: usize, most: usize, style: &Style) -> Vec<String> {
    clauses_within(text, columns, most, style)
        .unwrap_or_else(|| words_within(text, columns, most, style))
}

/// A sentence in at most `most` lines: in a longer one paths lose their middle first. Advice keeps
/// its paths, which are meant to be copied.
fn sentence_within(text: &str, columns: usize, most: usize, style: &Style) -> Vec<String> {
    let fits = |text: &String| prose_within(text, columns, most).is_some();
    let mut texts = std::iter::once(text.to_owned())
        .chain(NAME_COLUMNS.map(|name| with_shorter_names(text, name, style)));
    let narrowest = || with_shorter_names(text, NAME_COLUMNS[NAME_COLUMNS.len() - 1], style);
    at_most(&texts.find(fits).unwrap_or_else(narrowest), columns, most, style)
}

/// The text, where paths longer than `columns` lose their middle. Those in commands stay.
fn with_shorter_names(text: &str, columns: usize, style: &Style) -> String {
    let mut in_command = false;
    let words = text.split(' ').map(|word| {
        let is_command = in_command || word.contains('`');
        in_command ^= word.matches('`').count() % 2 == 1;
        match word.starts_with('/') && !is_command {
            true => fit(word, columns, style),
            false => word.to_owned(),
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// As many of the words as fit in `most` lines, without a number whose unit is missing.
fn words_within(text: &str, columns: usize, most: usize, style: &Style) -> Vec<String> {
    let mark = style.either(" …", " ...");
    let mut words: Vec<&str> = text.split(' ').collect();
    while words.len() > 1 {
        words.pop();
        let is_open =
            |word: &str| OPEN.contains(&word) || word.ends_with(|last: char| last.is_ascii_digit());
        if words.last().is_some_and(|word| is_open(word)) {
            continue;
        }
        let kept = words.join(" ");
        let kept = format!("{}{mark}", kept.trim_end_matches([',', ':']));
        if let Some(lines) = prose_within(&kept, columns, most) {
            return lines;
        }
    }
    prose(&cut(text, columns, style), columns)
}

/// The text, or as many of its clauses as fit in `most` lines: sentences, clauses behind a
/// semicolon and commands are never cut. `None` if the first does not fit.
fn clauses_within(text: &str, columns: usize, most: usize, style: &Style) -> Option<Vec<String>> {
    let whole = prose_within(text, columns, most);
    if whole.is_some() {
        return whole;
    }
    let mark = style.either(" …", " ...");
    let ends = text.match_indices(['.', ';']).map(|(at, _)| at);
    let is_end = |at: &usize| {
        let (before, after) = text.split_at(*at);
        after[1..].starts_with(' ') && before.matches('`').count() % 2 == 0
    };
    let clauses: Vec<usize> = ends.filter(is_end).collect();
    let mut shorter = clauses.iter().rev().map(|end| format!("{}{mark}", &text[..*end]));
    shorter.find_map(|text| prose_within(&text, columns, most))
}

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
    let warned =
        diagnosis.findings.iter().filter(|finding| finding.severity > Severity::Info).count();
    let shown = if warned == 0 { 1 } else { warned.min(SHOWN) };
    if warned == 0 {
        screen.prose(&readable(&none_above(diagnosis), screen.style), 2, Paint::Plain);
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

/// Writes every finding in full, and the sentences for a diagnosis without one.
pub(crate) fn all(diagnosis: &Diagnosis, screen: &mut Screen) {
    if diagnosis.findings.iter().all(|finding| finding.severity == Severity::Info) {
        screen.prose(&readable(&none_above(diagnosis), screen.style), 0, Paint::Plain);
    }
    for (index, finding) in diagnosis.findings.iter().enumerate() {
        screen.gap();
        one(index + 1, finding, screen);
    }
    screen.gap();
    for sentence in &diagnosis.red_herrings {
        let text = format!("not the cause: {}", readable(sentence, screen.style));
        screen.prose(&text, 0, Paint::Faint);
    }
    rest(diagnosis, diagnosis.findings.len(), screen);
}

/// The findings that are worth a warning, a sentence each, with how they look; where there is none,
/// that.
pub(crate) fn headline(diagnosis: &Diagnosis, style: &Style) -> Vec<(String, Paint)> {
    let worth = diagnosis.findings.iter().filter(|finding| finding.severity > Severity::Info);
    let line = |finding: &Finding| {
        (capitalised(&readable(&finding.sentence, style)), severity_paint(finding.severity))
    };
    let lines: Vec<(String, Paint)> = worth.map(line).collect();
    match lines.is_empty() {
        true => vec![(readable(&none(diagnosis), style), Paint::Plain)],
        false => lines,
    }
}

/// The first line if no finding is a warning.
pub(crate) fn none(diagnosis: &Diagnosis) -> String {
    if let Some(unjudged) = &diagnosis.unjudged {
        return unjudged.clone();
    }
    let checked = diagnosis.clear;
    match &diagnosis.quiet {
        // Whom storage bounds most of the time is the answer, though nothing is wrong with it.
        Some(quiet) if diagnosis.is_explained => quiet.clone(),
        Some(quiet) if diagnosis.is_bound => {
            format!("{quiet} None of {checked} known causes was found.")
        }
        Some(quiet) => format!("No problem found ({checked} causes checked). {quiet}"),
        None => format!("No problem found ({checked} causes checked)."),
    }
}

/// Returns that line above the findings that follow.
fn none_above(diagnosis: &Diagnosis) -> String {
    let follows = diagnosis.findings.first().map(|finding| match finding.layer {
        FindingLayer::Bottleneck => " The longest waits:",
        FindingLayer::Cause => " Minor:",
    });
    format!("{}{}", none(diagnosis), follows.unwrap_or_default())
}

/// Returns a note on the data that the diagnosis used, if it is more than the data that is shown.
pub(crate) fn judged(diagnosis: &Diagnosis, summary: &Summary) -> Option<String> {
    let (judged, shown) = (&diagnosis.judged_filter, &summary.environment.filter);
    match judged.as_str() {
        _ if judged == shown => None,
        "" => Some("the diagnosis ignores the filter of the rows below".to_owned()),
        filter => {
            Some(format!("the diagnosis is filtered by {filter} only, the rows below by more"))
        }
    }
}

fn one(number: usize, finding: &Finding, screen: &mut Screen) {
    let style = *screen.style;
    let text = capitalised(&readable(&finding.sentence, &style));
    numbered(number, &prose(&text, style.columns() - INDENT), finding.severity, screen);
    screen.prose(&readable(&weight(finding, &style), &style), INDENT, Paint::Faint);
    if let Some(waits) = &finding.waits {
        screen.prose(&capitalised(&readable(waits, &style)), INDENT, Paint::Plain);
    }
    for evidence in finding.evidence.iter().take(EVIDENCE) {
        screen.prose(&readable(&row(evidence, &style), &style), INDENT, Paint::Plain);
    }
    screen.prose(&format!("fix    {}", readable(&finding.fix, &style)), INDENT, Paint::Plain);
    screen.prose(&format!("check  {}", readable(&finding.check, &style)), INDENT, Paint::Faint);
}

/// The lines of a finding's sentence behind its number, in the colour of its severity.
fn numbered(number: usize, lines: &[String], severity: Severity, screen: &mut Screen) {
    let style = *screen.style;
    let paint = severity_paint(severity);
    let lead = format!("{number:>2}  ");
    for (index, line) in lines.iter().enumerate() {
        let before = if index == 0 { lead.clone() } else { " ".repeat(INDENT) };
        let painted = style.paint(line, paint);
        screen.line(&format!("{before}{painted}"));
    }
}

fn severity_paint(severity: Severity) -> Paint {
    match severity {
        Severity::Info => Paint::Plain,
        Severity::Warning => Paint::Heading,
        Severity::Critical => Paint::Alert,
    }
}

/// Severity, confidence and what is lost: `critical, certain: mysqld loses 8.90 s of 10.0 s
/// (fsync-heavy)`.
fn loss(finding: &Finding, style: &Style) -> String {
    let (severity, sure) = (finding.severity.word(), finding.confidence.word());
    let lost = own_loss(finding, style).or_else(|| impact(finding));
    let lost = lost.map(|lost| format!(": {lost}")).unwrap_or_default();
    format!("{severity}, {sure}{lost} ({})", finding.cause)
}

/// Returns how much time the program loses that would gain most, and of how much; `None` if that is
/// next to nothing, or if nobody is known to be held up.
fn own_loss(finding: &Finding, style: &Style) -> Option<String> {
    let gain = finding.gain.as_ref().filter(|gain| gain.share >= LEAST_LOSS)?;
    let process = gain.process.as_ref()?;
    let limit = if finding.impact_at_most { "up to " } else { "" };
    let [lost, watch] = [gain.time_ns, gain.watch_ns].map(|ns| human::time(ns as f64, style));
    Some(match gain.processes {
        0 | 1 if gain.time_ns <= gain.watch_ns => {
            format!("{process} loses {limit}{lost} of {watch}")
        }
        0 | 1 => format!("threads of {process} lose {limit}{lost} within {watch}"),
        many => format!("{many} processes of {process} lose {limit}{lost} within {watch}"),
    })
}

/// Severity, losses and confidence: `critical: mysqld loses 8.90 s of 10.0 s; 40 % of the blocked
/// time; certain; fsync-heavy`.
pub(crate) fn weight(finding: &Finding, style: &Style) -> String {
    format!("{}: {}", finding.severity.word(), weight_alone(finding, style))
}

/// Returns losses and confidence, without the severity.
pub(crate) fn weight_alone(finding: &Finding, style: &Style) -> String {
    let sure = finding.confidence.word().to_owned();
    let mut parts: Vec<String> = own_loss(finding, style).into_iter().collect();
    parts.extend(impact(finding));
    parts.extend([sure, finding.cause.to_owned()]);
    let mut symptoms = finding.symptoms.clone();
    symptoms.sort_unstable();
    symptoms.dedup();
    if !symptoms.is_empty() {
        parts.push(format!("symptoms: {}", symptoms.join(", ")));
    }
    parts.join("; ")
}

/// `88 % of the blocked time`, if it is known.
fn impact(finding: &Finding) -> Option<String> {
    let of = match finding.impact_of {
        ImpactOf::BlockedTime => "of the blocked time",
        ImpactOf::DeviceTime => "of the device's time",
        ImpactOf::Unknown => return None,
    };
    Some(format!("{} {of}", share(finding)))
}

/// `88 %`, or `at most 88 %` if the time without the cause is not known.
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
        "1/s" => format!("{}/s", human::rate(figure)),
        "" => human::rate(figure),
        "°C" => readable(&format!("{figure:.0} °C"), style),
        // The label names what is counted: `requests in flight: 32`.
        unit if evidence.what.split(' ').any(|word| word == unit) => plain(figure),
        unit if figure.fract() == 0.0 => counted(figure as u64, unit),
        unit => format!("{} {unit}", human::rate(figure)),
    }
}

fn plain(figure: f64) -> String {
    if figure.fract() == 0.0 { human::count(figure as u64) } else { human::rate(figure) }
}

/// Text of the diagnosis, which quotes untrusted names.
pub(crate) fn readable(text: &str, style: &Style) -> String {
    let text = match style.unicode {
        true => text.to_owned(),
        false => text.replace('µ', "u").replace('°', ""),
    };
    escape(&text, style).into_owned()
}

pub(crate) fn capitalised(text: &str) -> String {
    // Only sentences that begin with one of these words are capitalized, never names.
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
        text.push(plural(more as u64, "more finding"));
    }
    // If nothing was recorded, the answer says so.
    if !diagnosis.not_judged.is_empty() && diagnosis.unjudged.is_none() {
        let causes = plural(diagnosis.not_judged.len() as u64, "cause");
        text.push(format!("{causes} could not be judged"));
    }
    if !text.is_empty() {
        let more = screen.command("iowhy explain");
        screen.prose(&format!("{} ({more})", text.join("; ")), 2, Paint::Faint);
    }
}
