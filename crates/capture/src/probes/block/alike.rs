//! A cache of the rows of the last requests: a busy thread submits many of one kind, and what they
//! refer to (process, cgroup, file, device) need not be looked up for each.
//!
//! What does not belong here: what differs from one request to the next (see [`super::decode`]).

use crate::decode::files::{Key, key};
use crate::wire::{self, wire_part, wire_request};
use iowhy_model::{Request, RequestPart};

/// Kinds of requests that are cached, indexed by thread, file and operation, so that a newer one
/// replaces an older one.
const MOST: usize = 64;

/// Everything that the rows of a request depend on, except its number, sector, length and times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct RequestKey {
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

impl RequestKey {
    /// `None` where the rows depend on more: only reads and writes that ended well, of a single
    /// file that is named without asking for its dirtiers or its device's mounts, are remembered.
    ///
    /// Every field of the record is listed: a new one must be part of the kind, or be read for each
    /// request by `set_individual` or `locate`.
    fn from_record(record: &wire_request) -> Option<RequestKey> {
        #[rustfmt::skip]
        let wire_request {
            device, operation, tgid, tid, system_call, flags, cgroup, part,
            // Rows that depend on these are not remembered.
            parts, parent, stack, status, bytes, complete_ns,
            // Read for each request.
            kind: _, id: _, queue_ns: _, get_ns: _, insert_ns: _, issue_ns: _, sector: _,
            stack_weight: _, weight: _, last_padding: _, cpu: _, requeues: _, bios: _,
        } = *record;
        let wire_part { found, inode, offset: _, bytes: _ } = part;
        let direct = found == wire::FOUND_DIRECT || found == wire::FOUND_RAW;
        let read = operation & 0xff == 0 && found == wire::FOUND_PAGE;
        let odd = parent != 0
            || parts != 0
            || stack != 0
            || status != 0
            || bytes == 0
            || complete_ns == 0
            || flags & wire::REQUEST_BEGUN_BEFORE != 0;
        let inode = key(&inode);
        let kind =
            RequestKey { device, operation, tgid, tid, system_call, flags, found, cgroup, inode };
        ((direct || read) && !odd).then_some(kind)
    }

    fn place(&self) -> usize {
        let inode = self.inode.0 >> 6;
        (self.tid ^ self.operation << 3 ^ inode as u32) as usize % MOST
    }
}

/// The rows of a request. The fields that differ from one request to the next must be replaced.
#[derive(Debug)]
pub struct SimilarRows {
    kind: RequestKey,
    /// The request.
    pub request: Request,
    /// The request's only part.
    pub part: RequestPart,
}

/// The rows of the last requests by their kind.
#[derive(Debug, Default)]
pub struct LastSeen {
    places: Vec<Option<SimilarRows>>,
}

impl LastSeen {
    /// Returns the cached rows for a request like `request`, if any.
    pub fn get(&self, request: &wire_request) -> Option<&SimilarRows> {
        let kind = RequestKey::from_record(request)?;
        self.places.get(kind.place())?.as_ref().filter(|alike| alike.kind == kind)
    }

    /// Caches the rows of `request`.
    pub fn remember(&mut self, request: &wire_request, row: &Request, part: &RequestPart) {
        let Some(kind) = RequestKey::from_record(request) else { return };
        self.places.resize_with(MOST, || None);
        if let Some(place) = self.places.get_mut(kind.place()) {
            *place = Some(SimilarRows { kind, request: row.clone(), part: part.clone() });
        }
    }

    /// Drops everything: the names that rows refer to may have changed.
    pub fn forget(&mut self) {
        self.places.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::{DecodeContext, KnownEntities};
    use crate::kernel::KernelFeatures;
    use crate::probes::Decoders;
    use crate::reader::FileAsker;
    use iowhy_model::source::Batch;
    use iowhy_model::{Environment, Names};
    use zerocopy::{FromZeros, IntoBytes};

    /// Records of which many are alike, and some differ in a single field.
    fn records(count: u64) -> Vec<wire_request> {
        let mut state = 7_u64;
        let mut below = |most: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % most
        };
        let mut rarely = |value: u64| if below(12) == 0 { value } else { 0 };
        let mut record = |index: u64| {
            let mut one = wire_request::new_zeroed();
            let queued = 1_000_000 + index * 5000;
            one.kind = wire::WIRE_REQUEST;
            one.id = index + 1;
            one.queue_ns = queued;
            one.get_ns = queued + 300;
            one.insert_ns = rarely(queued + 350);
            one.issue_ns = queued + 400 + rarely(77);
            one.complete_ns = if rarely(1) == 1 { 0 } else { queued + 90_000 + rarely(5000) };
            one.sector = index * 8 + rarely(64);
            one.bytes = 4096 + rarely(8192) as u32;
            one.operation = rarely(1) as u32;
            one.device = 7 << 20 | rarely(1) as u32;
            one.status = -(rarely(5) as i32);
            (one.tgid, one.tid) = (500, 500 + rarely(1) as u32);
            one.parent = rarely(index);
            one.cgroup = 11 + rarely(1);
            one.system_call = 17 + rarely(1) as i32;
            one.cpu = rarely(1) as u32;
            (one.requeues, one.bios) = (rarely(2) as u16, 1 + rarely(3) as u16);
            one.part.found = if rarely(1) == 1 { wire::FOUND_RAW } else { wire::FOUND_DIRECT };
            one.part.bytes = one.bytes;
            one.part.offset = index * 4096;
            one.part.inode.number = 30 + rarely(1);
            one.part.inode.device = 7 << 20;
            one
        };
        (0..count).map(&mut record).collect()
    }

    /// The rows of the records, and how many came from the cache. Without it every row is looked up
    /// anew.
    fn rows(records: &[wire_request], is_cached: bool) -> (Batch, usize) {
        let environment = Environment::default();
        let (facts, reader) = (KernelFeatures::default(), FileAsker::default());
        let mut known = KnownEntities::new(&facts, &environment, &reader, false);
        let mut decoders = Decoders::new(&facts, &environment);
        let (mut batch, mut names) = (Batch::default(), Names::new());
        let mut hits = 0;
        for record in records {
            if !is_cached {
                decoders.requests.alike.forget();
            }
            hits += usize::from(decoders.requests.alike.get(record).is_some());
            let mut cx = DecodeContext::new(&mut known, &mut batch, &mut names);
            decoders.record(record.as_bytes(), &mut cx);
        }
        (batch, hits)
    }

    #[test]
    fn cached_rows_equal_those_that_are_looked_up() {
        let records = records(4000);
        let ((cached, hits), (looked_up, none)) = (rows(&records, true), rows(&records, false));
        assert!(hits > 500 && none == 0, "{hits} rows came from the cache");
        assert_eq!(cached.requests.len(), records.len());
        assert_eq!(cached.requests, looked_up.requests);
        assert_eq!(cached.parts, looked_up.parts);
    }
}
