//! A round: segment N of every table. The writer closes them together. Part rows are in the order
//! of their requests, so both files are read in parallel and joined.
//!
//! If a file is damaged, only its own rows are lost; the losses name it.
//!
//! What does not belong here: the order of rounds (see [`super::reader`]).

use super::bounds;
use super::cells::ListAllowance;
use super::cursor::Cursor;
use super::error::{Problem, RecordingError};
use super::files::SegmentFiles;
use super::tables::{BatchRows, TABLES, TableInfo, rows_mut};
use crate::loss::{Loss, Losses};
use crate::source::Batch;
use crate::table::{ColumnType, ColumnValues, Columns, Table};
use crate::{Names, Request, RequestPart};
use std::collections::{BTreeMap, VecDeque};

const PARTS: TableInfo = TableInfo::for_table::<RequestPart>();

/// Parts that one request may have; more is damage, and would have no bound.
const MOST_PARTS: usize = 1 << 16;

/// The unread part of one round.
pub(super) struct Round {
    /// The names of its files, by table.
    files: BTreeMap<&'static str, String>,
    /// The tables but for the parts, by their position in [`TABLES`].
    cursors: VecDeque<(usize, Cursor)>,
    parts: Option<Cursor>,
    ahead: PartsAhead,
    /// The reason why there are no requests, or not all of them.
    damage: Option<String>,
}

/// Parts that were read together. They are turned into rows as many as possible at a time.
struct PartsAhead {
    columns: Columns,
    /// The first that is not turned into a row yet, and the first whose request has not come.
    from: usize,
    next: usize,
    /// Whether the requests of those between were read.
    kept: bool,
}

impl PartsAhead {
    fn new(columns: Columns, kept: bool) -> PartsAhead {
        PartsAhead { columns, from: 0, next: 0, kept }
    }

    fn is_passed(&self) -> bool {
        self.next >= self.columns.len()
    }

    /// Passes those of the request `id` that come next, at most `most`, and says how many. One
    /// without a request cannot be read, and goes with its neighbours.
    fn pass(&mut self, id: u64, most: usize) -> usize {
        let before = self.next;
        let Some(ids) = request_ids::<RequestPart>(&self.columns) else { return 0 };
        let last = self.columns.len().min(before.saturating_add(most));
        while self.next < last && u64::take(ids, self.next).is_none_or(|own| own == id) {
            self.next += 1;
        }
        self.next - before
    }

    fn pass_all(&mut self) {
        self.next = self.columns.len();
    }

    /// Says whether the parts that are passed from now on are kept.
    fn choose(&mut self, kept: bool, parts: &mut Vec<RequestPart>, losses: &mut Losses) {
        if self.kept != kept {
            self.flush(parts, losses);
            self.kept = kept;
        }
    }

    /// Appends those that were passed to `parts`, and counts the ones that cannot be read.
    fn flush(&mut self, parts: &mut Vec<RequestPart>, losses: &mut Losses) {
        let (passed, before) = (self.from..self.next, parts.len());
        self.from = self.next;
        let unread = self.columns.take(passed, parts) as u64;
        lose_rows(&PARTS, unread, losses);
        if !self.kept {
            parts.truncate(before);
        }
    }
}

/// The column of request numbers.
fn request_ids<T: Table>(columns: &Columns) -> Option<&ColumnValues> {
    let place = T::COLUMNS.iter().position(|column| column.name == "request_id")?;
    columns.columns().get(place)
}

impl Round {
    /// Opens the segments `number` of a recording.
    pub(super) fn open(
        files: &SegmentFiles,
        number: u32,
        lists: &ListAllowance,
        losses: &mut Losses,
    ) -> Result<Round, RecordingError> {
        let mut round = Round {
            files: TABLES
                .iter()
                .map(|table| (table.name, files.name(table.name, number)))
                .collect(),
            cursors: VecDeque::new(),
            parts: None,
            ahead: PartsAhead::new(Columns::for_table::<RequestPart>(), true),
            damage: None,
        };
        for (index, table) in TABLES.iter().enumerate().rev() {
            let path = files.path(table, number);
            match Cursor::open(&path, table, lists) {
                Ok(cursor) if table.name == RequestPart::NAME => round.parts = cursor,
                Ok(cursor) => round.cursors.extend(cursor.map(|cursor| (index, cursor))),
                Err(problem) => round.damaged(table, problem, losses)?,
            }
        }
        Ok(round)
    }

    /// Bytes of the rows that are left.
    pub(super) fn unread_bytes(&self) -> u64 {
        let cursors = self.cursors.iter().map(|(_, cursor)| cursor);
        cursors.chain(&self.parts).map(Cursor::unread_bytes).sum()
    }

