//! One column chunk of a segment, read a few thousand rows at a time.
//!
//! What does not belong here: which chunks are read (see [`super::cursor`]).

use super::error::{ErrorCause, Problem};
use super::texts::{TextCellReader, spread};
use crate::Names;
use crate::table::{ColumnKind, ColumnValues, Scalar};
use parquet::basic::{ConvertedType, LogicalType, Type as Physical};
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::column::reader::{ColumnReader, get_column_reader};
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::reader::RowGroupReader;
use parquet::schema::types::{ColumnDescriptor, SchemaDescriptor};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The type of a column in a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum FoundType {
    /// Integers of this name; unsigned ones of 32 bits have no sign.
    Integer(String, Sign),
    Double,
    Boolean,
    Text,
    Texts,
    /// Anything else, by name.
    Other(String),
}

/// Whether the highest bit of 32 is a sign.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sign {
    Signed,
    Unsigned,
}

impl FoundType {
    /// The type of the field `root` of a file, and the leaf that holds it; `None` for a group of
    /// several.
    pub fn new(schema: &SchemaDescriptor, root: usize) -> (FoundType, Option<usize>) {
        let of_root = |leaf: &usize| schema.get_column_root_idx(*leaf) == root;
        let leaves: Vec<usize> = (0..schema.num_columns()).filter(of_root).collect();
        let [leaf] = leaves[..] else { return (FoundType::Other("Struct".to_owned()), None) };
        let column = schema.column(leaf);
        let is_flat = column.path().parts().len() == 1;
        let found = match (FoundType::of_leaf(&column), column.max_rep_level()) {
            (found, 0) if is_flat => found,
            (FoundType::Text, 1) => FoundType::Texts,
            (_, 0) => FoundType::Other("Struct".to_owned()),
            _ => FoundType::Other("List".to_owned()),
        };
        (found, Some(leaf))
    }

    fn of_leaf(column: &ColumnDescriptor) -> FoundType {
        let (logical, converted) = (column.logical_type_ref(), column.converted_type());
        let is_text =
            matches!(logical, Some(LogicalType::String | LogicalType::Enum | LogicalType::Json))
                || matches!(
                    converted,
                    ConvertedType::UTF8 | ConvertedType::ENUM | ConvertedType::JSON
                );
        let number = |bits| match (logical, converted) {
            (None, ConvertedType::NONE) => Some((bits, true)),
            (Some(LogicalType::Integer(about)), _) => {
                Some((i32::from(about.bit_width), about.is_signed))
            }
            (None, ConvertedType::INT_8) => Some((8, true)),
            (None, ConvertedType::INT_16) => Some((16, true)),
            (None, ConvertedType::INT_32) => Some((32, true)),
            (None, ConvertedType::INT_64) => Some((64, true)),
            (None, ConvertedType::UINT_8) => Some((8, false)),
            (None, ConvertedType::UINT_16) => Some((16, false)),
            (None, ConvertedType::UINT_32) => Some((32, false)),
            (None, ConvertedType::UINT_64) => Some((64, false)),
            _ => None,
        };
        let integer = match column.physical_type() {
            Physical::INT32 => number(32),
            Physical::INT64 => number(64),
            Physical::BOOLEAN => return FoundType::Boolean,
            Physical::DOUBLE => return FoundType::Double,
            Physical::BYTE_ARRAY if is_text => return FoundType::Text,
            _ => None,
        };
        match integer {
            Some((bits, true)) => FoundType::Integer(format!("Int{bits}"), Sign::Signed),
            Some((bits, false)) => FoundType::Integer(format!("UInt{bits}"), Sign::Unsigned),
            None => FoundType::Other(match logical {
                Some(logical) => format!("{logical:?}"),
                None => column.physical_type().to_string(),
            }),
        }
    }

    /// Whether a column of `kind` can be read from it.
    pub fn fits(&self, kind: ColumnKind) -> bool {
        match kind {
            ColumnKind::Integer => matches!(self, FoundType::Integer(..)),
            ColumnKind::Float => *self == FoundType::Double,
            ColumnKind::Flag => *self == FoundType::Boolean,
            ColumnKind::Text => *self == FoundType::Text,
            ColumnKind::Texts => *self == FoundType::Texts,
        }
    }

