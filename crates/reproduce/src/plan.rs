//! The content of a reproduction: `plan.json`. fio's jobs, programs and settings are written from
//! it, and it keeps the original's figures, so that the recording is not needed to compare.
//!
//! What does not belong here: how it is found out (see [`crate::streams`], [`crate::planning`]),
//! and how it is written (see [`crate::jobs`]).

use iowhy_diagnosis::fidelity::WatchFigures;
use iowhy_model::cgroup::IoLimit;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The layout of `plan.json`.
pub const FORMAT: u32 = 1;

/// A reproduction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LoadPlan {
    /// The layout, [`FORMAT`].
    pub format: u32,
    /// The version of iowhy that wrote it.
    pub version: String,
    /// Length of the original watch, whole seconds.
    pub seconds: u64,
    /// The disks that the load uses.
    pub disks: Vec<PlannedDisk>,
    /// The programs that load them.
    pub programs: Vec<PlannedProgram>,
    /// Memory that the original's page cache could use, bytes: free, or easily freed.
    pub available_bytes: Option<u64>,
    /// The machine's settings that matter, by path below /proc/sys.
    pub settings: BTreeMap<String, String>,
    /// Whether names of programs and files are the original's.
    pub keep_names: bool,
    /// The original's figures.
    pub original: WatchFigures,
    /// The parts that could not be reproduced, and the reasons; a sentence each.
    pub notes: Vec<String>,
}

/// A disk of the original.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PlannedDisk {
    /// The disk's name here: `disk1`, or the original's name.
    pub name: String,
    /// The file system that its files were on; `None` if only the device itself was used.
    pub file_system: Option<String>,
    /// The disk's settings that matter, by name below /sys/block/NAME/queue.
    pub settings: BTreeMap<String, String>,
    /// Bytes that the jobs need on it.
    pub bytes: u64,
}

/// A program and its load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PlannedProgram {
    /// The program's name here: `program1`, or the original's name.
    pub name: String,
    /// The limits of its cgroup, by disk.
    pub limits: Vec<DiskLimit>,
    /// The memory limit of its cgroup, bytes.
    pub memory_bytes: Option<u64>,
    /// Whether the original was one process, whose threads did all.
    pub one_process: bool,
    /// The part of the load that fio makes.
    pub jobs: Vec<PlannedJob>,
    /// The part of the load that fio cannot make.
    pub steps: Vec<PlannedStep>,
}

/// A cgroup's limit on a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiskLimit {
    /// The disk, as an index in the plan's list.
    pub disk: usize,
    /// Bytes read per second.
    pub read_bytes: Option<u64>,
    /// Bytes written per second.
    pub write_bytes: Option<u64>,
    /// Reads per second.
    pub reads: Option<u64>,
    /// Writes per second.
    pub writes: Option<u64>,
}

impl DiskLimit {
    /// The limits of a cgroup on the disk with this index.
    pub fn new(disk: usize, limit: IoLimit) -> DiskLimit {
        let IoLimit { read_bytes, write_bytes, reads, writes } = limit;
        DiskLimit { disk, read_bytes, write_bytes, reads, writes }
    }
}

/// The interface by which a job asks the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobEngine {
    /// pread and pwrite.
    #[default]
    Psync,
    /// io_submit.
    Libaio,
    /// io_uring.
    IoUring,
    /// Memory-mapped.
    Mmap,
}

impl JobEngine {
    /// fio's name.
    pub const fn word(self) -> &'static str {
        match self {
            JobEngine::Psync => "psync",
            JobEngine::Libaio => "libaio",
            JobEngine::IoUring => "io_uring",
            JobEngine::Mmap => "mmap",
        }
    }
}

/// The call that makes writes durable, or begins their writeback.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SyncCall {
    /// fsync.
    Fsync,
    /// fdatasync.
    Fdatasync,
    /// sync_file_range, which makes nothing durable.
    SyncFileRange,
}

/// The frequency of a job's syncs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncEvery {
    /// The call that syncs.
    pub call: SyncCall,
    /// Number of writes between two syncs.
    pub writes: u64,
}

