//! Rows of CSV and Parquet files as texts.
//!
//! What does not belong here: the meaning of a row.

use super::samples::SampleWindows;
use super::{ColumnMapping, FileColumns};
use crate::error::{FleetContext, FleetError, Result};
use datafusion::arrow::array::{Array, AsArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Files of an import.
const MOST_FILES: usize = 1_000_000;
/// The depth of folders at most.
const MOST_DEPTH: usize = 16;

/// The files that are named, and those in the directories that are named, in order. Links in
/// directories are not followed.
pub(super) fn find(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for path in paths {
        let metadata = std::fs::metadata(path).context(|| format!("read {}", path.display()))?;
        match metadata.is_dir() {
            true => add(path, 0, &mut found)?,
            false => found.push(path.clone()),
        }
    }
    found.sort();
    found.dedup();
    match found.is_empty() {
        true => Err(FleetError::new("there are no .csv or .parquet files")),
        false => Ok(found),
    }
}

fn add(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) -> Result<()> {
    let what = || format!("read {}", folder.display());
    for entry in std::fs::read_dir(folder).context(what)? {
        let entry = entry.context(what)?;
        let kind = entry.file_type().context(what)?;
        let path = entry.path();
        if kind.is_dir() && depth < MOST_DEPTH {
            add(&path, depth + 1, found)?;
        } else if kind.is_file() && (has_ending(&path, "csv") || has_ending(&path, "parquet")) {
            found.push(path);
        }
        if found.len() > MOST_FILES {
            return Err(FleetError::new(format!("there are more than {MOST_FILES} files")));
        }
    }
    Ok(())
}

fn has_ending(path: &Path, ending: &str) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case(ending))
}

/// Adds the rows of a file.
pub(super) fn read(
    path: &Path,
    mapping: &ColumnMapping,
    windows: &mut SampleWindows,
) -> Result<()> {
    windows.report.files += 1;
    let what = || format!("read {}", path.display());
    let file = File::open(path).context(what)?;
    if !file.metadata().context(what)?.is_file() {
        return Err(FleetError::new(format!("failed to {}: it is no file", what())));
    }
    match has_ending(path, "parquet") {
        true => parquet(path, file, mapping, windows),
        false => csv(path, file, mapping, windows),
    }
}

fn csv(
    path: &Path,
    file: File,
    mapping: &ColumnMapping,
    windows: &mut SampleWindows,
) -> Result<()> {
    let what = || format!("read {}", path.display());
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(file);
    let columns = reader.headers().context(what)?;
    let columns: Vec<String> = columns.iter().map(|column| column.trim().to_owned()).collect();
    let columns = FileColumns::new(mapping, path, &columns)?;
    let mut row = csv::StringRecord::new();
    loop {
        match reader.read_record(&mut row) {
            Ok(true) => windows.add(&columns, |at| row.get(at).map(str::trim))?,
            Ok(false) => return Ok(()),
            Err(error) if error.is_io_error() => return Err(error).context(what),
            // Text that is no UTF-8: only this row.
            Err(_) => windows.report.broken += 1,
        }
    }
}

fn parquet(
    path: &Path,
    file: File,
    mapping: &ColumnMapping,
    windows: &mut SampleWindows,
) -> Result<()> {
    let what = || format!("read {}", path.display());
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).context(what)?;
    let columns: Vec<String> =
        reader.schema().fields().iter().map(|field| field.name().clone()).collect();
    let columns = FileColumns::new(mapping, path, &columns)?;
    for batch in reader.with_batch_size(8192).build().context(what)? {
        let batch = batch.context(what)?;
        let texts: Vec<Option<_>> = batch
            .columns()
            .iter()
            .enumerate()
            .map(|(at, column)| match columns.uses(at) {
                true => cast(column, &DataType::Utf8).map(Some).context(what),
                false => Ok(None),
            })
            .collect::<Result<_>>()?;
        for row in 0..batch.num_rows() {
            windows.add(&columns, |at| {
                let column = texts.get(at)?.as_ref()?.as_string_opt::<i32>()?;
                column.is_valid(row).then(|| column.value(row))
            })?;
        }
    }
    Ok(())
}

impl FileColumns {
    fn uses(&self, column: usize) -> bool {
        let mut texts = self.texts.iter().flatten();
        texts.any(|part| *part == Ok(column)) || self.numbers.contains(&Some(column))
    }
}
