//! The values of one column, as integers.
//!
//! What does not belong here: which columns a table has (see [`super::table`]).

/// The values of a column.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ColumnCells<'a> {
    /// Every row has this value; `None` is null.
    Same(Option<i64>),
    /// One value for each row. `valid` marks the rows that are not null, and is empty if all are
    /// valid; the value of a null row is 0.
    Each {
        /// One for each row.
        values: &'a [i64],
        /// One flag for each row, or none at all.
        valid: &'a [bool],
    },
    /// One list for each row.
    Lists {
        /// The items of all lists, one list after the other.
        values: &'a [i64],
        /// The end of each row's list in `values`.
        ends: &'a [usize],
    },
}

/// The limits of a cell's value. Its sign is ignored: columns hold unsigned numbers as signed ones.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ColumnBound {
    /// The largest value.
    pub most: i64,
    /// A value that stands for none, however large it is.
    pub none: Option<i64>,
}

/// The values of one column for many rows, as integers: booleans are 0 or 1, floats their bits,
/// texts their index in [`super::Names`].
///
/// Most columns of a busy disk have one value for a hundred thousand rows, so rows are stored only
/// once two of them differ: until then a column takes no memory and is known to be constant without
/// a scan.
#[derive(Clone, Debug, Default)]
pub struct ColumnValues {
    rows: usize,
    same: Option<i64>,
    spelled: bool,
    values: Vec<i64>,
    valid: Vec<bool>,
    ends: Vec<usize>,
}

impl ColumnValues {
    /// `rows` rows with the same `cell`; `None` is null.
    pub fn same(cell: Option<i64>, rows: usize) -> ColumnValues {
        ColumnValues { rows, same: cell, ..ColumnValues::default() }
    }

    /// One row for each of `values`. `valid` marks the rows that are not null, and is empty if all
    /// are.
    pub fn each(values: Vec<i64>, valid: Vec<bool>) -> ColumnValues {
        let first = values.first().copied().unwrap_or_default();
        let rows = values.len();
        if valid.is_empty() && values.iter().all(|value| *value == first) {
            return ColumnValues::same(Some(first), rows);
        }
        if !valid.is_empty() && !valid.contains(&true) {
            return ColumnValues::same(None, rows);
        }
        ColumnValues { rows, same: None, spelled: true, values, valid, ends: Vec::new() }
    }

    /// Whether it is known without a scan that all rows are equal.
    #[inline]
    pub fn is_same(&self) -> bool {
        !self.spelled
    }

    /// Adds rows.
    #[inline]
    pub fn extend(&mut self, cells: impl ExactSizeIterator<Item = Option<i64>> + Clone) {
        let count = cells.len();
        if !self.spelled {
            // Without an early exit, the loop has no branch; most columns reach its end anyway.
            let mut ahead = cells.clone();
            let first = if self.rows == 0 { ahead.next() } else { Some(self.same) };
            let Some(same) = first else { return };
            if ahead.fold(true, |alike, cell| alike & (cell == same)) {
                self.same = same;
                self.rows += count;
                return;
            }
            self.spell_out();
        }
        let nulls = cells.clone().fold(0, |nulls, cell| nulls + usize::from(cell.is_none()));
        if nulls > 0 && self.valid.is_empty() {
            self.valid.resize(self.rows, true);
        }
        if nulls > 0 || !self.valid.is_empty() {
            self.valid.extend(cells.clone().map(|cell| cell.is_some()));
        }
        self.values.extend(cells.map(Option::unwrap_or_default));
        self.rows += count;
    }

    #[cold]
    fn spell_out(&mut self) {
        self.values.resize(self.rows, self.same.unwrap_or_default());
        if self.same.is_none() {
            self.valid.resize(self.rows, false);
        }
        self.spelled = true;
    }

    /// Adds a row; `None` is null.
    pub fn push(&mut self, cell: Option<i64>) {
        self.extend(std::iter::once(cell));
    }

    /// Adds a row with a list.
    pub fn push_list(&mut self, items: impl Iterator<Item = i64>) {
        self.spelled = true;
        self.values.extend(items);
        self.ends.push(self.values.len());
        self.rows += 1;
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// The values of all rows.
    pub fn cells(&self) -> ColumnCells<'_> {
        if !self.spelled {
            ColumnCells::Same(self.same)
        } else if !self.ends.is_empty() {
            ColumnCells::Lists { values: &self.values, ends: &self.ends }
        } else {
            ColumnCells::Each { values: &self.values, valid: &self.valid }
        }
    }

    /// The value of `row`; `None` if it is null, or if there is no such row.
    #[inline]
    pub fn get(&self, row: usize) -> Option<i64> {
        if !self.spelled {
            return self.same;
        }
        let valid = self.valid.is_empty() || self.valid.get(row).copied().unwrap_or(false);
        if valid { self.values.get(row).copied() } else { None }
    }

    /// The values of the rows from `first` on, and which of them are not null; of none if all are
    /// valid. Nothing of a constant column.
    #[inline]
    pub(super) fn rows_from(&self, first: usize) -> (&[i64], &[bool]) {
        let values = self.values.get(first..).unwrap_or_default();
        (values, self.valid.get(first..).unwrap_or_default())
    }

    /// The list of `row`; `None` if there is no such row or it has no list.
    pub fn list(&self, row: usize) -> Option<&[i64]> {
        let end = *self.ends.get(row)?;
        let start = if row == 0 { 0 } else { *self.ends.get(row - 1)? };
        self.values.get(start..end)
    }

    /// Sets values that are beyond the bound to its most, and says how many those were.
    pub(super) fn cut(&mut self, bound: ColumnBound) -> u64 {
        let ColumnBound { most, none } = bound;
        let none = none.unwrap_or(0);
        let is_beyond =
            |value: i64| (value.cast_unsigned() > most.cast_unsigned()) & (value != none);
        if !self.spelled {
            let is_cut = self.same.is_some_and(is_beyond);
            self.same = self.same.map(|same| if is_cut { most } else { same });
            return if is_cut { self.rows as u64 } else { 0 };
        }
        // Most columns have none, and a loop without branches finds that.
        let beyond =
            self.values.iter().fold(0, |count, value| count + u64::from(is_beyond(*value)));
        if beyond > 0 {
            self.values
                .iter_mut()
                .filter(|value| is_beyond(**value))
                .for_each(|value| *value = most);
        }
        beyond
    }

    /// Bytes of memory that the rows take.
    pub fn bytes(&self) -> usize {
        size_of_val(self.values.as_slice()) + self.valid.len() + size_of_val(self.ends.as_slice())
    }

    /// Removes all rows. Their memory is kept for further rows; a constant column frees it, so that
    /// the kept memory never exceeds what was needed at one time.
    pub fn clear(&mut self) {
        if !self.spelled {
            *self = ColumnValues::default();
        }
        self.rows = 0;
        self.spelled = false;
        self.values.clear();
        self.valid.clear();
        self.ends.clear();
    }
}
