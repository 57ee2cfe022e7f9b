//! Patterns of a load beyond its sums: data for the diagnosis that no screen shows.
//!
//! | where | what |
//! |---|---|
//! | [`waiting`], `calls` | waits by process, class, device and system call; by kernel functions |
//! | [`timeline`] | a device's rate and latency over the watch, in bins |
//! | [`owners`] | the programs that moved its bytes over the watch |
//! | [`touch`] | whether first reads of a region are slower than others |
//! | [`layers`] | the share of an upper device's time that its lower requests take |
//! | [`syncs`] | waits to make data durable, in bins |
//! | [`access`] | addresses of a device's requests: read again, split, scattered |
//!
//! What does not belong here: judgement (see [`crate::diagnosis`]).

pub mod access;
mod calls;
pub mod layers;
pub mod owners;
pub mod syncs;
pub mod timeline;
pub mod touch;
pub mod waiting;

use crate::analysis::summary::{CodePathRow, UsedRow};
use crate::analysis::sums::request_times::{Life, Stand};
use crate::analysis::sums::stacks::StackTable;
use crate::model::{Names, Request, RequestPart, Wait};

pub use access::{Access, FilePattern};
pub use layers::LayerTimes;
pub use owners::OwnerTimeline;
pub use syncs::{SyncBin, SyncTimeline};
pub use timeline::{Bin, Slow, Timeline};
pub use touch::Touch;
pub use waiting::{WaitGroup, WaitStack};

/// The patterns of one watch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Patterns {
    /// One for each device that had requests.
    pub devices: Vec<DevicePatterns>,
    /// Waits of programs' threads, longest first.
    pub waits: Vec<WaitGroup>,
    /// The same waits by kernel stack, longest first; at most [`waiting::STACKS`].
    pub wait_stacks: Vec<WaitStack>,
    /// Waits of the kernel's own threads, longest first: not part of the blocked time of programs.
    pub kernel_waits: Vec<WaitGroup>,
    /// The same by kernel stack, longest first.
    pub kernel_wait_stacks: Vec<WaitStack>,
}

/// The patterns of one device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DevicePatterns {
    /// The kernel's name.
    pub device: String,
    /// Over time.
    pub timeline: Timeline,
    /// The slowest reads and writes at the device.
    pub slowest: Vec<Slow>,
    /// Waits of threads to make data durable on it.
    pub syncs: SyncTimeline,
    /// The programs that moved its bytes, in the bins of `timeline`; most bytes first.
    pub owners: Vec<OwnerTimeline>,
    /// By address.
    pub access: Access,
    /// By whether a region was accessed before.
    pub touch: Touch,
    /// Of its requests with known lower requests.
    pub layer: LayerTimes,
    /// The functions that submitted its requests; shares are weighted by stacks.
    pub code_paths: Vec<UsedRow<CodePathRow>>,
}

/// Sums rows as they arrive.
#[derive(Clone, Debug, Default)]
pub(crate) struct PatternTally {
    devices: Vec<DeviceTally>,
    layers: layers::LayerTally,
    waits: waiting::WaitingTally,
    syncs: syncs::SyncTally,
}

#[derive(Clone, Debug, Default)]
struct DeviceTally {
    timeline: timeline::TimelineTally,
    access: access::AccessTally,
    touch: touch::TouchTally,
}

impl PatternTally {
    pub fn wait(&mut self, wait: &Wait, stacks: &StackTable, start_ns: u64) {
        self.waits.add(wait, stacks);
        self.syncs.add(wait, start_ns);
    }

    /// Adds a request of the device in `slot`.
    #[inline]
    pub fn request(
        &mut self,
        slot: u16,
        request: &Request,
        parts: &[RequestPart],
        life: &Life,
        start_ns: u64,
    ) {
        let slot = usize::from(slot);
        self.layers.add(slot, request, life);
        if self.devices.len() <= slot {
            self.devices.resize_with(slot + 1, DeviceTally::default);
        }
        let Some(device) = self.devices.get_mut(slot) else { return };
        device.access.add(request, parts, life);
        device.touch.add(request, life);
        if life.stand != Stand::Open {
            device.timeline.add(request, parts, life, start_ns);
        }
    }

    /// The result; `device` returns the name and the code paths of each slot.
    pub fn finish(
        &self,
        names: &Names,
        stacks: &StackTable,
        end_ns: u64,
        device: impl Fn(usize) -> (String, Vec<UsedRow<CodePathRow>>),
    ) -> Patterns {
        let devices = self.devices.iter().enumerate().map(|(slot, tally)| {
            let timeline = tally.timeline.finish(end_ns);
            let (device, code_paths) = device(slot);
            DevicePatterns {
                syncs: self.syncs.of(&device, names),
                slowest: tally.timeline.slowest(),
                device,
                code_paths,
                owners: tally.timeline.owners(timeline.bins.len(), names),
                timeline,
                access: tally.access.finish(names),
                touch: tally.touch.finish(),
                layer: self.layers.layer(slot),
            }
        });
        let (waits, wait_stacks) = self.waits.programs(names, stacks);
        let (kernel_waits, kernel_wait_stacks) = self.waits.kernel(names, stacks);
        let devices = devices.collect();
        Patterns { devices, waits, wait_stacks, kernel_waits, kernel_wait_stacks }
    }
}
