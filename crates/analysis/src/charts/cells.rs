//! Sums by column of time and by what can be filtered. When there are too many cells, pairs of
//! columns become one; sums stay exact.

use crate::summary::Measure;
use iowhy_model::Request;
use rustc_hash::FxHashMap;
use std::hash::{Hash, Hasher};

/// Bins of latency for each doubling: each is at most an eighth wider than where it begins.
pub const PER_OCTAVE: u32 = 8;
/// The exponent of the latency at which the first full octave begins: 1.024 µs. Bin 0 also holds
/// what is shorter.
pub const FIRST_OCTAVE: u32 = 10;
/// The last bin: it also holds what is longer (about 40 minutes).
pub const LAST_BIN: u8 = 249;
/// Stands for a latency that is not known or not distinguished.
pub const NO_LATENCY: u8 = 255;

/// Stages of requests that cells add up, in the order of [`CellSums::stages`]; their word as btt
/// has it.
pub const STAGES: [&str; 5] = ["q2g", "g2i", "i2d", "g2d", "d2c"];

/// The latency bin of a time.
#[inline]
pub fn bin_of(nanoseconds: u64) -> u8 {
    let octave = nanoseconds.max(1 << FIRST_OCTAVE).ilog2();
    let eighth = (nanoseconds.max(1 << FIRST_OCTAVE) >> (octave - 3)) as u32 - PER_OCTAVE;
    let bin = (octave - FIRST_OCTAVE) * PER_OCTAVE + eighth;
    bin.min(u32::from(LAST_BIN)) as u8
}

/// Returns the lower bound of a latency bin, nanoseconds.
pub fn bin_from_ns(bin: u8) -> u64 {
    let (octave, eighth) = (u32::from(bin) / PER_OCTAVE, u32::from(bin) % PER_OCTAVE);
    if bin == 0 { 0 } else { u64::from(PER_OCTAVE + eighth) << (FIRST_OCTAVE + octave - 3) }
}

/// The key of a cell: its column of time, and the values that a reader can filter by.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct CellKey {
    /// The column of time.
    pub column: u16,
    /// The device.
    pub device: u16,
    /// The owner.
    pub owner: u16,
    /// The file.
    pub file: u16,
    /// The kind of requests, or the wait class.
    pub kind: u8,
    /// The latency bin, or [`NO_LATENCY`].
    pub latency: u8,
    /// The exponent of the power of two that the size in bytes is at least; 0 for no bytes.
    pub size: u8,
}

/// Two words are hashed faster than seven fields.
impl Hash for CellKey {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        let CellKey { column, device, owner, file, kind, latency, size } = *self;
        let [column, device, owner, file] = [column, device, owner, file].map(u64::from);
        state.write_u64(column << 48 | device << 32 | owner << 16 | file);
        state.write_u32(u32::from_le_bytes([kind, latency, size, 0]));
    }
}

/// The sums of a cell.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct CellSums {
    /// Requests or waits.
    pub measure: Measure,
    /// The part of their time in each stage, nanoseconds.
    pub stages: [u64; STAGES.len()],
}

impl CellSums {
    /// Requests or waits without their stages.
    #[inline]
    pub(super) fn from_measure(measure: Measure) -> CellSums {
        CellSums { measure, ..CellSums::default() }
    }

    /// A request, of which `time_ns` is the time of one.
    #[inline]
    pub(super) fn for_request(request: &Request, time_ns: u64) -> CellSums {
        let stage = |of_one_ns: u64| Measure::for_request(request, of_one_ns).time_ns;
        CellSums {
            measure: Measure::for_request(request, time_ns),
            stages: request.stages_ns().map(stage),
        }
    }

    #[inline]
    fn add(&mut self, other: &CellSums) {
        self.measure.add(&other.measure);
        for (own, theirs) in self.stages.iter_mut().zip(other.stages) {
            *own = own.saturating_add(theirs);
        }
    }
}

/// Cells that are kept before columns become wider.
const MOST_CELLS: usize = 1 << 18;

/// Cells that are being filled.
#[derive(Clone, Debug, Default)]
pub(super) struct Cells {
    cells: FxHashMap<CellKey, CellSums>,
    /// The position of the latest key: requests that are alike come together.
    latest: Option<(CellKey, CellSums)>,
    /// The number of requests and waits that found no cell.
    pub left_out: u64,
}

impl Cells {
    #[inline]
    pub fn add(&mut self, key: CellKey, sums: &CellSums) {
        match &mut self.latest {
            Some((known, latest)) if *known == key => latest.add(sums),
            latest => {
                if let Some((key, sums)) = latest.replace((key, *sums)) {
                    self.store(key, &sums);
                }
            }
        }
    }

    #[inline]
    fn store(&mut self, key: CellKey, sums: &CellSums) {
        // Twice the limit at which columns become wider: nothing helps any more.
        if self.cells.len() >= 2 * MOST_CELLS && !self.cells.contains_key(&key) {
            self.left_out = self.left_out.saturating_add(sums.measure.count);
            return;
        }
        self.cells.entry(key).or_default().add(sums);
    }

    /// Stores what was added last.
    pub fn settle(&mut self) {
        if let Some((key, sums)) = self.latest.take() {
            self.store(key, &sums);
        }
    }

    pub fn is_full(&self) -> bool {
        self.cells.len() >= MOST_CELLS
    }

    /// Gives every cell a new key; those with the same are one.
    pub fn rekey(&mut self, key: impl Fn(CellKey) -> CellKey) {
        self.settle();
        let old = std::mem::take(&mut self.cells);
        self.cells.reserve(old.len() / 2);
        for (old_key, sums) in old {
            self.cells.entry(key(old_key)).or_default().add(&sums);
        }
    }

    pub fn len(&self) -> usize {
        self.cells.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&CellKey, &CellSums)> {
        self.cells.iter()
    }

    /// All cells, by key.
    pub fn finish(mut self) -> Vec<(CellKey, CellSums)> {
        self.settle();
        let mut cells: Vec<(CellKey, CellSums)> = self.cells.into_iter().collect();
        cells.sort_unstable_by_key(|(key, _)| *key);
        cells
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_lies_in_its_bin() {
        for latency in [0, 1, 1_023, 1_024, 1_151, 1_152, 2_047, 2_048, 999_999, 1 << 38] {
            let bin = bin_of(latency);
            assert!(bin_from_ns(bin) <= latency && latency < bin_from_ns(bin + 1), "{latency}");
        }
        assert_eq!((bin_of(u64::MAX), bin_of(0)), (LAST_BIN, 0));
        let width = |bin: u8| bin_from_ns(bin + 1) as f64 / bin_from_ns(bin) as f64;
        assert!((1..LAST_BIN).all(|bin| width(bin) <= 1.125));
    }
}
