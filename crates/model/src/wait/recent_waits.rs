//! Recent waits of each thread: another thread that slept until this one woke it waited for the
//! same. Memory is bounded: in a long history, neighbours for the same thing are merged.
//!
//! What does not belong here: wake-ups (crate `iowhy-capture`).

use crate::compact_sort::CompactSort;
use crate::table::Table;
use crate::{KnownBy, Name, WaitChain, WaitClass, WorkloadNames};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// Maximum number of threads with a history.
const MOST_THREADS: usize = 4096;
/// Maximum number of spells of each.
const MOST_SPELLS: usize = 256;
/// Maximum number of paths of one sleep; the rest of its time has none.
const MOST_PATHS: usize = 8;
/// Maximum number of threads on one path, the first and the last included.
const MOST_HOPS: usize = 8;

/// Kernel addresses are the same in every process.
const KERNEL: u64 = 1 << 63;

/// A thread's wait for storage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Storage {
    /// The wait; the longest if several are merged.
    pub wait_id: u64,
    /// Its class.
    pub class: WaitClass,
    /// The whole disk.
    pub device: Option<Name>,
    /// The file.
    pub file: Option<Name>,
    /// The volume that the file is on.
    pub volume: Option<Name>,
    /// Its kernel stack.
    pub stack_id: Option<u64>,
    /// Its user stack.
    pub user_stack_id: Option<u64>,
}

impl Storage {
    fn is_like(&self, other: &Storage) -> bool {
        (self.class, self.device, self.file) == (other.class, other.device, other.file)
    }
}

/// A hop: a thread that another waited for, or the first of a chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hop {
    /// The evidence that the thread before it waited for this one; `None` for the first.
    pub known_by: Option<KnownBy>,
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// The process's name.
    pub process: Option<Name>,
    /// The thread's name.
    pub thread: Option<Name>,
    /// The cgroup.
    pub cgroup: Option<Name>,
    /// Its workload.
    pub workload: WorkloadNames,
    /// The system call that it slept in.
    pub syscall: Option<u32>,
    /// The user stack of its sleep.
    pub user_stack_id: Option<u64>,
    /// The file whose lock it slept for.
    pub lock: Option<Name>,
}

/// A thread's sleep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ThreadSleep {
    /// The thread.
    pub first: Hop,
    /// The beginning, nanoseconds.
    pub start_ns: u64,
    /// The time at which the thread was woken, nanoseconds.
    pub end_ns: u64,
    /// Whether it began before the watch or outlasts it.
    pub censored: bool,
    /// The wait for storage, if the sleep is one itself.
    pub wait_id: Option<u64>,
    /// The lock that it is for, by its address in the process or the kernel, if it is known.
    pub lock: Option<u64>,
}

impl ThreadSleep {
    /// The rows of the chain that begins with it and continues along `paths`.
    pub fn rows(&self, chain_id: u64, paths: &[Path]) -> Vec<WaitChain> {
        let path = |(index, path): (usize, &Path)| -> Vec<WaitChain> {
            let hops = std::iter::once(&self.first).chain(&path.hops).enumerate();
            let row = |(hop, thread): (usize, &Hop)| WaitChain {
                path: index as u32,
                hop: hop as u32,
                storage_ns: path.storage_ns,
                ..self.row(chain_id, thread)
            };
            let mut rows: Vec<WaitChain> = hops.map(row).collect();
            if let Some(last) = rows.last_mut() {
                last.class = Some(path.storage.class);
                last.device = path.storage.device;
                last.file = path.storage.file;
                last.volume = path.storage.volume;
                last.waits = Some(path.waits);
                last.wait_id = Some(path.storage.wait_id);
                last.stack_id = path.storage.stack_id;
                last.user_stack_id = path.storage.user_stack_id;
            }
            if let Some(first) = rows.first_mut() {
                first.wait_id = self.wait_id;
            }
            rows
        };
        paths.iter().enumerate().flat_map(path).collect()
    }

    fn row(&self, chain_id: u64, thread: &Hop) -> WaitChain {
        WaitChain {
            chain_id,
            path: 0,
            hop: 0,
            start_ns: self.start_ns,
            duration_ns: self.end_ns.saturating_sub(self.start_ns),
            storage_ns: 0,
            censored: self.censored,
            known_by: thread.known_by,
            pid: thread.pid,
            tid: thread.tid,
            process: thread.process,
            thread: thread.thread,
            cgroup: thread.cgroup,
            syscall: thread.syscall,
            class: None,
            device: None,
            file: None,
            volume: None,
            waits: None,
            wait_id: None,
            stack_id: None,
            user_stack_id: thread.user_stack_id,
            lock: thread.lock,
            ..Table::blank()
        }
        .running(thread.workload)
    }
}

