//! The complete report of a watch, as JSON.

use crate::escape::is_deceptive;
use iowhy_analysis::Summary;
use iowhy_analysis::summary::{BlameSummary, ChainReport, Ledger, WatchSummary};
use iowhy_diagnosis::Diagnosis;
use iowhy_diagnosis::diff::Comparison;
use iowhy_model::Losses;
use iowhy_model::clock::WallClock;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The version of the report's layout: fields may be added, none is renamed.
pub(crate) const FORMAT: u32 = 1;

/// The version of the JSON Schema of full and brief reports: `FORMAT`, and a number that grows
/// with each added name.
pub const SCHEMA_VERSION: &str = "1.0";

/// Suffixes of field names, and the units that they stand for.
const UNITS: &[(&str, &str)] = &[
    ("_ns", "nanoseconds"),
    ("bytes", "bytes"),
    ("_bytes", "bytes"),
    ("requests", "requests"),
    ("_requests", "requests"),
    ("_per_s", "per second of the recording"),
    ("_share", "0 to 1"),
    ("_sectors", "512 bytes"),
    ("aqu_sz", "requests"),
    ("in_flight_mean", "requests"),
    ("null", "not known, or there was none"),
];

/// Findings and the summary as indented JSON with a final newline. Names are exact; characters that
/// could break a terminal are written as `\u` escapes.
pub fn render(summary: &Summary, diagnosis: &Diagnosis) -> String {
    let start = WallClock::from_environment(&summary.environment);
    let start = start.map(|clock| clock.rfc3339(summary.environment.start_ns));
    document(JsonReport { start, diagnosis, summary })
}

/// Everything that iowhy says about one watch.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct JsonReport<'a> {
    /// When the watch began, RFC 3339 with the host's offset from UTC; null where only the
    /// capture's own clock is known.
    start: Option<String>,
    #[serde(flatten)]
    diagnosis: &'a Diagnosis,
    #[serde(flatten)]
    summary: &'a Summary,
}

/// Wait chains only, as JSON like that of [`render`].
pub fn chains(summary: &Summary) -> String {
    #[derive(Serialize)]
    struct ChainsJson<'a> {
        chains: &'a Option<ChainReport>,
    }
    part(summary, ChainsJson { chains: &summary.chains })
}

/// Blame and the ledger only, as JSON like that of [`render`].
pub fn blame(summary: &Summary) -> String {
    #[derive(Serialize)]
    struct BlameJson<'a> {
        ledger: &'a Option<Ledger>,
        blame: &'a Option<BlameSummary>,
    }
    part(summary, BlameJson { ledger: &summary.ledger, blame: &summary.blame })
}

/// Two watches compared, as JSON like that of [`render`].
pub fn diff(comparison: &Comparison) -> String {
    document(comparison)
}

/// A part of a summary, with the fields that every part needs.
pub(crate) fn part<T: Serialize>(summary: &Summary, what: T) -> String {
    #[derive(Serialize)]
    struct Part<'a, T> {
        watch: &'a WatchSummary,
        losses: &'a Losses,
        #[serde(flatten)]
        what: T,
    }
    document(Part { watch: &summary.watch, losses: &summary.losses, what })
}

/// An object with the fields that all begin with: the version of the layout, and the units.
pub(crate) fn document<T: Serialize>(what: T) -> String {
    text(&JsonDocument {
        format: FORMAT,
        schema_version: SCHEMA_VERSION,
        units: UNITS.iter().copied().collect(),
        what,
    })
}

/// What every document begins with.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct JsonDocument<T> {
    /// The version of the layout.
    format: u32,
    /// The version of the JSON Schema, `MAJOR.MINOR`: a minor version adds names, a major one
    /// changes them.
    schema_version: &'static str,
    /// What the ends of field names say about their values.
    units: BTreeMap<&'static str, &'static str>,
    #[serde(flatten)]
    what: T,
}

/// As indented JSON with a final newline.
fn text<T: Serialize>(value: &T) -> String {
    // Writing to a String cannot fail, and every key is a text.
    let mut json = serde_json::to_string_pretty(value).unwrap_or_default();
    json.push('\n');
    escaped(json)
}

/// JSON in which every character that could break a terminal is escaped; it means the same.
pub fn escaped(json: String) -> String {
    if json.chars().any(must_escape) { escape(&json) } else { json }
}

/// Non-ASCII characters occur only within strings, so all of them can be escaped.
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
