//! `table!`: one line per column yields the struct's field, its storage, the Parquet schema, the
//! reader, the writer, the reference page and the headings.
//!
//! What does not belong here: Arrow and Parquet (see [`crate::recording`]).

use super::names::Name;

pub use super::column::{ColumnBound, ColumnCells, ColumnValues};

/// The storage type of a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ColumnKind {
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

impl ColumnKind {
    /// The type's name in SQL.
    pub fn sql(self) -> &'static str {
        match self {
            ColumnKind::Integer => "BIGINT",
            ColumnKind::Float => "DOUBLE",
            ColumnKind::Flag => "BOOLEAN",
            ColumnKind::Text => "VARCHAR",
            ColumnKind::Texts => "VARCHAR[]",
        }
    }
}

/// The unit of a column's values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// No unit: identifiers, names, flags.
    None,
    /// Nanoseconds: a duration, or CLOCK_MONOTONIC if the column is a time.
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

/// The definition of a column.
#[derive(Clone, Copy, Debug)]
pub struct ColumnInfo {
    /// The column's name: an interface, since people write SQL on it.
    pub name: &'static str,
    /// The column's storage type.
    pub kind: ColumnKind,
    /// Whether a row may lack it.
    pub nullable: bool,
    /// The unit of its values.
    pub unit: Unit,
    /// One sentence for readers of the recording.
    pub sentence: &'static str,
}

/// A type that a column can hold.
pub trait ColumnType: Sized {
    /// The storage type.
    const KIND: ColumnKind;
    /// Whether a row may lack it.
    const NULLABLE: bool = false;
    /// The value in a blank row: null, zero, false, the empty text, the first word of an enum.
    fn blank() -> Self;
    /// Adds `cells` as rows.
    fn put<'a>(cells: impl ExactSizeIterator<Item = &'a Self> + Clone, column: &mut ColumnValues)
    where
        Self: 'a;
    /// Reads a row; `None` if it is null or does not fit the type.
    fn take(column: &ColumnValues, row: usize) -> Option<Self>;
    /// Reads one row after the other, from `first` on, into `fields`; false if one of them does not
    /// fit the type.
    #[inline]
    fn fill<'a>(
        column: &ColumnValues,
        first: usize,
        fields: impl Iterator<Item = &'a mut Self>,
    ) -> bool
    where
        Self: 'a,
    {
        fields.zip(first..).all(|(field, row)| match Self::take(column, row) {
            Some(value) => {
                *field = value;
                true
            }
            None => false,
        })
    }
    /// Replaces each name that it holds.
    fn rename(&mut self, by: &mut impl FnMut(Name) -> Name);
}

/// A type with one value per row: its conversion to an integer and back.
pub trait Scalar: Copy {
    /// The storage type.
    const KIND: ColumnKind;
    /// The value of a blank row.
    const BLANK: Self;
    /// Returns the value as an integer.
    fn to_raw(self) -> i64;
    /// The value of the integer `raw`; `None` if it has none.
    fn from_raw(raw: i64) -> Option<Self>;
    /// Returns the value with its name replaced; a value that is no name stays.
    #[inline]
    #[must_use]
    fn renamed(self, _by: &mut impl FnMut(Name) -> Name) -> Self {
        self
    }
}

impl<T: Scalar> ColumnType for T {
    const KIND: ColumnKind = T::KIND;
    #[inline]
    fn blank() -> Self {
        T::BLANK
    }
    #[inline]
    fn put<'a>(cells: impl ExactSizeIterator<Item = &'a Self> + Clone, column: &mut ColumnValues)
    where
        Self: 'a,
    {
        column.extend(cells.map(|cell| Some(cell.to_raw())));
    }
    #[inline]
    fn take(column: &ColumnValues, row: usize) -> Option<Self> {
        column.get(row).and_then(T::from_raw)
    }
    #[inline]
    fn fill<'a>(
        column: &ColumnValues,
        first: usize,
        fields: impl Iterator<Item = &'a mut Self>,
    ) -> bool
    where
        Self: 'a,
    {
        let (values, valid) = column.rows_from(first);
        let mut fits = valid.iter().all(|valid| *valid);
        for (field, raw) in fields.zip(values) {
            match T::from_raw(*raw) {
                Some(value) => *field = value,
                None => fits = false,
            }
        }
        fits
    }
    #[inline]
    fn rename(&mut self, by: &mut impl FnMut(Name) -> Name) {
        *self = self.renamed(by);
    }
}

