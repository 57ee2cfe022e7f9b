//! A page for a ticket: findings, evidence and three pictures, without the charts' data and script,
//! so that it is small enough for any tracker and mail.
//!
//! What does not belong here: the page with charts ([`super::render`]).

use super::plain::{bars, picture, plain_page};
use super::{PageInput, answer, prose, style};
use crate::escape::escape;
use crate::human;
use crate::style::Style;
use crate::text::header;
use iowhy_analysis::Direction;
use iowhy_analysis::charts::cells::{CellKey, CellSums};
use iowhy_analysis::summary::{Bucket, DeviceSummary};
use iowhy_model::WaitClass;
use maud::{Markup, html};

/// The most that a page for a ticket may have, bytes.
pub const MOST_SHARED_BYTES: usize = 200_000;

/// Columns of time in a picture.
const COLUMNS: usize = 180;
/// Wait classes in a picture.
const CLASSES: usize = 6;

/// The page of one watch for a ticket; at most [`MOST_SHARED_BYTES`].
pub fn share(page: &PageInput<'_>) -> String {
    let whole = document(page, usize::MAX);
    if whole.len() <= MOST_SHARED_BYTES {
        return whole;
    }
    // The first findings matter most.
    (0..page.diagnosis.findings.len())
        .rev()
        .map(|count| document(page, count))
        .find(|text| text.len() <= MOST_SHARED_BYTES)
        .unwrap_or_else(|| document(page, 0))
}

fn document(page: &PageInput<'_>, findings: usize) -> String {
    let style = style();
    let mut diagnosis = page.diagnosis.clone();
    let left_out = diagnosis.findings.len().saturating_sub(findings);
    diagnosis.findings.truncate(findings);
    let page = PageInput { diagnosis: &diagnosis, ..*page };
    let facts = header::facts(page.summary, &style);
    let body = html! {
        (answer::headline(page.diagnosis, &style))
        p.faint { @for (index, (fact, _)) in facts.iter().enumerate() {
            @if index > 0 { " · " } (fact)
        } }
        (answer::findings(&page, &style))
        @if left_out > 0 { p.faint { "Findings left out for size: " (left_out) } }
        h2 { "Pictures" }
        (rates(&page, &style))
        (latencies(&page, &style))
        (waits(&page, &style))
        (answer::notes(page.summary, page.source, &style))
    };
    plain_page("iowhy", &body, "The recording has the rest.")
}

/// Requests per second.
fn rates(page: &PageInput<'_>, style: &Style) -> Markup {
    let charts = page.charts;
    let length_ns = charts.length_ns.max(1);
    let each_ns = length_ns as f64 / COLUMNS as f64;
    let mut values = vec![0.0; COLUMNS];
    let requests = |(key, sums): &(CellKey, CellSums)| (key.column, sums.measure.count as f64);
    for (column, requests) in charts.requests.iter().map(requests) {
        // Shared out by overlap: columns of another width would make a comb where there is none.
        let from_ns = u64::from(column).saturating_mul(charts.column_ns.max(1)) as f64;
        let to_ns = (from_ns + charts.column_ns.max(1) as f64).min(length_ns as f64);
        let first = (from_ns / each_ns) as usize;
        for (place, value) in values.iter_mut().enumerate().skip(first) {
            let (own_from, own_to) = (place as f64 * each_ns, (place + 1) as f64 * each_ns);
            let overlap_ns = to_ns.min(own_to) - from_ns.max(own_from);
            if overlap_ns <= 0.0 {
                break;
            }
            *value += requests * overlap_ns / (to_ns - from_ns) / (each_ns / 1e9);
        }
    }
    let most = values.iter().copied().fold(0.0, f64::max);
    let until = human::time(length_ns as f64, style);
    let axes = ["0", &format!("{}/s", human::rate(most)), "0 s", &until];
    picture("Requests per second over the watch", axes, &bars(&values, "blue"))
}

/// Draws the times of requests of the first finding's device.
fn latencies(page: &PageInput<'_>, style: &Style) -> Markup {
    let named =
        page.diagnosis.findings.first().and_then(|finding| finding.subject.device.as_deref());
    let devices = &page.summary.devices;
    let device =
        devices.iter().find(|device| Some(device.device.as_str()) == named).or(devices.first());
    let histogram = |device: &DeviceSummary, direction| -> Vec<Bucket> {
        device.directions[direction].q2c_histogram.clone()
    };
    html! {
        @if let Some(device) = device {
            @for direction in [Direction::Read, Direction::Write] {
                @let buckets = histogram(device, direction);
                @if let (Some(first), Some(last)) = (buckets.first(), buckets.last()) {
                    @let values: Vec<f64> =
                        buckets.iter().map(|bucket| bucket.requests as f64).collect();
                    @let most = values.iter().copied().fold(0.0, f64::max);
                    @let name = escape(&device.device, style);
                    @let title = format!("Time of {}s of {name}, requests by latency",
                        direction.word());
                    @let (from, to) = (first.from_ns as f64, last.to_ns as f64);
                    (picture(
                        &title,
                        ["0", &human::count(most as u64), &human::time(from, style),
                            &human::time(to, style)],
                        &bars(&values, "green"),
                    ))
                }
            }
        }
    }
}

/// Draws the places where threads waited, a bar for each class.
fn waits(page: &PageInput<'_>, style: &Style) -> Markup {
    let Some(ledger) = &page.summary.ledger else { return html! {} };
    let rows: Vec<_> = ledger.classes.iter().filter(|row| row.time_ns > 0).take(CLASSES).collect();
    let most = rows.iter().map(|row| row.time_ns).max().unwrap_or(0).max(1) as f64;
    html! {
        @if !rows.is_empty() {
            figure {
                figcaption { "Where threads waited, by wait class" }
                table { tbody { @for row in rows {
                    @let share = row.time_ns as f64 / most * 100.0;
                    tr {
                        th scope="row" { (prose(WaitClass::phrase_of(row.class))) }
                        td.figure { (human::time(row.time_ns as f64, style)) }
                        td.wide {
                            svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true" {
                                rect width=(format!("{share:.1}")) height="10" class="blue" {}
                            }
                        }
                    }
                } } }
            }
        }
    }
}
