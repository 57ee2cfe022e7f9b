//! The rows of one table as CSV (RFC 4180): a heading, then a line for each row. Null is nothing at
//! all, the empty text is `""`; a list is one cell with its items joined by newlines.
//!
//! What does not belong here: choosing columns, which DuckDB does better on the recording itself.

use super::export::{Exported, Exporter};
use iowhy_model::source::Batch;
use iowhy_model::table::{ColumnInfo, ColumnKind, ColumnValues, Columns, Table};
use iowhy_model::{
    Environment, Event, FileActivity, Name, Names, Process, Request, RequestPart, Sample, Stack,
    Wait, WaitChain, WaitRequest,
};
use std::borrow::Cow;
use std::io::{self, Write};

/// Rows that are turned into columns together.
const TOGETHER: usize = 4096;

macro_rules! tables {
    ($($variant:ident: $row:ty, $field:ident, $doc:literal;)+) => {
        /// A table that can be exported.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Which { $( #[doc = $doc] $variant ),+ }

        impl Which {
            /// Every table.
            pub const ALL: &'static [Which] = &[$( Which::$variant ),+];

            /// Returns the table's name, as in a recording.
            pub fn name(self) -> &'static str {
                match self { $( Which::$variant => <$row>::NAME ),+ }
            }

            /// The table of that name.
            pub fn from_name(name: &str) -> Option<Which> {
                Which::ALL.iter().copied().find(|which| which.name() == name)
            }

            fn infos(self) -> &'static [ColumnInfo] {
                match self { $( Which::$variant => <$row>::COLUMNS ),+ }
            }

            fn write(self, batch: &Batch, cells: &mut CellWriter<'_>) -> io::Result<u64> {
                match self { $( Which::$variant => rows(&batch.$field, cells) ),+ }
            }
        }
    };
}

tables! {
    Requests: Request, requests, "Requests.";
    RequestParts: RequestPart, parts, "Files and owners of requests.";
    Waits: Wait, waits, "Waits of threads.";
    WaitRequests: WaitRequest, wait_requests, "What they waited for.";
    WaitChains: WaitChain, wait_chains, "Threads that waited for waiting threads.";
    Files: FileActivity, files, "What processes did with files.";
    Samples: Sample, samples, "Counters.";
    Events: Event, events, "Single block events.";
    Stacks: Stack, stacks, "Stacks.";
    Processes: Process, processes, "Processes.";
}

/// Writes one table.
#[derive(Debug)]
pub struct Csv {
    table: Which,
    rows: u64,
    is_for_spreadsheet: bool,
}

impl Csv {
    /// The rows of `table`.
    pub fn new(table: Which) -> Csv {
        Csv { table, rows: 0, is_for_spreadsheet: false }
    }

    /// Makes it fit for a spreadsheet: a text that it would take for a formula has a `'` before it.
    /// Numbers stay numbers.
    #[must_use]
    pub fn for_spreadsheet(self) -> Csv {
        Csv { is_for_spreadsheet: true, ..self }
    }
}

impl Exporter for Csv {
    fn begin(&mut self, _environment: &Environment, out: &mut dyn Write) -> io::Result<()> {
        let heading: Vec<&str> = self.table.infos().iter().map(|info| info.name).collect();
        write!(out, "{}\r\n", heading.join(","))
    }

    fn take(&mut self, batch: &Batch, names: &Names, out: &mut dyn Write) -> io::Result<()> {
        let mut cells = CellWriter { names, out, is_for_spreadsheet: self.is_for_spreadsheet };
        self.rows += self.table.write(batch, &mut cells)?;
        Ok(())
    }

    fn finish(&mut self, _names: &Names, _out: &mut dyn Write) -> io::Result<Exported> {
        let notes = match (self.rows, self.table) {
            (0, Which::Events) => vec![
                "there are no events: they are only recorded by `iowhy record --events`".to_owned(),
            ],
            _ => Vec::new(),
        };
        Ok(Exported { rows: self.rows, notes, ..Exported::default() })
    }
}