impl<T: Scalar> ColumnType for Option<T> {
    const KIND: ColumnKind = T::KIND;
    const NULLABLE: bool = true;
    #[inline]
    fn blank() -> Self {
        None
    }
    #[inline]
    fn put<'a>(cells: impl ExactSizeIterator<Item = &'a Self> + Clone, column: &mut ColumnValues)
    where
        Self: 'a,
    {
        column.extend(cells.map(|cell| cell.map(T::to_raw)));
    }
    #[inline]
    fn take(column: &ColumnValues, row: usize) -> Option<Self> {
        Some(column.get(row).and_then(T::from_raw))
    }
    #[inline]
    fn fill<'a>(
        column: &ColumnValues,
        first: usize,
        fields: impl Iterator<Item = &'a mut Self>,
    ) -> bool
    where
        Self: 'a,
    {
        let (values, valid) = column.rows_from(first);
        if valid.is_empty() {
            fields.zip(values).for_each(|(field, raw)| *field = T::from_raw(*raw));
        } else {
            for ((field, raw), valid) in fields.zip(values).zip(valid) {
                *field = if *valid { T::from_raw(*raw) } else { None };
            }
        }
        true
    }
    #[inline]
    fn rename(&mut self, by: &mut impl FnMut(Name) -> Name) {
        *self = self.map(|value| value.renamed(by));
    }
}

impl ColumnType for Vec<Name> {
    const KIND: ColumnKind = ColumnKind::Texts;
    fn blank() -> Self {
        Vec::new()
    }
    fn put<'a>(cells: impl ExactSizeIterator<Item = &'a Self> + Clone, column: &mut ColumnValues) {
        cells.for_each(|names| column.push_list(names.iter().map(|name| name.to_raw())));
    }
    fn take(column: &ColumnValues, row: usize) -> Option<Self> {
        column.list(row)?.iter().map(|raw| Name::from_raw(*raw)).collect()
    }
    fn rename(&mut self, by: &mut impl FnMut(Name) -> Name) {
        self.iter_mut().for_each(|name| *name = by(*name));
    }
}

macro_rules! integers {
    ($($type:ty: $from:expr),* $(,)?) => {$(
        impl Scalar for $type {
            const KIND: ColumnKind = ColumnKind::Integer;
            const BLANK: Self = 0;
            #[inline]
            fn to_raw(self) -> i64 {
                self as i64
            }
            #[inline]
            fn from_raw(raw: i64) -> Option<Self> {
                $from(raw)
            }
        }
    )*};
}
integers! {
    // Numbers above i64::MAX wrap on disk, and back here.
    u64: |raw| Some(raw as u64),
    i64: Some,
    u32: |raw| u32::try_from(raw).ok(),
    i32: |raw| i32::try_from(raw).ok(),
}

impl Scalar for bool {
    const KIND: ColumnKind = ColumnKind::Flag;
    const BLANK: Self = false;
    #[inline]
    fn to_raw(self) -> i64 {
        i64::from(self)
    }
    #[inline]
    fn from_raw(raw: i64) -> Option<Self> {
        Some(raw != 0)
    }
}

impl Scalar for f64 {
    const KIND: ColumnKind = ColumnKind::Float;
    const BLANK: Self = 0.0;
    #[inline]
    fn to_raw(self) -> i64 {
        self.to_bits() as i64
    }
    #[inline]
    fn from_raw(raw: i64) -> Option<Self> {
        Some(f64::from_bits(raw as u64))
    }
}

impl Scalar for Name {
    const KIND: ColumnKind = ColumnKind::Text;
    const BLANK: Self = Name::EMPTY;
    #[inline]
    fn to_raw(self) -> i64 {
        self.index() as i64
    }
    #[inline]
    fn from_raw(raw: i64) -> Option<Self> {
        Some(Name::from_index(raw as usize))
    }
    #[inline]
    fn renamed(self, by: &mut impl FnMut(Name) -> Name) -> Self {
        by(self)
    }
}

/// A table of a recording; implemented by `table!`.
pub trait Table: Sized + Clone {
    /// The directory of its segments in the recording.
    const NAME: &'static str;
    /// One sentence for readers of the recording.
    const SENTENCE: &'static str;
    /// The table's columns, in order.
    const COLUMNS: &'static [ColumnInfo];
    /// A row without data: every column has [`ColumnType::blank`]. Rows are built from known
    /// columns and `..Table::blank()`, so a new column changes no other code.
    fn blank() -> Self;
    /// Adds `rows` to `columns`, which has one entry for each of [`Table::COLUMNS`].
    fn put(rows: &[Self], columns: &mut [ColumnValues]);
    /// Reads a row; `None` if a column that is not nullable is null.
    fn take(columns: &[ColumnValues], row: usize) -> Option<Self>;
    /// Appends the rows `rows`, if all of them can be read; else nothing, and false.
    fn take_all(
        columns: &[ColumnValues],
        rows: std::ops::Range<usize>,
        into: &mut Vec<Self>,
    ) -> bool;
    /// Replaces each name of the row by the one that `by` returns for it and for the position of
    /// its column in [`Table::COLUMNS`].
    fn rename(&mut self, by: &mut impl FnMut(usize, Name) -> Name);
}

/// The rows of one table, column by column.
#[derive(Clone, Debug)]
pub struct Columns {
    columns: Vec<ColumnValues>,
    rows: usize,
}

impl Columns {
    /// Rows that are converted to columns together. Each column iterates over them, so they must
    /// still be in the first-level cache for the last column.
    pub const TOGETHER: usize = 64;

