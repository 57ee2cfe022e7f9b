//! The system calls and io_uring operations that count as uses of files, and the kind of use of
//! each.
//!
//! What does not belong here: the tables that they are counted in (see [`crate::probes::file`]).

use crate::wire;
use libc::c_long;

/// The uses of files by system calls: the call's number, the place of its count, and where its
/// arguments stand. `None` for a call that this architecture lacks.
#[rustfmt::skip]
const CALLS: &[(c_long, u32, u32)] = &[
    (libc::SYS_read, wire::USE_READ, wire::SHAPE_FD),
    (libc::SYS_pread64, wire::USE_READ, wire::SHAPE_FD),
    (libc::SYS_readv, wire::USE_READ, wire::SHAPE_FD),
    (libc::SYS_preadv, wire::USE_READ, wire::SHAPE_FD),
    (libc::SYS_preadv2, wire::USE_READ, wire::SHAPE_FD),
    (libc::SYS_write, wire::USE_WRITE, wire::SHAPE_FD),
    (libc::SYS_pwrite64, wire::USE_WRITE, wire::SHAPE_FD),
    (libc::SYS_writev, wire::USE_WRITE, wire::SHAPE_FD),
    (libc::SYS_pwritev, wire::USE_WRITE, wire::SHAPE_FD),
    (libc::SYS_pwritev2, wire::USE_WRITE, wire::SHAPE_FD),
    (libc::SYS_sendfile, wire::USE_WRITE, wire::SHAPE_SEND),
    (libc::SYS_copy_file_range, wire::USE_WRITE, wire::SHAPE_COPY),
    (libc::SYS_splice, wire::USE_WRITE, wire::SHAPE_COPY),
    (libc::SYS_io_submit, wire::USE_READ, wire::SHAPE_SUBMIT),
    (libc::SYS_fsync, wire::USE_FSYNC, wire::SHAPE_FD),
    (libc::SYS_fdatasync, wire::USE_FSYNC, wire::SHAPE_FD),
    (libc::SYS_syncfs, wire::USE_FSYNC, wire::SHAPE_FD),
    (libc::SYS_openat, wire::USE_OPEN, wire::SHAPE_PATH_AT),
    (libc::SYS_openat2, wire::USE_OPEN, wire::SHAPE_PATH_AT),
    (libc::SYS_fstat, wire::USE_STAT, wire::SHAPE_FD),
    (libc::SYS_newfstatat, wire::USE_STAT, wire::SHAPE_PATH_AT),
    (libc::SYS_statx, wire::USE_STAT, wire::SHAPE_PATH_AT),
    (libc::SYS_faccessat, wire::USE_STAT, wire::SHAPE_PATH_AT),
    (libc::SYS_faccessat2, wire::USE_STAT, wire::SHAPE_PATH_AT),
    (libc::SYS_readlinkat, wire::USE_STAT, wire::SHAPE_PATH_AT),
    (libc::SYS_getdents64, wire::USE_SCAN, wire::SHAPE_FD),
    (libc::SYS_unlinkat, wire::USE_UNLINK, wire::SHAPE_PATH_AT),
    (libc::SYS_renameat2, wire::USE_RENAME, wire::SHAPE_TWO_AT),
];

/// Calls that only older architectures have.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
const OLD_CALLS: &[(c_long, u32, u32)] = &[
    (libc::SYS_open, wire::USE_OPEN, wire::SHAPE_PATH),
    (libc::SYS_creat, wire::USE_OPEN, wire::SHAPE_PATH),
    (libc::SYS_stat, wire::USE_STAT, wire::SHAPE_PATH),
    (libc::SYS_lstat, wire::USE_STAT, wire::SHAPE_PATH),
    (libc::SYS_access, wire::USE_STAT, wire::SHAPE_PATH),
    (libc::SYS_readlink, wire::USE_STAT, wire::SHAPE_PATH),
    (libc::SYS_getdents, wire::USE_SCAN, wire::SHAPE_FD),
    (libc::SYS_unlink, wire::USE_UNLINK, wire::SHAPE_PATH),
    (libc::SYS_rmdir, wire::USE_UNLINK, wire::SHAPE_PATH),
    (libc::SYS_rename, wire::USE_RENAME, wire::SHAPE_TWO_PATHS),
    (libc::SYS_renameat, wire::USE_RENAME, wire::SHAPE_TWO_AT),
];
#[cfg(not(target_arch = "x86_64"))]
const OLD_CALLS: &[(c_long, u32, u32)] =
    &[(libc::SYS_renameat, wire::USE_RENAME, wire::SHAPE_TWO_AT)];

/// io_uring's operations (uapi/linux/io_uring.h).
const URING: &[(usize, u32)] = &[
    (1, wire::USE_READ),   // READV
    (2, wire::USE_WRITE),  // WRITEV
    (3, wire::USE_FSYNC),  // FSYNC
    (4, wire::USE_READ),   // READ_FIXED
    (5, wire::USE_WRITE),  // WRITE_FIXED
    (8, wire::USE_FSYNC),  // SYNC_FILE_RANGE
    (18, wire::USE_OPEN),  // OPENAT
    (22, wire::USE_READ),  // READ
    (23, wire::USE_WRITE), // WRITE
    (28, wire::USE_OPEN),  // OPENAT2
    (49, wire::USE_READ),  // READ_MULTISHOT
    (60, wire::USE_READ),  // READV_FIXED
    (61, wire::USE_WRITE), // WRITEV_FIXED
];

/// Tells the programs what each call does.
pub(crate) fn mark(settings: &mut wire::wire_settings) {
    for (call, kind, shape) in CALLS.iter().chain(OLD_CALLS) {
        let place = usize::try_from(*call).ok();
        if let Some(slot) = place.and_then(|place| settings.call_uses.get_mut(place)) {
            *slot = (kind | shape) as u8;
        }
    }
    for (code, kind) in URING {
        if let Some(slot) = settings.uring_uses.get_mut(*code) {
            *slot = *kind as u8;
        }
    }
}
