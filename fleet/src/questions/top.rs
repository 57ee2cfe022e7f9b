//! `iowhy-fleet top`: the slowest, the busiest, the longest waits.
//!
//! What does not belong here: drives that are slower than they should be (`outliers`).

use super::cells::{NamedColumns, text_at};
use crate::engine::FleetEngine;
use crate::error::Result;
use crate::output::{AnswerCell, AnswerSection, number_column, size_text, text_column};
use datafusion::arrow::array::Array;

/// By what it is sorted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum TopOrder {
    /// Drives by the mean latency of their requests.
    Latency,
    /// Drives by the 99th percentile of all their requests together.
    P99,
    /// Drives by requests.
    Requests,
    /// Drives by bytes.
    Bytes,
    /// Hosts by blocked time.
    Blocked,
}

impl TopOrder {
    fn column(self) -> &'static str {
        match self {
            TopOrder::Latency => "time_ns * 1.0 / requests",
            TopOrder::P99 => "p99_ns",
            TopOrder::Requests => "requests",
            TopOrder::Bytes => "bytes",
            TopOrder::Blocked => "time_ns",
        }
    }
}

/// The first rows by that order.
///
/// # Errors
/// Fails if the query fails.
pub async fn top(engine: &FleetEngine, order: TopOrder, most: usize) -> Result<AnswerSection> {
    match order {
        TopOrder::Blocked => blocked(engine, most).await,
        _ => drives(engine, order, most).await,
    }
}

async fn drives(engine: &FleetEngine, order: TopOrder, most: usize) -> Result<AnswerSection> {
    // The histograms are most of the bytes: they are read only if the order needs them.
    let p99 = match order {
        TopOrder::P99 => "latency_percentile(merge_latency(latency), 0.99)",
        _ => "MAX(p99_ns)",
    };
    let sql = format!(
        "SELECT * FROM (SELECT MIN(host) AS host, host_id, device, operation, \
         MIN(model) AS model, MIN(serial) AS serial, SUM(requests) AS requests, \
         SUM(bytes) AS bytes, SUM(time_ns) AS time_ns, {p99} AS p99_ns, MAX(max_ns) AS max_ns \
         FROM flows GROUP BY host_id, device, operation HAVING SUM(requests) > 0) AS drives \
         ORDER BY {} DESC NULLS LAST, host_id, device, operation LIMIT {most}",
        order.column()
    );
    let answer = engine.query(&sql).await?;
    let columns = NamedColumns::from_batch(&answer.rows);
    let (requests, bytes) = (columns.numbers("requests")?, columns.numbers("bytes")?);
    let (times, p99) = (columns.numbers("time_ns")?, columns.numbers("p99_ns")?);
    let longest = columns.numbers("max_ns")?;
    let mut rows = Vec::new();
    for row in 0..answer.rows.num_rows() {
        let text =
            |name: &str| columns.texts(name).map(|texts| AnswerCell::text(text_at(texts, row)));
        let count = requests.value(row) as f64;
        let p99_ns = if p99.is_valid(row) { p99.value(row) as f64 } else { 0.0 };
        rows.push(vec![
            text("host")?,
            text("device")?,
            text("operation")?,
            text("model")?,
            text("serial")?,
            AnswerCell::count(requests.value(row).max(0) as u64),
            AnswerCell::number(bytes.value(row) as f64, size_text(bytes.value(row) as f64)),
            AnswerCell::duration(times.value(row) as f64 / count),
            AnswerCell::duration(p99_ns),
            AnswerCell::duration(longest.value(row) as f64),
        ]);
    }
    let p99 = match order {
        TopOrder::P99 => number_column("p99", "p99_ns"),
        _ => number_column("worst p99", "p99_ns"),
    };
    let columns = vec![
        text_column("host", "host"),
        text_column("device", "device"),
        text_column("operation", "operation"),
        text_column("model", "model"),
        text_column("serial", "serial"),
        number_column("requests", "requests"),
        number_column("bytes", "bytes"),
        number_column("mean", "mean_ns"),
        p99,
        number_column("longest", "max_ns"),
    ];
    let title = "Drives".to_owned();
    Ok(AnswerSection { name: "top", title, notes: Vec::new(), columns, rows })
}

async fn blocked(engine: &FleetEngine, most: usize) -> Result<AnswerSection> {
    let sql = format!(
        "SELECT * FROM (SELECT MIN(host) AS host, host_id, class, SUM(time_ns) AS time_ns \
         FROM blocked GROUP BY host_id, class) AS waits \
         ORDER BY time_ns DESC, host_id, class LIMIT {most}"
    );
    let answer = engine.query(&sql).await?;
    let columns = NamedColumns::from_batch(&answer.rows);
    let (hosts, classes) = (columns.texts("host")?, columns.texts("class")?);
    let times = columns.numbers("time_ns")?;
    let row = |row: usize| {
        vec![
            AnswerCell::text(text_at(hosts, row)),
            AnswerCell::text(text_at(classes, row)),
            AnswerCell::duration(times.value(row) as f64),
        ]
    };
    Ok(AnswerSection {
        name: "top",
        title: "Blocked time of all threads".to_owned(),
        notes: Vec::new(),
        columns: vec![
            text_column("host", "host"),
            text_column("wait class", "class"),
            number_column("blocked", "time_ns"),
        ],
        rows: (0..answer.rows.num_rows()).map(row).collect(),
    })
}
