//! Wait chains, merged: forty workers that wait for one writer are one row.
//!
//! What does not belong here: how the threads of a chain are found
//! ([`iowhy_model::wait::recent_waits`]).

use crate::summary::{ChainReport, ChainRow, ChainStep, Work};
use crate::sums::own_io::is_own_name;
use iowhy_model::bounded_map::CappedMap;
use iowhy_model::compact_sort::CompactSort;
use iowhy_model::wait::locks::{folded, is_idle, is_idle_thread};
use iowhy_model::{KnownBy, Name, Names, Stack, WaitChain, WaitClass};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;

/// Maximum number of distinct wait chains; further ones are aggregated with others of the same kind
/// of end.
const MOST_CHAINS: usize = 1024;
/// Maximum number of threads, files and stacks in each of them.
const MOST_TOLD: usize = 1024;
const MOST_FILES: usize = 64;
/// Maximum number of listed chains.
const MOST_LISTED: usize = 50;
/// Maximum number of user stacks that are kept.
const MOST_STACKS: usize = 16_384;

/// A thread of a chain as part of the key: its name without digits, so that the members of a pool
/// are one.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
struct HopKey {
    /// The process; `None` where processes of one name are one.
    pid: Option<u32>,
    process: Option<Name>,
    thread: String,
    known_by: Option<KnownBy>,
    syscall: Option<u32>,
    lock: Option<Name>,
    /// Whether its stack shows that it waits for work, as some of a database's processes do.
    idle: bool,
}

impl HopKey {
    /// Whether both are the same except for `known_by`.
    fn is_beside(&self, other: &HopKey) -> bool {
        (self.pid, self.process, self.syscall, &self.thread)
            == (other.pid, other.process, other.syscall, &other.thread)
    }
}

/// The key of a chain.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
struct ChainKey {
    hops: Vec<HopKey>,
    class: Option<WaitClass>,
    device: Option<Name>,
    counted: bool,
}

#[derive(Clone, Debug, Default)]
struct ChainAccount {
    time_ns: u64,
    slept_ns: u64,
    longest_ns: u64,
    sleeps: u64,
    waits: u64,
    censored: u64,
    /// The threads at each hop.
    threads: Vec<FxHashSet<u32>>,
    /// The processes at each hop, with their time.
    processes: Vec<FxHashMap<u64, u64>>,
    files: FxHashMap<Option<Name>, u64>,
    /// User stacks at each hop, with their time.
    stacks: Vec<FxHashMap<u64, u64>>,
    /// The kernel stacks of the waits at its end.
    kernel_stacks: FxHashMap<u64, u64>,
}

/// A stack's functions, and why it is incomplete.
#[derive(Clone, Debug)]
struct ChainFrames {
    functions: Vec<Name>,
    complete: bool,
    reason: Option<Name>,
    unwound_by: Option<Name>,
}

/// Adds up chains as they come.
#[derive(Clone, Debug, Default)]
pub struct ChainTally {
    chains: CappedMap<ChainKey, ChainAccount, MOST_CHAINS>,
    further: ChainAccount,
    /// The rows of an incomplete path.
    path: Vec<WaitChain>,
    frames: CappedMap<(u64, bool), ChainFrames, MOST_STACKS>,
}

impl ChainTally {
    /// Records a stack's functions.
    pub fn meet(&mut self, stack: &Stack) {
        self.frames.or_insert_with((stack.stack_id, stack.user), || ChainFrames {
            functions: stack.frames.clone(),
            complete: stack.complete,
            reason: stack.reason,
            unwound_by: stack.unwound_by,
        });
    }

    /// Adds a row; those of one path come one after the other.
    pub fn add(&mut self, row: &WaitChain, names: &Names) {
        let next = |last: &WaitChain| {
            (last.chain_id, last.path, last.hop.checked_add(1))
                == (row.chain_id, row.path, Some(row.hop))
        };
        if !self.path.last().is_some_and(next) {
            self.path.clear();
            // The first rows of this path were lost; the rest is useless.
            if row.hop != 0 {
                return;
            }
        }
        self.path.push(row.clone());
        if row.class.is_some() {
            let path = std::mem::take(&mut self.path);
            self.add_path(&path, names);
        }
    }

