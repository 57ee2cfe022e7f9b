//! JSON of sysstat (`iostat -o JSON`, `sadf -j`), atop, PCP, fio, smartctl and nvme.
//!
//! What does not belong here: their text (see [`crate::text`]).

mod atop;
pub(crate) mod pcp;
mod sysstat;

use crate::book::CounterBook;
use crate::kind::ForeignKind;
use crate::text::RowsOut;
use crate::text::figures::set_nvme;
use iowhy_model::Environment;
use iowhy_model::health::{DeviceHealth, NvmeHealth};
use iowhy_model::smartctl::SmartctlOutput;
use serde_json::Value;

/// The longest JSON that is read, bytes: it is held as a whole.
pub const MOST_BYTES: usize = 16 << 20;
/// Memory that its values may take, bytes, by [`weight`].
const MOST_WEIGHT: usize = 160 << 20;
/// Memory of an object with one entry, and of a further value.
const OF_OBJECT: usize = 704;
const OF_VALUE: usize = 128;
/// Bytes of a sector.
const SECTOR: f64 = 512.0;

/// Reads the JSON in `bytes`.
///
/// # Errors
/// Fails with the defect in half a sentence.
pub fn read(
    kind: ForeignKind,
    bytes: &[u8],
    book: &mut CounterBook,
    environment: &mut Environment,
    out: &mut RowsOut<'_>,
) -> Result<(), String> {
    if weight(bytes) > MOST_WEIGHT {
        return Err("its JSON would take more than 160 MiB as values: give a shorter time \
                    (`sadf -s -e`)"
            .to_owned());
    }
    if kind == ForeignKind::Smartctl {
        let printed = SmartctlOutput::from_json(bytes).map_err(|error| error.to_string())?;
        let device = printed.device().unwrap_or("drive").to_owned();
        let health = DeviceHealth {
            asked_ns: book.now_ns(),
            drive: printed.log().filter(|_| printed.nvme().is_none()),
            nvme: printed.nvme(),
            ..DeviceHealth::default()
        };
        book.health(&device, printed.model(), health);
        return Ok(());
    }
    if kind == ForeignKind::Atop {
        return atop::read(bytes, book, environment, out);
    }
    let mut values = serde_json::Deserializer::from_slice(bytes).into_iter::<Value>();
    // pcp2json prints its progress before, as values of their own.
    let value = values.find(|value| !value.as_ref().is_ok_and(is_comment));
    let value = value.ok_or("it has no value")?.map_err(|error| error.to_string())?;
    let rest = bytes.get(values.byte_offset()..).unwrap_or(&[]);
    if !rest.trim_ascii().is_empty() {
        let limit = "what follows its JSON was not read: give one text at a time";
        environment.limits.push(limit.to_owned());
    }
    match kind {
        ForeignKind::SysstatJson => sysstat::read(&value, book, environment, out),
        ForeignKind::Pcp => pcp::read(&value, book, environment, out),
        ForeignKind::Fio => fio(&value, book, environment, out),
        ForeignKind::NvmeSmartLog => nvme(&value, book),
        _ => Err("it is no JSON of a known tool".to_owned()),
    }
}

fn is_comment(value: &Value) -> bool {
    value.as_object().is_some_and(|fields| fields.keys().all(|name| name == "//"))
}

/// Memory that the values of a JSON take at most, bytes. Marks within texts count, too.
fn weight(bytes: &[u8]) -> usize {
    let of = |byte: &u8| match byte {
        b'{' => OF_OBJECT,
        b',' => OF_VALUE,
        _ => 0,
    };
    bytes.iter().map(of).sum()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or("")
}

fn figure(value: &Value, keys: &[&str]) -> Option<f64> {
    keys.iter().find_map(|key| value.get(*key)?.as_f64())
}

fn items<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The first host of a report below `parent`; that there are more is noted.
fn first_host<'a>(
    value: &'a Value,
    [parent, key]: [&str; 2],
    environment: &mut Environment,
) -> Option<&'a Value> {
    let hosts = value.get(parent).map_or(&[][..], |report| items(report, key));
    if hosts.len() > 1 {
        environment.limits.push("only the first of several hosts was read".to_owned());
    }
    hosts.first()
}

/// fio's `disk_util` are the counters of `/proc/diskstats` during its run.
fn fio(
    value: &Value,
    book: &mut CounterBook,
    environment: &mut Environment,
    out: &mut RowsOut<'_>,
) -> Result<(), String> {
    let jobs = items(value, "jobs");
    let runtime = |job: &Value| figure(job, &["job_runtime"]).unwrap_or(0.0);
    let milliseconds = jobs.iter().map(runtime).fold(0.0, f64::max);
    if milliseconds <= 0.0 {
        return Err("no job of fio ran".to_owned());
    }
    book.advance(milliseconds / 1e3);
    let disks = items(value, "disk_util");
    if disks.is_empty() {
        environment
            .limits
            .push("it has no disk_util: fio ran without a disk, or with disk_util=0".to_owned());
    }
    for disk in disks {
        let columns = [
            (0, "read_ios"),
            (1, "read_merges"),
            (2, "read_sectors"),
            (3, "read_ticks"),
            (4, "write_ios"),
            (5, "write_merges"),
            (6, "write_sectors"),
            (7, "write_ticks"),
            (10, "in_queue"),
        ];
        let mut grown: Vec<(usize, f64)> = columns
            .into_iter()
            .filter_map(|(column, key)| Some((column, figure(disk, &[key])?)))
            .collect();
        let util = figure(disk, &["util"]).map(|percent| percent.clamp(0.0, 100.0));
        grown.extend(util.map(|util| (9, util / 100.0 * milliseconds)));
        if disks.len() == 1 && figure(disk, &["read_sectors"]).is_none() {
            // Before 3.36 it did not tell them; its own bytes went to its only disk.
            for (column, way) in [(2, "read"), (6, "write")] {
                let moved = jobs.iter().filter_map(|job| job[way]["io_bytes"].as_f64());
                grown.push((column, moved.sum::<f64>() / SECTOR));
            }
        }
        book.add(text(disk, "name"), &grown);
    }
    book.sample(out.batch, out.names);
    Ok(())
}

/// `nvme smart-log -o json`, which does not name the device.
fn nvme(value: &Value, book: &mut CounterBook) -> Result<(), String> {
    let fields = value.as_object().ok_or("it is no log of nvme")?;
    let mut health = NvmeHealth::default();
    let mut is_log = false;
    for (name, value) in fields {
        // Large counters are texts or floats.
        let number = value.as_u64().or_else(|| value.as_f64().map(|float| float as u64));
        let number = number.or_else(|| value.as_str()?.parse().ok());
        if let Some(number) = number {
            is_log |= set_nvme(name, number, &mut health);
        }
    }
    if !is_log {
        return Err("it is no log of nvme".to_owned());
    }
    let asked_ns = book.now_ns();
    let health = DeviceHealth { asked_ns, nvme: Some(health), ..DeviceHealth::default() };
    book.health("nvme0n1", None, health);
    Ok(())
}
