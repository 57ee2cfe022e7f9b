//! `iowhy-fleet writers`: the programs that write most on all hosts, and the cost of each byte of
//! their calls.
//!
//! A byte counts once: of stacked devices, that of the upper one, except where devices are listed.
//!
//! What does not belong here: the program that a request is charged to, which each host's recorder
//! determines.

use super::cells::{NamedColumns, text_at};
use crate::engine::FleetEngine;
use crate::error::Result;
use crate::output::{
    AnswerCell, AnswerColumn, AnswerSection, number_column, size_text, text_column,
};
use datafusion::arrow::array::{Array, Int64Array};

/// Bytes of pages that a call makes dirty beyond its own: at most two pages.
const MORE_PAGES_BYTES: u64 = 2 * 4096;
/// Bytes written for each byte asked from which a row is named …
const LEAST_FACTOR: f64 = 10.0;
/// … if it wrote at least this share of all bytes.
const LEAST_SHARE: f64 = 0.01;

/// What rows are put together by.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum WriterGroup {
    /// Programs.
    Program,
    /// Containers, units, cgroups.
    Container,
    /// Files of programs.
    File,
    /// Hosts.
    Host,
    /// Devices of hosts.
    Device,
}

/// By what rows are sorted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum WriterOrder {
    /// By what devices wrote.
    Written,
    /// By what was asked for.
    Asked,
    /// By what devices read.
    Read,
    /// By how often an idle disk was woken.
    Wakes,
}

impl WriterGroup {
    /// The columns of a group.
    const fn keys(self) -> &'static [&'static str] {
        match self {
            WriterGroup::Program => &["kind", "program"],
            WriterGroup::Container => &["kind", "container"],
            WriterGroup::File => &["kind", "program", "file"],
            WriterGroup::Host => &["host_id"],
            WriterGroup::Device => &["host_id", "device"],
        }
    }

    /// The columns that are shown of a group, with the names that SQL and JSON have.
    fn names(self) -> Vec<AnswerColumn> {
        let column = |name| text_column(name, name);
        match self {
            WriterGroup::Program => vec![column("program")],
            WriterGroup::Container => vec![column("container")],
            WriterGroup::File => vec![column("program"), column("file")],
            WriterGroup::Host => vec![column("host")],
            WriterGroup::Device => {
                vec![column("host"), column("device"), column("model"), column("serial")]
            }
        }
    }

    const fn is_of_host(self) -> bool {
        matches!(self, WriterGroup::Host | WriterGroup::Device)
    }
}

impl WriterOrder {
    const fn column(self) -> &'static str {
        match self {
            WriterOrder::Written => "written_bytes",
            WriterOrder::Asked => "asked_bytes",
            WriterOrder::Read => "read_bytes",
            WriterOrder::Wakes => "wakes",
        }
    }
}

/// The first rows by that order.
///
/// # Errors
/// Fails if the queries fail.
pub async fn writers(
    engine: &FleetEngine,
    group: WriterGroup,
    order: WriterOrder,
    most: usize,
) -> Result<AnswerSection> {
    let totals = engine.query(TOTALS).await?;
    let totals = NamedColumns::from_batch(&totals.rows);
    let total = |name: &str| Ok::<u64, _>(figure(totals.numbers(name)?, 0));
    let (written, asked) = (total("written_bytes")?, total("asked_bytes")?);
    let answer = engine.query(&sql(group, order, most)).await?;
    let columns = NamedColumns::from_batch(&answer.rows);
    let mut section = AnswerSection {
        name: "writers",
        title: title(written, asked, total("hosts")?),
        columns: headings(group),
        ..AnswerSection::default()
    };
    for row in 0..answer.rows.num_rows() {
        let sums = RowSums::read(&columns, row)?;
        let names = names(&columns, group, row)?;
        let hosts = figure(columns.numbers("hosts")?, row);
        let most_on = text_at(columns.texts("most_on")?, row);
        section.notes.extend(sums.note(&names.join(" "), written, hosts, most_on));
        let mut cells: Vec<AnswerCell> = names.into_iter().map(AnswerCell::text).collect();
        if !group.is_of_host() {
            cells.push(AnswerCell::count(hosts));
        }
        cells.extend(sums.cells(written));
        if !group.is_of_host() {
            cells.push(AnswerCell::text(most_on));
        }
        section.rows.push(cells);
    }
    if !section.rows.is_empty() {
        section.notes.push("iowhy history --who on a host says more of its programs.".to_owned());
    }
    Ok(section)
}

