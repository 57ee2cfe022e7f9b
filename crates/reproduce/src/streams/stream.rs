//! The sums of one program and class of files.
//!
//! What does not belong here: which rows belong to it (see [`super`]).

use super::bursts::OperationBins;
use super::reread::RereadBytes;
use iowhy_model::WaitClass;
use iowhy_model::file::Counts;
use iowhy_model::{FileActivity, Name, Operation, Origin, Request, RequestPart, Wait};
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};
use std::hash::BuildHasher as _;

/// Maximum number of sizes, threads, files and offsets that are kept.
const MOST: usize = 4096;
/// Maximum number of intervals that are kept to see how many last at once.
const MOST_SPANS: usize = 1 << 16;
/// The largest distance to the end of the previous request at which a request is near it, bytes.
const NEAR: u64 = 64 << 10;
/// Calls that read a file.
const READS: &[&str] = &["read", "pread64", "readv", "preadv", "preadv2", "sendfile"];
/// A pause from which two requests of sync_file_range belong to two calls, nanoseconds.
const APART_NS: u64 = 2_000_000;

/// Requests of one direction at the device.
#[derive(Clone, Debug, Default)]
pub struct StreamSide {
    /// Number of requests.
    pub requests: u64,
    /// Bytes of these requests.
    pub bytes: u64,
    /// Number of requests of each size.
    pub sizes: FxHashMap<u64, u64>,
    /// Requests that begin where the file's previous one ended.
    pub sequential: u64,
    /// Requests that begin a little before or after that: a log rewrites its last block.
    pub near: u64,
    /// Requests whose distance to the previous one is known.
    pub placed: u64,
    /// Offsets of some of these requests in the file, bytes.
    pub offsets: Vec<u64>,
    /// The end of the farthest of them.
    pub end: u64,
    /// Reads that the page cache did not have although it had had them.
    pub again: RereadBytes,
    /// The end of the farthest in each file.
    ends: FxHashMap<Name, u64>,
    /// Requests known to be direct.
    pub direct: u64,
    /// Requests known to go through the page cache.
    pub cached: u64,
    /// Requests that the kernel read ahead.
    pub ahead: u64,
    /// Requests of page faults.
    pub faults: u64,
    /// The times in flight.
    pub spans: Concurrency,
    /// The offset at which the next sequential request of each file begins.
    next: FxHashMap<Name, u64>,
    skip: u64,
}

/// The overlap of intervals.
#[derive(Clone, Debug, Default)]
pub struct Concurrency {
    /// The sum of all, nanoseconds; with weights.
    pub total_ns: u64,
    /// Whether some stand for others, so that the overlap is not known.
    pub sampled: bool,
    spans: Vec<(u64, u64)>,
}

impl Concurrency {
    fn add(&mut self, start_ns: u64, length_ns: u64, weight: u64) {
        self.total_ns = self.total_ns.saturating_add(length_ns.saturating_mul(weight));
        self.sampled |= weight > 1;
        if self.spans.len() < MOST_SPANS {
            self.spans.push((start_ns, start_ns.saturating_add(length_ns)));
        }
    }

    fn join(&mut self, other: Concurrency) {
        self.total_ns = self.total_ns.saturating_add(other.total_ns);
        self.sampled |= other.sampled;
        let room = MOST_SPANS.saturating_sub(self.spans.len());
        self.spans.extend(other.spans.into_iter().take(room));
    }

    /// The mean number of them while there is at least one; at least 1.
    pub fn while_busy(&self, duration_ns: u64) -> f64 {
        let mean = self.total_ns as f64 / duration_ns.max(1) as f64;
        if self.sampled || self.spans.is_empty() {
            return mean.max(1.0);
        }
        let sum: u64 = self.spans.iter().map(|(from, to)| to - from).sum();
        (sum as f64 / self.union_ns().max(1) as f64).max(1.0)
    }

