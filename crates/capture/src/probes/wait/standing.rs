//! Threads that wait for other threads when the watch ends. Nothing woke them, so the thread that
//! they wait for must be found otherwise. The state is valid only at that moment, so it is read at
//! once.
//!
//! The owner of a lock is stored in the lock: in the futex itself for locks with priority
//! inheritance, next to it in glibc's mutexes and read-write locks. Other locks (Rust's, Go's,
//! Java's) do not store it.
//!
//! What does not belong here: what the owner waited for (see [`super::chains`]).

use crate::probes::snapshot;
use crate::reader::FileAsker;
use crate::session::Session;
use crate::wire::{wire_thread_sleeper, wire_wait};
use libc::c_long;
use rustc_hash::FxHashSet;
use std::fs;
use zerocopy::FromBytes;

/// Sleepers that are checked. Beyond them, wait chains are not found, but the sleepers are counted.
const MOST: usize = 4096;
/// Threads of a process that are searched for one by its number in a container.
const MOST_THREADS: usize = 4096;

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
    /// Its sleep.
    pub wait: wire_wait,
    /// The thread that holds the lock, where the lock says so.
    pub owner: Option<u32>,
    /// Return addresses of the functions that it is in, where only these show whether it waits for
    /// a lock; see [`FileAsker::sleeping_stack`].
    pub frames: Vec<u64>,
    /// Which threads can end its sleep.
    whom: Whom,
}

/// Which threads can end a sleep.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Whom {
    /// A thread of its own process.
    OwnProcess,
    /// The same, if it waits for a lock at all.
    Unclear,
    /// A process that has the same pipe open.
    Pipe(String),
}

impl Standing {
    /// Whether a thread of process `pid` can be the one that it waits for.
    pub fn may_wait_for(&self, pid: u32) -> bool {
        match &self.whom {
            Whom::OwnProcess | Whom::Unclear => pid == self.wait.tgid,
            Whom::Pipe(name) => pid != self.wait.tgid && has_open(pid, name),
        }
    }

    /// Whether only its functions show that it waits for a lock.
    pub fn is_unclear(&self) -> bool {
        self.whom == Whom::Unclear
    }

    fn of(thread_sleeper: &wire_thread_sleeper, reader: &FileAsker) -> Option<Standing> {
        let (owner, whom) = match c_long::from(thread_sleeper.wait.system_call) {
            libc::SYS_futex => match owner_of(thread_sleeper, reader) {
                Some(owner) => (owner, Whom::OwnProcess),
                None => (None, Whom::Unclear),
            },
            libc::SYS_read | libc::SYS_readv | libc::SYS_write | libc::SYS_writev => {
                let name = descriptor(thread_sleeper.wait.tgid, thread_sleeper.arguments[0])?;
                (None, Whom::Pipe(Some(name).filter(|name| name.starts_with("pipe:"))?))
            }
            _ => return None,
        };
        Some(Standing { wait: thread_sleeper.wait, owner, frames: Vec::new(), whom })
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
    snapshot::thread_sleepers(session, |record| {
        let Ok((thread_sleeper, _)) = wire_thread_sleeper::read_from_prefix(record) else { return };
        if found.len() >= MOST {
            more += 1;
            return;
        }
        let Some(mut one) = Standing::of(&thread_sleeper, reader) else { return };
        if one.is_unclear() {
            if !waiting.contains(&thread_sleeper.wait.tgid) {
                return;
            }
            one.frames =
                reader.sleeping_stack(thread_sleeper.wait.tgid, thread_sleeper.stack_pointer);
        }
        found.push(one);
    });
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

fn has_open(pid: u32, name: &str) -> bool {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    let links = descriptors.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    links.into_iter().any(|link| link.as_os_str() == name)
}
