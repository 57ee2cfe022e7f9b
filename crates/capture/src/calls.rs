//! System calls by number, for waits.

use libc::c_long;

/// Calls whose first argument is the file that they work on.
pub const OF_FILES: &[c_long] = &[
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_preadv,
    libc::SYS_pwritev,
    libc::SYS_preadv2,
    libc::SYS_pwritev2,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_sync_file_range,
    libc::SYS_fallocate,
    libc::SYS_ftruncate,
    libc::SYS_readahead,
    libc::SYS_getdents64,
    libc::SYS_syncfs,
    libc::SYS_flock,
    libc::SYS_fchmod,
    libc::SYS_fchown,
];

/// Calls on file names, which sleep interruptibly on FUSE until its server has answered.
pub const OF_NAMES: &[c_long] = &[
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_statx,
    libc::SYS_newfstatat,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_readlinkat,
    libc::SYS_unlinkat,
    libc::SYS_renameat2,
    libc::SYS_mkdirat,
    libc::SYS_linkat,
    libc::SYS_symlinkat,
    libc::SYS_utimensat,
    libc::SYS_fchmodat,
    libc::SYS_fchownat,
    libc::SYS_execve,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_open,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_stat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lstat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_access,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_unlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rename,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mkdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rmdir,
];

/// libc has no constant: 333 in the kernel's table of x86-64, else 292.
const IO_PGETEVENTS: c_long = if cfg!(target_arch = "x86_64") { 333 } else { 292 };

/// Calls that sleep interruptibly until I/O of the caller completes.
pub const OF_SLEEPERS: &[c_long] =
    &[libc::SYS_io_getevents, IO_PGETEVENTS, libc::SYS_io_uring_enter];

/// libc does not have these for every target; the number is the same everywhere.
const FUTEX_WAIT: c_long = 455;
/// Likewise.
const FUTEX_WAITV: c_long = 449;
/// Likewise.
const EPOLL_PWAIT2: c_long = 441;

/// Calls that sleep interruptibly until another thread does something: unlocks, writes, exits. A
/// parent that waits for its child (`wait4`, `waitid`) is no victim, since waiting is its purpose;
/// but it may hold what others wait for. Those that wait for something to arrive are in
/// [`OF_RECEIVERS`].
pub const OF_THREAD_SLEEPERS: &[c_long] = &[
    libc::SYS_futex,
    FUTEX_WAIT,
    FUTEX_WAITV,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_splice,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_msgrcv,
    libc::SYS_msgsnd,
    libc::SYS_mq_timedreceive,
    libc::SYS_mq_timedsend,
    libc::SYS_flock,
    libc::SYS_fcntl,
    libc::SYS_wait4,
    libc::SYS_waitid,
];

/// Calls that sleep likewise, until something arrives: of a socket it may come over the loopback.
pub const OF_RECEIVERS: &[c_long] = &[
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_epoll_pwait,
    EPOLL_PWAIT2,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_select,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
];

/// Calls that send: over the loopback, the sender's own thread delivers what it sent, in an
/// interrupt that it raises.
pub const OF_SENDERS: &[c_long] = &[
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_sendfile,
    libc::SYS_splice,
    libc::SYS_io_uring_enter,
];

/// Sets the bits of `calls`; numbers beyond `bits` are left out.
pub fn mark(calls: &[c_long], bits: &mut [u64]) {
    for call in calls.iter().filter_map(|call| usize::try_from(*call).ok()) {
        if let Some(word) = bits.get_mut(call / 64) {
            *word |= 1 << (call % 64);
        }
    }
}
