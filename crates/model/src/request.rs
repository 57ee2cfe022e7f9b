//! The joined record of one block request, and its files and owners.

use super::block::{Operation, Origin, Status};
use super::names::Name;
use super::table::Table;
use crate::table;

table! {
    /// One row for each request of a device (on a bio-based device: for each bio).
    pub struct Request in "requests" {
        request_id: u64 [None] "Identifies the request in this recording.",
        parent_id: Option<u64> [None] "The request or bio on the upper device that this one \
                                       serves; null if there is none, or if parent_reason says why \
                                       it is not known.",
        parent_reason: Option<Name> [None] "Why parent_id is null although the device serves \
                                            another; null otherwise.",
        status: Status [None] "complete, error, in_flight (censored: had not ended) or \
                               begun_before (censored: had begun).",
        start_ns: u64 [Nanoseconds] "When the earliest of its bios was queued (Q); for a request \
                                     begun before the watch, the earliest time known; for a flush \
                                     of the kernel itself, its issue.",
        q2g_ns: Option<u64> [Nanoseconds] "From queueing to getting a request: wbt, iocost, tags.",
        g2i_ns: Option<u64> [Nanoseconds] "From getting a request to its insertion in the \
                                           scheduler; null without an insertion.",
        i2d_ns: Option<u64> [Nanoseconds] "From insertion to the last issue to the driver: the \
                                           scheduler's queue; null without an insertion.",
        g2d_ns: Option<u64> [Nanoseconds] "From getting a request to its last issue to the driver, \
                                           if it was never inserted: plug and dispatch.",
        d2c_ns: Option<u64> [Nanoseconds] "From the last issue to completion: the driver and the \
                                           device.",
        q2c_ns: Option<u64> [Nanoseconds] "From queueing to completion; null for requests that \
                                           have not completed, and for flushes of the kernel \
                                           itself, which are not queued.",
        requeues: u32 [Count] "How often the driver requeued it.",
        merges: u32 [Count] "Number of bios that were merged into it, beyond the first.",
        device: Name [None] "The kernel's name of the whole disk.",
        major: u32 [None] "The device's major number.",
        minor: u32 [None] "The device's minor number.",
        sector: u64 [Sectors] "The first sector on the whole disk.",
        bytes: u64 [Bytes] "Bytes requested.",
        operation: Operation [None] "read, write, flush, discard, write_zeroes, secure_erase, \
                                     zone, driver or other.",
        rwbs: Name [None] "The operation and its flags as blktrace writes them.",
        origin: Origin [None] "Why it exists: read, readahead, page_fault, write, writeback, \
                               journal, metadata, flush, discard, swap, stacked, passthrough or \
                               unknown.",
        error: Option<i32> [None] "The negative error number; null without an error.",
        cpu: u32 [None] "The CPU on which its first bio was queued.",
        pid: Option<u32> [None] "The submitting process; null for requests of the kernel itself.",
        tid: Option<u32> [None] "The submitting thread.",
        process: Option<Name> [None] "The submitting process's name; the thread's name is in \
                                      processes.",
        cgroup: Option<Name> [None] "The cgroup that it is charged to: the v2 path, or v1's blkio \
            path.",
        container: Option<Name> [None] "The container or systemd unit of the cgroup by its best \
                                        name: pod:NAMESPACE/POD/CONTAINER, docker:NAME, \
                                        jenkins.service; the beginning of its id if no name is \
                                        known.",
        pod: Option<Name> [None] "The Kubernetes pod, from files of the node; null outside a pod, \
                                  or if no file has its uid.",
        namespace: Option<Name> [None] "The pod's namespace.",
        container_name: Option<Name> [None] "The container's name, or the virtual machine's.",
        unit: Option<Name> [None] "The innermost systemd unit of the cgroup's path, or its slice \
                                   if it has none.",
        syscall: Option<u32> [None] "The number of the system call that the submitter was in; null \
                                     in kernel threads, workers and faults.",
        stack_id: Option<u64> [None] "The submitter's kernel stack, if one was taken.",
        user_stack_id: Option<u64> [None] "The submitter's user stack, if one was taken.",
        stack_weight: u32 [Count] "Number of requests that this stack represents; 0 if none was \
                                   taken.",
        weight: Option<u32> [Count] "How many requests this one stands for, itself included, where \
                                     the budget (--budget) left some out; null where it stands \
                                     for itself alone.",
    }
}

