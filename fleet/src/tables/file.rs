//! Parquet files of the tables: an hour of all hosts each.
//!
//! What does not belong here: their names, and the choice of those that count.

use super::FleetTable;
use crate::error::{FleetContext, Result};
use crate::host_group::HostGroup;
use crate::layout::LAYOUT_VERSION;
use bytes::Bytes;
use datafusion::arrow::array::{AsArray, BooleanArray, RecordBatch};
use datafusion::arrow::compute::{
    SortColumn, filter_record_batch, interleave_record_batch, lexsort_to_indices, take_record_batch,
};
use datafusion::arrow::datatypes::{Int64Type, TimestampMillisecondType};
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use datafusion::parquet::basic::{Compression, ZstdLevel};
use datafusion::parquet::file::metadata::KeyValue;
use datafusion::parquet::file::properties::WriterProperties;
use std::collections::{HashMap, HashSet};

/// Rows that are unpacked at a time.
const BATCH_ROWS: usize = 8 << 10;
/// Rows of a group: the least that is read to find a host.
const GROUP_ROWS: usize = 64 << 10;

/// A file with these rows, sorted by the table's keys, so that a host is in few row groups.
///
/// # Errors
/// Fails if the rows are not those of the table.
pub fn write(table: &FleetTable, rows: &RecordBatch) -> Result<Bytes> {
    merge(table, None, rows, &HashSet::new()).map(|(bytes, _)| bytes)
}

type FileWriter = ArrowWriter<Vec<u8>>;

fn writer(table: &FleetTable) -> Result<FileWriter> {
    let what = || format!("write rows of {}", table.name);
    let level = ZstdLevel::try_new(3).context(what)?;
    let version = KeyValue::new("iowhy.fleet.layout".to_owned(), LAYOUT_VERSION.to_string());
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(level))
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .set_key_value_metadata(Some(vec![version]))
        .build();
    ArrowWriter::try_new(Vec::new(), table.file_schema(), Some(properties)).context(what)
}

/// Merges the rows of an older file, without those of some hosts and windows, with new ones into
/// one file; returns it with the number of its rows. Of the old file, a group of rows is unpacked
/// at a time.
///
/// # Errors
/// Fails if the old file, or the new rows, are not of the table.
pub fn merge(
    table: &FleetTable,
    old: Option<Bytes>,
    new: &RecordBatch,
    gone: &HashSet<RowOrigin>,
) -> Result<(Bytes, u64)> {
    let what = || format!("merge rows of {}", table.name);
    let new = sorted(table, new)?;
    let fields = new.schema().fields().iter().take(table.keys).cloned().collect::<Vec<_>>();
    let fields = fields.iter().map(|field| SortField::new(field.data_type().clone())).collect();
    let keys = RowConverter::new(fields).context(what)?;
    let key_rows =
        |rows: &RecordBatch| keys.convert_columns(&rows.columns()[..table.keys]).context(what);
    let new_keys = key_rows(&new)?;
    let (mut writer, mut next, mut count) = (writer(table)?, 0, 0);
    if let Some(old) = old {
        for_each_batch(table, old, |batch| {
            let batch = without(batch, gone)?;
            let old_keys = key_rows(&batch)?;
            let mut order = Vec::with_capacity(batch.num_rows());
            for row in 0..batch.num_rows() {
                while next < new.num_rows() && new_keys.row(next) < old_keys.row(row) {
                    order.push((1, next));
                    next += 1;
                }
                order.push((0, row));
            }
            count += order.len();
            let rows = interleave_record_batch(&[&batch, &new], &order).context(what)?;
            writer.write(&rows).context(what)
        })?;
    }
    let rest = new.slice(next, new.num_rows() - next);
    writer.write(&rest).context(what)?;
    count += rest.num_rows();
    Ok((writer.into_inner().context(what)?.into(), count as u64))
}

/// Returns the rows of a file that are of a group of hosts, as a file, and their number.
///
/// # Errors
/// Fails if it is not a file of the table.
pub fn part(table: &FleetTable, bytes: Bytes, group: &HostGroup) -> Result<(Bytes, u64)> {
    let what = || format!("divide rows of {}", table.name);
    let (mut writer, mut count) = (writer(table)?, 0);
    for_each_batch(table, bytes, |rows| {
        let mut keep = vec![false; rows.num_rows()];
        for_each_origin(rows, |row, host_id, _| keep[row] = group.has(host_id));
        let rows = filter_record_batch(rows, &BooleanArray::from(keep)).context(what)?;
        count += rows.num_rows();
        writer.write(&rows).context(what)
    })?;
    Ok((writer.into_inner().context(what)?.into(), count as u64))
}

