//! System call numbers that the diagnosis needs, on the architectures that iowhy supports.
//!
//! What does not belong here: what capture records (see crate `iowhy-capture`).

use super::Facts;
use crate::analysis::patterns::WaitGroup;
use crate::model::WaitClass;

/// A system call: its name, its number on x86_64, and its number in the generic table (aarch64,
/// riscv64).
#[derive(Clone, Copy, Debug)]
pub struct Call(&'static str, u32, u32);

/// A call missing from the generic table.
const NONE: u32 = u32::MAX;

/// Calls that sync one file.
pub const SYNC_FILE: &[Call] =
    &[Call("fsync", 74, 82), Call("fdatasync", 75, 83), Call("msync", 26, 227)];
/// Calls that write back a whole file system or all of them.
pub const SYNC_ALL: &[Call] = &[Call("sync", 162, 81), Call("syncfs", 306, 267)];
/// Calls in which user space locks wait.
pub const FUTEX: &[Call] =
    &[Call("futex", 202, 98), Call("futex_waitv", 449, 449), Call("futex_wait", 455, 455)];
/// Calls that read a file, or populate its pages.
pub const READ: &[Call] = &[
    Call("read", 0, 63),
    Call("pread64", 17, 67),
    Call("readv", 19, 65),
    Call("preadv", 295, 69),
    Call("preadv2", 327, 286),
    Call("sendfile", 40, 71),
    Call("splice", 275, 76),
    Call("copy_file_range", 326, 285),
    Call("readahead", 187, 213),
    Call("madvise", 28, 233),
    Call("mlock", 149, 228),
    Call("execve", 59, 221),
];
/// Calls that write a file or allocate space in it.
pub const WRITE: &[Call] = &[
    Call("write", 1, 64),
    Call("pwrite64", 18, 68),
    Call("writev", 20, 66),
    Call("pwritev", 296, 70),
    Call("pwritev2", 328, 287),
    Call("fallocate", 285, 47),
    // It starts or awaits writeback, without durability.
    Call("sync_file_range", 277, 84),
];
/// Calls that take completions of asynchronous I/O, or submit it.
pub const ASYNC: &[Call] = &[
    Call("io_getevents", 208, 4),
    Call("io_pgetevents", 333, 292),
    Call("io_submit", 209, 2),
    Call("io_uring_enter", 426, 426),
];
/// Calls on names, directories and attributes.
pub const METADATA: &[Call] = &[
    Call("open", 2, NONE),
    Call("openat", 257, 56),
    Call("openat2", 437, 437),
    Call("creat", 85, NONE),
    Call("close", 3, 57),
    Call("stat", 4, NONE),
    Call("fstat", 5, 80),
    Call("lstat", 6, NONE),
    Call("newfstatat", 262, 79),
    Call("statx", 332, 291),
    Call("statfs", 137, 43),
    Call("access", 21, NONE),
    Call("faccessat", 269, 48),
    Call("faccessat2", 439, 439),
    Call("readlink", 89, NONE),
    Call("readlinkat", 267, 78),
    Call("getdents", 78, NONE),
    Call("getdents64", 217, 61),
    Call("unlink", 87, NONE),
    Call("unlinkat", 263, 35),
    Call("rename", 82, NONE),
    Call("renameat", 264, 38),
    Call("renameat2", 316, 276),
    Call("mkdir", 83, NONE),
    Call("mkdirat", 258, 34),
    Call("rmdir", 84, NONE),
    Call("link", 86, NONE),
    Call("linkat", 265, 37),
    Call("symlink", 88, NONE),
    Call("symlinkat", 266, 36),
    Call("truncate", 76, 45),
    Call("ftruncate", 77, 46),
    Call("chmod", 90, NONE),
    Call("fchmod", 91, 52),
    Call("fchmodat", 268, 53),
    Call("chown", 92, NONE),
    Call("fchown", 93, 55),
    Call("fchownat", 260, 54),
    Call("utimensat", 280, 88),
    Call("getxattr", 191, 8),
    Call("setxattr", 188, 5),
    Call("umount2", 166, 39),
    Call("mount", 165, 40),
];
/// All of them.
const ALL: &[&[Call]] = &[SYNC_FILE, SYNC_ALL, FUTEX, READ, WRITE, ASYNC, METADATA];

impl Facts<'_> {
    /// Whether `number` is one of `calls` on the recorded machine.
    pub fn is_call(&self, number: Option<u32>, calls: &[Call]) -> bool {
        number.is_some_and(|number| calls.iter().any(|call| self.number_of(call) == number))
    }

    /// Returns the name of a call, if it is in one of these tables.
    pub fn call_name(&self, number: Option<u32>) -> Option<&'static str> {
        let number = number?;
        let mut calls = ALL.iter().copied().flatten();
        calls.find(|call| self.number_of(call) == number).map(|call| call.0)
    }

    /// Whether a wait is for a sync: in fsync and the like, in a synchronous write (O_SYNC,
    /// O_DSYNC), or in a sync by a thread of io_uring or libaio.
    pub fn is_sync(&self, group: &WaitGroup) -> bool {
        let waits = matches!(group.class, WaitClass::Fsync | WaitClass::JournalCommit);
        let by_itself = self.is_call(group.syscall, WRITE) || self.is_call(group.syscall, ASYNC);
        // A worker of io_uring is in no call.
        let by_worker = group.syscall.is_none() && group.class == WaitClass::Fsync;
        self.is_call(group.syscall, SYNC_FILE) || waits && by_itself || by_worker
    }

    fn number_of(&self, call: &Call) -> u32 {
        match self.summary().environment.architecture.as_str() {
            "aarch64" | "riscv64" => call.2,
            _ => call.1,
        }
    }
}
