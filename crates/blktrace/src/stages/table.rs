//! A hash table from (device, sector) to the open slots: open addressing, eight bytes an entry, so
//! that a busy capture's table stays in the cache.
//!
//! The key is not kept: the caller compares the slot.

/// Entries hold the hash above the slot's number plus one; zero is empty.
#[derive(Debug)]
pub struct HashSlots {
    entries: Vec<u64>,
    len: usize,
}

/// The hash of a device's number and a sector.
#[inline]
pub const fn hash(device: u32, sector: u64) -> u32 {
    let mixed = (sector ^ ((device as u64) << 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32) as u32
}

const fn entry(hash: u32, slot: u32) -> u64 {
    ((hash as u64) << 32) | (slot as u64 + 1)
}

impl Default for HashSlots {
    fn default() -> HashSlots {
        HashSlots { entries: vec![0; 1024], len: 0 }
    }
}

impl HashSlots {
    #[inline]
    fn mask(&self) -> usize {
        self.entries.len() - 1
    }

    #[inline]
    fn at(&self, index: usize) -> u64 {
        self.entries.get(index).copied().unwrap_or(0)
    }

    fn put(&mut self, index: usize, entry: u64) {
        if let Some(slot) = self.entries.get_mut(index) {
            *slot = entry;
        }
    }

    /// The slot with this hash that `same` accepts.
    #[inline]
    pub fn find(&self, hash: u32, same: impl Fn(u32) -> bool) -> Option<u32> {
        let mask = self.mask();
        let mut index = hash as usize & mask;
        loop {
            let found = self.at(index);
            if found == 0 {
                return None;
            }
            let slot = (found as u32).wrapping_sub(1);
            if (found >> 32) as u32 == hash && same(slot) {
                return Some(slot);
            }
            index = (index + 1) & mask;
        }
    }

    /// Adds a slot whose key is not in the table.
    #[inline]
    pub fn insert(&mut self, hash: u32, slot: u32) {
        if (self.len + 1) * 2 > self.entries.len() {
            self.grow();
        }
        self.len += 1;
        self.add(entry(hash, slot));
    }

    fn add(&mut self, entry: u64) {
        let mask = self.mask();
        let mut index = (entry >> 32) as usize & mask;
        while self.at(index) != 0 {
            index = (index + 1) & mask;
        }
        self.put(index, entry);
    }

    fn grow(&mut self) {
        let larger = vec![0; self.entries.len() * 2];
        let old = std::mem::replace(&mut self.entries, larger);
        old.into_iter().filter(|entry| *entry != 0).for_each(|entry| self.add(entry));
    }

    fn index_of(&self, hash: u32, slot: u32) -> Option<usize> {
        let (mask, wanted) = (self.mask(), entry(hash, slot));
        let mut index = hash as usize & mask;
        loop {
            match self.at(index) {
                0 => return None,
                found if found == wanted => return Some(index),
                _ => index = (index + 1) & mask,
            }
        }
    }

    /// Puts `new` instead of `old`, which has the same key.
    pub fn replace(&mut self, hash: u32, old: u32, new: u32) {
        if let Some(index) = self.index_of(hash, old) {
            self.put(index, entry(hash, new));
        }
    }

    /// Removes a slot. Entries that it displaced move back, so no marks are left.
    pub fn remove(&mut self, hash: u32, slot: u32) {
        let Some(mut hole) = self.index_of(hash, slot) else { return };
        self.len -= 1;
        let mask = self.mask();
        let mut index = hole;
        loop {
            index = (index + 1) & mask;
            let found = self.at(index);
            if found == 0 {
                break;
            }
            let home = (found >> 32) as usize & mask;
            if (index.wrapping_sub(home) & mask) >= (index.wrapping_sub(hole) & mask) {
                self.put(hole, found);
                hole = index;
            }
        }
        self.put(hole, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn agrees_with_a_set() {
        let (mut table, mut model) = (HashSlots::default(), BTreeSet::new());
        let mut seed = 3u64;
        for _ in 0..200_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let key = (seed >> 40) as u32 % 5_000;
            let hash = hash(0, u64::from(key % 997));
            if model.insert(key) {
                table.insert(hash, key);
            } else {
                model.remove(&key);
                table.remove(hash, key);
            }
            let found = table.find(hash, |slot| slot == key);
            assert_eq!(found.is_some(), model.contains(&key));
        }
        assert_eq!(table.len, model.len());
    }
}
