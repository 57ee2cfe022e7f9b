//! A completed or censored request: its stages, its submitter, and the files of its bytes.

use super::Decoder;
use super::files::key;
use super::operation::Meaning;
use super::origin::{Circumstances, no_file_reason, origin};
use crate::wire::{self, wire_part, wire_request};
use iowhy_core::model::{Names, Operation, Origin, Request, RequestPart, Status};
use iowhy_core::source::Batch;
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use zerocopy::{FromBytes, FromZeros};

const OFFSET_UNKNOWN: u64 = u64::MAX;

/// Numbers of requests in the recording, in the order in which records arrive. A request that is
/// referred to before it arrives gets its number then.
#[derive(Debug, Default)]
pub struct Ids {
    last: u64,
    promised: FxHashMap<u64, u64>,
}

impl Ids {
    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    fn of_record(&mut self, kernel_id: u64) -> u64 {
        if self.promised.is_empty() {
            return self.next();
        }
        self.promised.remove(&kernel_id).unwrap_or_else(|| self.next())
    }

    fn of_parent(&mut self, kernel_id: u64) -> u64 {
        if let Some(id) = self.promised.get(&kernel_id) {
            return *id;
        }
        let id = self.next();
        self.promised.insert(kernel_id, id);
        id
    }
}

/// The time from `from` to `to`; `None` if either did not happen.
fn between(from: u64, to: u64) -> Option<u64> {
    if from == 0 || to == 0 { None } else { Some(to.saturating_sub(from)) }
}

impl Decoder {
    /// Adds a `wire_request` with its parts.
    pub(super) fn request(
        &mut self,
        bytes: &[u8],
        batch: &mut Batch,
        names: &mut Names,
    ) -> Option<()> {
        let (request, rest) = wire_request::ref_from_prefix(bytes).ok()?;
        let request_id = self.ids.of_record(request.id);
        let Some(alike) = self.alike.get(request) else {
            self.look_up(request, rest, request_id, batch, names)?;
            return self.note_request(request, batch, names);
        };
        batch.requests.push(alike.request.clone());
        batch.parts.push(alike.part.clone());
        let (row, part) = (batch.requests.last_mut()?, batch.parts.last_mut()?);
        self.set_individual(request, request_id, row);
        locate(request, row, part);
        self.note_request(request, batch, names)
    }

    /// Adds a request that is not like a cached one, with its parts: what it refers to is looked
    /// up.
    fn look_up(
        &mut self,
        request: &wire_request,
        rest: &[u8],
        request_id: u64,
        batch: &mut Batch,
        names: &mut Names,
    ) -> Option<()> {
        let meaning = self.operations.meaning(request.operation, names);
        let around = self.circumstances(request);
        let origin = self.journal_thread(request, origin(request, meaning, &around), names);
        let mut row = self.row(request, meaning, origin, names);
        self.set_individual(request, request_id, &mut row);
        let first = batch.parts.len();
        if request.bytes > 0 {
            self.part(request, &request.part, &row, batch, names);
            for chunk in rest.chunks_exact(size_of::<wire_part>()).take(request.parts as usize) {
                let (part, _) = wire_part::ref_from_prefix(chunk).ok()?;
                self.part(request, part, &row, batch, names);
            }
            cut_to(&mut batch.parts[first..], row.bytes);
        }
        if !self.owners.is_empty() {
            self.owners.remove(&request.id);
        }
        if let [part] = &batch.parts[first..] {
            self.alike.remember(request, &row, part);
        }
        batch.requests.push(row);
        Some(())
    }

    /// File-system blocks that a journal's own thread writes are the journal, too: its superblock
    /// is marked as metadata and completes like any buffer.
    fn journal_thread(&self, request: &wire_request, origin: Origin, names: &Names) -> Origin {
        let is_journal = origin == Origin::Metadata
            && request.operation & 1 != 0
            && request.flags & wire::REQUEST_KERNEL_THREAD != 0
            && self
                .tasks
                .thread(request.tid)
                .is_some_and(|task| names.get(task.process).starts_with("jbd2/"));
        if is_journal { Origin::Journal } else { origin }
    }

    fn circumstances(&mut self, request: &wire_request) -> Circumstances {
        // The request is of the whole disk, its page of the partition, whose number is in its
        // inode.
        let page_of = request.part.inode.number as u32;
        let mounted = request.part.found == wire::FOUND_BDEV_PAGE
            && [request.device, page_of].into_iter().any(|device| self.is_mounted(device));
        let swap_device = self.swaps.iter().any(|swap| swap.holds(request));
        Circumstances { swap_device, mounted }
    }