/// One job of fio: a program on a class of files.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PlannedJob {
    /// The job's name, and that of its files.
    pub name: String,
    /// The path of its files below its place with `N` for numbers, if names are kept.
    pub path: Option<String>,
    /// The disk, as an index in the plan's list.
    pub disk: usize,
    /// Whether it uses the device itself, not files.
    pub raw: bool,
    /// Percent of its operations that read.
    pub read_percent: u8,
    /// Whether offsets are random.
    pub random: bool,
    /// Distribution of random offsets, as fio's `zoned` has it: percent of accesses, percent of the
    /// range; empty if they are even.
    pub zones: Vec<(u32, u32)>,
    /// Sizes of its reads and their percentages.
    pub read_sizes: Vec<(u64, u32)>,
    /// Sizes of its writes and their percentages.
    pub write_sizes: Vec<(u64, u32)>,
    /// The engine.
    pub engine: JobEngine,
    /// Whether it bypasses the page cache (O_DIRECT).
    pub direct: bool,
    /// Operations in flight of each thread.
    pub depth: u32,
    /// Threads.
    pub threads: u32,
    /// The pause of a thread, microseconds.
    pub think_us: f64,
    /// Number of operations between two pauses.
    pub think_after: u64,
    /// The frequency of the job's syncs.
    pub sync: Option<SyncEvery>,
    /// Whether files exist in full before, so that writes overwrite.
    pub overwrite: bool,
    /// Whether the kernel is told the access pattern, so that it does not read ahead at random.
    pub advise: bool,
    /// Files.
    pub files: u32,
    /// The size of each file, bytes.
    pub file_bytes: u64,
    /// The original's operations per second, the aim of `--fit`.
    pub per_s: f64,
}

/// Bytes of memory that the buffers of all programs take at most.
pub const MOST_BUFFER_BYTES: u64 = 1 << 30;

impl PlannedJob {
    /// Bytes of its buffers: one for each operation in flight.
    fn buffer_bytes(&self) -> u64 {
        let sizes = self.read_sizes.iter().chain(&self.write_sizes).map(|(size, _)| *size);
        let in_flight = u64::from(self.depth.max(1)).saturating_mul(self.copies());
        sizes.max().unwrap_or(0).saturating_mul(in_flight)
    }

    /// Bytes that its files take.
    pub fn bytes(&self) -> u64 {
        let copies = if self.shares_files() { 1 } else { self.copies() };
        let files = u64::from(self.files).saturating_mul(copies);
        files.saturating_mul(self.file_bytes)
    }

    fn copies(&self) -> u64 {
        u64::from(self.threads.max(1))
    }

    /// Whether its threads use the same files; threads that append have their own.
    pub fn shares_files(&self) -> bool {
        self.random || self.raw || self.files > 1
    }
}

/// A load that fio cannot make; a small program does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum PlannedStep {
    /// Looks at every file of a tree that is not cached.
    Scan {
        /// The disk.
        disk: usize,
        /// Directories of the tree.
        directories: u64,
        /// Files in each.
        files: u64,
        /// Threads.
        threads: u32,
        /// Pause after each file, microseconds.
        think_us: f64,
    },
    /// Makes files, writes them, reads them back and removes them.
    Churn {
        /// The disk.
        disk: usize,
        /// Files of one round, which are removed together.
        files: u64,
        /// The size of each, bytes.
        bytes: u64,
        /// Number of times that each is read.
        reads: u64,
        /// Whether each is synced.
        synced: bool,
        /// Rounds at a time.
        threads: u32,
        /// Pause after each file, microseconds.
        think_us: f64,
    },
    /// Threads that wait for a lock whose holder writes and syncs.
    Lock {
        /// The disk.
        disk: usize,
        /// Threads that want the lock.
        waiters: u32,
        /// Bytes that are written while it is held.
        bytes: u64,
        /// The size of each write.
        block: u64,
        /// Whether the holder syncs.
        synced: bool,
        /// Pause of the holder between two turns, microseconds.
        think_us: f64,
    },
    /// Does the original's requests one by one.
    Replay {
        /// The disk.
        disk: usize,
        /// Whether it uses the device itself, not files.
        raw: bool,
        /// Number of requests.
        requests: u64,
        /// Bytes of the files that only it or first it uses.
        bytes: u64,
    },
}

impl PlannedStep {
    /// The disk that it uses.
    pub fn disk(&self) -> usize {
        match self {
            PlannedStep::Scan { disk, .. }
            | PlannedStep::Churn { disk, .. }
            | PlannedStep::Lock { disk, .. }
            | PlannedStep::Replay { disk, .. } => *disk,
        }
    }

    /// Whether it uses the device itself, not files.
    pub fn is_raw(&self) -> bool {
        matches!(self, PlannedStep::Replay { raw: true, .. })
    }

