//! Devices: the kernel's counters of each, and iowhy's requests in flight.

use super::{Ages, Out};
use crate::host::read_text;
use crate::probes::snapshot::PendingRequest;
use iowhy_model::Metric;
use iowhy_model::metric::DISKSTATS;
use std::path::Path;

/// Samples every whole disk. /proc/diskstats has partitions, too; only a disk has a directory of
/// its own under /sys/block.
pub(super) fn look(pending: &[PendingRequest], out: &mut Out<'_>) {
    let mut ages = Ages::default();
    for request in pending {
        ages.entry(request.device).or_default().add(request, out.now_ns);
    }
    let text = read_text("/proc/diskstats").unwrap_or_default();
    text.lines().for_each(|line| _ = disk(line, &mut ages, out));
}

fn disk(line: &str, ages: &mut Ages, out: &mut Out<'_>) -> Option<()> {
    let mut words = line.split_whitespace();
    let (major, minor) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let name = words.next()?;
    let values: Vec<u64> = words.flat_map(str::parse).collect();
    let age = ages.remove(&crate::host::devices::number(major, minor));
    // Most loop devices and RAM disks never did any I/O.
    let is_idle = age.is_none() && values.iter().all(|value| *value == 0);
    if is_idle || !Path::new("/sys/block").join(name.replace('/', "!")).exists() {
        return None;
    }
    let subject = out.names.intern(name);
    for ((metric, unit), value) in DISKSTATS.iter().zip(values) {
        out.put(*metric, subject, value.saturating_mul(*unit));
    }
    let age = age.unwrap_or_default();
    out.put(Metric::UnderWay, subject, age.requests);
    out.put(Metric::UnderWayAge, subject, age.sum_ns);
    out.put(Metric::OldestAge, subject, age.oldest_ns);
    out.put(Metric::OldestIssued, subject, age.oldest_issued_ns);
    Some(())
}