    /// The most of them at once; the mean where some stand for others.
    pub fn most(&self, duration_ns: u64) -> f64 {
        if self.sampled || self.spans.is_empty() {
            return self.while_busy(duration_ns);
        }
        // An end comes before a beginning at the same time.
        let ends = self.spans.iter().map(|(_, to)| (*to, -1_i64));
        let mut changes: Vec<(u64, i64)> =
            self.spans.iter().map(|(from, _)| (*from, 1)).chain(ends).collect();
        changes.sort_unstable();
        let (mut now, mut most) = (0_i64, 1);
        for (_, change) in changes {
            now += change;
            most = most.max(now);
        }
        most as f64
    }

    /// The time with at least one of them, nanoseconds; at most all of it, if that is not known.
    pub fn busy_ns(&self, duration_ns: u64) -> u64 {
        match self.sampled || self.spans.is_empty() {
            true => self.total_ns.min(duration_ns),
            false => self.union_ns(),
        }
    }

    fn union_ns(&self) -> u64 {
        let mut spans = self.spans.clone();
        spans.sort_unstable();
        let (mut union, mut end) = (0_u64, 0_u64);
        for (from, to) in spans {
            union = union.saturating_add(to.saturating_sub(end.max(from)));
            end = end.max(to);
        }
        union
    }
}

/// The files that were created in a folder.
#[derive(Clone, Copy, Debug)]
struct CreatedFiles {
    files: u64,
    /// Times at which the first and the last of them were used first, nanoseconds.
    first_ns: u64,
    last_ns: u64,
}

/// Everything of one stream.
#[derive(Clone, Debug, Default)]
pub struct LoadStream {
    /// Reads at the device.
    pub read: StreamSide,
    /// Writes at the device.
    pub write: StreamSide,
    /// System calls.
    pub calls: Counts,
    /// Distinct files, as far as known.
    pub files: u64,
    /// Lifetimes that were seen whole, and their sum.
    pub lives: (u64, u64),
    /// Names of system calls and how often they submitted.
    pub call_names: FxHashMap<&'static str, u64>,
    /// Threads that submitted or waited.
    pub threads: FxHashSet<u32>,
    /// Waits of its threads on these files.
    pub waits: Concurrency,
    /// The part of these waits in calls that read.
    pub reading: Concurrency,
    /// Waits in each sync call.
    pub syncs: FxHashMap<&'static str, u64>,
    /// Waits for a journal commit.
    pub journal_waits: u64,
    /// Calls of sync_file_range, as far as requests show them.
    pub range_syncs: u64,
    /// Operations over time.
    pub bins: OperationBins,
    /// The files that were created in each folder, by a hash of its path.
    created_in: FxHashMap<u64, CreatedFiles>,
    inodes: FxHashSet<(u64, u64)>,
    range_last: FxHashMap<u32, u64>,
    first_ns: Option<u64>,
}

impl LoadStream {
    /// Adds a part of a request; `direct` is not known without a stack.
    pub fn request(
        &mut self,
        request: &Request,
        part: &RequestPart,
        direct: Option<bool>,
        call: Option<&'static str>,
    ) {
        let weight = request.stands_for();
        if let Some(tid) = request.tid.filter(|_| self.threads.len() < MOST) {
            self.threads.insert(tid);
        }
        if let Some(call) = call {
            *self.call_names.entry(call).or_default() += weight;
            self.note_range_sync(call, request);
        }
        let first = *self.first_ns.get_or_insert(request.start_ns);
        self.bins.add(request.start_ns.saturating_sub(first), weight);
        let side = match request.operation {
            Operation::Read => &mut self.read,
            _ => &mut self.write,
        };
        side.add(request, part, direct, weight);
    }

    fn note_range_sync(&mut self, call: &'static str, request: &Request) {
        if call != "sync_file_range" {
            return;
        }
        let tid = request.tid.unwrap_or(0);
        let last = self.range_last.insert(tid, request.start_ns);
        let is_new = last.is_none_or(|last| request.start_ns.abs_diff(last) >= APART_NS);
        self.range_syncs += u64::from(is_new) * request.stands_for();
        if self.range_last.len() > MOST {
            self.range_last.clear();
        }
    }

