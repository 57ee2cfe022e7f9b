//! The latest requests of each thread, kept until it is known whether it waited for them. A
//! thread's requests arrive before the wait that they end.
//!
//! What does not belong here: what such a wait becomes (see [`super::decode`]).

use crate::wire::{self, wire_request, wire_wait};
use iowhy_model::wait::split::Span;
use iowhy_model::{Name, Request};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// Requests kept per thread until it is known whether it waited for them.
const MOST_OF_THREAD: usize = 128;
/// Threads for which requests are kept.
const MOST_THREADS: usize = 4096;
/// The least time for which a request is kept when there are more threads, ns: a thread that waited
/// for it runs again by then.
const KEPT_NS: u64 = 1_000_000_000;
/// Requests of any thread that are kept for the thread whose wait they end, indexed by the low bits
/// of their number, so that a newer one replaces an older one.
const MOST_ENDED: usize = 2048;

/// A wake-up this long after a completion was not caused by it, ns.
const SURELY_LATER_NS: u64 = 1_000_000;

/// The facts of a request that waits need.
#[derive(Clone, Copy, Debug)]
pub struct ServedRequest {
    /// The request's number in the recording.
    pub request_id: u64,
    /// The process that submitted it.
    pub pid: Option<u32>,
    /// The request's device.
    pub device: Name,
    /// The request's times.
    pub span: Span,
    /// The cgroup whose limits applied.
    pub cgroup: Option<Name>,
    /// Whether it was throttled before it was queued.
    pub held_back: bool,
    /// Whether a worker of io_uring queued it, for a thread that may have waited since before.
    by_worker: bool,
    /// Whether it stands for others, which are not known.
    is_sample: bool,
}

impl ServedRequest {
    /// Whether nobody can have waited for it, or for another one, before it was queued.
    const fn is_whole(&self) -> bool {
        !self.held_back && !self.by_worker && !self.is_sample && self.span.queued_ns > 0
    }
}

/// Returns the time at which a thread began to wait for requests, in a call that also waits for
/// those which other threads will submit: until the first of them was queued, it was idle.
pub fn begin_of_wait(wait: &wire_wait, served: &[ServedRequest]) -> u64 {
    let is_busy = wait.flags & (wire::WAIT_IOWAIT | wire::WAIT_BEGUN_BEFORE) != 0;
    let is_own = wait.flags & wire::WAIT_FOR_OWN != 0 && !is_busy;
    if !is_own || !served.iter().all(ServedRequest::is_whole) {
        return wait.start_ns;
    }
    let first_ns = served.iter().map(|request| request.span.queued_ns).min().unwrap_or(0);
    first_ns.clamp(wait.start_ns, wait.end_ns.max(wait.start_ns))
}

/// The requests that are kept.
#[derive(Clone, Debug, Default)]
pub struct ServedRequests {
    of_thread: FxHashMap<u32, VecDeque<ServedRequest>>,
    /// Empty if waits are not recorded.
    ended: Vec<Option<(u64, ServedRequest)>>,
}

impl ServedRequests {
    /// Keeps requests only if waits are recorded.
    pub fn new(waits_are_recorded: bool) -> ServedRequests {
        let ended = if waits_are_recorded { vec![None; MOST_ENDED] } else { Vec::new() };
        ServedRequests { ended, ..ServedRequests::default() }
    }

