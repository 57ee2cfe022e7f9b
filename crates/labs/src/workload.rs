//! Workloads whose effect on the disk is known beforehand and that fio cannot make. They are hidden
//! subcommands of `iowhy-labs`, so that `iowhy record -- iowhy-labs workload ...` can run them.

pub mod steps;

use crate::error::Context;
use crate::{Result, machine};
use clap::Subcommand;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The size of reads and writes of page cache files.
pub const PAGE: u64 = 4096;

/// A workload and its arguments.
#[derive(Clone, Debug, Subcommand)]
pub enum Workload {
    /// Sends a file to /dev/null with sendfile(2).
    Sendfile {
        /// The file.
        file: PathBuf,
    },
    /// Overwrites every other page of a file, buffered, and leaves it dirty.
    Dirty {
        /// The file, which must exist.
        file: PathBuf,
        /// How many pages.
        pages: u64,
        /// Whether to call fsync(2) at the end.
        #[arg(long)]
        fsync: bool,
    },
    /// Writes back a whole file system with syncfs(2).
    Syncfs {
        /// A folder of it.
        folder: PathBuf,
    },
    /// Makes, renames, lists and removes many small files and folders, then syncs.
    Storm {
        /// The folder, which must be empty.
        folder: PathBuf,
        /// How many files.
        files: u64,
    },
    /// Reads every other page of a file past the page cache, into memory that is there already:
    /// btrfs reads through the page cache where it is not (as fio's is, before its first read).
    DirectRead {
        /// The file.
        file: PathBuf,
        /// How many pages.
        pages: u64,
    },
    /// Does every kind of thing with small files a known number of times.
    Touch {
        /// The folder, which must be empty.
        folder: PathBuf,
        /// How many files.
        files: u64,
    },
    /// Makes files one after the other, each of which is renamed and removed at once.
    ShortLived {
        /// The folder, which must be empty.
        folder: PathBuf,
        /// How many files.
        files: u64,
    },
    /// Asks about every file below a folder, and notes how long its calls were off the CPU.
    Scan {
        /// The folder.
        folder: PathBuf,
        /// The file for the time, nanoseconds.
        clock: PathBuf,
    },
    /// Reads a whole file, buffered, in reads of one page.
    Read {
        /// The file.
        file: PathBuf,
    },
    /// Writes a page of a file past the page cache, over and over, with a lock held that five other
    /// threads wait for.
    Locked {
        /// The file, which must exist.
        file: PathBuf,
        /// For so long.
        seconds: u64,
    },
    /// Reads, writes, syncs and opens in equal steps, once it reads in how many milliseconds;
    /// lives until its standard input ends.
    Steps {
        /// The folder, which must be empty.
        folder: PathBuf,
        /// How many steps.
        steps: u64,
    },
}

impl Workload {
    /// Runs the workload.
    pub fn run(&self) -> Result<()> {
        match self {
            Workload::Sendfile { file } => sendfile(file),
            Workload::Dirty { file, pages, fsync } => dirty(file, *pages, *fsync),
            Workload::Syncfs { folder } => syncfs(folder),
            Workload::Storm { folder, files } => storm(folder, *files),
            Workload::DirectRead { file, pages } => direct_read(file, *pages),
            Workload::Touch { folder, files } => touch(folder, *files),
            Workload::ShortLived { folder, files } => short_lived(folder, *files),
            Workload::Scan { folder, clock } => scan(folder, clock),
            Workload::Read { file } => read(file),
            Workload::Locked { file, seconds } => locked(file, *seconds),
            Workload::Steps { folder, steps } => steps::run(folder, *steps),
        }
    }

    /// Returns the command that runs it, given the program `iowhy-labs`.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.arg("workload");
        match self {
            Workload::Sendfile { file } => command.arg("sendfile").arg(file),
            Workload::Dirty { file, pages, fsync } => {
                command.arg("dirty").arg(file).arg(pages.to_string());
                command.args(fsync.then_some("--fsync"))
            }
            Workload::Syncfs { folder } => command.arg("syncfs").arg(folder),
            Workload::Storm { folder, files } => {
                command.arg("storm").arg(folder).arg(files.to_string())
            }
            Workload::DirectRead { file, pages } => {
                command.arg("direct-read").arg(file).arg(pages.to_string())
            }
            Workload::Touch { folder, files } => {
                command.arg("touch").arg(folder).arg(files.to_string())
            }
            Workload::ShortLived { folder, files } => {
                command.arg("short-lived").arg(folder).arg(files.to_string())
            }
            Workload::Scan { folder, clock } => command.arg("scan").arg(folder).arg(clock),
            Workload::Read { file } => command.arg("read").arg(file),
            Workload::Locked { file, seconds } => {
                command.arg("locked").arg(file).arg(seconds.to_string())
            }
            Workload::Steps { folder, steps } => {
                command.arg("steps").arg(folder).arg(steps.to_string())
            }
        };
        command
    }
}

