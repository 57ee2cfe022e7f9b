//! fio's jobs for one stream: direct I/O from its requests; through the page cache from its calls,
//! or from its requests where calls were not recorded.
//!
//! A job is a closed loop, as programs are: a thread pauses for as long as it neither waited nor
//! was in flight, so that on a slower disk the rate falls as the original's would.
//!
//! What does not belong here: what fio cannot do (see [`super::steps`]).

use super::shapes;
use crate::plan::{JobEngine, PlannedJob, SyncCall, SyncEvery};
use crate::streams::class::FileClass;
use crate::streams::stream::{LoadStream, StreamSide};

/// Pauses are at least this long, microseconds: shorter ones are taken together.
const LEAST_THINK_US: f64 = 1000.0;
/// The share of the time that a thread is in its I/O from which it does not pause. Chosen.
const SATURATED: f64 = 0.97;
/// The share for requests of which several are in flight: some may hang. Chosen.
const BUSY: f64 = 0.85;
/// From this mean on, several are in flight.
const SEVERAL: f64 = 1.5;
/// The largest share of the time in I/O of a load that has a rhythm of its own. Chosen.
const OWN_RHYTHM: f64 = 0.5;
/// From this share on, requests of a stream are sequential.
const SEQUENTIAL: f64 = 0.5;
/// Threads and depth at most.
const MOST_THREADS: u64 = 64;
const MOST_DEPTH: f64 = 256.0;
/// The smallest and the largest file of a job.
const LEAST_FILE: u64 = 1 << 20;
const MOST_FILE: u64 = 4 << 30;
/// The most mapped files of a job, and the smallest.
const MOST_FILES: u64 = 1000;
const LEAST_MAPPED: u64 = 64 << 10;
/// The least size of a file, in multiples of the watch's bytes, so that it is not read twice while
/// the reproduction settles and is watched.
const SPARE: f64 = 2.5;
/// Files from which bursts are told by them. Chosen.
const LEAST_BURSTS: u64 = 3;
/// Writes between two syncs up to which a load syncs often. Chosen.
const OFTEN: u64 = 16;
/// Requests per call from which calls were split. Chosen.
const SPLIT: f64 = 1.3;
/// A page of the page cache, bytes.
const PAGE: u64 = 4096;
/// Sizes and offsets of direct I/O are multiples of this.
const SECTOR: u64 = 512;

/// The facts that a job needs besides its stream.
#[derive(Clone, Copy, Debug)]
pub struct JobContext<'a> {
    /// The job's name, without the direction.
    pub name: &'a str,
    /// The disk's index.
    pub disk: usize,
    /// The job's files.
    pub class: &'a FileClass,
    /// The length of the watch, nanoseconds.
    pub duration_ns: u64,
    /// Whether calls were recorded.
    pub has_calls: bool,
}

impl JobContext<'_> {
    fn seconds(&self) -> f64 {
        self.duration_ns.max(1) as f64 / 1e9
    }

    fn job(&self, kind: &str) -> PlannedJob {
        PlannedJob {
            name: format!("{}-{kind}", self.name),
            disk: self.disk,
            raw: self.class.is_device,
            depth: 1,
            threads: 1,
            think_after: 1,
            files: 1,
            advise: true,
            overwrite: true,
            ..PlannedJob::default()
        }
    }

    /// Lets `job` pause so that `count` operations, which took `busy_ns` in total, fill the watch.
    fn pace(
        &self,
        job: &mut PlannedJob,
        stream: &LoadStream,
        count: f64,
        busy_ns: u64,
        lanes: f64,
    ) {
        job.per_s = count / self.seconds();
        let whole_ns = lanes * self.duration_ns as f64;
        // fio pauses a thread with all that it could have in flight.
        let each = count.max(1.0) * f64::from(job.depth.max(1));
        let pause_us = (whole_ns - busy_ns as f64).max(0.0) / each / 1e3;
        // If the pauses are waits, it is the disk that has the rhythm.
        let is_idle = job.depth == 1 && (busy_ns as f64) < OWN_RHYTHM * whole_ns;
        if let Some(rhythm) = stream.bins.rhythm(self.duration_ns).filter(|_| is_idle) {
            let each = count * rhythm.period_ns as f64 / self.duration_ns as f64;
            job.think_after = ((each / lanes).round() as u64).max(1);
            job.think_us = pause_us * job.think_after as f64;
            return;
        }
        if busy_ns as f64 >= SATURATED * whole_ns {
            return;
        }
        set_think(job, pause_us);
    }
}

