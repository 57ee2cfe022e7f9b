//! Patterns of a load beyond its sums: data for the diagnosis that no screen shows.
//!
//! What does not belong here: how rows become patterns (`analysis::patterns`), and judgement
//! (crate `iowhy-diagnosis`).

use super::usage::{CodePathRow, UsedRow};
use iowhy_model::WaitClass;

/// The patterns of one watch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Patterns {
    /// One for each device that had requests.
    pub devices: Vec<DevicePatterns>,
    /// Waits of programs' threads, longest first.
    pub waits: Vec<WaitGroup>,
    /// The same waits by kernel stack, longest first; at most [`WAIT_STACKS`].
    pub wait_stacks: Vec<WaitStack>,
    /// Threads that wait for storage, and for which another thread of their process sleeps.
    pub awaited: Vec<AwaitedThread>,
    /// Waits of the kernel's own threads, longest first: not part of the blocked time of programs.
    pub kernel_waits: Vec<WaitGroup>,
    /// The same by kernel stack, longest first.
    pub kernel_wait_stacks: Vec<WaitStack>,
}

/// The thread of a process that waits for storage longest, and the thread of it that sleeps longest
/// for that one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AwaitedThread {
    /// The process.
    pub pid: u32,
    /// The time for which the first thread waits for storage, nanoseconds.
    pub waited_ns: u64,
    /// The part of it in which the other one slept for it, nanoseconds.
    pub reached_ns: u64,
    /// The number of times that the other one slept for it.
    pub sleeps: u64,
    /// From the first of these sleeps to the end of the last, nanoseconds.
    pub span_ns: u64,
    /// The longest time between two of them, nanoseconds.
    pub longest_apart_ns: u64,
}

/// The patterns of one device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DevicePatterns {
    /// The kernel's name.
    pub device: String,
    /// Over time.
    pub timeline: Timeline,
    /// The slowest reads and writes at the device.
    pub slowest: Vec<Slow>,
    /// Waits of threads to make data durable on it.
    pub syncs: SyncTimeline,
    /// The programs that moved its bytes, in the bins of `timeline`; most bytes first.
    pub owners: Vec<OwnerTimeline>,
    /// The time that the device worked on requests of anybody, as `served_ns` of the owners,
    /// nanoseconds.
    pub served_ns: u64,
    /// By address.
    pub access: Access,
    /// By whether a region was accessed before.
    pub touch: Touch,
    /// Of its requests with known lower requests.
    pub layer: LayerTimes,
    /// The functions that submitted its requests; shares are weighted by stacks.
    pub code_paths: Vec<UsedRow<CodePathRow>>,
}

/// A device over the watch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timeline {
    /// The length of a bin, nanoseconds.
    pub bin_ns: u64,
    /// From the beginning of the watch to its end; an incomplete last bin is left out.
    pub bins: Vec<Bin>,
}

impl Timeline {
    /// Per second, of an amount of one bin.
    pub fn per_s(&self, amount: u64) -> f64 {
        amount as f64 * 1e9 / self.bin_ns.max(1) as f64
    }

    /// The same with `count` bins made one.
    pub fn coarser(&self, count: usize) -> Timeline {
        let count = count.max(1);
        let merged = |bins: &[Bin]| {
            let mut sum = Bin::default();
            bins.iter().for_each(|bin| sum.merge(bin));
            sum
        };
        Timeline {
            bin_ns: self.bin_ns * count as u64,
            bins: self.bins.chunks_exact(count).map(merged).collect(),
        }
    }
}

/// The figures of one bin. A request counts in the bin in which it ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bin {
    /// Requests that ended.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Reads among them.
    pub reads: u64,
    /// Bytes of reads.
    pub read_bytes: u64,
    /// Writes among them.
    pub writes: u64,
    /// Bytes of writes.
    pub write_bytes: u64,
    /// Bytes of writeback, journal and metadata writes.
    pub writeback_bytes: u64,
    /// D2C of all, nanoseconds; Q2C if D is not known.
    pub d2c_ns: u64,
    /// The bytes of each times its D2C, byte-microseconds: divided by a time, the bytes in flight.
    pub held_byte_us: u64,
    /// D2C of reads, nanoseconds.
    pub read_d2c_ns: u64,
    /// Q2C of all, nanoseconds.
    pub q2c_ns: u64,
    /// Q2C of reads, nanoseconds.
    pub read_q2c_ns: u64,
}

impl Bin {
    /// Adds another bin.
    pub(crate) fn merge(&mut self, other: &Bin) {
        self.requests = self.requests.saturating_add(other.requests);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.reads = self.reads.saturating_add(other.reads);
        self.read_bytes = self.read_bytes.saturating_add(other.read_bytes);
        self.writes = self.writes.saturating_add(other.writes);
        self.write_bytes = self.write_bytes.saturating_add(other.write_bytes);
        self.writeback_bytes = self.writeback_bytes.saturating_add(other.writeback_bytes);
        self.d2c_ns = self.d2c_ns.saturating_add(other.d2c_ns);
        self.held_byte_us = self.held_byte_us.saturating_add(other.held_byte_us);
        self.read_d2c_ns = self.read_d2c_ns.saturating_add(other.read_d2c_ns);
        self.q2c_ns = self.q2c_ns.saturating_add(other.q2c_ns);
        self.read_q2c_ns = self.read_q2c_ns.saturating_add(other.read_q2c_ns);
    }
}

