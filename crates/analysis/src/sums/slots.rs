//! Small numbers for devices, owners and files: in the order of first sight while the source is
//! read, those with the most time first in the result.

use rustc_hash::FxHashMap;
use std::hash::Hash;

/// Numbers things by first sight, up to a limit; all further ones share the last number.
#[derive(Clone, Debug)]
pub struct Slots<K> {
    index: FxHashMap<K, u16>,
    keys: Vec<K>,
    most: usize,
    latest: Option<(K, u16)>,
}

impl<K: Copy + Eq + Hash> Slots<K> {
    /// Numbers from 0 to `most`, of which the last stands for all further ones.
    pub fn new(most: usize) -> Slots<K> {
        Slots { index: FxHashMap::default(), keys: Vec::new(), most, latest: None }
    }

    /// The number of `key`.
    #[inline]
    pub fn of(&mut self, key: K) -> u16 {
        if let Some((known, slot)) = self.latest
            && known == key
        {
            return slot;
        }
        let slot = match self.index.get(&key) {
            Some(slot) => *slot,
            None if self.keys.len() >= self.most => self.most as u16,
            None => {
                let slot = self.keys.len() as u16;
                self.keys.push(key);
                self.index.insert(key, slot);
                slot
            }
        };
        self.latest = Some((key, slot));
        slot
    }

    /// The number that `key` has by itself; `None` if it has none.
    pub fn find(&self, key: K) -> Option<u16> {
        self.index.get(&key).copied()
    }

    /// Returns the key that a number stands for; `None` for all further ones.
    pub fn get(&self, slot: u16) -> Option<K> {
        self.keys.get(usize::from(slot)).copied()
    }

    /// Returns the count of numbers in use, with the one for all further ones.
    pub fn numbers(&self) -> usize {
        self.keys.len() + 1
    }
}

/// New numbers for old ones: the `most` with the highest weight come first, by weight; all others
/// share the number behind them.
pub(crate) fn largest(weights: &[u64], most: usize) -> Vec<u16> {
    // The last stands for what had no number of its own.
    let own = weights.len().saturating_sub(1);
    let mut order: Vec<usize> = (0..own).filter(|slot| weights[*slot] > 0).collect();
    order.sort_by_key(|slot| (std::cmp::Reverse(weights[*slot]), *slot));
    order.truncate(most);
    let mut numbers = vec![order.len() as u16; weights.len()];
    for (new, old) in order.into_iter().enumerate() {
        numbers[old] = new as u16;
    }
    numbers
}

/// The new number of an old one; one that has none stays.
pub(crate) fn renumbered(numbers: &[u16], old: u16) -> u16 {
    numbers.get(usize::from(old)).copied().unwrap_or(old)
}