    /// No rows of `T`.
    pub fn for_table<T: Table>() -> Columns {
        Columns { columns: vec![ColumnValues::default(); T::COLUMNS.len()], rows: 0 }
    }

    /// A table of `columns`, each of length `rows`.
    pub fn from_parts(columns: Vec<ColumnValues>, rows: usize) -> Columns {
        Columns { columns, rows }
    }

    /// Adds rows.
    pub fn extend<T: Table>(&mut self, rows: &[T]) {
        for together in rows.chunks(Self::TOGETHER) {
            T::put(together, &mut self.columns);
        }
        self.rows += rows.len();
    }

    /// Reads a row.
    pub fn get<T: Table>(&self, row: usize) -> Option<T> {
        if row < self.rows { T::take(&self.columns, row) } else { None }
    }

    /// Appends the rows `rows` to `into`, and says how many of them cannot be read.
    pub fn take<T: Table>(&self, rows: std::ops::Range<usize>, into: &mut Vec<T>) -> usize {
        let rows = rows.start..rows.end.min(self.rows);
        let (before, count) = (into.len(), rows.len());
        if T::take_all(&self.columns, rows.clone(), into) {
            return 0;
        }
        into.extend(rows.filter_map(|row| T::take(&self.columns, row)));
        count - (into.len() - before)
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// The columns, in the order of [`Table::COLUMNS`].
    pub fn columns(&self) -> &[ColumnValues] {
        &self.columns
    }

    /// Sets the values of each column that are beyond its bound to that, and says how many those
    /// were.
    pub fn cut(&mut self, bounds: &[Option<ColumnBound>]) -> u64 {
        let bounded = self.columns.iter_mut().zip(bounds);
        bounded.map(|(column, bound)| bound.map_or(0, |bound| column.cut(bound))).sum()
    }

    /// Bytes of memory that the rows take.
    pub fn bytes(&self) -> usize {
        self.columns.iter().map(ColumnValues::bytes).sum()
    }

    /// Removes all rows; see [`ColumnValues::clear`].
    pub fn clear(&mut self) {
        self.columns.iter_mut().for_each(ColumnValues::clear);
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

        impl $crate::table::Table for $table {
            const NAME: &'static str = $folder;
            const SENTENCE: &'static str = concat!($($doc, "\n"),+);
            const COLUMNS: &'static [$crate::table::ColumnInfo] = &[
                $( $crate::table::ColumnInfo {
                    name: stringify!($field),
                    kind: <$type as $crate::table::ColumnType>::KIND,
                    nullable: <$type as $crate::table::ColumnType>::NULLABLE,
                    unit: $crate::table::Unit::$unit,
                    sentence: $sentence,
                } ),+
            ];

            #[inline]
            fn blank() -> Self {
                $table { $( $field: <$type as $crate::table::ColumnType>::blank() ),+ }
            }

            fn put(rows: &[Self], columns: &mut [$crate::table::ColumnValues]) {
                let mut columns = columns.iter_mut();
                $( if let Some(column) = columns.next() {
                    let cells = rows.iter().map(|row| &row.$field);
                    <$type as $crate::table::ColumnType>::put(cells, column);
                } )+
            }

            fn take(columns: &[$crate::table::ColumnValues], row: usize) -> Option<Self> {
                let mut columns = columns.iter();
                Some($table {
                    $( $field: <$type as $crate::table::ColumnType>::take(
                        columns.next()?,
                        row,
                    )?, )+
                })
            }

            fn take_all(
                columns: &[$crate::table::ColumnValues],
                rows: std::ops::Range<usize>,
                into: &mut Vec<Self>,
            ) -> bool {
                let begin = into.len();
                let mut fits = true;
                // Most columns are constant: the first of some rows is copied, and only what
                // differs is read, while they are in the first-level cache.
                for from in rows.clone().step_by($crate::table::Columns::TOGETHER) {
                    let Some(first) = Self::take(columns, from) else {
                        fits = false;
                        break;
                    };
                    let end = rows.end.min(from + $crate::table::Columns::TOGETHER);
                    let fresh = into.len();
                    into.resize(fresh + (end - from), first);
                    let Some(fresh) = into.get_mut(fresh..) else { return false };
                    let mut columns = columns.iter();
                    $( if let Some(column) = columns.next() && !column.is_same() {
                        let fields = fresh.iter_mut().map(|row| &mut row.$field);
                        fits &= <$type as $crate::table::ColumnType>::fill(
                            column,
                            from,
                            fields,
                        );
                    } )+
                    if !fits {
                        break;
                    }
                }
                if !fits {
                    into.truncate(begin);
                }
                fits
            }

            fn rename(
                &mut self,
                by: &mut impl FnMut(usize, $crate::Name) -> $crate::Name,
            ) {
                let mut columns = 0..;
                $( if let Some(column) = columns.next() {
                    $crate::table::ColumnType::rename(
                        &mut self.$field,
                        &mut |name| by(column, name),
                    );
                } )+
            }
        }
    };
}
