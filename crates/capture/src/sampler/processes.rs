//! The I/O of each process, by devices and by system calls, from /proc/PID/io and stat. The kernel
//! adds the counters of a process to its parent's when the parent reaps it. What was already
//! reported as the child's is subtracted there, to avoid double counting. A process is therefore
//! always read together with its parents.
//!
//! What does not belong here: who processes are (see [`crate::host::process`]).

use super::Out;
use super::work::WorkSampler;
use crate::host::cgroup::Roots;
use crate::host::process::{ProcStat, tick_ns};
use crate::host::{own, read_text, system};
use iowhy_model::compact_sort::CompactSort;
use iowhy_model::metric::process_subject;
use iowhy_model::{Metric, Name};
use rustc_hash::{FxHashMap, FxHashSet};

/// CPU time per sample of processes: 1 % of a CPU at one sample a second; twice that if many did
/// I/O recently or are new.
const BUDGET_NS: u64 = 10_000_000;
/// Processes that get rows per sample: those with the most I/O.
const MOST_TOLD: usize = 50;
/// For how many samples a process that did I/O is read before others.
const LATELY: u64 = 8;
/// Times that an heir is read that does not have its child's counters yet: the first read may be
/// from before the child was reaped.
const CHANCES: u32 = 2;

/// Lines of /proc/PID/io, in its order.
const IO: [Metric; 7] = [
    Metric::LogicalRead,
    Metric::LogicalWrite,
    Metric::ReadCalls,
    Metric::WriteCalls,
    Metric::CausedRead,
    Metric::CausedWrite,
    Metric::CancelledWrite,
];
const OTHER: [Metric; 2] = [Metric::ProcessMajorFaults, Metric::DelayedByIo];

#[derive(Debug, Default)]
pub(super) struct ProcessSampler {
    known: FxHashMap<u32, KnownProcess>,
    /// Exited processes whose counters no heir has yet.
    ended: Vec<EndedProcess>,
    /// Every process of the last sample.
    listed: FxHashSet<u32>,
    looks: u64,
    /// The process that the next sample begins with, of those without recent I/O.
    cursor: u32,
    /// Time at which the watch began, CLOCK_MONOTONIC nanoseconds.
    start_ns: u64,
    /// Processes that got their first rows, until their identity is recorded.
    pub told: Vec<u32>,
    work: WorkSampler,
}

#[derive(Clone, Copy, Debug)]
struct KnownProcess {
    subject: Name,
    started: u64,
    parent: u32,
    io: [u64; 7],
    /// The part of `io` from children that were reported themselves.
    inherited: [u64; 7],
    /// Major faults and time waited for block I/O, as last reported.
    others: [u64; 2],
    /// The time when its counters were all zero, if it began during the watch and has not been
    /// reported yet.
    began_ns: Option<u64>,
    /// The sample at which its counters changed last.
    changed: u64,
    seen: u64,
    /// The sample at which its counters were read last, and their values.
    read: u64,
    read_io: [u64; 7],
    /// Whether it has rows.
    told: bool,
}

/// A process that has exited.
#[derive(Debug)]
struct EndedProcess {
    known: KnownProcess,
    /// The closest living ancestor.
    heir: u32,
    /// Times that the heir was read since without having the counters.
    refused: u32,
}

impl KnownProcess {
    /// Returns the process's own counters, if its totals are `io`.
    fn own(&self, io: &[u64; 7]) -> [u64; 7] {
        std::array::from_fn(|at| io[at].saturating_sub(self.inherited[at]))
    }

    /// Subtracts an exited child's counters if the totals `io` include them. Returns whether they
    /// do: they do not if the child was not reaped.
    fn inherit(&mut self, io: &[u64; 7], child: &KnownProcess) -> bool {
        let with = |numbers: &[u64; 7]| -> [u64; 7] {
            std::array::from_fn(|at| numbers[at].saturating_add(child.io[at]))
        };
        let known = with(&self.io);
        let holds_it = io.iter().zip(known).all(|(now, known)| *now >= known);
        if holds_it {
            (self.io, self.inherited) = (known, with(&self.inherited));
        }
        holds_it
    }
}

/// A process whose counters have changed.
struct Changed {
    pid: u32,
    io: [u64; 7],
}

/// Fields of /proc/PID/stat.
struct Stated {
    name: String,
    started_ns: u64,
    parent: u32,
    /// Major faults and time waited for block I/O.
    others: [u64; 2],
}