    fn add_path(&mut self, path: &[WaitChain], names: &Names) {
        let (Some(first), Some(last)) = (path.first(), path.last()) else { return };
        if is_own_name(first.process, names) {
            return;
        }
        let mut hops: Vec<HopKey> = Vec::with_capacity(path.len());
        let mut rows: Vec<&WaitChain> = Vec::with_capacity(path.len());
        for row in path {
            let hop = self.kind(row, are_one(row, path), names);
            // Members of a pool that queue one behind the other are one.
            let queued = hops.last().is_some_and(|before| before.is_beside(&hop));
            if !queued || row.class.is_some() {
                hops.push(hop);
                rows.push(row);
            }
        }
        let key = ChainKey {
            hops,
            class: last.class,
            device: last.device,
            counted: first.wait_id.is_some(),
        };
        let account = self.chains.or_default(key).unwrap_or(&mut self.further);
        account.add(&rows, first, last);
    }

    fn kind(&self, row: &WaitChain, of_any_process: bool, names: &Names) -> HopKey {
        let stack = row.user_stack_id.and_then(|id| self.frames.get(&(id, true)));
        HopKey {
            pid: (!of_any_process).then_some(row.pid),
            process: row.process,
            thread: folded(&text(row.thread, names)),
            known_by: row.known_by,
            syscall: row.syscall,
            lock: row.lock,
            idle: stack.is_some_and(|stack| is_idle(&texts(&stack.functions, names))),
        }
    }

    /// Whether the first threads of a chain wait for work: by their most frequent stack, or by the
    /// names that a runtime gives such threads.
    fn is_idle(&self, key: &ChainKey, account: &ChainAccount, names: &Names) -> bool {
        let most = account.stacks.first().and_then(most);
        let frames = most.and_then(|id| self.frames.get(&(id, true)));
        let frames = frames.map(|frame| texts(&frame.functions, names)).unwrap_or_default();
        let Some(first) = key.hops.first() else { return false };
        first.lock.is_none() && (is_idle_thread(&first.thread, &frames) || is_idle(&frames))
    }

    /// The chains; `None` if there were none. A process that waits for its child is not a victim: a
    /// shell waits for all of its commands. Nor is a thread that waits for work.
    pub fn chains(
        &self,
        architecture: &str,
        work: &BTreeMap<u32, Work>,
        names: &Names,
    ) -> Option<ChainReport> {
        let mut all: Vec<(&ChainKey, &ChainAccount)> = self
            .chains
            .iter()
            .filter(|(key, account)| {
                !is_parent(key, architecture) && !self.is_idle(key, account, names)
            })
            .collect();
        if all.is_empty() {
            return None;
        }
        // By text, so that the order does not depend on name indices.
        all.sort_by_cached_key(|(key, account)| {
            (std::cmp::Reverse(account.time_ns), self.order(key, names))
        });
        let uncounted = all.iter().filter(|(key, _)| !key.counted);
        let time_ns = sum_of(uncounted.map(|(_, account)| account.time_ns));
        let mut threads: FxHashSet<u32> = FxHashSet::default();
        for (_, account) in &all {
            threads.extend(account.threads.first().into_iter().flatten());
        }
        let listed = all.iter().take(MOST_LISTED);
        let further = all.iter().skip(MOST_LISTED).map(|(_, account)| account.time_ns);
        Some(ChainReport {
            time_ns: time_ns.saturating_add(self.further.time_ns),
            threads: threads.len() as u64,
            rows: listed.map(|(key, account)| self.row(key, account, work, names)).collect(),
            further_ns: sum_of(further).saturating_add(self.further.time_ns),
        })
    }

    fn order(&self, key: &ChainKey, names: &Names) -> Vec<String> {
        let hop = |hop: &HopKey| {
            let process = text(hop.process, names);
            let lock = text(hop.lock, names);
            let (pid, thread) = (hop.pid.unwrap_or(0), &hop.thread);
            format!("{pid} {process} {thread} {:?} {:?} {lock}", hop.syscall, hop.known_by)
        };
        let end = format!("{:?} {} {}", key.class, text(key.device, names), key.counted);
        key.hops.iter().map(hop).chain([end]).collect()
    }

