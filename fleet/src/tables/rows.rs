//! Rows of the tables from uploads.
//!
//! What does not belong here: whether an upload is valid (`upload`).

use super::{
    BLOCKED, CONTAINERS, ColumnKind, FINDINGS, FLOWS, FleetTable, HOSTS, INCIDENTS, TABLES,
    WRITERS, bin_fields,
};
use crate::error::{FleetContext, FleetError, Result};
use crate::histogram::{LatencyBin, percentile, time_ns};
use crate::upload::{Upload, UploadDrive, UploadIncident};
use datafusion::arrow::array::{
    ArrayRef, BooleanBuilder, Int64Builder, ListBuilder, RecordBatch, StringBuilder, StructBuilder,
    TimestampMillisecondBuilder,
};
use std::sync::Arc;

/// A value of a row.
enum RowValue<'a> {
    Text(Option<&'a str>),
    Count(Option<i64>),
    Flag(Option<bool>),
    /// Milliseconds since 1970.
    Time(i64),
    Latency(&'a [LatencyBin]),
}

impl RowValue<'_> {
    /// Bytes that it takes in memory.
    const fn bytes(&self) -> usize {
        match self {
            RowValue::Text(Some(text)) => text.len() + 4,
            RowValue::Text(None) => 4,
            RowValue::Count(_) | RowValue::Time(_) => 8,
            RowValue::Flag(_) => 1,
            RowValue::Latency(bins) => 4 + bins.len() * 16,
        }
    }
}

fn count<'a>(value: u64) -> RowValue<'a> {
    RowValue::Count(i64::try_from(value).ok())
}

/// Makes text a value; empty text is not known.
fn known(text: &str) -> RowValue<'_> {
    RowValue::Text(Some(text).filter(|text| !text.is_empty()))
}

fn maybe(text: &Option<String>) -> RowValue<'_> {
    RowValue::Text(text.as_deref().filter(|text| !text.is_empty()))
}

/// A column that is being filled.
enum ColumnBuilder {
    Text(StringBuilder),
    Count(Int64Builder),
    Flag(BooleanBuilder),
    Time(TimestampMillisecondBuilder),
    Latency(ListBuilder<StructBuilder>),
}

impl ColumnBuilder {
    fn new(kind: ColumnKind) -> ColumnBuilder {
        match kind {
            ColumnKind::Text => ColumnBuilder::Text(StringBuilder::new()),
            ColumnKind::Count => ColumnBuilder::Count(Int64Builder::new()),
            ColumnKind::Flag => ColumnBuilder::Flag(BooleanBuilder::new()),
            ColumnKind::Time => {
                ColumnBuilder::Time(TimestampMillisecondBuilder::new().with_timezone("UTC"))
            }
            ColumnKind::Latency => {
                let bins = StructBuilder::from_fields(bin_fields(), 0);
                ColumnBuilder::Latency(ListBuilder::new(bins))
            }
        }
    }

    /// Adds the value; returns whether it is of the column's kind.
    fn push(&mut self, value: &RowValue<'_>) -> bool {
        match (self, value) {
            (ColumnBuilder::Text(column), RowValue::Text(text)) => column.append_option(*text),
            (ColumnBuilder::Count(column), RowValue::Count(it)) => column.append_option(*it),
            (ColumnBuilder::Flag(column), RowValue::Flag(flag)) => column.append_option(*flag),
            (ColumnBuilder::Time(column), RowValue::Time(time)) => column.append_value(*time),
            (ColumnBuilder::Latency(column), RowValue::Latency(bins)) => {
                for (from_ns, requests) in *bins {
                    let item = column.values();
                    for (at, number) in [*from_ns, *requests].into_iter().enumerate() {
                        if let Some(field) = item.field_builder::<Int64Builder>(at) {
                            field.append_value(i64::try_from(number).unwrap_or(i64::MAX));
                        }
                    }
                    item.append(true);
                }
                column.append(true);
            }
            _ => return false,
        }
        true
    }

    fn finish(self) -> ArrayRef {
        match self {
            ColumnBuilder::Text(mut column) => Arc::new(column.finish()),
            ColumnBuilder::Count(mut column) => Arc::new(column.finish()),
            ColumnBuilder::Flag(mut column) => Arc::new(column.finish()),
            ColumnBuilder::Time(mut column) => Arc::new(column.finish()),
            ColumnBuilder::Latency(mut column) => Arc::new(column.finish()),
        }
    }
}

/// Rows of one table that are being collected.
struct TableRows {
    table: &'static FleetTable,
    columns: Vec<ColumnBuilder>,
    rows: usize,
    bytes: usize,
}

