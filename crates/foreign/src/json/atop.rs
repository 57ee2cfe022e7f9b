//! atop's JSON: an object in a line for each interval.
//!
//! What does not belong here: `atop -P` (see [`crate::text`]).

use super::{figure, items, text};
use crate::book::CounterBook;
use crate::text::RowsOut;
use iowhy_model::{Environment, Metric};
use serde_json::Value;

/// An interval that is longer is the time since boot, seconds.
const LONGEST_S: f64 = 86_400.0;

/// Reads the lines.
///
/// # Errors
/// Fails if the first line is wrong; a later one is skipped, and reported.
pub(super) fn read(
    bytes: &[u8],
    book: &mut CounterBook,
    environment: &mut Environment,
    out: &mut RowsOut<'_>,
) -> Result<(), String> {
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    let (mut read, mut skipped) = (0_u64, 0_u64);
    let mut samples: Vec<Value> = Vec::new();
    for line in lines {
        match serde_json::from_slice::<Value>(line) {
            Ok(sample) => samples.push(sample),
            Err(error) if samples.is_empty() => return Err(error.to_string()),
            Err(_) => skipped += 1,
        }
    }
    // The first is the time since boot, of a live atop.
    let uptime = samples.first().and_then(|sample| figure(sample, &["elapsed"])).unwrap_or(0.0);
    let later = samples.iter().skip(1).filter_map(|sample| figure(sample, &["elapsed"]));
    let is_since_boot = uptime > LONGEST_S || later.clone().any(|later| later * 10.0 < uptime);
    for sample in samples.iter().skip(usize::from(is_since_boot && samples.len() > 1)) {
        text(sample, "host").clone_into(&mut environment.host);
        take(sample, book);
        book.sample(out.batch, out.names);
        read += 1;
    }
    if skipped > 0 {
        environment.limits.push(format!("{skipped} of its lines are damaged and were skipped"));
    }
    if is_since_boot && read > 0 && samples.len() > 1 {
        environment.limits.push("the first sample, since boot, was left out".to_owned());
    }
    if read == 0 { Err("it holds no sample".to_owned()) } else { Ok(()) }
}

fn take(sample: &Value, book: &mut CounterBook) {
    book.advance(figure(sample, &["elapsed"]).unwrap_or(0.0));
    for label in ["DSK", "LVM", "MDD"] {
        items(sample, label).iter().for_each(|disk| take_disk(disk, book));
    }
    if let Some(cpu) = sample.get("CPU") {
        let tick_ns = 1e9 / figure(cpu, &["hertz"]).filter(|hertz| *hertz > 0.0).unwrap_or(100.0);
        for (key, metric) in [
            ("utime", Metric::CpuUser),
            ("ntime", Metric::CpuUser),
            ("stime", Metric::CpuSystem),
            ("Itime", Metric::CpuSystem),
            ("Stime", Metric::CpuSystem),
            ("itime", Metric::CpuIdle),
            ("wtime", Metric::CpuIoWait),
            ("steal", Metric::CpuSteal),
        ] {
            if let Some(ticks) = figure(cpu, &[key]) {
                book.other(metric, "", ticks * tick_ns);
            }
        }
    }
    let pages = sample.get("PAG");
    let page = pages.and_then(|pages| figure(pages, &["pagesize"])).unwrap_or(4096.0);
    for (key, metric) in [("swin", Metric::SwappedIn), ("swout", Metric::SwappedOut)] {
        if let Some(count) = pages.and_then(|pages| figure(pages, &[key])) {
            book.other(metric, "", count * page);
        }
    }
}

fn take_disk(disk: &Value, book: &mut CounterBook) {
    let name = [text(disk, "dskname"), text(disk, "lvmname"), text(disk, "mddname")].concat();
    let columns = [
        (9, "io_ms"),
        (0, "nread"),
        (2, "nrsect"),
        (4, "nwrite"),
        (6, "nwsect"),
        (11, "ndiscrd"),
        // The weighted time of requests, in ms.
        (10, "avque"),
    ];
    let grown: Vec<(usize, f64)> =
        columns.iter().filter_map(|(at, key)| Some((*at, figure(disk, &[key])?))).collect();
    book.add(&name, &grown);
    let requests = figure(disk, &["nread"]).zip(figure(disk, &["nwrite"])).map(|(a, b)| a + b);
    if let Some(requests) = requests {
        book.undirected(&name, requests, figure(disk, &["avque"]));
    }
}
