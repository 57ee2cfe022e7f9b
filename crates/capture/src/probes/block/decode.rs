//! A completed or censored request: its stages and its submitter.
//!
//! What does not belong here: the files of its bytes (see [`super::parts`]), and who dirtied them
//! (see [`crate::probes::writeback`]).

use super::alike::LastSeen;
use super::origin::{Circumstances, SwapDevice, origin};
use super::parts::{PartBuilder, cut_to, locate};
use crate::decode::DecodeContext;
use crate::decode::operation::Meaning;
use crate::decode::status::errno_of_blk_status;
use crate::host::devices::uppers;
use crate::kernel::KernelFeatures;
use crate::probes::writeback::decode::OwnerDecoder;
use crate::wire::{self, wire_part, wire_request};
use iowhy_model::environment::Device;
use iowhy_model::{Environment, Operation, Origin, Request, Status};
use rustc_hash::FxHashMap;
use zerocopy::FromBytes;

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

/// Decodes requests.
#[derive(Debug)]
pub struct RequestDecoder {
    /// Time at which the watch began, CLOCK_MONOTONIC nanoseconds.
    pub start_ns: u64,
    ids: Ids,
    /// Rows of earlier requests, for similar ones.
    pub(in crate::probes) alike: LastSeen,
    swaps: Vec<SwapDevice>,
    /// The reason why a disk's requests are not tied to a request of an upper device, by disk.
    uppers: FxHashMap<u32, String>,
}

/// The time from `from` to `to`; `None` if either did not happen.
fn between(from: u64, to: u64) -> Option<u64> {
    if from == 0 || to == 0 { None } else { Some(to.saturating_sub(from)) }
}

impl RequestDecoder {
    /// For the machine that `environment` describes.
    pub fn new(facts: &KernelFeatures, environment: &Environment) -> RequestDecoder {
        RequestDecoder {
            start_ns: 0,
            ids: Ids::default(),
            alike: LastSeen::default(),
            swaps: SwapDevice::all(),
            uppers: no_parents(&environment.devices, facts.loops_are_described),
        }
    }

    /// Drops the cached rows: the names that they refer to may have changed.
    pub fn forget_alike(&mut self) {
        self.alike.forget();
    }

    /// Adds a request; `rest` are its parts beyond the first. `owners` knows who dirtied them.
    pub fn add(
        &mut self,
        request: &wire_request,
        rest: &[u8],
        owners: &mut OwnerDecoder,
        cx: &mut DecodeContext<'_>,
    ) -> Option<()> {
        let request_id = self.ids.of_record(request.id);
        let Some(alike) = self.alike.get(request) else {
            return self.look_up(request, rest, request_id, owners, cx);
        };
        let batch = &mut *cx.out.batch;
        batch.requests.push(alike.request.clone());
        batch.parts.push(alike.part.clone());
        let (row, part) = (batch.requests.last_mut()?, batch.parts.last_mut()?);
        self.set_individual(request, request_id, row);
        locate(request, row, part);
        Some(())
    }

    /// Adds a request that is not like a cached one, with its parts: its names are looked up.
    fn look_up(
        &mut self,
        request: &wire_request,
        rest: &[u8],
        request_id: u64,
        owners: &mut OwnerDecoder,
        cx: &mut DecodeContext<'_>,
    ) -> Option<()> {
        let meaning = cx.known.operations.meaning(request.operation, cx.out.names);
        let around = self.circumstances(request, cx);
        let origin = journal_thread(request, origin(request, meaning, &around), cx);
        let mut row = self.row(request, meaning, origin, cx);
        self.set_individual(request, request_id, &mut row);
        let first = cx.out.batch.parts.len();
        if request.bytes > 0 {
            let builder = PartBuilder { request, row: &row, start_ns: self.start_ns };
            builder.push(&request.part, owners, cx);
            for chunk in rest.chunks_exact(size_of::<wire_part>()).take(request.parts as usize) {
                let (part, _) = wire_part::ref_from_prefix(chunk).ok()?;
                builder.push(part, owners, cx);
            }
            cut_to(&mut cx.out.batch.parts[first..], row.bytes);
        }
        owners.forget(request.id);
        if let [part] = &cx.out.batch.parts[first..] {
            self.alike.remember(request, &row, part);
        }
        cx.out.batch.requests.push(row);
        Some(())
    }

    fn circumstances(&self, request: &wire_request, cx: &mut DecodeContext<'_>) -> Circumstances {
        // The request is of the whole disk, its page of the partition, whose number is in its
        // inode.
        let page_of = request.part.inode.number as u32;
        let mounted = request.part.found == wire::FOUND_BDEV_PAGE
            && [request.device, page_of].into_iter().any(|device| is_mounted(device, cx));
        let swap_device = self.swaps.iter().any(|swap| swap.holds(request));
        Circumstances { swap_device, mounted }
    }

