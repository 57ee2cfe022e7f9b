//! The kind of call that a wait is in.
//!
//! What does not belong here: the programs that wait (see `facts::by_program`).

use crate::facts::Facts;
use crate::facts::calls::{ASYNC, LOOKUP, METADATA, READ, SYNC_ALL, SYNC_FILE, WRITE};
use crate::programs::{self, FileRole, Topic};
use crate::subject::Subject;
use iowhy_analysis::summary::patterns::WaitGroup;
use iowhy_model::WaitClass;

/// The kind of call or activity that threads wait in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BottleneckKind {
    /// Syncs: fsync and the like, and synchronous writes (O_DSYNC).
    Sync,
    /// Reads, including faults on mapped pages.
    Read,
    /// Writes.
    Write,
    /// Names, directories, attributes.
    Metadata,
    /// Completions of asynchronous I/O.
    Async,
    /// Memory: reclaim and swap, in any call.
    Memory,
    /// Unknown.
    Unknown,
}

impl BottleneckKind {
    /// Returns the kind of a group of waits.
    pub fn new(facts: &Facts<'_>, group: &WaitGroup) -> BottleneckKind {
        use WaitClass::*;
        let is = |calls| facts.is_call(group.syscall, calls);
        match group.class {
            Swap | Reclaim => BottleneckKind::Memory,
            _ if is(SYNC_FILE) || is(SYNC_ALL) => BottleneckKind::Sync,
            Fsync | JournalCommit if is(WRITE) && facts.is_sync(group) => BottleneckKind::Sync,
            _ if is(ASYNC) => BottleneckKind::Async,
            _ if is(READ) => BottleneckKind::Read,
            _ if is(WRITE) => BottleneckKind::Write,
            _ if is(LOOKUP) || is(METADATA) => BottleneckKind::Metadata,
            PageRead | PageFault => BottleneckKind::Read,
            DirtyThrottle => BottleneckKind::Write,
            Fsync | JournalCommit => BottleneckKind::Sync,
            JournalSpace | FsLock => BottleneckKind::Metadata,
            _ => BottleneckKind::Unknown,
        }
    }

    /// Returns what threads wait for if their call has no name.
    pub const fn doing(self) -> &'static str {
        match self {
            BottleneckKind::Sync => "syncs",
            BottleneckKind::Read => "reads",
            BottleneckKind::Write => "writes",
            BottleneckKind::Metadata => "lookups",
            BottleneckKind::Async => "completions",
            BottleneckKind::Memory => "memory",
            BottleneckKind::Unknown => "storage",
        }
    }

    /// Returns the topic of the program's own advice.
    pub const fn topic(self, role: Option<FileRole>) -> Topic {
        match (self, role) {
            (_, Some(FileRole::Temporary)) => Topic::Spill,
            (_, Some(FileRole::Compaction)) => Topic::Compaction,
            (_, Some(FileRole::Snapshot)) => Topic::Snapshot,
            (_, Some(FileRole::Log)) => Topic::Logging,
            (_, Some(FileRole::NewSegment)) => Topic::NewSegment,
            (_, Some(FileRole::NewTable)) => Topic::Maintenance,
            (BottleneckKind::Sync, _) => Topic::Sync,
            (BottleneckKind::Write, Some(FileRole::WriteAheadLog)) => Topic::Sync,
            (BottleneckKind::Read, Some(FileRole::WriteAheadLog)) => Topic::Replay,
            (BottleneckKind::Write, _) => Topic::Checkpoint,
            (BottleneckKind::Metadata, _) => Topic::Lookups,
            _ => Topic::Reads,
        }
    }

    /// Returns what makes a program wait less in such calls for its file.
    pub fn advice(self, subject: &Subject) -> Option<&'static str> {
        if matches!(self, BottleneckKind::Async | BottleneckKind::Memory | BottleneckKind::Unknown)
        {
            return None;
        }
        let (process, file) = (subject.process.as_deref(), subject.file.as_deref());
        let role = file.and_then(|file| programs::role_of(process, file));
        programs::advice(process, file, self.topic(role))
    }
}
