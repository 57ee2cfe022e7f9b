//! Waits of blocked threads.

use super::Screen;
use crate::escape::escape;
use crate::human::{self, plural};
use crate::style::{Paint, Style};
use crate::table::{Align, Column, Definition, Room, number};
use iowhy_analysis::Summary;
use iowhy_analysis::summary::{ClassRow, Ledger, ProgramWaiter};
use iowhy_analysis::waits::groups::BlockedGroup;
use iowhy_model::WaitClass;

/// Classes with a smaller share of the time than this have no row.
const LEAST_SHARE: f64 = 0.001;

/// A row of blocked time: the columns below are those of every table of it.
pub(crate) trait BlockedTime {
    /// Returns the row's time, nanoseconds.
    fn time_ns(&self) -> u64;
    /// Returns the row's share of all blocked time.
    fn time_share(&self) -> f64;
    /// Waits that it is a part of.
    fn waits(&self) -> u64;
    /// Returns the row's longest part of one wait, nanoseconds.
    fn longest_ns(&self) -> u64;
}

macro_rules! blocked_time {
    ($($row:ty),+) => { $(
        impl BlockedTime for $row {
            fn time_ns(&self) -> u64 {
                self.time_ns
            }
            fn time_share(&self) -> f64 {
                self.time_share
            }
            fn waits(&self) -> u64 {
                self.waits
            }
            fn longest_ns(&self) -> u64 {
                self.longest_ns
            }
        }
    )+ };
}
blocked_time!(ClassRow, BlockedGroup);

pub(crate) const fn time<T: BlockedTime>() -> Column<T> {
    number("time", "time", 0, "total time of all threads", |row, style| {
        human::time(row.time_ns() as f64, style).into()
    })
}

pub(crate) const fn share<T: BlockedTime>() -> Column<T> {
    number("%time", "%", 0, "share of all blocked time", |row, _| {
        human::percent(row.time_share()).into()
    })
}

pub(crate) const fn waits<T: BlockedTime>(rank: u8) -> Column<T> {
    number("waits", "waits", rank, "waits that it is a part of", |row, _| {
        human::count(row.waits()).into()
    })
}

pub(crate) const fn longest<T: BlockedTime>(rank: u8) -> Column<T> {
    number("longest", "time", rank, "its longest share of one wait", |row, style| {
        human::time(row.longest_ns() as f64, style).into()
    })
}

/// The totals of a table of blocked time.
pub(crate) struct BlockedTotals {
    pub blocked_ns: u64,
    pub explained_share: Option<f64>,
    /// Time of rows that are not shown, nanoseconds.
    pub hidden_ns: u64,
    pub censored_waits: u64,
    pub kernel_threads_ns: u64,
}

impl BlockedTotals {
    /// `14.2 s in total, 98 % classified; 2 waits began before the watch or outlasted it`.
    pub fn sentence(&self, style: &Style) -> String {
        let time = |nanoseconds: u64| human::time(nanoseconds as f64, style);
        let mut text = format!("{} in total", time(self.blocked_ns));
        if let Some(share) = self.explained_share {
            text.push_str(&format!(", {} % classified", human::percent(share)));
        }
        if self.hidden_ns > 0 {
            text.push_str(&format!(", {} of it not shown", time(self.hidden_ns)));
        }
        if self.censored_waits > 0 {
            let waits = plural(self.censored_waits, "wait");
            text.push_str(&format!("; {waits} began before the watch or outlasted it"));
        }
        if self.kernel_threads_ns > 0 {
            let kernel = time(self.kernel_threads_ns);
            text.push_str(&format!("; the kernel's own threads waited {kernel} more"));
        }
        text
    }
}

/// The ledger.
pub const WAITS: Definition<ClassRow> = Definition {
    title: "WAITS",
    sentence: "Where blocked threads waited: all the time in which threads of programs were off \
               CPU \
               because of storage, by what they waited for. Threads that wait at once count each.",
    columns: &[
        Column {
            heading: "WAITS",
            unit: "",
            align: Align::Left,
            room: Room::Rank(0),
            sentence: "what they waited for; for the queue, whose requests were ahead most of the \
                time",
            legend: "",
            value: |row, style| match &row.behind {
                Some(process) => format!("queue, behind {}", escape(process, style)).into(),
                None => WaitClass::phrase_of(row.class).to_owned().into(),
            },
        },
        time(),
        share(),
        waits(3),
        longest(2),
        Column {
            heading: "top processes",
            unit: "",
            align: Align::Left,
            room: Room::CutItems,
            sentence: "the programs whose threads waited longest, with the number of their \
                       processes and their time",
            legend: "",
            value: |row, style| most(&row.programs, style).into(),
        },
    ],
};

/// `postgres (×15) 9.15 s, cat 1.20 ms`.
fn most(programs: &[ProgramWaiter], style: &Style) -> String {
    let one = |program: &ProgramWaiter| {
        let time = human::time(program.time_ns as f64, style);
        let many = match program.processes {
            0 | 1 => String::new(),
            processes => format!(" ({}{})", style.either("×", "x"), human::count(processes)),
        };
        format!("{}{many} {time}", escape(&program.process, style))
    };
    programs.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// The `most` classes with the most time, and the sum of the others: the rows add up to the total.
pub(super) fn shown(ledger: &Ledger, most: usize) -> Vec<ClassRow> {
    let worth = ledger.classes.iter().filter(|row| row.time_share >= LEAST_SHARE).count();
    let (listed, rest) = ledger.classes.split_at(worth.min(most));
    let mut rows = listed.to_vec();
    let sum_ns: u64 = rest.iter().map(|row| row.time_ns).sum();
    let time_share: f64 = rest.iter().map(|row| row.time_share).sum();
    if rows.is_empty() || time_share < LEAST_SHARE {
        return rows;
    }
    let waits = rest.iter().map(|row| row.waits).sum();
    let longest_ns = rest.iter().map(|row| row.longest_ns).max().unwrap_or(0);
    let others = ClassRow {
        class: "others",
        time_ns: sum_ns,
        time_share,
        waits,
        longest_ns,
        most: Vec::new(),
        programs: Vec::new(),
        behind: None,
    };
    rows.push(if let [only] = rest { only.clone() } else { others });
    rows
}

pub(super) fn section(summary: &Summary, screen: &mut Screen) {
    let Some(ledger) = &summary.ledger else { return };
    let rows = shown(ledger, ledger.classes.len());
    if rows.is_empty() {
        return;
    }
    screen.table(&WAITS, &rows);
    let whole = BlockedTotals {
        blocked_ns: ledger.blocked_ns,
        explained_share: ledger.explained_share,
        hidden_ns: 0,
        censored_waits: ledger.censored_waits,
        kernel_threads_ns: ledger.kernel_threads_ns,
    };
    screen.prose(&whole.sentence(screen.style), 2, Paint::Faint);
    super::blame::lines(summary, screen);
}
