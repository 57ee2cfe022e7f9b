//! `iowhy latency`: biolatency's and iolatency's histograms.

use super::IntervalView;
use crate::escape::escape;
use crate::human::{self, plural};
use crate::style::{Paint, Style};
use crate::table::{Align, Column, Definition, Room, TableCell};
use crate::text::Screen;
use iowhy_analysis::histograms::{Distribution, Distributions};

/// `iowhy latency`.
pub const LATENCY: IntervalView<Distributions> = IntervalView {
    name: "latency",
    draw,
    json: |figures| serde_json::to_value(figures).unwrap_or_default(),
};

/// The longest bar, as in bcc's tools.
const BAR: u64 = 40;

/// A row of [`BUCKETS`].
#[derive(Clone, PartialEq, Debug)]
pub struct BucketRow {
    from_ns: u64,
    to_ns: u64,
    requests: u64,
    /// Requests in the fullest bucket.
    most: u64,
}

/// The histogram of `iowhy latency`.
pub const BUCKETS: Definition<BucketRow> = Definition {
    title: "iowhy latency",
    sentence: "A histogram for each group of requests, the group with the most time first; one row \
               for each power of two of the time.",
    columns: &[
        number("from", "time", "the shortest time of the row", |row, style| {
            human::time(row.from_ns as f64, style).into()
        }),
        number("below", "time", "all times of the row are below this", |row, style| {
            human::time(row.to_ns as f64, style).into()
        }),
        number("count", "requests", "requests in this range", |row, _| {
            human::count(row.requests).into()
        }),
        Column {
            heading: "distribution",
            unit: "",
            align: Align::Left,
            room: Room::CutEnd,
            sentence: "the count as a bar; the longest bar has 40 stars",
            legend: "",
            value: |row, _| {
                let stars = (row.requests * BAR).div_ceil(row.most.max(1)) as usize;
                format!("|{}", "*".repeat(stars)).into()
            },
        },
    ],
};

const fn number(
    heading: &'static str,
    unit: &'static str,
    sentence: &'static str,
    value: fn(&BucketRow, &Style) -> TableCell,
) -> Column<BucketRow> {
    Column { heading, unit, align: Align::Right, room: Room::Rank(0), sentence, legend: "", value }
}

fn draw(figures: &Distributions, screen: &mut Screen<'_>) {
    let what = match figures.interval {
        "q2c" => "from queueing to completion (Q2C)",
        _ => "from the issue to the driver to completion (D2C)",
    };
    if figures.groups.is_empty() {
        screen.prose("no requests completed", 0, Paint::Faint);
    }
    let shown = screen.style.rows * 2;
    for group in figures.groups.iter().take(shown) {
        let nameless = if figures.groups.len() > 1 { "no process known" } else { "all requests" };
        let name = name(group, screen.style).unwrap_or_else(|| nameless.to_owned());
        one(group, &name, what, screen);
    }
    let hidden = figures.groups.len().saturating_sub(shown);
    if hidden > 0 {
        let text = format!("{} with less time not shown", plural(hidden as u64, "group"));
        screen.prose(&text, 0, Paint::Faint);
    }
    if let Some(others) = &figures.others {
        one(others, "all further groups", what, screen);
    }
    if figures.censored_requests > 0 {
        let count = plural(figures.censored_requests, "request");
        let text = format!("{count} left out: part of this time was not observed");
        screen.prose(&text, 0, Paint::Faint);
    }
}

/// Returns the name of the group; `None` for a single group or requests without a process.
fn name(group: &Distribution, style: &Style) -> Option<String> {
    let process = match (&group.process, group.pid) {
        (Some(name), Some(pid)) => Some(format!("{} {pid}", escape(name, style))),
        (_, pid) => pid.map(|pid| pid.to_string()),
    };
    let text = |text: &Option<String>| text.as_deref().map(|text| escape(text, style).into_owned());
    let names = [text(&group.device), text(&group.flags), process];
    let names: Vec<String> = names.into_iter().flatten().collect();
    (!names.is_empty()).then(|| names.join(" "))
}

fn one(group: &Distribution, name: &str, what: &str, screen: &mut Screen<'_>) {
    let Some(stage) = group.stage else { return };
    let style = *screen.style;
    screen.gap();
    let time = |ns: u64| human::time(ns as f64, &style);
    let figures = format!(
        "{}: p50 {}, p99 {}, max {}",
        plural(stage.requests, "request"),
        time(stage.p50_ns),
        time(stage.p99_ns),
        time(stage.max_ns),
    );
    screen.prose(&format!("{name}, {what}"), 0, Paint::Heading);
    screen.prose(&figures, 2, Paint::Plain);
    let most = group.histogram.iter().map(|bucket| bucket.requests).max().unwrap_or(0);
    let row = |bucket: &iowhy_analysis::summary::Bucket| BucketRow {
        from_ns: bucket.from_ns,
        to_ns: bucket.to_ns,
        requests: bucket.requests,
        most,
    };
    let rows: Vec<BucketRow> = group.histogram.iter().map(row).collect();
    screen.rows(&BUCKETS, &rows);
}
