//! Waits of threads: what they waited for, from their kernel stacks and their requests.
//!
//! What does not belong here: whom a thread waited for (see [`super::chains`]).

use super::chains::ChainDecoder;
use super::cpu_waits::{CpuWaits, Slept};
use super::served::{ServedRequest, ServedRequests, begin_of_wait, is_held_back};
use super::stacks::{KnownStack, WaitStacks};
use super::standing::Standing;
use super::undecided::Undecided;
use crate::decode::{DecodeContext, KnownEntities};
use crate::session::Session;
use crate::wire::{self, wire_request, wire_slack, wire_sleeper, wire_wait};
use iowhy_model::bounded_map::RestartingMap;
use iowhy_model::metric::{Metric, process_subject};
use iowhy_model::table::Table;
use iowhy_model::wait::class::{StackVerdict, class_on};
use iowhy_model::wait::split::{Span, WaitSplit, split};
use iowhy_model::{Losses, Name, Sample, Scope, Wait, WaitClass, WaitRequest};
use rustc_hash::FxHashMap;
use zerocopy::FromBytes;

/// Decodes waits and what ends them.
#[derive(Default)]
pub struct WaitDecoder {
    /// Wait chains.
    pub chains: ChainDecoder,
    /// Time at which the watch ended, for waits that outlast it, ns; 0 until then.
    pub end_ns: u64,
    stacks: WaitStacks,
    served: ServedRequests,
    undecided: Undecided,
    cpu_waits: CpuWaits,
    last_id: u64,
    /// Waits for storage without which each process would not have been faster, and the sleeps for
    /// its own threads that followed them, nanoseconds.
    slack: RestartingMap<u32, (u64, u64), MOST_HIDDEN>,
}

/// Processes whose hidden waits are added up.
const MOST_HIDDEN: usize = 4096;

/// Decoder state that rows of unfinished requests and waits change, and that is restored after
/// them.
pub struct OpenRowsState {
    sleeping: FxHashMap<u32, KnownStack>,
    served: ServedRequests,
    undecided: Undecided,
    cpu_waits: CpuWaits,
}

impl WaitDecoder {
    /// From here on, waits and requests that have not ended are decoded as if the watch ended at
    /// `now_ns`, until [`WaitDecoder::end_open_rows`].
    pub fn begin_open_rows(&mut self, now_ns: u64) -> OpenRowsState {
        self.end_ns = now_ns;
        OpenRowsState {
            sleeping: self.stacks.sleeping().clone(),
            served: self.served.clone(),
            undecided: self.undecided.clone(),
            cpu_waits: self.cpu_waits.clone(),
        }
    }

    /// Forgets such rows: the final ones are decoded as if there had been none.
    pub fn end_open_rows(&mut self, before: OpenRowsState) {
        self.end_ns = 0;
        self.stacks.set_sleeping(before.sleeping);
        self.served = before.served;
        self.undecided = before.undecided;
        self.cpu_waits = before.cpu_waits;
    }

    /// Decodes the waits of this session's programs; `chains` says whether wait chains are
    /// recorded, too.
    pub fn new(session: &Session, chains: bool) -> WaitDecoder {
        let stacks = WaitStacks::new(session);
        WaitDecoder {
            served: ServedRequests::new(stacks.are_recorded()),
            chains: ChainDecoder::new(chains),
            stacks,
            ..WaitDecoder::default()
        }
    }

    /// Notes the last request of the batch, and adds the waits that it shows to be for storage.
    pub fn note_request(
        &mut self,
        request: &wire_request,
        cx: &mut DecodeContext<'_>,
    ) -> Option<()> {
        let row = cx.out.batch.requests.last()?;
        let (cgroup, names) = (row.cgroup, &cx.out.names);
        let thread = cx.known.tasks.thread(request.tid).map(|task| names.get(task.thread));
        let held_back = is_held_back(request, thread);
        // Requests still in flight are handed over at the end, and lasted at least until then.
        let until_ns = if request.complete_ns == 0 { self.end_ns } else { request.complete_ns };
        self.served.note(request, row, until_ns, held_back);
        for slept in self.undecided.decided_by(request, until_ns) {
            self.add(slept, false, cx);
        }
        if cgroup.is_some() && held_back {
            self.decide_held_back(request, cgroup, cx);
        }
        Some(())
    }

    /// Adds the waits for a request of `cgroup` that was throttled until a worker queued it.
    fn decide_held_back(
        &mut self,
        request: &wire_request,
        cgroup: Option<Name>,
        cx: &mut DecodeContext<'_>,
    ) {
        let tasks = &cx.known.tasks;
        let is_inside = |tid| tasks.thread(tid).is_some_and(|task| task.cgroup == cgroup);
        for mut slept in self.undecided.held_back(request, is_inside) {
            slept.wire.request = request.id;
            self.add(slept, false, cx);
        }
    }

