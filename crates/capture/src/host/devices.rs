//! Block devices in /sys/block.

use super::{read_number, read_settings, read_text, system, transport};
use iowhy_model::compact_sort::CompactSort;
use iowhy_model::environment::Device;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Queue settings that administrators and tuning daemons change at run time.
pub const TUNED: &[&str] = &[
    "queue/scheduler",
    "queue/nr_requests",
    "queue/read_ahead_kb",
    "queue/write_cache",
    "queue/wbt_lat_usec",
    "queue/max_sectors_kb",
    "queue/nomerges",
    "queue/rq_affinity",
];

/// Other settings that affect its behaviour.
const SETTINGS: &[&str] = &[
    "queue/rotational",
    "queue/max_hw_sectors_kb",
    "queue/logical_block_size",
    "queue/physical_block_size",
    "queue/minimum_io_size",
    "queue/optimal_io_size",
    "queue/discard_max_bytes",
    "queue/discard_granularity",
    "queue/iostats",
    "queue/io_poll",
    "queue/fua",
    // Whether a page may not be changed while it is written.
    "queue/stable_writes",
    "queue/dax",
    "queue/zoned",
    "queue/chunk_sectors",
    "queue/discard_max_hw_bytes",
    "queue/write_zeroes_max_bytes",
    "queue/max_segments",
    "queue/nr_zones",
    "loop/dio",
    // The share of the dirty pages that may be the device's.
    "bdi/strict_limit",
    "bdi/max_ratio",
    // SCSI: the number of commands it accepts at once.
    "device/queue_depth",
    "device/queue_type",
    // NVMe over PCIe: current and maximum link speed.
    "device/device/current_link_speed",
    "device/device/max_link_speed",
    "device/device/current_link_width",
    "device/device/max_link_width",
    "ro",
    "removable",
];

/// The most settings of a scheduler: bfq, which has most, has ten.
const MOST_OF_SCHEDULER: usize = 32;

/// A device number as in the BPF programs: major << 20 | minor.
pub fn number(major: u32, minor: u32) -> u32 {
    major << 20 | minor
}

/// Every whole disk and partition, with its current settings and counters.
pub fn read_all() -> Vec<Device> {
    let mut devices = list();
    read_start(&mut devices);
    devices
}

/// Returns all devices without counters: a watch reads them at its beginning (see [`read_start`]).
pub fn list() -> Vec<Device> {
    let mut devices: Vec<Device> =
        entries(Path::new("/sys/block")).iter().flat_map(|disk| read_disk(disk)).collect();
    devices.compact_sort_by_key(|device| (device.major, device.minor));
    let swaps = read_text("/proc/swaps").unwrap_or_default();
    for (name, settings) in swaps.lines().filter_map(swap_settings) {
        if let Some(device) = devices.iter_mut().find(|device| device.name == name) {
            device.settings_start.extend(settings);
        }
    }
    devices
}

/// The device of a line of /proc/swaps (file, type, size, used, priority), its use and priority.
fn swap_settings(line: &str) -> Option<(&str, [(String, String); 2])> {
    let mut words = line.split_whitespace();
    let name = words.next()?.strip_prefix("/dev/")?;
    let (used, priority) = (words.nth(2)?, words.next()?);
    let settings = [("swap/used_kb", used), ("swap/priority", priority)];
    Some((name, settings.map(|(name, value)| (name.to_owned(), value.to_owned()))))
}

fn entries(path: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(path) else { return Vec::new() };
    entries.filter_map(|entry| Some(entry.ok()?.path())).collect()
}

fn read_disk(path: &Path) -> Vec<Device> {
    let Some(disk) = read_device(path, None) else { return Vec::new() };
    let partitions: Vec<Device> = entries(path)
        .iter()
        .filter(|inner| inner.join("partition").exists())
        .filter_map(|inner| read_device(inner, Some(&disk.name)))
        .collect();
    std::iter::once(disk).chain(partitions).collect()
}

fn read_device(path: &Path, disk: Option<&str>) -> Option<Device> {
    let (major, minor) = numbers_of(path)?;
    let backing_file = read_text(path.join("loop/backing_file"));
    let slaves = entries(&path.join("slaves"));
    let below = slaves.iter().filter_map(|slave| name(slave));
    let below = below.chain(backing_file.as_deref().and_then(device_under)).collect();
    Some(Device {
        name: name(path)?,
        major,
        minor,
        partition_of: disk.map(str::to_owned),
        bytes: read_number(path.join("size")).unwrap_or(0) * 512,
        model: read_text(path.join("device/model")).map(|model| model.trim().to_owned()),
        transport: disk.map_or_else(|| transport::of(path), |_| None),
        bio_based: disk.is_none() && !path.join("mq").exists(),
        below,
        backing_file,
        settings_start: settings(path).into(),
        ..Device::default()
    })
}

