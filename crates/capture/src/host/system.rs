//! The machine: host, kernel, distribution, memory, kernel settings, clocks.

use super::{read_settings, read_text};
use iowhy_model::Environment;
use rustix::time::{ClockId, clock_gettime};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

/// Settings of the machine that affect block I/O, under /proc/sys.
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
    "vm/watermark_scale_factor",
    "vm/zone_reclaim_mode",
    "fs/aio-max-nr",
    "kernel/task_delayacct",
];

/// The current settings.
pub fn settings() -> BTreeMap<String, String> {
    read_settings(Path::new("/proc/sys"), SETTINGS)
}

/// CLOCK_MONOTONIC now, in nanoseconds: the clock of every record.
pub fn now_ns() -> u64 {
    nanoseconds(ClockId::Monotonic) as u64
}

/// A clock; CLOCK_MONOTONIC as the kernel's programs read it, which are in no time namespace. Start
/// times of processes are in that of their reader.
fn nanoseconds(clock: ClockId) -> i64 {
    static OFFSET: LazyLock<i64> = LazyLock::new(|| {
        // The offsets are those of children, whose namespace may be another one.
        let link = |name: &str| std::fs::read_link(Path::new("/proc/self/ns").join(name)).ok();
        let offsets = read_text("/proc/self/timens_offsets").unwrap_or_default();
        let is_own = link("time").is_some() && link("time") == link("time_for_children");
        monotonic_offset(&offsets).filter(|_| is_own).unwrap_or(0)
    });
    let time = clock_gettime(clock);
    let offset = if clock == ClockId::Monotonic { *OFFSET } else { 0 };
    (time.tv_sec * 1_000_000_000 + time.tv_nsec).saturating_sub(offset)
}

/// Parses by how much CLOCK_MONOTONIC of this time namespace is ahead of the machine's,
/// nanoseconds.
fn monotonic_offset(offsets: &str) -> Option<i64> {
    let line = offsets.lines().find_map(|line| line.strip_prefix("monotonic"))?;
    let mut numbers = line.split_whitespace();
    let (seconds, ns): (i64, i64) = (numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?);
    seconds.checked_mul(1_000_000_000)?.checked_add(ns)
}

/// The offset from CLOCK_BOOTTIME to CLOCK_MONOTONIC: process start times use the former.
pub fn boottime_offset_ns() -> i64 {
    nanoseconds(ClockId::Monotonic) - nanoseconds(ClockId::Boottime)
}

/// Facts about the machine, with its current devices and mounts.
pub fn environment() -> Environment {
    let uname = rustix::system::uname();
    let text = |value: &std::ffi::CStr| value.to_string_lossy().into_owned();
    Environment {
        format: iowhy_model::environment::FORMAT,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        source: "live".to_owned(),
        host: host_name(text(uname.nodename())),
        kernel: text(uname.release()),
        distribution: distribution(),
        architecture: text(uname.machine()),
        cpus: std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32),
        memory_bytes: memory_bytes(),
        is_virtual: is_virtual(),
        machine: firmware(),
        realtime_offset_ns: nanoseconds(ClockId::Realtime) - nanoseconds(ClockId::Monotonic),
        utc_offset_s: utc_offset_s(),
        settings_start: settings().into(),
        ..Environment::default()
    }
}

/// The name; empty where none was given, for which the kernel says `(none)`.
fn host_name(kernel: String) -> String {
    if kernel == "(none)" { String::new() } else { kernel }
}

/// Offset of local time from UTC now, seconds; `None` where the system names no time zone.
fn utc_offset_s() -> Option<i32> {
    let zone = super::time_zone::local()?;
    Some(zone.to_offset(jiff::Timestamp::now()).seconds())
}

fn distribution() -> String {
    let text = read_text("/etc/os-release").unwrap_or_default();
    text.lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="))
        .map_or_else(String::new, |name| name.trim_matches('"').to_owned())
}

/// Firmware names of virtual machines. Sources: systemd's detect-virt and the vendors' own names. A
/// bare-metal instance of Amazon has its vendor's name, too, and ".metal" in its product's.
const HYPERVISORS: &[&str] = &[
    "KVM",
    "QEMU",
    "VMware",
    "VirtualBox",
    "Xen",
    "Bochs",
    "Parallels",
    "BHYVE",
    "Hyper-V",
    "Virtual Machine",
    "Google Compute Engine",
    "Alibaba Cloud ECS",
    "OpenStack",
    "Amazon EC2",
];

/// Whether this is a virtual machine. On x86 a CPU feature shows it; elsewhere firmware or the
/// device tree does. `None` if it is not known.
fn is_virtual() -> Option<bool> {
    let cpus = read_text("/proc/cpuinfo").unwrap_or_default();
    let node = ["/sys/hypervisor/type", "/proc/device-tree/hypervisor"];
    let has_node = node.iter().any(|path| std::path::Path::new(path).exists());
    virtual_by(&cpus, has_node, &firmware())
}

/// Vendor and product as the firmware names them; clouds put the type of the instance there.
fn firmware() -> String {
    let names = ["sys_vendor", "product_name"];
    let names = names.map(|name| read_text(format!("/sys/class/dmi/id/{name}")));
    names.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

fn virtual_by(cpus: &str, has_node: bool, firmware: &str) -> Option<bool> {
    if let Some(features) = cpus.lines().find_map(|line| line.strip_prefix("flags")) {
        return Some(features.split_whitespace().any(|feature| feature == "hypervisor"));
    }
    let names_one = HYPERVISORS.iter().any(|name| firmware.contains(name));
    match has_node {
        true => Some(true),
        false if firmware.trim().is_empty() => None,
        false => Some(names_one && !firmware.contains(".metal")),
    }
}

fn memory_bytes() -> u64 {
    let text = read_text("/proc/meminfo").unwrap_or_default();
    let kilobytes = text.lines().find_map(|line| {
        line.strip_prefix("MemTotal:")?.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
    });
    kilobytes.unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_of_a_time_namespace_is_ahead_of_the_kernels() {
        let offsets = "monotonic         100         5\nboottime          200         0\n";
        assert_eq!(monotonic_offset(offsets), Some(100_000_000_005));
        assert_eq!(monotonic_offset("monotonic -7 0"), Some(-7_000_000_000));
        for odd in
            ["", "monotonic", "monotonic x 0", "boottime 1 0", "monotonic 9223372036854775807 0"]
        {
            assert_eq!(monotonic_offset(odd), None, "{odd}");
        }
    }

    #[test]
    fn arm_s_machines_are_known_by_their_firmware() {
        let arm = "processor\t: 0\nFeatures\t: fp asimd evtstrm";
        for (node, firmware, expected) in [
            (false, "Amazon EC2 c6g.large", Some(true)),
            (false, "Amazon EC2 c6g.metal", Some(false)),
            (false, "QEMU KVM Virtual Machine", Some(true)),
            (false, "HPE ProLiant RL300 Gen11", Some(false)),
            (true, "", Some(true)),
            (false, "", None),
        ] {
            assert_eq!(virtual_by(arm, node, firmware), expected, "{firmware}");
        }
        assert_eq!(virtual_by("flags\t\t: fpu hypervisor", false, ""), Some(true));
        assert_eq!(virtual_by("flags\t\t: fpu sse", true, "QEMU"), Some(false));
    }
}
