//! State that exists when a watch begins and when it ends: requests in flight, and files open for
//! writing.
//!
//! What does not belong here: what the programs do in the kernel (`probes/snapshot`).

use crate::host::devices::{self, CountedDisk};
use crate::host::mounts::Mounts;
use crate::host::system;
use crate::session::Session;
use crate::wire;
use iowhy_model::bounded_map::CappedMap;
use iowhy_model::environment::Mount;
use libbpf_rs::{Iter, Link, ProgramInput};
use rustix::fs::{Mode, OFlags};
use std::cell::OnceCell;
use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use zerocopy::{FromBytes, IntoBytes};

/// Inodes whose writers are kept; beyond this number the hint is missing.
const MOST_WRITTEN: usize = 65_536;
/// Writers kept per inode.
const MOST_WRITERS: usize = 3;

/// Has the kernel list the requests in flight.
pub struct InFlight {
    watched: Vec<u32>,
}

/// Any file of a block device: the kernel's list of block devices is found through it. It is opened
/// for one snapshot and closed afterwards, because an open file keeps its file system from being
/// unmounted.
type Anchor = OnceCell<Option<OwnedFd>>;

/// The disks whose requests in flight were all checked, and when that began. A request that was
/// issued to them earlier and is not marked has completed, whether that was seen or not. Without
/// this, a missed completion would look like a hung disk.
#[derive(Default)]
pub struct ScannedDisks {
    at_ns: u64,
    disks: Vec<u32>,
    /// Requests in flight on disks that could not be checked.
    pub unlisted: u64,
}

impl InFlight {
    /// For the devices with these numbers; all if empty.
    pub fn new(watched: &[u32]) -> InFlight {
        InFlight { watched: watched.to_vec() }
    }

    /// Adds the requests in flight whose beginning was not seen.
    pub fn add(&self, session: &Session) -> ScannedDisks {
        self.scan(session, wire::SCAN_ADD, devices::in_flight_now)
    }

    /// Adds requests that the budget left out, if they have been in flight for long: whether a
    /// hanging request is seen must not depend on chance.
    pub fn add_slow(&self, session: &Session) {
        self.scan(session, wire::SCAN_ADD_SLOW, devices::busy_now);
    }

    /// Marks the requests that the kernel considers to be in flight.
    pub fn mark(&self, session: &Session) -> ScannedDisks {
        self.scan(session, wire::SCAN_MARK, devices::in_flight_now)
    }

    fn scan(
        &self,
        session: &Session,
        mode: u32,
        disks_now: fn() -> Vec<CountedDisk>,
    ) -> ScannedDisks {
        let mut scanned = ScannedDisks { at_ns: system::now_ns(), ..ScannedDisks::default() };
        let anchor = Anchor::new();
        // Listed after that time: what is issued later is not taken for completed.
        for disk in disks_now() {
            if !self.watched.is_empty() && !self.watched.contains(&disk.number) {
                continue;
            }
            if disk.in_flight == 0 || scan_disk(&disk, session, &anchor, mode).is_some() {
                scanned.disks.push(disk.number);
            } else {
                scanned.unlisted += disk.in_flight;
            }
        }
        scanned
    }
}

/// Checks every tag of the disk; `None` where that is not possible.
fn scan_disk(disk: &CountedDisk, session: &Session, anchor: &Anchor, mode: u32) -> Option<()> {
    let program = session.program("look_in_flight")?;
    let anchor = anchor.get_or_init(open_anchor).as_ref()?;
    let anchor = u64::try_from(anchor.as_raw_fd()).ok()?;
    for queue in 0..disk.queues as u64 {
        let mut first = 0;
        loop {
            let mut scan = wire::wire_scan {
                anchor,
                device: u64::from(disk.number),
                queue,
                first,
                mode: u64::from(mode),
            };
            let input =
                ProgramInput { context_in: Some(scan.as_mut_bytes()), ..Default::default() };
            let tags = u64::from(program.test_run(input).ok()?.return_value);
            if tags == 0 {
                return None;
            }
            first += u64::from(wire::WIRE_TAGS_AT_ONCE);
            if first >= tags {
                break;
            }
        }
    }
    Some(())
}

