//! Batches into a recording: rows are gathered by column, written as row groups when there are
//! enough of them, and closed as segments every few seconds.
//!
//! Memory is bounded by [`Limits`], whatever the rate. What was closed stays, whatever happens
//! later: after a full disk, a crash or a SIGKILL the closed segments and `recording.json` are
//! readable.
//!
//! What does not belong here: what a file looks like inside (see [`super::segment`]).

use super::chunk::Encoder;
use super::error::{Cause, Error};
use super::manifest;
use super::segment::{Segment, file_name};
use super::tables::{TABLES, TableInfo, columns, rows};
use crate::model::environment::FORMAT;
use crate::model::table::{Columns, Table};
use crate::model::{Environment, Names, Request};
use crate::source::Batch;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// When rows leave memory and segments end.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Rows of one table that are gathered before they are written.
    pub group_rows: usize,
    /// Bytes of one table's rows that are gathered before they are written. Columns that hold one
    /// value throughout take none.
    pub group_bytes: usize,
    /// Bytes of one file after which all segments end.
    pub segment_bytes: usize,
    /// Time after which all segments end: what a crash may lose.
    pub segment_age: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            group_rows: 64 << 10,
            group_bytes: 6 << 20,
            segment_bytes: 4 << 20,
            segment_age: Duration::from_secs(5),
        }
    }
}

/// Writes a recording.
pub struct Writer {
    directory: PathBuf,
    /// Whether the directory was not there before.
    ours: bool,
    limits: Limits,
    environment: Environment,
    /// Whether `environment` differs from what `recording.json` holds.
    stale: bool,
    /// The segment that is being written, the same for all tables.
    number: u32,
    opened: Instant,
    tables: Vec<Open>,
    encoder: Encoder,
    /// Why the recording ended before its time.
    failure: Option<&'static str>,
}

impl Writer {
    /// Makes the directory, for its owner alone, and `recording.json` in it.
    ///
    /// # Errors
    /// When there is something in the directory already, or it cannot be made or written.
    pub fn create(directory: &Path, environment: &Environment) -> Result<Writer, Error> {
        Writer::with_limits(directory, environment, Limits::default())
    }

    /// The same, with other limits.
    ///
    /// # Errors
    /// Those of [`Writer::create`].
    pub fn with_limits(
        directory: &Path,
        environment: &Environment,
        limits: Limits,
    ) -> Result<Writer, Error> {
        let encoder = Encoder::new().map_err(|error| Error::create(directory, error))?;
        let ours = make(directory)?;
        let mut writer = Writer {
            directory: directory.to_owned(),
            ours,
            limits,
            environment: Environment::default(),
            stale: true,
            number: 1,
            opened: Instant::now(),
            tables: TABLES.iter().zip(columns()).map(Open::new).collect(),
            encoder,
            failure: None,
        };
        writer.update(environment);
        writer.begin().inspect_err(|_| unmake(directory, ours))?;
        Ok(writer)
    }

    fn begin(&mut self) -> Result<(), Error> {
        for table in TABLES {
            let path = self.directory.join(table.name);
            let folder = DirBuilder::new().mode(0o700).create(&path);
            folder.map_err(|error| Error::create(&path, error))?;
        }
        self.write_environment()?;
        manifest::reserve(&self.directory)
    }

    /// Takes back a recording in which nothing was written yet, as if it had never begun.
    pub fn discard(self) {
        unmake(&self.directory, self.ours);
    }

    /// Where the recording stands.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Takes note of what is true of the watch now; it is written when the segments end next.
    pub fn update(&mut self, environment: &Environment) {
        let environment = Environment { format: FORMAT, ..environment.clone() };
        if self.environment != environment {
            self.environment = environment;
            self.stale = true;
        }
    }

    /// Adds rows, whose texts are in `names`. An empty batch is not useless: it lets segments end
    /// that are old enough.
    ///
    /// # Errors
    /// When a file cannot be written. That ends the recording: what was closed stays, the rest is
    /// counted (see [`Writer::finish`]), and every later call fails too.
    pub fn add(&mut self, batch: &Batch, names: &Names) -> Result<(), Error> {
        for (table, rows) in self.tables.iter_mut().zip(rows(batch)) {
            table.unsaved += rows.count() as u64;
        }
        if self.failure.is_some() {
            return Err(Error::Ended { path: self.directory.clone() });
        }
        let result = self.gather(batch, names);
        self.note(result)
    }

    fn gather(&mut self, batch: &Batch, names: &Names) -> Result<(), Error> {
        for (table, rows) in self.tables.iter_mut().zip(rows(batch)) {
            let mut from = 0;
            while from < rows.count() {
                let most = self.limits.group_rows.saturating_sub(table.columns.len());
                from += rows.put(from, most.clamp(1, TOGETHER), &mut table.columns);
                if table.is_full(&self.limits) {
                    table.write(&self.directory, self.number, names, &mut self.encoder)?;
                }
            }
        }
        let old = self.opened.elapsed() >= self.limits.segment_age;
        if old || self.tables.iter().any(|table| table.is_long(&self.limits)) {
            self.end_segments(names)?;
        }
        Ok(())
    }

