//! PCP's metrics as JSON, by `pcp2json`: rates of counters, interval by interval.
//!
//! What does not belong here: PCP's archives themselves, which `pcp2json -a ARCHIVE disk.dev
//! kernel.all swap mem` prints.

use super::{first_host, items, text};
use crate::book::CounterBook;
use crate::text::RowsOut;
use iowhy_model::{Environment, Metric};
use serde_json::Value;

/// The interval where none is told, seconds.
const ASSUMED_S: f64 = 1.0;
/// Depth of names that is followed: disk.dev.read has three.
const MOST_DEPTH: usize = 8;

/// Metrics of disks, the column in `/proc/diskstats` and the factor to its unit: bytes are in KiB,
/// times in ms.
const OF_DISK: &[(&str, usize, f64)] = &[
    ("disk.dev.read", 0, 1.0),
    ("disk.dev.read_merge", 1, 1.0),
    ("disk.dev.read_bytes", 2, 2.0),
    ("disk.dev.read_rawactive", 3, 1.0),
    ("disk.dev.write", 4, 1.0),
    ("disk.dev.write_merge", 5, 1.0),
    ("disk.dev.write_bytes", 6, 2.0),
    ("disk.dev.write_rawactive", 7, 1.0),
    ("disk.dev.avactive", 9, 1.0),
    ("disk.dev.aveq", 10, 1.0),
    ("disk.dev.discard", 11, 1.0),
    ("disk.dev.flush", 15, 1.0),
    ("disk.dev.flush_rawactive", 16, 1.0),
];

/// Metrics of the machine, and the factor to the metric's unit; the last field says whether it is a
/// rate.
const OF_MACHINE: &[(&str, Metric, f64, bool)] = &[
    ("kernel.all.cpu.user", Metric::CpuUser, 1e6, true),
    ("kernel.all.cpu.sys", Metric::CpuSystem, 1e6, true),
    ("kernel.all.cpu.idle", Metric::CpuIdle, 1e6, true),
    ("kernel.all.cpu.wait.total", Metric::CpuIoWait, 1e6, true),
    ("kernel.all.cpu.steal", Metric::CpuSteal, 1e6, true),
    ("kernel.all.blocked", Metric::Blocked, 1.0, false),
    ("kernel.all.running", Metric::Running, 1.0, false),
    ("swap.pagesin", Metric::SwappedIn, 4096.0, true),
    ("swap.pagesout", Metric::SwappedOut, 4096.0, true),
    ("mem.vmstat.pgmajfault", Metric::MajorFaults, 1.0, true),
    ("mem.util.free", Metric::MemoryFree, 1024.0, false),
    ("mem.util.dirty", Metric::Dirty, 1024.0, false),
];

/// Reads the values.
///
/// Fails if it names no host.
/// Fails if a part is missing.
pub(super) fn read(
    value: &Value,
    book: &mut CounterBook,
    environment: &mut Environment,
    out: &mut RowsOut<'_>,
) -> Result<(), String> {
    let host =
        first_host(value, ["@pcp", "@hosts"], environment).ok_or("pcp2json names no host")?;
    text(host, "@host").clone_into(&mut environment.host);
    for sample in items(host, "@metrics") {
        let seconds = sample.get("@interval").and_then(number).unwrap_or(ASSUMED_S);
        if seconds <= 0.0 {
            // The first sample of an archive has none before it, so there are no rates.
            continue;
        }
        book.advance(seconds);
        walk(sample, &mut String::new(), 0, &mut |name, instance, value| {
            take(name, instance, value, seconds, book);
        });
        book.sample(out.batch, out.names);
    }
    Ok(())
}

/// A number, or the text of one.
fn number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.parse().ok())
}

/// Calls `take` with name, instance and value of each metric.
fn walk(value: &Value, name: &mut String, depth: usize, take: &mut impl FnMut(&str, &str, f64)) {
    let Some(fields) = value.as_object().filter(|_| depth < MOST_DEPTH) else { return };
    for instance in items(value, "@instances") {
        if let Some(value) = instance.get("value").and_then(number) {
            take(name, text(instance, "name"), value);
        }
    }
    if let Some(value) = fields.get("value").and_then(number) {
        take(name, "", value);
    }
    for (key, inner) in fields.iter().filter(|(key, _)| !key.starts_with('@')) {
        let before = name.len();
        if !name.is_empty() {
            name.push('.');
        }
        name.push_str(key);
        walk(inner, name, depth + 1, take);
        name.truncate(before);
    }
}

/// Every metric that tells of storage.
pub(crate) fn metrics() -> impl Iterator<Item = &'static str> {
    OF_DISK.iter().map(|row| row.0).chain(OF_MACHINE.iter().map(|row| row.0))
}

/// Adds the rate of a metric, or its value if it is a gauge, over `seconds`.
pub(crate) fn take(name: &str, instance: &str, value: f64, seconds: f64, book: &mut CounterBook) {
    if let Some((_, column, unit)) = OF_DISK.iter().find(|(known, ..)| *known == name) {
        book.add(instance, &[(*column, value * unit * seconds)]);
        return;
    }
    if let Some((_, metric, unit, is_rate)) = OF_MACHINE.iter().find(|(known, ..)| *known == name) {
        let grown = if *is_rate { value * seconds } else { value };
        book.other(*metric, "", grown * unit);
    }
}