const TOTALS: &str = "SELECT CAST(SUM(data_bytes + journal_bytes + metadata_bytes) AS BIGINT) \
     AS written_bytes, SUM(asked_bytes) AS asked_bytes, COUNT(DISTINCT host_id) AS hosts \
     FROM writers WHERE NOT below";

fn title(written: u64, asked: u64, hosts: u64) -> String {
    match hosts {
        0 => "No host has sent who writes".to_owned(),
        _ => format!(
            "Who writes: {} on {hosts} hosts, for {} asked",
            size_text(written as f64),
            size_text(asked as f64)
        ),
    }
}

/// Sums of each group by host, then of all hosts with the one that wrote most.
fn sql(group: WriterGroup, order: WriterOrder, most: usize) -> String {
    let keys = group.keys().join(", ");
    let inner = match group.is_of_host() {
        true => keys.clone(),
        false => format!("{keys}, host_id"),
    };
    let counted = match group {
        WriterGroup::Device => "TRUE",
        _ => "NOT below",
    };
    let sum = |name: &&str| format!("SUM({name}) AS {name}");
    let sums = FIGURES.iter().map(sum).collect::<Vec<_>>().join(", ");
    let order = order.column();
    format!(
        "SELECT {keys}, COUNT(*) AS hosts, MIN(host) AS host, MIN(model) AS model, \
         MIN(serial) AS serial, SUM(written_bytes) AS written_bytes, {sums}, \
         FIRST_VALUE(host ORDER BY {order} DESC, host_id) AS most_on \
         FROM (SELECT {inner}, MIN(host) AS host, MIN(model) AS model, MIN(serial) AS serial, \
         SUM(data_bytes + journal_bytes + metadata_bytes) AS written_bytes, {sums} \
         FROM writers WHERE {counted} GROUP BY {inner}) AS of_hosts GROUP BY {keys} \
         HAVING SUM({order}) > 0 \
         ORDER BY {order} DESC, {keys} LIMIT {most}"
    )
}

/// The figures of a row that are added up.
const FIGURES: [&str; 7] = [
    "asked_bytes",
    "asked_calls",
    "data_bytes",
    "journal_bytes",
    "metadata_bytes",
    "read_bytes",
    "wakes",
];

fn figure(column: &Int64Array, row: usize) -> u64 {
    let is_there = row < column.len() && column.is_valid(row);
    if is_there { u64::try_from(column.value(row)).unwrap_or(0) } else { 0 }
}

/// Returns the names of a row; rows of no program have the name of their kind.
fn names(columns: &NamedColumns<'_>, group: WriterGroup, row: usize) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for column in group.names() {
        names.push(text_at(columns.texts(column.name)?, row).to_owned());
    }
    if let (false, Some(first)) = (group.is_of_host(), names.first_mut()) {
        match text_at(columns.texts("kind")?, row) {
            "others" => "(others)".clone_into(first),
            "unknown" => "(not known)".clone_into(first),
            "unseen" => "(not recorded)".clone_into(first),
            _ if first.is_empty() => "(none)".clone_into(first),
            _ => (),
        }
    }
    Ok(names)
}

fn headings(group: WriterGroup) -> Vec<AnswerColumn> {
    let mut columns = group.names();
    if !group.is_of_host() {
        columns.push(number_column("hosts", "hosts"));
    }
    columns.extend([
        number_column("written", "written_bytes"),
        number_column("share", "share"),
        number_column("asked", "asked_bytes"),
        number_column("amplif", "amplification"),
        number_column("data", "data_bytes"),
        number_column("journal", "journal_bytes"),
        number_column("metadata", "metadata_bytes"),
        number_column("read", "read_bytes"),
        number_column("wakes", "wakes"),
    ]);
    if !group.is_of_host() {
        columns.push(text_column("most on", "most_on"));
    }
    columns
}