impl Stated {
    /// The time when its counters were all zero, in a watch that began at `start_ns`; `None` if it
    /// began before. Its start time has the resolution of a tick.
    fn began_ns(&self, start_ns: u64, now_ns: u64) -> Option<u64> {
        let started_ns = self.started_ns.saturating_add_signed(system::boottime_offset_ns());
        let is_new = started_ns.saturating_add(tick_ns()) > start_ns;
        is_new.then_some(started_ns.max(start_ns).min(now_ns))
    }
}

impl ProcessSampler {
    /// For a watch that began at `start_ns`, and controllers with these roots.
    pub fn new(start_ns: u64, roots: Roots) -> ProcessSampler {
        ProcessSampler { start_ns, work: WorkSampler::new(roots), ..ProcessSampler::default() }
    }

    /// Every other process of the last sample.
    pub fn listed(&self) -> &FxHashSet<u32> {
        &self.listed
    }

    pub fn look(&mut self, out: &mut Out<'_>) {
        self.looks += 1;
        let begun_ns = own::cpu_ns();
        let (first, rest) = self.order();
        let mut changed = Vec::new();
        let mut unread = 0;
        for (index, pid) in first.iter().chain(&rest).enumerate() {
            let budget_ns = if index < first.len() { BUDGET_NS * 2 } else { BUDGET_NS };
            let is_over = own::cpu_ns() - begun_ns > budget_ns;
            if is_over {
                unread += 1;
                self.known.entry(*pid).and_modify(|known| known.seen = self.looks);
                continue;
            }
            self.cursor = if index < first.len() { self.cursor } else { *pid };
            self.read(*pid, out, &mut changed);
        }
        self.forget(&changed, out);
        changed.sort_by_cached_key(|process| std::cmp::Reverse(self.moved(process)));
        let untold = changed.len().saturating_sub(MOST_TOLD);
        for it in changed.iter().take(MOST_TOLD) {
            self.tell(it, out);
        }
        let told = changed.iter().take(MOST_TOLD);
        let told =
            told.filter_map(|process| Some((process.pid, self.known.get(&process.pid)?.subject)));
        let told: Vec<(u32, Name)> = told.collect();
        self.work.look(&told, out);
        out.system(Metric::ProcessesUnread, unread);
        out.system(Metric::ProcessesUntold, untold as u64);
    }

    /// Processes with recent I/O and possible heirs, parents mostly before their children; then new
    /// ones, newest first; then, separately, the others from where the last sample ended.
    fn order(&mut self) -> (Vec<u32>, Vec<u32>) {
        let Ok(entries) = std::fs::read_dir("/proc") else { return Default::default() };
        let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let own = std::process::id();
        let all: FxHashSet<u32> = numbers.filter(|pid| *pid != own).collect();
        let heirs: FxHashSet<u32> = self.ended.iter().map(|ended| ended.heir).collect();
        let is_lately =
            |known: &KnownProcess| known.changed > 0 && known.changed + LATELY > self.looks;
        let is_active =
            |pid: &u32| self.known.get(pid).is_some_and(is_lately) || heirs.contains(pid);
        let is_new = |pid: &u32| self.looks > 1 && !self.listed.contains(pid);
        let (mut first, others): (Vec<u32>, Vec<u32>) = all.iter().partition(|pid| is_active(pid));
        let (mut new, mut rest): (Vec<u32>, Vec<u32>) = others.iter().partition(|pid| is_new(pid));
        first.sort_unstable();
        new.compact_sort_by_key(|pid| std::cmp::Reverse(*pid));
        first.append(&mut new);
        rest.sort_unstable();
        let from = rest.partition_point(|pid| *pid <= self.cursor);
        rest.rotate_left(from);
        self.listed = all;
        (first, rest)
    }

    /// Reads a process, and, if it is new, its parents: they inherit its counters when it exits,
    /// and must be known by then to subtract them.
    fn read(&mut self, pid: u32, out: &mut Out<'_>, changed: &mut Vec<Changed>) {
        let mut next = Some(pid);
        while let Some(pid) = next {
            let is_met = !self.known.contains_key(&pid);
            changed.extend(self.read_one(pid, out));
            let parent = self.known.get(&pid).filter(|_| is_met).map(|known| known.parent);
            next = parent
                .filter(|parent| *parent != std::process::id() && !self.known.contains_key(parent));
        }
    }