    /// Returns the type's name in messages.
    pub fn name(&self) -> &str {
        match self {
            FoundType::Integer(name, _) | FoundType::Other(name) => name,
            FoundType::Double => "Float64",
            FoundType::Boolean => "Boolean",
            FoundType::Text => "Utf8",
            FoundType::Texts => "List(Utf8)",
        }
    }
}

/// Texts of all lists of one row group; the writer ends a group long before.
const MOST_IN_GROUP: u64 = 1 << 21;
/// Texts of one list: a stack has some hundred functions.
const MOST_IN_LIST: usize = 1 << 12;
/// Texts of all lists of a recording, some 50 bytes of memory each.
const MOST_IN_RECORDING: u64 = 1 << 22;

/// The number of texts that the lists of a recording may still have. A kilobyte can claim a hundred
/// million of them, so they are counted before they are decoded.
#[derive(Clone)]
pub(super) struct ListAllowance(Arc<AtomicU64>);

impl Default for ListAllowance {
    fn default() -> ListAllowance {
        ListAllowance(Arc::new(AtomicU64::new(MOST_IN_RECORDING)))
    }
}

impl ListAllowance {
    fn take(&self, count: u64) -> bool {
        let less = |left: u64| left.checked_sub(count);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }
}

/// The pages of a column of lists, which ends where there are too many texts.
struct BoundedPages {
    pages: Box<dyn PageReader>,
    read: u64,
    allowance: ListAllowance,
}

impl PageReader for BoundedPages {
    fn get_next_page(&mut self) -> parquet::errors::Result<Option<Page>> {
        let page = self.pages.get_next_page()?;
        if let Some(Page::DataPage { num_values, .. } | Page::DataPageV2 { num_values, .. }) = &page
        {
            self.read += u64::from(*num_values);
            if self.read > MOST_IN_GROUP || !self.allowance.take(u64::from(*num_values)) {
                let why = "its lists have more texts than iowhy keeps";
                return Err(ParquetError::General(why.to_owned()));
            }
        }
        Ok(page)
    }

    fn peek_next_page(&mut self) -> parquet::errors::Result<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> parquet::errors::Result<()> {
        self.pages.skip_next_page()
    }

    fn supports_deferred_dictionary(&self) -> bool {
        self.pages.supports_deferred_dictionary()
    }

    fn take_deferred_dictionary(&mut self) -> parquet::errors::Result<Option<Page>> {
        self.pages.take_deferred_dictionary()
    }

    fn at_record_boundary(&mut self) -> parquet::errors::Result<bool> {
        self.pages.at_record_boundary()
    }
}

impl Iterator for BoundedPages {
    type Item = parquet::errors::Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

/// Reads a chunk. A step takes at most some hundred bytes of memory for each of its rows, and 80
/// for each of at most [`MOST_IN_GROUP`] texts of lists.
pub(super) struct ChunkCells {
    reader: CellReader,
    sign: Sign,
    /// The level of a value that is there; 0 if no row can be null.
    level: i16,
}

enum CellReader {
    Texts(TextCellReader),
    Other(Box<ColumnReader>),
}

impl ChunkCells {
    /// The chunk of the column `leaf` of a row group, which holds `found`.
    pub fn open(
        group: &dyn RowGroupReader,
        leaf: usize,
        found: &FoundType,
        lists: &ListAllowance,
    ) -> Result<ChunkCells, Problem> {
        let chunk = group.metadata().column(leaf);
        let level = chunk.column_descr().max_def_level();
        let sign = if let FoundType::Integer(_, sign) = found { *sign } else { Sign::Signed };
        let reader = if *found == FoundType::Text && TextCellReader::reads(chunk) {
            CellReader::Texts(TextCellReader::new(group.get_column_page_reader(leaf)?, level > 0))
        } else if *found == FoundType::Texts {
            let pages = group.get_column_page_reader(leaf)?;
            let pages = BoundedPages { pages, read: 0, allowance: lists.clone() };
            let reader = get_column_reader(chunk.column_descr_ptr(), Box::new(pages));
            CellReader::Other(Box::new(reader))
        } else {
            CellReader::Other(Box::new(group.get_column_reader(leaf)?))
        };
        Ok(ChunkCells { reader, sign, level })
    }

