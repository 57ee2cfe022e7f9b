//! Why a request exists, and why a part of it has no file.

use super::operation::Meaning;
use crate::host::devices::number;
use crate::host::read_text;
use crate::wire::{self, wire_request};
use iowhy_core::model::{Operation, Origin};

/// The devices that are used for swap as a whole, from /proc/swaps.
pub fn swap_devices() -> Vec<u32> {
    let text = read_text("/proc/swaps").unwrap_or_default();
    let device = |line: &str| {
        let path = line.split_whitespace().next()?;
        let stat = rustix::fs::stat(path).ok()?;
        let device = stat.st_rdev;
        (device != 0).then(|| number(rustix::fs::major(device), rustix::fs::minor(device)))
    };
    text.lines().skip(1).filter_map(device).collect()
}

/// What is known beside the request itself.
pub struct Circumstances {
    /// Whether the device is used for swap.
    pub swap_device: bool,
    /// Whether a file system is mounted from the device.
    pub mounted: bool,
}

/// Why the request exists.
pub fn origin(request: &wire_request, meaning: Meaning, around: &Circumstances) -> Origin {
    match meaning.operation {
        Operation::Flush => return Origin::Flush,
        Operation::Discard | Operation::SecureErase | Operation::WriteZeroes => {
            return Origin::Discard;
        }
        Operation::Driver | Operation::Zone | Operation::Other => return Origin::Passthrough,
        // An empty write is a flush that a file system asked for.
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

/// Why a part has no file; `None` for those that have one.
pub fn no_file_reason(found: u32, origin: Origin) -> Option<&'static str> {
    match (found, origin) {
        (_, Origin::Metadata) => Some("metadata of a file system"),
        (_, Origin::Journal) => Some("journal of a file system"),
        (_, Origin::Swap) => Some("swap"),
        (wire::FOUND_NO_DATA, _) => Some("carries no data"),
        (wire::FOUND_PASSTHROUGH, _) => Some("a driver's command"),
        (wire::FOUND_NO_MAPPING, _) => Some("its pages belong to no file"),
        (wire::FOUND_ANONYMOUS, _) => Some("anonymous memory of an owner that iowhy does not know"),
        (wire::FOUND_BELOW, _) => Some("its files are those of the request below it"),
        (wire::FOUND_NOT, _) => Some("queued before the watch began"),
        _ => None,
    }
}
