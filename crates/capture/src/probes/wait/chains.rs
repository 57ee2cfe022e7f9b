//! Wait chains: a thread that slept until another woke it, which meanwhile waited for storage or
//! for a third one. The kernel reports such a sleep after the waits of the waker, so the recent
//! waits of each thread suffice to build the chain.
//!
//! What does not belong here: how the holder of a lock is found (see [`super::standing`]).

use super::stacks::WaitStacks;
use super::standing::Standing;
use crate::decode::DecodeContext;
use crate::decode::tasks::Tasks;
use crate::wire::{self, wire_wait};
use iowhy_model::wait::locks::{is_lock, is_row_lock};
use iowhy_model::wait::recent_waits::{Hop, Path, Storage, ThreadSleep, WaitPast};
use iowhy_model::{KnownBy, Wait};
use rustc_hash::FxHashSet;

/// Chains that waited for storage for less than this have no rows, nanoseconds.
const LEAST_NS: u64 = 1_000_000;
/// A thread that only may hold what another waits for counts if it waited for storage for at least
/// this share of the other's sleep.
const LIKELY_SHARE: f64 = 0.5;
/// The calls that tell what a session sleeps for. Chosen: from epoll_wait to PostgreSQL's ProcSleep
/// there are five.
const LAST_CALLS: usize = 12;

/// Builds chains.
#[derive(Debug, Default)]
pub struct ChainDecoder {
    /// Whether they are recorded.
    wanted: bool,
    past: WaitPast,
    last_id: u64,
}

impl ChainDecoder {
    /// Builds chains if they are recorded; the waits of each thread are kept in any case.
    pub fn new(wanted: bool) -> ChainDecoder {
        ChainDecoder { wanted, ..ChainDecoder::default() }
    }

    /// Notes a wait for storage, and adds the chain that it begins if it was for a lock: behind the
    /// thread that woke it, or the one that held the kernel's lock when the wait began.
    pub fn note_wait(
        &mut self,
        row: &Wait,
        woken_ns: u64,
        wire: &wire_wait,
        cx: &mut DecodeContext<'_>,
    ) {
        let inode = wire.inode.address;
        let first = Hop {
            pid: row.pid,
            syscall: row.syscall,
            user_stack_id: row.user_stack_id,
            ..hop(row.tid, None, &cx.known.tasks)
        };
        let sleep = ThreadSleep {
            first,
            start_ns: row.start_ns,
            end_ns: woken_ns,
            censored: row.censored,
            wait_id: Some(row.wait_id),
            lock: row.class.is_for_thread().then_some(inode).filter(|inode| *inode != 0),
        };
        if self.wanted && (row.class.is_for_thread() || wire.holder != 0) {
            let tasks = &cx.known.tasks;
            let woken = row
                .waker_tid
                .map(|waker_tid| self.paths_of(waker_tid, KnownBy::Woken, &sleep, tasks));
            let held = || self.paths_of(wire.holder, KnownBy::Owner, &sleep, tasks);
            let paths = woken.filter(|paths| is_long(paths)).unwrap_or_else(held);
            if is_long(&paths) {
                self.add_chain(&sleep, paths, cx);
                return;
            }
        }
        let storage = Storage {
            wait_id: row.wait_id,
            class: row.main_class(),
            device: row.device,
            file: row.file,
            volume: row.volume,
            stack_id: row.stack_id,
            user_stack_id: row.user_stack_id,
        };
        self.past.note(&sleep, storage);
    }

    /// Adds the chain of a sleep that another thread ended.
    pub fn thread_sleep(
        &mut self,
        wait: &wire_wait,
        stacks: &mut WaitStacks,
        cx: &mut DecodeContext<'_>,
    ) {
        let sleep = sleep(wait, stacks, cx);
        let woken = self.paths_of(wait.waker, KnownBy::Woken, &sleep, &cx.known.tasks);
        // Only of a file's lock its holder is told, too: as a process.
        let paths = match is_long(&woken) {
            true => woken,
            false => self.paths_of_process(wait.holder, &sleep, &cx.known.tasks),
        };
        if is_long(&paths) {
            self.add_chain(&sleep, paths, cx);
        }
    }

