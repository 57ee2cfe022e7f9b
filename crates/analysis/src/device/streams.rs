//! The sequential share of reads and writes, by stream.
//!
//! **Definition.** A request is *sequential* if it begins at the sector where an earlier
//! request of its stream group ended. The group is (device, direction, subject); the subject is the
//! file if the request belongs to exactly one, else the submitting process. "Earlier" is earlier
//! queued: requests are seen when they complete, and a queue deeper than one completes out of
//! order, so a request whose predecessor is seen after it is counted when that one arrives. Each
//! group keeps the [`EXTENTS`] ranges of sectors that were accessed last. So many sequential
//! streams can be interleaved in one file, and any number in different files, and all count as
//! sequential. A descending scan, repeated reads of one sector and random access do not. The first
//! request of a stream has no predecessor and is never sequential.
//!
//! Where the files of some of a device's requests are not known, since owners were sampled, one
//! stream would be seen in pieces. All requests of such a device are followed together, too, and
//! the larger of the two numbers counts.
//!
//! Requests without sectors to compare (flushes, discards, zero bytes) are left out.

use crate::sums::keys::FileKey;
use rustc_hash::FxHashMap;

/// Number of recent ranges of sectors that a group keeps.
const EXTENTS: usize = 16;
/// Maximum number of groups; beyond it, the least recently used half is removed.
const GROUPS: usize = 4096;
const SECTOR: u64 = 512;

/// The subject of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum StreamOwner {
    /// The one file that the request belongs to.
    File(FileKey),
    /// The submitting process.
    Process(u32),
    /// Neither is known.
    Nobody,
    /// Any request of the device.
    Anybody,
}

/// The key of a stream group.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct GroupKey {
    pub device: u16,
    pub write: bool,
    pub subject: StreamOwner,
}

/// What a request accesses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Accessed {
    pub sector: u64,
    pub bytes: u64,
    /// When it was queued, nanoseconds.
    pub queued_ns: u64,
}

/// Requests that were just found to be sequential.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Sequential {
    pub requests: u64,
    pub bytes: u64,
}

impl Sequential {
    /// The same for `times` requests like each of these.
    pub fn times(self, times: u64) -> Sequential {
        Sequential {
            requests: self.requests.saturating_mul(times),
            bytes: self.bytes.saturating_mul(times),
        }
    }
}

/// A contiguous range of accessed sectors.
#[derive(Clone, Copy, Default, Debug)]
struct Ends {
    /// The time (nanoseconds) at which the request at its beginning was queued, and its bytes: it
    /// has no known predecessor yet.
    head_ns: u64,
    head_bytes: u64,
    /// The time at which the request at its end was queued, nanoseconds.
    tail_ns: u64,
}

/// The ranges of one group. Many files are accessed once: the first range needs no table.
#[derive(Clone, Debug, Default)]
struct ExtentGroup {
    latest: u64,
    /// The only range, until there are more; empty before the first.
    first: FirstExtent,
    table: Option<Box<ExtentTable>>,
}

/// The only range of a group.
#[derive(Clone, Copy, Debug, Default)]
struct FirstExtent {
    from: u64,
    to: u64,
    used: u64,
    ends: Ends,
}

/// Several ranges, by column so that searching a sector is one fast pass.
#[derive(Clone, Debug, Default)]
struct ExtentTable {
    len: usize,
    from: [u64; EXTENTS],
    to: [u64; EXTENTS],
    used: [u64; EXTENTS],
    ends: [Ends; EXTENTS],
    latest: u64,
}

/// The streams of a watch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Streams {
    groups: FxHashMap<GroupKey, ExtentGroup>,
    /// Whether requests with a known file, and others, were seen, by device and direction.
    owners: FxHashMap<(u16, bool), (bool, bool)>,
    clock: u64,
}

