//! Slices of one Perfetto track must nest, and requests of a device overlap: each goes to a lane
//! that is free, a track of its own.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The most lanes: more than any queue is deep. Requests beyond are left out and counted.
const MOST: u32 = 4096;

/// The lanes of one device.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    /// The time from which each lane is free again, and its number; the earliest first.
    free: BinaryHeap<Reverse<(u64, u32)>>,
    count: u32,
}

impl Lanes {
    /// A lane that is free from `start` on, and is then taken until `end`; and whether it is new.
    pub fn take(&mut self, start: u64, end: u64) -> Option<(u32, bool)> {
        let reusable = self.free.peek().is_some_and(|Reverse((free, _))| *free <= start);
        let (lane, new) = match self.free.pop() {
            Some(Reverse((_, lane))) if reusable => (lane, false),
            other => {
                self.free.extend(other);
                if self.count >= MOST {
                    return None;
                }
                self.count += 1;
                (self.count - 1, true)
            }
        };
        self.free.push(Reverse((end, lane)));
        Some((lane, new))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_overlaps_goes_to_different_lanes() {
        let mut lanes = Lanes::default();
        assert_eq!(lanes.take(0, 10), Some((0, true)));
        assert_eq!(lanes.take(5, 7), Some((1, true)));
        assert_eq!(lanes.take(7, 30), Some((1, false)));
        assert_eq!(lanes.take(10, 11), Some((0, false)));
        assert_eq!(lanes.take(3, 4), Some((2, true)));
    }

    #[test]
    fn lanes_are_bounded() {
        let mut lanes = Lanes::default();
        let taken = (0..2 * u64::from(MOST)).filter_map(|n| lanes.take(n, u64::MAX)).count();
        assert_eq!(taken, MOST as usize);
    }
}
