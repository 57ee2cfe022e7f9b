//! The place of a request in a stack of devices: its device, and whether it counts there alone.
//!
//! What does not belong here: which devices are below which ([`iowhy_model::environment`]).

use iowhy_model::{Names, Operation, Origin, Request};

/// Maximum number of devices; further ones share an entry, whose name says so.
pub const MAX_DEVICES: usize = 256;

/// The layers of a device's requests.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum RequestLayer {
    /// Requests submitted by anything but the block layer.
    Top,
    /// Requests of an upper device, whose owners are charged there.
    Lower,
    /// Requests that the kernel issues on behalf of other requests of the same device, which
    /// contain their time: flushes.
    Helper,
}

/// A device and a layer of its requests.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct DeviceLayer(u16);

impl DeviceLayer {
    /// Number of slots of each device.
    pub const LAYERS: usize = 4;

    pub fn new(device: u16, layer: RequestLayer) -> DeviceLayer {
        DeviceLayer(device * Self::LAYERS as u16 + layer as u16)
    }

    /// The device's index.
    pub fn device(self) -> usize {
        usize::from(self.0) / Self::LAYERS
    }

    /// The slot of [`DeviceLayer::index`].
    pub fn at(index: usize) -> DeviceLayer {
        DeviceLayer(index as u16)
    }

    /// All slots, from 0.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// Whether its requests serve those of an upper device.
    pub fn is_lower(self) -> bool {
        usize::from(self.0) % Self::LAYERS == RequestLayer::Lower as usize
    }
}

impl RequestLayer {
    /// The layer of a request.
    pub fn for_request(request: &Request, names: &Names) -> RequestLayer {
        // The kernel's own flush command has the operation and the flag: "FF".
        let is_made = || request.pid.is_none() || names.get(request.rwbs).starts_with("FF");
        if request.parent_id.is_some() || request.origin == Origin::Stacked {
            RequestLayer::Lower
        } else if request.operation == Operation::Flush && is_made() {
            RequestLayer::Helper
        } else {
            RequestLayer::Top
        }
    }
}