/// A path from a thread to storage.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Path {
    /// The threads in between, the nearest first.
    pub hops: Vec<Hop>,
    /// The wait of the last thread.
    pub storage: Storage,
    /// Number of waits.
    pub waits: u64,
    /// The longest single wait, nanoseconds: that of `storage`.
    longest_ns: u64,
    /// Total time, nanoseconds.
    pub storage_ns: u64,
}

impl Path {
    fn is_like(&self, other: &Path) -> bool {
        let threads = |path: &Path| path.hops.iter().map(|hop| hop.tid).collect::<Vec<_>>();
        self.storage.is_like(&other.storage)
            && self.hops.len() == other.hops.len()
            && threads(self) == threads(other)
    }

    fn absorb(&mut self, other: &Path) {
        self.storage_ns += other.storage_ns;
        self.waits += other.waits;
        if other.longest_ns > self.longest_ns {
            self.longest_ns = other.longest_ns;
            self.storage = other.storage;
        }
    }
}

/// A spell: an interval in which a thread waited.
#[derive(Clone, Debug)]
struct Spell {
    start_ns: u64,
    end_ns: u64,
    /// The system call that it was in.
    syscall: Option<u32>,
    user_stack_id: Option<u64>,
    lock: Option<u64>,
    lock_file: Option<Name>,
    /// One path, unless it was for a thread that waited for several things.
    paths: Vec<Path>,
}

impl Spell {
    /// The part of its paths between the two times; a spell that only overlaps counts in
    /// proportion.
    fn within(&self, start_ns: u64, end_ns: u64) -> impl Iterator<Item = Path> {
        let length = self.end_ns - self.start_ns;
        let inside = self.end_ns.min(end_ns).saturating_sub(self.start_ns.max(start_ns));
        self.paths.iter().filter(move |_| inside > 0).map(move |path| {
            let part = |time: u64| {
                (u128::from(time) * u128::from(inside) / u128::from(length.max(1))) as u64
            };
            Path {
                storage_ns: part(path.storage_ns),
                longest_ns: part(path.longest_ns),
                ..path.clone()
            }
        })
    }

    fn is_like(&self, other: &Spell) -> bool {
        match (self.paths.as_slice(), other.paths.as_slice()) {
            ([one], [two]) => one.is_like(two),
            _ => false,
        }
    }
}

#[derive(Clone, Debug, Default)]
struct ThreadPast {
    pid: u32,
    spells: VecDeque<Spell>,
}

impl ThreadPast {
    fn latest_ns(&self) -> u64 {
        self.spells.back().map_or(0, |spell| spell.end_ns)
    }

    /// The spells that end after `start_ns`, the latest first.
    fn since(&self, start_ns: u64) -> impl Iterator<Item = &Spell> {
        self.spells.iter().rev().take_while(move |spell| spell.end_ns > start_ns)
    }

    /// Frees space: neighbours for the same thing are merged, else the oldest is removed.
    fn compact(&mut self) {
        let mut kept: VecDeque<Spell> = VecDeque::with_capacity(MOST_SPELLS);
        for spell in self.spells.drain(..) {
            match (kept.back_mut(), spell.paths.first()) {
                (Some(last), Some(path)) if last.is_like(&spell) => {
                    last.end_ns = spell.end_ns;
                    last.paths.iter_mut().for_each(|known| known.absorb(path));
                }
                _ => kept.push_back(spell),
            }
        }
        if kept.len() >= MOST_SPELLS {
            kept.drain(..MOST_SPELLS / 4);
        }
        self.spells = kept;
    }
}

/// Recent waits of threads.
#[derive(Clone, Debug, Default)]
pub struct WaitPast {
    threads: FxHashMap<u32, ThreadPast>,
}

impl WaitPast {
    /// Adds a thread's wait for storage.
    pub fn note(&mut self, sleep: &ThreadSleep, storage: Storage) {
        let storage_ns = sleep.end_ns.saturating_sub(sleep.start_ns);
        let path = Path { hops: Vec::new(), storage, waits: 1, longest_ns: storage_ns, storage_ns };
        self.note_chain(sleep, vec![path]);
    }

    /// Adds a thread's sleep for others, with its `paths`.
    pub fn note_chain(&mut self, sleep: &ThreadSleep, paths: Vec<Path>) {
        let spell = Spell {
            start_ns: sleep.start_ns,
            end_ns: sleep.end_ns,
            syscall: sleep.first.syscall,
            user_stack_id: sleep.first.user_stack_id,
            lock: sleep.lock,
            lock_file: sleep.first.lock,
            paths,
        };
        self.add((sleep.first.pid, sleep.first.tid), spell);
    }

