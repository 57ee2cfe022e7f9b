//! Rows as texts to compare.

use iowhy_model::recording::TABLES;
use iowhy_model::source::Batch;
use iowhy_model::table::{ColumnInfo, ColumnKind, ColumnValues, Columns, Table};
use iowhy_model::{Name, Names};

/// Every cell of `batch` as text, by table: `0 device "sda"`.
pub fn shown(batch: &Batch, names: &Names) -> Vec<(&'static str, Vec<String>)> {
    let shown = vec![
        show(&batch.requests, names),
        show(&batch.parts, names),
        show(&batch.waits, names),
        show(&batch.wait_requests, names),
        show(&batch.wait_chains, names),
        show(&batch.files, names),
        show(&batch.samples, names),
        show(&batch.events, names),
        show(&batch.stacks, names),
        show(&batch.processes, names),
    ];
    assert_eq!(shown.len(), TABLES.len());
    shown
}

fn show<T: Table>(rows: &[T], names: &Names) -> (&'static str, Vec<String>) {
    let mut columns = Columns::for_table::<T>();
    columns.extend(rows);
    let cells = |row| {
        let columns = T::COLUMNS.iter().zip(columns.columns());
        columns.map(move |(info, column)| {
            format!("{row} {} {}", info.name, cell(info, column, row, names))
        })
    };
    (T::NAME, (0..rows.len()).flat_map(cells).collect())
}

fn cell(info: &ColumnInfo, column: &ColumnValues, row: usize, names: &Names) -> String {
    let text = |raw: i64| names.get(Name::from_index(raw as usize)).to_owned();
    match (info.kind, column.get(row)) {
        (ColumnKind::Texts, _) => {
            let items = column.list(row).unwrap_or_default();
            format!("{:?}", items.iter().map(|raw| text(*raw)).collect::<Vec<_>>())
        }
        (_, None) => "null".to_owned(),
        (ColumnKind::Text, Some(raw)) => format!("{:?}", text(raw)),
        (ColumnKind::Float, Some(raw)) => format!("{:?}", f64::from_bits(raw as u64)),
        (_, Some(raw)) => raw.to_string(),
    }
}
