//! Writes batches to a recording: rows are collected by column, written as row groups when there
//! are enough of them, and closed as segments every few seconds.
//!
//! Memory is bounded by [`SegmentLimits`] at any rate. Closed segments stay: after a full disk, a
//! crash or a SIGKILL the closed segments and `recording.json` are readable.
//!
//! What does not belong here: the layout of a file (see [`super::segment`]).

use super::chunk::Encoder;
use super::error::{ErrorCause, RecordingError};
use super::manifest;
use super::segment::{Segment, file_name};
use super::tables::{TABLES, TableInfo, columns, rows};
use crate::environment::FORMAT;
use crate::source::Batch;
use crate::table::{Columns, Table};
use crate::{Environment, Names, Request};
use iowhy_fs::{Folder, PRIVATE_FOLDER};
use std::io::ErrorKind;
use std::path::Path;
use std::time::{Duration, Instant};

/// Limits at which rows leave memory and segments end.
#[derive(Clone, Copy, Debug)]
pub struct SegmentLimits {
    /// Rows of one table that are gathered before they are written.
    pub group_rows: usize,
    /// Bytes of one table's rows that are gathered before they are written. Columns that hold one
    /// value throughout take none.
    pub group_bytes: usize,
    /// Bytes of one file after which all segments end.
    pub segment_bytes: usize,
    /// Time after which all segments end: a crash loses no more.
    pub segment_age: Duration,
}

impl Default for SegmentLimits {
    fn default() -> SegmentLimits {
        SegmentLimits {
            group_rows: 64 << 10,
            group_bytes: 6 << 20,
            segment_bytes: 4 << 20,
            segment_age: Duration::from_secs(5),
        }
    }
}

/// Writes a recording.
pub struct RecordingWriter {
    folder: Folder,
    /// Whether the directory was not there before.
    ours: bool,
    limits: SegmentLimits,
    environment: Environment,
    /// Whether `environment` differs from the content of `recording.json`.
    stale: bool,
    /// The segment that is being written, the same for all tables.
    number: u32,
    opened: Instant,
    tables: Vec<OpenTable>,
    encoder: Encoder,
    /// The reason why the recording ended before its time.
    failure: Option<&'static str>,
}

impl RecordingWriter {
    /// Makes the directory, for its owner alone, and `recording.json` in it.
    ///
    /// # Errors
    /// Fails if there is something in the directory already, or it cannot be made or written.
    pub fn create(
        directory: &Path,
        environment: &Environment,
    ) -> Result<RecordingWriter, RecordingError> {
        RecordingWriter::with_limits(directory, environment, SegmentLimits::default())
    }

    /// Makes the recording with other limits.
    ///
    /// # Errors
    /// Fails for the same reasons as [`RecordingWriter::create`].
    pub fn with_limits(
        directory: &Path,
        environment: &Environment,
        limits: SegmentLimits,
    ) -> Result<RecordingWriter, RecordingError> {
        let encoder = Encoder::new().map_err(|error| RecordingError::create(directory, error))?;
        let (folder, ours) = make(directory)?;
        let mut writer = RecordingWriter {
            folder: folder.clone(),
            ours,
            limits,
            environment: Environment::default(),
            stale: true,
            number: 1,
            opened: Instant::now(),
            tables: TABLES.iter().zip(columns()).map(OpenTable::new).collect(),
            encoder,
            failure: None,
        };
        writer.update(environment);
        writer.begin().inspect_err(|_| unmake(&folder, ours))?;
        Ok(writer)
    }

    fn begin(&mut self) -> Result<(), RecordingError> {
        for table in TABLES {
            let made = self.folder.make_folder(table.name, PRIVATE_FOLDER);
            made.map_err(|error| {
                RecordingError::create(&self.folder.path().join(table.name), error)
            })?;
        }
        self.write_environment()?;
        manifest::reserve(&self.folder)
    }

    /// Removes a recording to which nothing was written yet.
    pub fn discard(self) {
        unmake(&self.folder, self.ours);
    }

    /// The directory of the recording.
    pub fn directory(&self) -> &Path {
        self.folder.path()
    }

