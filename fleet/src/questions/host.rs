//! `iowhy-fleet host NAME --time TIME`: one host around a time.
//!
//! What does not belong here: comparing it with others.

use super::cells::{NamedColumns, text_at};
use super::literal;
use crate::clock::{HOUR_S, minute_text, sql_time};
use crate::engine::FleetEngine;
use crate::error::{FleetError, Result};
use crate::output::{AnswerCell, AnswerSection, number_column, text_column};
use datafusion::arrow::array::{Array, AsArray, RecordBatch};
use datafusion::arrow::datatypes::TimestampMillisecondType;

/// A host within an hour of a time.
///
/// # Errors
/// Fails if no host has that name, or a query fails.
pub async fn host(engine: &FleetEngine, name: &str, at_s: i64) -> Result<Vec<AnswerSection>> {
    let (from_s, until_s) = (at_s - HOUR_S, at_s + HOUR_S);
    let time = format!("time >= {} AND time < {}", sql_time(from_s), sql_time(until_s));
    // Anybody may give a host the identity of another one as its name.
    let mut condition = format!("host_id = {} AND {time}", literal(name));
    let mut hosts = identities(engine, &condition).await?;
    if hosts.rows.is_empty() {
        condition = format!("host = {} AND {time}", literal(name));
        hosts = identities(engine, &condition).await?;
    }
    match hosts.rows.len() {
        0 => {
            let when = format!("from {} to {}", minute_text(from_s), minute_text(until_s));
            let message = format!("there is nothing of a host {name:?} {when} UTC");
            return Err(FleetError::new(message).hint("--time TIME; iowhy-fleet top lists hosts"));
        }
        1 => (),
        // Figures of two hosts must not be mixed.
        _ => return Ok(vec![hosts]),
    }
    Ok(vec![
        hosts,
        drives(engine, &condition).await?,
        waits(engine, &condition).await?,
        findings(engine, &condition).await?,
        incidents(engine, &condition).await?,
    ])
}

fn time_cell(rows: &RecordBatch, name: &str, row: usize) -> AnswerCell {
    let column = rows.column_by_name(name);
    let column = column.and_then(|column| column.as_primitive_opt::<TimestampMillisecondType>());
    match column.filter(|column| column.is_valid(row)) {
        Some(column) => AnswerCell::time(column.value(row).div_euclid(1000)),
        None => AnswerCell::text("-"),
    }
}

async fn identities(engine: &FleetEngine, condition: &str) -> Result<AnswerSection> {
    let sql = format!(
        "SELECT host_id, MIN(host) AS host, MIN(rack) AS rack, MAX(kernel) AS kernel, \
         MAX(iowhy) AS iowhy, SUM(minutes) AS minutes, SUM(lost_requests) AS lost, \
         MAX(ABS(clock_skew_s)) AS skew FROM hosts WHERE {condition} \
         GROUP BY host_id ORDER BY host_id"
    );
    let answer = engine.query(&sql).await?;
    let columns = NamedColumns::from_batch(&answer.rows);
    let texts = ["host", "host_id", "rack", "kernel", "iowhy"];
    let (minutes, lost) = (columns.numbers("minutes")?, columns.numbers("lost")?);
    let skew = columns.numbers("skew")?;
    let mut rows = Vec::new();
    let mut notes = Vec::new();
    for row in 0..answer.rows.num_rows() {
        let mut cells = Vec::new();
        for name in texts {
            cells.push(AnswerCell::text(text_at(columns.texts(name)?, row)));
        }
        cells.push(AnswerCell::count(minutes.value(row).max(0) as u64));
        cells.push(AnswerCell::count(lost.value(row).max(0) as u64));
        rows.push(cells);
        // Uploads may be late by hours; a clock that is ahead has no such explanation.
        if skew.is_valid(row) && skew.value(row) > HOUR_S {
            notes.push(format!(
                "The clocks of host and store differed by up to {} s when it was sent: it came \
                 late, or its times are wrong.",
                skew.value(row)
            ));
        }
    }
    if rows.len() > 1 {
        notes.push("Several hosts have this name: give an identity instead.".to_owned());
    }
    Ok(AnswerSection {
        name: "host",
        title: "Host".to_owned(),
        notes,
        columns: vec![
            text_column("host", "host"),
            text_column("identity", "host_id"),
            text_column("rack", "rack"),
            text_column("kernel", "kernel"),
            text_column("iowhy", "iowhy"),
            number_column("minutes", "minutes"),
            number_column("lost requests", "lost_requests"),
        ],
        rows,
    })
}

