//! A recording as a [`Source`]. It is read by rounds, a few thousand rows at a time, so that memory
//! does not grow with the recording.
//!
//! What does not belong here: files of one round (see [`super::round`]), Parquet.

use super::cells::ListAllowance;
use super::error::RecordingError;
use super::files::SegmentFiles;
use super::manifest;
use super::round::Round;
use super::tables::TABLES;
use crate::source::{Batch, Progress, Source};
use crate::{Environment, Names, Request};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Reads a recording. Besides names, which have a bound of their own, it holds some thousand rows
/// of each table, at most 65,536 parts of a request, and what `ListAllowance` lets lists have.
pub struct RecordingReader {
    directory: PathBuf,
    files: SegmentFiles,
    environment: Environment,
    /// The numbers of the rounds that are left.
    rounds: BTreeSet<u32>,
    /// Bytes of rounds that were opened, and of all.
    bytes: (u64, u64),
    round: Option<Round>,
    lists: ListAllowance,
    /// The latest time that a row speaks of, CLOCK_MONOTONIC nanoseconds; only of a recording whose
    /// end is not known.
    last_ns: u64,
}

impl RecordingReader {
    /// Opens the recording `directory`. One that is still being written gives what is closed now.
    /// The tables that its environment tells are those that are there.
    ///
    /// # Errors
    /// Fails if it is not a recording, is of a later format, or cannot be read.
    pub fn open(directory: &Path) -> Result<RecordingReader, RecordingError> {
        let mut environment = manifest::read(directory)?;
        let (mut files, mut rounds) = (SegmentFiles::new(directory), BTreeSet::new());
        let is_noted = !environment.tables.is_empty();
        for table in TABLES {
            let folder = directory.join(table.name);
            let mut segments = files.find(table)?;
            // A recording that does not list its tables has those whose folders contain segments. A
            // listed table without a folder was removed since.
            if is_noted && !folder.is_dir() {
                environment.tables.retain(|filled| filled != table.name);
            } else if !is_noted && !segments.is_empty() {
                environment.tables.push(table.name.to_owned());
            }
            rounds.append(&mut segments);
        }
        let directory = directory.to_owned();
        let all = rounds.iter().map(|number| bytes_of(&files, *number)).sum();
        let bytes = (0, all);
        let lists = ListAllowance::default();
        Ok(RecordingReader {
            directory,
            files,
            environment,
            rounds,
            bytes,
            round: None,
            lists,
            last_ns: 0,
        })
    }
}

impl RecordingReader {
    /// The directory of the recording.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Bytes of the rows that were read, and of all.
    pub fn bytes(&self) -> (u64, u64) {
        let unread = self.round.as_ref().map_or(0, Round::unread_bytes);
        (self.bytes.0.saturating_sub(unread), self.bytes.1)
    }

    /// Whether all tables were read equally far: between two rounds, each of a few seconds.
    pub fn is_between_rounds(&self) -> bool {
        self.round.is_none()
    }
}

/// Bytes of one round's segments.
fn bytes_of(files: &SegmentFiles, number: u32) -> u64 {
    let size = |path: PathBuf| fs::metadata(path).ok().map(|metadata| metadata.len());
    TABLES.iter().filter_map(|table| size(files.path(table, number))).sum()
}

impl Source for RecordingReader {
    type Error = RecordingError;

    fn fill(&mut self, batch: &mut Batch, names: &mut Names) -> Result<Progress, RecordingError> {
        let losses = &mut self.environment.losses;
        let round = match &mut self.round {
            Some(round) => round,
            None => {
                let Some(number) = self.rounds.pop_first() else {
                    self.close(names);
                    return Ok(Progress::Done);
                };
                self.bytes.0 += bytes_of(&self.files, number);
                self.round.insert(Round::open(&self.files, number, &self.lists, losses)?)
            }
        };
        let before = [batch.requests.len(), batch.samples.len(), batch.events.len()];
        if !round.next(batch, names, losses)? {
            self.round = None;
        }
        if self.environment.end_ns == 0 {
            self.last_ns = self.last_ns.max(latest(batch, before));
        }
        Ok(Progress::More)
    }

    fn environment(&self) -> &Environment {
        &self.environment
    }
}

impl RecordingReader {
    /// Completes the environment of the watch. A watch that was killed has no end of its own: it
    /// ended with its last row.
    fn close(&mut self, names: &Names) {
        let refused = names.refused();
        self.environment.losses.add("names", refused, "texts beyond what iowhy keeps", false);
        if self.environment.end_ns == 0 {
            self.environment.end_ns = self.last_ns.max(self.environment.start_ns);
        }
    }
}

/// The latest time in `batch`, but for its first `before` requests, samples and events.
fn latest(batch: &Batch, before: [usize; 3]) -> u64 {
    let [requests, samples, events] = before;
    let requests = batch.requests.iter().skip(requests).map(end);
    let samples = batch.samples.iter().skip(samples).map(|sample| sample.time_ns);
    let events = batch.events.iter().skip(events).map(|event| event.time_ns);
    requests.chain(samples).chain(events).max().unwrap_or(0)
}

/// Returns the end of a request, or its start if it has none.
fn end(request: &Request) -> u64 {
    request.start_ns.saturating_add(request.q2c_ns.unwrap_or(0))
}
