//! The intervals of which rows have come and that are not over: a few have a pass each, and of the
//! others the rows are kept until their turn comes. A pass takes a megabyte or two, however few
//! rows it has, and a source may touch thousands of intervals at once.
//!
//! What does not belong here: which interval a row belongs to (see [`super::cutter`]).

use crate::sums::row_consumers::Pass;
use iowhy_model::Names;
use iowhy_model::source::Batch;
use std::collections::BTreeMap;

/// Intervals that have a pass at the same time.
const MOST_PASSES: usize = 8;
/// Intervals whose rows are kept at the same time; some kilobytes each.
const MOST_INTERVALS: usize = 1 << 14;
/// Rows that are kept, of all intervals together; some 400 bytes each.
const MOST_ROWS: usize = 1 << 19;

/// Open intervals by number. They take at most some 250 MB, and a batch more.
pub(crate) struct OpenIntervals<P> {
    passes: BTreeMap<u64, P>,
    waiting: BTreeMap<u64, Batch>,
    rows: usize,
}

impl<P> Default for OpenIntervals<P> {
    fn default() -> OpenIntervals<P> {
        OpenIntervals { passes: BTreeMap::new(), waiting: BTreeMap::new(), rows: 0 }
    }
}

impl<P: Pass> OpenIntervals<P> {
    /// Whether the oldest must be closed before more rows come.
    pub fn is_crowded(&self) -> bool {
        self.waiting.len() > MOST_INTERVALS || self.rows > MOST_ROWS
    }

    /// The first that is open.
    pub fn first(&self) -> Option<u64> {
        let numbers = [self.passes.keys().next(), self.waiting.keys().next()];
        numbers.into_iter().flatten().min().copied()
    }

    /// The last that is open.
    pub fn last(&self) -> Option<u64> {
        let numbers = [self.passes.keys().next_back(), self.waiting.keys().next_back()];
        numbers.into_iter().flatten().max().copied()
    }

    /// Passes `met` to all that have a pass.
    pub fn meet(&mut self, met: &Batch, names: &Names) {
        self.passes.values_mut().for_each(|pass| pass.add(met, names));
    }

    /// Adds rows to interval `number`, whose pass `begin` makes.
    pub fn add(&mut self, number: u64, mut rows: Batch, names: &Names, begin: impl FnOnce() -> P) {
        let has_pass = self.passes.contains_key(&number);
        if has_pass || self.passes.len() < MOST_PASSES {
            self.pass(number, names, begin).add(&rows, names);
        } else {
            self.rows += row_count(&rows);
            self.waiting.entry(number).or_default().append(&mut rows);
        }
    }

    /// The pass of interval `number`, with all of its rows.
    pub fn pass(&mut self, number: u64, names: &Names, begin: impl FnOnce() -> P) -> &mut P {
        let waiting = self.waiting.remove(&number).unwrap_or_default();
        self.rows = self.rows.saturating_sub(row_count(&waiting));
        let pass = self.passes.entry(number).or_insert_with(begin);
        if !waiting.is_empty() {
            pass.add(&waiting, names);
        }
        pass
    }

    /// Closes interval `number`; `None` if nothing of it has come.
    pub fn close(&mut self, number: u64) -> Option<P> {
        self.passes.remove(&number)
    }

    /// The pass of interval `number`, if it has one.
    pub fn get(&self, number: u64) -> Option<&P> {
        self.passes.get(&number)
    }
}

fn row_count(rows: &Batch) -> usize {
    rows.requests.len()
        + rows.parts.len()
        + rows.waits.len()
        + rows.wait_requests.len()
        + rows.wait_chains.len()
        + rows.files.len()
        + rows.events.len()
}
