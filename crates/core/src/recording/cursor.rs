//! One segment's rows, a few thousand at a time, as columns.
//!
//! Columns are found by name, so that a segment with more of them, or with fewer that may be null,
//! reads as well; one that another program rewrote does too, if it kept names and types.
//!
//! What does not belong here: which segment comes next (see [`super::reader`]).

use super::error::{ErrorCause, RecordingError};
use super::segment::is_whole;
use super::statistics;
use super::tables::TableInfo;
use crate::model::table::{ColumnInfo, ColumnKind, ColumnValues, Columns, Scalar};
use crate::model::{Name, Names};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder,
};
use std::fs::File;
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

/// Rows that are read together: enough to share the cost of a step, few enough to stay small.
const TOGETHER: usize = 4 << 10;

/// Why a segment gives no more rows.
pub(super) enum Problem {
    /// It is not as it was written: the others are worth reading.
    Damaged(ErrorCause),
    /// It cannot be what the recording needs: nothing that follows would make sense.
    Refused(RecordingError),
}

impl<E: Into<ErrorCause>> From<E> for Problem {
    fn from(error: E) -> Problem {
        Problem::Damaged(error.into())
    }
}

/// Reads one segment from its first row to its last.
pub(super) struct Cursor {
    file: File,
    metadata: ArrowReaderMetadata,
    columns: Vec<ColumnReading>,
    group: usize,
    batches: Option<ParquetRecordBatchReader>,
    /// Bytes of the segment, and rows that were read.
    bytes: u64,
    rows: u64,
}

/// How one column is read.
struct ColumnReading {
    info: &'static ColumnInfo,
    /// Its index in the file's schema; `None` if the file does not have it.
    root: Option<usize>,
    /// What every row of this group holds, where that is known without reading them.
    same: Option<Option<i64>>,
    /// The dictionary seen last, and its texts' names.
    dictionary: Option<(ArrayRef, Vec<Option<Name>>)>,
}

impl Cursor {
    /// Opens the segment `path` of `table`; `None` where there is none.
    pub(super) fn open(path: &Path, table: &TableInfo) -> Result<Option<Cursor>, Problem> {
        let file = match File::open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            file => file.map_err(|error| Problem::Refused(RecordingError::read(path, error)))?,
        };
        if !is_whole(&file)? {
            return Err(ErrorCause::Content("it is not as it was written".to_owned()).into());
        }
        guarded(|| {
            let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
            let found = ArrowReaderMetadata::load(&file, options.clone())?;
            let columns = table.columns.iter().map(|info| reading(info, found.schema(), path));
            let columns = columns.collect::<Result<_, _>>().map_err(Problem::Refused)?;
            let options = options.with_schema(with_dictionaries(found.schema()));
            let metadata = ArrowReaderMetadata::try_new(found.metadata().clone(), options)?;
            let bytes = file.metadata()?.len();
            Ok(Some(Cursor { file, metadata, columns, group: 0, batches: None, bytes, rows: 0 }))
        })
    }

    /// The next rows; `None` behind the last. After a problem the cursor is of no more use.
    pub(super) fn next(&mut self, names: &mut Names) -> Result<Option<Columns>, Problem> {
        guarded(|| {
            loop {
                if let Some(batch) = self.batches.as_mut().and_then(Iterator::next) {
                    let batch = batch.map_err(parquet_error)?;
                    self.rows += batch.num_rows() as u64;
                    return Ok(Some(self.columns(&batch, names)?));
                }
                if self.group == self.metadata.metadata().num_row_groups() {
                    return Ok(None);
                }
                self.batches = Some(self.open_group(names)?);
                self.group += 1;
            }
        })
    }

    /// Bytes of the rows that are left, by their share of all.
    pub(super) fn unread_bytes(&self) -> u64 {
        let all = u64::try_from(self.metadata.metadata().file_metadata().num_rows()).unwrap_or(0);
        let left = all.saturating_sub(self.rows) as f64 / all.max(1) as f64;
        (self.bytes as f64 * left) as u64
    }

    /// Groups are read one by one: each has dictionaries of its own.
    fn open_group(&mut self, names: &mut Names) -> Result<ParquetRecordBatchReader, Problem> {
        let group = self.metadata.metadata().row_group(self.group);
        let schema = self.metadata.parquet_schema();
        for reading in &mut self.columns {
            let of_column = |leaf: &usize| Some(schema.get_column_root_idx(*leaf)) == reading.root;
            let chunk = (0..schema.num_columns()).find(of_column).map(|leaf| group.column(leaf));
            let info = reading.info;
            reading.same = match chunk {
                Some(chunk) => statistics::same(chunk, info.kind, names),
                None => Some(None),
            };
        }
        let unknown = self.columns.iter().filter(|reading| reading.same.is_none());
        let mask = ProjectionMask::roots(schema, unknown.filter_map(|reading| reading.root));
        let file = self.file.try_clone()?;
        Ok(ParquetRecordBatchReaderBuilder::new_with_metadata(file, self.metadata.clone())
            .with_row_groups(vec![self.group])
            .with_projection(mask)
            .with_batch_size(TOGETHER)
            .build()?)
    }

    fn columns(&mut self, batch: &RecordBatch, names: &mut Names) -> Result<Columns, Problem> {
        let mut columns = Vec::with_capacity(self.columns.len());
        for reading in &mut self.columns {
            columns.push(match (reading.same, batch.column_by_name(reading.info.name)) {
                (Some(cell), _) => ColumnValues::same(cell, batch.num_rows()),
                (None, Some(array)) => reading.column(array, names)?,
                (None, None) => return Err(reading.changed()),
            });
        }
        Ok(Columns::from_parts(columns, batch.num_rows()))
    }
}

