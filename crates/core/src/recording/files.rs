//! The segments of a recording, by file. Names of ours tell their round; a program that filtered a
//! recording chose its own (`data_0.parquet`, `part-00000-….snappy.parquet`), which are read in
//! their order.
//!
//! What does not belong here: what is in a segment (see [`super::cursor`]).

use super::error::RecordingError;
use super::segment::{file_name, number};
use super::tables::TableInfo;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The segments of a recording.
pub(super) struct SegmentFiles {
    directory: PathBuf,
    /// Names of files that another program chose, by table and round.
    others: BTreeMap<(&'static str, u32), String>,
}

impl SegmentFiles {
    /// The segments of the recording `directory`, of which no table is known yet.
    pub(super) fn new(directory: &Path) -> SegmentFiles {
        SegmentFiles { directory: directory.to_owned(), others: BTreeMap::new() }
    }

    /// Finds the rounds that a table has segments of; none where it has no folder.
    ///
    /// # Errors
    /// Fails if the table's folder cannot be read, or holds files of iowhy and of another program:
    /// the same rows may be in both.
    pub(super) fn find(&mut self, table: &TableInfo) -> Result<BTreeSet<u32>, RecordingError> {
        let folder = self.directory.join(table.name);
        let entries = match fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
            entries => entries.map_err(|error| RecordingError::read(&folder, error))?,
        };
        let (mut numbers, mut others) = (BTreeSet::new(), BTreeSet::new());
        for entry in entries {
            let name = entry.map_err(|error| RecordingError::read(&folder, error))?.file_name();
            let Some(name) = name.to_str() else { continue };
            match number(name) {
                Some(number) => _ = numbers.insert(number),
                None if is_of_others(name) => _ = others.insert(name.to_owned()),
                None => {}
            }
        }
        match others.first() {
            None => return Ok(numbers),
            Some(other) if !numbers.is_empty() => {
                return Err(RecordingError::Mixed { path: folder, other: other.clone() });
            }
            Some(_) => {}
        }
        let named = (1..).zip(others);
        self.others.extend(named.map(|(number, name)| {
            numbers.insert(number);
            ((table.name, number), name)
        }));
        Ok(numbers)
    }

    /// The name of a table's segment.
    pub(super) fn name(&self, table: &'static str, number: u32) -> String {
        self.others.get(&(table, number)).cloned().unwrap_or_else(|| file_name(number))
    }

    /// The path of a table's segment.
    pub(super) fn path(&self, table: &TableInfo, number: u32) -> PathBuf {
        self.directory.join(table.name).join(self.name(table.name, number))
    }
}

/// Whether another program wrote rows under this name: not files that it marks as hidden or
/// unfinished.
fn is_of_others(name: &str) -> bool {
    name.ends_with(".parquet") && !name.starts_with(['.', '_'])
}