    pub(super) const fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Updates the environment, which is written when the segments end next.
    pub fn update(&mut self, environment: &Environment) {
        let mut environment = Environment { format: FORMAT, ..environment.clone() };
        environment.note_start_time();
        if self.environment != environment {
            self.environment = environment;
            self.stale = true;
        }
    }

    /// Adds rows, whose texts are in `names`. An empty batch is not useless: it lets segments end
    /// that are old enough.
    ///
    /// # Errors
    /// Fails if a file cannot be written. That ends the recording: what was closed stays, the rest
    /// is counted (see [`RecordingWriter::finish`]), and every later call fails too.
    pub fn add(&mut self, batch: &Batch, names: &Names) -> Result<(), RecordingError> {
        for (table, rows) in self.tables.iter_mut().zip(rows(batch)) {
            table.unsaved += rows.count() as u64;
        }
        if self.failure.is_some() {
            return Err(RecordingError::Ended { path: self.folder.path().to_owned() });
        }
        let result = self.gather(batch, names);
        self.note(result)
    }

    fn gather(&mut self, batch: &Batch, names: &Names) -> Result<(), RecordingError> {
        for (table, rows) in self.tables.iter_mut().zip(rows(batch)) {
            let mut from = 0;
            while from < rows.count() {
                let most = self.limits.group_rows.saturating_sub(table.columns.len());
                from += rows.put(from, most.clamp(1, TOGETHER), &mut table.columns);
                if table.is_full(&self.limits) {
                    table.write(&self.folder, self.number, names, &mut self.encoder)?;
                }
            }
        }
        let old = self.opened.elapsed() >= self.limits.segment_age;
        if old || self.tables.iter().any(|table| table.is_long(&self.limits)) {
            self.end_segments(names)?;
        }
        Ok(())
    }

    /// Ends all segments now, and writes `recording.json` if [`RecordingWriter::update`] changed
    /// it.
    ///
    /// # Errors
    /// Fails for the same reasons as [`RecordingWriter::add`].
    pub fn rotate(&mut self, names: &Names) -> Result<(), RecordingError> {
        let result = self.end_segments(names);
        self.note(result)
    }

    /// All are finished before the first gets its name: what does not fit on the disk shows then,
    /// and requests are not left without their parts, or parts without their requests.
    fn end_segments(&mut self, names: &Names) -> Result<(), RecordingError> {
        for table in &mut self.tables {
            table.finish(&self.folder, self.number, names, &mut self.encoder)?;
        }
        for table in self.tables.iter_mut().rev() {
            table.publish(&self.folder, self.number)?;
        }
        self.number += 1;
        self.opened = Instant::now();
        self.write_environment()
    }

    fn write_environment(&mut self) -> Result<(), RecordingError> {
        if self.stale {
            manifest::write(&self.folder, &self.environment)?;
            self.stale = false;
        }
        Ok(())
    }

    fn note(&mut self, result: Result<(), RecordingError>) -> Result<(), RecordingError> {
        result.inspect_err(|error| {
            self.failure = Some(if error.is_full() { "disk full" } else { "write error" });
        })
    }

    /// Writes what is left, and the final `recording.json`. Where not everything could be written,
    /// now or before, `environment` comes to say so: it is not finished, why, and what is lost.
    ///
    /// # Errors
    /// Fails if something cannot be written now; `recording.json` is tried all the same.
    pub fn finish(
        mut self,
        environment: &mut Environment,
        names: &Names,
    ) -> Result<(), RecordingError> {
        environment.format = FORMAT;
        self.update(environment);
        let result = if self.failure.is_none() { self.rotate(names) } else { Ok(()) };
        manifest::release(&self.folder);
        let Some(failure) = self.failure else { return result };
        environment.finished = false;
        failure.clone_into(&mut environment.ended_by);
        // Draining removes the open segments' files, whose space recording.json may need.
        for OpenTable { table, unsaved, .. } in self.tables.drain(..) {
            let place = format!("recording/{}", table.name);
            let meaning = format!("rows of {} that were not written: {failure}", table.name);
            environment.losses.add(&place, unsaved, &meaning, table.name == Request::NAME);
        }
        self.update(environment);
        result.and(self.write_environment())
    }
}

