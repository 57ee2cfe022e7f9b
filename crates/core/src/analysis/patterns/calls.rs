//! Which waits of a thread are in one system call: a sync waits for its data, then for the journal,
//! then for the device's cache, and is one call.
//!
//! The kernel does not number calls. A call sleeps in different functions one after another, so a
//! function in which it has slept before begins the next call.
//!
//! What does not belong here: sums of calls (see [`super::waiting`]), and the times of calls that
//! were measured themselves (see [`crate::analysis::files`]).

use crate::bounded_map::CappedMap;
use crate::model::{Wait, WaitClass};

/// Maximum number of threads that are followed; each wait of further ones is a call.
const THREADS: usize = 1 << 14;
/// Maximum number of functions in which one call sleeps.
const PLACES: usize = 8;
/// Maximum distance of waits of one call: hardly anything runs in between. Chosen.
const PAUSE_NS: u64 = 10_000_000;
/// The same where waits were left out: the next wait may be of a later call.
const SAMPLED_PAUSE_NS: u64 = 500_000;

/// sync and syncfs on x86_64 and in the generic table: they sleep in the same functions for each
/// file system and inode. The calls that have one of these numbers elsewhere (fchdir, readlinkat,
/// setdomainname) hardly ever sleep twice.
const OF_MANY_FILES: [u32; 4] = [162, 306, 81, 267];

/// A place in which a thread slept: the class and the kernel stack of the wait.
type SleepPlace = (WaitClass, Option<u64>);

/// The call that a thread was in last.
#[derive(Clone, Debug, Default)]
struct FollowedCall {
    syscall: Option<u32>,
    until_ns: u64,
    /// The places in which it slept, the last one last.
    places: Vec<SleepPlace>,
    /// Whether a call of this thread slept in several places: then it can sleep in one repeatedly.
    has_several: bool,
}

impl FollowedCall {
    /// Whether a wait is in this call, too.
    fn goes_on(&self, wait: &Wait, place: SleepPlace) -> bool {
        let most_ns = if wait.stands_for() > 1 { SAMPLED_PAUSE_NS } else { PAUSE_NS };
        let is_near = wait.start_ns.saturating_sub(self.until_ns) <= most_ns;
        let is_next = match self.places.last() {
            _ if wait.syscall.is_some_and(|call| OF_MANY_FILES.contains(&call)) => true,
            Some(last) if *last == place => self.has_several,
            _ => !self.places.contains(&place) && self.places.len() < PLACES,
        };
        self.syscall == wait.syscall && wait.syscall.is_some() && is_near && is_next
    }
}

/// Follows the calls of threads.
#[derive(Clone, Debug, Default)]
pub(super) struct CallTally {
    threads: CappedMap<u32, FollowedCall, THREADS>,
}

impl CallTally {
    /// Whether a wait is the first of its call. Waits of a thread come in order.
    pub fn begins(&mut self, wait: &Wait) -> bool {
        let place: SleepPlace = (wait.class, wait.stack_id);
        let Some(call) = self.threads.or_default(wait.tid) else { return true };
        let goes_on = call.goes_on(wait, place);
        if !goes_on {
            call.places.clear();
            call.has_several &= call.syscall == wait.syscall;
            call.syscall = wait.syscall;
        }
        if call.places.last() != Some(&place) && call.places.len() < PLACES {
            call.places.push(place);
        }
        call.has_several |= call.places.len() > 1;
        call.until_ns = wait.start_ns.saturating_add(wait.duration_ns);
        !goes_on
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::table::Table;

    const US: u64 = 1_000;

    /// The number of calls of waits in these places, `gap_ns` apart.
    fn calls(places: &[(WaitClass, u64)], gap_ns: u64) -> usize {
        let mut tally = CallTally::default();
        let waits = places.iter().enumerate().map(|(index, (class, stack))| Wait {
            tid: 7,
            syscall: Some(74),
            class: *class,
            stack_id: Some(*stack),
            start_ns: index as u64 * (20 * US + gap_ns),
            duration_ns: 20 * US,
            ..Table::blank()
        });
        waits.filter(|wait| tally.begins(wait)).count()
    }

    #[test]
    fn a_sync_that_waits_for_data_journal_and_flush_is_one_call() {
        use WaitClass::{Fsync, JournalCommit};
        let one = [(Fsync, 1), (JournalCommit, 2), (Fsync, 3)];
        assert_eq!(calls(&one.repeat(10), 5 * US), 10);
        assert_eq!(calls(&one[..2].repeat(10), 5 * US), 10);
    }

    #[test]
    fn a_sync_that_waits_once_is_one_call() {
        assert_eq!(calls(&[(WaitClass::Fsync, 1); 10], 5 * US), 10);
    }

    #[test]
    fn a_sync_of_many_pages_is_one_call() {
        use WaitClass::{Fsync, JournalCommit};
        let first = [(Fsync, 1), (JournalCommit, 2)];
        let large = [(Fsync, 1), (Fsync, 1), (Fsync, 1), (JournalCommit, 2)];
        assert_eq!(calls(&[&first[..], &large.repeat(5)].concat(), 5 * US), 6);
    }

    #[test]
    fn a_sync_of_all_file_systems_is_one_call() {
        use WaitClass::{Fsync, JournalCommit};
        let waits = [(Fsync, 1), (JournalCommit, 2)].repeat(20);
        let mut tally = CallTally::default();
        let first = waits.iter().filter(|(class, stack)| {
            let (class, stack_id) = (*class, Some(*stack));
            tally.begins(&Wait { tid: 7, syscall: Some(162), class, stack_id, ..Table::blank() })
        });
        assert_eq!(first.count(), 1);
    }

    #[test]
    fn a_long_pause_begins_another_call() {
        let two = [(WaitClass::Fsync, 1), (WaitClass::JournalCommit, 2)];
        assert_eq!(calls(&two, 2 * PAUSE_NS), 2);
    }
}