fn sorted(table: &FleetTable, rows: &RecordBatch) -> Result<RecordBatch> {
    let what = || format!("sort rows of {}", table.name);
    let keys = rows.columns().iter().take(table.keys);
    let keys: Vec<SortColumn> =
        keys.map(|key| SortColumn { values: key.clone(), options: None }).collect();
    let order = lexsort_to_indices(&keys, None).context(what)?;
    take_record_batch(rows, &order).context(what)
}

/// Calls `each` with the rows of a file, a group at a time.
///
/// # Errors
/// Fails if it is not a file of this table, or if `each` fails.
pub fn for_each_batch(
    table: &FleetTable,
    bytes: Bytes,
    mut each: impl FnMut(&RecordBatch) -> Result<()>,
) -> Result<()> {
    let what = || format!("read a file of {}", table.name);
    let reader = ParquetRecordBatchReaderBuilder::try_new(bytes).context(what)?;
    for batch in reader.with_batch_size(BATCH_ROWS).build().context(what)? {
        let batch = batch.context(what)?;
        let batch = RecordBatch::try_new(table.file_schema(), batch.columns().to_vec());
        each(&batch.context(what)?)?;
    }
    Ok(())
}

/// The origin of rows: a host's identity, and the window, seconds since 1970.
pub type RowOrigin = (String, i64);

/// Calls `each` with host and time of every row, the time in milliseconds since 1970.
fn for_each_origin(rows: &RecordBatch, mut each: impl FnMut(usize, &str, i64)) {
    let hosts = rows.column_by_name("host_id").and_then(|column| column.as_string_opt::<i32>());
    let times = rows
        .column_by_name("time")
        .and_then(|column| column.as_primitive_opt::<TimestampMillisecondType>());
    let (Some(hosts), Some(times)) = (hosts, times) else { return };
    for row in 0..rows.num_rows() {
        each(row, hosts.value(row), times.value(row));
    }
}

/// Adds the minutes that rows of `hosts` have of each host and window.
pub fn add_minutes(hosts: &RecordBatch, found: &mut HashMap<RowOrigin, u8>) {
    let minutes =
        hosts.column_by_name("minutes").and_then(|column| column.as_primitive_opt::<Int64Type>());
    let Some(minutes) = minutes else { return };
    for_each_origin(hosts, |row, host_id, time_ms| {
        let count = u8::try_from(minutes.value(row)).unwrap_or(u8::MAX);
        found.insert((host_id.to_owned(), time_ms.div_euclid(1000)), count);
    });
}

/// Adds hosts and numbers of the incidents that rows have.
pub fn add_incidents(rows: &RecordBatch, found: &mut HashSet<(String, u32)>) {
    let numbers =
        rows.column_by_name("number").and_then(|column| column.as_primitive_opt::<Int64Type>());
    let Some(numbers) = numbers else { return };
    for_each_origin(rows, |row, host_id, _| {
        found.insert((host_id.to_owned(), u32::try_from(numbers.value(row)).unwrap_or(u32::MAX)));
    });
}

/// The rows without those of some hosts and windows.
///
/// # Errors
/// Fails only by a defect.
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

    fn origins(bytes: Bytes) -> Vec<RowOrigin> {
        let mut order = Vec::new();
        for_each_batch(&HOSTS, bytes, |rows| {
            for_each_origin(rows, |_, host_id, time_ms| order.push((host_id.to_owned(), time_ms)));
            Ok(())
        })
        .unwrap();
        order
    }

    #[test]
    fn a_file_has_the_rows_that_were_written_in_order() {
        let order = origins(write(&HOSTS, &hosts(&["b", "a", "c", "a"])).unwrap());
        assert!(order.len() == 4 && order.is_sorted());
    }

    #[test]
    fn a_merged_file_has_old_and_new_rows_in_order() {
        let old = write(&HOSTS, &hosts(&["b", "d", "f", "b"])).unwrap();
        let gone = [("f".to_owned(), 0)].into();
        let (bytes, count) =
            merge(&HOSTS, Some(old), &hosts(&["a", "c", "e", "g"]), &gone).unwrap();
        let order = origins(bytes);
        let names: Vec<&str> = order.iter().map(|origin| origin.0.as_str()).collect();
        assert_eq!((names, count), (vec!["a", "b", "b", "c", "d", "e", "g"], 7));
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
            let mut count = 0;
            let mut add = |rows: &RecordBatch| {
                count += rows.num_rows();
                Ok(())
            };
            for_each_batch(table, bytes, &mut add).unwrap();
            let nonsense = Bytes::from_static(b"PAR1 nonsense PAR1");
            assert!(for_each_batch(table, nonsense, &mut add).is_err() && count == 0);
        }
    }
}