    /// Ends all segments now, and writes `recording.json` if [`Writer::update`] changed it.
    ///
    /// # Errors
    /// Those of [`Writer::add`].
    pub fn rotate(&mut self, names: &Names) -> Result<(), Error> {
        let result = self.end_segments(names);
        self.note(result)
    }

    /// All are finished before the first gets its name: what does not fit on the disk shows then,
    /// and requests are not left without their parts, or parts without their requests.
    fn end_segments(&mut self, names: &Names) -> Result<(), Error> {
        for table in &mut self.tables {
            table.finish(&self.directory, self.number, names, &mut self.encoder)?;
        }
        for table in self.tables.iter_mut().rev() {
            table.publish(&self.directory, self.number)?;
        }
        self.number += 1;
        self.opened = Instant::now();
        self.write_environment()
    }

    fn write_environment(&mut self) -> Result<(), Error> {
        if self.stale {
            manifest::write(&self.directory, &self.environment)?;
            self.stale = false;
        }
        Ok(())
    }

    fn note(&mut self, result: Result<(), Error>) -> Result<(), Error> {
        result.inspect_err(|error| {
            self.failure = Some(if error.is_full() { "disk full" } else { "write error" });
        })
    }

    /// Writes what is left, and the final `recording.json`. Where not everything could be written,
    /// now or before, `environment` comes to say so: it is not finished, why, and what is lost.
    ///
    /// # Errors
    /// When something cannot be written now; `recording.json` is tried all the same.
    pub fn finish(mut self, environment: &mut Environment, names: &Names) -> Result<(), Error> {
        environment.format = FORMAT;
        self.update(environment);
        let result = if self.failure.is_none() { self.rotate(names) } else { Ok(()) };
        manifest::release(&self.directory);
        let Some(failure) = self.failure else { return result };
        environment.finished = false;
        failure.clone_into(&mut environment.ended_by);
        // Draining removes the open segments' files, whose space recording.json may need.
        for Open { table, unsaved, .. } in self.tables.drain(..) {
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
struct Open {
    table: &'static TableInfo,
    columns: Columns,
    segment: Option<Segment>,
    /// How many they are, in memory and in the open segment.
    unsaved: u64,
}

impl Open {
    fn new((table, columns): (&'static TableInfo, Columns)) -> Open {
        Open { table, columns, segment: None, unsaved: 0 }
    }

    fn is_full(&self, limits: &Limits) -> bool {
        self.columns.len() >= limits.group_rows || self.columns.bytes() >= limits.group_bytes
    }

    fn is_long(&self, limits: &Limits) -> bool {
        self.segment.as_ref().is_some_and(|segment| segment.bytes() >= limits.segment_bytes)
    }

    /// Writes the rows in memory to the open segment, or to a new one.
    fn write(
        &mut self,
        directory: &Path,
        number: u32,
        names: &Names,
        encoder: &mut Encoder,
    ) -> Result<(), Error> {
        if self.columns.is_empty() {
            return Ok(());
        }
        let table = self.table;
        let written = match self.segment.take() {
            Some(segment) => Ok(segment),
            None => Segment::create(directory, table, number),
        }
        .and_then(|mut segment| {
            segment.add(&self.columns, table, names, encoder)?;
            Ok(segment)
        });
        self.segment = Some(written.map_err(|cause| self.failed(directory, number, cause))?);
        self.columns.clear();
        Ok(())
    }

    /// Writes the rows in memory and all that the segment needs to be whole.
    fn finish(
        &mut self,
        directory: &Path,
        number: u32,
        names: &Names,
        encoder: &mut Encoder,
    ) -> Result<(), Error> {
        self.write(directory, number, names, encoder)?;
        let finished = self.segment.as_mut().map_or(Ok(()), Segment::finish);
        finished.map_err(|cause| self.failed(directory, number, cause))
    }

    /// Gives the finished segment its name, if there is one.
    fn publish(&mut self, directory: &Path, number: u32) -> Result<(), Error> {
        let published = self.segment.take().map_or(Ok(()), Segment::publish);
        published.map_err(|cause| self.failed(directory, number, cause))?;
        self.unsaved = 0;
        Ok(())
    }

    fn failed(&self, directory: &Path, number: u32, cause: Cause) -> Error {
        Error::write(&directory.join(self.table.name).join(file_name(number)), cause)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        manifest::release(&self.directory);
    }
}

/// Makes the directory, and says whether it was not there before.
fn make(directory: &Path) -> Result<bool, Error> {
    let failed = |error| Error::create(directory, error);
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            match fs::read_dir(directory).map_err(failed)?.next() {
                None => Ok(false),
                Some(_) => Err(Error::NotEmpty { path: directory.to_owned() }),
            }
        }
        made => made.map(|()| true).map_err(failed),
    }
}

/// Removes what a recording that did not begin left, so that the same command can be tried again.
/// What cannot be removed stays; the error that led here is the one to show.
fn unmake(directory: &Path, ours: bool) {
    manifest::release(directory);
    let _ = fs::remove_file(manifest::path(directory));
    for table in TABLES {
        let _ = fs::remove_dir(directory.join(table.name));
    }
    if ours {
        let _ = fs::remove_dir(directory);
    }
}
