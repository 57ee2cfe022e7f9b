//! Where blocked threads waited.

use super::Screen;
use super::header::plural;
use crate::escape::escape;
use crate::human;
use crate::style::{Paint, Style};
use crate::table::{Align, Column, Definition, Room, number};
use iowhy_core::analysis::Summary;
use iowhy_core::analysis::summary::{ClassRow, Ledger, Waiter};

/// Classes with a smaller share of the time than this have no row.
const LEAST_SHARE: f64 = 0.001;

/// The ledger.
pub const WAITS: Definition<ClassRow> = Definition {
    title: "WAITS",
    sentence: "Where blocked threads waited: all the time in which threads of programs were off CPU \
               because of storage, by what they waited for. Threads that wait at once count each.",
    columns: &[
        Column {
            heading: "WAITS",
            unit: "",
            align: Align::Left,
            room: Room::Rank(0),
            sentence: "what they waited for; of the queue, behind whose requests most of it was",
            legend: "",
            value: |row, style| match &row.behind {
                Some(process) => format!("queue, behind {}", escape(process, style)).into(),
                None => class(row.class).to_owned().into(),
            },
        },
        number("time", "time", 0, "time of all threads together", |row, style| {
            human::time(row.time_ns as f64, style).into()
        }),
        number("%time", "%", 0, "share of all blocked time", |row, _| {
            human::percent(row.time_share).into()
        }),
        number("waits", "waits", 3, "waits that it is a part of", |row, _| {
            human::count(row.waits).into()
        }),
        number("longest", "time", 2, "its longest part of one wait", |row, style| {
            human::time(row.longest_ns as f64, style).into()
        }),
        Column {
            heading: "most by",
            unit: "",
            align: Align::Left,
            room: Room::CutEnd,
            sentence: "the processes whose threads waited longest, with their time",
            legend: "",
            value: |row, style| most(&row.most, style).into(),
        },
    ],
};

/// What a class is called on a screen.
pub(crate) fn class(word: &str) -> &str {
    match word {
        "queue" => "block layer's queue",
        "cgroup_throttle" => "cgroup limit",
        "dirty_throttle" => "dirty page limit",
        "wbt" => "writeback throttling",
        "iocost" => "iocost",
        "tag" => "free tag",
        "journal_commit" => "journal commit",
        "journal_space" => "journal space",
        "page_lock" => "page lock",
        "page_read" => "page read",
        "page_fault" => "page fault",
        "fs_lock" => "file system lock",
        "reclaim" => "memory reclaim",
        "run_queue" => "CPU, once awake",
        other => other,
    }
}

fn most(waiters: &[Waiter], style: &Style) -> String {
    let one = |waiter: &Waiter| {
        let time = human::time(waiter.time_ns as f64, style);
        format!("{} {time}", escape(&waiter.process, style))
    };
    waiters.iter().map(one).collect::<Vec<_>>().join(", ")
}

pub(super) fn section(summary: &Summary, screen: &mut Screen) {
    let Some(ledger) = &summary.ledger else { return };
    let rows: Vec<ClassRow> =
        ledger.classes.iter().filter(|row| row.time_share >= LEAST_SHARE).cloned().collect();
    if rows.is_empty() {
        return;
    }
    screen.table(&WAITS, &rows);
    let text = whole(ledger, screen.style);
    screen.prose(&text, 2, Paint::Faint);
    super::blame::lines(summary, screen);
}

fn whole(ledger: &Ledger, style: &Style) -> String {
    let mut text = format!("{} in all", human::time(ledger.blocked_ns as f64, style));
    if let Some(share) = ledger.explained_share {
        text.push_str(&format!(", {} % explained", human::percent(share)));
    }
    if ledger.censored_waits > 0 {
        let waits = plural(ledger.censored_waits, "wait");
        text.push_str(&format!("; {waits} began before the watch or outlasted it"));
    }
    if ledger.kernel_threads_ns > 0 {
        let time = human::time(ledger.kernel_threads_ns as f64, style);
        text.push_str(&format!("; the kernel's own threads waited {time} more"));
    }
    text
}