/// Sets the pause after each operation; short ones are taken together.
pub fn set_think(job: &mut PlannedJob, pause_us: f64) {
    job.think_after = (LEAST_THINK_US / pause_us.max(0.01)).ceil().clamp(1.0, 1e5) as u64;
    job.think_us = pause_us * job.think_after as f64;
    if pause_us < 0.5 {
        (job.think_after, job.think_us) = (1, 0.0);
    }
}

/// The jobs of a stream: of each direction that bypasses the page cache, and through it.
pub fn jobs(context: &JobContext<'_>, stream: &LoadStream) -> Vec<PlannedJob> {
    let raw = context.class.is_device;
    let (reads, writes) = (raw || stream.read.is_direct(), raw || stream.write.is_direct());
    let part = |reads: bool, writes: bool| {
        let mut part = stream.clone();
        if !reads {
            (part.read, part.calls.reads, part.calls.read_bytes) = Default::default();
        }
        if !writes {
            (part.write, part.calls.writes, part.calls.write_bytes) = Default::default();
        }
        part
    };
    let (past, through) = (part(reads, writes), part(!reads, !writes));
    let cached = cached_writes(context, &through).into_iter();
    direct(context, &past)
        .into_iter()
        .chain(cached)
        .chain(cached_reads(context, &through))
        .collect()
}

fn engine(stream: &LoadStream) -> JobEngine {
    let times = |name: &str| stream.call_names.get(name).copied().unwrap_or(0);
    let all: u64 = stream.call_names.values().sum();
    if times("io_submit") * 2 > all {
        return JobEngine::Libaio;
    }
    if times("io_uring_enter") * 2 > all {
        return JobEngine::IoUring;
    }
    JobEngine::Psync
}

/// Whether the requests of a side follow each other.
fn is_sequential(side: &StreamSide) -> bool {
    side.sequential_share().is_some_and(|share| share >= SEQUENTIAL)
}

/// Whether they do so nearly, as those of a log.
fn is_log(side: &StreamSide) -> bool {
    side.near_share().is_some_and(|share| share >= SEQUENTIAL)
}

/// Whether files exist in full before: most syncs of writes that extend a file wait for a commit of
/// the journal.
fn overwrites(job: &PlannedJob, stream: &LoadStream) -> bool {
    let often =
        job.sync.is_some_and(|sync| sync.writes <= OFTEN && sync.call != SyncCall::SyncFileRange);
    job.random || job.read_percent > 0 || (often && stream.journal_waits * 2 < stream.synced())
}

/// The size of direct writes: that of the calls, if the kernel split them.
fn write_sizes(context: &JobContext<'_>, stream: &LoadStream) -> (Vec<(u64, u32)>, u64) {
    let (side, calls) = (&stream.write, stream.calls.writes);
    let is_split = side.requests as f64 > SPLIT * calls as f64;
    if context.has_calls && calls > 0 && is_split && !context.class.is_device {
        let block = (stream.calls.write_bytes / calls + PAGE / 2) / PAGE * PAGE;
        return (vec![(block.max(PAGE), 100)], calls);
    }
    (shapes::sizes(&side.sizes, SECTOR), side.requests)
}