/// The crate that reads Parquet can panic on files that are made for that: a
/// panic in it is a damaged segment, not the end of the report.
fn guarded<T>(work: impl FnOnce() -> Result<T, Problem>) -> Result<T, Problem> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        Err(ErrorCause::Content("the Parquet library failed on it".to_owned()).into())
    })
}

fn parquet_error(error: arrow_schema::ArrowError) -> Problem {
    ErrorCause::Content(error.to_string()).into()
}

fn reading(
    info: &'static ColumnInfo,
    schema: &Schema,
    path: &Path,
) -> Result<ColumnReading, RecordingError> {
    let wrong = |why| RecordingError::Column { path: path.into(), column: info.name, why };
    let root = schema.index_of(info.name).ok();
    match root.map(|root| schema.field(root).data_type()) {
        None if !info.nullable => Err(wrong("is missing".to_owned())),
        Some(found) if !fits(info.kind, found) => {
            Err(wrong(format!("holds {found}, not {}", info.kind.sql())))
        }
        _ => Ok(ColumnReading { info, root, same: None, dictionary: None }),
    }
}

fn fits(kind: ColumnKind, found: &DataType) -> bool {
    match kind {
        ColumnKind::Integer => found.is_integer(),
        ColumnKind::Float => *found == DataType::Float64,
        ColumnKind::Flag => *found == DataType::Boolean,
        ColumnKind::Text => *found == DataType::Utf8,
        ColumnKind::Texts => {
            matches!(found, DataType::List(item) if *item.data_type() == DataType::Utf8)
        }
    }
}

/// The same schema with texts as keys into the dictionaries that they are stored with: each text is
/// then looked at once, not in every row.
fn with_dictionaries(schema: &SchemaRef) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| match field.data_type() {
        DataType::Utf8 => {
            let keys = DataType::Dictionary(DataType::Int32.into(), DataType::Utf8.into());
            Arc::new(Field::new(field.name(), keys, field.is_nullable()))
        }
        _ => field.clone(),
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

impl ColumnReading {
    fn column(&mut self, array: &ArrayRef, names: &mut Names) -> Result<ColumnValues, Problem> {
        let read = match self.info.kind {
            ColumnKind::Integer => integers(array),
            ColumnKind::Float => array
                .as_primitive_opt::<Float64Type>()
                .map(|found| each(array, found.values().iter().map(|value| value.to_raw()))),
            ColumnKind::Flag => array
                .as_boolean_opt()
                .map(|found| each(array, found.values().iter().map(Scalar::to_raw))),
            ColumnKind::Text => self.texts(array, names),
            ColumnKind::Texts => lists(array, names),
        };
        read.ok_or_else(|| self.changed())
    }

    fn changed(&self) -> Problem {
        ErrorCause::Content(format!("the column {} changes its type", self.info.name)).into()
    }

    fn texts(&mut self, array: &ArrayRef, names: &mut Names) -> Option<ColumnValues> {
        let array = array.as_dictionary_opt::<Int32Type>()?;
        let known = self.dictionary.take().filter(|known| Arc::ptr_eq(&known.0, array.values()));
        let (values, texts) = match known {
            Some(known) => known,
            None => {
                let texts = array.values().as_string_opt::<i32>()?;
                let names = texts.iter().map(|text| text.map(|text| names.intern(text)));
                (array.values().clone(), names.collect())
            }
        };
        let keys = array.keys();
        let text = |key: i32| texts.get(usize::try_from(key).ok()?).copied()?.map(Scalar::to_raw);
        let all: Option<Vec<i64>> = match keys.null_count() {
            0 => keys.values().iter().map(|key| text(*key)).collect(),
            _ => None,
        };
        let column = all.map_or_else(
            || {
                let cell = |row| text(keys.is_valid(row).then(|| keys.value(row))?);
                let mut column = ColumnValues::default();
                column.extend((0..keys.len()).map(cell));
                column
            },
            |values| ColumnValues::each(values, Vec::new()),
        );
        self.dictionary = Some((values, texts));
        Some(column)
    }
}

/// `values`, of which those are null that `array` marks.
fn each(array: &dyn Array, values: impl Iterator<Item = i64>) -> ColumnValues {
    match array.nulls().filter(|nulls| nulls.null_count() > 0) {
        None => ColumnValues::each(values.collect(), Vec::new()),
        Some(nulls) => {
            let valid: Vec<bool> = nulls.iter().collect();
            let cells = values.zip(&valid).map(|(value, valid)| if *valid { value } else { 0 });
            ColumnValues::each(cells.collect(), valid)
        }
    }
}

fn integers(array: &ArrayRef) -> Option<ColumnValues> {
    macro_rules! any_of {
        ($($type:ty),*) => {
            match array.data_type() {
                $( found if *found == <$type>::DATA_TYPE => {
                    let found = array.as_primitive_opt::<$type>()?;
                    Some(each(array, found.values().iter().map(|value| *value as i64)))
                } )*
                _ => None,
            }
        };
    }
    any_of!(
        Int64Type, Int32Type, UInt64Type, UInt32Type, Int16Type, UInt16Type, Int8Type, UInt8Type
    )
}

fn lists(array: &ArrayRef, names: &mut Names) -> Option<ColumnValues> {
    let mut column = ColumnValues::default();
    for list in array.as_list_opt::<i32>()?.iter() {
        let list = list.unwrap_or_else(|| arrow_array::new_empty_array(&DataType::Utf8));
        let texts = list.as_string_opt::<i32>()?;
        column.push_list(texts.iter().flatten().map(|text| names.intern(text).to_raw()));
    }
    Some(column)
}
