//! btt 1.3.0's analysis, figure for figure: its pairing by start sector, its bio-weighted samples
//! and its report. iowhy's own analysis of a capture is elsewhere; this module exists so that
//! existing scripts and comparisons keep working.
//!
//! Known differences, each with its reason:
//! - The order of equally frequent seek distances follows the shape of btt's tree; here they are
//!   sorted. The same holds for the median where two distances each make half of all seeks.
//! - Queued bios that never complete stay in btt's memory forever; here the oldest are dropped
//!   beyond [`MAX_OPEN`] and counted.
//!
//! | where | what |
//! |---|---|
//! | [`tree`] | queued bios by sector, in a tree of the same shape as btt's |
//! | [`engine`] | what each event does |
//! | [`figures`] | averages, ranges, seeks, live periods |
//! | [`report`] | btt's text |
//! | [`files`] | btt's data files |
//! | [`names`] | names of devices that the user gives (`-M`) |
//! | `rates` | those of them that have a line for a period |

pub mod engine;
pub mod figures;
pub mod files;
pub mod names;
pub mod processes;
mod rates;
pub mod report;
pub mod seeks;
pub mod tree;

pub use engine::{Btt, BttDevice};
pub use files::{BttFileKind, DataFiles};
pub use names::DeviceNames;

/// Queued bios that are kept at once.
pub const MAX_OPEN: usize = 256 << 10;
/// Devices beyond this number are counted, not analysed.
pub const MAX_DEVICES: usize = 4096;

/// Whether btt takes the device for a mapper: by number, which is wrong for virtio disks (254).
pub const fn is_remapper(device: u32) -> bool {
    matches!(device >> 20, 9 | 253 | 254)
}

/// btt's seconds: the whole ones and the rest are added as floating point numbers.
pub fn seconds(nanoseconds: u64) -> f64 {
    (nanoseconds / 1_000_000_000) as f64 + (nanoseconds % 1_000_000_000) as f64 / 1.0e9
}