fn direct(context: &JobContext<'_>, stream: &LoadStream) -> Option<PlannedJob> {
    let (read, write) = (&stream.read, &stream.write);
    let requests = read.requests + write.requests;
    if requests == 0 {
        return None;
    }
    let larger = if read.requests >= write.requests { read } else { write };
    let mut job = context.job("direct");
    job.direct = true;
    job.random = !is_sequential(larger) && !is_log(larger);
    job.read_sizes = shapes::sizes(&read.sizes, SECTOR);
    let (sizes, writes) = write_sizes(context, stream);
    job.write_sizes = sizes;
    let count = read.requests + writes;
    job.read_percent = (read.requests * 100 / count.max(1)) as u8;
    job.engine = engine(stream);
    job.sync = syncs(stream, writes);
    let in_flight_ns = read.spans.total_ns.saturating_add(write.spans.total_ns);
    // Calls that do not return before they are done also wait before a request is queued.
    let (busy_ns, lanes) = match job.engine {
        JobEngine::Psync if stream.waits.total_ns > in_flight_ns => {
            (stream.waits.total_ns, stream.waits.while_busy(context.duration_ns))
        }
        // A few in flight all the time, although some may have no record of their end.
        JobEngine::Libaio | JobEngine::IoUring if is_busy(stream, context.duration_ns) => {
            let sides = [&read.spans, &write.spans];
            let busy = sides.map(|side| side.while_busy(context.duration_ns));
            (u64::MAX, busy[0].max(busy[1]))
        }
        _ => {
            let sides = [&read.spans, &write.spans];
            let busy = sides.map(|side| side.while_busy(context.duration_ns));
            (in_flight_ns, busy[0].max(busy[1]))
        }
    };
    let lanes = lanes.round().clamp(1.0, MOST_DEPTH);
    let threads = (stream.threads.len() as u64).clamp(1, MOST_THREADS);
    match job.engine {
        JobEngine::Psync => job.threads = (lanes as u64).clamp(1, MOST_THREADS) as u32,
        _ => {
            job.threads = threads.min(lanes as u64).max(1) as u32;
            job.depth = (lanes / f64::from(job.threads)).round().max(1.0) as u32;
        }
    }
    job.overwrite = overwrites(&job, stream);
    let lanes = f64::from(job.threads * job.depth);
    context.pace(&mut job, stream, count as f64, busy_ns, lanes);
    place(&mut job, stream);
    Some(job)
}

/// Whether there is something in flight nearly all the time.
fn is_busy(stream: &LoadStream, duration_ns: u64) -> bool {
    let several = |side: &StreamSide| side.spans.while_busy(duration_ns) >= SEVERAL;
    let busy = |side: &StreamSide| match several(side) {
        true => side.spans.busy_ns(duration_ns) as f64,
        false => 0.0,
    };
    busy(&stream.read).max(busy(&stream.write)) >= BUSY * duration_ns as f64
}

/// The size of the file that stands for all of a stream, bytes, and how many it stands for.
fn footprint(stream: &LoadStream) -> (u64, usize) {
    let [read, write] = [&stream.read, &stream.write].map(|side| side.footprint());
    (read.0.max(write.0), read.1.max(write.1))
}

/// The size of a direct job's file, and where its operations fall.
fn place(job: &mut PlannedJob, stream: &LoadStream) {
    let (read, write) = (&stream.read, &stream.write);
    let (end, files) = footprint(stream);
    let needed = (read.bytes.saturating_add(write.bytes)) as f64 * SPARE;
    job.file_bytes = match job.random || job.raw {
        true => end.clamp(LEAST_FILE, MOST_FILE),
        false => (needed as u64).clamp(LEAST_FILE, MOST_FILE),
    }
    .next_multiple_of(1 << 20);
    // Offsets of several files have no known place in the one that stands for them.
    if job.random && files <= 1 {
        let offsets: Vec<u64> = read.offsets.iter().chain(&write.offsets).copied().collect();
        job.zones = shapes::zones(&offsets, end);
    }
}