    /// Reads a process, once per sample. Returns it if it has changed since it was last reported.
    fn read_one(&mut self, pid: u32, out: &mut Out<'_>) -> Option<Changed> {
        if self.known.get(&pid).is_some_and(|known| known.read == self.looks) {
            return None;
        }
        let io = io_of(&read_text(format!("/proc/{pid}/io"))?)?;
        if !self.known.contains_key(&pid) {
            let known = self.meet(pid, io, out)?;
            self.known.insert(pid, known);
        }
        let known = self.known.get_mut(&pid)?;
        (known.seen, known.read) = (self.looks, self.looks);
        if std::mem::replace(&mut known.read_io, io) != io {
            known.changed = self.looks;
        }
        if known.io == io {
            put(out, known.subject, &known.own(&io), None);
            return None;
        }
        Some(Changed { pid, io })
    }

    /// Adds a process that was not read before: its counters count if it began during the watch.
    /// Earlier samples may have had no time for it.
    fn meet(&self, pid: u32, io: [u64; 7], out: &mut Out<'_>) -> Option<KnownProcess> {
        let stat = stat_of(pid)?;
        let subject = out.names.intern(&process_subject(pid, &stat.name));
        let began_ns = stat.began_ns(self.start_ns, out.now_ns);
        let (before, others) =
            if began_ns.is_some() { ([0; 7], [0; 2]) } else { (io, stat.others) };
        if began_ns.is_none() {
            put(out, subject, &io, Some(&others));
        }
        Some(KnownProcess {
            subject,
            started: stat.started_ns,
            parent: stat.parent,
            io: before,
            inherited: [0; 7],
            others,
            began_ns,
            changed: 0,
            seen: self.looks,
            read: self.looks,
            read_io: before,
            told: false,
        })
    }

    fn tell(&mut self, changed: &Changed, out: &mut Out<'_>) {
        let Some(stat) = stat_of(changed.pid) else { return };
        let Some(known) = self.known.get_mut(&changed.pid) else { return };
        let subject = out.names.intern(&process_subject(changed.pid, &stat.name));
        if known.started != stat.started_ns || known.subject != subject {
            // The number was reused, or it runs another program now.
            out.forget(&IO, known.subject);
            out.forget(&OTHER, known.subject);
            if known.started != stat.started_ns {
                (known.io, known.inherited, known.others) = ([0; 7], [0; 7], [0; 2]);
                known.began_ns = stat.began_ns(self.start_ns, out.now_ns);
            }
            if known.began_ns.is_none() {
                put(out, subject, &known.own(&known.io), Some(&known.others));
            }
            (known.subject, known.started, known.told) = (subject, stat.started_ns, false);
        }
        if !std::mem::replace(&mut known.told, true) {
            self.told.push(changed.pid);
        }
        (known.io, known.others, known.parent) = (changed.io, stat.others, stat.parent);
        let own = known.own(&known.io);
        match known.began_ns.take() {
            Some(began_ns) => put_since(out, subject, began_ns, &own, &stat.others),
            None => put(out, subject, &own, Some(&stat.others)),
        }
    }

    /// Returns a weight of a process's I/O since it was last reported: device I/O counts before
    /// copies from and to memory.
    fn moved(&self, changed: &Changed) -> u64 {
        let Some(known) = self.known.get(&changed.pid) else { return 0 };
        let moved = |at: usize| changed.io[at].saturating_sub(known.io[at]);
        (moved(4) + moved(5)).saturating_mul(1000) + moved(0) + moved(1)
    }

    /// Drops exited processes, whose parents have their counters now.
    fn forget(&mut self, changed: &[Changed], out: &mut Out<'_>) {
        let looks = self.looks;
        let gone: FxHashMap<u32, KnownProcess> =
            self.known.extract_if(|_, known| known.seen < looks).collect();
        for child in gone.values() {
            out.forget(&IO, child.subject);
            out.forget(&OTHER, child.subject);
        }
        self.hand_over(&gone, changed);
    }

    /// Subtracts the counters of exited processes from those of their heirs, once these include
    /// them.
    fn hand_over(&mut self, gone: &FxHashMap<u32, KnownProcess>, changed: &[Changed]) {
        let changed: FxHashMap<u32, [u64; 7]> =
            changed.iter().map(|process| (process.pid, process.io)).collect();
        let new = gone.values().map(|process| EndedProcess {
            known: *process,
            heir: process.parent,
            refused: 0,
        });
        let ended: Vec<EndedProcess> =
            std::mem::take(&mut self.ended).into_iter().chain(new).collect();
        for mut child in ended {
            child.heir = heir_of(child.heir, gone);
            let Some(heir) = self.known.get_mut(&child.heir) else { continue };
            let inherits =
                changed.get(&child.heir).is_some_and(|now| heir.inherit(now, &child.known));
            child.refused += u32::from(heir.read == self.looks);
            if !inherits && child.refused < CHANCES {
                self.ended.push(child);
            }
        }
    }
}