/// A request that took longer at the device than most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slow {
    /// Whether it is a write, not a read.
    pub write: bool,
    /// The time at which it completed, nanoseconds after the first bin began.
    pub ended_ns: u64,
    /// The time that it was at the device (D2C), nanoseconds.
    pub d2c_ns: u64,
}

/// The bytes of one program over the watch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OwnerTimeline {
    /// Its name.
    pub process: String,
    /// Its PID, if it was one process all the time.
    pub pid: Option<u32>,
    /// The file with the majority of its bytes, if there is one.
    pub file: Option<String>,
    /// Bytes in each bin of the device's timeline; a lower bound, since early bins of a program
    /// that was added later are missing.
    pub bytes: Vec<u64>,
    /// Its requests, or parts of them.
    pub requests: u64,
    /// The time that the device worked on them, nanoseconds: for each, from its issue or the
    /// completion before it.
    pub served_ns: u64,
    /// The length of a bin of `fine`, nanoseconds.
    pub fine_ns: u64,
    /// The same bytes in shorter bins, from the beginning of the watch to its last request.
    pub fine: Vec<u64>,
}

/// The waits for one device over the watch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SyncTimeline {
    /// The length of a bin, nanoseconds.
    pub bin_ns: u64,
    /// From the beginning of the watch to the last bin with a wait.
    pub bins: Vec<SyncBin>,
}

impl SyncTimeline {
    /// In bins of `bin_ns`; `None` if these are shorter than its own.
    pub fn coarser(&self, bin_ns: u64) -> Option<Vec<SyncBin>> {
        if self.bin_ns == 0 || bin_ns < self.bin_ns || !bin_ns.is_multiple_of(self.bin_ns) {
            return None;
        }
        let sum = |bins: &[SyncBin]| bins.iter().copied().fold(SyncBin::default(), SyncBin::with);
        Some(self.bins.chunks((bin_ns / self.bin_ns) as usize).map(sum).collect())
    }
}

/// Waits in one bin; a wait counts where it ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SyncBin {
    /// The number of waits.
    pub waits: u64,
    /// Their time, nanoseconds.
    pub time_ns: u64,
}

impl SyncBin {
    /// Both together.
    pub fn with(self, other: SyncBin) -> SyncBin {
        SyncBin {
            waits: self.waits.saturating_add(other.waits),
            time_ns: self.time_ns.saturating_add(other.time_ns),
        }
    }
}

/// Address patterns of one device's requests.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Access {
    /// Sampled pages that buffered reads read.
    pub watched_pages: u64,
    /// Sampled pages among these that had been read before in this watch.
    pub pages_again: u64,
    /// Writes of programs, not of journals, metadata and swap.
    pub data_writes: u64,
    /// Writes among these that do not begin or end at a multiple of 4096 bytes.
    pub unaligned_writes: u64,
    /// Writes whose first or last page was read within the second before.
    pub writes_after_read: u64,
    /// Requests that begin where the previous one of the same thread ended, queued within 0.5 ms
    /// and before it completed.
    pub pieces: u64,
    /// Their bytes and those of the first pieces.
    pub pieces_bytes: u64,
    /// The part of `wholes_ns` in which the first piece had completed and others had not,
    /// nanoseconds: an upper bound of what a request that is not split saves.
    pub pieces_ns: u64,
    /// From queueing to completion of what was submitted at once, a request or its pieces,
    /// nanoseconds.
    pub wholes_ns: u64,
    /// Bytes of readahead and faults in files that were read by faults.
    pub faulted_bytes: u64,
    /// Number of requests by size in bytes; most frequent first.
    pub sizes: Vec<(u64, u64)>,
    /// The files with most requests.
    pub files: Vec<FilePattern>,
}

/// The access pattern of one file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FilePattern {
    /// Its path.
    pub file: String,
    /// Requests that are completely in it.
    pub requests: u64,
    /// Requests that begin where the previous one of the file ended.
    pub sequential: u64,
    /// Requests among these that are not adjacent on the device.
    pub scattered: u64,
    /// Direct writes of programs.
    pub direct: u64,
    /// Their time (Q2C), nanoseconds.
    pub direct_ns: u64,
    /// Requests of the page cache: readahead, faults, writeback.
    pub cached: u64,
    /// Reads for page faults on mappings.
    pub faults: u64,
    /// Bytes written.
    pub written: u64,
    /// Bytes read and written.
    pub bytes: u64,
    /// The largest offset at which a request ends: the least size of the file.
    pub end: u64,
    /// The number of times that writing went on near its beginning after it had been far behind,
    /// the most of any inode that had this path: a log that is written in a circle.
    pub wraps: u64,
    /// Time of its requests (Q2C), nanoseconds.
    pub time_ns: u64,
}