    /// Notes a request that its thread may be waiting for; it completed at `completed_ns`, and was
    /// `held_back` or not (see [`is_held_back`]).
    pub fn note(
        &mut self,
        request: &wire_request,
        row: &Request,
        completed_ns: u64,
        held_back: bool,
    ) {
        if self.ended.is_empty() || completed_ns == 0 {
            return;
        }
        let served = ServedRequest {
            request_id: row.request_id,
            pid: row.pid,
            device: row.device,
            span: Span { queued_ns: request.queue_ns, issued_ns: request.issue_ns, completed_ns },
            cgroup: row.cgroup,
            held_back,
            by_worker: request.system_call < 0,
            is_sample: request.weight > 1,
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
        let ended_ns = |own: &VecDeque<ServedRequest>| {
            own.back().map_or(0, |request| request.span.completed_ns)
        };
        self.of_thread.retain(|_, own| ended_ns(own).saturating_add(KEPT_NS) > now_ns);
        if self.of_thread.len() > MOST_THREADS / 2 {
            self.of_thread.clear();
        }
    }

    /// Returns the requests that `wait` can have waited for, and drops those that no later wait of
    /// the thread can have waited for.
    pub fn of_wait(
        &mut self,
        wait: &wire_wait,
        woken_ns: u64,
        cgroup: Option<Name>,
    ) -> Vec<ServedRequest> {
        let mut found: Vec<ServedRequest> = Vec::new();
        if let Some(own) = self.of_thread.get_mut(&wait.tid) {
            let overlaps = |served: &&ServedRequest| {
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

/// Whether the completion of `waker`, the last on the CPU that woke the thread, caused the wake-up.
fn was_woken_by(
    wait: &wire_wait,
    woken_ns: u64,
    cgroup: Option<Name>,
    waker: &ServedRequest,
) -> bool {
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
fn began_before(wait: &wire_wait, waker: &ServedRequest) -> bool {
    wait.flags & wire::WAIT_BEGUN_BEFORE != 0 && waker.pid.is_none()
}

/// The kernel numbers requests from the eleventh bit on; the bits below are the CPU.
fn place_of(id: u64) -> usize {
    (id >> 10 ^ id << 3) as usize % MOST_ENDED
}

/// Whether throttling delayed the queueing of the request, by a thread of this name. Direct I/O is
/// queued by a kernel worker for no other reason. Writeback and journals always are, but by threads
/// of their own or by workers that are bound to no CPU, which also read the bitmaps that they need;
/// those of throttling are bound to one.
pub fn is_held_back(request: &wire_request, thread: Option<&str>) -> bool {
    if request.flags & wire::REQUEST_WORKER_FOR != 0 {
        return true;
    }
    if request.flags & wire::REQUEST_KERNEL_THREAD == 0 {
        return false;
    }
    let is_unbound = thread.is_some_and(|thread| thread.starts_with("kworker/u"));
    let is_read = request.operation & 0xff == 0 && !is_unbound;
    // The device mapper's workers are bound, too, and queue what they map.
    let is_bound = request.parent == 0 && thread.is_some_and(is_bound_worker);
    match request.part.found {
        wire::FOUND_DIRECT | wire::FOUND_RAW | wire::FOUND_RAW_ANON => true,
        wire::FOUND_PAGE | wire::FOUND_NO_DATA => is_read || is_bound,
        _ => is_read,
    }
}

/// Whether a thread's name is that of a kernel worker that is bound to a CPU, of normal priority:
/// `kworker/0:14`, but not `kworker/u8:5` or the block layer's own `kworker/0:1H`.
fn is_bound_worker(thread: &str) -> bool {
    let Some((cpu, number)) = thread.strip_prefix("kworker/").and_then(|rest| rest.split_once(':'))
    else {
        return false;
    };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number(cpu) && is_number(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromZeros;

    #[test]
    fn a_thread_that_waits_for_anybodys_completions_is_idle_until_there_is_a_request() {
        let mut names = iowhy_model::Names::new();
        let request = ServedRequest {
            request_id: 1,
            pid: Some(7),
            device: names.intern("sda"),
            span: Span { queued_ns: 900, issued_ns: 910, completed_ns: 1000 },
            cgroup: None,
            held_back: false,
            by_worker: false,
            is_sample: false,
        };
        let mut wait = wire_wait::new_zeroed();
        (wait.start_ns, wait.end_ns, wait.flags) = (100, 1001, wire::WAIT_FOR_OWN);
        assert_eq!(begin_of_wait(&wait, &[request]), 900);
        let span = Span { queued_ns: 50, ..request.span };
        for other in [
            ServedRequest { span, ..request },
            ServedRequest { held_back: true, ..request },
            ServedRequest { by_worker: true, ..request },
            ServedRequest { is_sample: true, ..request },
        ] {
            assert_eq!(begin_of_wait(&wait, &[request, other]), 100, "{other:?}");
        }
        assert_eq!(begin_of_wait(&wait, &[]), 100);
        for flags in [wire::WAIT_IOWAIT, wire::WAIT_BEGUN_BEFORE] {
            wait.flags = wire::WAIT_FOR_OWN | flags;
            assert_eq!(begin_of_wait(&wait, &[request]), 100);
        }
    }

    #[test]
    fn a_worker_of_throttling_is_bound_to_a_cpu() {
        let mut writeback = wire_request::new_zeroed();
        writeback.flags = wire::REQUEST_KERNEL_THREAD;
        writeback.operation = 1;
        writeback.part.found = wire::FOUND_PAGE;
        for (thread, held_back) in [
            ("kworker/0:14", true),
            ("kworker/u8:5", false),
            ("kworker/0:1H", false),
            ("kworker/0:", false),
            ("jbd2/sda1-8", false),
            ("postgres", false),
        ] {
            assert_eq!(is_held_back(&writeback, Some(thread)), held_back, "{thread}");
        }
        assert!(!is_held_back(&writeback, None));
        let read = wire_request { operation: 0, ..writeback };
        assert!(is_held_back(&read, Some("kworker/0:14")) && is_held_back(&read, None));
        assert!(!is_held_back(&read, Some("kworker/u8:5")), "a flusher that reads a bitmap");
        writeback.parent = 7;
        assert!(!is_held_back(&writeback, Some("kworker/0:14")), "the device mapper's");
    }
}