    fn row(
        &mut self,
        request: &wire_request,
        meaning: Meaning,
        origin: Origin,
        cx: &mut DecodeContext<'_>,
    ) -> Request {
        let error = match request.flags & wire::REQUEST_BIO_BASED != 0 && request.status != 0 {
            // A bio carries its own status; for requests it is what the kernel's tracepoint
            // reports.
            true => Some(errno_of_blk_status(request.status)),
            false => cx.known.statuses.errno(request.status),
        };
        let submitted =
            request.flags & (wire::REQUEST_KERNEL_MADE | wire::REQUEST_BEGUN_BEFORE) == 0;
        let task = if submitted { cx.known.tasks.thread(request.tid) } else { None };
        let cgroup = cx.known.cgroups.get(request.cgroup);
        let sampled = match request.stack {
            0 => Default::default(),
            sample => cx.known.stacks.take(sample),
        };
        Request {
            parent_id: (request.parent != 0).then(|| self.ids.of_parent(request.parent)),
            parent_reason: self.no_parent(request).map(|reason| cx.name(reason)),
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
            syscall: u32::try_from(request.system_call).ok(),
            stack_id: sampled.kernel,
            user_stack_id: sampled.user,
            stack_weight: request.stack_weight,
            ..Request::blank(cx.device_name(request.device), meaning.rwbs)
        }
        .running(cgroup.map(|cgroup| cgroup.workload).unwrap_or_default())
    }

    /// Sets the columns that differ between requests of one kind ([`super::alike`]): number,
    /// position and times.
    ///
    /// Every column is listed: a new one must be set here, or belong to those that a kind
    /// determines.
    fn set_individual(&self, request: &wire_request, id: u64, row: &mut Request) {
        #[rustfmt::skip]
        let Request {
            request_id, start_ns, q2g_ns, g2i_ns, i2d_ns, g2d_ns, d2c_ns, q2c_ns,
            requeues, merges, sector, bytes, cpu, weight,
            // Columns that are the same for all requests of a kind.
            parent_id: _, parent_reason: _, status: _, device: _, major: _, minor: _, operation: _,
            rwbs: _, origin: _, error: _, pid: _, tid: _, process: _, cgroup: _, container: _,
            pod: _, namespace: _, container_name: _, unit: _, syscall: _, stack_id: _,
            user_stack_id: _, stack_weight: _,
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
        *weight = (request.weight > 1).then_some(request.weight);
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

    /// Returns the reason why a request of a lower disk is not tied to a request of an upper
    /// device.
    fn no_parent(&self, request: &wire_request) -> Option<&str> {
        let reason = self.uppers.get(&request.device)?;
        (request.parent == 0).then_some(reason)
    }
}

/// What a journal's own thread writes is the journal, too: its superblock is marked as metadata and
/// completes like any buffer, copies of blocks that are changed meanwhile belong to no file, and of
/// what was recorded late only the thread is known.
fn journal_thread(request: &wire_request, origin: Origin, cx: &DecodeContext<'_>) -> Origin {
    let is_thread_of_journal = || {
        let task = cx.known.tasks.thread(request.tid);
        task.is_some_and(|task| cx.out.names.get(task.process).starts_with("jbd2/"))
    };
    let is_of_kernel = match request.flags & wire::REQUEST_SLOW != 0 {
        true => request.operation & cx.known.operations.masks().meta != 0,
        false => request.flags & wire::REQUEST_KERNEL_THREAD != 0,
    };
    let is_journal = matches!(origin, Origin::Metadata | Origin::Unknown)
        && request.operation & 1 != 0
        && is_of_kernel
        && is_thread_of_journal();
    if is_journal { Origin::Journal } else { origin }
}

fn is_mounted(device: u32, cx: &mut DecodeContext<'_>) -> bool {
    let (major, minor) = (device >> 20, device & 0xf_ffff);
    // Before 5.11 such an inode has no number: 0.
    major != 0 && cx.known.mounts.is_mounted(major, minor, cx.known.devices.get(device))
}

fn no_parents(devices: &[Device], loops_are_described: bool) -> FxHashMap<u32, String> {
    let reason = |names: String| {
        format!("may serve {names}: the kernel does not record which of its requests")
    };
    let uppers = uppers(devices, loops_are_described);
    uppers.into_iter().map(|(disk, names)| (disk, reason(names))).collect()
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

/// An empty write is a file system's flush.
fn operation(request: &wire_request, meaning: Meaning) -> Operation {
    if meaning.operation == Operation::Write && request.bytes == 0 {
        Operation::Flush
    } else {
        meaning.operation
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromZeros;

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
