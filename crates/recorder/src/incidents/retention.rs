//! Which incidents make room for others. Pure.
//!
//! What does not belong here: removing them.

/// An incident as far as its removal is concerned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoredSize {
    /// Its number; a higher one is newer.
    pub number: u32,
    /// Its bytes on disk.
    pub bytes: u64,
    /// Whether it is never removed to make room.
    pub pinned: bool,
}

/// The numbers of the incidents to remove, oldest first, so that those that stay and `needed` more
/// bytes are at most `budget`. The incident `spared`, which is being written, stays. If pinned
/// incidents take too much, all others go.
pub fn to_remove(stored: &[StoredSize], budget: u64, needed: u64, spared: Option<u32>) -> Vec<u32> {
    let mut sorted = stored.to_vec();
    sorted.sort_by_key(|incident| incident.number);
    let mut total: u64 = sorted.iter().map(|incident| incident.bytes).sum();
    let mut gone = Vec::new();
    for incident in sorted {
        if total.saturating_add(needed) <= budget {
            break;
        }
        if !incident.pinned && Some(incident.number) != spared {
            total -= incident.bytes;
            gone.push(incident.number);
        }
    }
    gone
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(number: u32, bytes: u64, pinned: bool) -> StoredSize {
        StoredSize { number, bytes, pinned }
    }

    #[test]
    fn the_oldest_goes_first_and_a_pinned_one_never() {
        let all = [stored(3, 10, false), stored(1, 10, true), stored(2, 10, false)];
        assert_eq!(to_remove(&all, 30, 0, None), [0; 0]);
        assert_eq!(to_remove(&all, 30, 5, None), [2]);
        assert_eq!(to_remove(&all, 30, 15, None), [2, 3]);
        assert_eq!(to_remove(&all, 30, 15, Some(2)), [3]);
        assert_eq!(to_remove(&all, 5, 0, None), [2, 3]);
    }

    #[test]
    fn a_month_of_incidents_stays_within_the_budget() {
        let mut all: Vec<StoredSize> = Vec::new();
        for number in 1..=4_320 {
            let bytes = 1 + u64::from(number) * 7 % 300;
            let gone = to_remove(&all, 2_000, bytes, None);
            all.retain(|incident| !gone.contains(&incident.number));
            all.push(stored(number, bytes, number % 1_000 == 0));
            assert!(all.iter().map(|incident| incident.bytes).sum::<u64>() <= 2_000);
        }
        assert!(all.iter().filter(|incident| incident.pinned).count() == 4);
    }
}