    /// Adds a wait on one of its files.
    pub fn wait(&mut self, wait: &Wait, call: Option<&'static str>) {
        let weight = wait.stands_for();
        self.waits.add(wait.start_ns, wait.duration_ns, weight);
        if call.is_some_and(|call| READS.contains(&call)) {
            self.reading.add(wait.start_ns, wait.duration_ns, weight);
        }
        if self.threads.len() < MOST {
            self.threads.insert(wait.tid);
        }
        self.journal_waits += u64::from(wait.class == WaitClass::JournalCommit) * weight;
        if let Some(call @ ("fsync" | "fdatasync" | "msync")) = call {
            *self.syncs.entry(call).or_default() += weight;
        }
    }

    /// Adds the waits of another stream of the same program, and the rest of its figures.
    pub fn join_waits(&mut self, other: LoadStream) {
        self.waits.join(other.waits);
        self.reading.join(other.reading);
        self.journal_waits += other.journal_waits;
        for (call, count) in other.syncs {
            *self.syncs.entry(call).or_default() += count;
        }
        let room = MOST.saturating_sub(self.threads.len());
        self.threads.extend(other.threads.into_iter().take(room));
    }

    /// Whether it only waited: it has neither requests nor calls.
    pub fn only_waits(&self) -> bool {
        let calls = self.calls.reads + self.calls.writes;
        self.read.requests + self.write.requests + calls == 0
    }

    /// Bytes that it moved, at the device or in calls.
    pub fn moved_bytes(&self) -> u64 {
        let calls = self.calls.read_bytes.saturating_add(self.calls.write_bytes);
        calls.max(self.read.bytes.saturating_add(self.write.bytes))
    }

    /// The most files that were created in one of several folders; the first and the last are seen
    /// in part.
    pub fn most_in_folder(&self) -> Option<u64> {
        let most = self.created_in.values().map(|created| created.files).max();
        most.filter(|_| self.created_in.len() > 1)
    }

    /// In how many folders files were created at once, while there was at least one.
    pub fn folders_at_once(&self, duration_ns: u64) -> f64 {
        let mut spans = Concurrency::default();
        for folder in self.created_in.values() {
            spans.add(folder.first_ns, folder.last_ns.saturating_sub(folder.first_ns), 1);
        }
        spans.while_busy(duration_ns)
    }

    /// Adds calls; `path` is the file's.
    pub fn calls(&mut self, file: &FileActivity, path: &str) {
        self.calls.add(&file.counts());
        let counts = file.counts();
        // A row may stand for many files, and its path for theirs.
        let is_one = file.files.is_none_or(|files| files <= 1);
        if counts.creates > 0
            && is_one
            && let Some((folder, _)) = path.rsplit_once('/')
        {
            let folder = FxBuildHasher.hash_one(folder);
            if self.created_in.len() < MOST || self.created_in.contains_key(&folder) {
                let new = CreatedFiles { files: 0, first_ns: file.start_ns, last_ns: 0 };
                let known = self.created_in.entry(folder).or_insert(new);
                known.files += counts.creates;
                known.first_ns = known.first_ns.min(file.start_ns);
                known.last_ns = known.last_ns.max(file.start_ns);
            }
        }
        match file.inode.zip(file.inode_device) {
            Some(inode) if self.inodes.len() < MOST => {
                self.files += u64::from(self.inodes.insert(inode));
            }
            Some(_) => {}
            None => self.files = self.files.max(file.files.unwrap_or(1)),
        }
        if let Some(life) = file.lifetime_ns {
            let files = file.files.unwrap_or(1).max(1);
            self.lives.0 += files;
            self.lives.1 = self.lives.1.saturating_add(life.saturating_mul(files));
        }
    }

    /// Calls that made writes durable, or waits in them where calls are not in the data.
    pub fn synced(&self) -> u64 {
        match self.calls.fsyncs {
            0 => self.syncs.values().sum(),
            calls => calls,
        }
    }
}

