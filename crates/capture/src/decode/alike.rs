//! A cache of the rows of the last requests: a busy thread submits many of one kind, and what they
//! refer to (process, cgroup, file, device) need not be looked up for each.
//!
//! What does not belong here: what differs from one request to the next (see [`super::request`]).

use super::files::{Key, key};
use crate::wire::{self, wire_request};
use iowhy_core::model::{Request, RequestPart};

/// Kinds of requests that are cached, indexed by thread, file and operation, so that a newer one
/// replaces an older one.
const MOST: usize = 64;

/// Everything that the rows of a request depend on, except its number, sector, length and times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Kind {
    device: u32,
    operation: u32,
    tgid: u32,
    tid: u32,
    system_call: i32,
    flags: u32,
    found: u32,
    cgroup: u64,
    inode: Key,
}

impl Kind {
    /// `None` if the rows depend on more: only reads and writes without errors are cached, of a
    /// single file whose name does not depend on its dirtiers or its device's mounts.
    fn of(request: &wire_request) -> Option<Kind> {
        let found = request.part.found;
        let direct = found == wire::FOUND_DIRECT || found == wire::FOUND_RAW;
        let read = request.operation & 0xff == 0 && found == wire::FOUND_PAGE;
        let odd = request.parent != 0
            || request.parts != 0
            || request.stack != 0
            || request.status != 0
            || request.bytes == 0
            || request.complete_ns == 0
            || request.flags & wire::REQUEST_BEGUN_BEFORE != 0;
        ((direct || read) && !odd).then_some(Kind {
            device: request.device,
            operation: request.operation,
            tgid: request.tgid,
            tid: request.tid,
            system_call: request.system_call,
            flags: request.flags,
            found,
            cgroup: request.cgroup,
            inode: key(&request.part.inode),
        })
    }

    fn place(&self) -> usize {
        let inode = self.inode.0 >> 6;
        (self.tid ^ self.operation << 3 ^ inode as u32) as usize % MOST
    }
}

/// The rows of a request. The fields that differ from one request to the next must be replaced.
#[derive(Debug)]
pub struct Alike {
    kind: Kind,
    /// The request.
    pub request: Request,
    /// Its only part.
    pub part: RequestPart,
}

/// The rows of the last requests by their kind.
#[derive(Debug, Default)]
pub struct LastSeen {
    places: Vec<Option<Alike>>,
}

impl LastSeen {
    /// Returns the cached rows for a request like `request`, if any.
    pub fn get(&self, request: &wire_request) -> Option<&Alike> {
        let kind = Kind::of(request)?;
        self.places.get(kind.place())?.as_ref().filter(|alike| alike.kind == kind)
    }

    /// Caches the rows of `request`.
    pub fn remember(&mut self, request: &wire_request, row: &Request, part: &RequestPart) {
        let Some(kind) = Kind::of(request) else { return };
        self.places.resize_with(MOST, || None);
        if let Some(place) = self.places.get_mut(kind.place()) {
            *place = Some(Alike { kind, request: row.clone(), part: part.clone() });
        }
    }

    /// Drops everything: what the rows refer to may have changed.
    pub fn forget(&mut self) {
        self.places.clear();
    }
}