    fn is_mounted(&mut self, device: u32) -> bool {
        let (major, minor) = (device >> 20, device & 0xf_ffff);
        // Before 5.11 such an inode has no number: 0.
        major != 0 && self.mounts.is_mounted(major, minor, self.devices.get(device))
    }

    fn row(
        &mut self,
        request: &wire_request,
        meaning: Meaning,
        origin: Origin,
        names: &mut Names,
    ) -> Request {
        let error = match request.flags & wire::REQUEST_BIO_BASED != 0 && request.status != 0 {
            // A bio carries its own status; for requests it is what the kernel's tracepoint
            // reports.
            true => Some(errno_of_blk_status(request.status)),
            false => self.errno(request.status),
        };
        let submitted =
            request.flags & (wire::REQUEST_KERNEL_MADE | wire::REQUEST_BEGUN_BEFORE) == 0;
        let task = if submitted { self.tasks.thread(request.tid) } else { None };
        let cgroup = self.cgroups.get(request.cgroup);
        let sampled =
            if request.stack == 0 { Default::default() } else { self.stacks.take(request.stack) };
        Request {
            parent_id: (request.parent != 0).then(|| self.ids.of_parent(request.parent)),
            parent_reason: self.no_parent(request).map(|reason| names.intern(reason)),
            status: self.status(request, error),
            major: request.device >> 20,
            minor: request.device & 0xf_ffff,
            operation: operation(request, meaning),
            origin,
            error,
            pid: submitted.then_some(request.tgid),
            tid: submitted.then_some(request.tid),
            process: task.map(|task| task.process),
            cgroup: cgroup.map(|cgroup| cgroup.path),
            container: cgroup.and_then(|cgroup| cgroup.container),
            syscall: u32::try_from(request.system_call).ok(),
            stack_id: sampled.kernel,
            user_stack_id: sampled.user,
            stack_weight: request.weight,
            ..Request::blank(self.device_name(request.device, names), meaning.rwbs)
        }
    }

    /// Sets the columns that differ between requests of one kind ([`super::alike`]): number, position and
    /// times.
    ///
    /// Every column is listed: a new one must be set here, or belong to those that a kind determines.
    fn set_individual(&self, request: &wire_request, id: u64, row: &mut Request) {
        #[rustfmt::skip]
        let Request {
            request_id, start_ns, q2g_ns, g2i_ns, i2d_ns, g2d_ns, d2c_ns, q2c_ns,
            requeues, merges, sector, bytes, cpu,
            // The same for all requests of a kind.
            parent_id: _, parent_reason: _, status: _, device: _, major: _, minor: _, operation: _,
            rwbs: _, origin: _, error: _, pid: _, tid: _, process: _, cgroup: _, container: _,
            syscall: _, stack_id: _, user_stack_id: _, stack_weight: _,
        } = row;
        let times = [request.queue_ns, request.issue_ns, request.complete_ns];
        *request_id = id;
        // Without any time it has been waiting at least since the watch began.
        *start_ns = times.into_iter().find(|time| *time != 0).unwrap_or(self.start_ns);
        *q2g_ns = between(request.queue_ns, request.get_ns);
        *g2i_ns = between(request.get_ns, request.insert_ns);
        *i2d_ns = between(request.insert_ns, request.issue_ns);
        let inserted = request.insert_ns != 0;
        *g2d_ns = if inserted { None } else { between(request.get_ns, request.issue_ns) };
        *d2c_ns = between(request.issue_ns, request.complete_ns);
        *q2c_ns = between(request.queue_ns, request.complete_ns);
        *requeues = u32::from(request.requeues);
        *merges = u32::from(request.bios.saturating_sub(1));
        *sector = request.sector;
        *bytes = u64::from(request.bytes);
        *cpu = request.cpu;
    }

    fn status(&self, request: &wire_request, error: Option<i32>) -> Status {
        if request.complete_ns == 0 {
            Status::InFlight
        } else if error.is_some() {
            Status::Error
        } else if had_begun(request, self.start_ns) {
            Status::BegunBefore
        } else {
            Status::Complete
        }
    }

