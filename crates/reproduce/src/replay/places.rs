//! Offsets of requests in files that are laid out anew: a class of files is one file, in which the
//! parts that were used follow each other without holes. Parts that were neighbours stay so.
//!
//! What does not belong here: creating the files (see [`super::player`]).

use super::script::ReplayKind;
use super::sequence::{ReplayTally, SequencedRequest};
use rustc_hash::FxHashMap;

/// The largest and the smallest part of a file that is kept whole, bytes.
const COARSE: u64 = 1 << 20;
const FINE: u64 = 4096;

/// Parts that are distinguished; some 80 bytes each. Where requests touch more, parts stay coarse.
const MOST_GRANULES: usize = 2 << 20;

/// A part of a file: disk, class, inode, number.
type Granule = (u32, u32, u64, u64);

/// The new offsets of the used parts of all files.
#[derive(Clone, Debug, Default)]
pub struct Places {
    granule: u64,
    at: FxHashMap<Granule, u64>,
    bytes: FxHashMap<(u32, u32), u64>,
}

impl Places {
    /// Places that take at most so many bytes on a disk, or as few as possible.
    pub fn new(tally: &ReplayTally, most: u64) -> Places {
        let mut granule = COARSE;
        loop {
            let places = Places::with(tally, granule);
            let finer = granule / 4;
            let is_fine = granule <= FINE || is_crowded(tally, finer);
            if is_fine || places.largest_disk() <= most {
                return places;
            }
            granule = finer;
        }
    }

    fn with(tally: &ReplayTally, granule: u64) -> Places {
        let touched = data(tally).flat_map(|request| granules(request, granule));
        let mut used: Vec<Granule> = touched.take(MOST_GRANULES).collect();
        used.sort_unstable();
        used.dedup();
        let mut places = Places { granule, ..Places::default() };
        for part in used {
            let end = places.bytes.entry((part.0, part.1)).or_default();
            places.at.insert(part, *end);
            *end += granule;
        }
        places
    }

    fn largest_disk(&self) -> u64 {
        let mut disks: FxHashMap<u32, u64> = FxHashMap::default();
        for ((disk, _), bytes) in &self.bytes {
            *disks.entry(*disk).or_default() += bytes;
        }
        disks.into_values().max().unwrap_or(0)
    }

    /// The size of the file of a class on a disk, bytes.
    pub fn bytes(&self, device: u32, class: u32) -> u64 {
        self.bytes.get(&(device, class)).copied().unwrap_or(self.granule)
    }

    /// Returns the offset of a request in the file of its class, bytes.
    pub fn place(&self, request: &SequencedRequest) -> u64 {
        let first = granules(request, self.granule).next();
        let start = first.and_then(|part| self.at.get(&part)).copied().unwrap_or(0);
        start + request.offset % self.granule.max(1)
    }
}

fn data(tally: &ReplayTally) -> impl Iterator<Item = &SequencedRequest> {
    tally.requests.iter().filter(|request| request.kind != ReplayKind::Flush)
}

/// Whether requests touch more parts of that size than are distinguished.
fn is_crowded(tally: &ReplayTally, granule: u64) -> bool {
    data(tally).flat_map(|request| granules(request, granule)).nth(MOST_GRANULES).is_some()
}

/// The parts that a request touches.
fn granules(request: &SequencedRequest, granule: u64) -> impl Iterator<Item = Granule> + use<> {
    let SequencedRequest { device, class, inode, offset, bytes, .. } = *request;
    let last = offset.saturating_add(u64::from(bytes).max(1) - 1) / granule;
    (offset / granule..=last).map(move |number| (device, class, inode, number))
}
