//! Answers as sections of text, as JSON, and times and sizes as people read them.
//!
//! Names come from hosts and can contain any character: those that could move a terminal's cursor
//! are shown as escapes.
//!
//! What does not belong here: the answers, and printing them.

#[cfg(feature = "query")]
use crate::error::{FleetContext, Result};
#[cfg(feature = "query")]
use datafusion::arrow::array::RecordBatch;
#[cfg(feature = "query")]
use datafusion::arrow::json::ArrayWriter;
#[cfg(feature = "query")]
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use serde_json::{Map, Value, json};
use std::fmt::Write;
use std::io;
use std::path::Path;

/// Replaces the file `path` by `bytes`, which only its owner may read. What stands in its place, or
/// in that of the file that is written first, is removed: a link is never followed.
///
/// # Errors
/// Fails if the file cannot be written.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let (folder, name) = iowhy_fs::parent(path)?;
    folder.replace(&name, bytes, iowhy_fs::PRIVATE_FILE, true)
}

/// Takes from others the right to read what this program makes, tables of a store included.
pub fn make_private() {
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
}

/// Columns of a name on the screen; a longer one is cut.
const MOST_WIDTH: usize = 60;

/// A cell, as text for people and as a value for programs.
#[derive(Clone, Debug, PartialEq)]
pub struct AnswerCell {
    /// The text for people.
    pub text: String,
    /// The value for programs.
    pub value: Value,
}

impl AnswerCell {
    /// Text.
    pub fn text(text: impl Into<String>) -> AnswerCell {
        let text = text.into();
        AnswerCell { value: json!(text), text }
    }

    /// A number with the text that shows it.
    pub fn number(value: f64, text: impl Into<String>) -> AnswerCell {
        AnswerCell { text: text.into(), value: json!(value) }
    }

    /// A count.
    pub fn count(value: u64) -> AnswerCell {
        AnswerCell { text: value.to_string(), value: json!(value) }
    }

    /// A time in nanoseconds.
    pub fn duration(nanoseconds: f64) -> AnswerCell {
        AnswerCell::number(nanoseconds.round(), duration_text(nanoseconds))
    }

    /// A time of day, seconds since 1970.
    pub fn time(time_s: i64) -> AnswerCell {
        AnswerCell { text: crate::clock::minute_text(time_s), value: json!(time_s) }
    }
}

/// A column of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerColumn {
    /// Its heading.
    pub heading: &'static str,
    /// Its name in JSON.
    pub name: &'static str,
    /// Whether its cells stand to the right.
    pub is_number: bool,
}

/// A column of text.
pub const fn text_column(heading: &'static str, name: &'static str) -> AnswerColumn {
    AnswerColumn { heading, name, is_number: false }
}

/// A column of numbers.
pub const fn number_column(heading: &'static str, name: &'static str) -> AnswerColumn {
    AnswerColumn { heading, name, is_number: true }
}

/// A titled table with notes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AnswerSection {
    /// Its name in JSON.
    pub name: &'static str,
    /// Its title.
    pub title: String,
    /// The notes below it.
    pub notes: Vec<String>,
    /// Its columns.
    pub columns: Vec<AnswerColumn>,
    /// Its rows.
    pub rows: Vec<Vec<AnswerCell>>,
}

/// Returns whether a character could move a terminal's cursor, or turn the order of what is read.
fn is_unsafe(character: char) -> bool {
    let turns = matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || matches!(character, '\u{200e}' | '\u{200f}' | '\u{61c}') || character.is_control()
}

/// Escapes characters that could move a terminal's cursor.
pub fn safe(text: &str) -> String {
    let mut safe = String::new();
    for character in text.chars() {
        match is_unsafe(character) {
            true => safe.extend(character.escape_default()),
            false => safe.push(character),
        }
    }
    safe
}

/// Escapes such characters in each line of a text that has several.
pub fn safe_lines(text: &str) -> String {
    text.split('\n').map(safe).collect::<Vec<_>>().join("\n")
}

/// Escapes such characters in JSON, which means the same afterwards. Those below a space are
/// escaped in texts already and stand only between them.
pub fn safe_json(json: &str) -> String {
    let mut safe = String::with_capacity(json.len());
    for character in json.chars() {
        match character >= ' ' && is_unsafe(character) {
            // Each of them is one unit of UTF-16. Writing to a String cannot fail.
            true => write!(safe, "\\u{:04x}", u32::from(character)).unwrap_or(()),
            false => safe.push(character),
        }
    }
    safe
}