/// Reads by whether their region was accessed before, and writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Touch {
    /// Reads of regions that were not accessed before in this watch.
    pub first_reads: u64,
    /// Their time at the device (D2C), nanoseconds.
    pub first_ns: u64,
    /// Reads of other regions.
    pub again_reads: u64,
    /// Their time, nanoseconds.
    pub again_ns: u64,
    /// Writes.
    pub writes: u64,
    /// Their time, nanoseconds.
    pub write_ns: u64,
}

impl Touch {
    /// The mean of first reads, of reads of known regions and of writes, nanoseconds; 0 without
    /// any.
    pub fn means(&self) -> (f64, f64, f64) {
        let mean = |sum: u64, count: u64| sum as f64 / count.max(1) as f64;
        (
            mean(self.first_ns, self.first_reads),
            mean(self.again_ns, self.again_reads),
            mean(self.write_ns, self.writes),
        )
    }
}

/// Requests of a device with known lower requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LayerTimes {
    /// Number of requests.
    pub requests: u64,
    /// Their time (Q2C), nanoseconds.
    pub time_ns: u64,
    /// The part of it in which at least one of their lower requests was queued or in flight,
    /// nanoseconds.
    pub below_ns: u64,
}

/// Waits of one process, class, device and system call. The three `_ns` of stages and
/// [`WaitGroup::class_ns`] add up to `time_ns`.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitGroup {
    /// The process; 0 with an empty name stands for all that have no group of their own.
    pub pid: u32,
    /// Its name.
    pub process: String,
    /// Its container or systemd unit.
    pub container: Option<String>,
    /// Its cgroup: the v2 path, or v1's blkio path.
    pub cgroup: Option<String>,
    /// The class of what it waited for, other than requests.
    pub class: WaitClass,
    /// The disk, if it is known.
    pub device: Option<String>,
    /// The system call's number.
    pub syscall: Option<u32>,
    /// The file with the majority of the time, if there is one.
    pub file: Option<String>,
    /// The process that ended most of the time, if its program ended the majority and waited itself
    /// in the watch; `None` for waits of kernel threads.
    pub waker: Option<Waker>,
    /// The number of waits.
    pub waits: u64,
    /// Number of threads, up to 256.
    pub threads: u64,
    /// Number of waits without those that follow the previous one of their thread within 10 ms:
    /// about the number of calls, if calls wait several times.
    pub bouts: u64,
    /// Number of calls whose first wait is one of these: a call that waits several times is one.
    pub calls: u64,
    /// Number of calls with one of these waits or more.
    pub calls_within: u64,
    /// The time of the thread that waited longest, nanoseconds.
    pub foremost_ns: u64,
    /// Whether that thread is the one that its process began with.
    pub is_main_foremost: bool,
    /// From the beginning of that thread's first wait to the end of its last, nanoseconds.
    pub span_ns: u64,
    /// Their time, nanoseconds.
    pub time_ns: u64,
    /// In the driver and the device, nanoseconds.
    pub device_ns: u64,
    /// In the block layer's queue, nanoseconds.
    pub queue_ns: u64,
    /// Runnable and waiting for a CPU, nanoseconds.
    pub run_queue_ns: u64,
    /// The part of it that is of delays of 3 ms and more each, nanoseconds.
    pub starved_ns: u64,
    /// Runnable and waiting for a CPU before these waits, not part of them, nanoseconds; 0 if it is
    /// not known.
    pub beside_ns: u64,
    /// The longest, nanoseconds.
    pub longest_ns: u64,
    /// Waits that were open at the beginning or the end of the watch.
    pub censored: u64,
    /// Its place in the list of programs' waits; `None` for those of kernel threads.
    pub cell: Option<u32>,
}

/// A process that ends the waits of others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waker {
    /// Its PID.
    pub pid: u32,
    /// Its name.
    pub process: String,
}

impl WaitGroup {
    /// The remainder, which belongs to the class, nanoseconds.
    pub fn class_ns(&self) -> u64 {
        self.time_ns
            .saturating_sub(self.device_ns)
            .saturating_sub(self.queue_ns)
            .saturating_sub(self.run_queue_ns)
    }
}

/// Waits with one kernel stack.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitStack {
    /// Their class.
    pub class: WaitClass,
    /// Functions, innermost first.
    pub functions: Vec<String>,
    /// The number of waits.
    pub waits: u64,
    /// Their time, nanoseconds.
    pub time_ns: u64,
    /// The longest, nanoseconds.
    pub longest_ns: u64,
    /// The process with the majority of the time, if there is one; likewise for all fields below.
    pub process: Option<String>,
    /// Its container or systemd unit.
    pub container: Option<String>,
    /// Its number.
    pub pid: Option<u32>,
    /// The disk.
    pub device: Option<String>,
    /// The file that was passed to the system call.
    pub file: Option<String>,
    /// The system call's number.
    pub syscall: Option<u32>,
}

/// Maximum number of stacks of waits.
pub const WAIT_STACKS: usize = 64;
