//! CSV, read back by a reader of its own that knows only RFC 4180.

use super::exported::exported;
use crate::rows::{HOSTILE, RowRandom, batch};
use iowhy_analysis::formats::csv::{Csv, Which};
use iowhy_model::script::Script;
use iowhy_model::table::Table;
use iowhy_model::{Names, Process};

/// Rows of cells; `None` is a cell without even quotes.
fn parse(text: &str) -> Vec<Vec<Option<String>>> {
    let (mut rows, mut row, mut cell) = (Vec::new(), Vec::new(), None::<String>);
    let mut quoted = false;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                cell.as_mut().unwrap().push(chars.next().unwrap())
            }
            '"' => {
                quoted = !quoted;
                cell.get_or_insert_default();
            }
            ',' if !quoted => row.push(cell.take()),
            '\r' if !quoted => {
                assert_eq!(chars.next(), Some('\n'));
                row.push(cell.take());
                rows.push(std::mem::take(&mut row));
            }
            c => cell.get_or_insert_default().push(c),
        }
    }
    assert!(!quoted && row.is_empty() && cell.is_none());
    rows
}

#[test]
fn every_table_of_hostile_rows_reads_back() {
    let mut names = Names::new();
    HOSTILE.iter().for_each(|text| _ = names.intern(text));
    let rows = batch(500, &mut RowRandom(5), &mut names);
    let mut script = Script::new(1);
    (script.batch, script.names) = (rows.clone(), names.clone());
    for which in Which::ALL {
        let (bytes, exported) = exported(&script, &mut Csv::new(*which));
        let table = parse(std::str::from_utf8(&bytes).unwrap());
        assert_eq!(exported.rows as usize, table.len() - 1, "{}", which.name());
        assert!(table.iter().all(|row| row.len() == table[0].len()));
        assert_eq!(Which::from_name(which.name()), Some(*which));
    }
    let (bytes, _) = exported(&script, &mut Csv::new(Which::Processes));
    let table = parse(std::str::from_utf8(&bytes).unwrap());
    let column = |name: &str| Process::COLUMNS.iter().position(|info| info.name == name).unwrap();
    let (pid, process, user) = (column("pid"), column("process"), column("user"));
    for (cells, row) in table[1..].iter().zip(&rows.processes) {
        assert_eq!(cells[pid].as_deref().unwrap(), row.pid.to_string());
        assert_eq!(cells[process].as_deref().unwrap(), names.get(row.process));
        assert_eq!(cells[user].as_deref(), row.user.map(|name| names.get(name)));
    }
}