impl Streams {
    /// Adds a request, and returns the requests that are now known to be sequential within their
    /// group, and among all of their device, of any owner; none of these while the files of all or
    /// of no requests are known.
    #[inline]
    pub fn observe(&mut self, key: GroupKey, accessed: Accessed) -> (Sequential, Sequential) {
        if accessed.bytes == 0 {
            return Default::default();
        }
        let own = self.follow(key, accessed);
        let (with_file, without) = self.owners.entry((key.device, key.write)).or_default();
        match key.subject {
            StreamOwner::File(_) => *with_file = true,
            _ => *without = true,
        }
        let all = match *with_file && *without {
            true => self.follow(GroupKey { subject: StreamOwner::Anybody, ..key }, accessed),
            false => Sequential::default(),
        };
        (own, all)
    }

    /// Adds a request to one group.
    #[inline]
    fn follow(&mut self, key: GroupKey, accessed: Accessed) -> Sequential {
        let Accessed { sector, bytes, queued_ns } = accessed;
        self.clock += 1;
        if self.groups.len() >= GROUPS && !self.groups.contains_key(&key) {
            self.forget_half();
        }
        let group = self.groups.entry(key).or_default();
        group.latest = self.clock;
        let to = sector.saturating_add(bytes.div_ceil(SECTOR));
        group.observe(
            sector,
            to,
            Ends { head_ns: queued_ns, head_bytes: bytes, tail_ns: queued_ns },
        )
    }

    fn forget_half(&mut self) {
        let mut used: Vec<u64> = self.groups.values().map(|group| group.latest).collect();
        let middle = used.len() / 2;
        let (_, median, _) = used.select_nth_unstable(middle);
        let median = *median;
        self.groups.retain(|_, group| group.latest > median);
    }
}

impl ExtentGroup {
    #[inline]
    fn observe(&mut self, from: u64, to: u64, new: Ends) -> Sequential {
        if let Some(table) = &mut self.table {
            table.latest = self.latest;
            return table.observe(from, to, new);
        }
        let (first, used) = (self.first, self.latest);
        if first.from == first.to {
            self.first = FirstExtent { from, to, used, ends: new };
            return Sequential::default();
        }
        if first.to == from && first.ends.tail_ns <= new.tail_ns {
            (self.first.to, self.first.ends.tail_ns, self.first.used) = (to, new.tail_ns, used);
            return Sequential { requests: 1, bytes: new.head_bytes };
        }
        if first.from == to && first.ends.head_ns >= new.head_ns {
            let ends = Ends { tail_ns: first.ends.tail_ns, ..new };
            self.first = FirstExtent { from, to: first.to, used, ends };
            return Sequential { requests: 1, bytes: first.ends.head_bytes };
        }
        let mut table = Box::new(ExtentTable { len: 1, latest: used, ..ExtentTable::default() });
        (table.from[0], table.to[0]) = (first.from, first.to);
        (table.used[0], table.ends[0]) = (first.used, first.ends);
        let found = table.observe(from, to, new);
        self.table = Some(table);
        found
    }
}

impl ExtentTable {
    fn observe(&mut self, from: u64, to: u64, new: Ends) -> Sequential {
        let before =
            self.find(|table, at| table.to[at] == from && table.ends[at].tail_ns <= new.tail_ns);
        let after =
            self.find(|table, at| table.from[at] == to && table.ends[at].head_ns >= new.head_ns);
        let mut found = Sequential::default();
        if before.is_some() {
            found = Sequential { requests: 1, bytes: new.head_bytes };
        }
        if let Some(follower) = after {
            found.requests += 1;
            found.bytes = found.bytes.saturating_add(self.ends[follower].head_bytes);
        }
        self.insert(from, to, new, before, after);
        found
    }

    #[inline]
    fn find(&self, is_it: impl Fn(&ExtentTable, usize) -> bool) -> Option<usize> {
        (0..self.len.min(EXTENTS)).find(|at| is_it(self, *at))
    }