/// Returns the frequency of syncs in a stream of so many writes.
fn syncs(stream: &LoadStream, writes: u64) -> Option<SyncEvery> {
    let times = |name: &str| stream.syncs.get(name).copied().unwrap_or(0);
    let all = stream.synced();
    if all > 0 {
        let by_request = |name: &str| stream.call_names.get(name).copied().unwrap_or(0);
        let data = times("fdatasync") + by_request("fdatasync");
        let whole = times("fsync") + by_request("fsync");
        let call = if data > whole { SyncCall::Fdatasync } else { SyncCall::Fsync };
        let every = (writes as f64 / all as f64).round().max(1.0) as u64;
        // For a few large files, the calls on ranges tell more than the one at the end.
        if stream.range_syncs <= 4 * all {
            return Some(SyncEvery { call, writes: every });
        }
    }
    (stream.range_syncs > 0).then(|| SyncEvery {
        call: SyncCall::SyncFileRange,
        writes: (writes / stream.range_syncs.max(1)).max(1),
    })
}

fn cached_writes(context: &JobContext<'_>, stream: &LoadStream) -> Option<PlannedJob> {
    let side = &stream.write;
    if stream.read.faults > 0 && stream.calls.writes == 0 {
        return mapped_writes(context, stream);
    }
    let known = context.has_calls && stream.calls.writes > 0;
    let (count, bytes) = match known {
        true => (stream.calls.writes, stream.calls.write_bytes),
        false => (side.requests, side.bytes),
    };
    if count == 0 || bytes == 0 {
        return None;
    }
    let mut job = context.job("write");
    let block = (bytes / count).max(1);
    job.write_sizes = match known {
        true => vec![(block, 100)],
        false => shapes::sizes(&side.sizes, SECTOR),
    };
    // Writeback sorts; what it could not merge was scattered.
    let merged = side.requests == 0 || side.mean_bytes() >= 3 * block;
    let is_small = block < PAGE;
    job.random = !merged && !is_log(side) && !is_small && side.requests >= 8;
    job.sync = syncs(stream, count);
    job.overwrite = overwrites(&job, stream);
    // A part of a page that is not cached would be read first; the original's were cached.
    let is_cached = stream.read.requests * 10 <= side.requests.max(1);
    if known && job.overwrite && is_cached && block >= PAGE {
        let whole = (block + PAGE / 2) / PAGE * PAGE;
        job.write_sizes = vec![(whole.max(PAGE), 100)];
    }
    let lanes = stream.waits.while_busy(context.duration_ns).round().min(MOST_THREADS as f64);
    job.threads = lanes.max(1.0) as u32;
    // Waits of reads are in the job that reads.
    let busy_ns = stream.waits.total_ns.saturating_sub(stream.reading.total_ns);
    context.pace(&mut job, stream, count as f64, busy_ns, lanes.max(1.0));
    by_files(context, &mut job, stream, (count as f64, busy_ns));
    let needed = (bytes as f64 * SPARE / f64::from(job.threads)) as u64;
    job.file_bytes = match job.random {
        true => footprint(stream).0.max(bytes / 2).clamp(LEAST_FILE, MOST_FILE),
        false => needed.clamp(LEAST_FILE, MOST_FILE),
    }
    .next_multiple_of(block.max(PAGE));
    Some(job)
}

/// Lets the job pause after as much as a file has, if a burst is a whole file that is synced at its
/// end, as a snapshot is.
fn by_files(
    context: &JobContext<'_>,
    job: &mut PlannedJob,
    stream: &LoadStream,
    (count, busy_ns): (f64, u64),
) {
    let files = stream.calls.creates;
    // A file that is renamed at its end replaces another one as a whole.
    let replaces = stream.calls.renames * 2 >= files;
    let bursts = stream.bins.rhythm(context.duration_ns).is_some() || replaces;
    if !bursts || files < LEAST_BURSTS || stream.synced() < files {
        return;
    }
    let whole_ns = f64::from(job.threads) * context.duration_ns as f64;
    job.think_after = ((count / files as f64).round() as u64).max(1);
    job.think_us = (whole_ns - busy_ns as f64).max(0.0) / files as f64 / 1e3;
}

/// As many files as the original's: the kernel ends its windows around faults after a hundred
/// misses in one file.
fn mapped_files(job: &mut PlannedJob, bytes: u64, stream: &LoadStream) {
    let most = (bytes / LEAST_MAPPED).clamp(1, MOST_FILES);
    let files = (footprint(stream).1 as u64).clamp(1, most);
    job.files = u32::try_from(files).unwrap_or(1);
    job.file_bytes = (bytes / files).next_multiple_of(PAGE);
}

