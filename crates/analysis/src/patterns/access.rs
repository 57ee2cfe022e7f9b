//! Addresses and sizes of a device's requests.

use crate::summary::Direction;
use crate::summary::patterns::{Access, FilePattern};
use crate::sums::request_times::Life;
use iowhy_model::compact_sort::CompactSort;
use iowhy_model::{Name, Names, Origin, Request, RequestPart};
use rustc_hash::{FxHashMap, FxHashSet};

const PAGE_SECTORS: u64 = 8;
/// Initial sampling of pages: one in every 64 KiB.
const STRIDE: u64 = 16;
/// The part of a log file that may be its header, which is written at any time. Chosen: InnoDB's
/// has 2 KiB.
const HEADER: u64 = 16_384;
/// Maximum number of sampled pages; beyond it the sampling rate is halved.
const PAGES: usize = 1 << 16;
/// Maximum number of pages of one request that are examined: more than any request has.
const MOST_PAGES: u64 = 1 << 16;
/// Number of pages read of which it is kept when that was: a later one takes the place of another.
const RECENT: usize = 8192;
/// Maximum time between a read and a write of one read-modify-write, nanoseconds.
const SOON_NS: u64 = 1_000_000_000;
/// Maximum time between the queueing of pieces of one bio, nanoseconds.
const AT_ONCE_NS: u64 = 500_000;
/// Maximum number of distinct sizes, threads and files.
const SIZES: usize = 64;
const THREADS: usize = 1024;
const FILES: usize = 4096;
/// Maximum number of files in the result.
const LISTED: usize = 20;

#[derive(Clone, Copy, Debug, Default)]
struct FileTally {
    requests: u64,
    next_offset: u64,
    next_sector: u64,
    sequential: u64,
    scattered: u64,
    direct: u64,
    direct_ns: u64,
    cached: u64,
    faults: u64,
    ahead_bytes: u64,
    written: u64,
    bytes: u64,
    end: u64,
    /// The inode that the name had last: each new segment of some logs begins under one name.
    inode: Option<u64>,
    /// The offset of the last write to that inode, other than in its header.
    front: u64,
    /// How often writing began again near its beginning.
    begun_again: u64,
    /// The most of any inode of the name.
    wraps: u64,
    time_ns: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct AccessThread {
    next_sector: u64,
    queued_ns: u64,
    /// The time at which the last of the pieces so far completed, nanoseconds.
    ended_ns: u64,
    write: bool,
    bytes: u64,
}

/// Sums requests as they arrive.
#[derive(Clone, Debug, Default)]
pub(super) struct AccessTally {
    sums: Access,
    stride: u64,
    pages: FxHashSet<u64>,
    recent: RecentReads,
    sizes: SizeTally,
    threads: FxHashMap<u32, AccessThread>,
    files: FxHashMap<Name, FileTally>,
}

/// Requests by size.
#[derive(Clone, Debug, Default)]
struct SizeTally {
    counts: FxHashMap<u64, u64>,
    /// The size of the latest requests, and how many of them are not among `counts` yet: most
    /// requests are as large as the one before.
    latest: (u64, u64),
}

impl SizeTally {
    #[inline]
    fn add(&mut self, bytes: u64) {
        if self.latest.0 != bytes {
            self.settle();
            self.latest = (bytes, 0);
        }
        self.latest.1 += 1;
    }

    fn settle(&mut self) {
        let (bytes, count) = self.latest;
        if count > 0 && (self.counts.len() < SIZES || self.counts.contains_key(&bytes)) {
            *self.counts.entry(bytes).or_default() += count;
        }
    }

    /// Sizes and their numbers of requests, most frequent first.
    fn finish(mut self) -> Vec<(u64, u64)> {
        self.settle();
        let mut sizes: Vec<(u64, u64)> = self.counts.into_iter().collect();
        sizes.compact_sort_by_key(|(size, count)| (std::cmp::Reverse(*count), *size));
        sizes
    }
}

/// The latest reads of pages: each in the one place that it can have.
#[derive(Clone, Debug, Default)]
struct RecentReads {
    /// The page, and when it was read.
    places: Vec<(u64, u64)>,
}

impl RecentReads {
    #[inline]
    fn note(&mut self, page: u64, at_ns: u64) {
        if self.places.is_empty() {
            self.places.resize(RECENT, (u64::MAX, 0));
        }
        if let Some(place) = self.places.get_mut(Self::place(page)) {
            *place = (page, at_ns);
        }
    }

