//! A watch as one HTML file that opens without network: the answer as plain text, the tables, and
//! the charts' data with the script that draws them.
//!
//! | where | what |
//! |---|---|
//! | here | the document: its head, its parts, its foot |
//! | `data` | the charts' data: compact columns, compressed |
//! | `marks` | moments, limits and modes that charts mark |
//! | `columns` | how a column of numbers becomes bytes |
//! | `answer` | the findings |
//! | `sections` | tables, environment, losses, commands |
//! | `compared` | two watches compared |
//! | `share` | a small page for a ticket, without charts |
//! | `plain` | the frame of pages without script |
//! | `web/` (TypeScript) | what draws the charts and filters them |
//!
//! Names that anybody may have chosen are escaped twice: what could deceive a reader, as on a
//! terminal, and what HTML would take for markup. The page's policy allows its own script and style
//! alone.
//!
//! What does not belong here: figures (crate `iowhy-analysis`).

mod answer;
mod columns;
mod compared;
mod data;
mod marks;
mod plain;
mod sections;
mod share;
#[cfg(test)]
mod tests;

use crate::escape::escape;
use crate::human;
use crate::style::Style;
use crate::text::header;
use iowhy_analysis::Summary;
use iowhy_analysis::charts::Charts;
use iowhy_diagnosis::Diagnosis;
use iowhy_model::Names;
use maud::{DOCTYPE, Markup, PreEscaped, html};

pub use compared::{PageSide, compare};
pub use data::SCHEMA;
pub use plain::{bars, picture, plain_page};
pub use share::{MOST_SHARED_BYTES, share};

const SCRIPT: &str = include_str!(concat!(env!("OUT_DIR"), "/page.js"));
const SCRIPT_HASH: &str = include_str!(concat!(env!("OUT_DIR"), "/page.js.sha256"));
const CSS: &str = include_str!(concat!(env!("OUT_DIR"), "/page.css"));
const CSS_HASH: &str = include_str!(concat!(env!("OUT_DIR"), "/page.css.sha256"));
const LICENCES: &str = include_str!(concat!(env!("OUT_DIR"), "/licences.txt"));

/// Rows that a table of the page has at most.
const ROWS: usize = 25;

/// The content of a page.
#[derive(Clone, Copy, Debug)]
pub struct PageInput<'a> {
    /// The summary that is shown.
    pub summary: &'a Summary,
    /// The diagnosis of it.
    pub diagnosis: &'a Diagnosis,
    /// The data of the charts.
    pub charts: &'a Charts,
    /// The texts of the charts.
    pub names: &'a Names,
    /// The source as a command line names it; `None` for a live watch.
    pub source: Option<&'a str>,
}

/// A reason why there is no page.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// The program was built without the page's script.
    #[error("this iowhy was built without the page's script and style")]
    NotEmbedded,
    /// The data could not be compressed.
    #[error("failed to compress the charts' data: {0}")]
    Compress(#[from] std::io::Error),
}

/// Whether the page's script and style are part of this program.
pub fn is_embedded() -> bool {
    !SCRIPT.is_empty()
}

/// The page of one watch.
///
/// # Errors
/// Fails if the program was built without the page's script.
pub fn render(page: &PageInput<'_>) -> Result<String, PageError> {
    if !is_embedded() {
        return Err(PageError::NotEmbedded);
    }
    self::page(page)
}

fn page(page: &PageInput<'_>) -> Result<String, PageError> {
    let style = style();
    let data = data::encode(&[(None, page)])?;
    let host = escape(&page.summary.environment.host, &style);
    let title = match host.is_empty() {
        true => "iowhy report".to_owned(),
        false => format!("iowhy report: {host}"),
    };
    let facts = header::facts(page.summary, &style);
    // Losses that hardly change the answer do not stand before it.
    let are_material = header::are_losses_material(page.summary);
    let body = html! {
        header.top {
            p.brand { "iowhy" span.sub { " why is my disk slow?" } }
            (answer::headline(page.diagnosis, &style))
            ul.facts { @for (fact, _) in facts.iter().skip(1) { li { (fact) } } }
        }
        (contents())
        main {
            @if are_material { (answer::notes(page.summary, page.source, &style)) }
            (answer::findings(page, &style))
            @if !are_material { (answer::quiet_notes(page.summary, page.source, &style)) }
            (charts())
            (sections::tables(page, &style))
            (sections::environment(page.summary, &style))
            (sections::commands(page, &style))
        }
        (foot(page, &style))
    };
    Ok(document(&title, &body, &data))
}

