//! The units of comparison: hours of a drive and operation, with their load.
//!
//! What does not belong here: comparing them.

use crate::engine::FleetEngine;
use crate::error::{FleetError, Result};
use datafusion::arrow::array::{Array, AsArray, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::Int64Type;
use std::collections::HashMap;

/// Requests of an hour of an operation below which it is not used.
pub const LEAST_REQUESTS: i64 = 100;

/// Columns of an answer by name.
pub struct NamedColumns<'a> {
    rows: &'a RecordBatch,
}

impl<'a> NamedColumns<'a> {
    /// Makes the columns of these rows.
    pub const fn from_batch(rows: &'a RecordBatch) -> NamedColumns<'a> {
        NamedColumns { rows }
    }

    /// A column of whole numbers.
    ///
    /// # Errors
    /// Fails if it has another type, or does not exist.
    pub fn numbers(&self, name: &str) -> Result<&'a Int64Array> {
        let column = self.rows.column_by_name(name);
        column.and_then(|column| column.as_primitive_opt::<Int64Type>()).ok_or_else(|| wrong(name))
    }

    /// A column of text.
    ///
    /// # Errors
    /// Fails if it has another type, or does not exist.
    pub fn texts(&self, name: &str) -> Result<&'a StringArray> {
        let column = self.rows.column_by_name(name);
        column.and_then(|column| column.as_string_opt::<i32>()).ok_or_else(|| wrong(name))
    }
}

fn wrong(name: &str) -> FleetError {
    FleetError::new(format!("the answer has no column {name} of the expected type"))
}

/// The text of a row; empty where it is not known.
pub fn text_at(column: &StringArray, row: usize) -> &str {
    match column.is_valid(row) {
        true => column.value(row),
        false => "",
    }
}

/// Numbers for texts, so that comparing them is cheap.
#[derive(Clone, Debug, Default)]
pub struct TextNumbers {
    numbers: HashMap<String, u32>,
    texts: Vec<String>,
}

impl TextNumbers {
    /// The number of a text.
    pub fn number(&mut self, text: &str) -> u32 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = self.texts.len() as u32;
        self.texts.push(text.to_owned());
        self.numbers.insert(text.to_owned(), number);
        number
    }

    /// The text of a number.
    pub fn text(&self, number: u32) -> &str {
        self.texts.get(number as usize).map_or("", String::as_str)
    }
}

/// A drive.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FleetDrive {
    /// Its host's identity and name.
    pub host_id: u32,
    /// The name of the host.
    pub host: u32,
    /// Its kernel name.
    pub device: u32,
    /// Its serial number.
    pub serial: u32,
    /// Its model.
    pub model: u32,
    /// Its firmware.
    pub firmware: u32,
    /// Its host's rack.
    pub rack: u32,
    /// Its size in bytes.
    pub size_bytes: i64,
}

/// An hour of a drive and operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DriveHour {
    /// The index of the drive.
    pub drive: u32,
    /// Hours since 1970.
    pub hour: i32,
    /// The kernel at that time.
    pub kernel: u32,
    /// The operation.
    pub operation: u32,
    /// Octave of the requests a second, and of a request's size: equal loads have equal ones.
    pub load: (i8, i8),
    /// Requests.
    pub requests: f64,
    /// Mean time from queueing to completion, ns.
    pub mean_ns: f64,
}

/// Drives and their hours.
#[derive(Clone, Debug, Default)]
pub struct DriveHours {
    /// The texts whose numbers are the names below.
    pub names: TextNumbers,
    /// The drives.
    pub drives: Vec<FleetDrive>,
    /// Their hours.
    pub hours: Vec<DriveHour>,
}

/// The query behind [`DriveHours`]: it reads every column that it needs once.
pub fn drive_hours_sql(condition: &str) -> String {
    format!(
        "SELECT host_id, device, operation, kernel, firmware, serial, \
         CAST(date AS INT) * 24 + hour AS hour_number, \
         MIN(host) AS host, MIN(model) AS model, MIN(rack) AS rack, \
         MIN(size_bytes) AS size_bytes, SUM(requests) AS requests, SUM(bytes) AS bytes, \
         SUM(time_ns) AS time_ns, SUM(watched_ns) AS watched_ns \
         FROM flows WHERE operation IN ('read', 'write') {condition} \
         GROUP BY host_id, device, operation, kernel, firmware, serial, date, hour \
         HAVING SUM(requests) >= {LEAST_REQUESTS}"
    )
}

impl DriveHours {
    /// Reads the hours. `condition` is SQL that begins with AND, or empty.
    ///
    /// # Errors
    /// Fails if the query fails.
    pub async fn read(engine: &FleetEngine, condition: &str) -> Result<DriveHours> {
        let answer = engine.query(&drive_hours_sql(condition)).await?;
        DriveHours::from_batch(&answer.rows)
    }

    /// Returns the first hour of the data, hours since 1970.
    pub fn first_hour(&self) -> i32 {
        self.hours.iter().map(|hour| hour.hour).min().unwrap_or(i32::MIN)
    }

    /// Makes the hours of the answer to [`drive_hours_sql`].
    ///
    /// # Errors
    /// Fails if it is another query's answer.
    pub fn from_batch(rows: &RecordBatch) -> Result<DriveHours> {
        let columns = NamedColumns::from_batch(rows);
        let texts = |name| columns.texts(name);
        let (host_ids, hosts, devices) = (texts("host_id")?, texts("host")?, texts("device")?);
        let (models, firmwares) = (texts("model")?, texts("firmware")?);
        let (serials, racks, kernels) = (texts("serial")?, texts("rack")?, texts("kernel")?);
        let operations = texts("operation")?;
        let numbers = |name| columns.numbers(name);
        let (requests, bytes) = (numbers("requests")?, numbers("bytes")?);
        let (times, watched) = (numbers("time_ns")?, numbers("watched_ns")?);
        let (sizes, hour_numbers) = (numbers("size_bytes")?, numbers("hour_number")?);
        let mut found = DriveHours::default();
        let mut known: HashMap<(u32, u32, u32, u32), u32> = HashMap::new();
        for row in 0..rows.num_rows() {
            let mut number = |column: &StringArray| found.names.number(text_at(column, row));
            let drive = FleetDrive {
                host_id: number(host_ids),
                host: number(hosts),
                device: number(devices),
                serial: number(serials),
                model: number(models),
                firmware: number(firmwares),
                rack: number(racks),
                size_bytes: if sizes.is_valid(row) { sizes.value(row) } else { 0 },
            };
            let (kernel, operation) = (number(kernels), number(operations));
            // A drive that was replaced, or has new firmware, is another one.
            let key = (drive.host_id, drive.device, drive.serial, drive.firmware);
            let drives = &mut found.drives;
            let drive = *known.entry(key).or_insert_with(|| {
                drives.push(drive);
                drives.len() as u32 - 1
            });
            let count = requests.value(row) as f64;
            let seconds = watched.value(row) as f64 / 1e9;
            if seconds <= 0.0 || count <= 0.0 || times.value(row) <= 0 {
                continue;
            }
            found.hours.push(DriveHour {
                drive,
                hour: hour_numbers.value(row) as i32,
                kernel,
                operation,
                load: (octave(count / seconds), octave(bytes.value(row) as f64 / count)),
                requests: count,
                mean_ns: times.value(row) as f64 / count,
            });
        }
        Ok(found)
    }
}

fn octave(value: f64) -> i8 {
    value.max(1e-9).log2().floor().clamp(-100.0, 100.0) as i8
}