    #[inline]
    fn of(&self, page: u64) -> Option<u64> {
        let known = self.places.get(Self::place(page)).filter(|(known, _)| *known == page);
        known.map(|(_, at_ns)| *at_ns)
    }

    /// Neighbours are apart, and so are pages at regular distances.
    #[inline]
    fn place(page: u64) -> usize {
        let hash = page.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (hash >> (u64::BITS - RECENT.ilog2())) as usize
    }
}

impl AccessTally {
    #[inline]
    pub fn add(&mut self, request: &Request, parts: &[RequestPart], life: &Life) {
        let direction = Direction::from(request.operation);
        if request.bytes == 0 || !direction.has_sectors() {
            return;
        }
        self.sizes.add(request.bytes);
        self.follow_thread(request, direction, life);
        match direction {
            Direction::Read => self.read(request),
            _ => self.write(request),
        }
        if let Some((file, offset)) = only_file(parts) {
            self.follow_file(request, file, offset, life);
            self.follow_circle(request, file, parts[0].inode, offset);
        }
    }

    fn read(&mut self, request: &Request) {
        let (first, last) = pages_of(request);
        self.recent.note(first, request.start_ns);
        self.recent.note(last, request.start_ns);
        let cached = [Origin::Read, Origin::Readahead, Origin::PageFault];
        if !cached.contains(&request.origin) {
            return;
        }
        self.stride = self.stride.max(STRIDE);
        let last = last.min(first.saturating_add(MOST_PAGES));
        let mut page = first.checked_next_multiple_of(self.stride).unwrap_or(u64::MAX);
        while page <= last && page < u64::MAX {
            self.sums.watched_pages += 1;
            self.sums.pages_again += u64::from(!self.pages.insert(page));
            page = page.saturating_add(self.stride);
        }
        if self.pages.len() > PAGES {
            self.stride *= 2;
            let stride = self.stride;
            self.pages.retain(|page| page.is_multiple_of(stride));
        }
    }

    fn write(&mut self, request: &Request) {
        // A page that was swapped in frees its slot, and the next page that is swapped out takes
        // it.
        if matches!(request.origin, Origin::Journal | Origin::Metadata | Origin::Swap) {
            return;
        }
        self.sums.data_writes += 1;
        let aligned = request.sector.is_multiple_of(PAGE_SECTORS)
            && request.bytes.is_multiple_of(PAGE_SECTORS * 512);
        self.sums.unaligned_writes += u64::from(!aligned);
        let (first, last) = pages_of(request);
        let read_before = [first, last].iter().any(|page| {
            let read = self.recent.of(*page);
            read.is_some_and(|at| request.start_ns.saturating_sub(at) <= SOON_NS)
        });
        self.sums.writes_after_read += u64::from(read_before);
    }

    fn follow_thread(&mut self, request: &Request, direction: Direction, life: &Life) {
        let Some(tid) = request.tid else { return };
        if self.threads.len() >= THREADS && !self.threads.contains_key(&tid) {
            self.threads.clear();
        }
        let write = direction == Direction::Write;
        let thread = self.threads.entry(tid).or_default();
        let gap = request.start_ns.abs_diff(thread.queued_ns);
        let ended = life.ended_ns();
        // A request that is submitted after all previous ones completed is not a piece.
        let at_once = gap <= AT_ONCE_NS && request.start_ns < thread.ended_ns;
        if thread.next_sector == request.sector && thread.write == write && at_once {
            self.sums.pieces += 1;
            self.sums.pieces_bytes =
                self.sums.pieces_bytes.saturating_add(request.bytes).saturating_add(thread.bytes);
            let longer = ended.saturating_sub(thread.ended_ns);
            self.sums.pieces_ns = self.sums.pieces_ns.saturating_add(longer);
            self.sums.wholes_ns = self.sums.wholes_ns.saturating_add(longer);
            (thread.bytes, thread.ended_ns) = (0, thread.ended_ns.max(ended));
        } else {
            let whole = life.whole_ns.unwrap_or(0);
            self.sums.wholes_ns = self.sums.wholes_ns.saturating_add(whole);
            (thread.bytes, thread.ended_ns) = (request.bytes, ended);
        }
        thread.next_sector = request.sector.saturating_add(request.bytes.div_ceil(512));
        (thread.queued_ns, thread.write) = (request.start_ns, write);
    }