/// Returns the frequency at which a program syncs its changes through a mapping; fio's fsync is
/// msync then.
fn mapped_syncs(stream: &LoadStream, pages: u64) -> Option<SyncEvery> {
    // A call waits about once; its requests are many.
    let syncs = stream.syncs.get("msync").copied().unwrap_or(0);
    let every = (pages as f64 / syncs.max(1) as f64).round().max(1.0) as u64;
    (syncs > 0).then_some(SyncEvery { call: SyncCall::Fsync, writes: every })
}

/// Pages that a program changes through a mapping.
fn mapped_writes(context: &JobContext<'_>, stream: &LoadStream) -> Option<PlannedJob> {
    let side = &stream.write;
    if side.requests == 0 {
        return None;
    }
    let mut job = context.job("mapped-write");
    let pages = side.bytes / 4096;
    job.engine = JobEngine::Mmap;
    job.write_sizes = vec![(4096, 100)];
    job.random = !is_sequential(&stream.read);
    // Windows around faults are the kernel's doing, which a hint would end.
    job.advise = stream.read.ahead == 0 && stream.read.mean_bytes() <= PAGE;
    job.sync = mapped_syncs(stream, pages);
    job.threads = stream.waits.while_busy(context.duration_ns).round().clamp(1.0, 64.0) as u32;
    let lanes = f64::from(job.threads);
    // A fault waits for its request, also where the wait's file is not known.
    let busy_ns = stream.waits.total_ns.max(stream.read.spans.total_ns);
    context.pace(&mut job, stream, pages as f64, busy_ns, lanes);
    let bytes = footprint(stream).0.clamp(LEAST_FILE, MOST_FILE);
    mapped_files(&mut job, bytes, stream);
    Some(job)
}

/// Reads that the page cache did not have. Reads that it had need no disk, and are left out.
fn cached_reads(context: &JobContext<'_>, stream: &LoadStream) -> Option<PlannedJob> {
    let side = &stream.read;
    if side.requests == 0 || (stream.write.requests > 0 && stream.calls.writes == 0) {
        return None;
    }
    let mut job = context.job("read");
    job.read_percent = 100;
    job.random = !is_sequential(side);
    let known = context.has_calls && stream.calls.reads > 0;
    let call = stream.calls.read_bytes / stream.calls.reads.max(1);
    let block = match known && call > 0 {
        true => call,
        false => side.mean_bytes(),
    };
    job.engine = if side.faults * 2 > side.requests { JobEngine::Mmap } else { JobEngine::Psync };
    let block = match job.engine {
        JobEngine::Mmap => 4096,
        _ if job.random => block.min(side.mean_bytes()).max(1),
        _ => block.max(1),
    };
    job.read_sizes = vec![(block, 100)];
    // Random readahead is the kernel's decision, which a hint would change.
    job.advise = !(job.random && side.ahead > 0);
    let count = match job.random {
        true => side.requests as f64,
        false => side.bytes as f64 / block as f64,
    };
    let waits = if stream.reading.total_ns > 0 { &stream.reading } else { &stream.waits };
    let busy_ns = side.spans.total_ns.min(waits.total_ns.max(1));
    let lanes = waits.while_busy(context.duration_ns).round().clamp(1.0, 64.0);
    job.threads = lanes as u32;
    context.pace(&mut job, stream, count.max(1.0), busy_ns, lanes);
    let needed = (side.bytes as f64 * SPARE / lanes) as u64;
    job.file_bytes = match job.random {
        true => footprint(stream).0.max(needed * 2).clamp(LEAST_FILE, MOST_FILE),
        false => needed.clamp(LEAST_FILE, MOST_FILE),
    }
    .next_multiple_of(1 << 20);
    if job.engine == JobEngine::Mmap && job.random {
        let bytes = job.file_bytes;
        mapped_files(&mut job, bytes, stream);
    }
    Some(job)
}
