//! Tables on a screen. A column is defined once: its heading, its unit, the sentence that explains
//! it and how its value is read from a row. The screen, its legend and `docs/screen.md` follow from
//! that definition.
//!
//! What does not belong here: the columns themselves (see [`crate::text`]).

use crate::escape::{cut, fit, items_within, width};
use crate::fold::wrap;
use crate::style::{Paint, Style};

/// Spaces between columns.
const GAP: usize = 2;

/// The alignment of a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Align {
    /// Names.
    Left,
    /// Numbers.
    Right,
}

/// The fate of a column if not all of them fit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Room {
    /// The column keeps its width; those with the highest number are dropped first, those with 0
    /// never.
    Rank(u8),
    /// The column keeps its width and is dropped after all columns with a rank, if the flexible
    /// column would otherwise have less than half of its share; the last such column first.
    Kept,
    /// The column takes the remaining width; longer cells lose their end.
    CutEnd,
    /// The column takes the remaining width; longer cells, lists with commas, lose their last
    /// items.
    CutItems,
    /// The column takes the remaining width; longer cells lose their middle.
    CutMiddle,
    /// The column takes the remaining width; longer cells are wrapped.
    Wrap,
}

/// The content of one cell. Names in it must be escaped already.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct TableCell {
    /// The text, in one line.
    pub text: String,
    /// The text's role, which decides its colour.
    pub paint: Paint,
}

impl From<String> for TableCell {
    fn from(text: String) -> TableCell {
        TableCell { text, paint: Paint::Plain }
    }
}

/// A column.
#[derive(Debug)]
pub struct Column<R: 'static> {
    /// The column's heading.
    pub heading: &'static str,
    /// The unit of its values, for the reference.
    pub unit: &'static str,
    /// The alignment of its cells.
    pub align: Align,
    /// The fate of the column if not all columns fit.
    pub room: Room,
    /// The description in the reference: half a sentence that begins in lower case.
    pub sentence: &'static str,
    /// The entry in the legend below the screen, if the heading may mislead; else empty.
    pub legend: &'static str,
    /// Returns its value in a row.
    pub value: fn(&R, &Style) -> TableCell,
}

/// A column of figures, which is dropped by its `rank`.
pub(crate) const fn number<R>(
    heading: &'static str,
    unit: &'static str,
    rank: u8,
    sentence: &'static str,
    value: fn(&R, &Style) -> TableCell,
) -> Column<R> {
    let room = Room::Rank(rank);
    Column { heading, unit, align: Align::Right, room, sentence, legend: "", value }
}

/// The column with a legend.
pub(crate) const fn explained<R>(legend: &'static str, column: Column<R>) -> Column<R> {
    Column { legend, ..column }
}

/// A table: its subject, and its columns.
#[derive(Debug)]
pub struct Definition<R: 'static> {
    /// The table's title in the reference.
    pub title: &'static str,
    /// One sentence on the meaning of the rows.
    pub sentence: &'static str,
    /// The table's columns.
    pub columns: &'static [Column<R>],
}

/// A table as drawn on a screen.
#[derive(Clone, Default, Debug)]
pub struct Drawn {
    /// The headings, then the lines of each row.
    pub rows: Vec<Vec<String>>,
    /// Headings that need an explanation, with their entry in the legend.
    pub explained: Vec<(&'static str, &'static str)>,
    /// Headings of the columns that did not fit.
    pub left_out: Vec<&'static str>,
}

impl Drawn {
    /// All lines.
    pub fn lines(self) -> impl Iterator<Item = String> {
        self.rows.into_iter().flatten()
    }
}

/// A table with all of its columns, for a page that lays it out itself.
#[derive(Clone, Debug)]
pub(crate) struct CellTable {
    /// The table's title in the reference.
    pub(crate) title: &'static str,
    /// One sentence on the meaning of the rows.
    pub(crate) sentence: &'static str,
    /// Each column's heading, sentence and side.
    pub(crate) columns: Vec<(&'static str, &'static str, Align)>,
    /// The rows.
    pub(crate) rows: Vec<Vec<TableCell>>,
}

impl CellTable {
    /// All cells of `rows`.
    pub(crate) fn new<R>(definition: &Definition<R>, rows: &[R], style: &Style) -> CellTable {
        let columns = definition.columns;
        let cells = |row: &R| columns.iter().map(|column| (column.value)(row, style)).collect();
        CellTable {
            title: definition.title,
            sentence: definition.sentence,
            columns: columns
                .iter()
                .map(|column| (column.heading, column.sentence, column.align))
                .collect(),
            rows: rows.iter().map(cells).collect(),
        }
    }
}