    fn add(&mut self, (pid, tid): (u32, u32), spell: Spell) {
        if spell.end_ns <= spell.start_ns {
            return;
        }
        if self.threads.len() >= MOST_THREADS && !self.threads.contains_key(&tid) {
            self.forget_oldest();
        }
        let thread = self.threads.entry(tid).or_default();
        if thread.pid != pid {
            *thread = ThreadPast { pid, ..ThreadPast::default() };
        }
        if thread.spells.len() >= MOST_SPELLS {
            thread.compact();
        }
        thread.spells.push_back(spell);
    }

    /// Removes the half of all threads whose last wait is oldest.
    fn forget_oldest(&mut self) {
        let mut latest: Vec<u64> = self.threads.values().map(ThreadPast::latest_ns).collect();
        let middle = latest.len() / 2;
        let (_, median, _) = latest.select_nth_unstable(middle);
        let median = *median;
        self.threads.retain(|_, thread| thread.latest_ns() > median);
    }

    /// The paths of `sleep` if it was for `holder`: what that thread waited for meanwhile. A thread
    /// that only queued for the same lock before the sleeper is left out of the path.
    pub fn paths(&self, holder: Hop, sleep: &ThreadSleep) -> Vec<Path> {
        let (start_ns, end_ns) = (sleep.start_ns, sleep.end_ns);
        let Some(thread) = self.threads.get(&holder.tid) else { return Vec::new() };
        let mut found: Vec<Path> = Vec::new();
        for spell in thread.since(start_ns) {
            // Its own hop, and where it slept.
            let (syscall, user_stack_id) = (spell.syscall, spell.user_stack_id);
            let own = Hop { syscall, user_stack_id, lock: spell.lock_file, ..holder };
            let queued = spell.lock.is_some_and(|lock| {
                Some(lock) == sleep.lock && (lock >= KERNEL || holder.pid == sleep.first.pid)
            });
            for mut path in spell.within(start_ns, end_ns) {
                if path.storage_ns == 0 || path.hops.len() + 2 > MOST_HOPS {
                    continue;
                }
                // A thread does not wait for itself: its earlier waits only overlap with its sleep.
                let is_circle = |hop: &Hop| hop.tid == sleep.first.tid || hop.tid == holder.tid;
                if path.hops.iter().any(is_circle) {
                    continue;
                }
                if !queued || path.hops.is_empty() {
                    path.hops.insert(0, own);
                }
                match found.iter_mut().find(|known| known.is_like(&path)) {
                    Some(known) => known.absorb(&path),
                    None => found.push(path),
                }
            }
        }
        found.compact_sort_by_key(|path| std::cmp::Reverse(path.storage_ns));
        found.truncate(MOST_PATHS);
        // A thread waits for one thing at a time, even if its records overlap.
        let mut left = end_ns.saturating_sub(start_ns);
        for path in &mut found {
            path.storage_ns = path.storage_ns.min(left);
            left -= path.storage_ns;
        }
        found.retain(|path| path.storage_ns > 0);
        found
    }

    /// The threads of a process, with the time that each waited for storage between two times.
    pub fn of_process(&self, pid: u32, start_ns: u64, end_ns: u64) -> Vec<(u32, u64)> {
        let own = self.threads.iter().filter(|(_, thread)| thread.pid == pid);
        own.map(|(tid, thread)| {
            let paths = thread.since(start_ns).flat_map(|spell| spell.within(start_ns, end_ns));
            (*tid, paths.map(|path| path.storage_ns).fold(0, u64::saturating_add))
        })
        .collect()
    }

    /// The processes with a history.
    pub fn processes(&self) -> rustc_hash::FxHashSet<u32> {
        self.threads.values().map(|thread| thread.pid).collect()
    }

