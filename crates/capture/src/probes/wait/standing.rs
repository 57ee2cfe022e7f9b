//! Threads that wait for other threads when the watch ends. Nothing woke them, so the thread that
//! they wait for must be found otherwise. The state is valid only at that moment, so it is read at
//! once.
//!
//! The holder of a file's lock is in the kernel's list of them. The owner of another lock is stored
//! in the lock: in the futex itself for locks with priority
//! inheritance, next to it in glibc's mutexes and read-write locks. Other locks (Rust's, Go's,
//! Java's) do not store it.
//!
//! What does not belong here: what the owner waited for (see [`super::chains`]).

use super::lock_list;
use crate::host::system;
use crate::probes::snapshot;
use crate::reader::FileAsker;
use crate::session::Session;
use crate::wire::{self, wire_lock_poll, wire_thread_sleeper, wire_wait};
use libc::c_long;
use rustc_hash::{FxHashMap, FxHashSet};
use std::fs;
use zerocopy::{FromBytes, FromZeros};

/// Sleepers that are checked. Beyond them, wait chains are not found, but the sleepers are counted.
const MOST: usize = 4096;
/// Threads of a process that are searched for one by its number in a container.
const MOST_THREADS: usize = 4096;

/// A lock that was refused so long ago is not waited for any more, nanoseconds: the same as in
/// `file_locks.bpf.h`.
const POLL_GAP_NS: u64 = 1_500_000_000;

/// Generations of a process that waited for storage, which may hold locks and wait for it.
const MOST_ANCESTORS: usize = 8;

/// Sleepers that may be sessions of a database whose functions are looked up.
const MOST_SESSIONS: usize = 256;

/// Calls in which PostgreSQL's sessions, which are processes, wait for each other.
const OF_SESSIONS: &[c_long] = &[
    libc::SYS_epoll_pwait,
    libc::SYS_ppoll,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
];

/// The commands of futex(2), without flags.
const FUTEX_WAIT: u64 = 0;
const FUTEX_LOCK_PI: u64 = 6;
const FUTEX_WAIT_BITSET: u64 = 9;
const FUTEX_LOCK_PI2: u64 = 13;
/// The mask of the command without its flags.
const FUTEX_COMMAND: u64 = 0x7f;
/// The thread's number in a futex with priority inheritance.
const FUTEX_TID: u32 = 0x3fff_ffff;
/// A locked mutex with waiters, in glibc and in Rust's and Go's libraries.
const LOCKED: u64 = 2;
/// A read-write lock of glibc that a writer holds, with waiters.
const WRITER_HOLDS: u64 = 3;

/// A thread that sleeps for another thread.
#[derive(Clone, Debug)]
pub struct Standing {
    /// The thread's sleep.
    pub wait: wire_wait,
    /// The thread that holds the lock, where the lock says so.
    pub owner: Option<u32>,
    /// Return addresses of the functions that it is in, where only these show whether it waits for
    /// a lock; see [`FileAsker::sleeping_stack`].
    pub frames: Vec<u64>,
    /// The threads that can end the sleep.
    whom: Whom,
}

/// The threads that can end a sleep.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Whom {
    /// A thread of its own process.
    OwnProcess,
    /// A thread of its own process, if the thread waits for a lock at all.
    Unclear,
    /// A process that has the same pipe open.
    Pipe(String),
    /// A process that has the file open, if its lock's holder is not known.
    File(Option<String>),
    /// Child processes of the thread's process, by number.
    Children(Vec<u32>),
    /// Another process of that name: a session of the same database, if the thread waits for a lock
    /// of the database at all.
    Session(String),
}

impl Standing {
    /// Whether a thread of process `pid` can be the one that it waits for.
    pub fn may_wait_for(&self, pid: u32) -> bool {
        match &self.whom {
            Whom::OwnProcess | Whom::Unclear => pid == self.wait.tgid,
            Whom::Pipe(name) => pid != self.wait.tgid && has_open(pid, name),
            Whom::File(Some(name)) => pid != self.wait.tgid && has_open(pid, name),
            Whom::File(None) => false,
            Whom::Children(pids) => pids.contains(&pid),
            Whom::Session(name) => {
                let is_sibling = || {
                    parent_of(pid).is_some_and(|parent| Some(parent) == parent_of(self.wait.tgid))
                };
                pid != self.wait.tgid
                    && name_of(pid).is_some_and(|other| other == *name)
                    && is_sibling()
            }
        }
    }

    /// Whether it may wait for another session of its database.
    pub fn may_be_session(&self) -> bool {
        matches!(self.whom, Whom::Session(_))
    }

    /// Whether it waits for a child to exit.
    pub fn is_parent(&self) -> bool {
        matches!(self.whom, Whom::Children(_))
    }

