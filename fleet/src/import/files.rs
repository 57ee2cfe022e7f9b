//! Rows of CSV and Parquet files as texts.
//!
//! What does not belong here: the meaning of a row.

use super::samples::SampleWindows;
use super::{ColumnMapping, FileColumns};
use crate::error::{FleetContext, FleetError, Result};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, DictionaryArray, StringArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Int32Type, Schema};
use datafusion::arrow::error::ArrowError;
use datafusion::parquet::arrow::ProjectionMask;
use datafusion::parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};
use datafusion::parquet::file::metadata::ParquetMetaData;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Files of an import.
const MOST_FILES: usize = 1_000_000;
/// The depth of folders at most.
const MOST_DEPTH: usize = 16;
/// Rows of Parquet that are unpacked at a time.
const BATCH_ROWS: usize = 1024;
/// Bytes of a column in a group of rows at most, unpacked.
const MOST_COLUMN_BYTES: i64 = 256 << 20;

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
    let metadata = ArrowReaderMetadata::load(&file, ArrowReaderOptions::new()).context(what)?;
    let names: Vec<String> =
        metadata.schema().fields().iter().map(|field| field.name().clone()).collect();
    let columns = FileColumns::new(mapping, path, &names)?;
    check_size(path, metadata.metadata(), |at| columns.uses(at))?;
    // A text of which every row has the same is in the file, and in memory, once.
    let fields = metadata.schema().fields().iter().map(|field| match field.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            Arc::new(field.as_ref().clone().with_data_type(dictionary()))
        }
        _ => Arc::clone(field),
    });
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let options = ArrowReaderOptions::new().with_schema(schema);
    let reader =
        ParquetRecordBatchReaderBuilder::try_new_with_options(file, options).context(what)?;
    let used = (0..names.len()).filter(|at| columns.uses(*at));
    let used = ProjectionMask::roots(reader.parquet_schema(), used);
    let reader = reader.with_projection(used).with_batch_size(BATCH_ROWS);
    for batch in reader.build().context(what)? {
        let batch = batch.context(what)?;
        let texts = (0..names.len())
            .map(|at| match batch.column_by_name(&names[at]).filter(|_| columns.uses(at)) {
                Some(column) => TextColumn::new(column).map(Some).context(what),
                None => Ok(None),
            })
            .collect::<Result<Vec<_>>>()?;
        for row in 0..batch.num_rows() {
            windows.add(&columns, |at| texts.get(at)?.as_ref()?.value(row))?;
        }
    }
    Ok(())
}

fn dictionary() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
}

/// Refuses a file of which one column's part takes more memory than all that is imported needs: a
/// few kilobytes can be packed gigabytes.
fn check_size(path: &Path, about: &ParquetMetaData, uses: impl Fn(usize) -> bool) -> Result<()> {
    for group in about.row_groups() {
        for (leaf, column) in group.columns().iter().enumerate() {
            let root = about.file_metadata().schema_descr().get_column_root_idx(leaf);
            if uses(root) && column.uncompressed_size() > MOST_COLUMN_BYTES {
                let (name, bytes) = (column.column_path().string(), column.uncompressed_size());
                let shown = path.display();
                let message = format!(
                    "failed to read {shown}: a part of the column {name} has {bytes} bytes"
                );
                return Err(FleetError::new(message).hint("write it with smaller row groups"));
            }
        }
    }
    Ok(())
}

/// A column whose values are read as texts.
enum TextColumn {
    /// Each text once, and which of them a row has.
    Shared(DictionaryArray<Int32Type>, StringArray),
    /// Numbers and times.
    Plain(StringArray),
}

impl TextColumn {
    fn new(column: &ArrayRef) -> std::result::Result<TextColumn, ArrowError> {
        let strings = |array: &ArrayRef| match array.data_type() {
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
                Err(ArrowError::CastError("it is neither text nor a number".to_owned()))
            }
            _ => cast(array, &DataType::Utf8).map(|texts| texts.as_string::<i32>().clone()),
        };
        match column.data_type() {
            // Keys of another width are few bytes a row; the texts stay as they are.
            DataType::Dictionary(_, of) => {
                let shared = DataType::Dictionary(Box::new(DataType::Int32), Box::new(*of.clone()));
                let shared = cast(column, &shared)?;
                let shared = shared.as_dictionary::<Int32Type>().clone();
                let texts = strings(shared.values())?;
                Ok(TextColumn::Shared(shared, texts))
            }
            _ => strings(column).map(TextColumn::Plain),
        }
    }

    fn value(&self, row: usize) -> Option<&str> {
        let (texts, at) = match self {
            TextColumn::Plain(texts) => (texts, row),
            TextColumn::Shared(rows, texts) => (texts, rows.key(row)?),
        };
        texts.is_valid(at).then(|| texts.value(at))
    }
}

impl FileColumns {
    fn uses(&self, column: usize) -> bool {
        let mut texts = self.texts.iter().flatten();
        texts.any(|part| *part == Ok(column)) || self.numbers.contains(&Some(column))
    }
}
