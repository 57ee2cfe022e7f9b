//! The waits of a thread that belong to one system call: a sync waits for its data, then for the
//! journal, then for the device's cache, and is one call.
//!
//! The kernel does not number calls. A call sleeps in different functions one after another, so a
//! function in which it has slept before begins the next call, and so does another file. A sync
//! waits for page after page in one function; of reads each wait counts, since a loop of small
//! reads and one large read look alike.
//!
//! What does not belong here: sums of calls (see [`super::waiting`]), and the times of calls that
//! were measured themselves (see `tables::files`).

use iowhy_model::bounded_map::CappedMap;
use iowhy_model::{Name, Wait, WaitClass};

/// Maximum number of threads that are followed; each wait of further ones is a call.
const THREADS: usize = 1 << 14;
/// Maximum number of functions in which one call sleeps.
const PLACES: usize = 8;
/// Maximum distance of waits of one call: hardly anything runs in between. Chosen.
const PAUSE_NS: u64 = 10_000_000;
/// The same where waits were left out, so that the next one may be of a later call, and of waits in
/// one function: a loop of calls passes through user space in between.
const SHORT_PAUSE_NS: u64 = 500_000;

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
    file: Option<Name>,
    /// The classes and devices of its waits.
    parts: Vec<(WaitClass, Option<Name>)>,
    /// The places in which it slept, the last one last.
    places: Vec<SleepPlace>,
    /// Whether a call of this thread slept in several places: then it can sleep in one repeatedly.
    has_several: bool,
}

impl FollowedCall {
    /// Whether a wait is in this call, too.
    fn goes_on(&self, wait: &Wait, place: SleepPlace) -> bool {
        let (is_again, is_sync) = (self.places.last() == Some(&place), is_of_sync(wait.class));
        let is_short = is_again || wait.stands_for() > 1;
        let most_ns = if is_short { SHORT_PAUSE_NS } else { PAUSE_NS };
        let is_near = wait.start_ns.saturating_sub(self.until_ns) <= most_ns;
        let is_next = match is_again {
            true => self.has_several && is_sync,
            false => !self.places.contains(&place) && self.places.len() < PLACES,
        };
        let of_many = wait.syscall.is_some_and(|call| OF_MANY_FILES.contains(&call));
        let is_same = self.syscall == wait.syscall && wait.syscall.is_some();
        let is_read = matches!(wait.class, WaitClass::PageRead | WaitClass::PageFault);
        let is_other_file = self.file.is_some() && wait.file.is_some() && self.file != wait.file;
        is_same && if of_many { is_near } else { is_near && is_next && !is_read && !is_other_file }
    }
}

/// Whether waits of this class are those of a sync for its pages or its commit.
const fn is_of_sync(class: WaitClass) -> bool {
    matches!(class, WaitClass::Fsync | WaitClass::JournalCommit)
}

/// The place of a wait in its call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PartOfCall {
    /// Whether it is the call's first wait.
    pub begins: bool,
    /// Whether it is the call's first wait of its class for its device.
    pub enters: bool,
}

/// Follows the calls of threads.
#[derive(Clone, Debug, Default)]
pub(super) struct CallTally {
    threads: CappedMap<u32, FollowedCall, THREADS>,
}

impl CallTally {
    /// Returns what a wait is to its call. Waits of a thread come in order.
    pub fn part(&mut self, wait: &Wait) -> PartOfCall {
        let place: SleepPlace = (wait.class, wait.stack_id);
        let Some(call) = self.threads.or_default(wait.tid) else {
            return PartOfCall { begins: true, enters: true };
        };
        let goes_on = call.goes_on(wait, place);
        if !goes_on {
            call.places.clear();
            call.parts.clear();
            call.has_several &= call.syscall == wait.syscall;
            call.syscall = wait.syscall;
            call.file = None;
        }
        call.file = call.file.or(wait.file);
        let part = (wait.class, wait.device);
        let enters = !call.parts.contains(&part) && call.parts.len() < PLACES;
        if enters {
            call.parts.push(part);
        }
        if call.places.last() != Some(&place) && call.places.len() < PLACES {
            call.places.push(place);
        }
        call.has_several |= call.places.len() > 1;
        call.until_ns = wait.start_ns.saturating_add(wait.duration_ns);
        PartOfCall { begins: !goes_on, enters }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iowhy_model::table::Table;

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
        waits.filter(|wait| tally.part(wait).begins).count()
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
            let wait = Wait { tid: 7, syscall: Some(162), class, stack_id, ..Table::blank() };
            tally.part(&wait).begins
        });
        assert_eq!(first.count(), 1);
    }

    #[test]
    fn each_read_of_a_loop_counts() {
        use WaitClass::PageRead;
        assert_eq!(calls(&[(PageRead, 1), (PageRead, 2)].repeat(10), 5 * US), 20);
    }

    #[test]
    fn a_sync_of_another_file_is_another_call() {
        let mut names = iowhy_model::Names::default();
        let files = ["/a", "/b"].map(|path| names.intern(path));
        let mut tally = CallTally::default();
        let parts = [(0, 1), (0, 2), (1, 3), (1, 4)].map(|(file, stack)| {
            let (file, stack_id) = (Some(files[file]), Some(stack));
            let class = WaitClass::Fsync;
            let wait = Wait { tid: 7, syscall: Some(74), class, stack_id, file, ..Table::blank() };
            tally.part(&wait).begins
        });
        assert_eq!(parts, [true, false, true, false]);
    }

    #[test]
    fn a_call_is_in_each_class_that_it_waits_in() {
        use WaitClass::{Fsync, JournalCommit};
        let mut tally = CallTally::default();
        let parts = [(Fsync, 1), (JournalCommit, 2), (Fsync, 3)].map(|(class, stack)| {
            let (syscall, stack_id) = (Some(74), Some(stack));
            tally.part(&Wait { tid: 7, syscall, class, stack_id, ..Table::blank() })
        });
        let flags = parts.map(|part| (part.begins, part.enters));
        assert_eq!(flags, [(true, true), (false, true), (false, false)]);
    }

    #[test]
    fn a_long_pause_begins_another_call() {
        let two = [(WaitClass::Fsync, 1), (WaitClass::JournalCommit, 2)];
        assert_eq!(calls(&two, 2 * PAUSE_NS), 2);
    }
}
