//! The timeline of each table of a file. A file of sar holds a day of one table, then the same day
//! of the next: each begins at its own time again. Tables without times begin with the file.
//!
//! What does not belong here: times as text (see [`super::figures`]).

use super::figures::{DAY_S, ReportClock};
use super::header::TableHeader;
use crate::book::{BEGIN_NS, CounterBook};
use crate::kind::ForeignKind;
use std::collections::BTreeMap;

/// Tables of one file that have a timeline of their own.
const MOST_TABLES: usize = 64;

/// The position of each table's timeline.
#[derive(Debug, Default)]
pub(super) struct TableTimes {
    /// The time of day at which the file's timeline begins, seconds.
    origin_s: Option<f64>,
    /// The present table, by its place in `ids`.
    present: Option<u32>,
    ids: BTreeMap<String, u32>,
    left: BTreeMap<u32, (ReportClock, u64)>,
}

impl TableTimes {
    /// Returns the number of a table: its tool's, or for sar, which prints one table after another,
    /// that of its columns. 0 stands for lines without a table.
    pub fn id(&mut self, header: &TableHeader) -> u32 {
        let mut key = header.kind.word().to_owned();
        if header.kind == ForeignKind::Sar {
            key.push_str(&header.columns.join(" "));
        }
        let next = self.ids.len().min(MOST_TABLES) as u32 + 1;
        *self.ids.entry(key).or_insert(next)
    }

    /// Goes to the timeline of a table; `time` is the time of day of its header or of a line before
    /// it, if there is one.
    pub fn begin(
        &mut self,
        header: &TableHeader,
        time: Option<f64>,
        clock: &mut ReportClock,
        book: &mut CounterBook,
    ) {
        let id = self.id(header);
        let time = time.or(clock.last());
        if let Some(time) = time {
            self.origin_s.get_or_insert(time);
        }
        if self.present == Some(id) {
            return;
        }
        let since = time.zip(self.origin_s).map_or(0.0, |(time, origin)| {
            let since = time - origin;
            if since < -DAY_S / 2.0 { since + DAY_S } else { since }
        });
        let fresh = || {
            let mut own = ReportClock::default();
            if let Some(time) = time {
                own.at(time);
            }
            (own, BEGIN_NS + (since.max(0.0) * 1e9) as u64)
        };
        let Some(before) = self.present.replace(id) else {
            // Lines before it had no table of their own: the timeline goes on.
            return;
        };
        let (own, at_ns) = self.left.remove(&id).unwrap_or_else(fresh);
        self.left.insert(before, (std::mem::replace(clock, own), book.now_ns()));
        book.go_to(at_ns);
    }
}
