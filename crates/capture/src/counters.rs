//! Counters that the BPF programs keep, and what they mean.
//!
//! What does not belong here: what user space loses (see [`crate::probes`]).

use crate::plan::ProbeGroup;
use crate::wire;
use libbpf_rs::{MapCore, MapFlags, MapType};

/// The id and the description of the loss of a request whose completion was not seen.
pub const END_NOT_SEEN: (&str, &str) = ("ends", "requests whose end was not seen");

/// Counters of the BPF programs: counter, id of the loss, description, whether requests are
/// missing.
pub(crate) const COUNTERS: &[(wire::wire_counter, &str, &str, bool)] = &[
    (wire::COUNT_RING_FULL_REQUEST, "ring", "requests dropped: ring buffer full", true),
    (
        wire::COUNT_RING_FULL_DETAIL,
        "ring_details",
        "names, owners or stacks dropped: ring buffer full",
        false,
    ),
    (wire::COUNT_RING_FULL_WAIT, "ring_waits", "waits dropped: ring buffer full", false),
    (wire::COUNT_SLEEPERS_FULL, "sleepers", "waits beyond those that iowhy follows at once", false),
    (
        wire::COUNT_WAIT_ENDS,
        "wait_ends",
        "waits whose end has no record: the time of the wakeup is used",
        false,
    ),
    (wire::COUNT_WAIT_STACKS, "wait_stacks", "waits whose stack could not be stored", false),
    (
        wire::COUNT_CHAINS_SKIPPED,
        "chains",
        "waits for other threads beyond those that iowhy records per second",
        false,
    ),
    (wire::COUNT_RING_FULL_EVENT, "ring_events", "single events dropped: ring buffer full", false),
    (wire::COUNT_MAP_FULL, "pending", "requests beyond those that iowhy follows at once", true),
    (wire::COUNT_END_MISSED, END_NOT_SEEN.0, END_NOT_SEEN.1, true),
    (wire::COUNT_STACK_FAILED, "stack_samples", "stacks that the kernel could not capture", false),
    (
        wire::COUNT_PARTS_AGGREGATED,
        "parts",
        "runs of files beyond those distinguished in one request",
        false,
    ),
    (wire::COUNT_CHAIN_CUT, "merged", "requests with more bios than iowhy reads", false),
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
        "parts of requests that completed before the rest: only the rest is recorded",
        false,
    ),
    (
        wire::COUNT_USES_FULL,
        "uses",
        "counts of files aggregated: table full; their path is not known, left out with -d",
        false,
    ),
    (
        wire::COUNT_USES_COMPAT,
        "compat_calls",
        "system calls of 32-bit programs, whose files iowhy does not track",
        false,
    ),
    (
        wire::COUNT_RING_FULL_CALL,
        "ring_calls",
        "file removals and renames dropped: ring buffer full",
        false,
    ),
    (
        wire::COUNT_SUBMITTED_CUT,
        "submitted",
        "io_submit calls with more than 64 requests: the files of the others are not counted",
        false,
    ),
    (
        wire::COUNT_CALLS_LEFT_OUT,
        "calls",
        "removals, renames (counted by directory only) or single opens: too many per second",
        false,
    ),
    (
        wire::COUNT_DIRTIERS_AGGREGATED,
        "dirtiers",
        "pages dirtied by more processes of several names than iowhy distinguishes",
        false,
    ),
];

/// Events missed when the kernel skips a program of a group, because a program is already active on
/// that CPU (BPF recursion protection): group, id of the loss, what is counted, whether requests
/// are missing.
pub(crate) const SKIPPED: &[(ProbeGroup, &str, &str, bool)] = &[
    (ProbeGroup::Aggregate, "programs_counts", "events of requests, by the exact counts,", false),
    (ProbeGroup::Block, "programs", "events of requests", true),
    (ProbeGroup::Writeback, "programs_dirty", "dirtied pages", false),
    (ProbeGroup::Events, "programs_events", "block events", false),
    (ProbeGroup::Wait, "programs_waits", "sleeps and wake-ups", false),
    (ProbeGroup::File, "programs_calls", "system calls (iowhy's own included)", false),
    (ProbeGroup::PageCache, "programs_pages", "page cache changes", false),
];

/// Entries read from a map per batch: few tables hold more, and a buffer for all that they could
/// hold would be megabytes each time.
const BATCH: u32 = 1024;
/// The kernel returns whole buckets of a hash map, so a batch can be short by the length of one
/// long before the last batch, and libbpf-rs takes the first short batch for the last
/// (`BatchedMapIter`, 0.27). Buckets of a hash map that is never full have a few entries; chosen on
/// the safe side.
const MOST_OF_BUCKET: u32 = 64;

/// Returns the number of entries that are first read from a map per batch.
pub(crate) fn batch_of(map: &impl MapCore) -> u32 {
    BATCH.min(map.max_entries())
}

/// Whether `count` entries, read `batch` at a time, are all that the map held, and not only those
/// up to a batch that was short by a bucket. Pure.
pub(crate) fn is_all(kind: MapType, count: usize, batch: u32, most: u32) -> bool {
    let last = count % batch.max(1) as usize;
    kind == MapType::Array || batch >= most || last + MOST_OF_BUCKET as usize <= batch as usize
}

/// Entries that a listing missed: it ends early, without an error, where the kernel aborts it.
pub(crate) fn untold(map: &impl MapCore, told: u32) -> u64 {
    if told == map.max_entries() {
        return 0;
    }
    (map.keys().count() as u64).saturating_sub(u64::from(told))
}

/// Returns the sum of a counter over all CPUs, by the counter's number.
pub(crate) fn counter(map: &impl MapCore, number: u32) -> u64 {
    let Ok(Some(values)) = map.lookup_percpu(&number.to_ne_bytes(), MapFlags::ANY) else {
        return 0;
    };
    let words = values.iter().filter_map(|value| value.first_chunk::<8>());
    words.map(|word| u64::from_ne_bytes(*word)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_that_may_be_short_by_a_bucket_is_not_the_last() {
        let all = |count, batch| is_all(MapType::Hash, count, batch, 16_384);
        assert!(all(0, BATCH) && all(900, BATCH) && all(3 * 1024 + 5, BATCH));
        assert!(!all(1023, BATCH) && !all(1024 - 63, BATCH) && !all(2 * 1024 - 1, BATCH));
        // Batches of the size of the map are never short by one.
        assert!(all(16_383, 16_384) && is_all(MapType::Hash, 7, 8, 8));
        assert!(is_all(MapType::Array, 1023, BATCH, 16_384));
    }
}
