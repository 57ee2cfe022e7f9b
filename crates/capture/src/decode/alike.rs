//! What was found out about the last requests: a busy thread asks for many of one kind, and what they
//! refer to (process, cgroup, file, device) need not be looked up for each.
//!
//! What does not belong here: what differs from one request to the next (see [`super::request`]).

use super::files::{Key, key};
use crate::wire::{self, wire_request};
use iowhy_core::model::{Request, RequestPart};

/// Kinds of requests that are remembered; each by its thread, file and operation, so that a newer one
/// takes its place.
const MOST: usize = 64;

/// All that the rows of a request depend on, but for its number, place, length and times.
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
    /// `None` where the rows depend on more: only reads and writes that ended well, of a single file
    /// that is named without asking for its dirtiers or its device's mounts, are remembered.
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

/// The rows of a request. What differs from one to the next is to be replaced.
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
    /// The rows of one like `request`, if there are any.
    pub fn get(&self, request: &wire_request) -> Option<&Alike> {
        let kind = Kind::of(request)?;
        self.places.get(kind.place())?.as_ref().filter(|alike| alike.kind == kind)
    }

    /// Remembers the rows of `request`.
    pub fn remember(&mut self, request: &wire_request, row: &Request, part: &RequestPart) {
        let Some(kind) = Kind::of(request) else { return };
        self.places.resize_with(MOST, || None);
        if let Some(place) = self.places.get_mut(kind.place()) {
            *place = Some(Alike { kind, request: row.clone(), part: part.clone() });
        }
    }

    /// Forgets all: what they refer to may be known otherwise now.
    pub fn forget(&mut self) {
        self.places.clear();
    }
}