fn open_anchor() -> Option<OwnedFd> {
    let open = |mount: &Mount| {
        // O_PATH only: that touches no device, not even one that hangs.
        rustix::fs::open(&mount.path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()
    };
    let mounts = Mounts::read().of_block_devices();
    mounts.iter().filter(|mount| mount.major != 0).find_map(open)
}

impl ScannedDisks {
    /// Whether the request, a record of the table at the end, completed without being seen.
    pub fn has_ended(&self, record: &[u8]) -> bool {
        let Ok((request, _)) = wire::wire_request::read_from_prefix(record) else { return false };
        // A request that waits for its reissue or for a flush is started but not in flight.
        let elsewhere = request.requeues > 0 || request.flags & wire::REQUEST_FLUSHED != 0;
        // The kernel does not count its own flushes.
        let counted = request.bytes > 0 && (1..self.at_ns).contains(&request.issue_ns);
        let marked = request.flags & wire::REQUEST_AT_DEVICE != 0;
        counted && !elsewhere && !marked && self.disks.contains(&request.device)
    }
}

/// The processes that had files open for writing when the watch began, by inode.
#[derive(Default)]
pub struct Writers {
    by_inode: CappedMap<(u64, u64), Vec<(u32, String)>, MOST_WRITTEN>,
}

impl Writers {
    /// Lists them from the kernel; empty where it cannot list them.
    pub fn now(session: &Session) -> Writers {
        let mut writers = Writers::default();
        list(session, "list_writers", size_of::<wire::wire_writer>(), |record| writers.add(record));
        writers
    }

    fn add(&mut self, record: &[u8]) {
        let Ok(writer) = wire::wire_writer::read_from_bytes(record) else { return };
        if writer.tgid == std::process::id() {
            return;
        }
        let key = (writer.inode.address, writer.inode.number);
        let Some(known) = self.by_inode.or_insert_with(key, Vec::new) else { return };
        if known.len() < MOST_WRITERS && known.iter().all(|(tgid, _)| *tgid != writer.tgid) {
            known.push((writer.tgid, crate::host::text_of(&writer.process)));
        }
    }

    /// Files whose writers are not kept.
    pub fn dropped(&self) -> u64 {
        self.by_inode.refused()
    }

    /// The processes that had the inode open for writing: `fio (123), dd (124)`; `None` if there
    /// were none.
    pub fn of(&self, inode: &wire::wire_inode) -> Option<String> {
        let known = self.by_inode.get(&(inode.address, inode.number))?;
        let text: Vec<String> =
            known.iter().map(|(tgid, process)| format!("{process} ({tgid})")).collect();
        Some(text.join(", "))
    }
}

/// Hands each thread that sleeps now to `each`, as a `wire_sleeper`; from here on it is tracked.
pub fn sleepers(session: &Session, each: impl FnMut(&[u8])) {
    list(session, "list_sleepers", size_of::<wire::wire_sleeper>(), each);
}

/// Hands each thread that sleeps for another thread now to `each`, as a `wire_thread_sleeper`.
pub fn thread_sleepers(session: &Session, each: impl FnMut(&[u8])) {
    list(session, "list_thread_sleepers", size_of::<wire::wire_thread_sleeper>(), each);
}

/// A request in flight.
#[derive(Clone, Copy, Debug)]
pub struct PendingRequest {
    /// The device number.
    pub device: u32,
    /// Time at which the request was queued, CLOCK_MONOTONIC nanoseconds.
    pub queue_ns: u64,
    /// Time at which the request was issued to the driver, CLOCK_MONOTONIC nanoseconds; 0 if it was
    /// not.
    pub issue_ns: u64,
}

impl PendingRequest {
    /// Reads a record of a request in flight.
    pub fn from_record(record: &[u8]) -> Option<PendingRequest> {
        let (request, _) = wire::wire_request::read_from_prefix(record).ok()?;
        let wire::wire_request { device, queue_ns, issue_ns, .. } = request;
        (queue_ns > 0).then_some(PendingRequest { device, queue_ns, issue_ns })
    }
}

/// The requests in flight now. Where the kernel does not list them, their whole table is read,
/// megabytes.
pub fn pending(session: &Session) -> Vec<PendingRequest> {
    let mut found = Vec::new();
    let is_listed = list_pending(session, |record| {
        let wire::wire_pending { device, queue_ns, issue_ns, .. } = record;
        found.push(PendingRequest { device, queue_ns, issue_ns });
    });
    if !is_listed {
        session.pending(|record| found.extend(PendingRequest::from_record(record)));
        return found;
    }
    // The few requests that did not fit into the table.
    if session.has_overflowed() {
        session.overflowed(|record| found.extend(PendingRequest::from_record(record)));
    }
    found
}

/// Hands each request that is in flight now to `each`, as a record without an end, while the watch
/// goes on: of their table, megabytes, only those places are read that are in use.
pub fn pending_records(session: &Session, mut each: impl FnMut(&[u8])) {
    let mut places = Vec::new();
    if !list_pending(session, |record| places.push(record.place)) {
        session.pending(each);
        return;
    }
    places.dedup();
    session.pending_at(&places, &mut each);
    if session.has_overflowed() {
        session.overflowed(each);
    }
}

/// Hands the requests of the table in flight to `each`, in its order; returns whether the kernel
/// can list them.
fn list_pending(session: &Session, mut each: impl FnMut(wire::wire_pending)) -> bool {
    let Some(program) = session.program("list_pending") else { return false };
    let Some(map) = session.handle("pending") else { return false };
    let Ok(link) = program.attach_iter(map.as_fd()) else { return false };
    read_list(&link, size_of::<wire::wire_pending>(), |record| {
        wire::wire_pending::read_from_bytes(record).into_iter().for_each(&mut each);
    });
    true
}

/// Runs a program that lists something, and hands its records to `each`; nothing where it cannot
/// run.
fn list(session: &Session, program: &str, size: usize, each: impl FnMut(&[u8])) {
    let Some(program) = session.program(program) else { return };
    if let Ok(link) = program.attach() {
        read_list(&link, size, each);
    }
}

/// Whether a list goes on: the kernel returns early after a million entries without output, and
/// continues with the next read.
fn is_unfinished(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

fn read_list(link: &Link, size: usize, mut each: impl FnMut(&[u8])) {
    let Ok(mut list) = Iter::new(link) else { return };
    let mut bytes = vec![0; 64 * size];
    let mut held = 0;
    loop {
        match list.read(&mut bytes[held..]) {
            Ok(read @ 1..) => held += read,
            Err(error) if is_unfinished(error.kind()) => continue,
            Ok(0) | Err(_) => break,
        }
        let whole = held - held % size;
        bytes[..whole].chunks_exact(size).for_each(&mut each);
        bytes.copy_within(whole..held, 0);
        held -= whole;
    }
}
