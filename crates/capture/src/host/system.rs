//! The machine: host, kernel, distribution, memory, kernel settings, clocks.

use super::{read_settings, read_text};
use iowhy_core::model::Environment;
use rustix::time::{ClockId, clock_gettime};
use std::collections::BTreeMap;
use std::path::Path;

/// Settings of the machine that decide how block I/O behaves, under /proc/sys.
const SETTINGS: &[&str] = &[
    "vm/dirty_background_bytes",
    "vm/dirty_background_ratio",
    "vm/dirty_bytes",
    "vm/dirty_ratio",
    "vm/dirty_expire_centisecs",
    "vm/dirty_writeback_centisecs",
    "vm/laptop_mode",
    "vm/vfs_cache_pressure",
    "vm/swappiness",
    "vm/page-cluster",
    "vm/min_free_kbytes",
    "fs/aio-max-nr",
    "kernel/task_delayacct",
];

/// The settings as they are now.
pub fn settings() -> BTreeMap<String, String> {
    read_settings(Path::new("/proc/sys"), SETTINGS)
}

/// CLOCK_MONOTONIC now, in nanoseconds: the clock of every record.
pub fn now_ns() -> u64 {
    nanoseconds(ClockId::Monotonic) as u64
}

fn nanoseconds(clock: ClockId) -> i64 {
    let time = clock_gettime(clock);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// What to add to CLOCK_BOOTTIME to get CLOCK_MONOTONIC: processes start on the former.
pub fn boottime_offset_ns() -> i64 {
    nanoseconds(ClockId::Monotonic) - nanoseconds(ClockId::Boottime)
}

/// What is true of the machine as a whole, with the devices and mounts as they are now.
pub fn environment() -> Environment {
    let uname = rustix::system::uname();
    let text = |value: &std::ffi::CStr| value.to_string_lossy().into_owned();
    Environment {
        format: iowhy_core::model::environment::FORMAT,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        source: "live".to_owned(),
        host: text(uname.nodename()),
        kernel: text(uname.release()),
        distribution: distribution(),
        architecture: text(uname.machine()),
        cpus: std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32),
        memory_bytes: memory_bytes(),
        is_virtual: is_virtual(),
        realtime_offset_ns: nanoseconds(ClockId::Realtime) - nanoseconds(ClockId::Monotonic),
        settings_start: settings(),
        ..Environment::default()
    }
}

fn distribution() -> String {
    let text = read_text("/etc/os-release").unwrap_or_default();
    text.lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="))
        .map_or_else(String::new, |name| name.trim_matches('"').to_owned())
}

/// Whether a hypervisor is below: where a CPU tells its features (x86), it tells this, too.
fn is_virtual() -> Option<bool> {
    let text = read_text("/proc/cpuinfo")?;
    let features = text.lines().find_map(|line| line.strip_prefix("flags"))?;
    Some(features.split_whitespace().any(|feature| feature == "hypervisor"))
}

fn memory_bytes() -> u64 {
    let text = read_text("/proc/meminfo").unwrap_or_default();
    let kilobytes = text.lines().find_map(|line| {
        line.strip_prefix("MemTotal:")?.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
    });
    kilobytes.unwrap_or(0) * 1024
}