/// The settings of a device's queue and of its scheduler, with the number of its hardware queues:
/// nr_requests applies to each of them.
fn settings(path: &Path) -> BTreeMap<String, String> {
    let mut settings = read_settings(path, TUNED.iter().chain(SETTINGS));
    let mut of_scheduler = entries(&path.join("queue/iosched"));
    of_scheduler.sort();
    let of_scheduler = of_scheduler.iter().take(MOST_OF_SCHEDULER).filter_map(|file| {
        Some((format!("queue/iosched/{}", name(file)?), read_text(file)?.trim().to_owned()))
    });
    settings.extend(of_scheduler);
    let queues = entries(&path.join("mq")).len();
    if queues > 0 {
        settings.insert("mq/queues".to_owned(), queues.to_string());
    }
    settings
}

/// The device that holds the file, if its file system is on a single device.
fn device_under(file: &str) -> Option<String> {
    let device = rustix::fs::stat(file).ok()?.st_dev;
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    name(&fs::read_link(format!("/sys/dev/block/{major}:{minor}")).ok()?)
}

/// The kernel writes `!` for a slash in a device's name.
fn name(path: &Path) -> Option<String> {
    Some(path.file_name()?.to_str()?.replace('!', "/"))
}

fn in_flight(path: &Path) -> Option<(u64, u64)> {
    let text = read_text(path.join("inflight"))?;
    let mut numbers = text.split_whitespace().filter_map(|word| word.parse().ok());
    Some((numbers.next()?, numbers.next()?))
}

/// A disk whose requests in flight are counted by the kernel.
#[derive(Clone, Copy, Debug)]
pub struct CountedDisk {
    /// The disk's device number.
    pub number: u32,
    /// The number of its hardware queues.
    pub queues: usize,
    /// Requests in flight.
    pub in_flight: u64,
}

/// Every disk with its current requests in flight. Disks without the kernel's counter (bio-based,
/// or `iostats` off) are left out.
pub fn in_flight_now() -> Vec<CountedDisk> {
    let disks = entries(Path::new("/sys/block"));
    disks.iter().filter_map(|disk| counted(disk)).collect()
}

/// Returns those of these disks that have requests in flight.
pub fn busy_now() -> Vec<CountedDisk> {
    let disks = entries(Path::new("/sys/block")).into_iter();
    // One file of most disks, which are idle.
    let is_busy = |disk: &PathBuf| in_flight(disk).is_some_and(|counts| counts.0 + counts.1 > 0);
    disks.filter(is_busy).filter_map(|disk| counted(&disk)).collect()
}

fn counted(disk: &Path) -> Option<CountedDisk> {
    let queues = entries(&disk.join("mq")).len();
    let (major, minor) = numbers_of(disk)?;
    let (reads, writes) = in_flight(disk)?;
    let counts = queues > 0 && read_number(disk.join("queue/iostats")) == Some(1);
    let number = number(major, minor);
    counts.then_some(CountedDisk { number, queues, in_flight: reads + writes })
}

