//! The tables of a recording: one line for each, from which writer, reader and reference page
//! follow.

use crate::source::Batch;
use crate::table::{ColumnInfo, Columns, Table};
use crate::{
    Event, FileActivity, Process, Request, RequestPart, Sample, Stack, Wait, WaitChain, WaitRequest,
};

/// The definition of a table.
#[derive(Clone, Copy, Debug)]
pub struct TableInfo {
    /// The directory of its segments in the recording.
    pub name: &'static str,
    /// One sentence on the meaning of a row.
    pub sentence: &'static str,
    /// The table's columns, in order.
    pub columns: &'static [ColumnInfo],
}

impl TableInfo {
    /// The definition of the table whose rows are `T`.
    pub const fn for_table<T: Table>() -> TableInfo {
        TableInfo { name: T::NAME, sentence: T::SENTENCE, columns: T::COLUMNS }
    }
}

/// The rows of a batch that belong to one table.
pub(super) trait BatchRows {
    /// Returns the number of rows.
    fn count(&self) -> usize;
    /// Adds as many of them as `columns` should get at once, from `from` on, and says how many.
    fn put(&self, from: usize, most: usize, columns: &mut Columns) -> usize;
    /// Appends what `columns` hold, and says how many rows could not be read back.
    fn take(&mut self, columns: &Columns) -> u64;
}

impl<T: Table> BatchRows for Vec<T> {
    fn count(&self) -> usize {
        self.len()
    }

    fn put(&self, from: usize, most: usize, columns: &mut Columns) -> usize {
        let rest = self.get(from..).unwrap_or_default();
        let rows = rest.get(..most).unwrap_or(rest);
        columns.extend(rows);
        rows.len()
    }

    fn take(&mut self, columns: &Columns) -> u64 {
        columns.take(0..columns.len(), self) as u64
    }
}

macro_rules! tables {
    ($($field:ident: $row:ty),+ $(,)?) => {
        /// The tables of a recording. Segments are ended, and read, from the last table to the
        /// first: what a row refers to is there before it, and a request's parts before it too.
        pub const TABLES: &[TableInfo] = &[$( TableInfo::for_table::<$row>() ),+];

        /// No rows of any table, in the order of [`TABLES`].
        pub(super) fn columns() -> impl Iterator<Item = Columns> {
            [$( Columns::for_table::<$row>() ),+].into_iter()
        }

        /// The rows of `batch`, in the order of [`TABLES`].
        pub(super) fn rows(batch: &Batch) -> impl Iterator<Item = &dyn BatchRows> {
            [$( &batch.$field as &dyn BatchRows ),+].into_iter()
        }

        /// The rows of `batch`, in the order of [`TABLES`].
        pub(super) fn rows_mut(batch: &mut Batch) -> impl Iterator<Item = &mut dyn BatchRows> {
            [$( &mut batch.$field as &mut dyn BatchRows ),+].into_iter()
        }
    };
}

tables! {
    requests: Request,
    parts: RequestPart,
    waits: Wait,
    wait_requests: WaitRequest,
    wait_chains: WaitChain,
    files: FileActivity,
    samples: Sample,
    events: Event,
    stacks: Stack,
    processes: Process,
}