/// The pages that [`Workload::Dirty`] writes and [`Workload::DirectRead`] reads: every other one,
/// so that none can be merged.
pub fn every_other_page(pages: u64) -> impl Iterator<Item = u64> {
    (0..pages).map(|index| index * 2 * PAGE)
}

/// Returns the names of the files that remain after [`Workload::Storm`], below its folder.
pub fn storm_names(files: u64) -> impl Iterator<Item = String> {
    (0..files).filter(|index| !storm_removes(*index)).map(storm_final_name)
}

fn storm_removes(index: u64) -> bool {
    index.is_multiple_of(5)
}

fn storm_first_name(index: u64) -> String {
    format!("d{}/f{index}", index % 37)
}

fn storm_final_name(index: u64) -> String {
    if index.is_multiple_of(3) {
        format!("d{}/renamed{index}", index % 37)
    } else {
        storm_first_name(index)
    }
}

/// Every name that [`Workload::Storm`] ever uses for a file, below its folder.
pub fn storm_all_names(files: u64) -> impl Iterator<Item = String> {
    (0..files).flat_map(|index| [storm_first_name(index), storm_final_name(index)])
}

fn storm(folder: &Path, files: u64) -> Result<()> {
    for index in 0..37 {
        let path = folder.join(format!("d{index}"));
        fs::create_dir(&path).context(|| format!("make {}", path.display()))?;
    }
    for index in 0..files {
        let path = folder.join(storm_first_name(index));
        // Below and above the size that file systems keep inside an inode or a leaf.
        let bytes = vec![b'x'; (index % 7 * 3001 + 1) as usize];
        fs::write(&path, bytes).context(|| format!("write {}", path.display()))?;
        if index.is_multiple_of(50) {
            let file = File::open(&path).context(|| format!("open {}", path.display()))?;
            file.sync_all().context(|| format!("sync {}", path.display()))?;
        }
        let last = folder.join(storm_final_name(index));
        if path != last {
            fs::rename(&path, &last).context(|| format!("rename {}", path.display()))?;
        }
    }
    for index in (0..files).filter(|index| storm_removes(*index)) {
        let path = folder.join(storm_final_name(index));
        fs::remove_file(&path).context(|| format!("remove {}", path.display()))?;
    }
    syncfs(folder)
}

/// Bytes of each write and each read of [`Workload::Touch`].
pub const TOUCHED: (u64, u64) = (1000, 500);

/// Makes files, writes each three times, reads it twice, syncs every tenth, stats each and as many
/// that do not exist, renames every second, lists the folder and removes all.
fn touch(folder: &Path, files: u64) -> Result<()> {
    let name = |index: u64| folder.join(format!("t{index}.txt"));
    let other = |index: u64| folder.join(format!("t{index}.new"));
    for index in 0..files {
        let path = name(index);
        write_and_read(&path, index.is_multiple_of(10))
            .context(|| format!("use {}", path.display()))?;
    }
    for index in 0..files {
        rustix::fs::stat(name(index)).context(|| format!("look at file {index}"))?;
        let _not_there = rustix::fs::stat(folder.join(format!("none{index}")));
    }
    for index in (0..files).step_by(2) {
        fs::rename(name(index), other(index)).context(|| format!("rename file {index}"))?;
    }
    fs::read_dir(folder).context(|| format!("list {}", folder.display()))?.for_each(drop);
    for index in 0..files {
        let path = if index.is_multiple_of(2) { other(index) } else { name(index) };
        fs::remove_file(&path).context(|| format!("remove {}", path.display()))?;
    }
    Ok(())
}

