//! fio's command lines and its JSON.
//!
//! What does not belong here: the I/O that a test needs ([`crate::workload`] and the tests).

use crate::error::Context;
use crate::{LabError, Result, command};
use serde::Deserialize;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The interface by which fio submits I/O.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Engine {
    /// pread and pwrite.
    Psync,
    /// io_submit.
    Libaio,
    /// io_uring with its defaults.
    IoUring,
    /// io_uring with every request forced to a kernel worker.
    IoUringForceAsync,
    /// io_uring with a kernel thread that polls the submission queue.
    IoUringSqPoll,
    /// Memory-mapped.
    Mmap,
}

impl Engine {
    /// Every engine that can do direct I/O.
    pub const DIRECT: [Engine; 5] = [
        Engine::Psync,
        Engine::Libaio,
        Engine::IoUring,
        Engine::IoUringForceAsync,
        Engine::IoUringSqPoll,
    ];

    fn arguments(self) -> &'static [&'static str] {
        match self {
            Engine::Psync => &["--ioengine=psync"],
            Engine::Libaio => &["--ioengine=libaio"],
            Engine::IoUring => &["--ioengine=io_uring"],
            Engine::IoUringForceAsync => &["--ioengine=io_uring", "--force_async=1"],
            Engine::IoUringSqPoll => &["--ioengine=io_uring", "--sqthread_poll=1"],
            Engine::Mmap => &["--ioengine=mmap"],
        }
    }
}

/// The I/O of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FioAccess {
    /// Reads in order.
    Read,
    /// Writes in order.
    Write,
    /// Reads every block once, in random order; repeatedly if the job is timed.
    RandomRead,
    /// Writes every block once, in random order; repeatedly if the job is timed.
    RandomWrite,
}

impl FioAccess {
    fn word(self) -> &'static str {
        match self {
            FioAccess::Read => "read",
            FioAccess::Write => "write",
            FioAccess::RandomRead => "randread",
            FioAccess::RandomWrite => "randwrite",
        }
    }
}

/// One fio job.
#[derive(Clone, Debug)]
pub struct Job {
    arguments: Vec<OsString>,
}

impl Job {
    /// A job on `file`, which must exist: fio lays out nothing.
    pub fn new(file: &Path, engine: Engine, access: FioAccess, block: u64) -> Job {
        let job = Job { arguments: vec!["--name=lab".into()] }
            .with("filename", file)
            .with("bs", block.to_string())
            .with("allow_file_create", "0")
            .with("fallocate", "none")
            .with("randrepeat", "1")
            .with("rw", access.word());
        job.flags(engine.arguments())
    }

    /// `count` direct I/Os of `block` bytes, each followed by a hole of the same size, so that no
    /// two of them can be merged.
    pub fn strided(file: &Path, engine: Engine, access: FioAccess, count: u64, block: u64) -> Job {
        Job::stride(file, engine, access, count, block).direct()
    }

    fn stride(file: &Path, engine: Engine, access: FioAccess, count: u64, block: u64) -> Job {
        Job::new(file, engine, access, block)
            .with("rw", format!("{}:{block}", access.word()))
            .with("size", (2 * block * count).to_string())
            .with("number_ios", count.to_string())
    }

    /// `count` buffered writes of `block` bytes, each followed by a hole of the same size; they are
    /// left dirty.
    pub fn strided_buffered(file: &Path, count: u64, block: u64) -> Job {
        Job::stride(file, Engine::Psync, FioAccess::Write, count, block)
    }

    /// Makes its I/O direct (O_DIRECT).
    pub fn direct(self) -> Job {
        self.with("direct", "1")
    }

    /// Adds any option of fio.
    pub fn with(mut self, option: &str, value: impl AsRef<std::ffi::OsStr>) -> Job {
        let mut argument = OsString::from(format!("--{option}="));
        argument.push(value.as_ref());
        self.arguments.push(argument);
        self
    }

    fn flags(mut self, flags: &[&str]) -> Job {
        self.arguments.extend(flags.iter().map(OsString::from));
        self
    }

    /// Runs for a time in seconds, independent of the size.
    pub fn timed(self, seconds: u64) -> Job {
        self.with("runtime", seconds.to_string()).flags(&["--time_based=1"])
    }

