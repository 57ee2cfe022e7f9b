//! The threads that were seen submitting I/O or dirtying pages.

use super::RowOutput;
use super::cgroups::{KnownCgroup, KnownCgroups};
use super::files::KnownFiles;
use crate::host::process::{ProcessIdentity, tick_ns};
use crate::host::text_of;
use crate::host::users::Users;
use crate::reader::FileAsker;
use crate::wire;
use iowhy_model::bounded_map::RestartingMap;
use iowhy_model::table::Table;
use iowhy_model::{Name, Names, Process, WorkloadNames};
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::path::Path;
use std::time::{Duration, Instant};
use zerocopy::FromBytes;

/// Threads kept before exited ones are dropped. More are kept only while they are alive.
const MOST_TASKS: usize = 65_536;
/// The least time for which an exited thread is kept: its last calls are reported a second later,
/// and names a few seconds after that on a busy machine.
const KEPT: Duration = Duration::from_secs(15);

/// A thread, as far as records described it.
#[derive(Clone, Copy, Debug)]
pub struct Task {
    /// The process's name.
    pub process: Name,
    /// The thread's own name.
    pub thread: Name,
    /// The process that started it.
    pub parent: u32,
    /// The path of the thread's cgroup.
    pub cgroup: Option<Name>,
    /// The workload of that cgroup.
    pub workload: WorkloadNames,
    /// Time at which the thread's record arrived.
    told: Instant,
}

/// Threads by number, and processes by the number of their first thread.
#[derive(Debug)]
pub struct Tasks {
    threads: FxHashMap<u32, Task>,
    processes: FxHashMap<u32, Task>,
    users: Users,
    boottime_offset_ns: i64,
    arguments: Option<FileAsker>,
    /// Processes that got a row before any record described them: their names and start times.
    met: RestartingMap<u32, (Name, u64), MOST_TASKS>,
    /// The number of threads at which exited ones are searched for next.
    most: usize,
}

impl Tasks {
    /// `arguments` reads command lines if they are recorded: they may contain secrets.
    pub fn new(arguments: Option<FileAsker>) -> Tasks {
        Tasks {
            threads: FxHashMap::default(),
            processes: FxHashMap::default(),
            users: Users::read(),
            boottime_offset_ns: crate::host::system::boottime_offset_ns(),
            arguments,
            met: RestartingMap::default(),
            most: MOST_TASKS,
        }
    }

    /// Adds a `wire_task`. A reused number belongs to the new task from then on.
    pub fn add(
        &mut self,
        bytes: &[u8],
        files: &KnownFiles,
        cgroups: &KnownCgroups,
        out: &mut RowOutput<'_>,
    ) -> Option<()> {
        // One of another length was written over by a program that interrupted this one.
        let task = wire::wire_task::read_from_bytes(bytes).ok()?;
        let process = out.names.intern(&text_of(&task.process));
        let cgroup = cgroups.get(task.cgroup);
        let known = Task {
            process,
            thread: out.names.intern(&text_of(&task.thread)),
            parent: task.parent,
            cgroup: cgroup.map(|cgroup| cgroup.path),
            workload: cgroup.map(|cgroup| cgroup.workload).unwrap_or_default(),
            told: Instant::now(),
        };
        self.make_room();
        self.threads.insert(task.tid, known);
        self.processes.insert(task.tgid, known);
        let met = self.met.get(&task.tid);
        if met.is_some_and(|(name, start_ns)| {
            *name == process && start_ns.abs_diff(task.start_ns) < tick_ns()
        }) {
            return Some(());
        }
        let row = Process {
            pid: task.tgid,
            tid: task.tid,
            start_ns: task.start_ns.saturating_add_signed(self.boottime_offset_ns),
            process,
            thread: known.thread,
            executable: files.get(&task.executable).and_then(|file| file.path),
            arguments: self.arguments_of(task.tgid, out.names),
            parent_pid: task.parent,
            user: Some(out.names.intern(&self.users.name(task.user))),
            io_class: io_class(task.io_priority, task.policy).map(|it| out.names.intern(&it)),
            cgroup: known.cgroup,
            image: cgroup.and_then(|cgroup| cgroup.image),
            ..Table::blank()
        };
        out.batch.processes.push(row.running(known.workload));
        Some(())
    }

    /// Adds a process that no record has described, from /proc.
    pub fn meet(&mut self, pid: u32, cgroups: &KnownCgroups, out: &mut RowOutput<'_>) {
        let Some(found) = ProcessIdentity::for_pid(pid) else { return };
        let process = out.names.intern(&found.name);
        let same = (process, found.start_ns);
        let is_told = self.process(pid).is_some_and(|task| task.process == process);
        if is_told || self.met.get(&pid) == Some(&same) {
            return;
        }
        // A record has more if the cgroup is not available here.
        if found.cgroup.is_some() {
            self.met.insert(pid, same);
        }
        let cgroup = found.cgroup.as_deref().map(|path| cgroups.named(path, out.names));
        let row = Process {
            pid,
            tid: pid,
            start_ns: found.start_ns.saturating_add_signed(self.boottime_offset_ns),
            process,
            thread: process,
            executable: found.executable.map(|path| out.names.intern(&path)),
            arguments: self.arguments_of(pid, out.names),
            parent_pid: found.parent,
            user: Some(out.names.intern(&self.users.name(found.user))),
            cgroup: cgroup.map(|cgroup| cgroup.path),
            image: cgroup.and_then(|cgroup| cgroup.image),
            ..Table::blank()
        };
        let workload = cgroup.map(|cgroup: KnownCgroup| cgroup.workload).unwrap_or_default();
        out.batch.processes.push(row.running(workload));
    }

