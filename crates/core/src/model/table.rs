//! `table!`: one line per column yields the struct's field, its storage, the Parquet schema, the
//! reader, the writer, the reference page and the headings.
//!
//! What does not belong here: Arrow and Parquet (see [`crate::recording`]).

use super::names::Name;

/// What one column stores.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A signed 64-bit integer. Unsigned values are stored as signed so that SQL can subtract them.
    Integer,
    /// A 64-bit float.
    Float,
    /// True or false.
    Flag,
    /// A text from [`super::Names`], dictionary-encoded on disk.
    Text,
    /// A list of texts.
    Texts,
}

/// The unit of a column's values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// No unit: identifiers, names, flags.
    None,
    /// Nanoseconds: a length of time, or CLOCK_MONOTONIC where the column is a time.
    Nanoseconds,
    /// Bytes.
    Bytes,
    /// Sectors of 512 bytes, whatever the device's own sector size.
    Sectors,
    /// A count.
    Count,
    /// A share from 0 to 1.
    Share,
}

impl Unit {
    /// The unit as written in documentation: `ns`, `B`, `512 B`, `1`, `0..1` or nothing.
    pub fn symbol(self) -> &'static str {
        match self {
            Unit::None => "",
            Unit::Nanoseconds => "ns",
            Unit::Bytes => "B",
            Unit::Sectors => "512 B",
            Unit::Count => "count",
            Unit::Share => "0..1",
        }
    }
}

/// What is known of a column without any row.
#[derive(Clone, Copy, Debug)]
pub struct ColumnInfo {
    /// The column's name: an interface, since people write SQL on it.
    pub name: &'static str,
    /// What it stores.
    pub kind: Kind,
    /// Whether a row may lack it.
    pub nullable: bool,
    /// The unit of its values.
    pub unit: Unit,
    /// One sentence for whoever reads the recording.
    pub sentence: &'static str,
}

/// The values of one column for many rows.
#[derive(Clone, Debug, Default)]
pub struct Column {
    /// Integers, flags (0 or 1), name indexes, or float bits; for lists, all lists' items in a row.
    pub values: Vec<i64>,
    /// Which rows hold a value; empty when all do.
    pub valid: Vec<bool>,
    /// For lists only: where each row's items end in `values`.
    pub ends: Vec<usize>,
    /// How many rows hold none.
    pub nulls: usize,
}

impl Column {
    /// Adds a row that holds `value`.
    #[inline]
    pub fn push(&mut self, value: i64) {
        if self.nulls > 0 {
            self.valid.push(true);
        }
        self.values.push(value);
    }

    /// Adds a row that holds nothing.
    #[inline]
    pub fn push_null(&mut self) {
        if self.nulls == 0 {
            self.valid.resize(self.values.len(), true);
        }
        self.nulls += 1;
        self.valid.push(false);
        self.values.push(0);
    }

    /// Whether `row` holds a value.
    #[inline]
    pub fn is_valid(&self, row: usize) -> bool {
        self.nulls == 0 || self.valid.get(row).copied().unwrap_or(false)
    }

    /// The raw value of `row`.
    #[inline]
    pub fn raw(&self, row: usize) -> Option<i64> {
        if self.is_valid(row) { self.values.get(row).copied() } else { None }
    }

    /// Forgets every row and keeps the memory.
    pub fn clear(&mut self) {
        self.values.clear();
        self.valid.clear();
        self.ends.clear();
        self.nulls = 0;
    }
}

/// A type that a column can hold.
pub trait Cell: Sized {
    /// What is stored.
    const KIND: Kind;
    /// Whether a row may lack it.
    const NULLABLE: bool = false;
    /// Adds `self` as a row.
    fn put(&self, column: &mut Column);
    /// Reads a row back; `None` where the row holds nothing or nothing that fits.
    fn take(column: &Column, row: usize) -> Option<Self>;
}

macro_rules! integer_cells {
    ($($type:ty),*) => {$(
        impl Cell for $type {
            const KIND: Kind = Kind::Integer;
            #[inline]
            fn put(&self, column: &mut Column) {
                column.push(*self as i64);
            }
            #[inline]
            fn take(column: &Column, row: usize) -> Option<Self> {
                column.raw(row).map(|value| value as $type)
            }
        }
    )*};
}
integer_cells!(u64, i64, u32, i32);

impl Cell for bool {
    const KIND: Kind = Kind::Flag;
    #[inline]
    fn put(&self, column: &mut Column) {
        column.push(i64::from(*self));
    }
    #[inline]
    fn take(column: &Column, row: usize) -> Option<Self> {
        column.raw(row).map(|value| value != 0)
    }
}

impl Cell for f64 {
    const KIND: Kind = Kind::Float;
    #[inline]
    fn put(&self, column: &mut Column) {
        column.push(self.to_bits() as i64);
    }
    #[inline]
    fn take(column: &Column, row: usize) -> Option<Self> {
        column.raw(row).map(|value| f64::from_bits(value as u64))
    }
}