    /// Adds a `wire_sleeper`: its wait is sent again when it ends.
    pub fn sleeper(&mut self, bytes: &[u8], cx: &mut DecodeContext<'_>) -> Option<()> {
        let (sleeper, _) = wire_sleeper::read_from_prefix(bytes).ok()?;
        let length = sleeper.frames.iter().take_while(|address| **address != 0).count();
        self.stacks.add_sleeper(sleeper.wait.tid, &sleeper.frames[..length], cx);
        Some(())
    }

    /// Adds a `wire_slack` to the counters of its process.
    pub fn slack(&mut self, bytes: &[u8], cx: &mut DecodeContext<'_>) -> Option<()> {
        let (slack, _) = wire_slack::read_from_prefix(bytes).ok()?;
        let process = cx.known.tasks.thread(slack.tid).map(|task| task.process);
        let Some(process) = process.map(|name| cx.out.names.get(name).to_owned()) else {
            return Some(());
        };
        let subject = cx.out.names.intern(&process_subject(slack.tgid, &process));
        let before = self.slack.get(&slack.tgid).copied();
        let (hidden_ns, slept_ns) = before.unwrap_or_default();
        let sums =
            (hidden_ns.saturating_add(slack.hidden_ns), slept_ns.saturating_add(slack.slept_ns));
        self.slack.insert(slack.tgid, sums);
        // A counter shows by its change.
        let first = before.is_none().then_some((slack.time_ns.saturating_sub(1), (0, 0)));
        for (time_ns, sums) in first.into_iter().chain([(slack.time_ns, sums)]) {
            for (metric, value) in [(Metric::HiddenWait, sums.0), (Metric::SleptForOwn, sums.1)] {
                let metric = cx.out.names.intern(metric.info().word);
                let (scope, value) = (Scope::Process, value as f64);
                cx.out.batch.samples.push(Sample { time_ns, scope, subject, metric, value });
            }
        }
        Some(())
    }

    /// Adds a `wire_sleeper` whose wait has ended.
    pub fn late_wait(&mut self, bytes: &[u8], cx: &mut DecodeContext<'_>) -> Option<()> {
        self.sleeper(bytes, cx)?;
        self.wait(bytes, cx)
    }

    /// Adds a `wire_wait`, unless it has nothing to do with storage.
    pub fn wait(&mut self, bytes: &[u8], cx: &mut DecodeContext<'_>) -> Option<()> {
        let (mut wait, _) = wire_wait::read_from_prefix(bytes).ok()?;
        if wait.flags & wire::WAIT_FOR_THREAD != 0 {
            self.chains.thread_sleep(&wait, &mut self.stacks, cx);
            return Some(());
        }
        let outlasts = wait.end_ns == 0;
        if outlasts {
            wait.end_ns = self.end_ns.max(wait.start_ns);
        }
        let slept = self.cpu_waits.follow(wait);
        self.add(slept, outlasts, cx);
        Some(())
    }

    /// Adds a sleep if it is known to be for storage; one that may turn out to be is kept.
    fn add(&mut self, slept: Slept, outlasts: bool, cx: &mut DecodeContext<'_>) {
        let wait = slept.wire;
        let woken_ns = if wait.wake_ns == 0 { wait.end_ns } else { wait.wake_ns };
        let known = self.stacks.kernel(&wait, cx);
        let cgroup = cx.known.tasks.thread(wait.tid).and_then(|task| task.cgroup);
        let served = self.served.of_wait(&wait, woken_ns, cgroup);
        let Some(class) = class_of(&wait, known, &served) else {
            if wait.flags & wire::WAIT_FOR_OWN != 0 && !outlasts {
                self.undecided.keep(slept);
            }
            return;
        };
        let wait = wire_wait { start_ns: begin_of_wait(&wait, &served), ..wait };
        let class = class_of_file(class, &wait, cx.known);
        let device = device_of(&wait, &served, cx);
        let served = if class.is_for_requests() { served } else { Vec::new() };
        let spans: Vec<Span> = served.iter().map(|served| served.span).collect();
        let split = split(wait.start_ns, wait.wake_ns, wait.end_ns, &spans);
        self.last_id += 1;
        let wait_id = self.last_id;
        for served in &served {
            let overlap = overlap(served.span, wait.start_ns, woken_ns);
            cx.out.batch.wait_requests.push(WaitRequest {
                wait_id,
                request_id: served.request_id,
                overlap_ns: overlap,
            });
        }
        let throttled = can_be_held_back(class) && is_throttled(split, woken_ns, &served);
        let row = Wait {
            wait_id,
            class: if throttled { WaitClass::CgroupThrottle } else { class },
            device,
            censored: outlasts || wait.flags & wire::WAIT_BEGUN_BEFORE != 0,
            stack_id: known.and_then(|known| known.stack_id),
            user_stack_id: self.stacks.user(&wait, cx),
            // Between waits of a sample there are others.
            cpu_wait_before_ns: slept.cpu_wait_ns.filter(|_| wait.weight <= 1),
            ..waiter(&wait, split, cx.known)
        };
        self.chains.note_wait(&row, woken_ns, &wait, cx);
        cx.out.batch.waits.push(row);
    }