impl TableRows {
    fn new(table: &'static FleetTable) -> TableRows {
        let columns = table.columns.iter().map(|column| ColumnBuilder::new(column.kind)).collect();
        TableRows { table, columns, rows: 0, bytes: 0 }
    }

    fn push(&mut self, values: &[RowValue<'_>]) -> Result<()> {
        let fits = self.columns.len() == values.len()
            && self.columns.iter_mut().zip(values).all(|(column, value)| column.push(value));
        self.rows += 1;
        self.bytes += values.iter().map(RowValue::bytes).sum::<usize>();
        match fits {
            true => Ok(()),
            false => {
                Err(FleetError::new(format!("a row of {} has other columns", self.table.name)))
            }
        }
    }
}

/// Rows of all tables that are being collected.
pub struct FleetRows {
    hosts: TableRows,
    flows: TableRows,
    blocked: TableRows,
    containers: TableRows,
    writers: TableRows,
    findings: TableRows,
    incidents: TableRows,
}

impl Default for FleetRows {
    fn default() -> FleetRows {
        FleetRows {
            hosts: TableRows::new(&HOSTS),
            flows: TableRows::new(&FLOWS),
            blocked: TableRows::new(&BLOCKED),
            containers: TableRows::new(&CONTAINERS),
            writers: TableRows::new(&WRITERS),
            findings: TableRows::new(&FINDINGS),
            incidents: TableRows::new(&INCIDENTS),
        }
    }
}

impl FleetRows {
    /// Adds the rows of an upload. `clock_skew_s`: the store's clock minus the host's.
    ///
    /// # Errors
    /// Fails only by a defect: a row that does not fit its table.
    pub fn add(&mut self, upload: &Upload, clock_skew_s: Option<i64>) -> Result<()> {
        if let Some(incident) = &upload.incident {
            return self.add_incident(upload, incident);
        }
        let host = &upload.host;
        let time = RowValue::Time(upload.window_s * 1000);
        let pressure =
            |time_ns: Option<u64>| RowValue::Count(time_ns.map(|time_ns| time_ns as i64));
        self.hosts.push(&[
            known(&host.name),
            known(&host.id),
            time,
            known(&host.rack),
            known(&host.kernel),
            known(&host.iowhy),
            count(upload.minutes.into()),
            count(upload.watched_ns),
            count(upload.lost_requests),
            count(upload.cost_ns),
            count(upload.oldest_ns),
            pressure(upload.pressure_some_ns),
            pressure(upload.pressure_full_ns),
            count(upload.drives.len() as u64),
            RowValue::Count(clock_skew_s),
        ])?;
        self.add_flows(upload)?;
        for (class, time_ns) in &upload.blocked {
            self.blocked.push(&[
                known(&host.name),
                known(&host.id),
                RowValue::Time(upload.window_s * 1000),
                known(class),
                known(&host.rack),
                known(&host.kernel),
                count(*time_ns),
            ])?;
        }
        for (container, usage) in &upload.containers {
            self.containers.push(&[
                known(&host.name),
                known(&host.id),
                RowValue::Time(upload.window_s * 1000),
                known(container),
                known(&host.rack),
                count(usage.requests),
                count(usage.bytes),
                count(usage.time_ns),
            ])?;
        }
        self.add_writers(upload)?;
        self.add_findings(upload)
    }

    fn add_writers(&mut self, upload: &Upload) -> Result<()> {
        let host = &upload.host;
        let nothing = UploadDrive::default();
        for row in &upload.writers {
            let (id, drive) = (&row.id, upload.drives.get(&row.id.device).unwrap_or(&nothing));
            let mut values = vec![
                known(&host.name),
                known(&host.id),
                RowValue::Time(upload.window_s * 1000),
                known(&id.device),
                known(&id.kind),
                known(&id.program),
                known(&id.container),
                known(&id.file),
                RowValue::Flag(Some(id.below)),
                known(&host.rack),
                known(&host.kernel),
                known(&drive.model),
                known(&drive.serial),
            ];
            // In the order of the table's columns.
            values.extend(row.sums.figures().map(count));
            self.writers.push(&values)?;
        }
        Ok(())
    }