    fn follow_file(&mut self, request: &Request, name: Name, offset: Option<u64>, life: &Life) {
        if self.files.len() >= FILES && !self.files.contains_key(&name) {
            return;
        }
        let file = self.files.entry(name).or_default();
        let time_ns = life.whole_ns.unwrap_or(0);
        file.requests += 1;
        file.time_ns = file.time_ns.saturating_add(time_ns);
        match request.origin {
            Origin::Write => {
                file.direct += 1;
                file.direct_ns = file.direct_ns.saturating_add(time_ns);
            }
            Origin::Readahead | Origin::Writeback => file.cached += 1,
            Origin::PageFault => file.faults += 1,
            _ => {}
        }
        if matches!(request.origin, Origin::Readahead | Origin::PageFault) {
            file.ahead_bytes = file.ahead_bytes.saturating_add(request.bytes);
        }
        if Direction::from(request.operation) == Direction::Write {
            file.written = file.written.saturating_add(request.bytes);
        }
        file.bytes = file.bytes.saturating_add(request.bytes);
        let Some(offset) = offset else { return };
        file.end = file.end.max(offset.saturating_add(request.bytes));
        if file.requests > 1 && offset == file.next_offset {
            file.sequential += 1;
            file.scattered += u64::from(request.sector != file.next_sector);
        }
        file.next_offset = offset.saturating_add(request.bytes);
        file.next_sector = request.sector.saturating_add(request.bytes.div_ceil(512));
    }

    fn follow_circle(
        &mut self,
        request: &Request,
        name: Name,
        inode: Option<u64>,
        offset: Option<u64>,
    ) {
        let is_write = Direction::from(request.operation) == Direction::Write;
        let Some(offset) = offset.filter(|offset| is_write && *offset >= HEADER) else { return };
        let Some(file) = self.files.get_mut(&name) else { return };
        if file.inode != inode {
            (file.inode, file.front, file.begun_again) = (inode, 0, 0);
        }
        file.begun_again += u64::from(offset < file.front / 2);
        file.wraps = file.wraps.max(file.begun_again);
        file.front = offset;
    }

