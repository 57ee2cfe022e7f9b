//! What the programs count on their own, and what it means.
//!
//! What does not belong here: what user space loses (see [`crate::decode`]).

use crate::plan::Group;
use crate::wire;
use libbpf_rs::{MapCore, MapFlags, MapType};

/// The place and the meaning of the loss of a request that ended unseen.
pub const END_NOT_SEEN: (&str, &str) = ("ends", "requests whose end was not seen");

/// What the programs count on their own: counter, place, meaning, whether requests are missing.
pub(crate) const COUNTERS: &[(wire::wire_counter, &str, &str, bool)] = &[
    (
        wire::COUNT_RING_FULL_REQUEST,
        "ring",
        "requests dropped because the ring buffer was full",
        true,
    ),
    (
        wire::COUNT_RING_FULL_DETAIL,
        "ring_details",
        "names, owners or stacks dropped because the ring buffer was full",
        false,
    ),
    (
        wire::COUNT_RING_FULL_WAIT,
        "ring_waits",
        "waits dropped because the ring buffer was full",
        false,
    ),
    (wire::COUNT_SLEEPERS_FULL, "sleepers", "waits beyond those that iowhy follows at once", false),
    (
        wire::COUNT_WAIT_ENDS,
        "wait_ends",
        "waits whose end was not seen; they count until the thread was woken",
        false,
    ),
    (wire::COUNT_WAIT_STACKS, "wait_stacks", "waits whose stack could not be kept", false),
    (
        wire::COUNT_CHAINS_SKIPPED,
        "chains",
        "waits for other threads beyond those that iowhy tells a second",
        false,
    ),
    (
        wire::COUNT_RING_FULL_EVENT,
        "ring_events",
        "single events dropped because the ring buffer was full",
        false,
    ),
    (wire::COUNT_MAP_FULL, "pending", "requests beyond those that iowhy follows at once", true),
    (wire::COUNT_END_MISSED, END_NOT_SEEN.0, END_NOT_SEEN.1, true),
    (wire::COUNT_STACK_FAILED, "stack_samples", "stacks that the kernel could not take", false),
    (
        wire::COUNT_PARTS_AGGREGATED,
        "parts",
        "runs of files beyond those distinguished in one request",
        false,
    ),
    (wire::COUNT_CHAIN_CUT, "merged", "requests of more bios than iowhy looks at", false),
    (wire::COUNT_PATH_CUT, "paths", "paths that are deeper or longer than iowhy reads", false),
    (
        wire::COUNT_PATH_UNREAD,
        "unread_paths",
        "calls on files whose path could not be read: its page was not in memory",
        false,
    ),
    (
        wire::COUNT_ENDED_IN_PARTS,
        "parts_ended",
        "parts of requests that ended before the rest, which alone is told",
        false,
    ),
    (
        wire::COUNT_USES_FULL,
        "uses",
        "counts of a file for which the table had no slot: among the others (path not known), left out with -d",
        false,
    ),
    (
        wire::COUNT_USES_COMPAT,
        "compat_calls",
        "system calls of 32-bit programs, whose files iowhy does not follow",
        false,
    ),
    (
        wire::COUNT_RING_FULL_CALL,
        "ring_calls",
        "removals and renames of files dropped because the ring buffer was full",
        false,
    ),
    (
        wire::COUNT_SUBMITTED_CUT,
        "submitted",
        "io_submit calls with more than 64 requests, whose further files are not counted",
        false,
    ),
    (
        wire::COUNT_CALLS_LEFT_OUT,
        "calls",
        "removals, renames (counted by directory only) or single opens: too many in a second",
        false,
    ),
    (
        wire::COUNT_DIRTIERS_AGGREGATED,
        "dirtiers",
        "pages dirtied by more processes of several names than iowhy distinguishes",
        false,
    ),
];

/// What is not seen where the kernel skips a group's programs, because the same program is at work on that CPU
/// already: the place of the loss, what it counts, whether requests are missing.
pub(crate) const SKIPPED: &[(Group, &str, &str, bool)] = &[
    (Group::Block, "programs", "events of requests", true),
    (Group::Writeback, "programs_dirty", "pages made dirty", false),
    (Group::Events, "programs_events", "block events", false),
    (Group::Wait, "programs_waits", "sleeps and wake-ups", false),
    (Group::File, "programs_calls", "calls of any kind, iowhy's own too,", false),
    (Group::PageCache, "programs_pages", "pages of the cache", false),
];

/// Entries of an array asked for at a time.
const BATCH: u32 = 1024;

/// How many entries of a map to ask for at a time. The kernel hands over whole buckets of a hash map, so
/// a batch may be short of what was asked for long before the last one, and libbpf-rs takes the first
/// short one for the last (`BatchedMapIter`, 0.27): hash maps are asked for all at once.
pub(crate) fn batch_of(map: &impl MapCore) -> u32 {
    match map.map_type() {
        MapType::Array => BATCH,
        _ => map.max_entries(),
    }
}

/// How many entries a list did not tell, which ends early without a word where the kernel breaks it off.
pub(crate) fn untold(map: &impl MapCore, told: u32) -> u64 {
    if told == map.max_entries() {
        return 0;
    }
    (map.keys().count() as u64).saturating_sub(u64::from(told))
}

/// What the programs have counted on all CPUs, by the counter's number.
pub(crate) fn counter(map: &impl MapCore, number: u32) -> u64 {
    let Ok(Some(values)) = map.lookup_percpu(&number.to_ne_bytes(), MapFlags::ANY) else {
        return 0;
    };
    let words = values.iter().filter_map(|value| value.first_chunk::<8>());
    words.map(|word| u64::from_ne_bytes(*word)).sum()
}
