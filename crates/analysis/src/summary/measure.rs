//! The one sum of requests or waits: every row counts as often as it stands for.
//!
//! A watch within its budget records one row in several, and each says how many it stands for
//! (`weight`). Tables, views, charts, exports and rules add rows up here, so that none of them can
//! forget it.
//!
//! What does not belong here: which rows a sum is of, and the kernel's exact counts (see
//! `sums::calibration`).

use iowhy_model::{Request, Wait};

/// Number, bytes and time of requests or waits.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Measure {
    /// Their number.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Their time, nanoseconds.
    pub time_ns: u64,
    /// The longest of them, nanoseconds: no multiple of a row.
    pub longest_ns: u64,
}

impl Measure {
    /// A request, of which `time_ns` is the time of one.
    #[inline]
    pub fn for_request(request: &Request, time_ns: u64) -> Measure {
        let one = Measure { count: 1, bytes: request.bytes, time_ns, longest_ns: time_ns };
        one.times(request.stands_for())
    }

    /// A wait, or a part of it that lasted `part_ns`.
    #[inline]
    pub fn for_wait(wait: &Wait, part_ns: u64) -> Measure {
        let one = Measure { count: 1, bytes: 0, time_ns: part_ns, longest_ns: part_ns };
        one.times(wait.stands_for())
    }

    /// Adds a request, of which `time_ns` is the time of one.
    #[inline]
    pub fn add_request(&mut self, request: &Request, time_ns: u64) {
        self.add(&Measure::for_request(request, time_ns));
    }

    /// Adds a wait, or a part of it that lasted `part_ns`.
    #[inline]
    pub fn add_wait(&mut self, wait: &Wait, part_ns: u64) {
        self.add(&Measure::for_wait(wait, part_ns));
    }

    /// The sum of `weight` like this one, which is as long as the longest of them.
    #[inline]
    #[must_use]
    pub fn times(self, weight: u64) -> Measure {
        if weight == 1 {
            return self;
        }
        Measure {
            count: self.count.saturating_mul(weight),
            bytes: self.bytes.saturating_mul(weight),
            time_ns: self.time_ns.saturating_mul(weight),
            longest_ns: self.longest_ns,
        }
    }

    /// Adds another sum.
    #[inline]
    pub fn add(&mut self, other: &Measure) {
        self.count = self.count.saturating_add(other.count);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.time_ns = self.time_ns.saturating_add(other.time_ns);
        self.longest_ns = self.longest_ns.max(other.longest_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iowhy_model::{Name, table::Table};

    #[test]
    fn a_row_counts_as_often_as_it_stands_for() {
        let request = Request { bytes: 4096, ..Request::blank(Name::EMPTY, Name::EMPTY) };
        let mut weighted = Measure::default();
        weighted.add_request(&Request { weight: Some(8), ..request.clone() }, 5);
        let mut each = Measure::default();
        (0..8).for_each(|_| each.add_request(&request, 5));
        assert_eq!(weighted, each);
        assert_eq!((each.count, each.bytes, each.time_ns, each.longest_ns), (8, 32_768, 40, 5));
        let wait = Wait { duration_ns: 7, ..Table::blank() };
        let mut waited = Measure::for_wait(&Wait { weight: Some(3), ..wait.clone() }, 7);
        assert_eq!((waited.count, waited.time_ns, waited.longest_ns), (3, 21, 7));
        waited.add_wait(&Wait { weight: Some(0), ..wait }, 9);
        assert_eq!((waited.count, waited.time_ns, waited.longest_ns), (4, 30, 9));
    }

    #[test]
    fn no_sum_overflows() {
        let most = Measure { count: u64::MAX, bytes: u64::MAX, time_ns: u64::MAX, longest_ns: 1 };
        let mut sum = most.times(16_384);
        sum.add(&most);
        assert_eq!(sum, most);
    }
}