/// Draws `rows`; nothing if there are none.
pub fn draw<R>(definition: &Definition<R>, rows: &[R], style: &Style) -> Drawn {
    draw_together(&[(definition, rows)], style).pop().unwrap_or_default()
}

/// Draws tables that share their first columns, which are aligned with each other; skips tables
/// without rows.
pub fn draw_together<R>(tables: &[(&Definition<R>, &[R])], style: &Style) -> Vec<Drawn> {
    let tables: Vec<Filled<R>> = tables
        .iter()
        .filter(|(_, rows)| !rows.is_empty())
        .map(|(definition, rows)| Filled::new(definition.columns, rows, style))
        .collect();
    let longest = tables.iter().map(|table| table.columns).max_by_key(|columns| columns.len());
    let Some(columns) = longest else { return Vec::new() };
    let all: Vec<&[TableCell]> =
        tables.iter().flat_map(|table| &table.lines).map(Vec::as_slice).collect();
    let layout = Layout::new(columns, &all, style);
    tables.iter().map(|table| table.draw(&layout, style)).collect()
}

/// A table whose cells have been computed.
struct Filled<R: 'static> {
    columns: &'static [Column<R>],
    /// The headings and the rows.
    lines: Vec<Vec<TableCell>>,
}

impl<R> Filled<R> {
    fn new(columns: &'static [Column<R>], rows: &[R], style: &Style) -> Filled<R> {
        let heading = |column: &Column<R>| TableCell {
            text: column.heading.to_owned(),
            paint: Paint::Heading,
        };
        let cells = |row: &R| columns.iter().map(|column| (column.value)(row, style)).collect();
        let headings = columns.iter().map(heading).collect();
        let lines = std::iter::once(headings).chain(rows.iter().map(cells)).collect();
        Filled { columns, lines }
    }

    fn draw(&self, layout: &Layout, style: &Style) -> Drawn {
        let (shown, left_out): (Vec<_>, Vec<_>) = (0..self.columns.len())
            .map(|index| (index, &self.columns[index]))
            .partition(|(index, _)| layout.widths[*index].is_some());
        let explained = shown.iter().filter(|(_, column)| !column.legend.is_empty());
        Drawn {
            rows: self.lines.iter().map(|row| layout.lines(self.columns, row, style)).collect(),
            explained: explained.map(|(_, column)| (column.heading, column.legend)).collect(),
            left_out: left_out.iter().map(|(_, column)| column.heading).collect(),
        }
    }
}

/// The width of each column; `None` if it is dropped.
struct Layout {
    widths: Vec<Option<usize>>,
}

impl Layout {
    fn new<R>(columns: &[Column<R>], lines: &[&[TableCell]], style: &Style) -> Layout {
        let widest = |index: usize| {
            let cells = lines.iter().filter_map(|line| line.get(index));
            cells.map(|cell| width(&cell.text)).max().unwrap_or(0)
        };
        let full: Vec<usize> = (0..columns.len()).map(widest).collect();
        let mut layout = Layout { widths: full.iter().copied().map(Some).collect() };
        let is_flexible = |column: &Column<R>| !matches!(column.room, Room::Rank(_) | Room::Kept);
        let flexible = columns.iter().position(is_flexible);
        // The least width of a flexible column before others are dropped, and the column's index.
        let ranked: fn(Room) -> Option<u8> = |room| match room {
            Room::Rank(rank) => (rank > 0).then_some(rank),
            _ => None,
        };
        let kept: fn(Room) -> Option<u8> = |room| (room == Room::Kept).then_some(1);
        for (fifths, rank) in [(2, ranked), (1, kept)] {
            if let Some(index) = flexible {
                layout.widths[index] = Some(full[index].min(style.columns() * fifths / 5));
            }
            while layout.total() > style.columns() && layout.leave_out(columns, rank) {}
        }
        if let Some(index) = flexible {
            let others = layout.total() - layout.widths[index].unwrap_or(0);
            let room = style.columns().saturating_sub(others).max(1);
            layout.widths[index] = Some(full[index].min(room));
        }
        layout
    }

    fn total(&self) -> usize {
        let shown = self.widths.iter().flatten();
        shown.map(|width| width + GAP).sum::<usize>().saturating_sub(GAP)
    }