    fn add_flows(&mut self, upload: &Upload) -> Result<()> {
        let host = &upload.host;
        let nothing = UploadDrive::default();
        for (device, operations) in &upload.flows {
            let drive = upload.drives.get(device).unwrap_or(&nothing);
            for (operation, flow) in operations {
                let share = |share| percentile(&flow.latency, share).map(|ns| ns as i64);
                self.flows.push(&[
                    known(&host.name),
                    known(&host.id),
                    RowValue::Time(upload.window_s * 1000),
                    known(device),
                    known(operation),
                    known(&host.rack),
                    known(&host.kernel),
                    known(&drive.model),
                    known(&drive.firmware),
                    known(&drive.serial),
                    RowValue::Count(Some(drive.size_bytes as i64).filter(|bytes| *bytes > 0)),
                    RowValue::Flag(drive.rotational),
                    count(upload.watched_ns),
                    count(flow.requests),
                    count(flow.bytes),
                    count(flow.time_ns.unwrap_or_else(|| time_ns(&flow.latency))),
                    RowValue::Count(share(0.5)),
                    RowValue::Count(share(0.99)),
                    count(flow.max_ns),
                    RowValue::Latency(&flow.latency),
                ])?;
            }
        }
        Ok(())
    }

    fn add_findings(&mut self, upload: &Upload) -> Result<()> {
        let host = &upload.host;
        let nothing = UploadDrive::default();
        for finding in &upload.findings {
            let drive = finding.device.as_ref().and_then(|device| upload.drives.get(device));
            let drive = drive.unwrap_or(&nothing);
            self.findings.push(&[
                known(&host.name),
                known(&host.id),
                RowValue::Time(upload.window_s * 1000),
                known(&finding.cause),
                maybe(&finding.device),
                maybe(&finding.process),
                known(&finding.severity),
                known(&host.rack),
                known(&host.kernel),
                known(&drive.model),
                known(&drive.firmware),
                known(&drive.serial),
                count(finding.minutes.into()),
            ])?;
        }
        Ok(())
    }

    fn add_incident(&mut self, upload: &Upload, incident: &UploadIncident) -> Result<()> {
        let host = &upload.host;
        self.incidents.push(&[
            known(&host.name),
            known(&host.id),
            RowValue::Time(incident.begun_ns / 1_000_000),
            count(incident.number.into()),
            RowValue::Time(incident.until_ns / 1_000_000),
            known(&host.rack),
            known(&incident.kind),
            known(&incident.reason),
            known(&incident.cause),
            known(&incident.severity),
            known(&incident.confidence),
            known(&incident.sentence),
            maybe(&incident.device),
            maybe(&incident.process),
            maybe(&incident.container),
            maybe(&incident.file),
            known(&incident.fix),
            maybe(&incident.recording),
        ])
    }

    /// Bytes that they take in memory.
    pub fn bytes(&self) -> usize {
        let all = [
            &self.hosts,
            &self.flows,
            &self.blocked,
            &self.containers,
            &self.writers,
            &self.findings,
            &self.incidents,
        ];
        all.iter().map(|rows| rows.bytes).sum()
    }

    /// Returns the collected rows, a batch for each table of [`TABLES`], in that order.
    ///
    /// # Errors
    /// Fails only by a defect: columns that do not fit their table.
    pub fn finish(self) -> Result<Vec<RecordBatch>> {
        let all = [
            self.hosts,
            self.flows,
            self.blocked,
            self.containers,
            self.writers,
            self.findings,
            self.incidents,
        ];
        let batch = |(rows, table): (TableRows, &FleetTable)| {
            let columns = rows.columns.into_iter().map(ColumnBuilder::finish).collect();
            RecordBatch::try_new(table.file_schema(), columns)
                .context(|| format!("make rows of {}", table.name))
        };
        all.into_iter().zip(TABLES).map(batch).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upload::{UploadFinding, UploadFlow, UploadHost, UploadUse, UploadWriter};

    #[test]
    fn an_upload_becomes_a_row_of_each_kind() {
        let flow = UploadFlow { requests: 3, latency: vec![(4, 1), (6, 2)], ..Default::default() };
        let host = UploadHost { name: "h".to_owned(), ..UploadHost::default() };
        let finding = UploadFinding { device: Some("sda".to_owned()), ..Default::default() };
        let upload = Upload {
            host,
            window_s: 600,
            flows: [("sda".to_owned(), [("read".to_owned(), flow)].into())].into(),
            blocked: [("device".to_owned(), 1)].into(),
            containers: [("c".to_owned(), UploadUse::default())].into(),
            writers: vec![UploadWriter::default()],
            findings: vec![finding],
            ..Upload::default()
        };
        let mut rows = FleetRows::default();
        rows.add(&upload, Some(-3)).unwrap();
        let incident = Some(UploadIncident::default());
        rows.add(&Upload { incident, ..upload }, None).unwrap();
        let batches = rows.finish().unwrap();
        for (batch, table) in batches.iter().zip(TABLES) {
            assert_eq!((batch.num_rows(), batch.schema()), (1, table.file_schema()));
        }
    }

    #[test]
    fn a_row_of_another_table_is_a_defect() {
        let mut rows = TableRows::new(&BLOCKED);
        assert!(rows.push(&[RowValue::Count(Some(1))]).is_err());
    }
}