fn rows<T: Table>(rows: &[T], cells: &mut CellWriter<'_>) -> io::Result<u64> {
    let mut columns = Columns::for_table::<T>();
    for together in rows.chunks(TOGETHER) {
        columns.clear();
        columns.extend(together);
        for row in 0..together.len() {
            for (index, (info, column)) in T::COLUMNS.iter().zip(columns.columns()).enumerate() {
                if index > 0 {
                    cells.out.write_all(b",")?;
                }
                cells.cell(info.kind, column, row)?;
            }
            cells.out.write_all(b"\r\n")?;
        }
    }
    Ok(rows.len() as u64)
}

/// Writes cells.
struct CellWriter<'a> {
    names: &'a Names,
    out: &'a mut dyn Write,
    is_for_spreadsheet: bool,
}

impl CellWriter<'_> {
    fn cell(&mut self, kind: ColumnKind, column: &ColumnValues, row: usize) -> io::Result<()> {
        let names = self.names;
        let name = |raw: i64| names.get(Name::from_index(raw as usize));
        if kind == ColumnKind::Texts {
            let items: Vec<&str> =
                column.list(row).unwrap_or_default().iter().map(|raw| name(*raw)).collect();
            return self.text(&items.join("\n"));
        }
        let Some(raw) = column.get(row) else { return Ok(()) };
        match kind {
            ColumnKind::Float => write!(self.out, "{}", f64::from_bits(raw as u64)),
            ColumnKind::Flag => write!(self.out, "{}", raw != 0),
            ColumnKind::Text => self.text(name(raw)),
            ColumnKind::Integer | ColumnKind::Texts => write!(self.out, "{raw}"),
        }
    }

    fn text(&mut self, text: &str) -> io::Result<()> {
        let text = match self.is_for_spreadsheet {
            true => Cow::Owned(without_formulas(text)),
            false => Cow::Borrowed(text),
        };
        let plain = |c: char| c != '"' && c != ',' && !c.is_control();
        if !text.is_empty() && text.chars().all(plain) {
            return write!(self.out, "{text}");
        }
        write!(self.out, "\"{}\"", text.replace('"', "\"\""))
    }
}

/// Returns `text` with an apostrophe before everything that a spreadsheet may take for a formula:
/// at its beginning, and after what separates cells where the decimal sign is a comma.
fn without_formulas(text: &str) -> String {
    let mut safe = String::with_capacity(text.len() + 1);
    let mut begins = true;
    for character in text.chars() {
        let is_blank = matches!(character, '\t' | '\r' | '\n');
        let is_sign = matches!(character, '=' | '+' | '-' | '@' | '＝' | '＋' | '－' | '＠');
        if begins && (is_sign || is_blank) {
            safe.push('\'');
        }
        safe.push(character);
        begins = is_blank || character == ';' || begins && character == ' ';
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;
    use iowhy_model::script::Script;

    /// The line of a request of the process `name`.
    fn line(name: &str, csv: Csv) -> String {
        let mut script = Script::new(1);
        script.read("sda", 4096).by(7, name).direct(100, 200, 3_000_000).add();
        let mut csv = csv;
        let mut out = Vec::new();
        csv.take(&script.batch, &script.names, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn formulas_are_texts_in_a_spreadsheet_and_numbers_are_numbers() {
        for name in ["=cmd|\"/C calc\"!A0", "+1", "-bash", "@SUM(A1)", "\t1", "＝1"] {
            let exact = line(name, Csv::new(Which::Requests));
            let quoted = name.replace('"', "\"\"");
            assert!(exact.contains(&quoted) && !exact.contains('\''), "{exact}");
            let safe = line(name, Csv::new(Which::Requests).for_spreadsheet());
            assert!(safe.contains(&format!("'{quoted}")), "{safe}");
            assert!(safe.contains(",4096,"), "{safe}");
        }
        let pairs = [("a;=1", "a;'=1"), ("\t=1", "'\t'=1"), (" =1", " '=1"), ("a-b", "a-b")];
        for (name, safe) in pairs {
            assert_eq!(without_formulas(name), safe);
        }
        let plain = line("cat", Csv::new(Which::Requests).for_spreadsheet());
        assert_eq!(plain, line("cat", Csv::new(Which::Requests)));
    }
}