    /// The command that runs it and writes its figures to `report`.
    pub fn command(&self, report: &Path) -> Result<Command> {
        let mut command = Command::new(command::find("fio")?);
        command.args(&self.arguments).args(["--output-format=json", "--group_reporting=1"]);
        let mut output = OsString::from("--output=");
        output.push(report);
        command.arg(output);
        Ok(command)
    }

    /// Runs it and gives its figures.
    pub fn run(&self, report: &Path) -> Result<FioReport> {
        command::output_of(self.command(report)?)?;
        FioReport::read(report)
    }
}

/// fio's figures of one job, all its processes together.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct FioReport {
    /// The reads.
    pub read: FioDirection,
    /// The writes.
    pub write: FioDirection,
    /// The syncs (`fsync`, `fdatasync` …).
    pub sync: FioDirection,
    /// User CPU time, percent of one CPU.
    pub usr_cpu: f64,
    /// System CPU time, percent of one CPU.
    pub sys_cpu: f64,
    /// The number of its I/Os that failed with an error.
    pub error: i64,
}

/// fio's figures of reads or of writes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct FioDirection {
    /// I/Os done.
    pub total_ios: u64,
    /// Bytes done.
    pub io_bytes: u64,
    /// I/Os per second.
    pub iops: f64,
    /// Submission to completion.
    pub clat_ns: FioLatency,
    /// Creation to completion: the time that the program waited.
    pub lat_ns: FioLatency,
}

/// A distribution of times in nanoseconds.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct FioLatency {
    /// The mean.
    pub mean: f64,
    /// The longest.
    pub max: f64,
    /// The number of measurements.
    #[serde(rename = "N")]
    pub count: u64,
}

impl FioReport {
    /// Returns the waits of its threads by fio's own clock, in total: reads, writes and syncs from
    /// submission to completion, nanoseconds.
    pub fn waited_ns(&self) -> u64 {
        // A sync has no submission of its own.
        let times = [&self.read.clat_ns, &self.write.clat_ns, &self.sync.lat_ns];
        times.iter().map(|time| (time.mean * time.count as f64) as u64).sum()
    }

    /// Reads the figures that [`Job::command`] leaves in `path`.
    pub fn read(path: &Path) -> Result<FioReport> {
        #[derive(Deserialize)]
        struct FioFile {
            jobs: Vec<FioReport>,
        }
        let text = fs::read_to_string(path).context(|| format!("read {}", path.display()))?;
        // Warnings come before the JSON.
        let start = text.find('{').unwrap_or(0);
        let file: FioFile = serde_json::from_str(text.get(start..).unwrap_or_default())
            .context(|| format!("read fio's figures in {}", path.display()))?;
        let report = file.jobs.into_iter().next();
        report.ok_or_else(|| LabError::failed(format!("read {}", path.display()), "it has no job"))
    }
}

/// Returns the I/Os of a job with `--write_iolog=PATH`: (offset, length), in its order.
pub fn read_iolog(path: &Path) -> Result<Vec<(u64, u64)>> {
    let text = fs::read_to_string(path).context(|| format!("read {}", path.display()))?;
    Ok(text.lines().filter_map(io_of_line).collect())
}

/// `[TIME] FILE read|write OFFSET LENGTH`, of version 2 or 3.
fn io_of_line(line: &str) -> Option<(u64, u64)> {
    let mut words = line.rsplit(' ');
    let (length, offset, action) = (words.next()?, words.next()?, words.next()?);
    if !matches!(action, "read" | "write") {
        return None;
    }
    Some((offset.parse().ok()?, length.parse().ok()?))
}

/// Makes a file of `bytes` with data in all its blocks, on disk and without dirty pages.
pub fn prepare(path: &Path, bytes: u64) -> Result<PathBuf> {
    use std::io::Write;
    let chunk = vec![0x5a_u8; 1 << 20];
    let mut file = fs::File::create(path).context(|| format!("make {}", path.display()))?;
    let mut left = bytes;
    while left > 0 {
        let now = left.min(chunk.len() as u64);
        file.write_all(&chunk[..now as usize]).context(|| format!("fill {}", path.display()))?;
        left -= now;
    }
    file.sync_all().context(|| format!("sync {}", path.display()))?;
    Ok(path.to_owned())
}
