//! Sorting in little code: all callers share one sort of indexes, where each call of the standard
//! library's is a copy of its own, of 9 kB. For tables and lists that are made once.
//!
//! What does not belong here: orders that every request or wait needs; the standard library is
//! faster.

use std::cmp::Ordering;

/// Stable sorts of slices, as the standard library's of the same names.
pub trait CompactSort<T> {
    /// Sorts by an order of two elements.
    fn compact_sort_by(&mut self, compare: impl FnMut(&T, &T) -> Ordering);

    /// Sorts by a key, which is asked for in each comparison.
    fn compact_sort_by_key<K: Ord>(&mut self, mut key: impl FnMut(&T) -> K) {
        self.compact_sort_by(|a, b| key(a).cmp(&key(b)));
    }
}

impl<T> CompactSort<T> for [T] {
    fn compact_sort_by(&mut self, mut compare: impl FnMut(&T, &T) -> Ordering) {
        if self.len() < 2 {
            return;
        }
        let elements = &*self;
        let order = order(self.len(), &mut |a, b| compare(&elements[a], &elements[b]));
        arrange(order, &mut |a, b| self.swap(a, b));
    }
}

/// The indexes of `count` elements, in their order.
fn order(count: usize, compare: &mut dyn FnMut(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|a, b| compare(*a, *b));
    order
}

/// Exchanges elements until each is at its place: at `i` the one that was at `order[i]`.
fn arrange(mut order: Vec<usize>, swap: &mut dyn FnMut(usize, usize)) {
    for first in 0..order.len() {
        let mut at = first;
        loop {
            let from = std::mem::replace(&mut order[at], at);
            if from == first || from == at {
                break;
            }
            swap(at, from);
            at = from;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers without a pattern, of which many are equal.
    fn numbers(count: usize) -> Vec<(u64, usize)> {
        let mut state = 1_u64;
        (0..count)
            .map(|at| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                ((state >> 33) % (count as u64 / 3 + 1), at)
            })
            .collect()
    }

    #[test]
    fn it_sorts_as_the_standard_library_does() {
        for count in [0, 1, 2, 3, 7, 20, 21, 100, 1000] {
            let (mut own, mut standard) = (numbers(count), numbers(count));
            own.compact_sort_by_key(|(number, _)| *number);
            standard.sort_by_key(|(number, _)| *number);
            assert_eq!(own, standard);
            own.compact_sort_by(|a, b| b.cmp(a));
            standard.sort_by(|a, b| b.cmp(a));
            assert_eq!(own, standard);
        }
    }
}
