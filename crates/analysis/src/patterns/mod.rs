//! Patterns of a load beyond its sums: rows become data for the diagnosis that no
//! screen shows.
//!
//! | where | what |
//! |---|---|
//! | `waiting`, `calls` | waits by process, class, device and system call; by kernel functions |
//! | `timeline` | a device's rate and latency over the watch, in bins |
//! | `counted_bins` | those bins, with what the kernel counted of a thinned device |
//! | `owners` | the programs that moved its bytes over the watch |
//! | `service` | a device's time, in the order of completions |
//! | `touch` | whether first reads of a region are slower than others |
//! | `layers` | the share of an upper device's time that its lower requests take |
//! | `syncs` | waits to make data durable, in bins |
//! | `access` | addresses of a device's requests: read again, split, scattered |
//!
//! What does not belong here: the result ([`crate::summary::patterns`]), and judgement
//! (crate `iowhy-diagnosis`).

mod access;
mod calls;
mod counted_bins;
mod layers;
mod owners;
mod service;
mod syncs;
mod timeline;
mod touch;
mod waiting;

use crate::summary::patterns::{DevicePatterns, Patterns};
use crate::summary::{ByDirection, CodePathRow, UsedRow};
use crate::sums::counter_curve::CountedOverTime;
use crate::sums::request_times::{Life, Stand};
use crate::sums::stacks::StackTable;
use iowhy_model::{Names, Request, RequestPart, Wait};

/// The kernel's counts of a device over the watch, where rows are not enough.
pub(crate) type CountedDirections = ByDirection<Option<CountedOverTime>>;

/// A device as others know it.
pub(crate) struct NamedDevice {
    /// Its name.
    pub name: String,
    /// Its code paths.
    pub code_paths: Vec<UsedRow<CodePathRow>>,
    /// The kernel's counts of it.
    pub counted: CountedDirections,
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

    /// The result; `device` returns what else is known of each slot.
    pub fn finish(
        &self,
        names: &Names,
        stacks: &StackTable,
        end_ns: u64,
        device: impl Fn(usize) -> NamedDevice,
    ) -> Patterns {
        let devices = self.devices.iter().enumerate().map(|(slot, tally)| {
            let NamedDevice { name: device, code_paths, counted } = device(slot);
            let (timeline, ratios) = tally.timeline.finish(end_ns, &counted);
            DevicePatterns {
                syncs: self.syncs.of(&device, names),
                slowest: tally.timeline.slowest(),
                device,
                code_paths,
                owners: tally.timeline.owners(&ratios, names),
                served_ns: tally.timeline.served_ns(),
                timeline,
                access: tally.access.finish(names),
                touch: tally.touch.finish(),
                layer: self.layers.layer(slot),
            }
        });
        let (waits, wait_stacks) = self.waits.programs(names, stacks);
        let (kernel_waits, kernel_wait_stacks) = self.waits.kernel(names, stacks);
        let devices = devices.collect();
        Patterns {
            devices,
            waits,
            wait_stacks,
            kernel_waits,
            kernel_wait_stacks,
            awaited: Vec::new(),
        }
    }
}
