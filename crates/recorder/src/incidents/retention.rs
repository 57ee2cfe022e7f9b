//! The choice of the incidents that make room for others. Pure.
//!
//! What does not belong here: removing them.

use iowhy_model::compact_sort::CompactSort;

/// The size of an incident, and the facts that decide about its removal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoredSize {
    /// Its number; a higher one is newer.
    pub number: u32,
    /// Its bytes on disk.
    pub bytes: u64,
    /// Whether it is never removed to make room.
    pub pinned: bool,
    /// Whether a person requested it.
    pub asked: bool,
}

/// The room that one incident needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NeededRoom {
    /// Bytes of the incident that are not on disk yet.
    pub bytes: u64,
    /// The incident itself, which stays; `None` if it is not on disk yet.
    pub spared: Option<u32>,
    /// Whether a person requested it.
    pub asked: bool,
}

/// Returns the numbers of the incidents to remove, oldest first, so that the others and what is
/// `needed` are at most `budget` bytes. If pinned incidents take too much, all others go.
///
/// People may ask for incidents as often as they like, and their incidents may take half of the
/// budget: where they have more, the oldest of them goes before any that the daemon began itself.
pub fn to_remove(stored: &[StoredSize], budget: u64, needed: NeededRoom) -> Vec<u32> {
    let mut left = stored.to_vec();
    left.compact_sort_by_key(|incident| incident.number);
    let bytes = |all: &[StoredSize], asked_only: bool| {
        let counted = all.iter().filter(|incident| incident.asked || !asked_only);
        let own = if needed.asked || !asked_only { needed.bytes } else { 0 };
        counted.fold(own, |sum, incident| sum.saturating_add(incident.bytes))
    };
    let mut gone = Vec::new();
    while bytes(&left, false) > budget {
        let removable =
            |incident: &StoredSize| !incident.pinned && Some(incident.number) != needed.spared;
        let theirs = left.iter().position(|incident| incident.asked && removable(incident));
        let theirs = theirs.filter(|_| bytes(&left, true) > budget / 2);
        let Some(at) = theirs.or_else(|| left.iter().position(removable)) else { break };
        gone.push(left.remove(at).number);
    }
    gone
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(number: u32, bytes: u64, pinned: bool) -> StoredSize {
        StoredSize { number, bytes, pinned, asked: false }
    }

    fn needed(bytes: u64, spared: Option<u32>) -> NeededRoom {
        NeededRoom { bytes, spared, asked: false }
    }

    #[test]
    fn incidents_that_people_ask_for_push_out_only_half_of_the_others() {
        let mut all: Vec<StoredSize> = (1..=10).map(|number| stored(number, 10, false)).collect();
        for number in 11..=200 {
            let asked = NeededRoom { bytes: 10, spared: None, asked: true };
            let gone = to_remove(&all, 100, asked);
            all.retain(|incident| !gone.contains(&incident.number));
            all.push(StoredSize { asked: true, ..stored(number, 10, false) });
        }
        let own: Vec<u32> =
            all.iter().filter(|incident| !incident.asked).map(|incident| incident.number).collect();
        assert_eq!((all.len(), own), (10, vec![6, 7, 8, 9, 10]));
        // And the daemon's own need room, too.
        let gone = to_remove(&all, 100, needed(10, None));
        assert_eq!(gone, [6]);
    }

    #[test]
    fn the_oldest_goes_first_and_a_pinned_one_never() {
        let all = [stored(3, 10, false), stored(1, 10, true), stored(2, 10, false)];
        assert_eq!(to_remove(&all, 30, needed(0, None)), [0; 0]);
        assert_eq!(to_remove(&all, 30, needed(5, None)), [2]);
        assert_eq!(to_remove(&all, 30, needed(15, None)), [2, 3]);
        assert_eq!(to_remove(&all, 30, needed(15, Some(2))), [3]);
        assert_eq!(to_remove(&all, 5, needed(0, None)), [2, 3]);
    }

    #[test]
    fn a_month_of_incidents_stays_within_the_budget() {
        let mut all: Vec<StoredSize> = Vec::new();
        for number in 1..=4_320 {
            let bytes = 1 + u64::from(number) * 7 % 300;
            let gone = to_remove(&all, 2_000, needed(bytes, None));
            all.retain(|incident| !gone.contains(&incident.number));
            all.push(stored(number, bytes, number % 1_000 == 0));
            assert!(all.iter().map(|incident| incident.bytes).sum::<u64>() <= 2_000);
        }
        assert!(all.iter().filter(|incident| incident.pinned).count() == 4);
    }
}
