//! Reasons why the dirtier of written-back pages is not known: they were dirty before the watch, or
//! the dirtier was missed.
//!
//! What does not belong here: the shares of known dirtiers (see [`super::decode`]).

use crate::counters::counter;
use crate::session::Session;
use crate::wire;
use iowhy_model::Losses;
use libbpf_rs::MapHandle;

/// Map elements that a CPU may hold in its local free list: the kernel evicts files slightly before
/// their map is full.
const HELD_BY_CPU: u64 = 128;

/// Whether dirtiers can have been missed.
#[derive(Default)]
pub struct Dirtiers {
    counters: Option<MapHandle>,
    /// Whether dirtiers are recorded.
    watched: bool,
    /// Number of files that are certainly kept.
    kept: u64,
    missed: bool,
}

impl Dirtiers {
    /// The state of this session's programs.
    pub fn new(session: &Session) -> Dirtiers {
        let cpus = libbpf_rs::num_possible_cpus().unwrap_or(1) as u64;
        let places = u64::from(wire::WIRE_DIRTY_INODES);
        Dirtiers {
            counters: session.handle("counters"),
            watched: ["on_dirty", "on_dirty_page"].iter().any(|name| session.is_attached(name)),
            kept: places.saturating_sub(cpus * HELD_BY_CPU),
            missed: false,
        }
    }

    /// Returns the reason why bytes have no dirtier.
    pub fn reason(&mut self) -> &'static str {
        if !self.watched {
            return "dirtiers could not be recorded";
        }
        // Losses so far happened before this record, or do no harm.
        self.missed = self.missed
            || self.count(wire::COUNT_RING_FULL_DETAIL) > 0
            || self.count(wire::COUNT_DIRTY_INODES) > self.kept;
        if self.missed {
            "dirtied before the watch, or its dirtier was missed"
        } else {
            "dirtied before the watch"
        }
    }

    fn count(&self, number: u32) -> u64 {
        self.counters.as_ref().map_or(0, |map| counter(map, number))
    }

    /// Adds the files whose dirtiers the kernel dropped: at least this many.
    pub fn losses(&self, losses: &mut Losses) {
        let forgotten =
            self.count(wire::COUNT_DIRTY_INODES).saturating_sub(u64::from(wire::WIRE_DIRTY_INODES));
        let meaning = "files beyond those whose dirtiers iowhy keeps";
        losses.add("dirty_files", forgotten, meaning, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_watched_is_not_from_before() {
        let mut dirtiers = Dirtiers::default();
        assert_eq!(dirtiers.reason(), "dirtiers could not be recorded");
        dirtiers.watched = true;
        assert_eq!(dirtiers.reason(), "dirtied before the watch");
        dirtiers.missed = true;
        assert_eq!(dirtiers.reason(), "dirtied before the watch, or its dirtier was missed");
    }
}
