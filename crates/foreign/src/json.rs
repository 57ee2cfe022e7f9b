//! JSON of sysstat (`iostat -o JSON`, `sadf -j`), fio, smartctl and nvme.
//!
//! What does not belong here: their text (see [`crate::text`]).

use crate::book::CounterBook;
use crate::kind::ForeignKind;
use crate::text::RowsOut;
use crate::text::figures::set_nvme;
use iowhy_core::formats::smartctl::SmartctlOutput;
use iowhy_core::model::Environment;
use iowhy_core::model::health::{DeviceHealth, NvmeHealth};
use serde_json::Value;

/// The longest JSON that is read, bytes: it is held as a whole, in about ten times the memory.
pub const MOST_BYTES: usize = 16 << 20;
/// The interval of reports that do not tell one, seconds.
const ASSUMED_S: f64 = 1.0;
/// Bytes of a sector.
const SECTOR: f64 = 512.0;

/// Reads the JSON in `bytes`.
///
/// # Errors
/// What is wrong with it, in half a sentence.
pub fn read(
    kind: ForeignKind,
    bytes: &[u8],
    book: &mut CounterBook,
    environment: &mut Environment,
    out: &mut RowsOut<'_>,
) -> Result<(), String> {
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
    let value: Value = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    match kind {
        ForeignKind::SysstatJson => sysstat(&value, book, environment, out),
        ForeignKind::Fio => fio(&value, book, environment, out),
        ForeignKind::NvmeSmartLog => nvme(&value, book),
        _ => Err("it is no JSON of a known tool".to_owned()),
    }
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

fn sysstat(
    value: &Value,
    book: &mut CounterBook,
    environment: &mut Environment,
    out: &mut RowsOut<'_>,
) -> Result<(), String> {
    let hosts = value.get("sysstat").map_or(&[][..], |it| items(it, "hosts"));
    let Some(host) = hosts.first() else { return Err("sysstat names no host".to_owned()) };
    if hosts.len() > 1 {
        environment.limits.push("only the first of several hosts was read".to_owned());
    }
    environment.host = text(host, "nodename").to_owned();
    environment.kernel = text(host, "release").to_owned();
    environment.architecture = text(host, "machine").to_owned();
    environment.cpus = figure(host, &["number-of-cpus"]).unwrap_or(0.0) as u32;
    let mut reports = items(host, "statistics");
    let has_time = |report: &Value| report.get("timestamp").is_some();
    // The first report of iostat is the mean since boot.
    if reports.len() > 1 && !reports.iter().all(|it| it["timestamp"]["interval"].is_number()) {
        reports = reports.get(1..).unwrap_or(&[]);
        environment
            .limits
            .push("the first report, usually the mean since boot, was left out".to_owned());
    }
    let mut assumed = false;
    for report in reports {
        let told = report["timestamp"]["interval"].as_f64().filter(|_| has_time(report));
        assumed |= told.is_none();
        let seconds = told.unwrap_or(ASSUMED_S);
        book.advance(seconds);
        for disk in items(report, "disk") {
            sysstat_disk(disk, seconds, book);
        }
        book.sample(out.batch, out.names);
    }
    if assumed {
        environment.limits.push(
            "its intervals were taken for a second: rates are right, totals may not be".to_owned(),
        );
    }
    Ok(())
}

fn sysstat_disk(disk: &Value, seconds: f64, book: &mut CounterBook) {
    let name = [text(disk, "disk_device"), text(disk, "disk-device")].concat();
    let per_s = |keys: &[&str]| figure(disk, keys).map(|it| it * seconds);
    let mut grown = Vec::new();
    for (first, rate, merged, kib, wait) in [
        (0, "r/s", "rrqm/s", "rkB/s", "r_await"),
        (4, "w/s", "wrqm/s", "wkB/s", "w_await"),
        (11, "d/s", "drqm/s", "dkB/s", "d_await"),
    ] {
        let requests = per_s(&[rate]);
        let moved = per_s(&[kib, kib.trim_end_matches("/s")]).map(|it| it * 1024.0 / SECTOR);
        let waited = requests.zip(figure(disk, &[wait])).map(|(count, wait)| count * wait);
        let parts = [requests, per_s(&[merged]), moved, waited];
        grown.extend(parts.into_iter().enumerate().filter_map(|(at, it)| Some((first + at, it?))));
    }
    let flushes = per_s(&["f/s"]);
    grown.extend(flushes.map(|it| (15, it)));
    let flush_ms = flushes.zip(figure(disk, &["f_await"])).map(|(count, wait)| count * wait);
    grown.extend(flush_ms.map(|it| (16, it)));
    let util = figure(disk, &["util", "%util", "util-percent"]);
    grown.extend(util.map(|it| (9, it.clamp(0.0, 100.0) * seconds * 10.0)));
    let depth = figure(disk, &["aqu-sz", "avgqu-sz"]);
    grown.extend(depth.map(|it| (10, it * seconds * 1e3)));
    book.add(&name, &grown);
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
        let util = figure(disk, &["util"]).map(|it| it.clamp(0.0, 100.0));
        grown.extend(util.map(|it| (9, it / 100.0 * milliseconds)));
        if disks.len() == 1 && figure(disk, &["read_sectors"]).is_none() {
            // Before 3.36 it did not tell them; its own bytes went to its only disk.
            for (column, way) in [(2, "read"), (6, "write")] {
                let moved = jobs.iter().filter_map(|it| it[way]["io_bytes"].as_f64());
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
    for (name, value) in fields {
        // Large counters are texts or floats.
        let number = value.as_u64().or_else(|| value.as_f64().map(|it| it as u64));
        let number = number.or_else(|| value.as_str()?.parse().ok());
        if let Some(number) = number {
            set_nvme(name, number, &mut health);
        }
    }
    let asked_ns = book.now_ns();
    let health = DeviceHealth { asked_ns, nvme: Some(health), ..DeviceHealth::default() };
    book.health("nvme0n1", None, health);
    Ok(())
}
