//! Parquet files of the tables: an hour of all hosts each.
//!
//! What does not belong here: where they are, and which of them count.

use super::FleetTable;
use crate::error::{FleetContext, Result};
use crate::layout::LAYOUT_VERSION;
use bytes::Bytes;
use datafusion::arrow::array::{AsArray, BooleanArray, RecordBatch};
use datafusion::arrow::compute::{
    SortColumn, concat_batches, filter_record_batch, lexsort_to_indices, take_record_batch,
};
use datafusion::arrow::datatypes::{Int64Type, TimestampMillisecondType};
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use datafusion::parquet::basic::{Compression, ZstdLevel};
use datafusion::parquet::file::metadata::KeyValue;
use datafusion::parquet::file::properties::WriterProperties;
use std::collections::{HashMap, HashSet};

/// Rows of a group: what is read at least, where a host is looked for.
const GROUP_ROWS: usize = 64 << 10;

/// A file with these rows, sorted by the table's keys, so that a host is in few row groups.
///
/// # Errors
/// When the rows are not those of the table.
pub fn write(table: &FleetTable, rows: &RecordBatch) -> Result<Bytes> {
    let what = || format!("write rows of {}", table.name);
    let level = ZstdLevel::try_new(3).context(what)?;
    let version = KeyValue::new("iowhy.fleet.layout".to_owned(), LAYOUT_VERSION.to_string());
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(level))
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .set_key_value_metadata(Some(vec![version]))
        .build();
    let mut bytes = Vec::new();
    let mut writer =
        ArrowWriter::try_new(&mut bytes, table.file_schema(), Some(properties)).context(what)?;
    writer.write(&sorted(table, rows)?).context(what)?;
    writer.close().context(what)?;
    Ok(bytes.into())
}

fn sorted(table: &FleetTable, rows: &RecordBatch) -> Result<RecordBatch> {
    let what = || format!("sort rows of {}", table.name);
    let keys = rows.columns().iter().take(table.keys);
    let keys: Vec<SortColumn> =
        keys.map(|it| SortColumn { values: it.clone(), options: None }).collect();
    let order = lexsort_to_indices(&keys, None).context(what)?;
    take_record_batch(rows, &order).context(what)
}

/// The rows of a file.
///
/// # Errors
/// When it is no file of this table.
pub fn read(table: &FleetTable, bytes: Bytes) -> Result<RecordBatch> {
    let what = || format!("read a file of {}", table.name);
    let reader = ParquetRecordBatchReaderBuilder::try_new(bytes).context(what)?;
    let reader = reader.with_batch_size(GROUP_ROWS).build().context(what)?;
    let batches: Vec<RecordBatch> = reader.collect::<std::result::Result<_, _>>().context(what)?;
    concat_batches(&table.file_schema(), &batches).context(what)
}

/// Both files' rows as one batch.
///
/// # Errors
/// When either has other columns than the table.
pub fn join(table: &FleetTable, parts: &[RecordBatch]) -> Result<RecordBatch> {
    concat_batches(&table.file_schema(), parts).context(|| format!("join rows of {}", table.name))
}

/// What rows are of: a host's identity, and the window, seconds since 1970.
pub type RowOrigin = (String, i64);

/// Calls `each` with host and time of every row, the time in milliseconds since 1970.
fn for_each_origin(rows: &RecordBatch, mut each: impl FnMut(usize, &str, i64)) {
    let hosts = rows.column_by_name("host_id").and_then(|it| it.as_string_opt::<i32>());
    let times = rows
        .column_by_name("time")
        .and_then(|it| it.as_primitive_opt::<TimestampMillisecondType>());
    let (Some(hosts), Some(times)) = (hosts, times) else { return };
    for row in 0..rows.num_rows() {
        each(row, hosts.value(row), times.value(row));
    }
}

/// Minutes that a file of `hosts` has of each host and window.
pub fn minutes(hosts: &RecordBatch) -> HashMap<RowOrigin, u8> {
    let mut found = HashMap::new();
    let minutes = hosts.column_by_name("minutes").and_then(|it| it.as_primitive_opt::<Int64Type>());
    let Some(minutes) = minutes else { return found };
    for_each_origin(hosts, |row, host_id, time_ms| {
        let count = u8::try_from(minutes.value(row)).unwrap_or(u8::MAX);
        found.insert((host_id.to_owned(), time_ms.div_euclid(1000)), count);
    });
    found
}

/// Hosts and numbers of the incidents that a file has.
pub fn incidents(rows: &RecordBatch) -> HashSet<(String, u32)> {
    let mut found = HashSet::new();
    let numbers = rows.column_by_name("number").and_then(|it| it.as_primitive_opt::<Int64Type>());
    let Some(numbers) = numbers else { return found };
    for_each_origin(rows, |row, host_id, _| {
        found.insert((host_id.to_owned(), u32::try_from(numbers.value(row)).unwrap_or(u32::MAX)));
    });
    found
}

/// The rows without those of some hosts and windows.
///
/// # Errors
/// Only by a defect.
pub fn without(rows: &RecordBatch, gone: &HashSet<RowOrigin>) -> Result<RecordBatch> {
    if gone.is_empty() {
        return Ok(rows.clone());
    }
    let mut keep = vec![true; rows.num_rows()];
    for_each_origin(rows, |row, host_id, time_ms| {
        if let Some(keep) = keep.get_mut(row) {
            *keep = !gone.contains(&(host_id.to_owned(), time_ms.div_euclid(1000)));
        }
    });
    filter_record_batch(rows, &BooleanArray::from(keep)).context(|| "filter rows".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::rows::FleetRows;
    use crate::tables::{HOSTS, TABLES};
    use crate::upload::{Upload, UploadHost};

    fn hosts(ids: &[&str]) -> RecordBatch {
        let mut rows = FleetRows::default();
        for (index, id) in ids.iter().enumerate() {
            let host =
                UploadHost { id: (*id).to_owned(), name: "h".to_owned(), ..Default::default() };
            let window_s = 600 * (index as i64 % 2);
            let upload = Upload { host, window_s, minutes: index as u8, ..Upload::default() };
            rows.add(&upload, None).unwrap();
        }
        rows.finish().unwrap().remove(0)
    }

    #[test]
    fn a_file_has_the_rows_that_were_written_in_order() {
        let rows = hosts(&["b", "a", "c", "a"]);
        let read = read(&HOSTS, write(&HOSTS, &rows).unwrap()).unwrap();
        assert_eq!(read.num_rows(), 4);
        let mut order = Vec::new();
        for_each_origin(&read, |_, host_id, time_ms| order.push((host_id.to_owned(), time_ms)));
        assert!(order.is_sorted());
        assert_eq!(minutes(&read), minutes(&rows));
    }

    #[test]
    fn rows_of_one_window_can_be_taken_out() {
        let rows = hosts(&["a", "b", "c"]);
        let left = without(&rows, &[("b".to_owned(), 600)].into()).unwrap();
        assert_eq!(left.num_rows(), 2);
        assert_eq!(without(&rows, &[("b".to_owned(), 0)].into()).unwrap().num_rows(), 3);
    }

    #[test]
    fn an_empty_table_is_a_file_too() {
        for (table, rows) in TABLES.into_iter().zip(FleetRows::default().finish().unwrap()) {
            let bytes = write(table, &rows).unwrap();
            assert_eq!(read(table, bytes).unwrap().num_rows(), 0);
            assert!(read(table, Bytes::from_static(b"PAR1 nonsense PAR1")).is_err());
        }
    }
}