/// Rows that are taken from a batch before the limits are looked at again.
const TOGETHER: usize = 4096;

/// One table's rows that no closed segment holds yet.
struct OpenTable {
    table: &'static TableInfo,
    columns: Columns,
    segment: Option<Segment>,
    /// Number of these rows, in memory and in the open segment.
    unsaved: u64,
}

impl OpenTable {
    fn new((table, columns): (&'static TableInfo, Columns)) -> OpenTable {
        OpenTable { table, columns, segment: None, unsaved: 0 }
    }

    fn is_full(&self, limits: &SegmentLimits) -> bool {
        self.columns.len() >= limits.group_rows || self.columns.bytes() >= limits.group_bytes
    }

    fn is_long(&self, limits: &SegmentLimits) -> bool {
        self.segment.as_ref().is_some_and(|segment| segment.bytes() >= limits.segment_bytes)
    }

    /// Writes the rows in memory to the open segment, or to a new one.
    fn write(
        &mut self,
        folder: &Folder,
        number: u32,
        names: &Names,
        encoder: &mut Encoder,
    ) -> Result<(), RecordingError> {
        if self.columns.is_empty() {
            return Ok(());
        }
        let table = self.table;
        let written = match self.segment.take() {
            Some(segment) => Ok(segment),
            None => Segment::create(folder, table, number),
        }
        .and_then(|mut segment| {
            segment.add(&self.columns, table, names, encoder)?;
            Ok(segment)
        });
        self.segment = Some(written.map_err(|cause| self.failed(folder, number, cause))?);
        self.columns.clear();
        Ok(())
    }

    /// Writes the rows in memory and all that the segment needs to be whole.
    fn finish(
        &mut self,
        folder: &Folder,
        number: u32,
        names: &Names,
        encoder: &mut Encoder,
    ) -> Result<(), RecordingError> {
        self.write(folder, number, names, encoder)?;
        let finished = self.segment.as_mut().map_or(Ok(()), Segment::finish);
        finished.map_err(|cause| self.failed(folder, number, cause))
    }

    /// Gives the finished segment its name, if there is one.
    fn publish(&mut self, folder: &Folder, number: u32) -> Result<(), RecordingError> {
        let published = self.segment.take().map_or(Ok(()), Segment::publish);
        published.map_err(|cause| self.failed(folder, number, cause))?;
        self.unsaved = 0;
        Ok(())
    }

    fn failed(&self, folder: &Folder, number: u32, cause: ErrorCause) -> RecordingError {
        RecordingError::write(&folder.path().join(self.table.name).join(file_name(number)), cause)
    }
}

impl Drop for RecordingWriter {
    fn drop(&mut self) {
        manifest::release(&self.folder);
    }
}

/// Makes the directory, and says whether it was not there before. One that was there belongs to
/// the caller, is empty, and from then on only the caller can write to it.
fn make(directory: &Path) -> Result<(Folder, bool), RecordingError> {
    let failed = |error| RecordingError::create(directory, error);
    let folder = match Folder::make_new(directory, PRIVATE_FOLDER) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            Folder::open(directory).map_err(failed)?
        }
        made => return made.map(|folder| (folder, true)).map_err(failed),
    };
    if !folder.is_empty().map_err(failed)? {
        return Err(RecordingError::NotEmpty { path: directory.to_owned() });
    }
    folder.make_own().map_err(failed)?;
    // Until then others could put something there; now nobody else can.
    match folder.is_empty().map_err(failed)? {
        true => Ok((folder, false)),
        false => Err(RecordingError::NotEmpty { path: directory.to_owned() }),
    }
}

/// Removes what a recording that did not begin left, so that the same command can be tried again.
/// What cannot be removed stays; the error that led here is the one to show.
fn unmake(folder: &Folder, ours: bool) {
    manifest::release(folder);
    manifest::remove(folder);
    for table in TABLES {
        let _ = folder.remove_folder(table.name);
    }
    if ours {
        let _ =
            iowhy_fs::parent(folder.path()).and_then(|(parent, name)| parent.remove_folder(name));
    }
}