    /// Adds the next rows to `batch`; false when there are none left.
    pub(super) fn next(
        &mut self,
        batch: &mut Batch,
        names: &mut Names,
        losses: &mut Losses,
    ) -> Result<bool, RecordingError> {
        let Some((index, cursor)) = self.cursors.front_mut() else {
            self.finish(names, losses)?;
            return Ok(false);
        };
        let (index, read) = (*index, cursor.next(names));
        let (Some(table), Some(rows)) = (TABLES.get(index), rows_mut(batch).nth(index)) else {
            return Ok(false);
        };
        match read {
            Ok(Some(mut columns)) => {
                bounds::cut(table, &mut columns, losses);
                let first = rows.count();
                take(table, &columns, rows, losses);
                if table.name == Request::NAME {
                    self.join(&columns, first, batch, names, losses)?;
                }
            }
            Ok(None) => _ = self.cursors.pop_front(),
            Err(problem) => {
                self.cursors.pop_front();
                self.damaged(table, problem, losses)?;
            }
        }
        Ok(true)
    }

    /// Adds the parts of the requests of `columns`, of which those that could be read are in
    /// `batch` from `first` on. The others' parts go with them.
    fn join(
        &mut self,
        columns: &Columns,
        first: usize,
        batch: &mut Batch,
        names: &mut Names,
        losses: &mut Losses,
    ) -> Result<(), RecordingError> {
        let Some(ids) = request_ids::<Request>(columns) else { return Ok(()) };
        let Batch { requests, parts, .. } = batch;
        let are_all_kept = requests.len() - first == columns.len();
        let mut requests = requests.iter().skip(first).peekable();
        for id in (0..ids.len()).filter_map(|row| u64::take(ids, row)) {
            let kept =
                are_all_kept || requests.next_if(|request| request.request_id == id).is_some();
            self.ahead.choose(kept, parts, losses);
            let mut left = MOST_PARTS;
            while left > 0 && self.is_part_ahead(parts, names, losses)? {
                let count = self.ahead.pass(id, left);
                if count == 0 {
                    break;
                }
                left -= count;
            }
        }
        self.ahead.flush(parts, losses);
        Ok(())
    }

    /// Whether a part is left, which is read if need be.
    fn is_part_ahead(
        &mut self,
        parts: &mut Vec<RequestPart>,
        names: &mut Names,
        losses: &mut Losses,
    ) -> Result<bool, RecordingError> {
        while self.ahead.is_passed()
            && let Some(cursor) = &mut self.parts
        {
            self.ahead.flush(parts, losses);
            match cursor.next(names) {
                Ok(Some(mut columns)) => {
                    bounds::cut(&PARTS, &mut columns, losses);
                    self.ahead = PartsAhead::new(columns, self.ahead.kept);
                }
                Ok(None) => self.parts = None,
                Err(problem) => {
                    self.parts = None;
                    self.damaged(&PARTS, problem, losses)?;
                }
            }
        }
        Ok(!self.ahead.is_passed())
    }

    fn damaged(
        &mut self,
        table: &TableInfo,
        problem: Problem,
        losses: &mut Losses,
    ) -> Result<(), RecordingError> {
        let cause = match problem {
            Problem::Refused(error) => return Err(error),
            Problem::Damaged(cause) => cause.to_string(),
        };
        if table.name == Request::NAME {
            // The number of lost requests shows when the parts are read.
            self.damage = Some(cause);
        } else {
            let file = self.file(table.name);
            let meaning = format!("segment without its rows ({file}: {cause})");
            lose(losses, &format!("segment/{}", table.name), 1, meaning, false);
        }
        Ok(())
    }

    /// The file of a table as losses name it.
    fn file(&self, table: &str) -> String {
        format!("{table}/{}", self.files.get(table).map_or("", String::as_str))
    }

    /// Counts the missing requests that remaining parts refer to.
    fn finish(&mut self, names: &mut Names, losses: &mut Losses) -> Result<(), RecordingError> {
        let (mut parts, mut requests, mut last) = (0u64, 0u64, None);
        let mut rest = Vec::new();
        self.ahead.choose(true, &mut rest, losses);
        while self.is_part_ahead(&mut rest, names, losses)? {
            self.ahead.pass_all();
            self.ahead.flush(&mut rest, losses);
            for part in rest.drain(..) {
                parts += 1;
                requests += u64::from(last.replace(part.request_id) != Some(part.request_id));
            }
        }
        let segment = self.file(Request::NAME);
        if let Some(cause) = self.damage.take() {
            let meaning = format!("or more requests that have no record ({segment}: {cause})");
            lose(losses, "segment", requests.max(1), meaning, true);
        } else if parts > 0 {
            // The writer was killed between the two names, or somebody changed the files.
            let meaning = format!("requests of which only the parts are there ({segment})");
            lose(losses, "segment", requests, meaning, true);
        }
        Ok(())
    }
}

/// Adds the rows of `columns` to `rows`, and counts those that cannot be read back.
fn take(table: &TableInfo, columns: &Columns, rows: &mut dyn BatchRows, losses: &mut Losses) {
    lose_rows(table, rows.take(columns), losses);
}

fn lose_rows(table: &TableInfo, unread: u64, losses: &mut Losses) {
    if unread > 0 {
        let meaning = format!("rows of {} with values that this iowhy does not know", table.name);
        let place = format!("rows/{}", table.name);
        losses.add(&place, unread, &meaning, table.name == Request::NAME);
    }
}

/// Adds a loss of its own: [`Losses::add`] would forget the second file's name.
fn lose(losses: &mut Losses, place: &str, count: u64, meaning: String, requests: bool) {
    losses.items.push(Loss { place: place.to_owned(), count, meaning, requests });
}
