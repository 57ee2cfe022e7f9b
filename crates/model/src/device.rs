//! A block device of `recording.json`, its settings, and names of disks and partitions.
//!
//! What does not belong here: figures of a device (crate `iowhy-analysis`).

use super::health::{DeviceHealth, KernelMessage};
use super::object::object;
use super::shared::Shared;
use std::collections::BTreeMap;

object! {
    /// A block device and its settings.
    pub struct Device {
        /// The kernel's name.
        pub name: String,
        /// The major number.
        pub major: u32,
        /// The minor number.
        pub minor: u32,
        /// The whole disk's name for a partition.
        pub partition_of: Option<String>,
        /// Size in bytes.
        pub bytes: u64,
        /// The vendor's model name, if there is one.
        pub model: Option<String>,
        /// How it is attached, much like lsblk's TRAN: sata, sas, usb, mmc, virtio, xen, hyperv,
        /// fc, iscsi; for NVMe its transport (pcie, tcp, rdma …); pci if only the controller is
        /// known.
        pub transport: Option<String>,
        /// Whether it has no request queue (zram, device mapper): only bios are seen.
        pub bio_based: bool,
        /// Its lower devices, by name.
        pub below: Vec<String>,
        /// The file behind a loop device.
        pub backing_file: Option<String>,
        /// Requests in flight when the watch began: reads and writes, from sysfs.
        pub in_flight_start: Option<(u64, u64)>,
        /// The same when it ended.
        pub in_flight_end: Option<(u64, u64)>,
        /// /proc/diskstats when the watch began; empty if it was not read.
        pub stat_start: Vec<u64>,
        /// The same when it ended.
        pub stat_end: Vec<u64>,
        /// When `stat_start` and `stat_end` were read, CLOCK_MONOTONIC nanoseconds; none if that is
        /// not known, and taken for the beginning and end of the watch then.
        pub stat_read_ns: Option<(u64, u64)>,
        /// Columns of `stat_start` and `stat_end`, from 0, that another tool's summary does not
        /// tell; they hold 0.
        pub stat_unknown: Vec<u32>,
        /// Requests that completed and their time in milliseconds, of all directions together,
        /// where another tool's summary does not tell them apart.
        pub stat_undirected: Option<(u64, u64)>,
        /// Settings under /sys/block/NAME when the watch began: scheduler, nr_requests …
        pub settings_start: Shared<BTreeMap<String, String>>,
        /// The same when it ended.
        pub settings_end: Shared<BTreeMap<String, String>>,
        /// Settings that changed during the watch, in order; none for a device that appeared later.
        pub settings_changed: Vec<SettingChange>,
        /// What the device reported of itself when the watch began; absent if it was not asked or
        /// did not answer in time.
        pub health_start: Option<DeviceHealth>,
        /// The same when it ended.
        pub health_end: Option<DeviceHealth>,
        /// What the kernel's log says of it during the watch, in order; the first messages, if
        /// there are many.
        pub kernel_messages: Vec<KernelMessage>,
    }
}

object! {
    /// A setting of a device that changed during the watch.
    pub struct SettingChange {
        /// Its name.
        pub setting: String,
        /// Its old value.
        pub before: String,
        /// Its new value.
        pub after: String,
        /// The last time at which it had the old value, CLOCK_MONOTONIC nanoseconds.
        pub since_ns: u64,
        /// The first time at which it had the new value, CLOCK_MONOTONIC nanoseconds.
        pub by_ns: u64,
    }
}

/// A setting's value; of a list of choices (`none [mq-deadline] kyber`) the selected one.
pub fn chosen(setting: &str) -> &str {
    let inside = setting.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    inside.map_or(setting, |(name, _)| name)
}

impl Device {
    /// Returns the device number as the kernel and blktrace write it: `major << 20 | minor`.
    pub const fn number(&self) -> u32 {
        (self.major << 20) | (self.minor & 0xf_ffff)
    }
}

/// Whether this is the kernel's name of the disk or of one of its partitions: `sda1` of `sda`,
/// `loop1p2` of `loop1`.
pub fn is_part_of(disk: &str, name: &str) -> bool {
    let Some(rest) = name.strip_prefix(disk) else { return false };
    let is_numbered = disk.ends_with(|letter: char| letter.is_ascii_digit());
    let number = if is_numbered { rest.strip_prefix('p') } else { Some(rest) };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    rest.is_empty() || number.is_some_and(is_number)
}