    fn no_submitter(&self, request: &wire_request) -> &'static str {
        match request.flags & wire::REQUEST_BEGUN_BEFORE != 0 {
            true => self.unqueued(request),
            false => "made by the kernel itself",
        }
    }

    /// Why its submitter and purpose are not known.
    fn unqueued(&self, request: &wire_request) -> &'static str {
        match self.began_since(request) {
            true => "its queueing was not seen",
            false => "queued before the watch began",
        }
    }

    /// Whether it began during the watch, although its queueing was not seen.
    fn began_since(&self, request: &wire_request) -> bool {
        request.queue_ns >= self.start_ns
    }

    /// Why a request of a lower disk is not tied to a request of an upper device.
    fn no_parent(&self, request: &wire_request) -> Option<&str> {
        let reason = self.uppers.get(&request.device)?;
        (request.parent == 0).then_some(reason)
    }

    /// The negative errno of a status, as the kernel's tracepoint reports it.
    pub(super) fn errno(&self, status: i32) -> Option<i32> {
        match status {
            0 => None,
            status if self.errors_are_blk_status => Some(errno_of_blk_status(status)),
            error => Some(-error.abs()),
        }
    }

    fn part(
        &mut self,
        request: &wire_request,
        part: &wire_part,
        row: &Request,
        batch: &mut Batch,
        names: &mut Names,
    ) {
        let mut filled = RequestPart {
            file_offset: known_offset(part),
            owner_pid: row.pid,
            owner: row.process,
            owner_cgroup: row.cgroup,
            owner_share: row.pid.map(|_| 1.0),
            ..RequestPart::blank(row.request_id, u64::from(part.bytes))
        };
        self.name_file(request, part, row, &mut filled, names);
        if row.origin == Origin::Writeback {
            self.push_owned(request, part, filled, batch, names);
        } else {
            if row.pid.is_none() {
                filled.owner_reason = Some(names.intern(self.no_submitter(request)));
            }
            batch.parts.push(filled);
        }
    }

    fn name_file(
        &mut self,
        request: &wire_request,
        part: &wire_part,
        row: &Request,
        filled: &mut RequestPart,
        names: &mut Names,
    ) {
        let raw =
            matches!(part.found, wire::FOUND_RAW | wire::FOUND_RAW_ANON | wire::FOUND_BDEV_PAGE);
        let unqueued = self.unqueued(request);
        if let Some(reason) = no_file_reason(part.found, row.origin, unqueued) {
            filled.file_reason = Some(names.intern(reason));
            filled.file_offset = None;
        } else if raw {
            let path = format!("/dev/{}", self.devices.get(request.device));
            filled.file = Some(names.intern(&path));
            filled.file_offset = Some(request.sector << 9);
        } else {
            filled.inode = Some(part.inode.number);
            filled.inode_device = Some(u64::from(part.inode.device));
            match self.files.get(&part.inode) {
                Some(file) => {
                    filled.file = file.path;
                    filled.deleted = file.deleted;
                    if file.path.is_none() {
                        filled.file_reason = Some(names.intern("unlinked or not cached"));
                    }
                }
                None => filled.file_reason = Some(names.intern("its name was lost")),
            }
        }
    }

    /// Adds one row per known dirtier, and one for the bytes whose dirtier is not known.
    fn push_owned(
        &mut self,
        request: &wire_request,
        part: &wire_part,
        filled: RequestPart,
        batch: &mut Batch,
        names: &mut Names,
    ) {
        let is_of_part = |one: &&wire::wire_owners| {
            key(&one.inode) == key(&part.inode) && one.offset == part.offset
        };
        let owners = self
            .owners
            .get(&request.id)
            .and_then(|all| all.iter().find(is_of_part).copied())
            .unwrap_or_else(wire::wire_owners::new_zeroed);
        let mut split = Split::of(&owners, filled.bytes);
        let mut push = |bytes: u64, owned: RequestPart| {
            let owner_share = Some(bytes as f64 / filled.bytes.max(1) as f64);
            batch.parts.extend((bytes > 0).then_some(RequestPart { bytes, owner_share, ..owned }));
        };
        for (tgid, dirtied) in split.known(&owners) {
            let task = self.tasks.process(tgid);
            let owned = RequestPart {
                owner_pid: Some(tgid),
                owner: task.map(|task| task.process),
                owner_cgroup: task.and_then(|task| task.cgroup),
                ..filled.clone()
            };
            push(split.next(dirtied), owned);
        }
        let of_others = split.next(owners.other_bytes);
        let task = self.tasks.process(owners.other_tgid).filter(|_| owners.other_tgid != 0);
        let reason = if task.is_some() { SAME_NAME } else { TOO_MANY };
        let owned = RequestPart {
            owner_pid: None,
            owner: task.map(|task| task.process),
            owner_cgroup: None,
            owner_reason: Some(names.intern(reason)),
            ..filled.clone()
        };
        push(of_others, owned);
        if split.rest > 0 {
            let reason = self.no_dirtier(part);
            let owned = RequestPart {
                owner_pid: None,
                owner: None,
                owner_cgroup: None,
                owner_reason: Some(names.intern(&reason)),
                ..filled.clone()
            };
            push(split.rest, owned);
        }
    }

    /// Why bytes dirtied in the page cache have no dirtier. The processes that had the file open
    /// for writing are only a hint.
    fn no_dirtier(&mut self, part: &wire_part) -> Cow<'static, str> {
        if part.found == wire::FOUND_BELOW {
            return "its files are those of the request below it".into();
        }
        let reason = self.dirtiers.reason();
        match self.writers.of(&part.inode) {
            Some(writers) => format!("{reason}; open for writing by {writers}").into(),
            None => reason.into(),
        }
    }
}

