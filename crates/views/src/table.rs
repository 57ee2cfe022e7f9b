//! Tables on a screen. A column is defined once: its heading, its unit, the sentence that explains
//! it and how its value is read from a row; the screen, its legend and `docs/screen.md` all come
//! from that definition.
//!
//! What does not belong here: what the columns are (see [`crate::text`]).

use crate::escape::{cut, fit, width};
use crate::fold::wrap;
use crate::style::{Paint, Style};

/// Spaces between columns.
const GAP: usize = 2;

/// The side of a column that its cells stand on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Align {
    /// Names.
    Left,
    /// Numbers.
    Right,
}

/// What happens to a column where there is not room for all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Room {
    /// It keeps its width; the columns with the highest number are left out first, those with 0
    /// never.
    Rank(u8),
    /// It keeps its width, and goes after all with a rank: where the column that takes the rest
    /// would have less than half of its share; the last of them first.
    Kept,
    /// It takes what the others leave; of longer cells the end is left out.
    CutEnd,
    /// It takes what the others leave; of longer cells the middle is left out.
    CutMiddle,
    /// It takes what the others leave; longer cells go on in further lines.
    Wrap,
}

/// The content of one cell. Names in it must be escaped already.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Cell {
    /// Its text, in one line.
    pub text: String,
    /// What it is, for the eye.
    pub paint: Paint,
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell { text, paint: Paint::Plain }
    }
}

/// A column.
#[derive(Debug)]
pub struct Column<R: 'static> {
    /// What stands above it.
    pub heading: &'static str,
    /// The unit of its values, for the reference.
    pub unit: &'static str,
    /// Where its cells stand.
    pub align: Align,
    /// What happens to it where there is not room for all.
    pub room: Room,
    /// What it is, for the reference; half a sentence that begins in lower case.
    pub sentence: &'static str,
    /// What the legend below the screen says of it, where the heading may mislead; else empty.
    pub legend: &'static str,
    /// Its value in a row.
    pub value: fn(&R, &Style) -> Cell,
}

/// A column of figures, which goes where there is not room for its `rank`.
pub(crate) const fn number<R>(
    heading: &'static str,
    unit: &'static str,
    rank: u8,
    sentence: &'static str,
    value: fn(&R, &Style) -> Cell,
) -> Column<R> {
    let room = Room::Rank(rank);
    Column { heading, unit, align: Align::Right, room, sentence, legend: "", value }
}

/// The column with a legend.
pub(crate) const fn explained<R>(legend: &'static str, column: Column<R>) -> Column<R> {
    Column { legend, ..column }
}

/// A table: what it is about, and its columns.
#[derive(Debug)]
pub struct Definition<R: 'static> {
    /// Its title in the reference.
    pub title: &'static str,
    /// What its rows are; a sentence.
    pub sentence: &'static str,
    /// Its columns.
    pub columns: &'static [Column<R>],
}

/// A table as it stands on a screen.
#[derive(Clone, Default, Debug)]
pub struct Drawn {
    /// The heading, then for each row its lines.
    pub rows: Vec<Vec<String>>,
    /// Headings that must be explained, with what the legend says of them.
    pub explained: Vec<(&'static str, &'static str)>,
    /// Headings of the columns that there was no room for.
    pub left_out: Vec<&'static str>,
}

impl Drawn {
    /// All lines.
    pub fn lines(self) -> impl Iterator<Item = String> {
        self.rows.into_iter().flatten()
    }
}

/// Draws `rows`; without rows, nothing.
pub fn draw<R>(definition: &Definition<R>, rows: &[R], style: &Style) -> Drawn {
    draw_together(&[(definition, rows)], style).pop().unwrap_or_default()
}

/// Draws tables that have their first columns in common so that these stand below each other;
/// leaves out those without rows.
pub fn draw_together<R>(tables: &[(&Definition<R>, &[R])], style: &Style) -> Vec<Drawn> {
    let tables: Vec<Filled<R>> = tables
        .iter()
        .filter(|(_, rows)| !rows.is_empty())
        .map(|(definition, rows)| Filled::new(definition.columns, rows, style))
        .collect();
    let longest = tables.iter().map(|table| table.columns).max_by_key(|columns| columns.len());
    let Some(columns) = longest else { return Vec::new() };
    let all: Vec<&[Cell]> =
        tables.iter().flat_map(|table| &table.lines).map(Vec::as_slice).collect();
    let layout = Layout::of(columns, &all, style);
    tables.iter().map(|table| table.draw(&layout, style)).collect()
}

/// A table whose cells are known.
struct Filled<R: 'static> {
    columns: &'static [Column<R>],
    /// The headings and the rows.
    lines: Vec<Vec<Cell>>,
}

impl<R> Filled<R> {
    fn new(columns: &'static [Column<R>], rows: &[R], style: &Style) -> Filled<R> {
        let heading =
            |column: &Column<R>| Cell { text: column.heading.to_owned(), paint: Paint::Heading };
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

/// The width of each column; `None` where it is left out.
struct Layout {
    widths: Vec<Option<usize>>,
}

impl Layout {
    fn of<R>(columns: &[Column<R>], lines: &[&[Cell]], style: &Style) -> Layout {
        let widest = |index: usize| {
            let cells = lines.iter().filter_map(|line| line.get(index));
            cells.map(|cell| width(&cell.text)).max().unwrap_or(0)
        };
        let full: Vec<usize> = (0..columns.len()).map(widest).collect();
        let mut layout = Layout { widths: full.iter().copied().map(Some).collect() };
        let is_flexible = |column: &Column<R>| !matches!(column.room, Room::Rank(_) | Room::Kept);
        let flexible = columns.iter().position(is_flexible);
        // How far a flexible column may shrink before others are left out, and which.
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

    /// Leaves out the column that matters least; false where all that is left must stay.
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

    /// The lines of one row: more than one where a cell goes on.
    fn lines<R>(&self, columns: &[Column<R>], row: &[Cell], style: &Style) -> Vec<String> {
        let texts: Vec<Vec<String>> = columns
            .iter()
            .zip(row)
            .zip(&self.widths)
            .map(|((column, cell), width)| match (column.room, *width) {
                (_, None) => Vec::new(),
                (Room::Wrap, Some(width)) => hang(&cell.text, width),
                (Room::CutEnd, Some(width)) => vec![cut(&cell.text, width, style)],
                (_, Some(width)) => vec![fit(&cell.text, width, style)],
            })
            .collect();
        let height = texts.iter().map(Vec::len).max().unwrap_or(0);
        (0..height).map(|line| self.line(columns, row, &texts, line, style)).collect()
    }

    fn line<R>(
        &self,
        columns: &[Column<R>],
        row: &[Cell],
        texts: &[Vec<String>],
        line: usize,
        style: &Style,
    ) -> String {
        let mut drawn = String::new();
        // Spaces owed before the next text, so that lines have none at their end.
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

/// `text` in lines of at most `columns`; from the second on they are indented.
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
