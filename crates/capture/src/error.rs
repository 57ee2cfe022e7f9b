//! Errors of a live watch. The message says what failed; the hint says what to do.

use std::path::PathBuf;

/// Sources that still work if BPF programs cannot be loaded.
const COUNTERS_WORK: &str = "the kernel's counters, recordings and captures can still be read";
/// Sources that still work if devices are unknown, too.
const RECORDINGS_WORK: &str = "recordings and captures can still be read";

/// A reason why a live watch cannot start or continue.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The user may not load BPF programs.
    #[error("failed to load BPF programs: missing {missing}")]
    Privilege {
        /// The capabilities that are missing, as the kernel names them.
        missing: String,
        /// The command that grants them.
        granting: String,
    },
    /// The kernel has no BTF of its own types.
    #[error(
        "failed to read the kernel's types from /sys/kernel/btf/vmlinux: {cause}; {COUNTERS_WORK}"
    )]
    NoBtf {
        /// The error of the attempt.
        cause: String,
    },
    /// /sys is missing, which lists the devices and the kernel's types.
    #[error(
        "failed to find the kernel's types and devices: /sys is not mounted; {RECORDINGS_WORK}"
    )]
    NoSys,
    /// The kernel does not allow its memory to be read.
    #[error("failed to load BPF programs: lockdown is \"confidentiality\"; {COUNTERS_WORK}")]
    LockedDown,
    /// The kernel refused something that every watch needs.
    #[error("failed to {verb} {object}: {cause}")]
    Kernel {
        /// The action that failed: load, attach, read.
        verb: &'static str,
        /// The object of that action.
        object: String,
        /// The error of the kernel or libbpf.
        cause: String,
    },
    /// The user named a device that does not exist.
    #[error("failed to find device {name}: no such block device")]
    NoDevice {
        /// The name as the user gave it.
        name: String,
        /// The whole disks of this machine.
        known: Vec<String>,
    },
    /// The user named more devices than a watch can be limited to.
    #[error("failed to watch {count} devices: at most {most} can be named")]
    TooManyDevices {
        /// Number of devices that were named.
        count: usize,
        /// The limit.
        most: usize,
    },
    /// A file of /proc or /sys cannot be read.
    #[error("failed to read {}: {cause}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        cause: std::io::Error,
    },
}

impl WatchError {
    /// Whether the cause is this kernel, or the part of it that is visible here: no watch works,
    /// whatever the privileges or arguments.
    pub fn is_of_kernel(&self) -> bool {
        matches!(
            self,
            WatchError::NoBtf { .. }
                | WatchError::NoSys
                | WatchError::LockedDown
                | WatchError::Kernel { .. }
        )
    }

    /// Whether the kernel's own counters can still be read.
    pub fn leaves_counters(&self) -> bool {
        matches!(self, WatchError::Privilege { .. })
            || self.is_of_kernel() && !matches!(self, WatchError::NoSys)
    }

    /// Returns what the user can do about it: the current value, the needed value, a command.
    pub fn hint(&self) -> String {
        match self {
            WatchError::Privilege { granting, .. } => {
                format!("run it as root: `sudo iowhy`; or grant what it needs: `{granting}`")
            }
            WatchError::NoBtf { .. } => {
                "the kernel must be built with CONFIG_DEBUG_INFO_BTF=y (distribution kernels since \
                 5.10 are), and /sys/kernel/btf must not be hidden; see `iowhy check`"
                    .to_owned()
            }
            WatchError::NoSys => {
                "`mount -t sysfs sysfs /sys`; in a container, mount the host's: `docker run \
                 --privileged -v /sys:/sys`"
                    .to_owned()
            }
            WatchError::LockedDown => {
                "boot with lockdown=integrity, or without lockdown: only confidentiality mode \
                 hides the kernel's memory"
                    .to_owned()
            }
            WatchError::Kernel { cause, .. } if cause.contains("Cannot allocate memory") => {
                "a watch needs 96 MiB: raise the memory limit of this cgroup (memory.max), or run \
                 it outside of it"
                    .to_owned()
            }
            WatchError::Kernel { .. } => "`iowhy check` shows what this kernel supports".to_owned(),
            WatchError::NoDevice { known, .. } => format!("available devices: {}", known.join(" ")),
            WatchError::TooManyDevices { .. } => {
                "name fewer devices, or watch all devices and filter the report".to_owned()
            }
            WatchError::Read { .. } => {
                "check that /proc and /sys are mounted, and run iowhy as root".to_owned()
            }
        }
    }
}
