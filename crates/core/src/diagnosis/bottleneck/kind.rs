//! The kind of call that a wait is in.
//!
//! What does not belong here: the programs that wait (see [`super::group`]).

use crate::analysis::patterns::WaitGroup;
use crate::diagnosis::facts::Facts;
use crate::diagnosis::facts::calls::{ASYNC, METADATA, READ, SYNC_ALL, SYNC_FILE, WRITE};
use crate::diagnosis::programs::{Role, Topic};
use crate::model::WaitClass;

/// The kind of call or activity that threads wait in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
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

impl Kind {
    /// Returns the kind of a group of waits.
    pub fn of(facts: &Facts<'_>, group: &WaitGroup) -> Kind {
        use WaitClass::*;
        let is = |calls| facts.is_call(group.syscall, calls);
        match group.class {
            Swap | Reclaim => Kind::Memory,
            _ if is(SYNC_FILE) || is(SYNC_ALL) => Kind::Sync,
            Fsync | JournalCommit if is(WRITE) => Kind::Sync,
            _ if is(ASYNC) => Kind::Async,
            _ if is(READ) => Kind::Read,
            _ if is(WRITE) => Kind::Write,
            _ if is(METADATA) => Kind::Metadata,
            PageRead | PageFault => Kind::Read,
            DirtyThrottle => Kind::Write,
            Fsync | JournalCommit => Kind::Sync,
            JournalSpace | FsLock => Kind::Metadata,
            _ => Kind::Unknown,
        }
    }

    /// Returns what threads wait for if their call has no name.
    pub const fn doing(self) -> &'static str {
        match self {
            Kind::Sync => "syncs",
            Kind::Read => "reads",
            Kind::Write => "writes",
            Kind::Metadata => "lookups",
            Kind::Async => "completions",
            Kind::Memory => "memory",
            Kind::Unknown => "storage",
        }
    }

    /// Returns the topic of the program's own advice.
    pub const fn topic(self, role: Option<Role>) -> Topic {
        match (self, role) {
            (_, Some(Role::Temporary)) => Topic::Spill,
            (_, Some(Role::Compaction)) => Topic::Compaction,
            (_, Some(Role::Snapshot)) => Topic::Snapshot,
            (_, Some(Role::Log)) => Topic::Logging,
            (Kind::Sync, _) => Topic::Sync,
            (Kind::Write, Some(Role::WriteAheadLog)) => Topic::Sync,
            (Kind::Write, _) => Topic::Checkpoint,
            _ => Topic::Reads,
        }
    }
}
