//! Does a sequence by the clock: each of some threads takes the next operation, sleeps until its
//! time, and does it with direct I/O. What was late does not delay what follows.
//!
//! What does not belong here: the sequence (see [`super::script`]).

use super::script::{DEVICE, ReplayFile, ReplayKind, ReplayLine, ReplayScript};
use crate::error::{ActionContext, ReproduceError, Result};
use crate::target::RESERVE;
use rustix::fs::{Advice, OFlags};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::num::NonZeroU64;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Memory of direct I/O begins at multiples of this, and so does what is rounded.
const PAGE: u64 = 4096;
/// The unit that most disks can address, bytes.
const SECTOR: u64 = 512;
/// The longest delay of an operation that does not count as late.
const LATE: Duration = Duration::from_millis(1);
/// Reports of the times in a period.
const REPORTS: u64 = 10;
/// The number of an operation that ends a replay.
const ENOUGH: u64 = u64::MAX / 2;
/// Bytes that are written at once when files are laid out.
const CHUNK: usize = 1 << 20;

/// The punctuality of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayTimes {
    /// Operations so far.
    pub done: u64,
    /// Operations that began more than a millisecond after their time.
    pub late: u64,
    /// Sum of all operations' delays, nanoseconds.
    pub late_ns: u64,
}

/// State that all threads share.
struct Shared<'a> {
    script: &'a ReplayScript,
    files: Vec<File>,
    begun: Instant,
    next: AtomicU64,
    /// The unit of offsets and sizes, bytes.
    unit: AtomicU64,
    done: AtomicU64,
    late: AtomicU64,
    late_ns: AtomicU64,
}

fn path_of(place: &Path, file: &ReplayFile) -> PathBuf {
    // A device, or a file that stands for it, is named itself.
    match file.name == DEVICE {
        true => place.to_owned(),
        false => place.join(&file.name),
    }
}

/// Creates the files of a sequence in a directory; of a device nothing is needed.
///
/// # Errors
/// Fails if a file cannot be written.
pub fn lay_out(script: &ReplayScript, place: &Path) -> Result<()> {
    check_space(script, place)?;
    for file in &script.files {
        let path = path_of(place, file);
        if path.metadata().is_ok_and(|metadata| metadata.file_type().is_block_device()) {
            continue;
        }
        let action = || format!("lay out {}", path.display());
        // Programs share files.
        if path.metadata().is_ok_and(|metadata| metadata.len() >= file.bytes) {
            continue;
        }
        let made = iowhy_fs::parent(&path)
            .and_then(|(folder, name)| folder.create_anew(name, iowhy_fs::PRIVATE_FILE));
        let mut made = made.context(action)?;
        let mut left = file.bytes.next_multiple_of(PAGE);
        let chunk = vec![b'x'; CHUNK];
        while left > 0 {
            let part = chunk.get(..left.min(CHUNK as u64) as usize).unwrap_or(&chunk);
            made.write_all(part).context(action)?;
            left -= part.len() as u64;
        }
        made.sync_all().context(action)?;
        // Otherwise direct I/O would have to remove each page; a hint that may be ignored.
        let _ = rustix::fs::fadvise(&made, 0, None, Advice::DontNeed);
    }
    Ok(())
}

/// Refuses a sequence whose files would fill the file system.
fn check_space(script: &ReplayScript, place: &Path) -> Result<()> {
    let missing = script.files.iter().filter(|file| {
        let about = path_of(place, file).metadata();
        !about.is_ok_and(|it| it.file_type().is_block_device() || it.len() >= file.bytes)
    });
    let needed = missing.fold(0_u64, |sum, file| sum.saturating_add(file.bytes));
    let action = || format!("lay out files in {}", place.display());
    // A file that stands for a device is not there yet.
    let there = if place.exists() { place } else { iowhy_fs::folder_of(place) };
    let about = rustix::fs::statvfs(there).context(action)?;
    let free = about.f_bavail.saturating_mul(about.f_frsize);
    match needed == 0 || needed.saturating_add(RESERVE) <= free {
        true => Ok(()),
        false => {
            let (needs, has) = (needed.saturating_add(RESERVE).div_ceil(1 << 20), free >> 20);
            Err(ReproduceError::new(
                action(),
                format!("{needs} MiB are needed, {has} MiB are free"),
            ))
        }
    }
}

