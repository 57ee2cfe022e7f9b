//! A load that does the same in every step and prints when it is ready and done, so that several
//! tools can observe all of it, and nothing else.
//!
//! It prints `ready`, waits for a line with a number of milliseconds, does its steps in that time,
//! prints `done` and lives until its standard input ends: tools that read /proc at the end of their
//! interval must still find it.

use super::{AlignedMemory, PAGE, open_direct};
use crate::error::Context;
use crate::{LabError, Result};
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, Write};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// Pages of the file that is read and written past the page cache.
const PAGES: u64 = 4096;
/// Steps after which data is appended through the page cache and synced.
const SYNC_EVERY: u64 = 8;
/// Bytes that are appended then.
const APPENDED: usize = 16 << 10;
/// Steps after which a file is opened, and one that does not exist.
const OPEN_EVERY: u64 = 4;

/// The I/O of a number of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepTotals {
    /// Direct reads of a page, and as many direct writes.
    pub direct: u64,
    /// Calls of `fdatasync` behind an append.
    pub syncs: u64,
    /// Opens that work, and as many that fail.
    pub opens: u64,
}

impl StepTotals {
    /// Returns the I/O of `steps`.
    pub fn by(steps: u64) -> StepTotals {
        let each = |every| steps.div_ceil(every);
        StepTotals { direct: steps, syncs: each(SYNC_EVERY), opens: each(OPEN_EVERY) }
    }
}

pub(super) fn run(folder: &Path, steps: u64) -> Result<()> {
    let (data, log) = (folder.join("data"), folder.join("log"));
    fs::write(&data, vec![1; (PAGES * PAGE) as usize]).context(|| "write the data".to_owned())?;
    let log_file = OpenOptions::new().create(true).append(true).open(&log);
    let mut log_file = log_file.context(|| format!("open {}", log.display()))?;
    super::syncfs(folder)?;
    let (reader, writer) = (open_direct(&data, false)?, open_direct(&data, true)?);
    say("ready")?;
    let mut orders = std::io::stdin().lock();
    let mut line = String::new();
    orders.read_line(&mut line).context(|| "wait for the signal to begin".to_owned())?;
    let milliseconds = line.trim().parse().context(|| "read how long to take".to_owned())?;
    let mut page = AlignedMemory::new();
    let begun = Instant::now();
    let pause = Duration::from_millis(milliseconds) / u32::try_from(steps).unwrap_or(1).max(1);
    for step in 0..steps {
        // Two odd multipliers visit every page of a power of two once before they repeat.
        let offsets = [step * 1619 % PAGES, (step * 2333 + 7) % PAGES].map(|index| index * PAGE);
        let [from, to] = offsets;
        reader.read_exact_at(&mut page, from)?;
        writer.write_all_at(&mut page, to)?;
        if step.is_multiple_of(SYNC_EVERY) {
            log_file.write_all(&[b'x'; APPENDED]).context(|| "append to the log".to_owned())?;
            log_file.sync_data().context(|| "sync the log".to_owned())?;
        }
        if step.is_multiple_of(OPEN_EVERY) {
            File::open(&log).context(|| format!("open {}", log.display()))?;
            if File::open(folder.join(format!("missing{step}"))).is_ok() {
                return Err(LabError::failed("find nothing", "the file is there"));
            }
        }
        let due = begun + pause * u32::try_from(step + 1).unwrap_or(u32::MAX);
        thread::sleep(due.saturating_duration_since(Instant::now()));
    }
    say("done")?;
    while orders.read_line(&mut line).is_ok_and(|read| read > 0) {}
    Ok(())
}

fn say(word: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{word}").and_then(|()| out.flush()).context(|| format!("say {word}"))
}

/// Reads and writes of a page at an offset, with messages.
trait At {
    fn read_exact_at(&self, page: &mut AlignedMemory, offset: u64) -> Result<()>;
    fn write_all_at(&self, page: &mut AlignedMemory, offset: u64) -> Result<()>;
}

impl At for File {
    fn read_exact_at(&self, page: &mut AlignedMemory, offset: u64) -> Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(self, page.bytes(), offset)
            .context(|| "read the data".to_owned())
    }

    fn write_all_at(&self, page: &mut AlignedMemory, offset: u64) -> Result<()> {
        std::os::unix::fs::FileExt::write_all_at(self, page.bytes(), offset)
            .context(|| "write the data".to_owned())
    }
}
