//! The threads that were seen asking for I/O or dirtying pages.

use super::cgroups::Cgroups;
use super::files::Files;
use crate::host::users::Users;
use crate::wire;
use iowhy_core::model::{Name, Names, Process};
use iowhy_core::source::Batch;
use rustc_hash::FxHashMap;
use zerocopy::FromBytes;

/// What is known of a thread.
#[derive(Clone, Copy, Debug)]
pub struct Task {
    /// The process's name.
    pub process: Name,
    /// The thread's own.
    pub thread: Name,
    /// The process that started it.
    pub parent: u32,
    /// Its cgroup's path.
    pub cgroup: Option<Name>,
    /// The container or systemd unit derived from it.
    pub container: Option<Name>,
}

/// Threads by number, and processes by the number of their first thread.
#[derive(Debug)]
pub struct Tasks {
    threads: FxHashMap<u32, Task>,
    processes: FxHashMap<u32, Task>,
    users: Users,
    boottime_offset_ns: i64,
    arguments: bool,
}

impl Tasks {
    /// `arguments` says whether command lines are read: they may hold secrets.
    pub fn new(arguments: bool) -> Tasks {
        Tasks {
            threads: FxHashMap::default(),
            processes: FxHashMap::default(),
            users: Users::read(),
            boottime_offset_ns: crate::host::system::boottime_offset_ns(),
            arguments,
        }
    }

    /// Adds a `wire_task`. A number that is used again belongs to the new task from then on.
    pub fn add(
        &mut self,
        bytes: &[u8],
        files: &Files,
        cgroups: &Cgroups,
        batch: &mut Batch,
        names: &mut Names,
    ) -> Option<()> {
        let (task, _) = wire::wire_task::read_from_prefix(bytes).ok()?;
        let process = names.intern(&text_of(&task.process));
        let cgroup = cgroups.get(task.cgroup);
        let known = Task {
            process,
            thread: names.intern(&text_of(&task.thread)),
            parent: task.parent,
            cgroup: cgroup.map(|cgroup| cgroup.path),
            container: cgroup.and_then(|cgroup| cgroup.container),
        };
        self.threads.insert(task.tid, known);
        self.processes.insert(task.tgid, known);
        batch.processes.push(Process {
            pid: task.tgid,
            tid: task.tid,
            start_ns: task.start_ns.saturating_add_signed(self.boottime_offset_ns),
            process,
            thread: known.thread,
            executable: files.get(&task.executable).and_then(|file| file.path),
            arguments: self.arguments_of(task.tgid, names),
            parent_pid: task.parent,
            user: Some(names.intern(&self.users.name(task.user))),
            cgroup: known.cgroup,
            container: known.container,
        });
        Some(())
    }

    fn arguments_of(&self, pid: u32, names: &mut Names) -> Option<Name> {
        if !self.arguments {
            return None;
        }
        let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let line = String::from_utf8_lossy(&bytes).trim_end_matches('\0').replace('\0', " ");
        (!line.is_empty()).then(|| names.intern(&line))
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

/// A name of fixed room, ended by a NUL where it is shorter.
pub(crate) fn text_of(bytes: &[std::ffi::c_char]) -> String {
    let bytes: Vec<u8> =
        bytes.iter().map(|byte| *byte as u8).take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}
