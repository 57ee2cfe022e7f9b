//! The sequence of a program on a disk as text, which a person can read and change:
//!
//! ```text
//! iowhy replay 1
//! period 10000000
//! lanes 6
//! file device 1048576
//! 130 r 0 4096 4096
//! ```
//!
//! A line is a time in microseconds, `r`, `w` or `f`, the file's number, an offset and a size in
//! bytes. After the period the sequence begins anew.
//!
//! What does not belong here: doing it (see [`super::player`]).

use crate::error::{ReproduceError, Result};
use std::fmt;

/// The first line.
const HEAD: &str = "iowhy replay 1";
/// The name of a file that stands for the device itself.
pub const DEVICE: &str = "device";
/// The most files, threads and bytes at once that are taken from a file.
const MOST_FILES: usize = 4096;
const MOST_LANES: u64 = 1024;
const MOST_BYTES: u64 = 64 << 20;
/// The most bytes that all threads may hold at once.
pub(super) const MOST_MEMORY: u64 = 256 << 20;
/// The most lines: as many as iowhy writes.
const MOST_LINES: usize = super::sequence::MOST;

/// The operation of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayKind {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Makes writes durable.
    Flush,
}

/// A file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayFile {
    /// The file's name in the directory.
    pub name: String,
    /// The file's size, bytes.
    pub bytes: u64,
}

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayLine {
    /// Time of the operation, microseconds after the beginning.
    pub at_us: u64,
    /// The kind of operation.
    pub kind: ReplayKind,
    /// The file, by its place in the list.
    pub file: usize,
    /// Offset, bytes.
    pub offset: u64,
    /// Length, bytes.
    pub bytes: u64,
}

/// A sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayScript {
    /// Time after which the sequence begins anew, microseconds.
    pub period_us: u64,
    /// Threads that do it.
    pub lanes: u64,
    /// The files of the sequence.
    pub files: Vec<ReplayFile>,
    /// The operations, by time.
    pub lines: Vec<ReplayLine>,
}

impl fmt::Display for ReplayScript {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "{HEAD}\nperiod {}\nlanes {}", self.period_us, self.lanes)?;
        for file in &self.files {
            writeln!(out, "file {} {}", file.name, file.bytes)?;
        }
        for line in &self.lines {
            let ReplayLine { at_us, file, offset, bytes, .. } = line;
            let word = match line.kind {
                ReplayKind::Read => 'r',
                ReplayKind::Write => 'w',
                ReplayKind::Flush => 'f',
            };
            writeln!(out, "{at_us} {word} {file} {offset} {bytes}")?;
        }
        Ok(())
    }
}

impl ReplayScript {
    /// Reads a sequence. Beside the text, its lines take at most 128 MiB.
    ///
    /// # Errors
    /// Fails if the text is no sequence, with the number of the first line that is wrong.
    pub fn parse(text: &str) -> Result<ReplayScript> {
        let mut script =
            ReplayScript { period_us: 0, lanes: 1, files: Vec::new(), lines: Vec::new() };
        let wrong = |number: usize, cause: &str| {
            ReproduceError::new(format!("read line {number} of the sequence"), cause)
        };
        let mut lines = text.lines().enumerate();
        if lines.next().map(|line| line.1) != Some(HEAD) {
            return Err(wrong(1, "it is not \"iowhy replay 1\""));
        }
        for (at, line) in lines {
            script.line(line).map_err(|cause| wrong(at + 1, cause))?;
        }
        // Each thread keeps a buffer for its largest operation.
        let longest = script.lines.iter().map(|line| line.bytes).max().unwrap_or(0);
        script.lanes = script.lanes.min((MOST_MEMORY / longest.max(1)).max(1));
        match script.lines.is_empty() || script.period_us == 0 {
            true => Err(ReproduceError::new("read the sequence", "nothing is in it")),
            false => Ok(script),
        }
    }

    fn line(&mut self, line: &str) -> std::result::Result<(), &'static str> {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |word: &str| word.parse::<u64>().map_err(|_not| "a number is wrong");
        match words[..] {
            ["period", period] => self.period_us = number(period)?,
            ["lanes", lanes] => self.lanes = number(lanes)?.clamp(1, MOST_LANES),
            ["file", name, bytes] if self.files.len() < MOST_FILES => {
                let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
                if name.is_empty() || name.starts_with('.') || !name.chars().all(plain) {
                    return Err("the name of a file is wrong");
                }
                self.files.push(ReplayFile { name: name.to_owned(), bytes: number(bytes)? });
            }
            [at, word, file, offset, bytes] => {
                let kind = match word {
                    "r" => ReplayKind::Read,
                    "w" => ReplayKind::Write,
                    "f" => ReplayKind::Flush,
                    _ => return Err("it does neither r, w nor f"),
                };
                let line = ReplayLine {
                    at_us: number(at)?,
                    kind,
                    file: usize::try_from(number(file)?).unwrap_or(usize::MAX),
                    offset: number(offset)?,
                    bytes: number(bytes)?,
                };
                self.push(line)?;
            }
            _ => return Err("it has another number of words"),
        }
        Ok(())
    }

    fn push(&mut self, line: ReplayLine) -> std::result::Result<(), &'static str> {
        let file = self.files.get(line.file).ok_or("there is no such file")?;
        let end = line.offset.checked_add(line.bytes).ok_or("the offset is too large")?;
        if end > file.bytes || line.bytes > MOST_BYTES {
            return Err("it is beyond the end of its file");
        }
        if line.at_us > self.period_us
            || self.lines.last().is_some_and(|last| last.at_us > line.at_us)
        {
            return Err("its time is before that of the line above, or after the period");
        }
        if self.lines.len() >= MOST_LINES {
            return Err("there are more lines than iowhy writes");
        }
        self.lines.push(line);
        Ok(())
    }
}