    /// Drops threads and processes that exited a while ago, if there are many.
    fn make_room(&mut self) {
        if self.threads.len() < self.most {
            return;
        }
        forget_ended(&mut self.threads, is_alive);
        forget_ended(&mut self.processes, is_alive);
        // Checking each is expensive: not again before the number has doubled.
        self.most = (self.threads.len() * 2).max(MOST_TASKS);
    }

    fn arguments_of(&self, pid: u32, names: &mut Names) -> Option<Name> {
        let line = self.arguments.as_ref()?.arguments(pid)?;
        Some(names.intern(&line))
    }

    /// The thread with that number.
    pub fn thread(&self, tid: u32) -> Option<Task> {
        self.threads.get(&tid).copied()
    }

    /// The process with that number.
    pub fn process(&self, tgid: u32) -> Option<Task> {
        self.processes.get(&tgid).copied()
    }
}

/// The class of a thread's requests, as linux/ioprio.h encodes it in `priority`; without one the
/// kernel goes by the scheduling policy.
fn io_class(priority: u16, policy: u16) -> Option<Cow<'static, str>> {
    let level = priority & 7;
    match (priority >> 13, i32::from(policy)) {
        (1, _) => Some(format!("realtime {level}").into()),
        (2, _) => Some(format!("best-effort {level}").into()),
        (3, _) | (0, libc::SCHED_IDLE) => Some("idle".into()),
        (0, libc::SCHED_FIFO | libc::SCHED_RR | libc::SCHED_DEADLINE) => Some("realtime".into()),
        _ => None,
    }
}

fn forget_ended(tasks: &mut FxHashMap<u32, Task>, is_alive: impl Fn(u32) -> bool) {
    tasks.retain(|number, task| task.told.elapsed() < KEPT || is_alive(*number));
}

fn is_alive(number: u32) -> bool {
    // /proc has threads by number, too, although it does not list them.
    Path::new("/proc").join(number.to_string()).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ended_long_ago_is_forgotten() {
        let told = |seconds| Instant::now().checked_sub(Duration::from_secs(seconds));
        let task = |seconds| Task {
            process: Name::EMPTY,
            thread: Name::EMPTY,
            parent: 1,
            cgroup: None,
            workload: WorkloadNames::default(),
            told: told(seconds).unwrap(),
        };
        let mut tasks: FxHashMap<u32, Task> =
            [(10, task(60)), (11, task(60)), (12, task(1))].into_iter().collect();
        forget_ended(&mut tasks, |number| number == 11);
        let mut left: Vec<u32> = tasks.into_keys().collect();
        left.sort_unstable();
        assert_eq!(left, [11, 12]);
    }

    #[test]
    fn classes_are_those_of_ionice() {
        let of = |class: u16, level, policy: i32| {
            io_class(class << 13 | level, u16::try_from(policy).unwrap())
        };
        assert_eq!(of(3, 7, libc::SCHED_OTHER).as_deref(), Some("idle"));
        assert_eq!(of(2, 7, libc::SCHED_IDLE).as_deref(), Some("best-effort 7"));
        assert_eq!(of(1, 0, libc::SCHED_OTHER).as_deref(), Some("realtime 0"));
        assert_eq!(of(0, 0, libc::SCHED_IDLE).as_deref(), Some("idle"));
        assert_eq!(of(0, 0, libc::SCHED_FIFO).as_deref(), Some("realtime"));
        assert_eq!(of(0, 0, libc::SCHED_OTHER), None);
        assert_eq!(of(7, 0, libc::SCHED_OTHER), None, "a class that does not exist");
    }

    /// A stack that was being written when an interrupt sent a task from the same buffer.
    #[test]
    fn a_record_of_another_length_is_no_task() {
        let (mut batch, mut names) = Default::default();
        let mut out = RowOutput { batch: &mut batch, names: &mut names };
        let (files, cgroups) = (KnownFiles::default(), KnownCgroups::default());
        let task = [7_u8; size_of::<wire::wire_task>()];
        let mut tasks = Tasks::new(None);
        let mut add = |bytes: &[u8]| tasks.add(bytes, &files, &cgroups, &mut out).is_some();
        assert!(add(&task));
        assert!(!add(&[7; size_of::<wire::wire_task>() + 72]) && !add(&task[8..]));
        assert_eq!(batch.processes.len(), 1);
    }
}