    /// Drops the least important column; false if none can be dropped.
    fn leave_out<R>(&mut self, columns: &[Column<R>], rank: fn(Room) -> Option<u8>) -> bool {
        let rank = |(index, column): (usize, &Column<R>)| {
            let shown = self.widths[index].is_some();
            rank(column.room).filter(|_| shown).map(|rank| (rank, index))
        };
        match columns.iter().enumerate().filter_map(rank).max() {
            Some((_, index)) => {
                self.widths[index] = None;
                true
            }
            None => false,
        }
    }

    /// The lines of one row: several if a cell is wrapped.
    fn lines<R>(&self, columns: &[Column<R>], row: &[TableCell], style: &Style) -> Vec<String> {
        let texts: Vec<Vec<String>> = columns
            .iter()
            .zip(row)
            .zip(&self.widths)
            .map(|((column, cell), width)| match (column.room, *width) {
                (_, None) => Vec::new(),
                (Room::Wrap, Some(width)) => hang(&cell.text, width),
                (Room::CutEnd, Some(width)) => vec![cut(&cell.text, width, style)],
                (Room::CutItems, Some(width)) => vec![items_within(&cell.text, ", ", width, style)],
                (_, Some(width)) => vec![fit(&cell.text, width, style)],
            })
            .collect();
        let height = texts.iter().map(Vec::len).max().unwrap_or(0);
        (0..height).map(|line| self.line(columns, row, &texts, line, style)).collect()
    }

    fn line<R>(
        &self,
        columns: &[Column<R>],
        row: &[TableCell],
        texts: &[Vec<String>],
        line: usize,
        style: &Style,
    ) -> String {
        let mut drawn = String::new();
        // Pending spaces before the next text, so that lines have no trailing spaces.
        let mut owed = 0;
        for (index, column) in columns.iter().enumerate() {
            let Some(room) = self.widths[index] else { continue };
            let text = texts[index].get(line).map_or("", String::as_str);
            let pad = room.saturating_sub(width(text));
            let (before, after) = if column.align == Align::Right { (pad, 0) } else { (0, pad) };
            if !text.is_empty() {
                drawn.extend(std::iter::repeat_n(' ', owed + before));
                drawn.push_str(&style.paint(text, row[index].paint));
                owed = 0;
            } else {
                owed += before;
            }
            owed += after + GAP;
        }
        drawn
    }
}

/// Wraps `text` to `columns`; continuation lines are indented.
fn hang(text: &str, columns: usize) -> Vec<String> {
    if width(text) <= columns {
        return vec![text.to_owned()];
    }
    let mut lines = wrap(text, columns.saturating_sub(2));
    lines.iter_mut().skip(1).for_each(|line| line.insert_str(0, "  "));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Line(&'static str, u64);

    const TABLE: Definition<Line> = Definition {
        title: "Lines",
        sentence: "One row for each line.",
        columns: &[
            Column {
                heading: "NAME",
                unit: "",
                align: Align::Left,
                room: Room::CutMiddle,
                sentence: "its name",
                legend: "",
                value: |line, _| line.0.to_owned().into(),
            },
            Column {
                heading: "size",
                unit: "B",
                align: Align::Right,
                room: Room::Rank(0),
                sentence: "its size",
                legend: "its size",
                value: |line, _| line.1.to_string().into(),
            },
            Column {
                heading: "a rather long heading",
                unit: "",
                align: Align::Right,
                room: Room::Rank(1),
                sentence: "nothing",
                legend: "its size",
                value: |_, _| "-".to_owned().into(),
            },
        ],
    };

    #[test]
    fn columns_are_left_out_before_names_are_cut() {
        let rows = [Line("/a/long/path/to/some/file", 12), Line("b", 123_456)];
        let drawn = draw(&TABLE, &rows, &Style::plain(60));
        assert_eq!((drawn.left_out.len(), drawn.explained.len()), (0, 2));
        let drawn = draw(&TABLE, &rows, &Style::plain(40));
        assert_eq!(drawn.left_out, ["a rather long heading"]);
        assert_eq!(drawn.explained, [("size", "its size")]);
        let lines: Vec<String> = drawn.lines().collect();
        assert_eq!(lines[1], "/a/long/path/to/some/file      12");
        assert_eq!(lines[2], "b                          123456");
    }

    #[test]
    fn no_rows_no_table() {
        assert!(draw(&TABLE, &[], &Style::plain(80)).rows.is_empty());
    }
}
