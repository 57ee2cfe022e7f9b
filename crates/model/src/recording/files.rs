//! The segments of a recording, by file. Names of ours tell their round; a program that filtered a
//! recording chose its own (`data_0.parquet`, `part-00000-….snappy.parquet`), which are read in
//! their order; it may have made folders below a table's (`requests/x/data_0.parquet`).
//!
//! What does not belong here: what is in a segment (see [`super::cursor`]).

use super::error::RecordingError;
use super::segment::{file_name, number};
use super::tables::TableInfo;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Folders below a table's folder that are looked through, one in another.
const MOST_FOLDERS: usize = 8;

/// The segments of a recording.
pub(super) struct SegmentFiles {
    directory: PathBuf,
    /// Paths of files that another program named, below the table's folder, by table and round.
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
    /// Fails if the table's folder or one in it cannot be read, or holds files of iowhy and of
    /// another program: the same rows may be in both.
    pub(super) fn find(&mut self, table: &TableInfo) -> Result<BTreeSet<u32>, RecordingError> {
        let folder = self.directory.join(table.name);
        let (mut numbers, mut others) = (BTreeSet::new(), BTreeSet::new());
        for (name, is_folder) in names_in(&folder)? {
            match number(&name) {
                Some(number) if !is_folder => _ = numbers.insert(number),
                _ if is_folder => add_below(&folder, &name, &mut others)?,
                None if is_of_others(&name) => _ = others.insert(name),
                _ => {}
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

    /// The name of a table's segment, or its path below the table's folder.
    pub(super) fn name(&self, table: &'static str, number: u32) -> String {
        self.others.get(&(table, number)).cloned().unwrap_or_else(|| file_name(number))
    }

    /// The path of a table's segment.
    pub(super) fn path(&self, table: &TableInfo, number: u32) -> PathBuf {
        self.directory.join(table.name).join(self.name(table.name, number))
    }
}

/// Adds the paths of the files in the folder `within` of a table's `folder`, and in those in it.
fn add_below(
    folder: &Path,
    within: &str,
    found: &mut BTreeSet<String>,
) -> Result<(), RecordingError> {
    let mut left = vec![within.to_owned()];
    while let Some(within) = left.pop() {
        let name = within.rsplit('/').next().unwrap_or(&within);
        if name.starts_with(['.', '_']) {
            continue;
        }
        let refused =
            |why| RecordingError::Folder { path: folder.to_owned(), folder: within.clone(), why };
        // Hive's form: the files lack the column.
        if name.contains('=') {
            return Err(refused("the values of a column are in the names of its folders"));
        }
        if within.matches('/').count() >= MOST_FOLDERS {
            return Err(refused("too many folders are one in another"));
        }
        let path = folder.join(&within);
        if path.is_symlink() {
            return Err(refused("it is a link"));
        }
        for (name, is_folder) in names_in(&path)? {
            match is_folder {
                true => left.push(format!("{within}/{name}")),
                false if is_of_others(&name) => _ = found.insert(format!("{within}/{name}")),
                false => {}
            }
        }
    }
    Ok(())
}

/// The names in a folder, and whether each is one of a folder; none where there is no folder.
fn names_in(folder: &Path) -> Result<Vec<(String, bool)>, RecordingError> {
    let failed = |error| RecordingError::read(folder, error);
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed)?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        if let Some(name) = entry.file_name().to_str() {
            names.push((name.to_owned(), entry.path().is_dir()));
        }
    }
    Ok(names)
}

/// Whether another program wrote rows under this name: not files that it marks as hidden or
/// unfinished.
fn is_of_others(name: &str) -> bool {
    name.ends_with(".parquet") && !name.starts_with(['.', '_'])
}
