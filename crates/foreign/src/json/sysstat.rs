//! sysstat's JSON: `iostat -o JSON`, and sar's data by `sadf -j`.
//!
//! What does not belong here: its text (see [`crate::text`]).

use super::{SECTOR, figure, first_host, items, text};
use crate::book::CounterBook;
use crate::text::RowsOut;
use crate::text::figures::{ReportClock, time_alone};
use iowhy_model::{Environment, Metric};
use serde_json::Value;

/// The interval of reports that do not tell one, seconds.
const ASSUMED_S: f64 = 1.0;
const KIB: f64 = 1024.0;
const PAGE: f64 = 4096.0;

/// Figures of the machine: the object, the key, and the factor to the metric's unit; the last field
/// says whether it is a rate.
const OF_MACHINE: &[(&str, &str, Metric, f64, bool)] = &[
    ("swap-pages", "pswpin", Metric::SwappedIn, PAGE, true),
    ("swap-pages", "pswpout", Metric::SwappedOut, PAGE, true),
    ("paging", "pgpgin", Metric::PagedIn, KIB, true),
    ("paging", "pgpgout", Metric::PagedOut, KIB, true),
    ("paging", "fault", Metric::Faults, 1.0, true),
    ("paging", "majflt", Metric::MajorFaults, 1.0, true),
    ("paging", "pgscank", Metric::ScannedBackground, PAGE, true),
    ("paging", "pgscand", Metric::ScannedDirect, PAGE, true),
    ("memory", "memfree", Metric::MemoryFree, KIB, false),
    ("memory", "avail", Metric::MemoryAvailable, KIB, false),
    ("memory", "cached", Metric::Cached, KIB, false),
    ("memory", "buffers", Metric::Buffers, KIB, false),
    ("memory", "dirty", Metric::Dirty, KIB, false),
    ("queue", "runq-sz", Metric::Running, 1.0, false),
    ("queue", "blocked", Metric::Blocked, 1.0, false),
];

/// Shares of CPU time.
const OF_CPUS: &[(&str, Metric)] = &[
    ("user", Metric::CpuUser),
    ("nice", Metric::CpuUser),
    ("system", Metric::CpuSystem),
    ("idle", Metric::CpuIdle),
    ("iowait", Metric::CpuIoWait),
    ("steal", Metric::CpuSteal),
];

/// Reads the reports.
///
/// # Errors
/// Fails if it names no host.
pub(super) fn read(
    value: &Value,
    book: &mut CounterBook,
    environment: &mut Environment,
    out: &mut RowsOut<'_>,
) -> Result<(), String> {
    let host =
        first_host(value, ["sysstat", "hosts"], environment).ok_or("sysstat names no host")?;
    environment.host = text(host, "nodename").to_owned();
    environment.kernel = text(host, "release").to_owned();
    environment.architecture = text(host, "machine").to_owned();
    environment.cpus = figure(host, &["number-of-cpus"]).unwrap_or(0.0) as u32;
    let mut reports = items(host, "statistics");
    let mut clock = ReportClock::default();
    // The first report of iostat is the mean since boot.
    if reports.len() > 1
        && !reports.iter().all(|report| report["timestamp"]["interval"].is_number())
    {
        reports.iter().take(1).for_each(|report| _ = passed_s(report, &mut clock));
        reports = reports.get(1..).unwrap_or(&[]);
        environment
            .limits
            .push("the first report, usually the mean since boot, was left out".to_owned());
    }
    let mut assumed = false;
    for report in reports {
        let told = passed_s(report, &mut clock);
        assumed |= told.is_none();
        let seconds = told.unwrap_or(ASSUMED_S);
        book.advance(seconds);
        for disk in items(report, "disk") {
            sysstat_disk(disk, seconds, book);
        }
        machine(report, seconds, book);
        processes(report, seconds, book);
        book.sample(out.batch, out.names);
    }
    if assumed {
        environment.limits.push(
            "its intervals were taken for a second: rates are right, totals may not be".to_owned(),
        );
    }
    Ok(())
}

/// The length of a report: sadf tells it, and iostat's `-t` the time of its end.
fn passed_s(report: &Value, clock: &mut ReportClock) -> Option<f64> {
    let stamp = report.get("timestamp")?;
    if let Some(time) = stamp.as_str().and_then(time_alone) {
        clock.at(time);
    }
    let passed_s = clock.take_passed().filter(|passed_s| *passed_s > 0.0);
    stamp.get("interval").and_then(Value::as_f64).or(passed_s)
}

