//! One segment's rows, a few thousand at a time, as columns.
//!
//! Columns are found by name, so that a segment with more of them, or with fewer that may be null,
//! reads as well; one that another program rewrote does too, if it kept names and types.
//!
//! What does not belong here: which segment comes next (see [`super::reader`]).

use super::cells::{ChunkCells, FoundType, ListAllowance};
use super::error::{ErrorCause, Problem, RecordingError};
use super::segment::is_whole;
use super::statistics;
use super::tables::TableInfo;
use crate::Names;
use crate::table::{ColumnInfo, ColumnKind, ColumnValues, Columns};
use iowhy_fs::read;
use parquet::basic::CompressionCodec;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::schema::types::SchemaDescriptor;
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// Rows that are read together: enough to share the cost of a step, few enough to stay small.
const TOGETHER: usize = 4 << 10;
/// The most rows that a byte of a segment can hold, and rows that are taken beyond that. A row that
/// iowhy writes needs five bytes and more; identical ones cost nothing to claim and as much as any
/// others to read.
const ROWS_PER_BYTE: u64 = 8;
const ROWS_OF_ANY_SIZE: u64 = 64 << 10;

/// The largest footer, which lists the row groups, bytes: memory for it is ten times as much, and
/// each table has one open. Eighty million rows of a file that DuckDB wrote are within.
const MOST_FOOTER: u32 = 2 << 20;

/// Reads one segment from its first row to its last.
pub(super) struct Cursor {
    file: SerializedFileReader<File>,
    columns: Vec<ColumnReading>,
    lists: ListAllowance,
    /// The next row group, and the rows that are left of the one before.
    group: usize,
    left: usize,
    /// Bytes of the segment, and rows that were read.
    bytes: u64,
    rows: u64,
}

/// The way to read one column.
struct ColumnReading {
    info: &'static ColumnInfo,
    /// The column's type in the file, and its leaf; `None` if the file does not have the column.
    found: Option<(FoundType, usize)>,
    cells: GroupCells,
}

/// The cells of a column in one group.
enum GroupCells {
    /// Every row holds this.
    Same(Option<i64>),
    /// The cells have to be read.
    Chunk(Box<ChunkCells>),
}

impl Cursor {
    /// Opens the segment `path` of `table`; `None` where there is none.
    pub(super) fn open(
        path: &Path,
        table: &TableInfo,
        lists: &ListAllowance,
    ) -> Result<Option<Cursor>, Problem> {
        let file = match read::open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            // A directory, a pipe or a device: the other segments are worth reading.
            Err(error)
                if matches!(error.kind(), ErrorKind::IsADirectory | ErrorKind::InvalidInput) =>
            {
                return Err(Problem::Damaged(error.into()));
            }
            file => file.map_err(|error| Problem::Refused(RecordingError::read(path, error)))?,
        };
        if !is_whole(&file)? {
            return Err(ErrorCause::Content("it is not as it was written".to_owned()).into());
        }
        check_footer(&file)?;
        guarded(|| {
            let bytes = file.metadata()?.len();
            let file = SerializedFileReader::new(file)?;
            check_rows(&file, bytes)?;
            let schema = file.metadata().file_metadata().schema_descr();
            let columns = table.columns.iter().map(|info| reading(info, schema, path));
            let columns: Vec<_> = columns.collect::<Result<_, _>>().map_err(Problem::Refused)?;
            refuse_codecs(&columns, &file, path).map_err(Problem::Refused)?;
            let lists = lists.clone();
            Ok(Some(Cursor { file, columns, lists, group: 0, left: 0, bytes, rows: 0 }))
        })
    }

    /// The next rows; `None` behind the last. After a problem the cursor is of no more use.
    pub(super) fn next(&mut self, names: &mut Names) -> Result<Option<Columns>, Problem> {
        guarded(|| {
            while self.left == 0 {
                if self.group == self.file.metadata().num_row_groups() {
                    return Ok(None);
                }
                self.open_group(names)?;
                self.group += 1;
            }
            let rows = self.left.min(TOGETHER);
            let columns = self.columns.iter_mut().map(|reading| reading.read(rows, names));
            let columns = Columns::from_parts(columns.collect::<Result<_, _>>()?, rows);
            self.left -= rows;
            self.rows += rows as u64;
            Ok(Some(columns))
        })
    }

    /// Bytes of the rows that are left, by their share of all.
    pub(super) fn unread_bytes(&self) -> u64 {
        let all = u64::try_from(self.file.metadata().file_metadata().num_rows()).unwrap_or(0);
        let left = all.saturating_sub(self.rows) as f64 / all.max(1) as f64;
        (self.bytes as f64 * left) as u64
    }

    /// Groups are read one by one: each has dictionaries of its own.
    fn open_group(&mut self, names: &mut Names) -> Result<(), Problem> {
        let group = self.file.get_row_group(self.group)?;
        for reading in &mut self.columns {
            reading.cells = match &reading.found {
                None => GroupCells::Same(None),
                Some((found, leaf)) => {
                    let chunk = group.metadata().column(*leaf);
                    match statistics::same(chunk, reading.info.kind, names) {
                        Some(cell) => GroupCells::Same(cell),
                        None => {
                            let cells = ChunkCells::open(&*group, *leaf, found, &self.lists)?;
                            GroupCells::Chunk(Box::new(cells))
                        }
                    }
                }
            };
        }
        self.left = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
        Ok(())
    }
}