/// The closest living ancestor of a process.
fn heir_of(mut pid: u32, gone: &FxHashMap<u32, KnownProcess>) -> u32 {
    // Reused numbers could form a cycle.
    for _ in 0..gone.len() {
        let Some(known) = gone.get(&pid) else { break };
        pid = known.parent;
    }
    pid
}

fn put(out: &mut Out<'_>, subject: Name, io: &[u64; 7], others: Option<&[u64; 2]>) {
    IO.iter().zip(io).for_each(|(metric, value)| out.put(*metric, subject, *value));
    for (metric, value) in OTHER.iter().zip(others.into_iter().flatten()) {
        out.put(*metric, subject, *value);
    }
}

/// Adds the rows of a process whose counters were zero at `began_ns`.
fn put_since(out: &mut Out<'_>, subject: Name, began_ns: u64, io: &[u64; 7], others: &[u64; 2]) {
    for (metric, value) in IO.iter().zip(io).chain(OTHER.iter().zip(others)) {
        out.put_since(*metric, subject, (0, began_ns), *value);
    }
}

/// The seven numbers of /proc/PID/io.
fn io_of(text: &str) -> Option<[u64; 7]> {
    let numbers = text.lines().map(|line| line.split_once(": ")?.1.trim().parse().ok());
    let numbers: Option<Vec<u64>> = numbers.collect();
    numbers?.try_into().ok()
}