/// The parts of the page, which stay in sight.
fn contents() -> Markup {
    const PARTS: [(&str, &str); 7] = [
        ("#why", "Why"),
        ("#charts", "Over time"),
        ("#selection", "Selection"),
        ("#distributions", "Distributions"),
        ("#figures", "Figures"),
        ("#machine", "Environment"),
        ("#terminal", "On a terminal"),
    ];
    html! {
        nav.contents aria-label="Contents" {
            @for (place, name) in PARTS { a href=(place) { (name) } }
        }
    }
}

/// Returns the style of names and figures on a page.
pub fn style() -> Style {
    Style { rows: ROWS, ..Style::plain(100_000) }
}

/// Draws the place where the script puts the charts.
fn charts() -> Markup {
    html! {
        section #charts aria-label="Charts" {
            noscript {
                p.note { "The charts need JavaScript. Everything above and below them does not." }
            }
            p #charts-state .note role="status" {}
        }
    }
}

fn foot(page: &PageInput<'_>, style: &Style) -> Markup {
    let version = escape(&page.summary.environment.version, style);
    html! {
        footer {
            (reduction(page, style))
            @if !version.is_empty() { p { "Recorded by iowhy " (version) "." } }
            (licences())
        }
    }
}

fn licences() -> Markup {
    html! {
        p {
            "Written by iowhy " (env!("CARGO_PKG_VERSION"))
            ". The page is one file: it loads nothing and sends nothing."
        }
        details { summary { "Licences of the libraries in this page" } pre { (LICENCES) } }
    }
}

/// Draws a note on the part of the watch that the charts hold.
fn reduction(page: &PageInput<'_>, style: &Style) -> Markup {
    let charts = page.charts;
    let others = if charts.left_out > 0 {
        format!(" {} requests are in no chart over time: they differ too much.", charts.left_out)
    } else {
        String::new()
    };
    let column = human::time(charts.column_ns as f64, style);
    let sums = if charts.is_estimated { "estimated" } else { "exact" };
    html! {
        p.reduction {
            "What the charts hold: " (sums) " sums in columns of " (column)
            " and in latency bins that are at most an eighth wide, so percentiles are up to 13 % \
             too high; the " (charts.owners.len().saturating_sub(1)) " processes and "
            (charts.files.len().saturating_sub(1))
            " files with the most time, all others together; single requests as points: "
            (points(page)) "."
            (others) " A request counts for the process and file that most of its bytes belong to. \
            The rest is in the recording."
        }
        @if charts.is_estimated { p.estimated.alert { (estimate(page)) } }
    }
}

fn points(page: &PageInput<'_>) -> String {
    let (chosen, of) = (&page.charts.chosen, page.charts.chosen.of);
    let shown = chosen.by_chance.len() as u64;
    let recorded = if page.charts.is_estimated { "recorded requests" } else { "requests" };
    if shown == of {
        return format!("all {} {recorded}", human::count(shown));
    }
    format!(
        "{} of {} {recorded}, chosen by chance, and the {} slowest",
        human::count(shown),
        human::count(of),
        human::count(chosen.slowest.len() as u64)
    )
}

/// Returns the reason why sums are not exact, and the figures that are.
fn estimate(page: &PageInput<'_>) -> String {
    let environment = &page.summary.environment;
    let share = |one_in: Option<u32>, what: &str| {
        let one_in = human::count(one_in?.into());
        Some(format!("1 of {one_in} {what}"))
    };
    let shares: Vec<String> = [
        share(environment.requests_one_in(), "requests"),
        share(environment.waits_one_in(), "waits"),
    ]
    .into_iter()
    .flatten()
    .collect();
    let recorded = match shares.is_empty() {
        true => "not all requests and waits were recorded".to_owned(),
        false => format!("at times only {} recorded", shares.join(" and ")),
    };
    let exact = match environment.exact_counts.is_empty() {
        true => "",
        false => {
            " Sums of a device are the kernel's exact counts, and rates of devices over time are \
             drawn from its counters; what only rows have (processes, files, latency) is estimated."
        }
    };
    format!(
        "The charts are estimated: to stay within its budget (--budget), {recorded}. Each row \
         counts as often as it stands for; slow requests were all recorded.{exact}"
    )
}

/// A text with commands between backticks.
fn prose(text: &str) -> Markup {
    html! {
        @for (index, part) in text.split('`').enumerate() {
            @if index % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

/// The whole file.
fn document(title: &str, body: &Markup, data: &str) -> String {
    let policy = format!(
        "default-src 'none'; script-src 'sha256-{SCRIPT_HASH}'; style-src 'sha256-{CSS_HASH}'; \
         img-src data:; base-uri 'none'; form-action 'none'"
    );
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="referrer" content="no-referrer";
                title { (title) }
                style { (PreEscaped(CSS)) }
            }
            body {
                a.skip href="#charts" { "Skip to the charts" }
                (body)
                script type="text/plain" id="iowhy-data" { (PreEscaped(data)) }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    let mut text = page.into_string();
    text.push('\n');
    text
}
