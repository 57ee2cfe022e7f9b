//! Waits of threads: what they waited for, from their kernel stacks and their requests.
//!
//! A thread's requests arrive before the wait that they end, so the latest requests of each thread
//! are kept until then.

use super::Decoder;
use super::cpu_waits::{CpuWaits, Slept};
use super::undecided::Undecided;
use crate::wire::{self, wire_request, wire_sleeper, wire_wait};
use iowhy_core::analysis::waits::class::{Verdict, verdict};
use iowhy_core::analysis::waits::split::{Span, Split, split};
use iowhy_core::model::{Losses, Name, Names, Request, Wait, WaitClass, WaitRequest};
use iowhy_core::source::Batch;
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use zerocopy::FromBytes;

/// Requests kept per thread until it is known whether it waited for them.
const MOST_OF_THREAD: usize = 128;
/// Threads for which requests are kept.
const MOST_THREADS: usize = 4096;
/// How long a request is kept at least when there are more threads, ns: a thread that waited for it
/// runs again by then.
const KEPT_NS: u64 = 1_000_000_000;
/// Requests of any thread that are kept for the thread whose wait they end, indexed by the low bits
/// of their number, so that a newer one replaces an older one.
const MOST_ENDED: usize = 2048;

/// A wake-up this long after a completion was not caused by it, ns.
const SURELY_LATER_NS: u64 = 1_000_000;
/// User stacks by process and slot that are kept named.
const MOST_USER_STACKS: usize = 65_536;

/// What waits need to know of a request.
#[derive(Clone, Copy, Debug)]
struct Served {
    request_id: u64,
    /// The process that submitted it.
    pid: Option<u32>,
    device: Name,
    span: Span,
    /// The cgroup whose limits applied.
    cgroup: Option<Name>,
    /// Whether it was throttled before it was queued.
    held_back: bool,
}

/// What a stack shows, and its number in the recording.
#[derive(Clone, Copy, Debug)]
struct Known {
    stack_id: Option<u64>,
    verdict: Verdict,
}

/// State for decoding waits.
#[derive(Default)]
pub struct Waits {
    /// The kernel's maps of stacks; empty if waits are not recorded.
    stacks: Vec<MapHandle>,
    known: FxHashMap<i32, Known>,
    /// The map of user stacks.
    user_stacks: Option<MapHandle>,
    /// The numbers of its stacks, by process and slot.
    known_users: FxHashMap<(u32, i32), Option<u64>>,
    /// Threads that were already asleep when the watch began.
    sleeping: FxHashMap<u32, Known>,
    of_thread: FxHashMap<u32, VecDeque<Served>>,
    undecided: Undecided,
    cpu_waits: CpuWaits,
    ended: Vec<Option<(u64, Served)>>,
    last_id: u64,
    /// When the watch ended, for waits that outlast it; 0 until then.
    pub end_ns: u64,
}

impl Waits {
    /// Decodes waits whose stacks are in `stacks` and `user_stacks`.
    pub fn with(stacks: Vec<MapHandle>, user_stacks: Option<MapHandle>) -> Waits {
        let ended = if stacks.is_empty() { Vec::new() } else { vec![None; MOST_ENDED] };
        Waits { stacks, user_stacks, ended, ..Waits::default() }
    }

    /// Notes a request that its thread may be waiting for.
    fn note(&mut self, request: &wire_request, row: &Request) {
        // Requests still in flight are handed over at the end, and lasted at least until then.
        let completed_ns = if request.complete_ns == 0 { self.end_ns } else { request.complete_ns };
        if self.stacks.is_empty() || completed_ns == 0 {
            return;
        }
        let served = Served {
            request_id: row.request_id,
            pid: row.pid,
            device: row.device,
            span: Span { queued_ns: request.queue_ns, issued_ns: request.issue_ns, completed_ns },
            cgroup: row.cgroup,
            held_back: is_held_back(request),
        };
        if let Some(slot) = self.ended.get_mut(place_of(request.id)) {
            *slot = Some((request.id, served));
        }
        let Some(tid) = row.tid else { return };
        if self.of_thread.len() >= MOST_THREADS && !self.of_thread.contains_key(&tid) {
            self.make_room(completed_ns);
        }
        let own = self.of_thread.entry(tid).or_default();
        if own.len() >= MOST_OF_THREAD {
            own.pop_front();
        }
        own.push_back(served);
    }

    /// Drops threads whose requests ended a while ago. If that is not enough, the memory limit
    /// wins: current waits lose their requests.
    fn make_room(&mut self, now_ns: u64) {
        let ended_ns = |own: &VecDeque<Served>| own.back().map_or(0, |it| it.span.completed_ns);
        self.of_thread.retain(|_, own| ended_ns(own).saturating_add(KEPT_NS) > now_ns);
        if self.of_thread.len() > MOST_THREADS / 2 {
            self.of_thread.clear();
        }
    }