/// The beginning of a name that fits a column.
fn fitted(text: &str) -> String {
    let text = safe(text);
    match text.chars().count() > MOST_WIDTH {
        true => text.chars().take(MOST_WIDTH - 1).chain(['…']).collect(),
        false => text,
    }
}

/// A time as people read it: `12.3 ms`.
pub fn duration_text(nanoseconds: f64) -> String {
    let (value, unit) = match nanoseconds.abs() {
        it if it < 1e3 => (nanoseconds, "ns"),
        it if it < 1e6 => (nanoseconds / 1e3, "µs"),
        it if it < 1e9 => (nanoseconds / 1e6, "ms"),
        _ => (nanoseconds / 1e9, "s"),
    };
    match value.abs() < 100.0 {
        true => format!("{value:.1} {unit}"),
        false => format!("{value:.0} {unit}"),
    }
}

/// A size as people read it: `4.0 TB`.
pub fn size_text(bytes: f64) -> String {
    let mut value = bytes;
    for unit in ["B", "kB", "MB", "GB", "TB"] {
        if value.abs() < 1000.0 {
            return match unit {
                "B" => format!("{value:.0} {unit}"),
                _ => format!("{value:.1} {unit}"),
            };
        }
        value /= 1000.0;
    }
    format!("{value:.1} PB")
}

impl AnswerSection {
    /// The section as text.
    pub fn render(&self) -> String {
        let mut text = String::new();
        if !self.title.is_empty() {
            text += &format!("{}\n", safe(&self.title));
        }
        if !self.rows.is_empty() {
            let cells: Vec<Vec<String>> = self
                .rows
                .iter()
                .map(|row| row.iter().map(|cell| fitted(&cell.text)).collect())
                .collect();
            text += &table_text(&self.columns, &cells);
        }
        for note in &self.notes {
            let _ = writeln!(text, "{}", safe(note));
        }
        text
    }

    /// The section as JSON: an object for each row.
    pub fn json(&self) -> Value {
        let object = |row: &Vec<AnswerCell>| {
            let fields = self.columns.iter().zip(row);
            let fields = fields.map(|(column, cell)| (column.name.to_owned(), cell.value.clone()));
            Value::Object(fields.collect::<Map<_, _>>())
        };
        json!({ "rows": self.rows.iter().map(object).collect::<Vec<_>>(), "notes": self.notes })
    }
}

