//! System call numbers that the diagnosis needs, on the architectures that iowhy supports.
//!
//! What does not belong here: what capture records (see crate `iowhy-capture`).

use super::Facts;
use iowhy_analysis::summary::patterns::WaitGroup;
use iowhy_model::WaitClass;
use std::collections::BTreeMap;

/// A system call: its name, its number on x86_64, and its number in the generic table (aarch64,
/// riscv64).
#[derive(Clone, Copy, Debug)]
pub struct SystemCall(&'static str, u32, u32);

/// A call missing from the generic table.
const NONE: u32 = u32::MAX;
/// The most writes of which one waits for the journal if each of them is synchronous: a commit may
/// be done before the next write comes. Chosen.
const EACH: u64 = 4;

/// Calls that sync one file.
pub const SYNC_FILE: &[SystemCall] =
    &[SystemCall("fsync", 74, 82), SystemCall("fdatasync", 75, 83), SystemCall("msync", 26, 227)];
/// Calls that write back a whole file system or all of them.
pub const SYNC_ALL: &[SystemCall] = &[SystemCall("sync", 162, 81), SystemCall("syncfs", 306, 267)];
/// Calls that close files, also all of them at the end of a process.
pub const CLOSE: &[SystemCall] = &[SystemCall("close", 3, 57)];
/// Calls that give a file another name.
pub const RENAME: &[SystemCall] = &[
    SystemCall("rename", 82, NONE),
    SystemCall("renameat", 264, 38),
    SystemCall("renameat2", 316, 276),
];
/// Calls that list a directory.
pub const LIST: &[SystemCall] =
    &[SystemCall("getdents", 78, NONE), SystemCall("getdents64", 217, 61)];
/// Calls that detach a file system.
pub const UNMOUNT: &[SystemCall] = &[SystemCall("umount2", 166, 39)];
/// Calls in which user space locks wait.
pub const FUTEX: &[SystemCall] = &[
    SystemCall("futex", 202, 98),
    SystemCall("futex_waitv", 449, 449),
    SystemCall("futex_wait", 455, 455),
];
/// Calls that read a file, or populate its pages.
pub const READ: &[SystemCall] = &[
    SystemCall("read", 0, 63),
    SystemCall("pread64", 17, 67),
    SystemCall("readv", 19, 65),
    SystemCall("preadv", 295, 69),
    SystemCall("preadv2", 327, 286),
    SystemCall("sendfile", 40, 71),
    SystemCall("splice", 275, 76),
    SystemCall("copy_file_range", 326, 285),
    SystemCall("readahead", 187, 213),
    SystemCall("madvise", 28, 233),
    SystemCall("mlock", 149, 228),
    SystemCall("execve", 59, 221),
];
/// Calls that write a file or allocate space in it.
pub const WRITE: &[SystemCall] = &[
    SystemCall("write", 1, 64),
    SystemCall("pwrite64", 18, 68),
    SystemCall("writev", 20, 66),
    SystemCall("pwritev", 296, 70),
    SystemCall("pwritev2", 328, 287),
    SystemCall("fallocate", 285, 47),
    // It starts or awaits writeback, without durability.
    SystemCall("sync_file_range", 277, 84),
];
/// The call that syncs the data of one file, and of its metadata only what finding the data takes.
pub const SYNC_DATA: &[SystemCall] = &[SystemCall("fdatasync", 75, 83)];
/// Calls that take completions of asynchronous I/O, or submit it.
pub const ASYNC: &[SystemCall] = &[
    SystemCall("io_getevents", 208, 4),
    SystemCall("io_pgetevents", 333, 292),
    SystemCall("io_submit", 209, 2),
    SystemCall("io_uring_enter", 426, 426),
];
/// Calls that look names up.
pub const LOOKUP: &[SystemCall] = &[
    SystemCall("open", 2, NONE),
    SystemCall("openat", 257, 56),
    SystemCall("openat2", 437, 437),
    SystemCall("stat", 4, NONE),
    SystemCall("lstat", 6, NONE),
    SystemCall("newfstatat", 262, 79),
    SystemCall("statx", 332, 291),
    SystemCall("access", 21, NONE),
    SystemCall("faccessat", 269, 48),
    SystemCall("faccessat2", 439, 439),
    SystemCall("readlink", 89, NONE),
    SystemCall("readlinkat", 267, 78),
];
/// The other calls on names, directories and attributes.
pub const METADATA: &[SystemCall] = &[
    SystemCall("creat", 85, NONE),
    SystemCall("close", 3, 57),
    SystemCall("fstat", 5, 80),
    SystemCall("statfs", 137, 43),
    SystemCall("getdents", 78, NONE),
    SystemCall("getdents64", 217, 61),
    SystemCall("unlink", 87, NONE),
    SystemCall("unlinkat", 263, 35),
    SystemCall("rename", 82, NONE),
    SystemCall("renameat", 264, 38),
    SystemCall("renameat2", 316, 276),
    SystemCall("mkdir", 83, NONE),
    SystemCall("mkdirat", 258, 34),
    SystemCall("rmdir", 84, NONE),
    SystemCall("link", 86, NONE),
    SystemCall("linkat", 265, 37),
    SystemCall("symlink", 88, NONE),
    SystemCall("symlinkat", 266, 36),
    SystemCall("truncate", 76, 45),
    SystemCall("ftruncate", 77, 46),
    SystemCall("chmod", 90, NONE),
    SystemCall("fchmod", 91, 52),
    SystemCall("fchmodat", 268, 53),
    SystemCall("chown", 92, NONE),
    SystemCall("fchown", 93, 55),
    SystemCall("fchownat", 260, 54),
    SystemCall("utimensat", 280, 88),
    SystemCall("getxattr", 191, 8),
    SystemCall("setxattr", 188, 5),
    SystemCall("umount2", 166, 39),
    SystemCall("mount", 165, 40),
];
/// All of them.
const ALL: &[&[SystemCall]] = &[SYNC_FILE, SYNC_ALL, FUTEX, READ, WRITE, ASYNC, LOOKUP, METADATA];

/// The name of a call on a machine of this architecture, if it is in one of these tables.
pub fn name_of(architecture: &str, number: u32) -> Option<&'static str> {
    let mut calls = ALL.iter().copied().flatten();
    calls.find(|call| call.number(architecture) == number).map(|call| call.0)
}

