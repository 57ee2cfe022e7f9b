//! Requests arrive when they complete; several formats want them as they began. A window keeps the
//! latest rows back and gives the earliest of them: what is out of order by no more than the window
//! holds comes out in order, in bounded memory.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Rows kept back. A disk at 200,000 requests a second fills it in 1.3 s.
const ROWS: usize = 1 << 18;

/// Sorts rows.
#[derive(Debug)]
pub struct SortWindow<T> {
    heap: BinaryHeap<Entry<T>>,
    rows: usize,
    sequence: u64,
    last: u64,
    late: u64,
}

#[derive(Debug)]
struct Entry<T> {
    /// The time, then the order of arrival.
    key: (u64, u64),
    row: T,
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Entry<T> {
    /// The earliest is the greatest, since a heap gives the greatest first.
    fn cmp(&self, other: &Self) -> Ordering {
        other.key.cmp(&self.key)
    }
}

impl<T> Default for SortWindow<T> {
    fn default() -> Self {
        SortWindow::new()
    }
}

impl<T> SortWindow<T> {
    /// An empty window.
    pub fn new() -> SortWindow<T> {
        SortWindow::of(ROWS)
    }

    fn of(rows: usize) -> SortWindow<T> {
        SortWindow { heap: BinaryHeap::new(), rows, sequence: 0, last: 0, late: 0 }
    }

    /// Takes a row of `time`; gives one back once the window is full.
    pub fn push(&mut self, time: u64, row: T) -> Option<(u64, T)> {
        self.sequence += 1;
        self.heap.push(Entry { key: (time, self.sequence), row });
        if self.heap.len() > self.rows { self.pop() } else { None }
    }

    /// The earliest row that is left. A row that came too late for its place keeps its time, and is
    /// counted.
    pub fn pop(&mut self) -> Option<(u64, T)> {
        let Entry { key: (time, _), row } = self.heap.pop()?;
        self.late += u64::from(time < self.last);
        self.last = self.last.max(time);
        Some((time, row))
    }

    /// Returns the number of rows that came too late for their place.
    pub fn late(&self) -> u64 {
        self.late
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn through(rows: usize, times: &[u64]) -> (Vec<u64>, u64) {
        let mut window = SortWindow::of(rows);
        let mut out: Vec<u64> =
            times.iter().filter_map(|time| window.push(*time, *time)).map(|row| row.1).collect();
        out.extend(std::iter::from_fn(|| window.pop()).map(|row| row.1));
        (out, window.late())
    }

    #[test]
    fn rows_come_out_in_order_or_are_counted() {
        assert_eq!(through(2, &[3, 1, 2, 5, 4]), (vec![1, 2, 3, 4, 5], 0));
        assert_eq!(through(2, &[5, 6, 7, 8, 1, 9]), (vec![5, 6, 1, 7, 8, 9], 1));
        assert_eq!(through(9, &[]), (vec![], 0));
    }
}