    /// Adds the chains of threads that still sleep at `end_ns`, when the watch ends.
    pub fn standing(
        &mut self,
        mut standing: Vec<Standing>,
        end_ns: u64,
        stacks: &mut WaitStacks,
        cx: &mut DecodeContext<'_>,
    ) {
        // A thread comes after the sleeper it waits for; a deadlock cycle never does.
        loop {
            let before = standing.len();
            standing.retain(|one| !self.stands(one, end_ns, stacks, cx));
            if standing.len() == before || standing.is_empty() {
                return;
            }
        }
    }

    /// Adds the chain of a thread that still sleeps. Returns whether it was found.
    fn stands(
        &mut self,
        one: &Standing,
        end_ns: u64,
        stacks: &mut WaitStacks,
        cx: &mut DecodeContext<'_>,
    ) -> bool {
        let mut wait = one.wait;
        wait.end_ns = end_ns.max(wait.start_ns);
        let mut sleep = ThreadSleep { censored: true, ..sleep(&wait, stacks, cx) };
        if let Some(file) = one.lock_file() {
            sleep.first.lock = Some(cx.out.names.intern(file));
        }
        let mut paths = match one.owner {
            Some(owner) => self.paths_of(owner, KnownBy::Owner, &sleep, &cx.known.tasks),
            None => self.paths_of_process(wait.holder, &sleep, &cx.known.tasks),
        };
        if one.owner.is_none() && !is_long(&paths) {
            if one.is_unclear() && !is_in_lock(one, cx) {
                return false;
            }
            if one.may_be_session() {
                if !is_in_row_lock(one, cx) {
                    return false;
                }
                let pid = wait.tgid;
                sleep.first.user_stack_id = cx.known.stacks.user(pid, &one.frames, &mut cx.out);
            }
            let Some((likely, known_by)) = self.likely(one, &sleep) else { return false };
            paths = self.paths_of(likely, known_by, &sleep, &cx.known.tasks);
        }
        let found = is_long(&paths);
        if found {
            self.add_chain(&sleep, paths, cx);
        }
        found
    }

    /// The processes that waited for storage, according to the waits decoded so far.
    pub fn waiting_processes(&self) -> FxHashSet<u32> {
        self.past.processes()
    }

    /// The thread that waited for storage longest during the sleep, of those that may hold what the
    /// sleeper waits for, and how that is known. A parent waits for its child, however little of
    /// that time the child waits itself.
    fn likely(&self, one: &Standing, sleep: &ThreadSleep) -> Option<(u32, KnownBy)> {
        let past = &self.past;
        let mut found: Vec<(u32, u64)> = Vec::new();
        for pid in past.processes() {
            if one.may_wait_for(pid) {
                found.extend(past.of_process(pid, sleep.start_ns, sleep.end_ns));
            }
        }
        let length = sleep.end_ns.saturating_sub(sleep.start_ns);
        let (tid, time) = found
            .into_iter()
            .filter(|(tid, _)| *tid != sleep.first.tid)
            .max_by_key(|(tid, time)| (*time, std::cmp::Reverse(*tid)))?;
        if one.is_parent() {
            return (time > 0).then_some((tid, KnownBy::Owner));
        }
        let is_likely = time as f64 >= LIKELY_SHARE * length as f64;
        is_likely.then_some((tid, KnownBy::Likely))
    }

    fn paths_of(
        &self,
        holder: u32,
        known_by: KnownBy,
        sleep: &ThreadSleep,
        tasks: &Tasks,
    ) -> Vec<Path> {
        if holder == 0 || holder == sleep.first.tid {
            return Vec::new();
        }
        let pid = self.past.process_of(holder).unwrap_or(0);
        let holder = Hop { pid, ..hop(holder, Some(known_by), tasks) };
        self.past.paths(holder, sleep)
    }