    /// The next `rows` rows.
    pub fn read(&mut self, rows: usize, names: &mut Names) -> Result<ColumnValues, Problem> {
        let (mut values, mut valid) = (Vec::with_capacity(rows), Vec::new());
        let mut levels = Vec::new();
        let definitions = (self.level > 0).then_some(&mut levels);
        let read = match &mut self.reader {
            CellReader::Texts(reader) => reader.read(rows, names, &mut values, &mut valid)?,
            CellReader::Other(reader) => match &mut **reader {
                ColumnReader::Int64ColumnReader(reader) => {
                    reader.read_records(rows, definitions, None, &mut values)?.0
                }
                ColumnReader::Int32ColumnReader(reader) => {
                    let mut small: Vec<i32> = Vec::with_capacity(rows);
                    let (read, ..) = reader.read_records(rows, definitions, None, &mut small)?;
                    let is_signed = self.sign == Sign::Signed;
                    let wide = |number: i32| {
                        if is_signed { i64::from(number) } else { (number as u32).into() }
                    };
                    values.extend(small.into_iter().map(wide));
                    read
                }
                ColumnReader::DoubleColumnReader(reader) => {
                    let mut floats: Vec<f64> = Vec::with_capacity(rows);
                    let (read, ..) = reader.read_records(rows, definitions, None, &mut floats)?;
                    values.extend(floats.into_iter().map(Scalar::to_raw));
                    read
                }
                ColumnReader::BoolColumnReader(reader) => {
                    let mut flags: Vec<bool> = Vec::with_capacity(rows);
                    let (read, ..) = reader.read_records(rows, definitions, None, &mut flags)?;
                    values.extend(flags.into_iter().map(Scalar::to_raw));
                    read
                }
                ColumnReader::ByteArrayColumnReader(reader) => {
                    let mut texts: Vec<ByteArray> = Vec::with_capacity(rows);
                    let (read, ..) = reader.read_records(rows, definitions, None, &mut texts)?;
                    for text in texts {
                        values.push(names.intern(text.as_utf8()?).to_raw());
                    }
                    read
                }
                _ => 0,
            },
        };
        if read != rows {
            return Err(ErrorCause::Content("its columns have different lengths".into()).into());
        }
        if self.level > 0 && valid.is_empty() {
            valid.extend(levels.iter().map(|level| *level == self.level));
            spread(&mut values, 0, &valid);
        }
        if !valid.contains(&false) {
            valid.clear();
        }
        Ok(ColumnValues::each(values, valid))
    }

    /// The next `rows` lists of texts; a list that is null is empty.
    pub fn lists(&mut self, rows: usize, names: &mut Names) -> Result<ColumnValues, Problem> {
        let (mut texts, mut levels, mut starts) = (Vec::new(), Vec::new(), Vec::new());
        let read = match &mut self.reader {
            CellReader::Other(reader) => match &mut **reader {
                ColumnReader::ByteArrayColumnReader(reader) => {
                    let levels = (self.level > 0).then_some(&mut levels);
                    reader.read_records(rows, levels, Some(&mut starts), &mut texts)?.0
                }
                _ => 0,
            },
            CellReader::Texts(_) => 0,
        };
        if read != rows {
            return Err(ErrorCause::Content("its columns have different lengths".into()).into());
        }
        let mut column = ColumnValues::default();
        let (mut list, mut texts) = (Vec::new(), texts.iter());
        for (index, start) in starts.iter().enumerate() {
            if *start == 0 && index > 0 {
                column.push_list(list.drain(..));
            }
            if levels.get(index) == Some(&self.level)
                && let Some(text) = texts.next()
            {
                if list.len() == MOST_IN_LIST {
                    let why = format!("a list of its has more than {MOST_IN_LIST} texts");
                    return Err(ErrorCause::Content(why).into());
                }
                list.push(names.intern(text.as_utf8()?).to_raw());
            }
        }
        if !starts.is_empty() {
            column.push_list(list.drain(..));
        }
        Ok(column)
    }
}
