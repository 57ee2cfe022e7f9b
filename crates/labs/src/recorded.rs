//! Recordings as benchmarks read them: the size of one (requests, bytes on disk, first start; only
//! one column is decoded), a table's rows one after the other, and copies of a real recording.

use crate::error::Context;
use crate::{LabError, Result};
use parquet::column::reader::ColumnReader;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::record::{Field, Row};
use parquet::schema::types::TypePtr;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// Columns of times since the machine started.
const TIMES: &[&str] = &["start_ns", "time_ns"];
/// Columns that number something in a recording.
const NUMBERS: &[&str] = &["request_id", "parent_id", "wait_id", "chain_id"];
/// Tables that other rows refer to: one copy is enough.
const REFERRED: &[&str] = &["stacks", "processes"];
/// Tables of which only some rows are kept, by their column `wait_id`.
const THINNED: &[&str] = &["waits", "wait_requests"];

/// The size of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedTotals {
    /// Requests.
    pub requests: u64,
    /// Requests that have no record, by the recording itself.
    pub lost: u64,
    /// Lost requests by reason, in the recording's words.
    pub losses: BTreeMap<String, u64>,
    /// Bytes of all its files.
    pub bytes: u64,
    /// The earliest start of a request, CLOCK_MONOTONIC nanoseconds.
    pub first_ns: Option<u64>,
}

