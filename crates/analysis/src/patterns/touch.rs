//! Whether first reads of a region of a device are slower than reads of regions that were accessed
//! before.
//!
//! What does not belong here: pages that are read again (see [`super::access`]).

use crate::summary::patterns::Touch;
use crate::summary::{Direction, Interval};
use crate::sums::request_times::Life;
use iowhy_model::Request;
use rustc_hash::FxHashSet;

/// Sectors of a region: 64 KiB, the smallest unit that lazily loaded volumes are filled by (qcow2's
/// cluster, a thin pool's chunk).
const REGION_SECTORS: u64 = 128;
/// Maximum number of regions; beyond it the sampling rate is halved.
const REGIONS: usize = 1 << 16;

/// Adds up requests as they come.
#[derive(Clone, Debug)]
pub(super) struct TouchTally {
    sums: Touch,
    seen: FxHashSet<u64>,
    /// Sampling rate of regions.
    step: u64,
}

impl Default for TouchTally {
    fn default() -> TouchTally {
        TouchTally { sums: Touch::default(), seen: FxHashSet::default(), step: 1 }
    }
}

impl TouchTally {
    #[inline]
    pub fn add(&mut self, request: &Request, life: &Life) {
        let region = request.sector / REGION_SECTORS;
        let direction = Direction::from(request.operation);
        let time_ns = life.intervals[Interval::D2c].or(life.whole_ns);
        let (Some(time_ns), true) = (time_ns, region.is_multiple_of(self.step)) else { return };
        let is_new = self.seen.insert(region);
        let (count, sum) = match (direction, is_new) {
            (Direction::Read, true) => (&mut self.sums.first_reads, &mut self.sums.first_ns),
            (Direction::Read, false) => (&mut self.sums.again_reads, &mut self.sums.again_ns),
            (Direction::Write, _) => (&mut self.sums.writes, &mut self.sums.write_ns),
            _ => return,
        };
        *count += 1;
        *sum = sum.saturating_add(time_ns);
        if self.seen.len() >= REGIONS {
            self.step *= 2;
            let step = self.step;
            self.seen.retain(|region| region.is_multiple_of(step));
        }
    }

    pub fn finish(&self) -> Touch {
        self.sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::ScriptSummary;
    use iowhy_model::script::Script;

    #[test]
    fn a_place_is_new_once() {
        let mut script = Script::new(1);
        script.write("sda", 4096).sector(0).direct(0, 0, 5).add();
        for (sector, d2c) in [(8, 20), (128, 900), (136, 30), (128, 40)] {
            script.read("sda", 4096).sector(sector).direct(0, 0, d2c).add();
        }
        let touch = script.summary().patterns.devices[0].touch;
        assert_eq!((touch.first_reads, touch.first_ns), (1, 900));
        assert_eq!((touch.again_reads, touch.again_ns), (3, 90));
        assert_eq!((touch.writes, touch.write_ns), (1, 5));
    }

    #[test]
    fn more_places_than_are_kept_are_sampled() {
        let mut script = Script::new(1);
        for round in 0..2_u64 {
            for region in 0..100_000_u64 {
                let read = script.read("sda", 4096).sector(region * REGION_SECTORS);
                read.direct(0, 0, if round == 0 { 100 } else { 10 }).add();
            }
        }
        let touch = script.summary().patterns.devices[0].touch;
        let (first, again, _) = touch.means();
        assert!(first > 99.0 && again < 12.0, "{touch:?}");
    }
}
