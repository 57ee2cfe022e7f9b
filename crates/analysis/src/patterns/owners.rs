//! The programs that moved most bytes of a device over the watch, in the bins of the device's
//! timeline.
//!
//! What does not belong here: exact sums (see `attribution`).

use super::service::ServiceOrder;
use crate::summary::Measure;
use crate::summary::patterns::OwnerTimeline;
use crate::sums::keys::{Part, Reason, owner};
use crate::sums::request_times::Life;
use iowhy_model::compact_sort::CompactSort;
use iowhy_model::{Name, Names, Request, RequestPart};

/// Maximum number of programs per device.
const OWNERS: usize = 8;
/// The initial length of a fine bin, nanoseconds: as fine as a chart of ten seconds.
const FINE_NS: u64 = 10_000_000;
/// Number of fine bins from which pairs are merged.
const FINE_BINS: usize = 1_024;
/// Longer ones are not made because requests were thinned.
const LONGEST_FINE_NS: u64 = 640_000_000;

/// One program, so far.
#[derive(Clone, Debug)]
struct Track {
    name: Name,
    pid: Option<u32>,
    /// Bytes until another program replaces it (Misra and Gries' count).
    credit: u64,
    /// The file with the majority of its bytes, if one has it (Boyer and Moore's vote).
    file: Option<Name>,
    votes: u64,
    requests: u64,
    served_ns: u64,
    bins: Vec<u64>,
    fine: Vec<u64>,
}

/// Adds up requests as they come.
#[derive(Clone, Debug, Default)]
pub(super) struct OwnerTally {
    tracks: Vec<Track>,
    latest: usize,
    fine_ns: u64,
    latest_ns: u64,
    order: ServiceOrder,
    served_ns: u64,
}

impl OwnerTally {
    /// Adds a request that ended in the bin `at`, `since_ns` after the first one began.
    #[inline]
    pub fn add(
        &mut self,
        at: usize,
        since_ns: u64,
        request: &Request,
        parts: &[RequestPart],
        life: &Life,
    ) {
        self.latest_ns = self.latest_ns.max(since_ns);
        self.fine_ns = self.fine_ns.max(FINE_NS);
        // The fewer requests are recorded, the longer a bin must be to hold enough of them.
        let least_ns = FINE_NS.saturating_mul(request.stands_for()).min(LONGEST_FINE_NS);
        while since_ns / self.fine_ns >= FINE_BINS as u64 || self.fine_ns < least_ns {
            self.fine_ns = self.fine_ns.saturating_mul(2);
            self.tracks.iter_mut().for_each(|track| track.fine = halved(&track.fine));
        }
        let at = (at, (since_ns / self.fine_ns) as usize);
        let served_ns = self.order.complete(life).saturating_mul(request.stands_for());
        self.served_ns = self.served_ns.saturating_add(served_ns);
        if parts.is_empty() {
            return self.charge(at, request, Err(Reason::Silent), (request.bytes, served_ns));
        }
        for part in parts {
            let share = part.bytes as f64 / request.bytes.max(1) as f64;
            let served_ns = (served_ns as f64 * share.min(1.0)) as u64;
            self.charge(at, request, Ok(part), (part.bytes, served_ns));
        }
    }

    /// Returns the time that the device worked on requests, nanoseconds.
    pub fn served_ns(&self) -> u64 {
        self.served_ns
    }

    #[inline]
    fn charge(
        &mut self,
        at: (usize, usize),
        request: &Request,
        part: Part,
        (bytes, served_ns): (u64, u64),
    ) {
        let Ok(owner) = owner(request, part) else { return };
        if bytes == 0 || owner.name == Name::EMPTY {
            return;
        }
        let share = Measure { count: 1, bytes, ..Measure::default() };
        let Measure { count, bytes, .. } = share.times(request.stands_for());
        let file = part.ok().and_then(|part| part.file);
        if let Some(track) = self.track(owner.name, owner.pid, bytes) {
            track.requests = track.requests.saturating_add(count);
            track.served_ns = track.served_ns.saturating_add(served_ns);
            track.add(at, owner.pid, file, bytes);
        }
    }