    /// Adds the waits that outlast the watch, as `wire_wait`s; those for a lock come after those of
    /// its holder.
    pub fn outlasting(&mut self, mut waits: Vec<Vec<u8>>, cx: &mut DecodeContext<'_>) {
        let has_holder = |bytes: &Vec<u8>| {
            wire_wait::read_from_prefix(bytes).is_ok_and(|(wait, _)| wait.holder != 0)
        };
        waits.sort_by_key(has_holder);
        for bytes in waits {
            self.wait(&bytes, cx);
        }
    }

    /// Adds the chains of threads that still sleep when the watch ends.
    pub fn standing(&mut self, standing: Vec<Standing>, cx: &mut DecodeContext<'_>) {
        self.chains.standing(standing, self.end_ns, &mut self.stacks, cx);
    }

    /// Adds the waits that were dropped.
    pub fn losses(&self, losses: &mut Losses) {
        let meaning = "waits dropped: not known whether for storage";
        losses.add("undecided_waits", self.undecided.dropped, meaning, false);
    }
}

/// Classes of waits for requests, which throttling may have delayed.
fn can_be_held_back(class: WaitClass) -> bool {
    matches!(
        class,
        WaitClass::Device
            | WaitClass::PageRead
            | WaitClass::PageFault
            | WaitClass::PageLock
            | WaitClass::Fsync
    )
}

/// Whether most of the time in which none of its requests was in flight came before one that
/// throttling delayed.
fn is_throttled(split: WaitSplit, woken_ns: u64, served: &[ServedRequest]) -> bool {
    let delayed = served.iter().filter(|served| served.held_back);
    let Some(last_ns) = delayed.map(|served| served.span.completed_ns).max() else { return false };
    let idle_ns = split.before_ns + split.rest_ns;
    let after_ns = woken_ns.saturating_sub(last_ns);
    idle_ns.saturating_sub(after_ns) > after_ns
}

/// The device of its requests, else of the file in its system call's arguments.
fn device_of(
    wait: &wire_wait,
    served: &[ServedRequest],
    cx: &mut DecodeContext<'_>,
) -> Option<Name> {
    if let Some(served) = served.last() {
        return Some(served.device);
    }
    let file = (wait.inode.device != 0).then_some(wait.inode.device)?;
    cx.known.devices.disk(file).map(|disk| cx.out.names.intern(disk))
}

/// The part of a wait's row that describes the thread and the times.
fn waiter(wait: &wire_wait, split: WaitSplit, known: &KnownEntities) -> Wait {
    let task = known.tasks.thread(wait.tid);
    let file = (wait.inode.address != 0).then(|| known.files.get(&wait.inode)).flatten();
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
        syscall: u32::try_from(wait.system_call).ok(),
        file: file.and_then(|file| file.path),
        volume: file.and_then(|file| file.volume),
        waker_tid: (wait.waker != 0).then_some(wait.waker),
        weight: (wait.weight > 1).then_some(wait.weight),
        ..Table::blank()
    }
    .running(task.map(|task| task.workload).unwrap_or_default())
}

/// The class of a wait; `None` if it has nothing to do with storage.
fn class_of(
    wait: &wire_wait,
    known: Option<KnownStack>,
    served: &[ServedRequest],
) -> Option<WaitClass> {
    match known.map(|known| known.verdict) {
        Some(StackVerdict::Elsewhere) => None,
        Some(StackVerdict::Storage(class)) => {
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
        Some(StackVerdict::Unknown) if !served.is_empty() => Some(WaitClass::Unknown),
        _ if wait.flags & wire::WAIT_IOWAIT != 0 => Some(WaitClass::Unknown),
        _ if wait.flags & wire::WAIT_UNINTERRUPTIBLE != 0 => Some(WaitClass::Unknown),
        _ => None,
    }
}

/// The class of a wait for pages is that of the server of its file's file system, if it has one.
fn class_of_file(class: WaitClass, wait: &wire_wait, known: &KnownEntities) -> WaitClass {
    let device = wait.inode.device;
    if device == 0 {
        return class;
    }
    known
        .mounts
        .kind_of((device >> 20, device & 0xf_ffff))
        .map_or(class, |kind| class_on(class, kind))
}

fn overlap(span: Span, start_ns: u64, end_ns: u64) -> u64 {
    let begun = [span.queued_ns, span.issued_ns, span.completed_ns];
    let begun = begun.into_iter().find(|time| *time != 0).unwrap_or(0);
    span.completed_ns.min(end_ns).saturating_sub(begun.max(start_ns))
}