fn numbers_of(path: &Path) -> Option<(u32, u32)> {
    let text = read_text(path.join("dev"))?;
    let (major, minor) = text.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn stat(path: &Path) -> Vec<u64> {
    let text = read_text(path.join("stat")).unwrap_or_default();
    text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

/// Returns the device's directory in sysfs.
pub(crate) fn directory(device: &Device) -> PathBuf {
    PathBuf::from(format!("/sys/dev/block/{}:{}", device.major, device.minor))
}

/// Reads the counters of `devices` at the beginning of the watch.
pub fn read_start(devices: &mut [Device]) {
    for device in devices {
        let path = directory(device);
        device.in_flight_start = in_flight(&path);
        device.stat_start = stat(&path);
        device.stat_read_ns = Some((system::now_ns(), 0));
        // Loading the programs took a while.
        device.settings_start.extend(read_settings(&path, TUNED));
    }
}

/// Adds the state at the end of the watch to `devices`, and devices that have been added since;
/// with `known_only`, none of these.
pub fn read_end(devices: &mut Vec<Device>, known_only: bool) {
    for now in read_all() {
        let known = devices.iter_mut().find(|device| {
            (device.major, device.minor, &device.name) == (now.major, now.minor, &now.name)
        });
        let device = match known {
            Some(device) => device,
            None if known_only => continue,
            None => {
                devices.push(Device {
                    in_flight_start: None,
                    stat_start: Vec::new(),
                    ..now.clone()
                });
                let Some(last) = devices.last_mut() else { continue };
                last
            }
        };
        device.in_flight_end = now.in_flight_start;
        device.stat_end = now.stat_start;
        device.stat_read_ns = device.stat_read_ns.zip(now.stat_read_ns).map(|(a, b)| (a.0, b.0));
        device.settings_end = now.settings_start;
        // A loop device may have been attached to a file since.
        device.backing_file = device.backing_file.take().or(now.backing_file);
        device.bytes = device.bytes.max(now.bytes);
    }
}

/// The upper devices of each disk (device mapper, RAID), by the disk's number. A loop device does
/// not count if the kernel shows which of the lower requests are its own: only some of them are.
pub fn uppers(devices: &[Device], loops_are_described: bool) -> FxHashMap<u32, String> {
    let mut uppers: FxHashMap<u32, String> = FxHashMap::default();
    let counts = |device: &&Device| device.backing_file.is_none() || !loops_are_described;
    for upper in devices.iter().filter(counts) {
        let is_below = |device: &&Device| upper.below.contains(&device.name);
        for lower in devices.iter().filter(is_below) {
            let disk = lower.partition_of.as_ref().unwrap_or(&lower.name);
            let Some(disk) = devices.iter().find(|device| device.name == *disk) else { continue };
            let names = uppers.entry(number(disk.major, disk.minor)).or_default();
            if !names.split(", ").any(|name| name == upper.name) {
                names.push_str(if names.is_empty() { "" } else { ", " });
                names.push_str(&upper.name);
            }
        }
    }
    uppers
}

/// Names by device number. Devices that appear during the watch are looked up on first use.
#[derive(Clone, Debug, Default)]
pub struct DeviceNames {
    names: FxHashMap<u32, String>,
    disks: FxHashMap<u32, String>,
}

impl DeviceNames {
    /// The names of `devices`.
    pub fn from_devices(devices: &[Device]) -> DeviceNames {
        let entry = |device: &Device| (number(device.major, device.minor), device.name.clone());
        let disk = |device: &Device| {
            let disk = device.partition_of.as_ref().unwrap_or(&device.name);
            (number(device.major, device.minor), disk.clone())
        };
        DeviceNames {
            names: devices.iter().map(entry).collect(),
            disks: devices.iter().map(disk).collect(),
        }
    }

    /// The whole disk that the device is or is a part of; `None` if it is not a disk.
    pub fn disk(&self, device: u32) -> Option<&str> {
        self.disks.get(&device).map(String::as_str)
    }

    /// The name of the device, or its number if the kernel has no name for it.
    pub fn get(&mut self, device: u32) -> &str {
        self.names.entry(device).or_insert_with(|| look_up(device))
    }
}

fn look_up(device: u32) -> String {
    let (major, minor) = (device >> 20, device & 0xf_ffff);
    fs::read_link(format!("/sys/dev/block/{major}:{minor}"))
        .ok()
        .and_then(|path| name(&path))
        .unwrap_or_else(|| format!("{major}:{minor}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(name: &str, minor: u32, below: &[&str], partition_of: Option<&str>) -> Device {
        Device {
            name: name.to_owned(),
            minor,
            below: below.iter().map(|name| (*name).to_owned()).collect(),
            partition_of: partition_of.map(str::to_owned),
            ..Device::default()
        }
    }

    #[test]
    fn a_disk_knows_who_stands_on_its_partitions() {
        let image = Some("/var/image".to_owned());
        let devices = [
            device("sda", 0, &[], None),
            device("sda1", 1, &[], Some("sda")),
            device("dm-0", 2, &["sda1"], None),
            device("md0", 3, &["sda"], None),
            Device { backing_file: image, ..device("loop0", 4, &["sda1"], None) },
        ];
        let found = uppers(&devices, true);
        assert_eq!(found.get(&0).map(String::as_str), Some("dm-0, md0"));
        assert_eq!(found.len(), 1);
        let found = uppers(&devices, false);
        assert_eq!(found.get(&0).map(String::as_str), Some("dm-0, md0, loop0"));
    }
}