    /// The file whose lock it waits for.
    pub fn lock_file(&self) -> Option<&str> {
        match &self.whom {
            Whom::File(name) => name.as_deref(),
            _ => None,
        }
    }

    /// A thread that was refused the lock of a file again and again, until a moment ago.
    fn of_poll(poll: &wire_lock_poll, now_ns: u64) -> Option<Standing> {
        let recent = now_ns.saturating_sub(poll.last_ns) <= POLL_GAP_NS;
        let mut wait = wire_wait::new_zeroed();
        wait.flags = wire::WAIT_FOR_THREAD | wire::WAIT_FOR_FILE_LOCK | wire::WAIT_POLLED;
        (wait.tgid, wait.tid, wait.holder) = (poll.tgid, poll.tid, poll.holder);
        (wait.start_ns, wait.inode) = (poll.since_ns, poll.inode);
        wait.system_call = poll.system_call;
        wait.user_stack = -1;
        let whom = Whom::File(None);
        recent.then_some(Standing { wait, owner: None, frames: Vec::new(), whom })
    }

    /// Whether only its functions show that it waits for a lock.
    pub fn is_unclear(&self) -> bool {
        self.whom == Whom::Unclear
    }

    fn new(
        thread_sleeper: &wire_thread_sleeper,
        reader: &FileAsker,
        others: &mut Others,
    ) -> Option<Standing> {
        let mut wait = thread_sleeper.wait;
        let (owner, whom) = match c_long::from(wait.system_call) {
            libc::SYS_flock | libc::SYS_fcntl => {
                wait.flags |= wire::WAIT_FOR_FILE_LOCK;
                wait.holder = others.holder(wait.tgid).unwrap_or(wait.holder);
                (None, Whom::File(descriptor(wait.tgid, thread_sleeper.arguments[0])))
            }
            libc::SYS_wait4 | libc::SYS_waitid => {
                (None, Whom::Children(others.children(wait.tgid)?))
            }
            libc::SYS_futex => match owner_of(thread_sleeper, reader) {
                Some(owner) => (owner, Whom::OwnProcess),
                None => (None, Whom::Unclear),
            },
            libc::SYS_read | libc::SYS_readv | libc::SYS_write | libc::SYS_writev => {
                let name = descriptor(thread_sleeper.wait.tgid, thread_sleeper.arguments[0])?;
                (None, Whom::Pipe(Some(name).filter(|name| name.starts_with("pipe:"))?))
            }
            call if OF_SESSIONS.contains(&call) => {
                (None, Whom::Session(others.session(wait.tgid)?))
            }
            _ => return None,
        };
        Some(Standing { wait, owner, frames: Vec::new(), whom })
    }
}

/// The threads of other processes that threads may wait for, read when they are first asked for.
struct Others {
    holders: Option<FxHashMap<u32, u32>>,
    children: FxHashMap<u32, Vec<u32>>,
    /// The names of the processes that waited for storage.
    names: FxHashSet<String>,
    sessions: usize,
}

impl Others {
    /// Begins with the processes that waited for storage, whose ancestors are looked up.
    fn new(waiting: &FxHashSet<u32>) -> Others {
        let mut parents: FxHashMap<u32, u32> = FxHashMap::default();
        for pid in waiting {
            let mut child = *pid;
            for _ in 0..MOST_ANCESTORS {
                if parents.contains_key(&child) {
                    break;
                }
                let Some(parent) = parent_of(child).filter(|parent| *parent > 1) else { break };
                parents.insert(child, parent);
                child = parent;
            }
        }
        let mut children: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
        for (child, parent) in parents {
            children.entry(parent).or_default().push(child);
        }
        let names = waiting.iter().filter_map(|pid| name_of(*pid)).collect();
        Others { holders: None, children, names, sessions: 0 }
    }

    /// The name of a process, if another one of that name waited for storage, and not too many were
    /// asked for already.
    fn session(&mut self, pid: u32) -> Option<String> {
        let name = name_of(pid).filter(|name| self.names.contains(name))?;
        self.sessions += 1;
        // Those beyond it are counted (`now`).
        (self.sessions <= MOST_SESSIONS).then_some(name)
    }

    /// The process that holds the file's lock which a process waits for.
    fn holder(&mut self, pid: u32) -> Option<u32> {
        self.holders.get_or_insert_with(lock_list::holders).get(&pid).copied()
    }

    /// The children of a process that waited for storage, or whose descendants did.
    fn children(&self, pid: u32) -> Option<Vec<u32>> {
        self.children.get(&pid).cloned()
    }
}