fn stat_of(pid: u32) -> Option<Stated> {
    let stat = ProcStat::for_pid(pid)?;
    Some(Stated {
        started_ns: stat.start_ns()?,
        parent: u32::try_from(stat.field(4)?).ok()?,
        others: [stat.field(12)?, stat.ticks_ns(42).unwrap_or(0)],
        name: stat.name,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_can_be_read() {
        let own = std::process::id();
        let stat = stat_of(own).unwrap();
        assert!(!stat.name.is_empty() && stat.started_ns > 0 && stat.parent > 0);
        let text = "rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 5\nwrite_bytes: 6\n\
                    cancelled_write_bytes: 7\n";
        assert_eq!(io_of(text), Some([1, 2, 3, 4, 5, 6, 7]));
        assert_eq!(io_of("rchar: 1\n"), None);
    }

    fn known(io: [u64; 7]) -> KnownProcess {
        KnownProcess {
            subject: Name::EMPTY,
            started: 1,
            parent: 1,
            io,
            inherited: [0; 7],
            others: [0; 2],
            began_ns: None,
            changed: 0,
            seen: 0,
            read: 0,
            read_io: io,
            told: true,
        }
    }

    #[test]
    fn what_a_child_was_told_to_have_done_is_not_its_parents() {
        let (mut parent, child) = (known([10; 7]), known([100; 7]));
        assert!(parent.inherit(&[115; 7], &child));
        assert_eq!(parent.own(&[115; 7]), [15; 7]);
        // The parent's own earlier I/O remains.
        assert_eq!(parent.own(&parent.io), [10; 7]);
        // The second child was not reaped.
        parent.io = [115; 7];
        assert!(!parent.inherit(&[120; 7], &child));
        assert_eq!(parent.own(&[120; 7]), [20; 7]);
    }

    /// A process without children to wait for, and its counters at the next sample.
    fn of_parent(parent: u32, io: u64) -> KnownProcess {
        KnownProcess { parent, ..known([io; 7]) }
    }

    /// Process 1's own counters after each sample with these totals; `gone` are processes that
    /// exited before the first sample.
    fn own_after(gone: &[(u32, KnownProcess)], looks: &[u64]) -> Vec<u64> {
        let mut processes = ProcessSampler::default();
        processes.known.insert(1, known([10; 7]));
        let mut gone: FxHashMap<u32, KnownProcess> = gone.iter().copied().collect();
        let told = looks.iter().map(|now| {
            let io = [*now; 7];
            processes.looks += 1;
            processes.known.get_mut(&1).unwrap().read = processes.looks;
            processes.hand_over(&std::mem::take(&mut gone), &[Changed { pid: 1, io }]);
            let parent = processes.known.get_mut(&1).unwrap();
            parent.io = io;
            parent.own(&io)[0]
        });
        told.collect()
    }

    #[test]
    fn a_child_that_ends_after_its_parent_was_read_is_handed_over_at_the_next_look() {
        assert_eq!(own_after(&[(7, of_parent(1, 100))], &[12, 115]), [12, 15]);
        // The child was not reaped.
        assert_eq!(own_after(&[(7, of_parent(1, 100))], &[12, 14, 200]), [12, 14, 200]);
    }

    /// Returns the reads that samples report of this process in a watch that began at `start_ns`,
    /// and their times.
    fn told_of_this_one(start_ns: u64) -> Vec<(f64, u64)> {
        let (mut written, mut batch, mut names) = Default::default();
        let mut processes = ProcessSampler::new(start_ns, Roots::default());
        processes.looks = 5;
        let now_ns = system::now_ns();
        let mut out = Out { now_ns, written: &mut written, batch: &mut batch, names: &mut names };
        let mut changed = Vec::new();
        processes.read(std::process::id(), &mut out, &mut changed);
        // The process's parents are read with it.
        for it in changed.iter().filter(|process| process.pid == std::process::id()) {
            processes.tell(it, &mut out);
        }
        let metric = names.intern(Metric::ReadCalls.info().word);
        let rows = batch.samples.iter().filter(|row| row.metric == metric);
        rows.map(|row| (row.value, row.time_ns)).collect()
    }

    /// A sample may have no time for a process that began between two of them: its I/O before its
    /// first read still counts, from its beginning on.
    #[test]
    fn what_began_in_the_watch_counts_from_its_beginning() {
        let rows = told_of_this_one(1);
        let [(none, began_ns), (all, now_ns)] = rows.as_slice() else { panic!("{rows:?}") };
        assert!(*none == 0.0 && *all > 0.0 && began_ns < now_ns, "{rows:?}");
        assert!(told_of_this_one(system::now_ns() + 1_000_000_000).is_empty());
    }

    /// Parents inherit the counters of a process, and must be known by then.
    #[test]
    fn a_process_is_read_with_its_parents() {
        let (mut written, mut batch, mut names) = Default::default();
        let mut out =
            Out { now_ns: 5, written: &mut written, batch: &mut batch, names: &mut names };
        let mut processes = ProcessSampler::new(system::now_ns(), Roots::default());
        processes.looks = 1;
        // The shell waits for cat, and cat for its input.
        let mut shell = std::process::Command::new("sh");
        let shell = shell.args(["-c", "cat; :"]).stdin(std::process::Stdio::piped());
        let mut shell = shell.spawn().unwrap();
        let children = format!("/proc/{0}/task/{0}/children", shell.id());
        let cat = std::iter::repeat_with(|| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            std::fs::read_to_string(&children).ok()?.trim().parse().ok()
        });
        let cat = cat.take(5000).flatten().next();
        let mut changed = Vec::new();
        processes.read(cat.unwrap_or(0), &mut out, &mut changed);
        let is_parent_known = processes.known.contains_key(&shell.id());
        // Once per sample.
        processes.read(shell.id(), &mut out, &mut changed);
        drop(shell.stdin.take());
        shell.wait().unwrap();
        assert!(is_parent_known);
        assert_eq!(changed.iter().filter(|process| process.pid == shell.id()).count(), 1);
    }

    #[test]
    fn who_ends_with_its_parent_is_its_parents_parents() {
        let (shell, tar) = ((7, of_parent(1, 5)), (8, of_parent(7, 100)));
        assert_eq!(own_after(&[shell, tar], &[120]), [15]);
        // Reused numbers.
        let circle = [(7, of_parent(8, 5)), (8, of_parent(7, 5))];
        assert_eq!(own_after(&circle, &[30]), [30]);
    }

    #[test]
    fn a_parent_that_was_not_read_may_still_inherit() {
        let mut processes = ProcessSampler::default();
        processes.known.insert(1, known([10; 7]));
        let none = FxHashMap::default();
        let gone: FxHashMap<u32, KnownProcess> = [(7, of_parent(1, 100))].into_iter().collect();
        for look in 1..10 {
            processes.looks = look;
            processes.hand_over(if look == 1 { &gone } else { &none }, &[]);
        }
        assert_eq!(processes.ended.len(), 1);
    }
}
