//! Wait chains: a thread that slept until another woke it, which meanwhile waited for storage or
//! for a third one. The kernel reports such a sleep after the waits of the waker, so the recent
//! waits of each thread suffice to build the chain.
//!
//! What does not belong here: how the holder of a lock is found (see [`crate::standing`]).

use super::Decoder;
use crate::standing::Standing;
use crate::wire::{self, wire_wait};
use iowhy_core::analysis::waits::locks::is_lock;
use iowhy_core::analysis::waits::past::{Hop, Past, Path, Sleep, Storage};
use iowhy_core::model::{KnownBy, Names, Wait};
use iowhy_core::source::Batch;
use rustc_hash::FxHashSet;

/// Chains that waited for storage for less than this have no rows, nanoseconds.
const LEAST_NS: u64 = 1_000_000;
/// A thread that only may hold what another waits for counts if it waited for storage for at least
/// this share of the other's sleep.
const LIKELY_SHARE: f64 = 0.5;

/// State for building chains.
#[derive(Debug, Default)]
pub struct Chains {
    /// Whether they are recorded.
    pub wanted: bool,
    past: Past,
    last_id: u64,
}

impl Decoder {
    /// Notes a wait for storage, and adds the chain that it begins if it was for a lock. `inode` is
    /// the address of its file's inode, 0 if it has none.
    pub(super) fn note_wait(&mut self, row: &Wait, woken_ns: u64, inode: u64, batch: &mut Batch) {
        let first = Hop {
            pid: row.pid,
            syscall: row.syscall,
            user_stack_id: row.user_stack_id,
            ..self.hop(row.tid, None)
        };
        let sleep = Sleep {
            first,
            start_ns: row.start_ns,
            end_ns: woken_ns,
            censored: row.censored,
            wait_id: Some(row.wait_id),
            lock: row.class.is_for_thread().then_some(inode).filter(|inode| *inode != 0),
        };
        if self.chains.wanted
            && row.class.is_for_thread()
            && let Some(waker) = row.waker_tid
        {
            let paths = self.paths_of(waker, KnownBy::Woken, &sleep);
            if is_long(&paths) {
                self.add_chain(&sleep, paths, batch);
                return;
            }
        }
        let storage = Storage {
            wait_id: row.wait_id,
            class: row.main_class(),
            device: row.device,
            file: row.file,
            stack_id: row.stack_id,
            user_stack_id: row.user_stack_id,
        };
        self.chains.past.note(&sleep, storage);
    }

    /// Adds the chain of a sleep that another thread ended.
    pub(super) fn thread_sleep(
        &mut self,
        wait: &wire_wait,
        batch: &mut Batch,
        names: &mut Names,
    ) -> Option<()> {
        let sleep = self.sleep(wait, batch, names);
        let paths = self.paths_of(wait.waker, KnownBy::Woken, &sleep);
        if is_long(&paths) {
            self.add_chain(&sleep, paths, batch);
        }
        Some(())
    }

    /// Adds the chains of threads that still sleep when the watch ends.
    pub fn standing(&mut self, mut standing: Vec<Standing>, batch: &mut Batch, names: &mut Names) {
        // A thread comes after the sleeper it waits for; a deadlock cycle never does.
        loop {
            let before = standing.len();
            standing.retain(|one| !self.stands(one, batch, names));
            if standing.len() == before || standing.is_empty() {
                return;
            }
        }
    }

    /// Adds the chain of a thread that still sleeps. Returns whether it was found.
    fn stands(&mut self, one: &Standing, batch: &mut Batch, names: &mut Names) -> bool {
        let mut wait = one.wait;
        wait.end_ns = self.waits.end_ns.max(wait.start_ns);
        let sleep = Sleep { censored: true, ..self.sleep(&wait, batch, names) };
        let paths = match one.owner {
            Some(owner) => self.paths_of(owner, KnownBy::Owner, &sleep),
            None => {
                if one.is_unclear() && !self.is_in_lock(one, names) {
                    return false;
                }
                let Some(likely) = self.likely(one, &sleep) else { return false };
                self.paths_of(likely, KnownBy::Likely, &sleep)
            }
        };
        let found = is_long(&paths);
        if found {
            self.add_chain(&sleep, paths, batch);
        }
        found
    }

    /// Whether the functions that a thread is in are those of a lock.
    fn is_in_lock(&mut self, one: &Standing, names: &mut Names) -> bool {
        let functions = self.stacks.functions(one.wait.tgid, &one.frames, names);
        is_lock(functions.iter().map(|name| names.get(*name)))
    }

    /// The processes that waited for storage, according to the waits decoded so far.
    pub fn waiting_processes(&self) -> FxHashSet<u32> {
        self.chains.past.processes()
    }

    /// The thread that waited for storage longest during the sleep, of those that may hold what the
    /// sleeper waits for.
    fn likely(&self, one: &Standing, sleep: &Sleep) -> Option<u32> {
        let past = &self.chains.past;
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
        (time as f64 >= LIKELY_SHARE * length as f64).then_some(tid)
    }

    fn paths_of(&self, holder: u32, known_by: KnownBy, sleep: &Sleep) -> Vec<Path> {
        if holder == 0 || holder == sleep.first.tid {
            return Vec::new();
        }
        let pid = self.chains.past.process_of(holder).unwrap_or(0);
        let holder = Hop { pid, ..self.hop(holder, Some(known_by)) };
        self.chains.past.paths(holder, sleep)
    }

    fn add_chain(&mut self, sleep: &Sleep, paths: Vec<Path>, batch: &mut Batch) {
        self.chains.last_id += 1;
        batch.wait_chains.extend(sleep.rows(self.chains.last_id, &paths));
        self.chains.past.note_chain(sleep, paths);
    }

    fn sleep(&mut self, wait: &wire_wait, batch: &mut Batch, names: &mut Names) -> Sleep {
        let first = Hop {
            pid: wait.tgid,
            syscall: u32::try_from(wait.system_call).ok(),
            user_stack_id: self.user_stack(wait, batch, names),
            ..self.hop(wait.tid, None)
        };
        Sleep {
            first,
            start_ns: wait.start_ns,
            end_ns: wait.end_ns,
            censored: wait.flags & wire::WAIT_BEGUN_BEFORE != 0,
            wait_id: None,
            lock: (wait.address != 0).then_some(wait.address),
        }
    }

    /// A thread, as far as it is known by its number.
    fn hop(&self, tid: u32, known_by: Option<KnownBy>) -> Hop {
        let task = self.tasks.thread(tid);
        Hop {
            known_by,
            pid: 0,
            tid,
            process: task.map(|task| task.process),
            thread: task.map(|task| task.thread),
            cgroup: task.and_then(|task| task.cgroup),
            container: task.and_then(|task| task.container),
            syscall: None,
            user_stack_id: None,
        }
    }
}

fn is_long(paths: &[Path]) -> bool {
    paths.iter().map(|path| path.storage_ns).sum::<u64>() >= LEAST_NS
}
