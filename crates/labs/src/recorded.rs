//! Recordings as benchmarks read them: the weight of one (how many requests, which bytes on disk,
//! since when; only one column is decoded), and a table's rows one after the other.

use crate::error::Context;
use crate::{LabError, Result};
use parquet::column::reader::ColumnReader;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// The weight of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordedTotals {
    /// Requests.
    pub requests: u64,
    /// Requests that have no record, as the recording itself says.
    pub lost: u64,
    /// Bytes of all its files.
    pub bytes: u64,
    /// The earliest start of a request, CLOCK_MONOTONIC nanoseconds.
    pub first_ns: Option<u64>,
}

impl RecordedTotals {
    /// Weighs the recording in `folder`.
    pub fn of(folder: &Path) -> Result<RecordedTotals> {
        let path = folder.join("recording.json");
        let text = fs::read_to_string(&path).context(|| format!("read {}", path.display()))?;
        let about: serde_json::Value =
            serde_json::from_str(&text).context(|| format!("read {}", path.display()))?;
        let losses = about["losses"]["items"].as_array().into_iter().flatten();
        let lost = losses.filter(|loss| loss["requests"] == true);
        let mut weight = RecordedTotals {
            lost: lost.filter_map(|loss| loss["count"].as_u64()).sum(),
            bytes: text.len() as u64,
            ..RecordedTotals::default()
        };
        for (table, segment) in segments(folder)? {
            let about =
                fs::metadata(&segment).context(|| format!("look at {}", segment.display()))?;
            weight.bytes += about.len();
            if table == "requests" {
                weight.add_requests(&segment)?;
            }
        }
        Ok(weight)
    }

    fn add_requests(&mut self, segment: &Path) -> Result<()> {
        let action = || format!("read {}", segment.display());
        let reader =
            SerializedFileReader::new(File::open(segment).context(action)?).context(action)?;
        for index in 0..reader.num_row_groups() {
            let group = reader.get_row_group(index).context(action)?;
            let rows = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
            self.requests += rows as u64;
            let columns = group.metadata().columns();
            let place =
                columns.iter().position(|column| column.column_path().string() == "start_ns");
            let place =
                place.ok_or_else(|| LabError::failed(action(), "there is no column start_ns"))?;
            let mut starts = Vec::with_capacity(rows);
            if let ColumnReader::Int64ColumnReader(mut column) =
                group.get_column_reader(place).context(action)?
            {
                column.read_records(rows, None, None, &mut starts).context(action)?;
            }
            let first = starts.into_iter().filter_map(|start| u64::try_from(start).ok()).min();
            self.first_ns = self.first_ns.into_iter().chain(first).min();
        }
        Ok(())
    }
}

/// Every segment with its table's name.
fn segments(folder: &Path) -> Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    for table in fs::read_dir(folder).context(|| format!("list {}", folder.display()))?.flatten() {
        let name = table.file_name().to_string_lossy().into_owned();
        for segment in fs::read_dir(table.path()).into_iter().flatten().flatten() {
            found.push((name.clone(), segment.path()));
        }
    }
    Ok(found)
}

/// A row of a table.
#[derive(Debug)]
pub struct RecordedRow(Row);

impl RecordedRow {
    fn field(&self, column: &str) -> Option<&Field> {
        self.0.get_column_iter().find(|(name, _)| *name == column).map(|(_, field)| field)
    }

    /// What a column of text says; `None` where it is null, of another type or not there.
    pub fn text(&self, column: &str) -> Option<&str> {
        match self.field(column)? {
            Field::Str(text) => Some(text),
            _ => None,
        }
    }

    /// What a column of whole numbers says; `None` where it is null, negative or not there.
    pub fn number(&self, column: &str) -> Option<u64> {
        match *self.field(column)? {
            Field::ULong(number) => Some(number),
            Field::Long(number) => u64::try_from(number).ok(),
            _ => None,
        }
    }
}

/// Hands each row of `table` to `each`, until that fails.
pub fn each_row(
    recording: &Path,
    table: &str,
    mut each: impl FnMut(&RecordedRow) -> Result<()>,
) -> Result<()> {
    for segment in fs::read_dir(recording.join(table)).into_iter().flatten().flatten() {
        let path = segment.path();
        let action = || format!("read {}", path.display());
        let reader = SerializedFileReader::new(File::open(&path).context(action)?);
        for row in reader.context(action)?.get_row_iter(None).context(action)? {
            each(&RecordedRow(row.context(action)?))?;
        }
    }
    Ok(())
}