/// Why a part has no process, or none of its own.
const TOO_MANY: &str = "dirtied by more processes than iowhy distinguishes";
const SAME_NAME: &str = "one of more processes of that name than iowhy distinguishes";

/// Distributes the bytes of a part to the processes that dirtied them.
struct Split {
    /// Bytes of the part that known dirtiers dirtied, and the total that they dirtied.
    theirs: u64,
    dirtied: u64,
    /// How much of `dirtied` and `theirs` was handed out.
    before: u64,
    given: u64,
    /// Bytes without a dirtier.
    rest: u64,
}

impl Split {
    fn of(owners: &wire::wire_owners, bytes: u64) -> Split {
        let theirs = owners.theirs.min(bytes);
        let known = owners.owners.iter().map(|one| bytes_of(*one));
        let dirtied = known.fold(owners.other_bytes, u64::saturating_add);
        let dirtied = dirtied.max(theirs).max(1);
        Split { theirs, dirtied, before: 0, given: 0, rest: bytes }
    }

    /// The known dirtiers, with the bytes they dirtied.
    fn known(&self, owners: &wire::wire_owners) -> Vec<(u32, u64)> {
        let known = owners.owners.iter().filter(|one| bytes_of(**one) > 0);
        known.map(|one| ((one >> wire::WIRE_OWNER_BITS) as u32, bytes_of(*one))).collect()
    }

    /// The share of a process that dirtied `dirtied` bytes.
    fn next(&mut self, dirtied: u64) -> u64 {
        self.before = self.before.saturating_add(dirtied).min(self.dirtied);
        let scaled = u128::from(self.theirs) * u128::from(self.before);
        let until = (scaled / u128::from(self.dirtied)) as u64;
        let bytes = until - self.given;
        self.given = until;
        self.rest -= bytes;
        bytes
    }
}

fn bytes_of(owner: u64) -> u64 {
    owner & ((1 << wire::WIRE_OWNER_BITS) - 1)
}

/// Whether it had begun when the watch did, at `start_ns`. A request that is not queued (a flush
/// that the kernel made itself, a driver command) begins with its issue, and had begun before if
/// that was not seen.
fn had_begun(request: &wire_request, start_ns: u64) -> bool {
    let is_made = request.flags & wire::REQUEST_KERNEL_MADE != 0;
    let is_command = request.part.found == wire::FOUND_PASSTHROUGH;
    match request.flags & wire::REQUEST_BEGUN_BEFORE != 0 {
        true => request.queue_ns < start_ns,
        false => (is_made || is_command) && request.queue_ns.max(request.issue_ns) < start_ns,
    }
}

/// The offset of a part in its file.
fn known_offset(part: &wire_part) -> Option<u64> {
    (part.offset != OFFSET_UNKNOWN).then_some(part.offset)
}

/// Sets what differs in the only part of a cached request: number, offset and length.
fn locate(request: &wire_request, row: &Request, part: &mut RequestPart) {
    #[rustfmt::skip]
    let RequestPart {
        request_id, file_offset, bytes,
        // The same for all requests of a kind.
        file: _, file_reason: _, deleted: _, inode: _, inode_device: _, owner_pid: _, owner: _,
        owner_cgroup: _, owner_share: _, owner_reason: _,
    } = part;
    let raw = request.part.found == wire::FOUND_RAW;
    *request_id = row.request_id;
    *file_offset = if raw { Some(row.sector << 9) } else { known_offset(&request.part) };
    *bytes = row.bytes;
}

/// Rounding and truncation can make the parts' sum differ from the request's bytes: the last part
/// is adjusted.
fn cut_to(parts: &mut [RequestPart], bytes: u64) {
    let mut rest = bytes;
    for part in parts.iter_mut() {
        part.bytes = part.bytes.min(rest);
        rest -= part.bytes;
    }
    if let Some(last) = parts.last_mut() {
        last.bytes += rest;
    }
}