impl StreamSide {
    fn add(&mut self, request: &Request, part: &RequestPart, direct: Option<bool>, weight: u64) {
        self.requests += weight;
        self.bytes = self.bytes.saturating_add(part.bytes.saturating_mul(weight));
        if self.sizes.len() < MOST || self.sizes.contains_key(&part.bytes) {
            *self.sizes.entry(part.bytes).or_default() += weight;
        }
        match direct {
            Some(true) => self.direct += weight,
            Some(false) => self.cached += weight,
            None => {}
        }
        self.ahead += u64::from(request.origin == Origin::Readahead) * weight;
        self.faults += u64::from(request.origin == Origin::PageFault) * weight;
        if let Some(length) = request.known_ns() {
            self.spans.add(request.start_ns, length, weight);
        }
        // The device itself has no offsets but sectors.
        let place = || request.sector.saturating_mul(512);
        let offset = part.file_offset.or_else(|| part.file.is_none().then(place));
        let Some(offset) = offset else { return };
        let end = offset.saturating_add(part.bytes);
        self.end = self.end.max(end);
        let file = part.file.unwrap_or(Name::EMPTY);
        if self.ends.len() < MOST || self.ends.contains_key(&file) {
            let known = self.ends.entry(file).or_default();
            *known = end.max(*known);
        }
        let is_cached = matches!(request.origin, Origin::Readahead | Origin::PageFault)
            || (request.origin == Origin::Read && direct == Some(false));
        if is_cached {
            self.again.read((file, offset), part.bytes, weight);
        }
        if self.next.len() < MOST || self.next.contains_key(&file) {
            let next = self.next.insert(file, end);
            self.placed += u64::from(next.is_some());
            self.sequential += u64::from(next == Some(offset));
            self.near += u64::from(next.is_some_and(|next| next.abs_diff(offset) <= NEAR));
        }
        self.sample(offset);
    }

    /// Keeps every offset, then every second of them, and so on.
    fn sample(&mut self, offset: u64) {
        if self.skip > 0 {
            self.skip -= 1;
            return;
        }
        if self.offsets.len() >= 2 * MOST {
            let mut at = 0;
            self.offsets.retain(|_| {
                at += 1;
                at % 2 == 0
            });
        }
        self.offsets.push(offset);
        self.skip = self.requests / (4 * MOST as u64);
    }

    /// The share of its requests that are sequential; `None` if too few are known.
    pub fn sequential_share(&self) -> Option<f64> {
        (self.placed >= 8).then(|| self.sequential as f64 / self.placed as f64)
    }

    /// Returns the share of requests near the end of the previous one; `None` if too few are known.
    pub fn near_share(&self) -> Option<f64> {
        (self.placed >= 8).then(|| self.near as f64 / self.placed as f64)
    }

    /// Bytes of all its files, as far as they were used, and how many files these are.
    pub fn footprint(&self) -> (u64, usize) {
        (self.ends.values().sum(), self.ends.len())
    }

    /// Whether most of its requests bypass the page cache.
    pub fn is_direct(&self) -> bool {
        self.direct > self.cached
    }

    /// The mean size, bytes.
    pub fn mean_bytes(&self) -> u64 {
        self.bytes / self.requests.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_take_turns_count_as_one() {
        let mut turns = Concurrency::default();
        (0..10).for_each(|at| turns.add(at * 100, 100, 1));
        assert_eq!((turns.while_busy(10_000), turns.most(10_000)), (1.0, 1.0));
        let mut both = Concurrency::default();
        (0..10).for_each(|at| both.add(at / 2 * 100, 100, 1));
        assert_eq!((both.while_busy(10_000), both.most(10_000)), (2.0, 2.0));
        let mut thinned = Concurrency::default();
        (0..10).for_each(|at| thinned.add(at * 100, 100, 30));
        assert_eq!(thinned.while_busy(10_000), 3.0);
    }
}