/// The figures of a row of the answer.
struct RowSums {
    written: u64,
    asked: u64,
    calls: u64,
    data: u64,
    journal: u64,
    metadata: u64,
    read: u64,
    wakes: u64,
}

impl RowSums {
    fn read(columns: &NamedColumns<'_>, row: usize) -> Result<RowSums> {
        let number = |name: &str| Ok(figure(columns.numbers(name)?, row));
        Ok(RowSums {
            written: number("written_bytes")?,
            asked: number("asked_bytes")?,
            calls: number("asked_calls")?,
            data: number("data_bytes")?,
            journal: number("journal_bytes")?,
            metadata: number("metadata_bytes")?,
            read: number("read_bytes")?,
            wakes: number("wakes")?,
        })
    }

    /// Returns the bytes written for each byte of the calls; `None` as in `iowhy history --who`:
    /// there were none, or more pages were written than calls can have made dirty, so it writes
    /// through a mapping.
    fn factor(&self) -> Option<f64> {
        let most = self.asked.saturating_add(self.calls.saturating_mul(MORE_PAGES_BYTES));
        let is_mapped = self.calls > 0 && self.data > most;
        (self.asked > 0 && !is_mapped).then(|| self.written as f64 / self.asked as f64)
    }

    fn share(&self, all: u64) -> f64 {
        self.written as f64 / all.max(1) as f64
    }

    fn cells(&self, all: u64) -> Vec<AnswerCell> {
        let size = |bytes: u64| AnswerCell::number(bytes as f64, size_text(bytes as f64));
        let factor = self.factor().map_or_else(
            || AnswerCell { text: "-".to_owned(), value: serde_json::Value::Null },
            |factor| AnswerCell::number(factor, factor_text(factor)),
        );
        let share = self.share(all);
        vec![
            size(self.written),
            AnswerCell::number(share, format!("{:.1} %", share * 100.0)),
            size(self.asked),
            factor,
            size(self.data),
            size(self.journal),
            size(self.metadata),
            size(self.read),
            AnswerCell::count(self.wakes),
        ]
    }

    /// Returns a sentence on a row that writes many times the bytes of its calls.
    fn note(&self, name: &str, all: u64, hosts: u64, most_on: &str) -> Option<String> {
        let factor = self.factor().filter(|factor| *factor >= LEAST_FACTOR)?;
        (self.share(all) >= LEAST_SHARE).then(|| {
            let parts =
                [("data", self.data), ("journal", self.journal), ("metadata", self.metadata)];
            let per_byte = |bytes: u64| factor_text(bytes as f64 / self.asked as f64);
            let parts = parts.map(|(word, bytes)| format!("{word} {}", per_byte(bytes))).join(", ");
            let hosts = if hosts == 1 { "one host".to_owned() } else { format!("{hosts} hosts") };
            format!(
                "{name}: {} bytes written for each byte asked ({parts}), on {hosts}, most on \
                 {most_on}.",
                factor_text(factor)
            )
        })
    }
}

fn factor_text(factor: f64) -> String {
    match factor < 9.95 {
        true => format!("{factor:.1}x"),
        false => format!("{factor:.0}x"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(asked: u64, calls: u64, data: u64, journal: u64) -> RowSums {
        let written = data + journal;
        RowSums { written, asked, calls, data, journal, metadata: 0, read: 0, wakes: 0 }
    }

    #[test]
    fn what_costs_much_is_named_unless_it_writes_little_or_through_a_mapping() {
        let small = sums(1000, 10, 41_000, 100_000);
        let note = small.note("logger", 1_000_000, 3, "web-1").unwrap();
        assert!(note.contains("logger: 141x") && note.contains("journal 100x"), "{note}");
        assert_eq!(small.note("logger", 100_000_000, 3, "web-1"), None);
        let mapped = sums(1000, 1, 5_000_000, 0);
        assert_eq!((mapped.factor(), mapped.note("x", 1, 1, "h")), (None, None));
        assert_eq!(sums(0, 0, 5, 0).factor(), None);
        assert_eq!(sums(1000, 1, 4096, 0).note("x", 1, 1, "h"), None);
    }
}