fn sysstat_disk(disk: &Value, seconds: f64, book: &mut CounterBook) {
    let name = [text(disk, "disk_device"), text(disk, "disk-device")].concat();
    if name.starts_with(' ') {
        // The sum of a group, by `-g`.
        return;
    }
    let per_s = |keys: &[&str]| figure(disk, keys).map(|rate| rate * seconds);
    let mut grown = Vec::new();
    for (first, rate, merged, kib, wait) in [
        (0, "r/s", "rrqm/s", "rkB/s", "r_await"),
        (4, "w/s", "wrqm/s", "wkB/s", "w_await"),
        (11, "d/s", "drqm/s", "dkB/s", "d_await"),
    ] {
        let requests = per_s(&[rate]);
        let moved = moved_kib(disk, kib).map(|rate| rate * seconds * 1024.0 / SECTOR);
        let waited = requests.zip(figure(disk, &[wait])).map(|(count, wait)| count * wait);
        let parts = [requests, per_s(&[merged]), moved, waited];
        grown.extend(
            parts.into_iter().enumerate().filter_map(|(at, part)| Some((first + at, part?))),
        );
    }
    let flushes = per_s(&["f/s"]);
    grown.extend(flushes.map(|count| (15, count)));
    let flush_ms = flushes.zip(figure(disk, &["f_await"])).map(|(count, wait)| count * wait);
    grown.extend(flush_ms.map(|flush_ms| (16, flush_ms)));
    let util = figure(disk, &["util", "%util", "util-percent"]);
    grown.extend(util.map(|percent| (9, percent.clamp(0.0, 100.0) * seconds * 10.0)));
    let depth = figure(disk, &["aqu-sz", "avgqu-sz"]);
    grown.extend(depth.map(|depth| (10, depth * seconds * 1e3)));
    book.add(&name, &grown);
    if figure(disk, &["r/s"]).is_none()
        && let Some(requests) = per_s(&["tps"])
    {
        book.undirected(&name, requests, figure(disk, &["await"]).map(|wait| wait * requests));
    }
}

/// KiB per second of a direction, by the name of its column in iostat and sar; without `-x` and
/// with `-m` others have it.
fn moved_kib(disk: &Value, name: &str) -> Option<f64> {
    let plain = match name {
        "rkB/s" => ["kB_read/s", "MB_read/s", "rMB/s"],
        "wkB/s" => ["kB_wrtn/s", "MB_wrtn/s", "wMB/s"],
        _ => ["kB_dscd/s", "MB_dscd/s", "dMB/s"],
    };
    let [kib, mib, extended_mib] = plain;
    figure(disk, &[name, name.trim_end_matches("/s"), kib])
        .or_else(|| figure(disk, &[mib, extended_mib]).map(|rate| rate * 1024.0))
}

/// Adds the processes of `pidstat -d -o JSON`; their threads are part of them.
fn processes(report: &Value, seconds: f64, book: &mut CounterBook) {
    let whole = |task: &&Value| text(task, "TID").is_empty();
    for task in items(report, "task-io").iter().filter(whole) {
        let pid = [text(task, "PID"), text(task, "TGID")].concat();
        let subject = format!("{pid} {}", text(task, "cmd"));
        for (key, metric) in [
            ("kB_rd/s", Metric::CausedRead),
            ("kB_wr/s", Metric::CausedWrite),
            ("kB_ccwr/s", Metric::CancelledWrite),
        ] {
            // -1 stands for a rate that must not be read.
            if let Some(rate) = figure(task, &[key]).filter(|rate| *rate >= 0.0) {
                book.other(metric, &subject, rate * KIB * seconds);
            }
        }
    }
}

/// Adds the figures of the machine in a report.
fn machine(report: &Value, seconds: f64, book: &mut CounterBook) {
    for (object, key, metric, unit, is_rate) in OF_MACHINE {
        if let Some(value) = report.get(object).and_then(|figures| figure(figures, &[key])) {
            let grown = if *is_rate { value * seconds } else { value };
            book.other(*metric, "", grown * unit);
        }
    }
    // iostat has one object, sadf one for each CPU and for all.
    let loads = items(report, "cpu-load");
    let all = loads.iter().find(|load| text(load, "cpu") == "all").or(report.get("avg-cpu"));
    for (key, metric) in OF_CPUS {
        if let Some(percent) = all.and_then(|load| figure(load, &[key])) {
            book.other(*metric, "", percent.clamp(0.0, 100.0) / 100.0 * seconds * 1e9);
        }
    }
}
