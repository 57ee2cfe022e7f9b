//! The page of the account of writers, in one file, without script.
//!
//! What does not belong here: figures, and their sentences ([`super::text`]).

use super::WriterRecord;
use super::question::{AnswerRow, GroupedBy, WriterAnswer, WriterQuestion, written_over_time};
use super::text::{a_day, factor_text, program, sentence, waker, wear_text, worth};
use crate::clock::LocalTime;
use iowhy_views::escape::escape;
use iowhy_views::html::{bars, picture, plain_page, style};
use iowhy_views::human;
use iowhy_views::style::Style;
use maud::{Markup, html};

/// Bars of the picture.
const PARTS: usize = 144;
/// The headings of a writer's figures, and of a device's.
const FIGURES: [&str; 7] = ["written", "asked", "amplif", "data", "journal", "metadata", "read"];
const DEVICE_FIGURES: [&str; 6] =
    ["written", "a day", "read", "discarded", "not recorded", "wakes"];
/// Programs that woke disks.
const MOST_WAKES: usize = 20;

/// Formats the page of an answer, with at most `rows` rows; `records` are those that it was made
/// of.
pub fn page(
    answer: &WriterAnswer,
    records: &[WriterRecord],
    question: &WriterQuestion,
    rows: usize,
) -> String {
    let style = style();
    let (from, until) =
        (LocalTime::of_seconds(answer.from_s).to_string(), LocalTime::of_seconds(answer.until_s));
    let watched = human::time(answer.watched_s as f64 * 1e9, &style);
    let body = html! {
        h1 { "Who writes" }
        p.faint { (from) " to " (until) " (" (watched) " watched)"
            @if let Some(device) = &question.device { " · " (escape(device, &style)) }
            @if let Some(file) = &question.file { " · files with " (escape(file, &style)) }
        }
        (findings(answer, &style))
        (over_time(answer, records, question))
        (writers(answer, rows, &style))
        (devices(answer, &style))
        (wakes(answer, &style))
    };
    plain_page("iowhy: who writes", &body, "`iowhy history --who` shows the same on a terminal.")
}

fn findings(answer: &WriterAnswer, style: &Style) -> Markup {
    html! {
        @for finding in &answer.findings {
            div class="finding warning" {
                h3 { (finding.cause) }
                p { (escape(&finding.sentence, style)) }
                p { b { "Fix: " } (escape(&finding.fix, style)) }
            }
        }
    }
}

fn over_time(answer: &WriterAnswer, records: &[WriterRecord], question: &WriterQuestion) -> Markup {
    let values = written_over_time(records, question, PARTS);
    let most = values.iter().copied().fold(0.0, f64::max);
    let [from, until] =
        [answer.from_s, answer.until_s].map(|time_s| LocalTime::of_seconds(time_s).to_string());
    let top = format!("{}/s", human::bytes(most));
    picture("Written by devices over time", ["0", &top, &from, &until], &bars(&values, "blue"))
}

fn writers(answer: &WriterAnswer, most: usize, style: &Style) -> Markup {
    let more = answer.rows.len().saturating_sub(most);
    let by_file = answer.by == GroupedBy::File;
    html! {
        table {
            tr {
                @if by_file { th { "file" } th { "class" } }
                th { "program" } th { "container" }
                @for heading in FIGURES { th.figure { (heading) } }
            }
            @for row in answer.rows.iter().take(most) { (writer(row, by_file, style)) }
        }
        @if more > 0 { p.faint { "and " (more) " more: --rows" } }
        @let worth = worth(answer);
        @if !worth.is_empty() {
            h2 { "What it costs" }
            ul { @for row in worth { li { (sentence(row, answer.by, style)) } } }
        }
    }
}

fn writer(row: &AnswerRow, by_file: bool, style: &Style) -> Markup {
    let sum = |name: &str| row.sums.get(name).copied().unwrap_or(0);
    let figures = [
        bytes(row.written_bytes),
        bytes(sum("asked_bytes")),
        row.amplification.map_or_else(|| "-".to_owned(), |factor| factor_text(factor, style)),
        bytes(sum("data_bytes")),
        bytes(sum("journal_bytes")),
        bytes(sum("metadata_bytes")),
        bytes(sum("read_bytes")),
    ];
    html! {
        tr {
            @if by_file {
                td { (escape(row.file.as_deref().unwrap_or_default(), style)) }
                td { (row.file_class.as_deref().unwrap_or_default()) }
            }
            td { (program(row, style)) }
            td { (escape(&row.container, style)) }
            @for figure in figures { td.figure { (figure) } }
        }
    }
}

fn bytes(bytes: u64) -> String {
    match bytes {
        0 => "-".to_owned(),
        bytes => human::bytes(bytes as f64),
    }
}

fn devices(answer: &WriterAnswer, style: &Style) -> Markup {
    html! {
        @if !answer.devices.is_empty() {
            h2 { "Devices" }
            table {
                tr {
                    th { "device" }
                    @for heading in DEVICE_FIGURES { th.figure { (heading) } }
                    th { "wear" }
                }
                @for device in &answer.devices { tr {
                    td { (escape(&device.device, style)) }
                    td.figure { (bytes(device.written_bytes)) }
                    td.figure { (human::bytes(a_day(device, answer))) }
                    td.figure { (bytes(device.read_bytes)) }
                    td.figure { (bytes(device.discarded_bytes)) }
                    td.figure { (bytes(device.unseen_bytes)) }
                    td.figure { (device.wakes) }
                    td { (wear_text(device)) }
                } }
            }
        }
    }
}

fn wakes(answer: &WriterAnswer, style: &Style) -> Markup {
    html! {
        @if !answer.wakes.is_empty() {
            h2 { "Who wakes idle disks" }
            p.faint { "The first request after a minute without one." }
            table {
                tr { th { "device" } th.figure { "times" } th { "program" } th { "file" } }
                @for wake in answer.wakes.iter().take(MOST_WAKES) { tr {
                    td { (escape(&wake.device, style)) }
                    td.figure { (wake.wakes) }
                    td { (waker(&wake.program, style)) }
                    td { (escape(&wake.file, style)) }
                } }
            }
        }
    }
}