    pub fn finish(&self, names: &Names) -> Access {
        let sizes = self.sizes.clone().finish();
        let mut files: Vec<FilePattern> =
            self.files.iter().map(|file| listed(file, names)).collect();
        files.compact_sort_by(|a, b| b.requests.cmp(&a.requests).then_with(|| a.file.cmp(&b.file)));
        files.truncate(LISTED);
        let faulted = self.files.values().filter(|file| file.faults > 0);
        let faulted_bytes = faulted.map(|file| file.ahead_bytes).fold(0, u64::saturating_add);
        Access { sizes, files, faulted_bytes, ..self.sums.clone() }
    }
}

fn listed((name, tally): (&Name, &FileTally), names: &Names) -> FilePattern {
    FilePattern {
        file: names.get(*name).to_owned(),
        requests: tally.requests,
        sequential: tally.sequential,
        scattered: tally.scattered,
        direct: tally.direct,
        direct_ns: tally.direct_ns,
        cached: tally.cached,
        faults: tally.faults,
        written: tally.written,
        bytes: tally.bytes,
        end: tally.end,
        wraps: tally.wraps,
        time_ns: tally.time_ns,
    }
}

/// The file that the complete request belongs to, with any number of owners, and its offset if the
/// bytes are contiguous.
fn only_file(parts: &[RequestPart]) -> Option<(Name, Option<u64>)> {
    let (first, rest) = parts.split_first()?;
    let file = first.file?;
    // The owners of one run all have its offset.
    let is_run = rest.iter().all(|part| part.file_offset == first.file_offset);
    let same = rest.iter().all(|part| part.file == Some(file));
    same.then_some((file, first.file_offset.filter(|_| is_run)))
}

/// The first and the last page of a request on its device.
fn pages_of(request: &Request) -> (u64, u64) {
    let last = request.sector.saturating_add(request.bytes.div_ceil(512).max(1) - 1);
    (request.sector / PAGE_SECTORS, last / PAGE_SECTORS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::ScriptSummary;
    use iowhy_model::script::Script;

    #[test]
    fn what_is_read_again_shows() {
        for (range, again) in [(64, true), (1 << 20, false)] {
            let mut script = Script::new(10);
            for index in 0..512_u64 {
                let read = script.read("sda", 131_072).sector(index % range * 256);
                read.origin(Origin::Readahead).direct(0, 0, 1000).add();
            }
            let access = script.summary().patterns.devices[0].access.clone();
            assert_eq!(access.watched_pages, 1024);
            assert_eq!(access.pages_again > 800, again, "{access:?}");
        }
    }

    #[test]
    fn pages_of_several_owners_are_of_one_file() {
        let mut script = Script::new(10);
        for index in 0..50_u64 {
            let write = script.write("sda", 8192).origin(Origin::Writeback).sector(index * 800);
            let write = write.part(Ok("/db/table"), 4096, Ok((7, "db")));
            let write = write.part(Ok("/db/table"), 4096, Err("dirtied before the watch"));
            write.direct(0, 0, 1000).add();
            let both = script.write("sda", 8192).origin(Origin::Writeback).sector(index * 800);
            let both = both.part(Ok("/db/table"), 4096, Ok((7, "db")));
            both.part(Ok("/db/index"), 4096, Ok((7, "db"))).direct(0, 0, 1000).add();
        }
        let files = script.summary().patterns.devices[0].access.files.clone();
        let table = &files[0];
        assert_eq!((files.len(), table.cached, table.written), (1, 50, 50 * 8192), "{files:?}");
        assert_eq!((table.time_ns, table.direct_ns), (50_000, 0));
    }

    /// Reads of 16 pieces, of which each takes `each` nanoseconds longer than the one before.
    fn pieces(each: u64) -> Access {
        let mut script = Script::new(10);
        for index in 0..1600_u64 {
            let (whole, piece) = (index / 16, index % 16);
            let at = (whole * 50_000_000 + piece * 1000) as i64;
            let read = script.read("sda", 16_384).by(7, "dd").at(at).sector(index * 32);
            read.direct(0, 0, 1_000_000 + piece * each).add();
        }
        script.summary().patterns.devices[0].access.clone()
    }

    #[test]
    fn pieces_cost_what_passes_after_the_first() {
        let after = |access: &Access| access.pieces_ns as f64 / access.wholes_ns as f64;
        let one_by_one = pieces(1_000_000);
        assert_eq!(one_by_one.pieces, 1500);
        assert!((0.92..0.95).contains(&after(&one_by_one)), "{one_by_one:?}");
        // A device that works on them at once: only their queueing is left.
        let at_once = pieces(0);
        assert_eq!(at_once.pieces, 1500);
        assert!(after(&at_once) < 0.02, "{at_once:?}");
    }

    fn each_read_before_its_write(read: Origin, write: Origin) -> Access {
        let mut script = Script::new(10);
        for index in 0..100_u64 {
            let at = (index * 10_000_000) as i64;
            let first = script.read("sda", 4096).at(at).sector(index * 800).origin(read);
            first.direct(0, 0, 1000).add();
            let then = script.write("sda", 512).at(at + 5_000_000).sector(index * 800 + 3);
            then.origin(write).direct(0, 0, 1000).add();
        }
        script.summary().patterns.devices[0].access.clone()
    }

    #[test]
    fn a_read_before_its_write_shows() {
        let access = each_read_before_its_write(Origin::Read, Origin::Write);
        assert_eq!((access.writes_after_read, access.unaligned_writes), (100, 100));
        // A page that goes out to swap takes the place of one that has come back.
        let access = each_read_before_its_write(Origin::Swap, Origin::Swap);
        assert_eq!((access.data_writes, access.writes_after_read), (0, 0));
    }
}
