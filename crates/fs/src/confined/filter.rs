//! System calls that a thread has no use for, refused by seccomp.
//!
//! What does not belong here: what a thread may open, where seccomp sees no path.

use super::Role;
use libc::{AF_UNIX, O_ACCMODE, O_CREAT, O_RDONLY, O_TRUNC, SOCK_DGRAM, c_long};
use rustix::process::getpid;
use seccompiler::SeccompCmpArgLen::Dword;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    apply_filter,
};
use std::collections::BTreeMap;

/// Whether a thread loads programs into the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProgramLoading {
    /// The thread may: a watch that is renewed.
    Allowed,
    /// All are loaded.
    Over,
}

/// System calls that no thread of iowhy makes once it watches.
const NEVER: &[c_long] = &[
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_send_signal,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_tkill,
    libc::SYS_kcmp,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
    // Mounts and namespaces.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_setns,
    libc::SYS_unshare,
    // The machine.
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_quotactl,
    libc::SYS_acct,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    // Another user.
    libc::SYS_setuid,
    libc::SYS_setgid,
    libc::SYS_setreuid,
    libc::SYS_setregid,
    libc::SYS_setresuid,
    libc::SYS_setresgid,
    libc::SYS_setgroups,
    libc::SYS_setfsuid,
    libc::SYS_setfsgid,
    // Ways around a filter: calls that are made elsewhere, files without a name.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_open_by_handle_at,
    libc::SYS_userfaultfd,
    libc::SYS_fanotify_init,
    libc::SYS_mknodat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mknod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    // Attributes of files, which landlock does not hold.
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utime,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utimes,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_futimesat,
];

/// Calls that libc does not name on every architecture yet, which have the same number everywhere:
/// `fchmodat2` (6.6), `setxattrat` and `removexattrat` (6.13), `open_tree_attr` (6.15),
/// `file_setattr` (6.17), `quotactl_fd` (5.14).
const NEWER: &[c_long] = &[452, 463, 466, 467, 469, 443];

/// Commands of fcntl(2) by which the kernel signals a process that the caller names: `F_SETOWN`,
/// `F_SETSIG`, `F_SETOWN_EX`.
const SIGNALLING: [u64; 3] = [8, 10, 15];

/// Requests of ioctl(2) that do the same (`FIOSETOWN`, `SIOCSPGRP`), that change the attributes of
/// a file which is only open to be read (`FS_IOC_SETFLAGS`, `FS_IOC_FSSETXATTR`), and that type
/// into the terminal.
const REQUESTS: [u64; 6] =
    [0x8901, 0x8902, 0x4008_6602, 0x401c_5820, libc::TIOCSTI, libc::TIOCLINUX];

/// Actions of syslog(2) that change the kernel's log or what of it is on the console.
const LOG_ACTIONS: [u64; 5] = [4, 5, 6, 7, 8];

/// System calls that change names.
const WRITING: &[c_long] = &[
    libc::SYS_openat2,
    libc::SYS_mkdirat,
    libc::SYS_unlinkat,
    libc::SYS_renameat2,
    libc::SYS_linkat,
    libc::SYS_symlinkat,
    libc::SYS_truncate,
    libc::SYS_renameat,
    // A socket has a name.
    libc::SYS_bind,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_creat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mkdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rmdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_unlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rename,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_link,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_symlink,
];

/// Calls that open a file, each with the place of its flags among the arguments.
const OPENING: &[(c_long, u8)] = &[
    (libc::SYS_openat, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 1),
];

/// System calls that start programs: a thread that writes has none to start.
const STARTING: &[c_long] = &[libc::SYS_execve, libc::SYS_execveat];

/// Commands of bpf(2) by which something comes into the kernel, or what others have is taken: maps,
/// programs, pinned objects, types, links, tokens (uapi/linux/bpf.h). A program that is loaded may
/// be attached again, as the budget wants it.
const LOADING: &[u64] = &[0, 5, 6, 7, 8, 9, 13, 14, 18, 19, 29, 30, 31, 34, 36];

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Applies the filter of a role to the calling thread.
pub(super) fn apply(role: &Role) -> Result<(), seccompiler::Error> {
    // Refused opens look like a file system that is read-only, for which programs have another way.
    if let Role::Reads(_) = role {
        apply_rules(opens_for_writing()?, libc::EROFS)?;
    }
    apply_rules(refused(role)?, libc::EPERM)
}