/// Does a sequence again and again; `report` is told how punctual it is, and
/// says whether to go on.
///
/// # Errors
/// Fails if a file cannot be opened, read or written.
pub fn play(
    script: &ReplayScript,
    place: &Path,
    report: &(dyn Fn(ReplayTimes) -> bool + Sync),
) -> Result<()> {
    let opened = script.files.iter().map(|file| open(&path_of(place, file)));
    let files = opened.collect::<Result<Vec<File>>>()?;
    let shared = Shared {
        script,
        files,
        begun: Instant::now(),
        next: AtomicU64::new(0),
        unit: AtomicU64::new(SECTOR),
        done: AtomicU64::new(0),
        late: AtomicU64::new(0),
        late_ns: AtomicU64::new(0),
    };
    std::thread::scope(|scope| {
        let lane = || {
            scope.spawn(|| {
                let ended = shared.lane(report);
                // One that failed ends all.
                shared.next.store(ENOUGH, Ordering::Relaxed);
                ended
            })
        };
        let lanes: Vec<_> = (0..script.lanes).map(|_| lane()).collect();
        let ended: Vec<Result<()>> = lanes
            .into_iter()
            .map(|lane| lane.join().unwrap_or_else(|_panic| Err(broken())))
            .collect();
        // The first that failed; all have ended.
        ended.into_iter().collect()
    })
}

fn broken() -> ReproduceError {
    ReproduceError::new("replay", "a thread broke")
}

fn open(path: &Path) -> Result<File> {
    let with = |flags: OFlags| {
        let flags = i32::try_from(flags.bits()).unwrap_or_default();
        OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)
    };
    // A file system without direct I/O.
    let opened = match with(OFlags::DIRECT | OFlags::NOFOLLOW) {
        Err(cause) if cause.kind() == ErrorKind::InvalidInput => with(OFlags::NOFOLLOW),
        opened => opened,
    };
    opened.context(|| format!("open {}", path.display()))
}

impl Shared<'_> {
    fn lane(&self, report: &(dyn Fn(ReplayTimes) -> bool + Sync)) -> Result<()> {
        // Without it a sleep may be longer by 50 µs; a kernel that refuses is only less punctual.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let mut memory = Vec::new();
        let all = self.script.lines.len().max(1) as u64;
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let (round, at) = (number / all, number % all);
            if number >= ENOUGH {
                return Ok(());
            }
            if number > 0 && at.is_multiple_of(all / REPORTS + 1) && !report(self.times()) {
                return Ok(());
            }
            let Some(line) = self.script.lines.get(at as usize) else { return Ok(()) };
            let period = Duration::from_micros(self.script.period_us);
            let since = period.saturating_mul(u32::try_from(round).unwrap_or(u32::MAX));
            let due = since + Duration::from_micros(line.at_us);
            if let Some(left) = due.checked_sub(self.begun.elapsed()) {
                std::thread::sleep(left);
            }
            self.note(self.begun.elapsed().saturating_sub(due));
            self.perform(line, &mut memory)?;
        }
    }

    fn times(&self) -> ReplayTimes {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ReplayTimes { done: of(&self.done), late: of(&self.late), late_ns: of(&self.late_ns) }
    }

    fn note(&self, late: Duration) {
        let nanoseconds = u64::try_from(late.as_nanos()).unwrap_or(u64::MAX);
        self.done.fetch_add(1, Ordering::Relaxed);
        self.late.fetch_add(u64::from(late > LATE), Ordering::Relaxed);
        self.late_ns.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    /// Does one operation; a disk that cannot address sectors gets whole pages.
    fn perform(&self, line: &ReplayLine, memory: &mut Vec<u8>) -> Result<()> {
        let Some(file) = self.files.get(line.file) else { return Ok(()) };
        let unit = self.unit.load(Ordering::Relaxed);
        let done = self.with_unit(file, line, unit, memory).or_else(|cause| {
            match cause.kind() == ErrorKind::InvalidInput && unit < PAGE {
                true => {
                    self.unit.store(PAGE, Ordering::Relaxed);
                    self.with_unit(file, line, PAGE, memory)
                }
                false => Err(cause),
            }
        });
        done.context(|| "replay an operation".to_owned())
    }

    fn with_unit(
        &self,
        file: &File,
        line: &ReplayLine,
        unit: u64,
        memory: &mut Vec<u8>,
    ) -> std::io::Result<()> {
        let from = line.offset / unit * unit;
        let length = ((line.offset + line.bytes).next_multiple_of(unit) - from) as usize;
        match line.kind {
            ReplayKind::Flush => file.sync_data(),
            // The end of a file may be missing.
            ReplayKind::Read => file.read_at(aligned(memory, length), from).map(drop),
            ReplayKind::Write => file.write_all_at(aligned(memory, length), from),
        }
    }
}

/// Returns so many bytes of memory that direct I/O takes.
fn aligned(memory: &mut Vec<u8>, length: usize) -> &mut [u8] {
    let page = PAGE as usize;
    if memory.len() < length + page {
        memory.resize(length + page, b'x');
    }
    let before = memory.as_ptr().align_offset(page).min(page);
    memory.get_mut(before..before + length).unwrap_or_default()
}