    fn row(
        &self,
        key: &ChainKey,
        account: &ChainAccount,
        work: &BTreeMap<u32, Work>,
        names: &Names,
    ) -> ChainRow {
        let steps = key.hops.iter().enumerate().map(|(place, hop)| {
            let most = account.stacks.get(place).and_then(most);
            let stack = most.and_then(|id| self.frames.get(&(id, true)));
            let threads = account.threads.get(place);
            let processes = account.processes.get(place);
            let pid = processes.and_then(self::most).map_or(0, |pid| pid as u32);
            ChainStep {
                known_by: hop.known_by.map(KnownBy::word),
                pid,
                work: work.get(&pid).cloned(),
                processes: processes.map_or(0, |processes| processes.len() as u64),
                lock: hop.lock.map(|lock| names.get(lock).to_owned()),
                thread: match text(hop.process, names) {
                    process if folded(&process) == hop.thread => process,
                    _ => hop.thread.clone(),
                },
                process: text(hop.process, names),
                threads: threads.map_or(0, |threads| threads.len() as u64),
                tid: threads
                    .filter(|threads| threads.len() == 1)
                    .and_then(|threads| threads.iter().next().copied()),
                syscall: hop.syscall,
                user_stack: stack.map(|stack| texts(&stack.functions, names)).unwrap_or_default(),
                user_stack_complete: stack.map(|stack| stack.complete),
                user_stack_reason: stack
                    .and_then(|stack| stack.reason)
                    .map(|reason| names.get(reason).to_owned()),
                user_stack_unwound_by: stack
                    .and_then(|stack| stack.unwound_by)
                    .map(|way| names.get(way).to_owned()),
            }
        });
        let kernel = most(&account.kernel_stacks).and_then(|id| self.frames.get(&(id, false)));
        let mut files: Vec<(&Option<Name>, &u64)> = account.files.iter().collect();
        files.compact_sort_by_key(|(file, time)| {
            (std::cmp::Reverse(**time), file.map(|file| names.get(file)))
        });
        let named = files.iter().filter_map(|(file, time)| file.map(|file| (file, **time)));
        ChainRow {
            time_ns: account.time_ns,
            slept_ns: account.slept_ns,
            longest_ns: account.longest_ns,
            sleeps: account.sleeps,
            waits: account.waits,
            censored_sleeps: account.censored,
            is_in_ledger: key.counted,
            steps: steps.collect(),
            class: key.class.unwrap_or(WaitClass::Unknown).word(),
            device: key.device.map(|device| names.get(device).to_owned()),
            files: named.take(3).map(|(file, time)| (names.get(file).to_owned(), time)).collect(),
            kernel_stack: kernel.map(|stack| texts(&stack.functions, names)).unwrap_or_default(),
        }
    }
}

impl ChainAccount {
    fn add(&mut self, path: &[&WaitChain], first: &WaitChain, last: &WaitChain) {
        let time = last.storage_ns;
        self.time_ns = self.time_ns.saturating_add(time);
        self.slept_ns = self.slept_ns.saturating_add(first.duration_ns);
        self.longest_ns = self.longest_ns.max(time);
        self.sleeps += 1;
        self.waits = self.waits.saturating_add(last.waits.unwrap_or(0));
        self.censored += u64::from(first.censored);
        self.threads.resize_with(self.threads.len().max(path.len()), FxHashSet::default);
        self.stacks.resize_with(self.stacks.len().max(path.len()), FxHashMap::default);
        self.processes.resize_with(self.processes.len().max(path.len()), FxHashMap::default);
        for (row, processes) in path.iter().zip(&mut self.processes) {
            put(processes, u64::from(row.pid), time, MOST_TOLD);
        }
        for (row, (threads, stacks)) in
            path.iter().zip(self.threads.iter_mut().zip(&mut self.stacks))
        {
            if threads.len() < MOST_TOLD {
                threads.insert(row.tid);
            }
            if let Some(stack) = row.user_stack_id {
                put(stacks, stack, time, MOST_FILES);
            }
        }
        put(&mut self.files, last.file, time, MOST_FILES);
        if let Some(stack) = last.stack_id {
            put(&mut self.kernel_stacks, stack, time, MOST_FILES);
        }
    }
}