/// Returns the threads that sleep for other threads now, and how many more there are that were not
/// checked. Of those that may sleep for anything, only threads of `waiting` are checked: the
/// processes that have waited for storage, or have a thread that does now.
pub fn now(
    session: &Session,
    mut waiting: FxHashSet<u32>,
    reader: &FileAsker,
) -> (Vec<Standing>, u64) {
    let (mut found, mut more) = (Vec::new(), 0);
    session.asleep(|record| {
        waiting.extend(wire_wait::read_from_prefix(record).ok().map(|(wait, _)| wait.tgid));
    });
    let mut others = Others::new(&waiting);
    snapshot::thread_sleepers(session, |record| {
        let Ok((thread_sleeper, _)) = wire_thread_sleeper::read_from_prefix(record) else { return };
        if found.len() >= MOST {
            more += 1;
            return;
        }
        let Some(mut one) = Standing::new(&thread_sleeper, reader, &mut others) else { return };
        if one.is_unclear() && !waiting.contains(&thread_sleeper.wait.tgid) {
            return;
        }
        if one.is_unclear() || one.may_be_session() {
            one.frames =
                reader.sleeping_stack(thread_sleeper.wait.tgid, thread_sleeper.stack_pointer);
        }
        found.push(one);
    });
    let now_ns = system::now_ns();
    session.lock_polls(|record| {
        let poll = wire_lock_poll::read_from_bytes(record).ok();
        found.extend(poll.and_then(|poll| Standing::of_poll(&poll, now_ns)));
    });
    more += others.sessions.saturating_sub(MOST_SESSIONS) as u64;
    (found, more)
}

/// The owner of the lock that the thread waits for: `None` if it is not recognised as a lock,
/// `Some(None)` if the lock does not store its owner.
fn owner_of(thread_sleeper: &wire_thread_sleeper, reader: &FileAsker) -> Option<Option<u32>> {
    let [address, command, expected, _] = thread_sleeper.arguments;
    let pid = thread_sleeper.wait.tgid;
    let words = || reader.words(pid, address);
    match (command & FUTEX_COMMAND, expected & 0xffff_ffff) {
        (FUTEX_LOCK_PI | FUTEX_LOCK_PI2, _) => {
            Some(words().and_then(|words| thread_of(pid, words[0] & FUTEX_TID)))
        }
        (FUTEX_WAIT | FUTEX_WAIT_BITSET, LOCKED) => {
            // struct __pthread_mutex_s: __lock, __count, __owner.
            let words = words()?;
            (u64::from(words[0]) == LOCKED).then(|| thread_of(pid, words[2]))
        }
        (FUTEX_WAIT_BITSET, WRITER_HOLDS) => {
            // struct __pthread_rwlock_arch_t: __wrphase_futex, __writers_futex, two words of
            // padding, __cur_writer. The futex is either of the first two.
            let words = words()?;
            let writer = thread_of(pid, words[4]).or_else(|| thread_of(pid, words[3]))?;
            Some(Some(writer))
        }
        _ => None,
    }
}

/// The thread that a process means by a number; `None` if it has no such thread.
fn thread_of(pid: u32, number: u32) -> Option<u32> {
    if number == 0 {
        return None;
    }
    let inner = |thread: &str| {
        let text = fs::read_to_string(format!("/proc/{pid}/task/{thread}/status")).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
        // The last one is the number in the process's own namespace.
        line.split_whitespace().next_back()?.parse::<u32>().ok()
    };
    if inner(&number.to_string()) == Some(number) {
        return Some(number);
    }
    let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten().take(MOST_THREADS);
    let mut names = threads.filter_map(|entry| entry.file_name().into_string().ok());
    names.find(|name| inner(name) == Some(number))?.parse().ok()
}

/// The target of a descriptor: `pipe:[123]`. Only the link is read, no file is opened.
fn descriptor(pid: u32, number: u64) -> Option<String> {
    let target = fs::read_link(format!("/proc/{pid}/fd/{number}")).ok()?;
    target.into_os_string().into_string().ok()
}

/// The kernel's name of a process.
fn name_of(pid: u32) -> Option<String> {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(name.trim_end().to_owned())
}

fn parent_of(pid: u32) -> Option<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

fn has_open(pid: u32, name: &str) -> bool {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    let links = descriptors.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    links.into_iter().any(|link| link.as_os_str() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_those_of_a_program_that_waited_and_not_too_many() {
        let pid = std::process::id();
        let mut others = Others::new(&FxHashSet::from_iter([pid]));
        let name = name_of(pid).unwrap();
        assert_eq!(others.session(pid), Some(name));
        assert_eq!(others.session(1), None, "of another program");
        let more = (0..MOST_SESSIONS).filter_map(|_| others.session(pid)).count();
        assert_eq!(more, MOST_SESSIONS - 1);
    }
}