    /// Adds the waits that were dropped.
    pub(super) fn losses(&self, losses: &mut Losses) {
        let meaning = "waits dropped: not known whether for storage";
        losses.add("undecided_waits", self.undecided.dropped, meaning, false);
    }

    /// Returns the requests that `wait` can have waited for, and drops those that no later wait of
    /// the thread can have waited for.
    fn requests_of(
        &mut self,
        wait: &wire_wait,
        woken_ns: u64,
        cgroup: Option<Name>,
    ) -> Vec<Served> {
        let mut found: Vec<Served> = Vec::new();
        if let Some(own) = self.of_thread.get_mut(&wait.tid) {
            let overlaps = |served: &&Served| {
                served.span.completed_ns > wait.start_ns && served.span.queued_ns < woken_ns
            };
            found.extend(own.iter().filter(overlaps));
            own.retain(|served| served.span.completed_ns > woken_ns);
        }
        if let Some(Some((id, waker))) = self.ended.get(place_of(wait.request))
            && *id == wait.request
            && was_woken_by(wait, woken_ns, cgroup, waker)
            && found.iter().all(|served| served.request_id != waker.request_id)
        {
            found.push(*waker);
        }
        found
    }
}

impl Decoder {
    /// Notes a request, the last one of `batch`, and adds the waits that it shows to be for
    /// storage.
    pub(super) fn note_request(
        &mut self,
        request: &wire_request,
        batch: &mut Batch,
        names: &mut Names,
    ) -> Option<()> {
        let row = batch.requests.last()?;
        let cgroup = row.cgroup;
        self.waits.note(request, row);
        let until_ns =
            if request.complete_ns == 0 { self.waits.end_ns } else { request.complete_ns };
        for slept in self.waits.undecided.decided_by(request, until_ns) {
            self.tell(slept, false, batch, names);
        }
        if cgroup.is_some() && is_held_back(request) {
            self.decide_held_back(request, cgroup, batch, names);
        }
        Some(())
    }

    /// Adds the waits for a request of `cgroup` that was throttled until a worker queued it.
    fn decide_held_back(
        &mut self,
        request: &wire_request,
        cgroup: Option<Name>,
        batch: &mut Batch,
        names: &mut Names,
    ) {
        let tasks = &self.tasks;
        let is_inside = |tid| tasks.thread(tid).is_some_and(|task| task.cgroup == cgroup);
        for mut slept in self.waits.undecided.held_back(request, is_inside) {
            slept.wire.request = request.id;
            self.tell(slept, false, batch, names);
        }
    }

    /// Adds a `wire_sleeper`: its wait is sent again when it ends.
    pub fn sleeper(&mut self, bytes: &[u8], batch: &mut Batch, names: &mut Names) -> Option<()> {
        let (sleeper, _) = wire_sleeper::read_from_prefix(bytes).ok()?;
        let length = sleeper.frames.iter().take_while(|address| **address != 0).count();
        let known = self.judge(&sleeper.frames[..length], batch, names);
        self.waits.sleeping.insert(sleeper.wait.tid, known);
        Some(())
    }

    fn judge(&mut self, frames: &[u64], batch: &mut Batch, names: &mut Names) -> Known {
        let stack_id = self.stacks.kernel(frames, batch, names);
        let frames = stack_id.and_then(|id| self.stacks.frames_of(id)).unwrap_or_default();
        Known { stack_id, verdict: verdict(frames.iter().map(|name| names.get(*name))) }
    }

    /// What the stack of a wait shows; `None` if none was taken.
    fn known(&mut self, wait: &wire_wait, batch: &mut Batch, names: &mut Names) -> Option<Known> {
        if wait.flags & wire::WAIT_BEGUN_BEFORE != 0 {
            return self.waits.sleeping.remove(&wait.tid);
        }
        if let Some(known) = self.waits.known.get(&wait.stack) {
            return Some(*known);
        }
        let place = u32::try_from(wait.stack).ok()?;
        let map = self.waits.stacks.get((place / wire::WIRE_WAIT_STACKS) as usize)?;
        let frames = frames_at(map, place % wire::WIRE_WAIT_STACKS)?;
        let known = self.judge(&frames, batch, names);
        self.waits.known.insert(wait.stack, known);
        Some(known)
    }

