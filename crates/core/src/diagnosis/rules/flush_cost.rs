//! The device is slow to empty its cache.

use super::*;
use crate::analysis::summary::{DeviceSummary, Stage};
use crate::analysis::{Direction, Interval};
use crate::diagnosis::programs::{self, Topic};
use facts::calls::SYNC_FILE;

/// The mean flush from which on it is slow: devices with protection against power loss take 0.1 ms
/// and less, consumer SSDs 1 to 5 ms, disks a rotation or two.
const SLOW_NS: f64 = 2_000_000.0;
/// And this multiple of the median write, so that it is the flush and not the device. Chosen.
const TIMES_WRITE: f64 = 4.0;
/// Flushes below which there is nothing to judge.
const LEAST: u64 = 5;

rule!(
    "flush-cost",
    "slow cache flushes",
    "Every fsync and journal commit asks the device to empty its volatile cache. A device without \
     protection against power loss needs milliseconds for that, whatever the amount of data, and \
     writes that arrive meanwhile often wait behind it.",
    "Flushes that are about as slow as writes: then all of the device is slow.",
    symptoms: ["fsync-heavy", "journal-commit", "device-slow-tail", "serial-reads"],
);

fn judge(facts: &Facts<'_>) -> Judged {
    let flushed = |device: &DeviceSummary| {
        facts::stage(device, Direction::Flush, Interval::D2c).map_or(0, |stage| stage.sum_ns)
    };
    let Some(device) = facts.devices().iter().max_by_key(|it| flushed(it)) else {
        return Ok(Verdict::Clear);
    };
    let Some(flush) = facts::stage(device, Direction::Flush, Interval::D2c) else {
        return Ok(Verdict::Clear);
    };
    let write = facts::stage(device, Direction::Write, Interval::D2c);
    let median = write.map_or(0.0, |stage| stage.p50_ns as f64);
    if flush.requests < LEAST || flush.mean_ns < SLOW_NS || flush.mean_ns < TIMES_WRITE * median {
        return Ok(Verdict::Clear);
    }
    Ok(finding(facts, device, flush, median).into())
}

fn finding(facts: &Facts<'_>, device: &DeviceSummary, flush: Stage, median: f64) -> Finding {
    let name = &device.device;
    let on_it = |it: Option<&str>| it.is_none_or(|it| it == name);
    let waited =
        facts.waits(|group| facts.is_call(group.syscall, SYNC_FILE) && on_it(group.device.as_deref()));
    let writes = match median > 0.0 {
        true => format!(", where half of the writes take {} at most", words::time(median)),
        false => String::new(),
    };
    let sentence = format!("{name} needs {} to flush its cache{writes}", words::time(flush.mean_ns));
    let finding = if waited.time_ns > 0 {
        Finding::of_blocked(facts, waited.time_ns.min(flush.sum_ns), sentence)
    } else {
        let whole = facts::device_time_ns(device) + flush.sum_ns;
        Finding::of_device(facts, flush.sum_ns, whole, sentence)
    };
    let cache = facts.setting(device, "queue/write_cache").unwrap_or("not known");
    let subject = Subject { device: Some(name.clone()), ..waited.subject() };
    let program = programs::of(subject.process.as_deref(), subject.file.as_deref());
    let own = program.and_then(|it| it.advice(Topic::Sync)).unwrap_or("fewer syncs");
    finding
        .about(subject)
        .sure(Confidence::Certain)
        .shown("mean flush", flush.mean_ns, "ns", format!("iowhy stages -d {name}"))
        .shown("flushes", flush.requests as f64 / facts.seconds(), "1/s", format!("iowhy -d {name}"))
        .shown("median write", median, "ns", format!("iowhy stages -d {name}"))
        .fix(format!(
            "{own}; a drive with protection against power loss (write_cache is \"{cache}\"). Do NOT set \
             \"write through\" in sysfs unless the cache survives a power loss: it stops flushes, and a \
             crash then loses or corrupts data. Safe on SATA, though it may slow writes: `hdparm -W0 \
             /dev/{name}`"
        ))
        .check("writes without syncs are fast (`dd if=/dev/zero of=NEWFILE bs=1M count=64 oflag=direct` on it); if they are as slow, the whole device is")
}
