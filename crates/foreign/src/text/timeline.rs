//! The timeline of each table of a file. A file of sar holds a day of one table, then the same day
//! of the next: each begins at its own time again.
//!
//! What does not belong here: times as text (see [`super::figures`]).

use super::figures::{DAY_S, ReportClock};
use super::header::TableHeader;
use crate::book::{BEGIN_NS, CounterBook};
use std::collections::BTreeMap;

/// Tables of one file that have a timeline of their own.
const MOST_TABLES: usize = 64;

/// Where each table's timeline is.
#[derive(Debug, Default)]
pub(super) struct TableTimes {
    /// The time of day at which the file's timeline begins, seconds.
    origin_s: Option<f64>,
    /// The columns of the present table.
    present: String,
    left: BTreeMap<String, (ReportClock, u64)>,
}

impl TableTimes {
    /// Goes to the timeline of a table whose header tells a time of day. Tables without one share
    /// that of the file.
    pub fn begin(
        &mut self,
        header: &TableHeader,
        time: Option<f64>,
        clock: &mut ReportClock,
        book: &mut CounterBook,
    ) {
        let Some(time) = time else { return };
        let columns = header.columns.join(" ");
        let origin = *self.origin_s.get_or_insert(time);
        if columns == self.present || self.left.len() >= MOST_TABLES {
            return;
        }
        let fresh = || {
            let mut since = time - origin;
            if since < -DAY_S / 2.0 {
                since += DAY_S;
            }
            (ReportClock::default(), BEGIN_NS + (since.max(0.0) * 1e9) as u64)
        };
        let is_first = self.present.is_empty() && self.left.is_empty();
        let (own, at_ns) = self.left.remove(&columns).unwrap_or_else(fresh);
        let before = std::mem::replace(&mut self.present, columns);
        if is_first {
            // What came before had no table of its own: the timeline goes on.
            return;
        }
        self.left.insert(before, (std::mem::replace(clock, own), book.now_ns()));
        book.go_to(at_ns);
    }
}