/// Whether a chain begins in wait4(2) or waitid(2), for another process.
fn is_parent(key: &ChainKey, architecture: &str) -> bool {
    let waits: [u32; 2] = match architecture {
        "aarch64" | "riscv64" => [260, 95],
        _ => [61, 247],
    };
    let [first, second, ..] = &key.hops[..] else { return false };
    let is_other = first.pid.is_none() || first.pid != second.pid;
    is_other && first.syscall.is_some_and(|call| waits.contains(&call))
}

/// A recording may contain any number.
fn sum_of(times: impl Iterator<Item = u64>) -> u64 {
    times.fold(0, u64::saturating_add)
}

/// Adds to a key's time, unless it is one too many.
fn put<K: std::hash::Hash + Eq>(sums: &mut FxHashMap<K, u64>, key: K, time: u64, most: usize) {
    if sums.len() < most || sums.contains_key(&key) {
        let sum = sums.entry(key).or_default();
        *sum = sum.saturating_add(time);
    }
}

/// The one with the most time; of equals the lowest number.
fn most(sums: &FxHashMap<u64, u64>) -> Option<u64> {
    sums.iter().max_by_key(|(id, time)| (**time, std::cmp::Reverse(**id))).map(|(id, _)| *id)
}

/// Whether processes of the name of this hop's are one in the chain: those that wait for the lock
/// of a file, and those of a program that wait for each other for anything else.
fn are_one(row: &WaitChain, path: &[WaitChain]) -> bool {
    let is_like = |other: &WaitChain| other.process == row.process && other.pid != row.pid;
    let of_file = path.iter().any(|row| row.lock.is_some());
    row.lock.is_some() || !of_file && row.process.is_some() && path.iter().any(is_like)
}

fn text(name: Option<Name>, names: &Names) -> String {
    name.map(|name| names.get(name).to_owned()).unwrap_or_default()
}