table! {
    /// One row for each file and owner of a request; bytes of a request's rows add up to its bytes.
    pub struct RequestPart in "request_parts" {
        request_id: u64 [None] "The request that these bytes belong to.",
        file: Option<Name> [None] "The file's path as seen from the root mount; null if there is \
                                   none or it is not known.",
        file_reason: Option<Name> [None] "Why file is null; null otherwise.",
        volume: Option<Name> [None] "The Kubernetes, Docker or Podman volume that the file is on; \
                                     for a claim (PVC) the volume bound to it.",
        deleted: bool [None] "Whether the file had already been deleted when it was first seen.",
        inode: Option<u64> [None] "The file's inode number.",
        inode_device: Option<u64> [None] "The device number of the file's file system: major << 20 \
                                          | minor.",
        file_offset: Option<u64> [Bytes] "Offset of these bytes in the file.",
        bytes: u64 [Bytes] "Bytes of the request that belong to this file and owner.",
        owner_pid: Option<u32> [None] "The process whose data this is: the dirtier for writeback, \
                                       else the submitter.",
        owner: Option<Name> [None] "That process's name.",
        owner_cgroup: Option<Name> [None] "That process's cgroup.",
        owner_pod: Option<Name> [None] "That process's Kubernetes pod.",
        owner_namespace: Option<Name> [None] "The namespace of that pod.",
        owner_share: Option<f64> [Share] "The owner's share of the file's bytes in this request.",
        owner_reason: Option<Name> [None] "Why the owner is null, or how it is known.",
    }
}

/// The reason for a file or an owner that is null because the source has no such data.
pub const NOT_IN_DATA: &str = "not in the data";

impl Request {
    /// Q2C, or the sum of the known stages; `None` if none is known.
    #[inline]
    pub fn known_ns(&self) -> Option<u64> {
        let Request { q2g_ns, g2i_ns, i2d_ns, g2d_ns, d2c_ns, q2c_ns, .. } = *self;
        let stages = [q2g_ns, g2i_ns, i2d_ns, g2d_ns, d2c_ns];
        q2c_ns.or_else(|| stages.into_iter().flatten().reduce(u64::saturating_add))
    }

    /// Q2G, G2I, I2D, G2D and D2C; 0 where there was none, or it is not known.
    #[inline]
    pub fn stages_ns(&self) -> [u64; 5] {
        let Request { q2g_ns, g2i_ns, i2d_ns, g2d_ns, d2c_ns, .. } = *self;
        [q2g_ns, g2i_ns, i2d_ns, g2d_ns, d2c_ns].map(|stage| stage.unwrap_or(0))
    }

    /// A lower bound of its duration, nanoseconds, up to `until_ns` if it is in flight; `None` if
    /// no part is known.
    pub fn least_ns(&self, until_ns: u64) -> Option<u64> {
        let waited =
            until_ns.checked_sub(self.start_ns).filter(|_| self.status == Status::InFlight);
        self.known_ns().max(waited)
    }

    /// Returns the number of requests that this row stands for.
    #[inline]
    pub fn stands_for(&self) -> u64 {
        self.weight.map_or(1, |weight| u64::from(weight).max(1))
    }

    /// A complete read of 0 bytes, with only the names that every request has.
    pub fn blank(device: Name, rwbs: Name) -> Request {
        Request { device, rwbs, origin: Origin::Unknown, ..Table::blank() }
    }
}

impl RequestPart {
    /// `bytes` of a request without any other data.
    pub fn blank(request_id: u64, bytes: u64) -> RequestPart {
        RequestPart { request_id, bytes, ..Table::blank() }
    }
}
