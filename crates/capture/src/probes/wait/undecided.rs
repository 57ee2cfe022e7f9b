//! Waits in calls that wait for the caller's own I/O, none of which has completed yet: those with a
//! timeout, and those of servers that wait for sockets in the same call. They are kept until a
//! request shows that they were for storage.
//!
//! What does not belong here: what a decided wait becomes (see [`super::decode`]).

use super::cpu_waits::Slept;
use crate::wire::{wire_request, wire_wait};
use iowhy_model::bounded_map::RestartingMap;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::VecDeque;

/// Waits kept per thread; beyond that the oldest is dropped.
const MOST_OF_THREAD: usize = 256;
/// Waits kept in total; beyond that every thread keeps the later half of its own.
const MOST: usize = 16_384;
/// Processes known to have submitted I/O.
const MOST_PROCESSES: usize = 65_536;
/// Cgroups whose latest throttled request is known.
const MOST_CGROUPS: usize = 65_536;
/// The longest time before a throttled request at which its process can have begun to wait for it,
/// ns.
const HELD_BACK_NS: u64 = 1_000_000_000;

/// The waits that are kept.
#[derive(Clone, Debug, Default)]
pub struct Undecided {
    by_thread: FxHashMap<u32, VecDeque<Slept>>,
    count: usize,
    /// Processes that have submitted I/O: dropping a wait of any other is no loss.
    asking: FxHashSet<u32>,
    /// The end of the time in which the latest throttled request explains waits, by its cgroup.
    told_ns: RestartingMap<u64, u64, MOST_CGROUPS>,
    /// Waits dropped although their process had submitted I/O.
    pub dropped: u64,
}

impl Undecided {
    /// Keeps a wait.
    pub fn keep(&mut self, slept: Slept) {
        if self.count >= MOST {
            self.halve();
        }
        let own = self.by_thread.entry(slept.wire.tid).or_default();
        self.count += 1;
        own.push_back(slept);
        if own.len() > MOST_OF_THREAD
            && let Some(oldest) = own.pop_front()
        {
            self.count -= 1;
            self.dropped += u64::from(self.asking.contains(&oldest.wire.tgid));
        }
    }

    fn halve(&mut self) {
        let (asking, mut dropped) = (&self.asking, 0);
        for own in self.by_thread.values_mut() {
            let gone = own.drain(..own.len().div_ceil(2));
            dropped += gone.filter(|slept| asking.contains(&slept.wire.tgid)).count() as u64;
        }
        self.dropped += dropped;
        self.by_thread.retain(|_, own| !own.is_empty());
        self.count = self.by_thread.values().map(VecDeque::len).sum();
    }

    /// Returns the waits of the request's thread during which it was in flight, until `until_ns`.
    /// Earlier ones are not explained by this request, and stay.
    pub fn decided_by(&mut self, request: &wire_request, until_ns: u64) -> Vec<Slept> {
        if request.tgid != 0 && self.asking.len() < MOST_PROCESSES {
            self.asking.insert(request.tgid);
        }
        if self.count == 0 {
            return Vec::new();
        }
        self.take(request.tid, |wait| wait.end_ns > request.queue_ns && wait.start_ns < until_ns)
    }

    /// Returns the waits for a throttled request that a worker queued: those of the only process of
    /// its cgroup that waits in this way, since the previous such request. `is_inside` says whether
    /// a thread is in the cgroup. If two processes wait, the owner cannot be determined.
    pub fn held_back(
        &mut self,
        request: &wire_request,
        is_inside: impl Fn(u32) -> bool,
    ) -> Vec<Slept> {
        if self.count == 0 || request.complete_ns == 0 {
            return Vec::new();
        }
        let told = self.told_ns.insert(request.cgroup, request.complete_ns).unwrap_or(0);
        let from = told.max(request.queue_ns.saturating_sub(HELD_BACK_NS));
        let is_for = |wait: &wire_wait| wait.end_ns > from && wait.start_ns < request.complete_ns;
        let mut process = None;
        let mut threads = Vec::new();
        for (tid, own) in &self.by_thread {
            let first = own.iter().map(|slept| &slept.wire).find(|wait| is_for(wait));
            let Some(wait) = first.filter(|_| is_inside(*tid)) else { continue };
            if process.is_some_and(|process| process != wait.tgid) {
                return Vec::new();
            }
            process = Some(wait.tgid);
            threads.push(*tid);
        }
        threads.sort_unstable();
        threads.into_iter().flat_map(|tid| self.take(tid, is_for)).collect()
    }