fn short_lived(folder: &Path, files: u64) -> Result<()> {
    for index in 0..files {
        let path = folder.join(format!("t{index}.txt"));
        let other = path.with_extension("new");
        let lived = File::create(&path).and_then(|_| fs::rename(&path, &other));
        lived.and_then(|()| fs::remove_file(&other)).context(|| format!("use file {index}"))?;
        // Few enough to be reported one by one, and long enough for several polls.
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

fn write_and_read(path: &Path, sync: bool) -> std::io::Result<()> {
    let (write, read) = TOUCHED;
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
    for part in 0..3 {
        file.write_all_at(&vec![b'x'; write as usize], part * write)?;
    }
    for _ in 0..2 {
        file.read_exact_at(&mut vec![0; read as usize], 0)?;
    }
    if sync { file.sync_data() } else { Ok(()) }
}

fn sendfile(path: &Path) -> Result<()> {
    let file = File::open(path).context(|| format!("open {}", path.display()))?;
    let sink =
        OpenOptions::new().write(true).open("/dev/null").context(|| "open /dev/null".to_owned())?;
    loop {
        let sent = rustix::fs::sendfile(&sink, &file, None, 1 << 20)
            .context(|| format!("send {}", path.display()))?;
        if sent == 0 {
            return Ok(());
        }
    }
}

fn dirty(path: &Path, pages: u64, fsync: bool) -> Result<()> {
    let file =
        OpenOptions::new().write(true).open(path).context(|| format!("open {}", path.display()))?;
    let page = [0xa5; PAGE as usize];
    for offset in every_other_page(pages) {
        file.write_all_at(&page, offset).context(|| format!("write {}", path.display()))?;
    }
    if fsync {
        file.sync_all().context(|| format!("sync {}", path.display()))?;
    }
    Ok(())
}

/// Writes back everything of the file system that `folder` is on.
pub fn syncfs(folder: &Path) -> Result<()> {
    let folder_file = File::open(folder).context(|| format!("open {}", folder.display()))?;
    rustix::fs::syncfs(&folder_file).context(|| format!("sync {}", folder.display()))
}

/// Allocated memory, aligned as direct I/O needs it.
struct AlignedMemory {
    memory: Vec<u8>,
    start: usize,
}

impl AlignedMemory {
    fn new() -> AlignedMemory {
        let memory = vec![1_u8; 2 * PAGE as usize];
        let start = memory.as_ptr().align_offset(PAGE as usize);
        AlignedMemory { memory, start }
    }

    fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + PAGE as usize]
    }
}

fn open_direct(path: &Path, write: bool) -> Result<File> {
    let flag = rustix::fs::OFlags::DIRECT.bits().cast_signed();
    let mut options = OpenOptions::new();
    options.read(!write).write(write).custom_flags(flag);
    options.open(path).context(|| format!("open {}", path.display()))
}

fn direct_read(path: &Path, pages: u64) -> Result<()> {
    let file = open_direct(path, false)?;
    let mut page = AlignedMemory::new();
    for offset in every_other_page(pages) {
        file.read_exact_at(page.bytes(), offset).context(|| format!("read {}", path.display()))?;
    }
    Ok(())
}

fn locked(path: &Path, seconds: u64) -> Result<()> {
    let file = open_direct(path, true)?;
    let end = Instant::now() + Duration::from_secs(seconds);
    let page = Mutex::new(AlignedMemory::new());
    let turn = |writes: bool| -> Result<()> {
        while Instant::now() < end {
            let mut page = page.lock().unwrap_or_else(PoisonError::into_inner);
            if writes {
                file.write_all_at(page.bytes(), 0)
                    .context(|| format!("write {}", path.display()))?;
            }
            drop(page);
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let named = |name: &str| std::thread::Builder::new().name(name.to_owned());
        for _ in 0..5 {
            named("worker")
                .spawn_scoped(scope, || turn(false))
                .context(|| "start a thread".to_owned())?;
        }
        let writer = named("snapshot-writer")
            .spawn_scoped(scope, || turn(true))
            .context(|| "start a thread".to_owned())?;
        writer.join().unwrap_or(Ok(()))
    })
}

/// Returns the time that this thread has not been on a CPU, since some moment, nanoseconds.
fn off_cpu_ns() -> i64 {
    let on_cpu = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    machine::monotonic_ns() as i64 - (on_cpu.tv_sec * 1_000_000_000 + on_cpu.tv_nsec)
}

/// Stats every file below a folder. Only its system calls are timed, as fio times its calls; their
/// CPU time in the kernel is no wait.
fn scan(folder: &Path, clock: &Path) -> Result<()> {
    let (mut folders, mut spent_ns) = (vec![folder.to_owned()], 0);
    while let Some(folder) = folders.pop() {
        let action = || format!("list {}", folder.display());
        let begun = off_cpu_ns();
        let entries: Vec<PathBuf> =
            fs::read_dir(&folder).context(action)?.flatten().map(|entry| entry.path()).collect();
        spent_ns += off_cpu_ns() - begun;
        for path in entries {
            let begun = off_cpu_ns();
            let about =
                fs::symlink_metadata(&path).context(|| format!("look at {}", path.display()))?;
            spent_ns += off_cpu_ns() - begun;
            if about.is_dir() {
                folders.push(path);
            }
        }
    }
    fs::write(clock, spent_ns.to_string()).context(|| format!("write {}", clock.display()))
}

fn read(path: &Path) -> Result<()> {
    let file = File::open(path).context(|| format!("open {}", path.display()))?;
    let mut page = [0; PAGE as usize];
    let mut offset = 0;
    loop {
        let got = file.read_at(&mut page, offset).context(|| format!("read {}", path.display()))?;
        if got == 0 {
            return Ok(());
        }
        offset += got as u64;
    }
}
