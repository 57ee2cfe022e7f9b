//! The parts of a request: the files of its bytes.
//!
//! What does not belong here: who dirtied the bytes of writeback (see
//! [`crate::probes::writeback`]).

use super::origin::no_file_reason;
use crate::decode::DecodeContext;
use crate::probes::writeback::decode::OwnerDecoder;
use crate::wire::{self, wire_part, wire_request};
use iowhy_model::{Origin, Request, RequestPart};

const OFFSET_UNKNOWN: u64 = u64::MAX;

/// Adds the parts of a request.
pub struct PartBuilder<'a> {
    /// The request's record.
    pub request: &'a wire_request,
    /// The request's row.
    pub row: &'a Request,
    /// Time at which the watch began, CLOCK_MONOTONIC nanoseconds.
    pub start_ns: u64,
}

impl PartBuilder<'_> {
    /// Adds the rows of a part: one for each owner of its bytes.
    pub fn push(&self, part: &wire_part, owners: &mut OwnerDecoder, cx: &mut DecodeContext<'_>) {
        let row = self.row;
        let mut filled = RequestPart {
            file_offset: known_offset(part),
            owner_pid: row.pid,
            owner: row.process,
            owner_cgroup: row.cgroup,
            owner_pod: row.pod,
            owner_namespace: row.namespace,
            owner_share: row.pid.map(|_| 1.0),
            ..RequestPart::blank(row.request_id, u64::from(part.bytes))
        };
        self.name_file(part, &mut filled, cx);
        if row.origin == Origin::Writeback {
            owners.split(self.request.id, part, filled, cx);
        } else {
            if row.pid.is_none() {
                filled.owner_reason = Some(cx.name(self.no_submitter()));
            }
            cx.out.batch.parts.push(filled);
        }
    }

    fn name_file(&self, part: &wire_part, filled: &mut RequestPart, cx: &mut DecodeContext<'_>) {
        let raw =
            matches!(part.found, wire::FOUND_RAW | wire::FOUND_RAW_ANON | wire::FOUND_BDEV_PAGE);
        if let Some(reason) = no_file_reason(part.found, self.row.origin, self.unqueued()) {
            filled.file_reason = Some(cx.name(reason));
            filled.file_offset = None;
        } else if raw {
            let path = format!("/dev/{}", cx.known.devices.get(self.request.device));
            filled.file = Some(cx.name(&path));
            filled.file_offset = Some(self.request.sector << 9);
        } else {
            filled.inode = Some(part.inode.number);
            filled.inode_device = Some(u64::from(part.inode.device));
            match cx.known.files.get(&part.inode) {
                Some(file) => {
                    filled.file = file.path;
                    filled.volume = file.volume;
                    filled.deleted = file.deleted;
                    if file.path.is_none() {
                        filled.file_reason = Some(cx.name("unlinked or not cached"));
                    }
                }
                None => filled.file_reason = Some(cx.name("its name was lost")),
            }
        }
    }

    fn no_submitter(&self) -> &'static str {
        match self.request.flags & wire::REQUEST_BEGUN_BEFORE != 0 {
            true => self.unqueued(),
            false => "made by the kernel itself",
        }
    }

    /// Returns the reason why the submitter and purpose are not known. A request's queueing may be
    /// unseen although it began during the watch.
    fn unqueued(&self) -> &'static str {
        match self.request.queue_ns >= self.start_ns {
            true => "its queueing was not seen",
            false => "queued before the watch began",
        }
    }
}

/// The offset of a part in its file.
fn known_offset(part: &wire_part) -> Option<u64> {
    (part.offset != OFFSET_UNKNOWN).then_some(part.offset)
}

/// Sets the columns that differ in the only part of a cached request: number, offset and length.
pub fn locate(request: &wire_request, row: &Request, part: &mut RequestPart) {
    #[rustfmt::skip]
    let RequestPart {
        request_id, file_offset, bytes,
        // Columns that are the same for all requests of a kind.
        file: _, file_reason: _, volume: _, deleted: _, inode: _, inode_device: _, owner_pid: _,
        owner: _, owner_cgroup: _, owner_pod: _, owner_namespace: _, owner_share: _,
        owner_reason: _,
    } = part;
    let raw = request.part.found == wire::FOUND_RAW;
    *request_id = row.request_id;
    *file_offset = if raw { Some(row.sector << 9) } else { known_offset(&request.part) };
    *bytes = row.bytes;
}

/// Rounding and truncation can make the parts' sum differ from the request's bytes: the last part
/// is adjusted.
pub fn cut_to(parts: &mut [RequestPart], bytes: u64) {
    let mut rest = bytes;
    for part in parts.iter_mut() {
        part.bytes = part.bytes.min(rest);
        rest -= part.bytes;
    }
    if let Some(last) = parts.last_mut() {
        last.bytes += rest;
    }
}