fn texts(frames: &[Name], names: &Names) -> Vec<String> {
    frames.iter().map(|name| names.get(*name).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::ScriptSummary;
    use iowhy_model::script::Script;

    #[test]
    fn forty_workers_that_wait_for_one_writer_are_one_chain() {
        let mut script = Script::new(10);
        for tid in 100..141 {
            script.chain(&[(tid, &format!("worker-{tid}")), (7, "snapshot-writer")], 2_000, 3_000);
        }
        script.chain(&[(9, "reader"), (8, "relay"), (7, "snapshot-writer")], 500, 500);
        let chains = script.summary().chains.expect("there are chains");
        assert_eq!((chains.time_ns, chains.threads, chains.rows.len()), (82_500, 42, 2));
        let most = &chains.rows[0];
        assert_eq!((most.time_ns, most.slept_ns, most.sleeps), (82_000, 123_000, 41));
        assert_eq!((most.steps[0].threads, most.steps[0].thread.as_str()), (41, "worker-*"));
        assert_eq!((most.steps[1].tid, most.class), (Some(7), "fsync"));
        assert_eq!(chains.rows[1].steps.len(), 3);
        assert_eq!(chains.rows[1].files, [("/data/snap".to_owned(), 500)]);
    }

    #[test]
    fn a_shell_is_no_victim_of_its_command() {
        for (call, is_reported) in [(61, false), (247, false), (202, true)] {
            let mut script = Script::new(10);
            script.chain(&[(5, "sh"), (7, "cat")], 2_000, 3_000);
            let rows = &mut script.batch.wait_chains;
            (rows[0].pid, rows[0].syscall) = (5, Some(call));
            assert_eq!(script.summary().chains.is_some(), is_reported, "{call}");
        }
    }

    #[test]
    fn a_queue_of_one_pool_is_one_place() {
        let mut script = Script::new(10);
        let names = ["worker-1", "worker-2", "worker-3", "snapshot-writer"];
        let queue: Vec<(u32, &str)> = (1..).zip(names).collect();
        for first in 0..3 {
            script.chain(&queue[first..], 1_000, 1_000);
        }
        script.chain(&[(1, "worker-1"), (2, "worker-2")], 1_000, 1_000);
        let rows = script.summary().chains.expect("there are chains").rows;
        assert_eq!(rows.len(), 2, "{rows:?}");
        assert_eq!((rows[0].steps.len(), rows[0].sleeps, rows[0].steps[0].threads), (2, 3, 3));
        // The thread that waits for storage itself is always named.
        assert_eq!(rows[1].steps.len(), 2);
    }

    #[test]
    fn what_the_ledger_holds_is_not_added_up_again() {
        let mut script = Script::new(10);
        script.wait((5, "touch"), WaitClass::FsLock, 4_000, 0, 0);
        script.chain(&[(5, "touch"), (7, "writer")], 4_000, 4_000);
        script.batch.wait_chains[0].wait_id = Some(1);
        script.chain(&[(6, "idle"), (7, "writer")], 1_000, 4_000);
        let summary = script.summary();
        let chains = summary.chains.expect("there are chains");
        assert_eq!(chains.time_ns, 1_000);
        assert!(chains.rows[0].is_in_ledger && !chains.rows[1].is_in_ledger);
        assert_eq!(summary.ledger.map(|ledger| ledger.blocked_ns), Some(4_000));
    }

    #[test]
    fn processes_that_wait_for_the_lock_of_a_file_are_one_chain() {
        let mut script = Script::new(10);
        for job in 0..4 {
            script.chain(&[(20 + job, "job"), (7, "cat")], 1_000, 1_000);
        }
        let [job, cat, lock] = ["job", "cat", "/run/lock"].map(|name| script.names.intern(name));
        for row in &mut script.batch.wait_chains {
            (row.pid, row.process) = (row.tid, Some(if row.hop == 0 { job } else { cat }));
            row.lock = (row.hop == 0).then_some(lock);
        }
        let chains = script.summary().chains.expect("there are chains");
        let [row] = chains.rows.as_slice() else { panic!("{chains:?}") };
        let first = &row.steps[0];
        assert_eq!((first.processes, first.lock.as_deref()), (4, Some("/run/lock")));
        assert_eq!((row.steps[1].processes, row.steps[1].pid), (1, 7));
        assert_eq!((chains.time_ns, chains.threads), (4_000, 4));
    }

    #[test]
    fn sessions_that_queue_for_each_other_are_one_chain() {
        let mut script = Script::new(10);
        script.chain(&[(20, "postgres"), (7, "postgres")], 1_000, 1_000);
        script.chain(&[(21, "postgres"), (20, "postgres"), (7, "postgres")], 900, 1_000);
        let postgres = script.names.intern("postgres");
        for row in &mut script.batch.wait_chains {
            (row.pid, row.process) = (row.tid, Some(postgres));
        }
        let chains = script.summary().chains.expect("there are chains");
        let [row] = chains.rows.as_slice() else { panic!("{chains:?}") };
        assert_eq!((row.steps.len(), row.steps[0].processes, row.time_ns), (2, 2, 1_900));
    }

    #[test]
    fn who_waits_for_work_is_in_no_chain() {
        let mut script = Script::new(10);
        script.chain(&[(20, "C2 CompilerThre"), (7, "main")], 5_000, 5_000);
        assert_eq!(script.summary().chains, None);
        script.chain(&[(21, "worker"), (7, "main")], 1_000, 1_000);
        assert_eq!(script.summary().chains.map(|chains| chains.time_ns), Some(1_000));
    }

    #[test]
    fn a_path_without_its_beginning_or_end_is_left_out() {
        let mut script = Script::new(10);
        script.chain(&[(5, "a"), (6, "b"), (7, "c")], 1_000, 1_000);
        let whole = script.batch.wait_chains.clone();
        for (lost, found) in [(0, false), (1, false), (2, false)] {
            script.batch.wait_chains = whole.clone();
            script.batch.wait_chains.remove(lost);
            assert_eq!(script.summary().chains.is_some(), found, "without row {lost}");
        }
        assert_eq!(Script::new(10).summary().chains, None);
    }
}
