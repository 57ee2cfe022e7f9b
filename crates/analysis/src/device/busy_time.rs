//! Time in which at least one of many intervals was open: the length of their union.
//!
//! Requests arrive when they complete, so an interval may begin before many known ones. All gaps
//! are kept until there are [`SEGMENTS`]; then neighbours in the older half are merged, and each
//! keeps the busy time in its span. An interval that covers a merged segment completely still
//! counts exactly; one that covers it in part counts in proportion, so the error is below the
//! length of one merged segment, and occurs only for requests that outlast thousands of the
//! device's busy periods.

/// Number of busy periods from which the older half is merged.
const SEGMENTS: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq)]
struct BusySegment {
    from: u64,
    to: u64,
    /// Busy time within; less than the span only in a merged segment.
    busy: u64,
}

impl BusySegment {
    fn is_full(&self) -> bool {
        self.busy == self.to - self.from
    }

    /// The busy time of the overlap with `from` to `to`.
    fn part(&self, from: u64, to: u64) -> u64 {
        let part = to.min(self.to).saturating_sub(from.max(self.from));
        if self.is_full() {
            return part;
        }
        let span = self.to - self.from;
        (u128::from(self.busy) * u128::from(part) / u128::from(span)) as u64
    }
}

/// The union of intervals given in any order, in bounded memory.
#[derive(Clone, Debug, Default)]
pub struct BusyTime {
    /// Disjoint, in order.
    segments: Vec<BusySegment>,
}

impl BusyTime {
    /// Adds the interval from `from` to `to`, nanoseconds on one clock.
    #[inline]
    pub fn add(&mut self, from: u64, to: u64) {
        let to = to.max(from);
        match self.segments.last_mut() {
            // Most requests are issued within or after the latest busy period.
            Some(last) if from >= last.from && from <= last.to && last.is_full() => {
                last.to = last.to.max(to);
                last.busy = last.to - last.from;
            }
            Some(last) if from <= last.to => self.insert(from, to),
            _ => self.push(BusySegment { from, to, busy: to - from }),
        }
    }

    fn push(&mut self, segment: BusySegment) {
        if self.segments.len() == SEGMENTS {
            self.coarsen();
        }
        self.segments.push(segment);
    }

    /// Adds an interval that may touch any of the known ones.
    fn insert(&mut self, from: u64, to: u64) {
        let first = self.segments.partition_point(|segment| segment.to < from);
        let after = self.segments.partition_point(|segment| segment.from <= to);
        let mut joined = BusySegment { from, to, busy: to - from };
        if let (Some(left), Some(right)) =
            (self.segments.get(first), self.segments.get(after.wrapping_sub(1)))
            && first < after
        {
            joined.busy += left.part(0, from) + right.part(to, u64::MAX);
            joined.from = left.from.min(from);
            joined.to = right.to.max(to);
        }
        self.segments.splice(first..after, [joined]);
        if self.segments.len() > SEGMENTS {
            self.coarsen();
        }
    }

    /// Merges neighbours in the older half.
    fn coarsen(&mut self) {
        let older = self.segments.len() / 2;
        let mut kept = Vec::with_capacity(self.segments.len());
        for pair in self.segments[..older].chunks(2) {
            kept.push(BusySegment {
                from: pair[0].from,
                to: pair[pair.len() - 1].to,
                busy: pair.iter().map(|segment| segment.busy).fold(0, u64::saturating_add),
            });
        }
        kept.extend_from_slice(&self.segments[older..]);
        self.segments = kept;
    }

    /// The busy time between `from` and `to`, nanoseconds.
    pub fn within(&self, from: u64, to: u64) -> u64 {
        self.segments.iter().map(|segment| segment.part(from, to)).fold(0, u64::saturating_add)
    }

    /// Whether no interval was added.
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(intervals: &[(u64, u64)]) -> BusyTime {
        let mut busy = BusyTime::default();
        intervals.iter().for_each(|(from, to)| busy.add(*from, *to));
        busy
    }

    #[test]
    fn overlaps_count_once_in_any_order() {
        let intervals = [(10, 20), (15, 30), (40, 50), (30, 31), (60, 60), (45, 70), (0, 5)];
        let mut reversed = intervals;
        reversed.reverse();
        for order in [intervals, reversed] {
            assert_eq!(of(&order).within(0, 100), 5 + 21 + 30);
            assert_eq!(of(&order).within(12, 45), 19 + 5);
        }
    }

    #[test]
    fn a_long_request_that_completes_last_fills_the_gaps() {
        let mut busy = of(&[(10, 11), (20, 21), (30, 31)]);
        busy.add(5, 40);
        assert_eq!(busy.within(0, 100), 35);
    }

    #[test]
    fn memory_is_bounded_and_the_sum_exact() {
        let mut busy = BusyTime::default();
        (0..100_000).for_each(|index| busy.add(index * 10, index * 10 + 3));
        assert!(busy.segments.len() <= SEGMENTS);
        assert_eq!(busy.within(0, u64::MAX), 300_000);
        busy.add(0, 1_000_000);
        assert_eq!(busy.within(0, u64::MAX), 1_000_000);
    }

    #[test]
    fn a_part_of_a_joined_segment_counts_in_proportion() {
        let mut busy = BusyTime::default();
        (0..100_000).for_each(|index| busy.add(index * 10, index * 10 + 3));
        busy.add(333_333, 1_000_000);
        let exact = 33_333 * 3 + 3 + (1_000_000 - 333_333);
        assert!(busy.within(0, u64::MAX).abs_diff(exact) < 10_000);
    }
}