impl ColumnReading {
    fn read(&mut self, rows: usize, names: &mut Names) -> Result<ColumnValues, Problem> {
        match &mut self.cells {
            GroupCells::Same(cell) => Ok(ColumnValues::same(*cell, rows)),
            GroupCells::Chunk(chunk) if self.info.kind == ColumnKind::Texts => {
                chunk.lists(rows, names)
            }
            GroupCells::Chunk(chunk) => chunk.read(rows, names),
        }
    }
}

/// The crate that reads Parquet can panic on files that are made for that: a
/// panic in it is a damaged segment, not the end of the report.
fn guarded<T>(work: impl FnOnce() -> Result<T, Problem>) -> Result<T, Problem> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        Err(ErrorCause::Content("the Parquet library failed on it".to_owned()).into())
    })
}

/// Refuses a segment whose footer would take too much memory, before it is decoded.
fn check_footer(mut file: &File) -> Result<(), ErrorCause> {
    let mut tail = [0; 8];
    if file.seek(SeekFrom::End(-8)).is_err() || file.read_exact(&mut tail).is_err() {
        return Err(ErrorCause::Content("it is cut short".to_owned()));
    }
    let [a, b, c, d, ..] = tail;
    let footer = u32::from_le_bytes([a, b, c, d]);
    if footer > MOST_FOOTER {
        let why = format!(
            "its list of row groups has {footer} bytes, of which {MOST_FOOTER} are read; write it \
             in groups of a million rows"
        );
        return Err(ErrorCause::Content(why));
    }
    Ok(())
}

/// Refuses a segment of so many `bytes` that claims more rows than can be in it: time to read it
/// would have no bound.
fn check_rows(file: &SerializedFileReader<File>, bytes: u64) -> Result<(), ErrorCause> {
    let groups = file.metadata().row_groups().iter();
    let claimed = groups.map(|group| u64::try_from(group.num_rows()).unwrap_or(u64::MAX));
    let rows = claimed.fold(0, u64::saturating_add);
    if rows > bytes.saturating_mul(ROWS_PER_BYTE).saturating_add(ROWS_OF_ANY_SIZE) {
        return Err(ErrorCause::Content(format!("it claims {rows} rows in {bytes} bytes")));
    }
    Ok(())
}

/// Refuses codecs that this build cannot decompress: read as damage, they would be lost rows.
fn refuse_codecs(
    columns: &[ColumnReading],
    file: &SerializedFileReader<File>,
    path: &Path,
) -> Result<(), RecordingError> {
    for group in file.metadata().row_groups() {
        for ColumnReading { info, found, .. } in columns {
            let Some((_, leaf)) = found else { continue };
            let codec = group.column(*leaf).compression_codec();
            let is_read = matches!(
                codec,
                CompressionCodec::UNCOMPRESSED | CompressionCodec::SNAPPY | CompressionCodec::ZSTD
            );
            if !is_read {
                let why = format!(
                    "is compressed by {codec:?}, which iowhy does not read; in DuckDB: COPY (FROM \
                     'FILE') TO 'FILE' (FORMAT parquet, COMPRESSION zstd)"
                );
                return Err(RecordingError::Column { path: path.into(), column: info.name, why });
            }
        }
    }
    Ok(())
}

fn reading(
    info: &'static ColumnInfo,
    schema: &SchemaDescriptor,
    path: &Path,
) -> Result<ColumnReading, RecordingError> {
    let wrong = |why| RecordingError::Column { path: path.into(), column: info.name, why };
    let fields = schema.root_schema().get_fields();
    let root = fields.iter().position(|field| field.name() == info.name);
    let found = root.map(|root| FoundType::new(schema, root));
    let found = match found {
        None if !info.nullable => return Err(wrong("is missing".to_owned())),
        None => None,
        Some((found, Some(leaf))) if found.fits(info.kind) => Some((found, leaf)),
        Some((found, _)) => {
            return Err(wrong(format!("holds {}, not {}", found.name(), info.kind.sql())));
        }
    };
    Ok(ColumnReading { info, found, cells: GroupCells::Same(None) })
}
