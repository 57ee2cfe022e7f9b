//! `iowhy waits`: offcputime for storage: where threads were blocked, by class and one thing more.

use super::View;
use crate::escape::escape;
use crate::human;
use crate::style::{Paint, Style};
use crate::table::{Align, Column, Definition, Room, number};
use crate::text::Screen;
use crate::text::header::plural;
use crate::text::wait_class;
use iowhy_core::analysis::waits::groups::{Blocked, BlockedGroup};

/// `iowhy waits`.
pub const BLOCKED: View<Blocked> =
    View { name: "waits", draw, json: |figures| serde_json::to_value(figures).unwrap_or_default() };

/// Groups shown in each interval.
const SHOWN: usize = 20;

/// The columns of `iowhy waits`.
pub const GROUPS: Definition<BlockedGroup> = Definition {
    title: "iowhy waits",
    sentence: "One row for each class of wait, and with --by for each process, file or kernel stack \
               of it; most time first. Threads that wait at once count each.",
    columns: &[
        Column {
            heading: "WAITS",
            unit: "",
            align: Align::Left,
            room: Room::Rank(0),
            sentence: "what they waited for (see docs/waits.md)",
            legend: "",
            value: |row, _| wait_class(row.class).to_owned().into(),
        },
        number("time", "time", 0, "time of all threads together", |row, style| {
            human::time(row.time_ns as f64, style).into()
        }),
        number("%time", "%", 0, "share of all blocked time", |row, _| {
            human::percent(row.time_share).into()
        }),
        number("waits", "waits", 1, "waits that it is a part of", |row, _| {
            human::count(row.waits).into()
        }),
        number("mean", "time", 3, "its mean part of one wait", |row, style| {
            human::time(row.time_ns as f64 / row.waits.max(1) as f64, style).into()
        }),
        number("longest", "time", 2, "its longest part of one wait", |row, style| {
            human::time(row.longest_ns as f64, style).into()
        }),
        Column {
            heading: "of",
            unit: "",
            align: Align::Left,
            room: Room::Wrap,
            sentence: "the process, the file, or the kernel's functions from the innermost; - where \
                       it is not known or not told apart",
            legend: "",
            value: |row, style| name(row, style).into(),
        },
    ],
};

fn name(row: &BlockedGroup, style: &Style) -> String {
    let name = row.name.as_deref().map(|name| escape(name, style));
    match (name, row.pid) {
        _ if row.is_others => "all further ones".to_owned(),
        (Some(name), Some(pid)) => format!("{name} ({pid})"),
        (Some(name), None) => name.into_owned(),
        (None, Some(pid)) => pid.to_string(),
        (None, None) => "-".to_owned(),
    }
}

fn draw(figures: &Blocked, screen: &mut Screen<'_>) {
    if figures.groups.is_empty() {
        screen.prose("no thread was blocked for storage", 0, Paint::Faint);
        return;
    }
    let (shown, hidden) = figures.groups.split_at(figures.groups.len().min(SHOWN));
    screen.rows(&GROUPS, shown);
    let style = *screen.style;
    let time = |nanoseconds: u64| human::time(nanoseconds as f64, &style);
    let mut text = format!("{} in all", time(figures.blocked_ns));
    if !hidden.is_empty() {
        let rest: u64 = hidden.iter().map(|group| group.time_ns).sum::<u64>() + figures.unlisted_ns;
        text.push_str(&format!(", {} of it not shown", time(rest)));
    }
    if figures.censored_waits > 0 {
        let waits = plural(figures.censored_waits, "wait");
        text.push_str(&format!("; {waits} began before the watch or outlasted it"));
    }
    if figures.kernel_threads_ns > 0 {
        let kernel = time(figures.kernel_threads_ns);
        text.push_str(&format!("; the kernel's own threads waited {kernel} more"));
    }
    screen.prose(&text, 2, Paint::Faint);
}
