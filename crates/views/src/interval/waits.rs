//! `iowhy waits`: offcputime for storage: where threads were blocked, by class and one more key.

use super::IntervalView;
use crate::escape::escape;
use crate::human;
use crate::style::{Paint, Style};
use crate::table::{Align, Column, Definition, Room, number};
use crate::text::Screen;
use crate::text::waits::{self, BlockedTotals};
use iowhy_analysis::waits::groups::{Blocked, BlockedGroup};
use iowhy_model::WaitClass;

/// `iowhy waits`.
pub const BLOCKED: IntervalView<Blocked> = IntervalView {
    name: "waits",
    draw,
    json: |figures| serde_json::to_value(figures).unwrap_or_default(),
};

/// Groups shown in each interval.
const SHOWN: usize = 20;
/// Processes of which it is said why their work is what it is.
const REASONS: usize = 5;

/// The columns of `iowhy waits`.
pub const GROUPS: Definition<BlockedGroup> = Definition {
    title: "iowhy waits",
    sentence: "One row for each class of wait, and with --by for each process, file or kernel \
               stack \
               of it; most time first. Threads that wait at once count each.",
    columns: &[
        CLASS,
        waits::time(),
        waits::share(),
        waits::waits(1),
        MEAN,
        waits::longest(2),
        Column {
            heading: "work",
            unit: "",
            align: Align::Left,
            room: Room::Rank(4),
            sentence: "for whom the process works: serving (clients), foreground (somebody waits \
                       for its result), background (nobody does); - if it is not known",
            legend: "",
            value: |row, _| {
                row.work.as_ref().map_or("-", |work| work.kind.word()).to_owned().into()
            },
        },
        OF,
    ],
};

/// The columns of waits by file or kernel stack.
const UNNAMED: Definition<BlockedGroup> = Definition {
    columns: &[CLASS, waits::time(), waits::share(), waits::waits(1), MEAN, waits::longest(2), OF],
    ..GROUPS
};

/// The columns of waits by class only.
const CLASSES: Definition<BlockedGroup> = Definition {
    columns: &[CLASS, waits::time(), waits::share(), waits::waits(1), MEAN, waits::longest(2)],
    ..GROUPS
};

const CLASS: Column<BlockedGroup> = Column {
    heading: "WAITS",
    unit: "",
    align: Align::Left,
    room: Room::Rank(0),
    sentence: "what they waited for (see docs/waits.md)",
    legend: "",
    value: |row, _| WaitClass::phrase_of(row.class).to_owned().into(),
};

const OF: Column<BlockedGroup> = Column {
    heading: "of",
    unit: "",
    align: Align::Left,
    room: Room::Wrap,
    sentence: "the process, the file, or the kernel's functions, innermost first; - if it \
               is not known or not distinguished",
    legend: "",
    value: |row, style| name(row, style).into(),
};

const MEAN: Column<BlockedGroup> =
    number("mean", "time", 3, "its mean part of one wait", |row, style| {
        human::time(row.time_ns as f64 / row.waits.max(1) as f64, style).into()
    });

fn name(row: &BlockedGroup, style: &Style) -> String {
    let name = row.name.as_deref().map(|name| escape(name, style));
    match (name, row.pid) {
        _ if row.is_others => "all others".to_owned(),
        (Some(name), Some(pid)) => format!("{name} ({pid})"),
        (Some(name), None) => name.into_owned(),
        (None, Some(pid)) => pid.to_string(),
        (None, None) => "-".to_owned(),
    }
}

fn draw(figures: &Blocked, screen: &mut Screen<'_>) {
    if figures.groups.is_empty() {
        let text = match &figures.unknown {
            Some(why) => format!("blocked time is not known: {why}"),
            None => "no thread was blocked for storage".to_owned(),
        };
        screen.prose(&escape(&text, screen.style), 0, Paint::Faint);
        return;
    }
    let (shown, hidden) = figures.groups.split_at(figures.groups.len().min(SHOWN));
    let is_named = |row: &BlockedGroup| row.name.is_some() || row.pid.is_some() || row.is_others;
    let definition = match shown {
        _ if shown.iter().any(|row| row.pid.is_some()) => &GROUPS,
        _ if shown.iter().any(is_named) => &UNNAMED,
        _ => &CLASSES,
    };
    screen.rows(definition, shown);
    let mut reasons: Vec<String> = Vec::new();
    for row in shown {
        let Some(work) = &row.work else { continue };
        let why = escape(&work.reason, screen.style);
        let reason = format!("{}, {}: {why}", name(row, screen.style), work.kind.word());
        if !reasons.contains(&reason) && reasons.len() < REASONS {
            reasons.push(reason);
        }
    }
    reasons.iter().for_each(|reason| screen.prose(reason, 2, Paint::Faint));
    let whole = BlockedTotals {
        blocked_ns: figures.blocked_ns,
        explained_share: None,
        hidden_ns: hidden.iter().map(|group| group.time_ns).sum::<u64>() + figures.unlisted_ns,
        censored_waits: figures.censored_waits,
        kernel_threads_ns: figures.kernel_threads_ns,
    };
    screen.prose(&whole.sentence(screen.style), 2, Paint::Faint);
}