    /// The process of a thread with a history.
    pub fn process_of(&self, tid: u32) -> Option<u32> {
        self.threads.get(&tid).map(|thread| thread.pid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hop(tid: u32) -> Hop {
        Hop {
            known_by: Some(KnownBy::Woken),
            pid: 1,
            tid,
            process: None,
            thread: None,
            cgroup: None,
            workload: WorkloadNames::default(),
            syscall: None,
            user_stack_id: None,
            lock: None,
        }
    }

    fn sleep(tid: u32, start_ns: u64, end_ns: u64) -> ThreadSleep {
        ThreadSleep {
            first: hop(tid),
            start_ns,
            end_ns,
            censored: false,
            wait_id: None,
            lock: None,
        }
    }

    fn storage(wait_id: u64, class: WaitClass) -> Storage {
        Storage {
            wait_id,
            class,
            device: None,
            file: None,
            volume: None,
            stack_id: None,
            user_stack_id: None,
        }
    }

    #[test]
    fn who_waits_for_a_thread_waits_for_its_storage() {
        let mut past = WaitPast::default();
        past.note(&sleep(7, 100, 200), storage(1, WaitClass::Device));
        past.note(&sleep(7, 250, 300), storage(2, WaitClass::Device));
        past.note(&sleep(7, 300, 340), storage(3, WaitClass::JournalCommit));
        let paths = past.paths(hop(7), &sleep(1, 150, 320));
        let found: Vec<_> =
            paths.iter().map(|path| (path.storage.class, path.storage_ns, path.waits)).collect();
        assert_eq!(found, [(WaitClass::Device, 100, 2), (WaitClass::JournalCommit, 20, 1)]);
        assert!(past.paths(hop(7), &sleep(1, 340, 400)).is_empty());
        assert!(past.paths(hop(8), &sleep(1, 0, 400)).is_empty());
    }

    #[test]
    fn three_hops_are_one_path() {
        let mut past = WaitPast::default();
        past.note(&sleep(9, 100, 180), storage(1, WaitClass::Device));
        let second = past.paths(hop(9), &sleep(8, 110, 190));
        past.note_chain(&sleep(8, 110, 190), second);
        let third = past.paths(hop(8), &sleep(7, 120, 200));
        let rows = sleep(7, 120, 200).rows(5, &third);
        let tids: Vec<u32> = rows.iter().map(|row| row.tid).collect();
        assert_eq!(tids, [7, 8, 9]);
        assert_eq!(rows.iter().map(|row| row.hop).collect::<Vec<_>>(), [0, 1, 2]);
        // 8 slept 80 ns, 70 of them for storage; 70 of those 80 lie within the sleep of 7.
        assert!(rows.iter().all(|row| (row.chain_id, row.storage_ns) == (5, 61)), "{rows:?}");
        assert_eq!((rows[0].class, rows[2].class), (None, Some(WaitClass::Device)));
    }

    #[test]
    fn nobody_waits_for_itself() {
        let mut past = WaitPast::default();
        past.note(&sleep(9, 100, 180), storage(1, WaitClass::Device));
        let second = past.paths(hop(9), &sleep(8, 110, 190));
        past.note_chain(&sleep(8, 110, 190), second);
        // 9 waits for 8, which waited for 9.
        assert!(past.paths(hop(8), &sleep(9, 181, 200)).is_empty());
        assert_eq!(past.paths(hop(8), &sleep(7, 120, 200)).len(), 1);
        // 8 waits for 7, which waited for 8, which waited for 9.
        let third = past.paths(hop(8), &sleep(7, 120, 200));
        past.note_chain(&sleep(7, 120, 200), third);
        assert!(past.paths(hop(7), &sleep(8, 190, 210)).is_empty());
        assert!(past.paths(hop(7), &sleep(9, 190, 210)).is_empty());
        assert_eq!(past.paths(hop(7), &sleep(6, 190, 210)).len(), 1);
    }

    #[test]
    fn who_queues_for_the_same_lock_is_no_hop() {
        let mut past = WaitPast::default();
        past.note(&sleep(9, 100, 180), storage(1, WaitClass::Device));
        let locked = |tid, end_ns| ThreadSleep { lock: Some(0x1000), ..sleep(tid, 110, end_ns) };
        let second = past.paths(hop(9), &locked(8, 180));
        past.note_chain(&locked(8, 180), second);
        let third = past.paths(hop(8), &locked(7, 190));
        assert_eq!(third[0].hops.iter().map(|hop| hop.tid).collect::<Vec<_>>(), [9]);
        let other = past.paths(hop(8), &ThreadSleep { lock: Some(0x2000), ..locked(7, 190) });
        assert_eq!(other[0].hops.len(), 2);
    }

    #[test]
    fn a_long_past_is_bounded_and_keeps_its_time() {
        let mut past = WaitPast::default();
        for index in 0..10_000 {
            past.note(&sleep(7, index * 10, index * 10 + 10), storage(index, WaitClass::Fsync));
        }
        assert!(past.threads[&7].spells.len() <= MOST_SPELLS);
        let paths = past.paths(hop(7), &sleep(1, 0, 100_000));
        assert_eq!((paths[0].storage_ns, paths[0].waits), (100_000, 10_000));
        for tid in 0..10_000 {
            past.note(
                &sleep(tid, 200_000, 200_000 + u64::from(tid) + 1),
                storage(1, WaitClass::Tag),
            );
        }
        assert!(past.threads.len() <= MOST_THREADS);
        assert!(!past.paths(hop(9_999), &sleep(1, 0, 400_000)).is_empty());
    }

    #[test]
    fn a_number_that_is_used_again_has_no_past() {
        let mut past = WaitPast::default();
        past.note(&sleep(7, 100, 200), storage(1, WaitClass::Device));
        let mut other = sleep(7, 300, 400);
        other.first.pid = 2;
        past.note(&other, storage(2, WaitClass::Tag));
        assert_eq!(past.paths(hop(7), &sleep(1, 0, 400)).len(), 1);
        assert_eq!(past.of_process(1, 0, 400), []);
    }
}