    fn take(&mut self, tid: u32, is_taken: impl Fn(&wire_wait) -> bool) -> Vec<Slept> {
        let Some(own) = self.by_thread.get_mut(&tid) else { return Vec::new() };
        let (taken, rest): (Vec<_>, Vec<_>) =
            own.drain(..).partition(|slept| is_taken(&slept.wire));
        self.count -= taken.len();
        if rest.is_empty() {
            self.by_thread.remove(&tid);
        } else {
            own.extend(rest);
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromZeros;

    fn wait(tgid: u32, tid: u32, start_ns: u64, end_ns: u64) -> Slept {
        let wire = wire_wait { tgid, tid, start_ns, end_ns, ..wire_wait::new_zeroed() };
        Slept { wire, cpu_wait_ns: None }
    }

    fn request(tid: u32, queue_ns: u64, complete_ns: u64) -> wire_request {
        wire_request { tgid: tid, tid, queue_ns, complete_ns, ..wire_request::new_zeroed() }
    }

    fn times(waits: &[Slept]) -> Vec<(u32, u64)> {
        waits.iter().map(|slept| (slept.wire.tid, slept.wire.start_ns)).collect()
    }

    #[test]
    fn a_request_tells_of_the_waits_of_its_thread_alone() {
        let mut undecided = Undecided::default();
        for start in [0, 10, 20, 30] {
            undecided.keep(wait(1, 1, start, start + 10));
            undecided.keep(wait(1, 2, start, start + 10));
        }
        let found = undecided.decided_by(&request(1, 15, 25), 25);
        assert_eq!(times(&found), [(1, 10), (1, 20)]);
        assert_eq!(undecided.count, 6);
        assert!(undecided.decided_by(&request(3, 0, 99), 99).is_empty());
    }

    #[test]
    fn waits_for_sockets_do_not_fill_the_store() {
        let mut undecided = Undecided::default();
        for round in 0..1_000 {
            for tid in 0..200 {
                undecided.keep(wait(7, tid, round * 10, round * 10 + 10));
            }
        }
        // A late one is kept, and processes that never submitted I/O lose nothing.
        undecided.keep(wait(8, 900, 5_000, 5_010));
        assert!(undecided.count <= MOST && undecided.dropped == 0);
        assert_eq!(undecided.decided_by(&request(900, 5_005, 5_020), 5_020).len(), 1);
        undecided.decided_by(&request(7, 0, 1), 1);
        for start in 0..1_000 {
            undecided.keep(wait(7, 7, start, start + 1));
        }
        assert!(undecided.dropped > 0);
    }

    #[test]
    fn what_a_limit_held_back_tells_of_the_one_process_that_waits_in_its_cgroup() {
        let mut undecided = Undecided::default();
        let mut held = request(99, 50, 60);
        held.cgroup = 5;
        for start in [0, 20, 40, 60] {
            undecided.keep(wait(1, 1, start, start + 20));
            undecided.keep(wait(2, 2, start, start + 20));
        }
        assert!(undecided.held_back(&held, |_| true).is_empty(), "two processes wait");
        held.complete_ns = 70;
        let found = undecided.held_back(&held, |tid| tid == 1);
        assert_eq!(times(&found), [(1, 60)], "earlier ones were for the request before");
        held.cgroup = 6;
        let found = undecided.held_back(&held, |tid| tid == 1);
        assert_eq!(times(&found), [(1, 0), (1, 20), (1, 40)]);
    }
}