fn table_text(columns: &[AnswerColumn], rows: &[Vec<String>]) -> String {
    let width = |at: usize, heading: &str| {
        let cells = rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count());
        cells.chain([heading.chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> =
        columns.iter().enumerate().map(|(at, column)| width(at, column.heading)).collect();
    let line = |cells: Vec<&str>| {
        let mut line = String::new();
        for ((cell, column), width) in cells.iter().zip(columns).zip(&widths) {
            let _ = match column.is_number {
                true => write!(line, "{cell:>width$}  "),
                false => write!(line, "{cell:<width$}  "),
            };
        }
        format!("  {}\n", line.trim_end())
    };
    let mut text = line(columns.iter().map(|column| column.heading).collect());
    for row in rows {
        text += &line(row.iter().map(String::as_str).collect());
    }
    text
}

/// Sections as one text.
pub fn render(sections: &[AnswerSection]) -> String {
    sections.iter().map(AnswerSection::render).collect::<Vec<_>>().join("\n")
}

/// Sections as one JSON document.
pub fn json(sections: &[AnswerSection]) -> Value {
    let fields = sections.iter().map(|section| (section.name.to_owned(), section.json()));
    Value::Object(fields.collect::<Map<_, _>>())
}

/// Rows of a query as text.
///
/// # Errors
/// Fails if a column's type has no text.
#[cfg(feature = "query")]
pub fn rows_text(rows: &RecordBatch) -> Result<String> {
    let options = FormatOptions::default().with_null("-");
    let schema = rows.schema();
    let headings: Vec<String> = schema.fields().iter().map(|field| fitted(field.name())).collect();
    let mut formatters = Vec::new();
    for column in rows.columns() {
        let made = ArrayFormatter::try_new(column.as_ref(), &options);
        formatters.push(made.context(|| "show the rows".to_owned())?);
    }
    let numbers: Vec<bool> =
        schema.fields().iter().map(|field| field.data_type().is_numeric()).collect();
    let cell = |row: usize, at: usize| fitted(&formatters[at].value(row).to_string());
    let mut widths: Vec<usize> = headings.iter().map(|heading| heading.chars().count()).collect();
    // Cells are made twice: all of them at once would need several times the memory of the rows.
    for row in 0..rows.num_rows() {
        for (at, width) in widths.iter_mut().enumerate() {
            *width = (*width).max(cell(row, at).chars().count());
        }
    }
    let mut text = String::new();
    let mut add = |cells: &mut dyn Iterator<Item = String>| {
        let mut line = String::new();
        for ((cell, width), is_number) in cells.zip(&widths).zip(&numbers) {
            let _ = match is_number {
                true => write!(line, "{cell:>width$}  "),
                false => write!(line, "{cell:<width$}  "),
            };
        }
        text += line.trim_end();
        text.push('\n');
    };
    add(&mut headings.iter().cloned());
    for row in 0..rows.num_rows() {
        add(&mut (0..headings.len()).map(|at| cell(row, at)));
    }
    Ok(text)
}

/// Rows of a query as JSON: an array of objects.
///
/// # Errors
/// Fails if a column's type has no JSON.
#[cfg(feature = "query")]
pub fn rows_json(rows: &RecordBatch) -> Result<String> {
    let mut bytes = Vec::new();
    let mut writer = ArrayWriter::new(&mut bytes);
    writer.write(rows).context(|| "show the rows".to_owned())?;
    writer.finish().context(|| "show the rows".to_owned())?;
    match bytes.is_empty() {
        true => Ok("[]".to_owned()),
        false => Ok(safe_json(&String::from_utf8_lossy(&bytes))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_move_the_cursor() {
        assert_eq!(safe("a\x1b[2Jb\n\u{202e}c"), "a\\u{1b}[2Jb\\n\\u{202e}c");
        assert_eq!(fitted(&"x".repeat(100)).chars().count(), MOST_WIDTH);
    }

    #[test]
    fn json_is_safe_and_means_the_same() {
        let names = json!(["a\u{9b}2J\u{202e}b\x7f", "\x1b[31m", "é\u{200f}\u{1f600}\n"]);
        let shown = safe_json(&format!("{names:#}"));
        assert!(shown.chars().all(|it| it == '\n' || !is_unsafe(it)), "{shown:?}");
        assert!(shown.contains("\\u009b2J\\u202e") && shown.contains('é'), "{shown}");
        assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), names);
        assert_eq!(safe_lines("a\x1b\nhint: b"), "a\\u{1b}\nhint: b");
    }

    #[cfg(feature = "query")]
    #[test]
    fn rows_of_a_query_are_safe() {
        use datafusion::arrow::array::{ArrayRef, StringArray};
        let names: ArrayRef = std::sync::Arc::new(StringArray::from(vec!["a\u{9b}\u{202e}b"]));
        let rows = RecordBatch::try_from_iter([("host", names)]).unwrap();
        assert_eq!(rows_json(&rows).unwrap(), r#"[{"host":"a\u009b\u202eb"}]"#);
    }

    #[test]
    fn a_file_is_its_owners() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fleet.html");
        replace(&path, b"hosts").unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }

    #[test]
    fn columns_are_aligned() {
        let section = AnswerSection {
            name: "things",
            title: "Things".to_owned(),
            notes: vec!["A note.".to_owned()],
            columns: vec![text_column("host", "host"), number_column("count", "count")],
            rows: vec![
                vec![AnswerCell::text("web-1"), AnswerCell::count(7)],
                vec![AnswerCell::text("a"), AnswerCell::count(123_456)],
            ],
        };
        let expected = "Things\n  host    count\n  web-1       7\n  a      123456\nA note.\n";
        assert_eq!(section.render(), expected);
        assert_eq!(section.json()["rows"][1]["count"], 123_456);
    }

    #[test]
    fn figures_have_units() {
        assert_eq!(duration_text(12_340_000.0), "12.3 ms");
        assert_eq!(duration_text(999.0), "999 ns");
        assert_eq!(duration_text(2.5e9), "2.5 s");
        assert_eq!(size_text(4e12), "4.0 TB");
    }
}