async fn drives(engine: &FleetEngine, condition: &str) -> Result<AnswerSection> {
    let sql = format!(
        "SELECT device, operation, MIN(model) AS model, MIN(firmware) AS firmware, \
         MIN(serial) AS serial, SUM(requests) AS requests, SUM(time_ns) AS time_ns, \
         latency_percentile(merge_latency(latency), 0.5) AS p50_ns, \
         latency_percentile(merge_latency(latency), 0.99) AS p99_ns, MAX(max_ns) AS max_ns, \
         host_id FROM flows WHERE {condition} GROUP BY host_id, device, operation \
         ORDER BY host_id, device, operation"
    );
    let answer = engine.query(&sql).await?;
    let columns = NamedColumns::from_batch(&answer.rows);
    let requests = columns.numbers("requests")?;
    let times = columns.numbers("time_ns")?;
    let mut rows = Vec::new();
    for row in 0..answer.rows.num_rows() {
        let mut cells = Vec::new();
        for name in ["device", "operation", "model", "firmware", "serial"] {
            cells.push(AnswerCell::text(text_at(columns.texts(name)?, row)));
        }
        let count = requests.value(row).max(0);
        cells.push(AnswerCell::count(count as u64));
        cells.push(AnswerCell::duration(times.value(row) as f64 / count.max(1) as f64));
        for name in ["p50_ns", "p99_ns", "max_ns"] {
            let column = columns.numbers(name)?;
            let value = if column.is_valid(row) { column.value(row) } else { 0 };
            cells.push(AnswerCell::duration(value as f64));
        }
        rows.push(cells);
    }
    Ok(AnswerSection {
        name: "drives",
        title: "Drives".to_owned(),
        notes: Vec::new(),
        columns: vec![
            text_column("device", "device"),
            text_column("operation", "operation"),
            text_column("model", "model"),
            text_column("firmware", "firmware"),
            text_column("serial", "serial"),
            number_column("requests", "requests"),
            number_column("mean", "mean_ns"),
            number_column("p50", "p50_ns"),
            number_column("p99", "p99_ns"),
            number_column("longest", "max_ns"),
        ],
        rows,
    })
}

async fn waits(engine: &FleetEngine, condition: &str) -> Result<AnswerSection> {
    let sql = format!(
        "SELECT class, SUM(time_ns) AS time_ns FROM blocked WHERE {condition} \
         GROUP BY class ORDER BY time_ns DESC, class LIMIT 10"
    );
    let answer = engine.query(&sql).await?;
    let columns = NamedColumns::from_batch(&answer.rows);
    let (classes, times) = (columns.texts("class")?, columns.numbers("time_ns")?);
    let row = |row: usize| {
        vec![AnswerCell::text(text_at(classes, row)), AnswerCell::duration(times.value(row) as f64)]
    };
    Ok(AnswerSection {
        name: "blocked",
        title: "Blocked time of all threads".to_owned(),
        notes: Vec::new(),
        columns: vec![text_column("wait class", "class"), number_column("blocked", "time_ns")],
        rows: (0..answer.rows.num_rows()).map(row).collect(),
    })
}

async fn findings(engine: &FleetEngine, condition: &str) -> Result<AnswerSection> {
    let sql = format!(
        "SELECT cause, severity, device, process, MIN(time) AS first, MAX(time) AS last, \
         SUM(minutes) AS minutes FROM findings WHERE {condition} \
         GROUP BY cause, severity, device, process ORDER BY severity, first, cause"
    );
    let answer = engine.query(&sql).await?;
    let columns = NamedColumns::from_batch(&answer.rows);
    let minutes = columns.numbers("minutes")?;
    let mut rows = Vec::new();
    for row in 0..answer.rows.num_rows() {
        let mut cells = Vec::new();
        for name in ["severity", "cause", "device", "process"] {
            cells.push(AnswerCell::text(text_at(columns.texts(name)?, row)));
        }
        cells.push(time_cell(&answer.rows, "first", row));
        cells.push(time_cell(&answer.rows, "last", row));
        cells.push(AnswerCell::count(minutes.value(row).max(0) as u64));
        rows.push(cells);
    }
    Ok(AnswerSection {
        name: "findings",
        title: if rows.is_empty() { "No findings" } else { "Findings" }.to_owned(),
        notes: Vec::new(),
        columns: vec![
            text_column("severity", "severity"),
            text_column("cause", "cause"),
            text_column("device", "device"),
            text_column("process", "process"),
            text_column("first", "first_s"),
            text_column("last", "last_s"),
            number_column("minutes", "minutes"),
        ],
        rows,
    })
}

async fn incidents(engine: &FleetEngine, condition: &str) -> Result<AnswerSection> {
    let sql = format!(
        "SELECT number, time, cause, severity, sentence, fix, recording FROM incidents \
         WHERE {condition} ORDER BY time, number"
    );
    let answer = engine.query(&sql).await?;
    let columns = NamedColumns::from_batch(&answer.rows);
    let numbers = columns.numbers("number")?;
    let mut rows = Vec::new();
    let mut notes = Vec::new();
    for row in 0..answer.rows.num_rows() {
        let text = |name: &str| columns.texts(name).map(|text| text_at(text, row).to_owned());
        rows.push(vec![
            AnswerCell::count(numbers.value(row).max(0) as u64),
            time_cell(&answer.rows, "time", row),
            AnswerCell::text(text("severity")?),
            AnswerCell::text(text("cause")?),
            AnswerCell::text(text("recording")?),
        ]);
        let (sentence, fix) = (text("sentence")?, text("fix")?);
        if !sentence.is_empty() {
            let fix = if fix.is_empty() { fix } else { format!(" The host's advice: {fix}") };
            notes.push(format!("{}: {sentence}{fix}", numbers.value(row)));
        }
    }
    Ok(AnswerSection {
        name: "incidents",
        title: if rows.is_empty() { "No incidents" } else { "Incidents" }.to_owned(),
        notes,
        columns: vec![
            number_column("incident", "number"),
            text_column("at", "time_s"),
            text_column("severity", "severity"),
            text_column("cause", "cause"),
            text_column("recording", "recording"),
        ],
        rows,
    })
}
