//! The origin of a request, and the reason why a part of it has no file.

use crate::decode::operation::Meaning;
use crate::host::devices::number;
use crate::host::{read_number, read_text};
use crate::wire::{self, wire_request};
use iowhy_model::{Operation, Origin};
use std::ops::Range;
use std::path::Path;

/// A device that is used for swap.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SwapDevice {
    /// The number of its disk, as in requests.
    disk: u32,
    /// The area's sectors on the disk: those of a partition, or all.
    sectors: Range<u64>,
}

impl SwapDevice {
    /// Returns the devices of /proc/swaps. Swap files are recognised by the completion function of
    /// their bios.
    pub fn all() -> Vec<SwapDevice> {
        let text = read_text("/proc/swaps").unwrap_or_default();
        let device = |line: &str| {
            let path = line.split_whitespace().next()?;
            let device = rustix::fs::stat(path).ok()?.st_rdev;
            let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
            (device != 0).then(|| SwapDevice::on(Path::new("/sys/dev/block"), major, minor))
        };
        text.lines().skip(1).filter_map(device).collect()
    }

    /// A swap area on a device, from the directory of all devices.
    fn on(devices: &Path, major: u32, minor: u32) -> SwapDevice {
        let folder = devices.join(format!("{major}:{minor}"));
        let of_partition = || {
            let disk = read_text(folder.join("../dev"))?;
            let (major, minor) = disk.split_once(':')?;
            let start = read_number(folder.join("start"))?;
            let end = start.checked_add(read_number(folder.join("size"))?)?;
            folder.join("partition").exists().then_some(SwapDevice {
                disk: number(major.parse().ok()?, minor.parse().ok()?),
                sectors: start..end,
            })
        };
        of_partition().unwrap_or(SwapDevice { disk: number(major, minor), sectors: 0..u64::MAX })
    }

    /// Whether the request is in it.
    pub fn holds(&self, request: &wire_request) -> bool {
        self.disk == request.device && self.sectors.contains(&request.sector)
    }
}

/// Facts besides the request itself.
pub struct Circumstances {
    /// Whether the sector is in a swap area.
    pub swap_device: bool,
    /// Whether a file system is mounted from the device.
    pub mounted: bool,
}

/// Returns the origin of a request.
pub fn origin(request: &wire_request, meaning: Meaning, around: &Circumstances) -> Origin {
    match meaning.operation {
        Operation::Flush => return Origin::Flush,
        Operation::Discard | Operation::SecureErase | Operation::WriteZeroes => {
            return Origin::Discard;
        }
        Operation::Driver | Operation::Zone | Operation::Other => return Origin::Passthrough,
        // An empty write is a file system's flush.
        Operation::Write if request.bytes == 0 => return Origin::Flush,
        Operation::Read | Operation::Write => {}
    }
    if request.parent != 0 {
        return Origin::Stacked;
    }
    match request.part.found {
        wire::FOUND_METADATA => Origin::Metadata,
        wire::FOUND_JOURNAL => Origin::Journal,
        wire::FOUND_SWAP => Origin::Swap,
        wire::FOUND_BDEV_PAGE if around.mounted => Origin::Metadata,
        wire::FOUND_RAW_ANON if around.swap_device => Origin::Swap,
        wire::FOUND_ANONYMOUS | wire::FOUND_NO_MAPPING if meaning.swap || around.swap_device => {
            Origin::Swap
        }
        wire::FOUND_NOT | wire::FOUND_ANONYMOUS | wire::FOUND_NO_MAPPING => Origin::Unknown,
        found if meaning.operation == Operation::Write => written(request, found),
        _ => read(request, meaning),
    }
}

fn written(request: &wire_request, found: u32) -> Origin {
    let cached = matches!(found, wire::FOUND_PAGE | wire::FOUND_BDEV_PAGE | wire::FOUND_BELOW)
        || (found == wire::FOUND_BTRFS && request.flags & wire::REQUEST_KERNEL_THREAD != 0);
    if cached { Origin::Writeback } else { Origin::Write }
}

fn read(request: &wire_request, meaning: Meaning) -> Origin {
    let direct = matches!(
        request.part.found,
        wire::FOUND_DIRECT | wire::FOUND_RAW | wire::FOUND_RAW_ANON | wire::FOUND_BTRFS
    );
    if direct && !meaning.readahead {
        Origin::Read
    } else if request.flags & wire::REQUEST_FAULT != 0 {
        Origin::PageFault
    } else if meaning.readahead {
        Origin::Readahead
    } else {
        Origin::Read
    }
}

/// Returns the reason why a part has no file, `unqueued` if its queueing was not seen; `None` if it
/// has one.
pub fn no_file_reason(found: u32, origin: Origin, unqueued: &'static str) -> Option<&'static str> {
    match (found, origin) {
        (_, Origin::Metadata) => Some("metadata of a file system"),
        (_, Origin::Journal) => Some("journal of a file system"),
        (_, Origin::Swap) => Some("swap"),
        (wire::FOUND_NO_DATA, _) => Some("carries no data"),
        (wire::FOUND_PASSTHROUGH, _) => Some("a passthrough command of a driver"),
        (wire::FOUND_NO_MAPPING, _) => Some("its pages belong to no file"),
        (wire::FOUND_ANONYMOUS, _) => Some("anonymous memory of an unknown owner"),
        (wire::FOUND_BELOW, _) => Some("its files are those of the request below it"),
        (wire::FOUND_NOT, _) => Some(unqueued),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use zerocopy::FromZeros;

    #[test]
    fn swap_on_a_partition_is_a_part_of_its_disk() {
        let base = tempfile::tempdir().unwrap();
        let (all, disk) = (base.path().join("all"), base.path().join("sda"));
        fs::create_dir_all(disk.join("sda2")).unwrap();
        fs::create_dir(&all).unwrap();
        let files =
            [("dev", "8:0"), ("sda2/partition", "2"), ("sda2/start", "2048"), ("sda2/size", "100")];
        files.iter().for_each(|(name, text)| fs::write(disk.join(name), text).unwrap());
        std::os::unix::fs::symlink(disk.join("sda2"), all.join("8:2")).unwrap();
        std::os::unix::fs::symlink(&disk, all.join("8:0")).unwrap();
        let part = SwapDevice::on(&all, 8, 2);
        assert_eq!(part, SwapDevice { disk: number(8, 0), sectors: 2048..2148 });
        let at = |device, sector| {
            let mut request = wire_request::new_zeroed();
            (request.device, request.sector) = (device, sector);
            request
        };
        assert!(part.holds(&at(number(8, 0), 2048)) && part.holds(&at(number(8, 0), 2147)));
        assert!(!part.holds(&at(number(8, 0), 2047)) && !part.holds(&at(number(8, 0), 2148)));
        assert!(!part.holds(&at(number(8, 2), 2048)));
        assert!(SwapDevice::on(&all, 8, 0).holds(&at(number(8, 0), 7)));
    }
}