impl SystemCall {
    fn number(&self, architecture: &str) -> u32 {
        match architecture {
            "aarch64" | "riscv64" => self.2,
            _ => self.1,
        }
    }
}

impl Facts<'_> {
    /// Whether `number` is one of `calls` on the recorded machine.
    pub fn is_call(&self, number: Option<u32>, calls: &[SystemCall]) -> bool {
        number.is_some_and(|number| calls.iter().any(|call| self.number_of(call) == number))
    }

    /// Returns the name of a call, if it is in one of these tables.
    pub fn call_name(&self, number: Option<u32>) -> Option<&'static str> {
        name_of(&self.summary().environment.architecture, number?)
    }

    /// Whether a wait is for a sync: in fsync and the like, in a synchronous write (O_SYNC,
    /// O_DSYNC), or in a sync by a thread of io_uring or libaio. A write that waits for the journal
    /// now and then is none.
    pub fn is_sync(&self, group: &WaitGroup) -> bool {
        let by_itself = self.is_call(group.syscall, WRITE) || self.is_call(group.syscall, ASYNC);
        let waits = match group.class {
            WaitClass::Fsync => by_itself,
            WaitClass::JournalCommit => by_itself && self.is_of_each_write(group),
            _ => false,
        };
        // A worker of io_uring is in no call.
        let by_worker = group.syscall.is_none() && group.class == WaitClass::Fsync;
        self.is_call(group.syscall, SYNC_FILE) || waits || by_worker
    }

    /// Whether a good part of a process's writes to a file have such a wait; also if these writes
    /// were not counted.
    fn is_of_each_write(&self, group: &WaitGroup) -> bool {
        let file = group.file.clone().unwrap_or_default();
        let counted = self.writes.get_or_init(|| {
            let mut writes: BTreeMap<(u32, String), u64> = BTreeMap::new();
            for row in self.summary.activity.iter().flat_map(|report| &report.rows) {
                let Some(file) = row.file.clone() else { continue };
                let own = writes.entry((row.pid, file)).or_default();
                *own = own.saturating_add(row.counts.writes);
            }
            writes
        });
        let writes = counted.get(&(group.pid, file)).copied().unwrap_or(0);
        group.calls_within.saturating_mul(EACH) >= writes
    }

    fn number_of(&self, call: &SystemCall) -> u32 {
        call.number(&self.summary().environment.architecture)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::file::Counts;
    use iowhy_model::script::{MS, Script};

    const WRITE_CALL: u32 = 1;

    /// Whether so many waits for the journal, in a program that writes a file 500 times, are syncs.
    fn is_sync(class: WaitClass, waits: u64) -> bool {
        let mut script = Script::new(10);
        for _ in 0..waits {
            script.wait((7, "cp"), class, 20 * MS, 0, 0);
            script.waited_on("sda", "/srv/image", WRITE_CALL);
        }
        script.did((7, "cp"), "/srv/image", Counts { writes: 500, ..Counts::default() });
        let summary = script.summary();
        let facts = Facts::new(&summary);
        facts.waits(|_| true).groups.iter().all(|group| facts.is_sync(group))
    }

    #[test]
    fn a_few_writes_that_wait_for_the_journal_are_no_syncs() {
        assert!(is_sync(WaitClass::JournalCommit, 500));
        assert!(!is_sync(WaitClass::JournalCommit, 3));
        assert!(is_sync(WaitClass::Fsync, 3));
    }
}
