//! The whole machine: meminfo, vmstat, CPU times, pressure.

use super::{Out, pressure};
use crate::host::number_of;
use crate::host::process::tick_ns;
use crate::host::read_text;
use iowhy_model::Metric;

/// Lines of /proc/meminfo, which are in KiB.
const MEMINFO: &[(&str, Metric)] = &[
    ("MemFree", Metric::MemoryFree),
    ("MemAvailable", Metric::MemoryAvailable),
    ("Buffers", Metric::Buffers),
    ("Cached", Metric::Cached),
    ("Shmem", Metric::SharedMemory),
    ("AnonPages", Metric::Anonymous),
    ("SReclaimable", Metric::SlabReclaimable),
    ("SwapFree", Metric::SwapFree),
];

/// The unit of a line of /proc/vmstat.
enum One {
    Page,
    Kibibyte,
    Itself,
}

const VMSTAT: &[(&str, Metric, One)] = &[
    ("nr_dirty", Metric::Dirty, One::Page),
    ("nr_writeback", Metric::Writeback, One::Page),
    ("nr_dirty_threshold", Metric::DirtyThreshold, One::Page),
    ("nr_dirty_background_threshold", Metric::DirtyBackgroundThreshold, One::Page),
    ("nr_dirtied", Metric::Dirtied, One::Page),
    ("nr_written", Metric::Written, One::Page),
    ("nr_file_pages", Metric::FilePages, One::Page),
    ("pgpgin", Metric::PagedIn, One::Kibibyte),
    ("pgpgout", Metric::PagedOut, One::Kibibyte),
    ("pswpin", Metric::SwappedIn, One::Page),
    ("pswpout", Metric::SwappedOut, One::Page),
    ("pgfault", Metric::Faults, One::Itself),
    ("pgmajfault", Metric::MajorFaults, One::Itself),
    ("workingset_refault_file", Metric::RefaultsFile, One::Page),
    ("workingset_refault_anon", Metric::RefaultsAnonymous, One::Page),
    ("pgactivate", Metric::Activated, One::Page),
    ("pgscan_kswapd", Metric::ScannedBackground, One::Page),
    ("pgscan_direct", Metric::ScannedDirect, One::Page),
    ("pgsteal_kswapd", Metric::ReclaimedBackground, One::Page),
    ("pgsteal_direct", Metric::ReclaimedDirect, One::Page),
    ("pgsteal_file", Metric::ReclaimedFile, One::Page),
    ("pginodesteal", Metric::InodesReclaimed, One::Page),
    ("kswapd_inodesteal", Metric::InodesReclaimedBackground, One::Page),
    ("workingset_activate_file", Metric::ActivatedFile, One::Page),
    ("workingset_restore_file", Metric::RestoredFile, One::Page),
    ("drop_pagecache", Metric::CacheDropped, One::Itself),
];

pub(super) fn look(out: &mut Out<'_>) {
    if let Some(text) = read_text("/proc/meminfo") {
        for (line, metric) in MEMINFO {
            number_of(&text, line).into_iter().for_each(|kib| out.system(*metric, kib * 1024));
        }
    }
    vmstat(out);
    stat(out);
    for (name, some, full) in [
        ("io", Metric::PressureIoSome, Some(Metric::PressureIoFull)),
        ("memory", Metric::PressureMemorySome, Some(Metric::PressureMemoryFull)),
        ("cpu", Metric::PressureCpuSome, None),
    ] {
        let Some(text) = read_text(format!("/proc/pressure/{name}")) else { continue };
        let (some_ns, full_ns) = pressure(&text);
        some_ns.into_iter().for_each(|value| out.system(some, value));
        full.zip(full_ns).into_iter().for_each(|(metric, value)| out.system(metric, value));
    }
}

fn vmstat(out: &mut Out<'_>) {
    let Some(text) = read_text("/proc/vmstat") else { return };
    let page = rustix::param::page_size() as u64;
    for line in text.lines() {
        let Some((name, value)) = line.split_once(' ') else { continue };
        let Some((_, metric, one)) = VMSTAT.iter().find(|(known, _, _)| *known == name) else {
            continue;
        };
        let unit = match one {
            One::Page => page,
            One::Kibibyte => 1024,
            One::Itself => 1,
        };
        if let Ok(value) = value.parse::<u64>() {
            out.system(*metric, value.saturating_mul(unit));
        }
    }
}

/// CPU times are in clock ticks: user, nice, system, idle, iowait, irq, softirq, steal.
fn stat(out: &mut Out<'_>) {
    let Some(text) = read_text("/proc/stat") else { return };
    let tick_ns = tick_ns();
    let first = text.lines().next().and_then(|line| line.strip_prefix("cpu "));
    let ticks: Vec<u64> =
        first.into_iter().flat_map(str::split_whitespace).flat_map(str::parse).collect();
    let sum = |columns: &[usize]| -> u64 {
        columns.iter().filter_map(|column| ticks.get(*column)).sum::<u64>().saturating_mul(tick_ns)
    };
    if ticks.len() >= 8 {
        out.system(Metric::CpuUser, sum(&[0, 1]));
        out.system(Metric::CpuSystem, sum(&[2, 5, 6]));
        out.system(Metric::CpuIdle, sum(&[3]));
        out.system(Metric::CpuIoWait, sum(&[4]));
        out.system(Metric::CpuSteal, sum(&[7]));
    }
    for (line, metric) in [("procs_running", Metric::Running), ("procs_blocked", Metric::Blocked)] {
        number_of(&text, line).into_iter().for_each(|value| out.system(metric, value));
    }
}
