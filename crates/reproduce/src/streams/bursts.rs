//! Whether a load comes in bursts, from when its operations began.
//!
//! What does not belong here: causes of bursts (crate `iowhy-diagnosis`).

use iowhy_model::compact_sort::CompactSort;

/// The length of a bin, nanoseconds.
pub const BIN_NS: u64 = 50_000_000;
/// Bins at first; a longer watch doubles their length.
const BINS: usize = 1024;
/// The most times that this length doubles: 1,024 bins then hold all that 64 bits of nanoseconds
/// can say, and an impossible time ends the doubling.
const MOST_DOUBLED: u32 = 29;
/// A burst has most of the operations in at most this share of the time. Chosen.
const ON_SHARE: f64 = 0.5;
/// The share of the operations that bursts must have.
const MOST: f64 = 0.9;
/// The least number of bursts, so that there is a period.
const LEAST: usize = 3;
/// Calm bins that end a burst.
const CALM: usize = 3;

/// Operations over the watch.
#[derive(Clone, Debug, Default)]
pub struct OperationBins {
    bins: Vec<u64>,
    /// Power of two by which a bin is longer than [`BIN_NS`].
    doubled: u32,
}

/// A rhythm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BurstRhythm {
    /// From the beginning of a burst to that of the next, nanoseconds.
    pub period_ns: u64,
    /// The share of the period that a burst takes.
    pub on_share: f64,
    /// Number of bursts that were seen.
    pub bursts: usize,
}

impl OperationBins {
    /// Counts operations that began so long after the watch.
    pub fn add(&mut self, since_ns: u64, count: u64) {
        while (since_ns / self.length_ns()) as usize >= BINS {
            self.bins = self.bins.chunks(2).map(|pair| pair.iter().sum()).collect();
            self.doubled += 1;
        }
        let at = (since_ns / self.length_ns()) as usize;
        if self.bins.len() <= at {
            self.bins.resize(at + 1, 0);
        }
        if let Some(bin) = self.bins.get_mut(at) {
            *bin += count;
        }
    }

    fn length_ns(&self) -> u64 {
        BIN_NS << self.doubled.min(MOST_DOUBLED)
    }

    /// The rhythm, if there is one over a watch of this length.
    pub fn rhythm(&self, duration_ns: u64) -> Option<BurstRhythm> {
        let all: u64 = self.bins.iter().sum();
        let length = (duration_ns / self.length_ns()).max(self.bins.len() as u64).max(1);
        let mut sorted = self.bins.clone();
        sorted.compact_sort_by_key(|count| std::cmp::Reverse(*count));
        // The smallest bin of those that have most operations; bins that are alike belong together.
        let mut sum = 0;
        let has_most = |count: &&u64| {
            sum += **count;
            sum as f64 >= MOST * all as f64
        };
        let least = sorted.iter().find(has_most).map_or(1, |count| (*count).max(1));
        // The time behind the last operation is calm: it needs no bins.
        let on: Vec<bool> = self.bins.iter().map(|count| *count >= least).collect();
        let (mut starts, mut calm, mut count) = (Vec::new(), CALM, 0);
        for (at, is_on) in on.iter().enumerate() {
            if *is_on {
                if calm >= CALM {
                    starts.push(at);
                }
                count += 1;
            }
            calm = if *is_on { 0 } else { calm + 1 };
        }
        let on_share = count as f64 / length as f64;
        if starts.len() < LEAST || on_share > ON_SHARE || all < 10 {
            return None;
        }
        let (first, last) = (*starts.first()?, *starts.last()?);
        let period_ns = (last - first) as u64 * self.length_ns() / (starts.len() as u64 - 1);
        Some(BurstRhythm { period_ns, on_share, bursts: starts.len() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn bursts_have_a_period() {
        let mut bins = OperationBins::default();
        for second in 0..10 {
            for part in 0..40 {
                bins.add(second * S + part * 5_000_000, 5);
            }
        }
        let rhythm = bins.rhythm(10 * S).unwrap();
        assert_eq!((rhythm.period_ns, rhythm.bursts), (S, 10));
        assert!((0.15..0.3).contains(&rhythm.on_share), "{rhythm:?}");
    }

    #[test]
    fn an_even_load_has_none() {
        let mut bins = OperationBins::default();
        (0..1000).for_each(|at| bins.add(at * 10_000_000, 1));
        assert_eq!(bins.rhythm(10 * S), None);
        assert_eq!(OperationBins::default().rhythm(10 * S), None);
    }

    #[test]
    fn a_time_that_cannot_be_ends() {
        for since_ns in [30 * 365 * 86_400 * S, 1 << 62, u64::MAX] {
            let mut bins = OperationBins::default();
            (0..20).for_each(|at| bins.add(at * S, 5));
            bins.add(since_ns, 1);
            assert!(bins.bins.len() <= BINS, "{}", bins.bins.len());
            assert_eq!(bins.bins.iter().sum::<u64>(), 101);
            assert_eq!(bins.rhythm(u64::MAX), None);
        }
        // A watch that says to be longer than its operations needs no memory for it.
        let mut bins = OperationBins::default();
        (0..200).for_each(|at| bins.add(at * 5_000_000, 1));
        assert_eq!(bins.rhythm(u64::MAX), None);
    }

    #[test]
    fn a_long_watch_has_longer_bins() {
        let mut bins = OperationBins::default();
        (0..3600).for_each(|at| bins.add(at * S, 1));
        assert!(bins.bins.len() <= BINS);
        assert_eq!(bins.bins.iter().sum::<u64>(), 3600);
    }
}