    /// Merges the new range with adjacent ones, or replaces the least recently used one.
    fn insert(
        &mut self,
        from: u64,
        to: u64,
        new: Ends,
        before: Option<usize>,
        after: Option<usize>,
    ) {
        let at = match (before, after) {
            (Some(before), Some(after)) => {
                self.to[before] = self.to[after];
                self.ends[before].tail_ns = self.ends[after].tail_ns;
                self.used[before] = self.latest;
                return self.remove(after);
            }
            (Some(before), None) => {
                (self.to[before], self.ends[before].tail_ns) = (to, new.tail_ns);
                before
            }
            (None, Some(after)) => {
                self.from[after] = from;
                self.ends[after] = Ends { tail_ns: self.ends[after].tail_ns, ..new };
                after
            }
            (None, None) => {
                let at = self.room();
                (self.from[at], self.to[at], self.ends[at]) = (from, to, new);
                at
            }
        };
        self.used[at] = self.latest;
    }

    /// A free slot, or that of the least recently used range.
    fn room(&mut self) -> usize {
        if self.len < EXTENTS {
            self.len += 1;
            return self.len - 1;
        }
        (0..EXTENTS).min_by_key(|at| self.used[*at]).unwrap_or(0)
    }

    fn remove(&mut self, at: usize) {
        self.len -= 1;
        let last = self.len;
        self.from[at] = self.from[last];
        self.to[at] = self.to[last];
        self.used[at] = self.used[last];
        self.ends[at] = self.ends[last];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: GroupKey = GroupKey { device: 0, write: false, subject: StreamOwner::Nobody };

    fn read_at(sector: u64, queued_ns: u64) -> Accessed {
        Accessed { sector, bytes: 4096, queued_ns }
    }

    /// The sequential requests among reads of 8 sectors at `sectors`, queued in that order but seen
    /// in the order of `seen`.
    fn sequential(sectors: &[u64], seen: impl IntoIterator<Item = usize>) -> u64 {
        let mut streams = Streams::default();
        seen.into_iter()
            .map(|index| streams.follow(KEY, read_at(sectors[index], index as u64)).requests)
            .sum()
    }

    fn in_order(sectors: &[u64]) -> u64 {
        sequential(sectors, 0..sectors.len())
    }

    #[test]
    fn one_stream_is_sequential_but_for_its_first_request() {
        assert_eq!(in_order(&(0..100).map(|index| index * 8).collect::<Vec<_>>()), 99);
    }

    #[test]
    fn interleaved_streams_are_sequential() {
        let sectors: Vec<u64> =
            (0..100).flat_map(|index| [index * 8, 1_000_000 + index * 8]).collect();
        assert_eq!(in_order(&sectors), 198);
    }

    #[test]
    fn completion_out_of_order_does_not_matter() {
        let sectors: Vec<u64> =
            (0..96).flat_map(|index| [index * 8, 1_000_000 + index * 8]).collect();
        let shuffled = (0..sectors.len()).map(|index| index / 12 * 12 + (index * 7) % 12);
        assert_eq!(sequential(&sectors, shuffled), 190);
    }

    #[test]
    fn random_descending_and_repeated_access_are_not() {
        let mut state = 1_u64;
        let random: Vec<u64> = (0..1000)
            .map(|_| {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (state >> 33) * 8
            })
            .collect();
        assert_eq!(in_order(&random), 0);
        assert_eq!(in_order(&(0..100).rev().map(|index| index * 8).collect::<Vec<_>>()), 0);
        assert_eq!(in_order(&[8; 100]), 0);
    }

    #[test]
    fn groups_are_bounded_and_the_recent_ones_survive() {
        let mut streams = Streams::default();
        let mut found = 0;
        for index in 0..100_000_u64 {
            let busy = GroupKey { subject: StreamOwner::Process(1), ..KEY };
            found += streams.follow(busy, read_at(index * 8, index)).requests;
            let other = GroupKey { subject: StreamOwner::Process(2 + index as u32), ..KEY };
            streams.follow(other, read_at(0, index));
        }
        assert!(streams.groups.len() <= GROUPS);
        assert_eq!(found, 99_999);
    }
}