    /// The user stack of a wait, if one was taken.
    pub(super) fn user_stack(
        &mut self,
        wait: &wire_wait,
        batch: &mut Batch,
        names: &mut Names,
    ) -> Option<u64> {
        let place = u32::try_from(wait.user_stack).ok()?;
        let key = (wait.tgid, wait.user_stack);
        if let Some(known) = self.waits.known_users.get(&key) {
            return *known;
        }
        let frames = frames_at(self.waits.user_stacks.as_ref()?, place)?;
        let id = self.stacks.user(wait.tgid, &frames, batch, names);
        if self.waits.known_users.len() >= MOST_USER_STACKS {
            self.waits.known_users.clear();
        }
        self.waits.known_users.insert(key, id);
        id
    }

    /// Adds a `wire_wait`, unless it has nothing to do with storage.
    pub fn wait(&mut self, bytes: &[u8], batch: &mut Batch, names: &mut Names) -> Option<()> {
        let (mut wait, _) = wire_wait::read_from_prefix(bytes).ok()?;
        if wait.flags & wire::WAIT_FOR_THREAD != 0 {
            return self.thread_sleep(&wait, batch, names);
        }
        let outlasts = wait.end_ns == 0;
        if outlasts {
            wait.end_ns = self.waits.end_ns.max(wait.start_ns);
        }
        let slept = self.waits.cpu_waits.follow(wait);
        self.tell(slept, outlasts, batch, names);
        Some(())
    }

    /// Adds a sleep if it is known to be for storage; one that may turn out to be is kept.
    fn tell(&mut self, slept: Slept, outlasts: bool, batch: &mut Batch, names: &mut Names) {
        let wait = slept.wire;
        let woken_ns = if wait.wake_ns == 0 { wait.end_ns } else { wait.wake_ns };
        let known = self.known(&wait, batch, names);
        let cgroup = self.tasks.thread(wait.tid).and_then(|task| task.cgroup);
        let served = self.waits.requests_of(&wait, woken_ns, cgroup);
        let Some(class) = class_of(&wait, known, &served) else {
            if wait.flags & wire::WAIT_FOR_OWN != 0 && !outlasts {
                self.waits.undecided.keep(slept);
            }
            return;
        };
        let device = self.device_of(&wait, &served, names);
        let served = if class.is_for_requests() { served } else { Vec::new() };
        let spans: Vec<Span> = served.iter().map(|served| served.span).collect();
        let split = split(wait.start_ns, wait.wake_ns, wait.end_ns, &spans);
        self.waits.last_id += 1;
        let wait_id = self.waits.last_id;
        for served in &served {
            let overlap = overlap(served.span, wait.start_ns, woken_ns);
            batch.wait_requests.push(WaitRequest {
                wait_id,
                request_id: served.request_id,
                overlap_ns: overlap,
            });
        }
        let own = matches!(class, WaitClass::Device | WaitClass::PageRead | WaitClass::PageFault);
        let held_back = own && served.iter().any(|served| served.held_back);
        let throttled = held_back && split.before_ns > split.rest_ns;
        let row = Wait {
            wait_id,
            class: if throttled { WaitClass::CgroupThrottle } else { class },
            device,
            censored: outlasts || wait.flags & wire::WAIT_BEGUN_BEFORE != 0,
            stack_id: known.and_then(|known| known.stack_id),
            user_stack_id: self.user_stack(&wait, batch, names),
            cpu_wait_before_ns: slept.cpu_wait_ns,
            ..self.waiter(&wait, split)
        };
        self.note_wait(&row, woken_ns, wait.inode.address, batch);
        batch.waits.push(row);
    }

    /// The device of its requests, else of the file in its system call's arguments.
    fn device_of(&self, wait: &wire_wait, served: &[Served], names: &mut Names) -> Option<Name> {
        if let Some(served) = served.last() {
            return Some(served.device);
        }
        let file = (wait.inode.device != 0).then_some(wait.inode.device)?;
        self.devices.disk(file).map(|disk| names.intern(disk))
    }

    /// The part of a wait's row that describes the thread and the times.
    fn waiter(&self, wait: &wire_wait, split: Split) -> Wait {
        let task = self.tasks.thread(wait.tid);
        let file = (wait.inode.address != 0).then(|| self.files.get(&wait.inode)).flatten();
        Wait {
            wait_id: 0,
            start_ns: wait.start_ns,
            duration_ns: wait.end_ns - wait.start_ns,
            censored: false,
            class: WaitClass::Unknown,
            device_ns: split.device_ns,
            queue_ns: split.queue_ns,
            run_queue_ns: split.run_queue_ns,
            cpu_wait_before_ns: None,
            pid: wait.tgid,
            tid: wait.tid,
            process: task.map(|task| task.process),
            kernel_thread: wait.flags & wire::WAIT_KERNEL_THREAD != 0,
            cgroup: task.and_then(|task| task.cgroup),
            container: task.and_then(|task| task.container),
            syscall: u32::try_from(wait.system_call).ok(),
            file: file.and_then(|file| file.path),
            device: None,
            stack_id: None,
            user_stack_id: None,
            waker_tid: (wait.waker != 0).then_some(wait.waker),
        }
    }
}