    /// Bytes that its files take at most.
    pub fn bytes(&self) -> u64 {
        match self {
            // A directory takes a block, an inode a part of one.
            PlannedStep::Scan { directories, files, .. } => {
                directories.saturating_mul(files.saturating_mul(512).saturating_add(4096))
            }
            PlannedStep::Churn { files, bytes, threads, .. } => {
                let blocks = bytes.div_ceil(4096).saturating_mul(4096);
                files.saturating_mul(blocks).saturating_mul(u64::from(*threads) * 2)
            }
            PlannedStep::Lock { bytes, .. } | PlannedStep::Replay { bytes, .. } => *bytes,
        }
    }
}

impl LoadPlan {
    /// Whether caches of names and inodes have to be empty, which needs a fresh mount or the
    /// machine's `drop_caches`.
    pub fn needs_cold_inodes(&self) -> bool {
        let mut steps = self.programs.iter().flat_map(|program| &program.steps);
        steps.any(|step| matches!(step, PlannedStep::Scan { .. }))
    }

    /// Whether it uses a device itself, and whether it uses files, on the disk of this index.
    pub fn uses(&self, disk: usize) -> (bool, bool) {
        let jobs = || {
            self.programs.iter().flat_map(|program| &program.jobs).filter(|job| job.disk == disk)
        };
        let steps = || {
            self.programs
                .iter()
                .flat_map(|program| &program.steps)
                .filter(|step| step.disk() == disk)
        };
        let files = jobs().any(|job| !job.raw) || steps().any(|step| !step.is_raw());
        (jobs().any(|job| job.raw) || steps().any(PlannedStep::is_raw), files)
    }

    /// Bytes of memory that the buffers of all programs take.
    pub fn buffer_bytes(&self) -> u64 {
        let jobs = self.programs.iter().flat_map(|program| &program.jobs);
        let steps = self.programs.iter().flat_map(|program| &program.steps);
        let steps = steps.map(|step| match step {
            PlannedStep::Lock { bytes, block, .. } => *block.min(bytes),
            // They hold little at once, or are checked with their sequence.
            PlannedStep::Scan { .. } | PlannedStep::Churn { .. } | PlannedStep::Replay { .. } => 0,
        });
        jobs.map(PlannedJob::buffer_bytes).chain(steps).fold(0, u64::saturating_add)
    }

    /// Halves what the largest jobs have in flight until all buffers fit into memory; returns
    /// whether that was necessary.
    pub fn fit_buffers(&mut self) -> bool {
        let mut is_changed = false;
        while self.buffer_bytes() > MOST_BUFFER_BYTES {
            let jobs = self.programs.iter_mut().flat_map(|program| &mut program.jobs);
            let divisible = jobs.filter(|job| job.depth > 1 || job.threads > 1);
            let Some(job) = divisible.max_by_key(|job| job.buffer_bytes()) else { break };
            match job.depth > 1 {
                true => job.depth /= 2,
                false => job.threads /= 2,
            }
            is_changed = true;
        }
        is_changed
    }

    /// Sums up the bytes that each disk needs.
    pub fn count_bytes(&mut self) {
        let sums = self.counted_bytes();
        for (disk, bytes) in self.disks.iter_mut().zip(sums) {
            disk.bytes = bytes;
        }
    }

    /// The bytes that each disk needs, whatever a plan of somebody else says of them.
    pub fn needed_bytes(&self) -> Vec<u64> {
        let counted = self.disks.iter().zip(self.counted_bytes());
        counted.map(|(disk, bytes)| disk.bytes.max(bytes)).collect()
    }

    fn counted_bytes(&self) -> Vec<u64> {
        let mut sums = vec![0_u64; self.disks.len()];
        for program in &self.programs {
            let jobs = program.jobs.iter().map(|job| (job.disk, job.bytes()));
            let steps = program.steps.iter().map(|step| (step.disk(), step.bytes()));
            for (disk, bytes) in jobs.chain(steps) {
                if let Some(sum) = sums.get_mut(disk) {
                    *sum = sum.saturating_add(bytes);
                }
            }
        }
        sums
    }
}

impl PlannedStep {
    /// Moves it to another disk of the list.
    pub fn move_to(&mut self, place: usize) {
        match self {
            PlannedStep::Scan { disk, .. }
            | PlannedStep::Churn { disk, .. }
            | PlannedStep::Lock { disk, .. }
            | PlannedStep::Replay { disk, .. } => *disk = place,
        }
    }
}
