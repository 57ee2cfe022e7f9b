//! Estimates of the page cache that a program's reads had, from repeated reads: a part of a file
//! that is read a second time was evicted since, so the cache was no larger than the bytes that
//! were read in between.
//!
//! What does not belong here: limits that are known (see [`crate::planning`]).

use iowhy_model::Name;
use rustc_hash::FxHashMap;

/// The size of a part, bytes.
const PART: u64 = 64 << 10;
/// The most parts and distances that are kept: 4 GiB of files.
const MOST: usize = 1 << 16;
/// The least share of bytes that are read again for the cache to be too small. Chosen, as in the
/// cause `readahead-waste`.
const AGAIN: f64 = 0.1;
/// The least parts read again to say anything.
const LEAST: usize = 32;

/// Bytes that were read, and the part of them that was read again.
#[derive(Clone, Debug, Default)]
pub struct RereadBytes {
    /// All bytes that were read.
    pub bytes: u64,
    /// Bytes of them that had been read before.
    again: u64,
    /// The latest read of each part, as the bytes that had been read until then.
    last: FxHashMap<(Name, u64), u64>,
    /// Bytes that were read between two reads of a part.
    distances: Vec<u64>,
}

impl RereadBytes {
    /// Adds a read through the page cache.
    pub fn read(&mut self, (file, offset): (Name, u64), bytes: u64, weight: u64) {
        let now = self.bytes;
        self.bytes = self.bytes.saturating_add(bytes.saturating_mul(weight));
        // The first whole part: of a smaller read the part that it is in.
        let part = (file, offset.div_ceil(PART));
        let is_inside = offset.next_multiple_of(PART) >= offset.saturating_add(bytes);
        let part = if is_inside { (file, offset / PART) } else { part };
        if self.last.len() >= MOST && !self.last.contains_key(&part) {
            return;
        }
        let Some(before) = self.last.insert(part, now) else { return };
        // Pages of one part that are read one after the other are no second read.
        if now.saturating_sub(before) < PART {
            return;
        }
        self.again = self.again.saturating_add(bytes.saturating_mul(weight));
        if self.distances.len() < MOST {
            self.distances.push(now - before);
        }
    }

    /// The most that the cache can have held, bytes; `None` if little was read again.
    pub fn cache_bytes(&self) -> Option<u64> {
        let is_small = self.again as f64 >= AGAIN * self.bytes as f64;
        if !is_small || self.distances.len() < LEAST {
            return None;
        }
        let mut sorted = self.distances.clone();
        sorted.sort_unstable();
        // At random, pages come again after any time from the size of the cache on; a few are
        // evicted before their turn.
        sorted.get(sorted.len() / 50).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walked(files: u64, rounds: u64) -> RereadBytes {
        let mut reads = RereadBytes::default();
        for _ in 0..rounds {
            for part in 0..files {
                reads.read((Name::EMPTY, part * (128 << 10)), 128 << 10, 1);
            }
        }
        reads
    }

    #[test]
    fn what_is_read_again_bounds_the_cache() {
        assert_eq!(walked(400, 3).cache_bytes(), Some(400 * (128 << 10)));
        assert_eq!(walked(400, 1).cache_bytes(), None, "nothing is read again");
        assert_eq!(RereadBytes::default().cache_bytes(), None);
    }

    #[test]
    fn pages_of_one_part_are_one_read() {
        let mut reads = RereadBytes::default();
        (0..1000).for_each(|page| reads.read((Name::EMPTY, page * 4096), 4096, 1));
        assert_eq!(reads.cache_bytes(), None);
    }
}