    /// The track of a program; if all are in use, the one with the fewest bytes is replaced.
    #[inline]
    fn track(&mut self, name: Name, pid: Option<u32>, bytes: u64) -> Option<&mut Track> {
        if self.tracks.get(self.latest).is_none_or(|track| track.name != name) {
            let known = self.tracks.iter().position(|track| track.name == name);
            self.latest = match known {
                Some(index) => index,
                None => self.track_of(name, pid, bytes)?,
            };
        }
        self.tracks.get_mut(self.latest)
    }

    fn track_of(&mut self, name: Name, pid: Option<u32>, bytes: u64) -> Option<usize> {
        let new = Track {
            name,
            pid,
            credit: 0,
            file: None,
            votes: 0,
            requests: 0,
            served_ns: 0,
            bins: Vec::new(),
            fine: Vec::new(),
        };
        if self.tracks.len() < OWNERS {
            self.tracks.push(new);
            return Some(self.tracks.len() - 1);
        }
        let (index, least) =
            self.tracks.iter_mut().enumerate().min_by_key(|(_, track)| track.credit)?;
        if least.credit > bytes {
            least.credit -= bytes;
            return None;
        }
        *least = new;
        Some(index)
    }

    /// Merges pairs of bins.
    pub fn halve(&mut self) {
        for track in &mut self.tracks {
            track.bins = halved(&track.bins);
        }
    }

    /// The bytes of each program, most first, in as many bins as there are `ratios`, by which they
    /// are scaled.
    pub fn finish(&self, ratios: &[f64], names: &Names) -> Vec<OwnerTimeline> {
        let mut owners: Vec<OwnerTimeline> = self
            .tracks
            .iter()
            .map(|track| {
                let mut bytes = track.bins.clone();
                bytes.resize(ratios.len(), 0);
                for (bytes, ratio) in
                    bytes.iter_mut().zip(ratios).filter(|(_, ratio)| **ratio != 1.0)
                {
                    *bytes = (*bytes as f64 * ratio).round() as u64;
                }
                let mut fine = track.fine.clone();
                let fine_bins = self.latest_ns.checked_div(self.fine_ns).map_or(0, |at| at + 1);
                fine.resize(fine_bins as usize, 0);
                OwnerTimeline {
                    process: names.get(track.name).to_owned(),
                    pid: track.pid,
                    file: track.file.map(|file| names.get(file).to_owned()),
                    bytes,
                    requests: track.requests,
                    served_ns: track.served_ns,
                    fine_ns: self.fine_ns,
                    fine,
                }
            })
            .collect();
        let sum =
            |owner: &OwnerTimeline| owner.bytes.iter().copied().fold(0_u64, u64::saturating_add);
        owners.compact_sort_by(|a, b| sum(b).cmp(&sum(a)).then_with(|| a.process.cmp(&b.process)));
        owners
    }
}

/// Pairs of bins as one.
fn halved(bins: &[u64]) -> Vec<u64> {
    bins.chunks(2).map(|pair| pair.iter().copied().fold(0, u64::saturating_add)).collect()
}

impl Track {
    #[inline]
    fn add(&mut self, at: (usize, usize), pid: Option<u32>, file: Option<Name>, bytes: u64) {
        for (bins, at) in [(&mut self.bins, at.0), (&mut self.fine, at.1)] {
            if bins.len() <= at {
                bins.resize(at + 1, 0);
            }
            if let Some(bin) = bins.get_mut(at) {
                *bin = bin.saturating_add(bytes);
            }
        }
        self.credit = self.credit.saturating_add(bytes);
        if self.pid != pid {
            self.pid = None;
        }
        if self.file == file {
            self.votes = self.votes.saturating_add(bytes);
        } else if self.votes > bytes {
            self.votes -= bytes;
        } else {
            (self.file, self.votes) = (file, bytes - self.votes);
        }
    }
}