impl RecordedTotals {
    /// Measures the recording in `folder`.
    pub fn from_folder(folder: &Path) -> Result<RecordedTotals> {
        let path = folder.join("recording.json");
        let text = fs::read_to_string(&path).context(|| format!("read {}", path.display()))?;
        let about: serde_json::Value =
            serde_json::from_str(&text).context(|| format!("read {}", path.display()))?;
        let losses = about["losses"]["items"].as_array().into_iter().flatten();
        let mut weight = RecordedTotals { bytes: text.len() as u64, ..RecordedTotals::default() };
        for loss in losses.filter(|loss| loss["requests"] == true) {
            let count = loss["count"].as_u64().unwrap_or(0);
            let meaning = loss["meaning"].as_str().unwrap_or_default();
            *weight.losses.entry(meaning.to_owned()).or_default() += count;
            weight.lost += count;
        }
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

/// The number of rows of `table`.
pub fn rows_of(recording: &Path, table: &str) -> Result<u64> {
    let mut rows = 0;
    for (_, segment) in segments(recording)?.into_iter().filter(|(name, _)| name == table) {
        let action = || format!("read {}", segment.display());
        let reader = SerializedFileReader::new(File::open(&segment).context(action)?);
        let counted = reader.context(action)?.metadata().file_metadata().num_rows();
        rows += u64::try_from(counted).unwrap_or(0);
    }
    Ok(rows)
}

/// A row of a table.
#[derive(Debug)]
pub struct RecordedRow(Row);

impl RecordedRow {
    fn field(&self, column: &str) -> Option<&Field> {
        self.0.get_column_iter().find(|(name, _)| *name == column).map(|(_, field)| field)
    }

    /// Returns the value of a text column; `None` if it is null, of another type or missing.
    pub fn text(&self, column: &str) -> Option<&str> {
        match self.field(column)? {
            Field::Str(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the value of a column of whole numbers; `None` if it is null, negative or missing.
    pub fn number(&self, column: &str) -> Option<u64> {
        match *self.field(column)? {
            Field::ULong(number) => Some(number),
            Field::Long(number) => u64::try_from(number).ok(),
            _ => None,
        }
    }
}

/// Passes each row of `table` to `each`, until that fails.
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

/// Writes the recording `from` as the recording `to`, `times` times, with one of `one_in` waits.
/// Each copy is later than the one before and has its own numbers.
///
/// # Errors
/// Fails if a file cannot be read or written.
pub fn multiply(from: &Path, to: &Path, times: u64, one_in: u64) -> Result<()> {
    fs::create_dir(to).context(|| format!("make {}", to.display()))?;
    let length = lengthen(from, to, times)?;
    let mut tables = Vec::new();
    for folder in fs::read_dir(from).context(|| format!("list {}", from.display()))?.flatten() {
        if folder.path().is_dir() {
            tables.push(CopiedTable::read(&folder.path(), one_in)?);
        }
    }
    let stride = 1 + tables.iter().map(CopiedTable::largest_number).max().unwrap_or(0);
    for table in &tables {
        let folder = to.join(&table.name);
        fs::create_dir(&folder).context(|| format!("make {}", folder.display()))?;
        let copies = if REFERRED.contains(&table.name.as_str()) { 1 } else { times };
        for copy in 0..copies as i64 {
            let path = folder.join(format!("{:08}.parquet", copy + 1));
            let action = || format!("write {}", path.display());
            table.write(&path, copy * length, copy * stride).context(action)?;
        }
    }
    Ok(())
}

/// Writes `recording.json`, `times` times as long; returns the length of one, nanoseconds.
fn lengthen(from: &Path, to: &Path, times: u64) -> Result<i64> {
    let path = from.join("recording.json");
    let action = || format!("read {}", path.display());
    let text = fs::read_to_string(&path).context(action)?;
    let mut about: serde_json::Value = serde_json::from_str(&text).context(action)?;
    let time = |key: &str| about[key].as_u64();
    let (Some(start), Some(end)) = (time("start_ns"), time("end_ns")) else {
        return Err(LabError::failed(action(), "it has no beginning and no end"));
    };
    let length = end.saturating_sub(start);
    about["end_ns"] = start.saturating_add(length.saturating_mul(times)).into();
    let path = to.join("recording.json");
    fs::write(&path, about.to_string()).context(|| format!("write {}", path.display()))?;
    Ok(length as i64)
}

/// A table of a recording, which can be written with other numbers.
pub struct EditedTable(CopiedTable);

/// The numbers of a table that is being written.
pub struct EditedNumbers(Vec<CopiedColumn>);

impl EditedTable {
    /// Reads all segments in the table's `folder`.
    ///
    /// # Errors
    /// Fails if one cannot be read.
    pub fn read(folder: &Path) -> Result<EditedTable> {
        CopiedTable::read(folder, 1).map(EditedTable)
    }

    /// Writes the table as the segment `path`, as changed by `edit`.
    ///
    /// # Errors
    /// Fails if it cannot be written.
    pub fn write(&self, path: &Path, edit: impl FnOnce(&mut EditedNumbers)) -> Result<()> {
        let CopiedTable { name, schema, columns } = &self.0;
        let mut numbers = EditedNumbers(columns.clone());
        edit(&mut numbers);
        let table = CopiedTable { name: name.clone(), schema: schema.clone(), columns: numbers.0 };
        table.write(path, 0, 0).context(|| format!("write {}", path.display()))
    }
}

impl EditedNumbers {
    /// Returns the numbers of a column; beyond the last column, it starts again at the first.
    fn column(&mut self, column: usize) -> Option<&mut Vec<i64>> {
        let numbers = self.0.iter_mut().filter_map(|column| match &mut column.cells {
            CopiedCells::Integers(values) => Some(values),
            _ => None,
        });
        let mut numbers: Vec<&mut Vec<i64>> = numbers.collect();
        let at = column.checked_rem(numbers.len())?;
        Some(numbers.swap_remove(at))
    }

    /// Sets one number; beyond the last column or row, it starts again at the first.
    pub fn set(&mut self, column: usize, row: usize, value: i64) {
        let Some(values) = self.column(column) else { return };
        let row = row.checked_rem(values.len()).unwrap_or(0);
        if let Some(cell) = values.get_mut(row) {
            *cell = value;
        }
    }

    /// Sets every number of a column.
    pub fn set_all(&mut self, column: usize, value: i64) {
        if let Some(values) = self.column(column) {
            values.fill(value);
        }
    }
}

/// The rows of a table, column by column.
struct CopiedTable {
    name: String,
    schema: Option<TypePtr>,
    columns: Vec<CopiedColumn>,
}

/// One column: its cells that are not null, and the levels that give their places.
#[derive(Clone)]
struct CopiedColumn {
    name: String,
    cells: CopiedCells,
    definitions: Vec<i16>,
    repetitions: Vec<i16>,
    most_definitions: i16,
    is_list: bool,
}

#[derive(Clone)]
enum CopiedCells {
    Integers(Vec<i64>),
    Floats(Vec<f64>),
    Flags(Vec<bool>),
    Texts(Vec<ByteArray>),
}

impl CopiedTable {
    fn read(folder: &Path, one_in: u64) -> Result<CopiedTable> {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut table = CopiedTable { name, schema: None, columns: Vec::new() };
        let mut segments: Vec<PathBuf> = fs::read_dir(folder)
            .context(|| format!("list {}", folder.display()))?
            .flatten()
            .map(|segment| segment.path())
            .collect();
        segments.sort();
        for path in segments {
            let action = || format!("read {}", path.display());
            let file = File::open(&path).context(action)?;
            table.add(&SerializedFileReader::new(file).context(action)?).context(action)?;
        }
        if THINNED.contains(&table.name.as_str()) {
            table.thin(one_in);
        }
        Ok(table)
    }

    fn add(&mut self, file: &SerializedFileReader<File>) -> std::result::Result<(), ParquetError> {
        let schema = file.metadata().file_metadata().schema_descr();
        self.schema = Some(schema.root_schema_ptr());
        for index in 0..file.num_row_groups() {
            let group = file.get_row_group(index)?;
            let rows = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
            for place in 0..schema.num_columns() {
                let reader = group.get_column_reader(place)?;
                if self.columns.len() <= place {
                    let about = schema.column(place);
                    self.columns.push(CopiedColumn {
                        // The name of a list, not of its items.
                        name: about.path().parts().first().cloned().unwrap_or_default(),
                        cells: CopiedCells::from_reader(&reader)?,
                        definitions: Vec::new(),
                        repetitions: Vec::new(),
                        most_definitions: about.max_def_level(),
                        is_list: about.max_rep_level() > 0,
                    });
                }
                if let Some(column) = self.columns.get_mut(place) {
                    column.read(reader, rows)?;
                }
            }
        }
        Ok(())
    }

    /// Keeps the rows of one in `one_in` waits.
    fn thin(&mut self, one_in: u64) {
        let numbers = self.columns.iter().find(|column| column.name == "wait_id");
        let Some(CopiedCells::Integers(numbers)) = numbers.map(|column| &column.cells) else {
            return;
        };
        let kept: Vec<bool> =
            numbers.iter().map(|number| (*number as u64).is_multiple_of(one_in.max(1))).collect();
        self.columns.iter_mut().for_each(|column| column.retain(&kept));
    }

    fn largest_number(&self) -> i64 {
        let numbers = self.columns.iter().filter(|column| NUMBERS.contains(&column.name.as_str()));
        let largest = numbers.filter_map(|column| match &column.cells {
            CopiedCells::Integers(values) => values.iter().max().copied(),
            _ => None,
        });
        largest.max().unwrap_or(0)
    }

    fn write(
        &self,
        path: &Path,
        later_ns: i64,
        further: i64,
    ) -> std::result::Result<(), ParquetError> {
        let Some(schema) = &self.schema else { return Ok(()) };
        let properties = WriterProperties::builder().build().into();
        let mut file = SerializedFileWriter::new(File::create(path)?, schema.clone(), properties)?;
        let mut group = file.next_row_group()?;
        let mut columns = self.columns.iter();
        while let (Some(writer), Some(column)) = (group.next_column()?, columns.next()) {
            let moved = match column.name.as_str() {
                name if REFERRED.contains(&self.name.as_str()) || name.is_empty() => 0,
                name if TIMES.contains(&name) => later_ns,
                name if NUMBERS.contains(&name) => further,
                _ => 0,
            };
            column.write(writer, moved)?;
        }
        group.close()?;
        file.close()?;
        Ok(())
    }
}

impl CopiedCells {
    fn from_reader(reader: &ColumnReader) -> std::result::Result<CopiedCells, ParquetError> {
        match reader {
            ColumnReader::Int64ColumnReader(_) => Ok(CopiedCells::Integers(Vec::new())),
            ColumnReader::DoubleColumnReader(_) => Ok(CopiedCells::Floats(Vec::new())),
            ColumnReader::BoolColumnReader(_) => Ok(CopiedCells::Flags(Vec::new())),
            ColumnReader::ByteArrayColumnReader(_) => Ok(CopiedCells::Texts(Vec::new())),
            _ => Err(ParquetError::General("a type that no recording has".to_owned())),
        }
    }
}

impl CopiedColumn {
    fn read(&mut self, reader: ColumnReader, rows: usize) -> std::result::Result<(), ParquetError> {
        let definitions = (self.most_definitions > 0).then_some(&mut self.definitions);
        let repetitions = self.is_list.then_some(&mut self.repetitions);
        match (reader, &mut self.cells) {
            (ColumnReader::Int64ColumnReader(mut reader), CopiedCells::Integers(values)) => {
                reader.read_records(rows, definitions, repetitions, values)
            }
            (ColumnReader::DoubleColumnReader(mut reader), CopiedCells::Floats(values)) => {
                reader.read_records(rows, definitions, repetitions, values)
            }
            (ColumnReader::BoolColumnReader(mut reader), CopiedCells::Flags(values)) => {
                reader.read_records(rows, definitions, repetitions, values)
            }
            (ColumnReader::ByteArrayColumnReader(mut reader), CopiedCells::Texts(values)) => {
                reader.read_records(rows, definitions, repetitions, values)
            }
            _ => Err(ParquetError::General(format!("{} changes its type", self.name))),
        }
        .map(|_| ())
    }

    fn retain(&mut self, kept: &[bool]) {
        let most = self.most_definitions;
        let mut valid: Vec<bool> = kept.to_vec();
        if most > 0 {
            let there = kept.iter().zip(&self.definitions).filter(|(_, level)| **level == most);
            valid = there.map(|(kept, _)| *kept).collect();
        }
        let mut rows = kept.iter();
        self.definitions.retain(|_| rows.next().copied().unwrap_or(false));
        let mut valid = valid.into_iter();
        let mut next = || valid.next().unwrap_or(false);
        match &mut self.cells {
            CopiedCells::Integers(values) => values.retain(|_| next()),
            CopiedCells::Floats(values) => values.retain(|_| next()),
            CopiedCells::Flags(values) => values.retain(|_| next()),
            CopiedCells::Texts(values) => values.retain(|_| next()),
        }
    }

    fn write(
        &self,
        mut writer: SerializedColumnWriter<'_>,
        moved: i64,
    ) -> std::result::Result<(), ParquetError> {
        let definitions = (self.most_definitions > 0).then_some(self.definitions.as_slice());
        let repetitions = self.is_list.then_some(self.repetitions.as_slice());
        match &self.cells {
            CopiedCells::Integers(values) => {
                let values: Vec<i64> =
                    values.iter().map(|value| value.wrapping_add(moved)).collect();
                let writer = writer.typed::<Int64Type>();
                writer.write_batch(&values, definitions, repetitions)?;
            }
            CopiedCells::Floats(values) => {
                let writer = writer.typed::<DoubleType>();
                writer.write_batch(values, definitions, repetitions)?;
            }
            CopiedCells::Flags(values) => {
                let writer = writer.typed::<BoolType>();
                writer.write_batch(values, definitions, repetitions)?;
            }
            CopiedCells::Texts(values) => {
                let writer = writer.typed::<ByteArrayType>();
                writer.write_batch(values, definitions, repetitions)?;
            }
        }
        writer.close()
    }
}
