//! DuckDB and pandas read a recording as it is, and see the same rows.
//!
//! `scripts/python-env` makes a Python that has both. Where it cannot, the tests are skipped and
//! say so, except under `CI=true`.

use super::rows::{HOSTILE, RowRandom, batch};
use super::{environment, place, write};
use crate::python::python;
use iowhy_model::recording::{RecordingWriter, reference};
use iowhy_model::source::Batch;
use iowhy_model::table::{ColumnInfo, ColumnKind, ColumnValues, Columns, Table};
use iowhy_model::{Name, Names, Request};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

#[test]
fn duckdb_and_pandas_read_it_as_it_is() {
    let Some(python) = python() else { return };
    let (mut random, mut names) = (RowRandom(61), Names::new());
    let (parent, directory) = place();
    HOSTILE.iter().for_each(|text| _ = names.intern(text));
    let batches: Vec<Batch> = (0..2).map(|_| batch(700, &mut random, &mut names)).collect();
    write(&directory, &batches, &names);
    std::fs::write(parent.path().join("expected.json"), expected(&batches, &names).to_string())
        .unwrap();
    std::fs::write(parent.path().join("reference.md"), reference()).unwrap();
    run(&python, parent.path(), &directory);
}

/// The shapes that a busy disk gives: as many rows as a row group holds, most columns of one value.
#[test]
fn duckdb_and_pandas_read_row_groups_of_full_size() {
    let Some(python) = python() else { return };
    let mut names = Names::new();
    let (parent, directory) = place();
    let mut batch = batch(70_000, &mut RowRandom(67), &mut names);
    batch = Batch { requests: batch.requests, parts: batch.parts, ..Batch::default() };
    let mut first = batch.requests[0].clone();
    first.d2c_ns = Some(1);
    for (n, request) in batch.requests.iter_mut().enumerate() {
        let (request_id, start_ns) = (request.request_id, 1 << 40 | n as u64);
        *request = Request { request_id, start_ns, q2c_ns: request.q2c_ns, ..first.clone() };
    }
    let mut writer = RecordingWriter::create(&directory, &environment()).unwrap();
    writer.add(&batch, &names).unwrap();
    writer.finish(&mut environment(), &names).unwrap();
    std::fs::write(
        parent.path().join("expected.json"),
        expected(std::slice::from_ref(&batch), &names).to_string(),
    )
    .unwrap();
    std::fs::write(parent.path().join("reference.md"), reference()).unwrap();
    run(&python, parent.path(), &directory);
}

fn run(python: &Path, parent: &Path, directory: &Path) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/recording/other_programs.py");
    let output = Command::new(python)
        .arg(script)
        .args([directory, &parent.join("expected.json"), &parent.join("reference.md")])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// By table: each column's name and SQL type, and all rows.
fn expected(batches: &[Batch], names: &Names) -> Value {
    let mut all = Batch::default();
    for batch in batches {
        all.requests.extend(batch.requests.iter().cloned());
        all.parts.extend(batch.parts.iter().cloned());
        all.processes.extend(batch.processes.iter().cloned());
        all.stacks.extend(batch.stacks.iter().cloned());
        all.samples.extend(batch.samples.iter().cloned());
        all.events.extend(batch.events.iter().cloned());
    }
    let tables = [
        table(&all.requests, names),
        table(&all.parts, names),
        table(&all.processes, names),
        table(&all.stacks, names),
        table(&all.samples, names),
        table(&all.events, names),
    ];
    Value::Object(tables.into_iter().filter_map(|(name, table)| Some((name, table?))).collect())
}

fn table<T: Table>(rows: &[T], names: &Names) -> (String, Option<Value>) {
    let mut columns = Columns::for_table::<T>();
    columns.extend(rows);
    let types = T::COLUMNS.iter().map(|info| json!([info.name, info.kind.sql()]));
    let cells = |row| {
        let columns = T::COLUMNS.iter().zip(columns.columns());
        columns.map(|(info, column)| cell(info, column, row, names)).collect::<Value>()
    };
    let found = json!({
        "columns": types.collect::<Value>(),
        "rows": (0..rows.len()).map(cells).collect::<Value>(),
    });
    (T::NAME.to_owned(), (!rows.is_empty()).then_some(found))
}

fn cell(info: &ColumnInfo, column: &ColumnValues, row: usize, names: &Names) -> Value {
    let text = |raw: i64| json!(names.get(Name::from_index(raw as usize)));
    match (info.kind, column.get(row)) {
        (ColumnKind::Texts, _) => {
            column.list(row).unwrap_or_default().iter().map(|raw| text(*raw)).collect()
        }
        (_, None) => Value::Null,
        (ColumnKind::Text, Some(raw)) => text(raw),
        (ColumnKind::Float, Some(raw)) => json!(f64::from_bits(raw as u64)),
        (ColumnKind::Flag, Some(raw)) => json!(raw != 0),
        (ColumnKind::Integer, Some(raw)) => json!(raw),
    }
}