fn apply_rules(rules: Rules, error: i32) -> Result<(), seccompiler::Error> {
    let arch = std::env::consts::ARCH.try_into()?;
    let refusal = SeccompAction::Errno(error.unsigned_abs());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refusal, arch)?;
    let program: BpfProgram = filter.try_into()?;
    apply_filter(&program)
}

fn refused(role: &Role) -> Result<Rules, seccompiler::BackendError> {
    let never = NEVER.iter().chain(NEWER);
    let mut rules: Rules = never.map(|call| (*call, Vec::new())).collect();
    let is_not = SeccompCmpOp::Ne;
    let own = u64::from(getpid().as_raw_nonzero().get().unsigned_abs());
    for call in [libc::SYS_kill, libc::SYS_tgkill] {
        rules.insert(call, vec![rule(0, is_not.clone(), own)?]);
    }
    // Limits of another process.
    rules.insert(libc::SYS_prlimit64, vec![rule(0, is_not.clone(), 0)?]);
    let one_of = |argument, values: &mut dyn Iterator<Item = u64>| {
        values.map(|value| rule(argument, SeccompCmpOp::Eq, value)).collect::<Result<Vec<_>, _>>()
    };
    rules.insert(libc::SYS_ioctl, one_of(1, &mut REQUESTS.into_iter())?);
    rules.insert(libc::SYS_fcntl, one_of(1, &mut SIGNALLING.into_iter())?);
    rules.insert(libc::SYS_syslog, one_of(0, &mut LOG_ACTIONS.into_iter())?);
    let of_kind = SeccompCmpOp::MaskedEq(0xf);
    let kinds = (1..=10).filter(|kind| *kind != SOCK_DGRAM.unsigned_abs());
    let mut sockets = vec![rule(0, is_not, AF_UNIX.unsigned_abs().into())?];
    for kind in kinds {
        sockets.push(rule(1, of_kind.clone(), kind.into())?);
    }
    rules.insert(libc::SYS_socket, sockets);
    let is_loading = match role {
        Role::Reads(loading) => {
            rules.extend(WRITING.iter().map(|call| (*call, Vec::new())));
            *loading == ProgramLoading::Allowed
        }
        Role::Writes(_) => {
            rules.extend(STARTING.iter().map(|call| (*call, Vec::new())));
            false
        }
    };
    if !is_loading {
        rules.insert(libc::SYS_perf_event_open, Vec::new());
        let commands = LOADING.iter().map(|command| rule(0, SeccompCmpOp::Eq, *command));
        rules.insert(libc::SYS_bpf, commands.collect::<Result<_, _>>()?);
    }
    Ok(rules)
}

/// Opens that may change a file or make one.
fn opens_for_writing() -> Result<Rules, seccompiler::BackendError> {
    let flags = |argument| -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
        let bits = |mask: i32, value: i32| {
            let mask = SeccompCmpOp::MaskedEq(mask.unsigned_abs().into());
            rule(argument, mask, value.unsigned_abs().into())
        };
        let access = (1..=O_ACCMODE).filter(|access| *access != O_RDONLY);
        let mut rules =
            access.map(|access| bits(O_ACCMODE, access)).collect::<Result<Vec<_>, _>>()?;
        rules.extend([bits(O_CREAT, O_CREAT)?, bits(O_TRUNC, O_TRUNC)?]);
        Ok(rules)
    };
    OPENING.iter().map(|(call, argument)| Ok((*call, flags(*argument)?))).collect()
}

/// Matches where the lower half of an argument compares so.
fn rule(
    argument: u8,
    compared: SeccompCmpOp,
    value: u64,
) -> Result<SeccompRule, seccompiler::BackendError> {
    SeccompRule::new(vec![SeccompCondition::new(argument, Dword, compared, value)?])
}