/// An empty write is a file system's flush.
fn operation(request: &wire_request, meaning: Meaning) -> Operation {
    if meaning.operation == Operation::Write && request.bytes == 0 {
        Operation::Flush
    } else {
        meaning.operation
    }
}

/// The kernel's table of block status codes (`blk_errors` in block/blk-core.c). Codes that are not
/// in it mean an I/O error, and so do those from 14 on: they are for zones, removed devices and
/// limits, and were renumbered when one of them was removed.
fn errno_of_blk_status(status: i32) -> i32 {
    const EREMCHG: i32 = 78;
    const EAGAIN: i32 = 11;
    const EBUSY: i32 = 16;
    const EOPNOTSUPP: i32 = 95;
    const ETIMEDOUT: i32 = 110;
    const ENOSPC: i32 = 28;
    const ENOLINK: i32 = 67;
    const EREMOTEIO: i32 = 121;
    const EBADE: i32 = 52;
    const ENODATA: i32 = 61;
    const EILSEQ: i32 = 84;
    const ENOMEM: i32 = 12;
    const EIO: i32 = 5;
    const BY_STATUS: &[i32] = &[
        0, EOPNOTSUPP, ETIMEDOUT, ENOSPC, ENOLINK, EREMOTEIO, EBADE, ENODATA, EILSEQ, ENOMEM, EIO,
        EREMCHG, EAGAIN, EBUSY,
    ];
    let place = usize::try_from(status & 0xff).unwrap_or(usize::MAX);
    -BY_STATUS.get(place).copied().unwrap_or(EIO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_the_kernel_s_errors() {
        let by_status = [
            (1, 95),
            (2, 110),
            (3, 28),
            (4, 67),
            (5, 121),
            (6, 52),
            (7, 61),
            (8, 84),
            (9, 12),
            (10, 5),
            (11, 78),
            (12, 11),
            (13, 16),
            (14, 5),
            (17, 5),
            (255, 5),
            (-1, 5),
        ];
        for (status, errno) in by_status {
            assert_eq!(errno_of_blk_status(status), -errno, "{status}");
        }
    }

    #[test]
    fn bytes_go_to_who_dirtied_them_and_the_rest_to_nobody() {
        let mut owners = wire::wire_owners::new_zeroed();
        owners.owners[0] = 7 << wire::WIRE_OWNER_BITS | 4096;
        owners.owners[3] = 9 << wire::WIRE_OWNER_BITS | 8192;
        (owners.other_bytes, owners.theirs) = (4096, 6000);
        let mut split = Split::of(&owners, 10_000);
        let known = split.known(&owners);
        assert_eq!(known, [(7, 4096), (9, 8192)]);
        let bytes: Vec<u64> = known.iter().map(|(_, dirtied)| split.next(*dirtied)).collect();
        // Pages of others do not account for what was dirty before.
        assert_eq!(
            (bytes, split.next(owners.other_bytes), split.rest),
            (vec![1500, 3000], 1500, 4000)
        );
        // No dirtier is known.
        let mut split = Split::of(&wire::wire_owners::new_zeroed(), 4096);
        assert_eq!((split.next(0), split.rest), (0, 4096));
        // An odd number of bytes leaves no remainder.
        (owners.other_bytes, owners.theirs) = (0, 4097);
        let mut split = Split::of(&owners, 4097);
        assert_eq!((split.next(4096), split.next(8192), split.rest), (1365, 2732, 0));
    }

    #[test]
    fn what_nobody_queues_begins_with_its_issue() {
        let had_begun = |flags: u32, found: u32, queue_ns: u64, issue_ns: u64| {
            let mut request = wire_request::new_zeroed();
            (request.flags, request.part.found) = (flags, found);
            (request.queue_ns, request.issue_ns) = (queue_ns, issue_ns);
            had_begun(&request, 1_000)
        };
        for (flags, found) in [(wire::REQUEST_KERNEL_MADE, 0), (0, wire::FOUND_PASSTHROUGH)] {
            // Seen only at completion; found in flight when the watch began; issued during the
            // watch.
            assert!(had_begun(flags, found, 0, 0));
            assert!(had_begun(flags, found, 0, 900));
            assert!(!had_begun(flags, found, 0, 1_100));
        }
        // A queued request begins with its queueing, or with the kernel's own time stamp.
        assert!(!had_begun(0, 0, 1_100, 0));
        assert!(had_begun(wire::REQUEST_BEGUN_BEFORE, 0, 900, 1_100));
        assert!(had_begun(wire::REQUEST_BEGUN_BEFORE, 0, 0, 1_100));
        assert!(!had_begun(wire::REQUEST_BEGUN_BEFORE, 0, 1_050, 1_100));
    }
}
