//! For how long at least one request was at a device, and in how many periods.
//!
//! What does not belong here: busy time within an interval (see `device::busy_time`).

/// Periods in which at least one request is at the device: the union of all D to C.
#[derive(Clone, Debug, Default)]
pub struct BusyPeriods {
    /// Disjoint and in order.
    open: Vec<(u64, u64)>,
    settled: u64,
    settled_time: u64,
    end: u64,
}

impl BusyPeriods {
    /// Periods that a later request may still join to one.
    const MAX: usize = 256 << 10;

    /// Adds a request from `issue` to `complete`.
    #[inline]
    pub fn add(&mut self, issue: u64, complete: u64) {
        let (mut from, mut to) = (issue, complete);
        self.end = self.end.max(to);
        // The common case: it ends last, so only the newest periods can touch it.
        if self.open.last().is_none_or(|(_, end)| *end <= to) {
            while let Some((start, _)) = self.open.pop_if(|(_, end)| *end >= from) {
                from = from.min(start);
            }
            self.open.push((from, to));
            return self.settle();
        }
        let first = self.open.partition_point(|(_, end)| *end < from);
        let last = self.open.partition_point(|(start, _)| *start <= to);
        if let Some(joined) = self.open.get(first..last)
            && let (Some((start, _)), Some((_, end))) = (joined.first(), joined.last())
        {
            (from, to) = (from.min(*start), to.max(*end));
        }
        if first == self.open.len() {
            self.open.push((from, to));
        } else {
            self.open.splice(first..last.max(first), [(from, to)]);
        }
        self.settle();
    }

    /// Gives up joining the older half where there are too many.
    fn settle(&mut self) {
        if self.open.len() <= Self::MAX {
            return;
        }
        for (from, to) in self.open.drain(..Self::MAX / 2) {
            self.settled += 1;
            self.settled_time += to - from;
        }
    }

    /// Number of periods, the time in them, and the time from 0 to the last completion, ns.
    pub fn periods(&self) -> (u64, u64, u64) {
        let count = self.settled + self.open.len() as u64;
        let live = self.open.iter().fold(self.settled_time, |sum, (from, to)| sum + (to - from));
        (count, live, self.end)
    }
}
