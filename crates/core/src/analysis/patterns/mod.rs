//! How a load behaves beyond its sums: what the diagnosis reads and no screen shows.
//!
//! | where | what |
//! |---|---|
//! | [`waiting`] | waits by process, class, device and system call; by kernel functions |
//! | [`timeline`] | a device's rate and latency over the watch, in bins |
//! | [`owners`] | who moved its bytes over the watch |
//! | [`touch`] | whether places that are read for the first time are slower than others |
//! | [`layers`] | how much of an upper device's time its own lower requests take |
//! | [`syncs`] | how long threads waited to make data durable, in bins |
//! | [`access`] | what the addresses of a device's requests tell: read again, split, scattered |
//!
//! What does not belong here: saying that any of it is bad (see [`crate::diagnosis`]).

pub mod access;
pub mod layers;
pub mod owners;
pub mod syncs;
pub mod timeline;
pub mod touch;
pub mod waiting;

use super::life::{Life, Stand};
use super::stacks::Stacks;
use super::usage::{CodePathRow, Row};
use crate::model::{Names, Request, RequestPart, Wait};

pub use access::{Access, FilePattern};
pub use layers::Layer;
pub use owners::OwnerTimeline;
pub use syncs::{SyncBin, SyncTimeline};
pub use timeline::{Bin, Slow, Timeline};
pub use touch::Touch;
pub use waiting::{WaitGroup, WaitStack};

/// How the load of one watch behaves.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Patterns {
    /// One for each device that had requests.
    pub devices: Vec<DevicePatterns>,
    /// Waits of programs' threads, longest first.
    pub waits: Vec<WaitGroup>,
    /// The same waits by kernel stack, longest first; at most [`waiting::STACKS`].
    pub wait_stacks: Vec<WaitStack>,
    /// Waits of the kernel's own threads, longest first: in no sum of what programs were blocked.
    pub kernel_waits: Vec<WaitGroup>,
    /// The same by kernel stack, longest first.
    pub kernel_wait_stacks: Vec<WaitStack>,
}

/// How one device is used.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DevicePatterns {
    /// The kernel's name.
    pub device: String,
    /// Over time.
    pub timeline: Timeline,
    /// The reads and the writes that took longest at the device.
    pub slowest: Vec<Slow>,
    /// How long threads waited to make data durable on it.
    pub syncs: SyncTimeline,
    /// Who moved its bytes, in the bins of `timeline`; most bytes first.
    pub owners: Vec<OwnerTimeline>,
    /// By address.
    pub access: Access,
    /// By whether a place was read or written before.
    pub touch: Touch,
    /// Of those of its requests whose own lower requests are known.
    pub layer: Layer,
    /// Which functions asked for its requests: shares are of what the stacks of its requests stand for.
    pub code_paths: Vec<Row<CodePathRow>>,
}

/// Adds up rows as they come.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    devices: Vec<DeviceTally>,
    layers: layers::Tally,
    waits: waiting::Tally,
    syncs: syncs::Tally,
}

#[derive(Clone, Debug, Default)]
struct DeviceTally {
    timeline: timeline::Tally,
    access: access::Tally,
    touch: touch::Tally,
}

impl Tally {
    pub fn wait(&mut self, wait: &Wait, stacks: &Stacks, start_ns: u64) {
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

    /// The result; `device` gives the name and the code paths of each slot.
    pub fn finish(
        &self,
        names: &Names,
        stacks: &Stacks,
        end_ns: u64,
        device: impl Fn(usize) -> (String, Vec<Row<CodePathRow>>),
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