    /// The paths of a sleep for a lock that a process holds: by its thread that waited longest.
    fn paths_of_process(&self, pid: u32, sleep: &ThreadSleep, tasks: &Tasks) -> Vec<Path> {
        if pid == 0 || pid == sleep.first.pid {
            return Vec::new();
        }
        let threads = self.past.of_process(pid, sleep.start_ns, sleep.end_ns).into_iter();
        let longest = threads.max_by_key(|(tid, time)| (*time, std::cmp::Reverse(*tid)));
        longest.map_or_else(Vec::new, |(tid, _)| self.paths_of(tid, KnownBy::Owner, sleep, tasks))
    }

    /// A parent that waits for its child is no victim, but a link: who waits for it waits for the
    /// child.
    fn add_chain(&mut self, sleep: &ThreadSleep, paths: Vec<Path>, cx: &mut DecodeContext<'_>) {
        if !is_parent(sleep.first.syscall) {
            self.last_id += 1;
            cx.out.batch.wait_chains.extend(sleep.rows(self.last_id, &paths));
        }
        self.past.note_chain(sleep, paths);
    }
}

/// Whether the functions that a thread is in are those of a lock.
fn is_in_lock(one: &Standing, cx: &mut DecodeContext<'_>) -> bool {
    let functions = cx.known.stacks.functions(one.wait.tgid, &one.frames, cx.out.names);
    is_lock(functions.iter().map(|name| cx.out.names.get(*name)))
}

/// Whether the functions that a thread is in are those of a session that waits for another one's
/// lock.
fn is_in_row_lock(one: &Standing, cx: &mut DecodeContext<'_>) -> bool {
    // The last calls: what stands above them may be left of earlier ones.
    let last = &one.frames[..one.frames.len().min(LAST_CALLS)];
    let functions = cx.known.stacks.functions(one.wait.tgid, last, cx.out.names);
    let frames: Vec<String> =
        functions.iter().map(|name| cx.out.names.get(*name).to_owned()).collect();
    is_row_lock(&frames)
}

fn sleep(wait: &wire_wait, stacks: &mut WaitStacks, cx: &mut DecodeContext<'_>) -> ThreadSleep {
    let of_file = wait.flags & wire::WAIT_FOR_FILE_LOCK != 0;
    let first = Hop {
        pid: wait.tgid,
        syscall: u32::try_from(wait.system_call).ok(),
        user_stack_id: stacks.user(wait, cx),
        lock: of_file.then(|| cx.known.files.get(&wait.inode)?.path).flatten(),
        ..hop(wait.tid, None, &cx.known.tasks)
    };
    let address = if of_file { wait.inode.address } else { wait.address };
    ThreadSleep {
        first,
        start_ns: wait.start_ns,
        end_ns: wait.end_ns,
        censored: wait.flags & wire::WAIT_BEGUN_BEFORE != 0,
        wait_id: None,
        lock: (address != 0).then_some(address),
    }
}

/// Whether a thread slept until a child exits.
fn is_parent(syscall: Option<u32>) -> bool {
    let calls = [libc::SYS_wait4, libc::SYS_waitid];
    syscall.is_some_and(|syscall| calls.contains(&i64::from(syscall)))
}

/// A thread, as far as it is known by its number.
fn hop(tid: u32, known_by: Option<KnownBy>, tasks: &Tasks) -> Hop {
    let task = tasks.thread(tid);
    Hop {
        known_by,
        pid: 0,
        tid,
        process: task.map(|task| task.process),
        thread: task.map(|task| task.thread),
        cgroup: task.and_then(|task| task.cgroup),
        workload: task.map(|task| task.workload).unwrap_or_default(),
        syscall: None,
        user_stack_id: None,
        lock: None,
    }
}

fn is_long(paths: &[Path]) -> bool {
    paths.iter().map(|path| path.storage_ns).sum::<u64>() >= LEAST_NS
}
