//! Losses of a watch. Nothing is dropped silently: every loss is a number and a sentence.

use super::object::object;
use super::table::Table;
use super::wait::Wait;
use crate::figures;

/// Places of losses that leave whole waits without a record.
const WHOLE_WAITS: &[&str] = &["ring_waits", "sleepers", "too_large_waits"];

/// Places of records that are lost as a whole, of which a request or a wait is told all the same.
const DROPPED: &[&str] = &["ring_events", "undecided_waits", "list_waits", "chains"];

object! {
    /// One kind of loss and its count.
    pub struct Loss {
        /// Where it happened, as a short id: `ring`, `in_flight_map`, `paths` …
        pub place: String,
        /// The number of lost records.
        pub count: u64,
        /// What it means for the reader, as half a sentence: "requests that have no record".
        pub meaning: String,
        /// Whether whole requests are missing (then totals are too low), or only details of them.
        pub requests: bool,
    }
}

object! {
    /// All losses of a watch.
    pub struct Losses {
        /// The kinds with a count above zero.
        pub items: Vec<Loss>,
    }
}

impl Loss {
    /// `3 requests that have no record`, `1 request that has no record`.
    pub fn sentence(&self) -> String {
        figures::counted(self.count, &self.meaning)
    }

    /// The sentence after what it is: `lost: 3 requests that have no record`, `incomplete: 1 wait
    /// whose stack could not be stored`.
    pub fn note(&self) -> String {
        let is_whole = self.is_of_whole_records() || DROPPED.contains(&self.place.as_str());
        let kind = if is_whole { "lost" } else { "incomplete" };
        format!("{kind}: {}", self.sentence())
    }

    /// Whether whole requests or waits have no record, not only a detail of them.
    pub fn is_of_whole_records(&self) -> bool {
        self.requests || WHOLE_WAITS.contains(&self.place.as_str())
    }
}

impl Losses {
    /// The place of requests of a capture that were issued and never completed: they hang, or their
    /// completions were lost.
    pub const UNFINISHED: &'static str = "unfinished";

    /// Adds `count` to the losses of `place`; a count of zero adds no entry.
    pub fn add(&mut self, place: &str, count: u64, meaning: &str, requests: bool) {
        if count == 0 {
            return;
        }
        match self.items.iter_mut().find(|loss| loss.place == place) {
            Some(loss) => loss.count += count,
            None => self.items.push(Loss {
                place: place.to_owned(),
                count,
                meaning: meaning.to_owned(),
                requests,
            }),
        }
    }

    /// Losses of waits: during the watch, because of the recording's size limit, and in their
    /// table.
    pub fn waits(&self) -> impl Iterator<Item = &Loss> {
        let table = format!("/{}", Wait::NAME);
        self.items.iter().filter(move |Loss { place, .. }| {
            let known = WHOLE_WAITS.contains(&place.as_str());
            known || place.starts_with("wait") || place.ends_with(&table)
        })
    }

    /// The number of requests without a record.
    pub fn requests(&self) -> u64 {
        self.items.iter().filter(|loss| loss.requests).map(|loss| loss.count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::Losses;

    #[test]
    fn a_detail_is_incomplete_and_a_record_is_lost() {
        let mut losses = Losses::default();
        losses.add("ring", 3, "requests that have no record", true);
        losses.add("undecided_waits", 2, "waits dropped: not known whether for storage", false);
        losses.add("wait_stacks", 1, "waits whose stack could not be stored", false);
        let notes: Vec<String> = losses.items.iter().map(super::Loss::note).collect();
        assert_eq!(notes[0], "lost: 3 requests that have no record");
        assert!(notes[1].starts_with("lost: 2 waits dropped"), "{notes:?}");
        assert_eq!(notes[2], "incomplete: 1 wait whose stack could not be stored");
    }
}
