//! Hash maps whose memory is bounded, whatever the machine does.
//!
//! | map | at its limit |
//! |---|---|
//! | [`CappedMap`] | keeps the keys that it has, and refuses and counts new ones |
//! | [`RestartingMap`] | forgets all, because what is left is of records that were lost |
//!
//! What does not belong here: tables that keep the largest keys and aggregate the others (see
//! crate `iowhy-analysis`).

use rustc_hash::FxHashMap;
use std::hash::Hash;

/// A map that keeps its first `MOST` keys.
#[derive(Clone, Debug)]
pub struct CappedMap<K, V, const MOST: usize> {
    map: FxHashMap<K, V>,
    refused: u64,
}

impl<K, V, const MOST: usize> Default for CappedMap<K, V, MOST> {
    fn default() -> CappedMap<K, V, MOST> {
        CappedMap { map: FxHashMap::default(), refused: 0 }
    }
}

impl<K: Eq + Hash, V, const MOST: usize> CappedMap<K, V, MOST> {
    /// Whether `key` is kept or can be; if not, it is counted as refused.
    pub fn admits(&mut self, key: &K) -> bool {
        let admitted = self.map.len() < MOST || self.map.contains_key(key);
        self.refused += u64::from(!admitted);
        admitted
    }

    /// Sets the value of `key`; does nothing if it is refused.
    pub fn insert(&mut self, key: K, value: V) {
        if self.admits(&key) {
            self.map.insert(key, value);
        }
    }

    /// The value of `key`, made with `new` if there is none; `None` if it is refused.
    pub fn or_insert_with(&mut self, key: K, new: impl FnOnce() -> V) -> Option<&mut V> {
        self.admits(&key).then(|| self.map.entry(key).or_insert_with(new))
    }

    /// The value of `key`, the default if there is none; `None` if it is refused.
    pub fn or_default(&mut self, key: K) -> Option<&mut V>
    where
        V: Default,
    {
        self.or_insert_with(key, V::default)
    }

    /// The value of `key`.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.map.get(key)
    }

    /// The value of `key`, to be changed.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.map.get_mut(key)
    }

    /// Removes `key`, which frees its slot.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        self.map.remove(key)
    }

    /// Every key with its value, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.map.iter()
    }

    /// Every key, in no order.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.map.keys()
    }

    /// Every value, in no order.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.map.values()
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Whether no key is kept.
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// Returns how often a key was refused.
    pub fn refused(&self) -> u64 {
        self.refused
    }
}

/// A map that begins anew at a key beyond `MOST`. For what is removed when it is used: what is left
/// in a full map will not be used any more.
#[derive(Clone, Debug)]
pub struct RestartingMap<K, V, const MOST: usize> {
    map: FxHashMap<K, V>,
}

impl<K, V, const MOST: usize> Default for RestartingMap<K, V, MOST> {
    fn default() -> RestartingMap<K, V, MOST> {
        RestartingMap { map: FxHashMap::default() }
    }
}

impl<K: Eq + Hash, V, const MOST: usize> RestartingMap<K, V, MOST> {
    fn make_room(&mut self, key: &K) {
        if self.map.len() >= MOST && !self.map.contains_key(key) {
            self.map.clear();
        }
    }

    /// Sets the value of `key`; returns the one that it had.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        self.make_room(&key);
        self.map.insert(key, value)
    }

    /// The value of `key`, the default if it had none.
    pub fn or_default(&mut self, key: K) -> &mut V
    where
        V: Default,
    {
        self.make_room(&key);
        self.map.entry(key).or_default()
    }

    /// The value of `key`.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.map.get(key)
    }

    /// Removes `key`.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        // Most of these maps are empty most of the time: nothing to hash then.
        if self.map.is_empty() { None } else { self.map.remove(key) }
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Whether no key is kept.
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capped_map_keeps_what_came_first_and_counts_the_rest() {
        let mut map = CappedMap::<u32, u32, 2>::default();
        (0..4).for_each(|key| map.insert(key, key));
        assert_eq!((map.len(), map.refused()), (2, 2));
        assert_eq!(map.get(&3), None);
        map.insert(1, 7);
        assert_eq!((map.get(&1), map.refused()), (Some(&7), 2), "a known key is never refused");
        assert_eq!(map.or_insert_with(3, || 0), None);
        map.remove(&0);
        *map.or_insert_with(3, || 5).unwrap() += 1;
        assert_eq!((map.get(&3), map.len(), map.refused()), (Some(&6), 2, 3));
        assert_eq!((map.keys().count(), map.values().sum::<u32>()), (2, 13));
    }

    #[test]
    fn a_restarting_map_has_the_latest() {
        let mut map = RestartingMap::<u32, u32, 2>::default();
        map.insert(0, 0);
        map.insert(1, 1);
        assert_eq!(map.insert(1, 2), Some(1), "a known key needs no room");
        *map.or_default(2) += 9;
        assert_eq!((map.len(), map.get(&1)), (1, None));
        assert_eq!((map.remove(&2), map.remove(&2)), (Some(9), None));
        assert!(map.is_empty());
    }
}