/// The frames in a slot of a map of stacks.
fn frames_at(map: &MapHandle, place: u32) -> Option<Vec<u64>> {
    let value = map.lookup(&place.to_ne_bytes(), MapFlags::ANY).ok()??;
    let (words, _) = value.as_chunks::<8>();
    let frames = words.iter().map(|word| u64::from_ne_bytes(*word));
    Some(frames.take_while(|address| *address != 0).collect())
}

/// The class of a wait; `None` if it has nothing to do with storage.
fn class_of(wait: &wire_wait, known: Option<Known>, served: &[Served]) -> Option<WaitClass> {
    match known.map(|known| known.verdict) {
        Some(Verdict::Elsewhere) => None,
        Some(Verdict::Storage(class)) => {
            // An interruptible sleep is for storage only if its own requests were in flight.
            let asked = class == WaitClass::Fuse && wait.flags & wire::WAIT_FOR_SERVER != 0;
            let sure = wait.flags & (wire::WAIT_IOWAIT | wire::WAIT_UNINTERRUPTIBLE) != 0 || asked;
            (sure || !served.is_empty()).then_some(class)
        }
        // Calls that wait for the caller's own I/O do so if there is any.
        None if wait.flags & wire::WAIT_FOR_OWN != 0 => {
            let is_io = wait.flags & wire::WAIT_IOWAIT != 0 || !served.is_empty();
            is_io.then_some(WaitClass::Device)
        }
        // Without a stack, its requests are the only evidence.
        None if !served.is_empty() => Some(WaitClass::Device),
        Some(Verdict::Unknown) if !served.is_empty() => Some(WaitClass::Unknown),
        _ if wait.flags & wire::WAIT_IOWAIT != 0 => Some(WaitClass::Unknown),
        _ if wait.flags & wire::WAIT_UNINTERRUPTIBLE != 0 => Some(WaitClass::Unknown),
        _ => None,
    }
}

/// Whether the completion of `waker`, the last on the CPU that woke the thread, caused the wake-up.
fn was_woken_by(wait: &wire_wait, woken_ns: u64, cgroup: Option<Name>, waker: &Served) -> bool {
    let after_ns = woken_ns.saturating_sub(waker.span.completed_ns);
    // A worker queued it, so nothing else shows whose it was; emulated machines take long to wake.
    let of_its_limit = waker.held_back && cgroup.is_some() && waker.cgroup == cgroup;
    if after_ns >= u64::from(wire::WIRE_ENDED_JUST_NOW_NS) {
        return of_its_limit && after_ns < SURELY_LATER_NS;
    }
    // A thread in such a call can also be woken by its timeout.
    let own = wait.flags & wire::WAIT_FOR_OWN != 0;
    !own || waker.held_back || began_before(wait, waker) || waker.pid == Some(wait.tgid)
}

/// Whether both began before the watch, so that the request's submitter is not known, and the
/// request completed just before the wake-up.
fn began_before(wait: &wire_wait, waker: &Served) -> bool {
    wait.flags & wire::WAIT_BEGUN_BEFORE != 0 && waker.pid.is_none()
}

/// The kernel numbers requests from the eleventh bit on; the bits below are the CPU.
fn place_of(id: u64) -> usize {
    (id >> 10 ^ id << 3) as usize % MOST_ENDED
}

/// Whether throttling delayed the queueing of the request. Reads and direct I/O are queued by a
/// kernel worker for no other reason; writeback and journals always are.
fn is_held_back(request: &wire_request) -> bool {
    let direct =
        matches!(request.part.found, wire::FOUND_DIRECT | wire::FOUND_RAW | wire::FOUND_RAW_ANON);
    let is_read = request.operation & 0xff == 0;
    request.flags & wire::REQUEST_WORKER_FOR != 0
        || (request.flags & wire::REQUEST_KERNEL_THREAD != 0 && (direct || is_read))
}

fn overlap(span: Span, start_ns: u64, end_ns: u64) -> u64 {
    let begun = [span.queued_ns, span.issued_ns, span.completed_ns];
    let begun = begun.into_iter().find(|time| *time != 0).unwrap_or(0);
    span.completed_ns.min(end_ns).saturating_sub(begun.max(start_ns))
}
