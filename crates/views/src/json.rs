//! Everything that iowhy says about a watch, for programs.

use crate::escape::is_deceptive;
use iowhy_core::analysis::Summary;
use iowhy_core::analysis::summary::{BlameSummary, Chains, Ledger, Watch};
use iowhy_core::diagnosis::Diagnosis;
use iowhy_core::diff::Comparison;
use iowhy_core::model::Losses;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The version of the report's layout: names stay, more may be added.
pub(crate) const FORMAT: u32 = 1;

/// What the ends of field names say about their values.
const UNITS: &[(&str, &str)] = &[
    ("_ns", "nanoseconds"),
    ("bytes", "bytes"),
    ("_bytes", "bytes"),
    ("requests", "requests"),
    ("_requests", "requests"),
    ("_per_s", "per second of the watch"),
    ("_share", "0 to 1"),
    ("_sectors", "512 bytes"),
    ("aqu_sz", "requests"),
    ("in_flight_mean", "requests"),
    ("null", "not known, or there was none"),
];

/// Findings and the summary as JSON, indented, with a newline at its end. Names are exact, but
/// characters that could break a terminal are written as `\u` escapes.
pub fn render(summary: &Summary, diagnosis: &Diagnosis) -> String {
    #[derive(Serialize)]
    struct Report<'a> {
        #[serde(flatten)]
        diagnosis: &'a Diagnosis,
        #[serde(flatten)]
        summary: &'a Summary,
    }
    document(Report { diagnosis, summary })
}

/// The chains of waits alone, as JSON like that of [`render`].
pub fn chains(summary: &Summary) -> String {
    #[derive(Serialize)]
    struct Alone<'a> {
        chains: &'a Option<Chains>,
    }
    part(summary, Alone { chains: &summary.chains })
}

/// Who made whom wait alone, with the ledger, as JSON like that of [`render`].
pub fn blame(summary: &Summary) -> String {
    #[derive(Serialize)]
    struct Alone<'a> {
        ledger: &'a Option<Ledger>,
        blame: &'a Option<BlameSummary>,
    }
    part(summary, Alone { ledger: &summary.ledger, blame: &summary.blame })
}

/// Two watches compared, as JSON like that of [`render`].
pub fn diff(comparison: &Comparison) -> String {
    document(comparison)
}

/// A part of a summary, with what every part needs to be read rightly.
pub(crate) fn part<T: Serialize>(summary: &Summary, what: T) -> String {
    #[derive(Serialize)]
    struct Part<'a, T> {
        watch: &'a Watch,
        losses: &'a Losses,
        #[serde(flatten)]
        what: T,
    }
    document(Part { watch: &summary.watch, losses: &summary.losses, what })
}

/// An object with what every one of them begins with: the version of the layout, and the units.
pub(crate) fn document<T: Serialize>(what: T) -> String {
    #[derive(Serialize)]
    struct Document<T> {
        format: u32,
        units: BTreeMap<&'static str, &'static str>,
        #[serde(flatten)]
        what: T,
    }
    text(&Document { format: FORMAT, units: UNITS.iter().copied().collect(), what })
}

/// As indented JSON, with a newline at its end.
fn text<T: Serialize>(value: &T) -> String {
    // Writing to a String cannot fail, and every key is a text.
    let mut json = serde_json::to_string_pretty(value).unwrap_or_default();
    json.push('\n');
    escaped(json)
}

/// JSON with every character escaped that could break a terminal.
pub(crate) fn escaped(json: String) -> String {
    if json.chars().any(must_escape) { escape(&json) } else { json }
}

/// Characters beyond ASCII stand only within texts, so that they can be escaped wherever they are.
fn must_escape(char: char) -> bool {
    char == '\u{7f}' || (!char.is_ascii() && is_deceptive(char))
}

fn escape(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len() + 64);
    for char in json.chars() {
        if must_escape(char) {
            for unit in char.encode_utf16(&mut [0; 2]) {
                // Writing to a String cannot fail.
                write!(escaped, "\\u{unit:04x}").unwrap_or(());
            }
        } else {
            escaped.push(char);
        }
    }
    escaped
}