impl Cell for Name {
    const KIND: Kind = Kind::Text;
    #[inline]
    fn put(&self, column: &mut Column) {
        column.push(self.index() as i64);
    }
    #[inline]
    fn take(column: &Column, row: usize) -> Option<Self> {
        column.raw(row).map(|value| Name::from_index(value as usize))
    }
}

impl Cell for Vec<Name> {
    const KIND: Kind = Kind::Texts;
    fn put(&self, column: &mut Column) {
        column.values.extend(self.iter().map(|name| name.index() as i64));
        column.ends.push(column.values.len());
    }
    fn take(column: &Column, row: usize) -> Option<Self> {
        let end = *column.ends.get(row)?;
        let start = if row == 0 { 0 } else { *column.ends.get(row - 1)? };
        let items = column.values.get(start..end)?;
        Some(items.iter().map(|value| Name::from_index(*value as usize)).collect())
    }
}

impl<T: Cell> Cell for Option<T> {
    const KIND: Kind = T::KIND;
    const NULLABLE: bool = true;
    #[inline]
    fn put(&self, column: &mut Column) {
        match self {
            Some(value) => value.put(column),
            None => column.push_null(),
        }
    }
    #[inline]
    fn take(column: &Column, row: usize) -> Option<Self> {
        Some(T::take(column, row))
    }
}

/// A table of a recording: what `table!` implements.
pub trait Table: Sized {
    /// The folder of the recording that holds its segments.
    const NAME: &'static str;
    /// One sentence for whoever reads the recording.
    const SENTENCE: &'static str;
    /// Its columns, in order.
    const COLUMNS: &'static [ColumnInfo];
    /// Adds `self` as a row to `columns`, which has one entry for each of [`Table::COLUMNS`].
    fn put(&self, columns: &mut [Column]);
    /// Reads a row back; `None` where a column that may not be null holds nothing.
    fn take(columns: &[Column], row: usize) -> Option<Self>;
}

/// The rows of one table, column by column.
#[derive(Clone, Debug)]
pub struct Columns {
    columns: Vec<Column>,
    rows: usize,
}

impl Columns {
    /// No rows of `T`.
    pub fn of<T: Table>() -> Columns {
        Columns { columns: vec![Column::default(); T::COLUMNS.len()], rows: 0 }
    }

    /// The rows that `columns` hold, each of them `rows` long.
    pub fn from_parts(columns: Vec<Column>, rows: usize) -> Columns {
        Columns { columns, rows }
    }

    /// Adds a row.
    #[inline]
    pub fn push<T: Table>(&mut self, row: &T) {
        row.put(&mut self.columns);
        self.rows += 1;
    }

    /// Reads a row back.
    pub fn get<T: Table>(&self, row: usize) -> Option<T> {
        T::take(&self.columns, row)
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// The columns, in the order of [`Table::COLUMNS`].
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Forgets every row and keeps the memory.
    pub fn clear(&mut self) {
        self.columns.iter_mut().for_each(Column::clear);
        self.rows = 0;
    }
}

/// Defines a table of a recording: `name: Type [Unit] "sentence."` is a column.
#[macro_export]
macro_rules! table {
    (
        $(#[doc = $doc:literal])+
        pub struct $table:ident in $folder:literal {
            $( $field:ident : $type:ty [$unit:ident] $sentence:literal ),+ $(,)?
        }
    ) => {
        $(#[doc = $doc])+
        #[derive(Clone, Debug, PartialEq)]
        pub struct $table {
            $( #[doc = $sentence] pub $field: $type ),+
        }

        impl $crate::model::table::Table for $table {
            const NAME: &'static str = $folder;
            const SENTENCE: &'static str = concat!($($doc, "\n"),+);
            const COLUMNS: &'static [$crate::model::table::ColumnInfo] = &[
                $( $crate::model::table::ColumnInfo {
                    name: stringify!($field),
                    kind: <$type as $crate::model::table::Cell>::KIND,
                    nullable: <$type as $crate::model::table::Cell>::NULLABLE,
                    unit: $crate::model::table::Unit::$unit,
                    sentence: $sentence,
                } ),+
            ];

            #[inline]
            fn put(&self, columns: &mut [$crate::model::table::Column]) {
                let mut columns = columns.iter_mut();
                $( if let Some(column) = columns.next() {
                    $crate::model::table::Cell::put(&self.$field, column);
                } )+
            }

            fn take(columns: &[$crate::model::table::Column], row: usize) -> Option<Self> {
                let mut columns = columns.iter();
                Some($table {
                    $( $field: <$type as $crate::model::table::Cell>::take(columns.next()?, row)?, )+
                })
            }
        }
    };
}
