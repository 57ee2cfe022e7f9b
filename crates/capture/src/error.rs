//! What can go wrong with a live watch. Each message says what failed; each hint what to do.

use std::path::PathBuf;

/// What still works where no program can be loaded.
const COUNTERS_WORK: &str = "the kernel's counters, recordings and captures can still be read";
/// What still works where not even devices are known.
const RECORDINGS_WORK: &str = "recordings and captures can still be read";

/// Why a live watch cannot begin or go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The user may not load BPF programs.
    #[error("failed to load BPF programs: missing {missing}")]
    Privilege {
        /// The capabilities that are missing, as the kernel names them.
        missing: String,
        /// The command that grants them.
        granting: String,
    },
    /// The kernel does not describe its own types.
    #[error(
        "failed to read the kernel's types from /sys/kernel/btf/vmlinux: {cause}; {COUNTERS_WORK}"
    )]
    NoBtf {
        /// What the attempt said.
        cause: String,
    },
    /// Nothing says what devices there are and what types the kernel has.
    #[error(
        "failed to find the kernel's types and devices: /sys is not mounted; {RECORDINGS_WORK}"
    )]
    NoSys,
    /// The kernel lets nobody read its memory.
    #[error("failed to load BPF programs: lockdown is \"confidentiality\"; {COUNTERS_WORK}")]
    LockedDown,
    /// The kernel refused something that every watch needs.
    #[error("failed to {verb} {object}: {cause}")]
    Kernel {
        /// What was tried: load, attach, read.
        verb: &'static str,
        /// On what.
        object: String,
        /// The kernel's or libbpf's answer.
        cause: String,
    },
    /// A device that the user named is not there.
    #[error("failed to find device {name}: no such block device")]
    NoDevice {
        /// The name as the user gave it.
        name: String,
        /// The whole disks that there are.
        known: Vec<String>,
    },
    /// More devices were named than a watch can be limited to.
    #[error("failed to watch {count} devices: at most {most} can be named")]
    TooManyDevices {
        /// How many were named.
        count: usize,
        /// How many can be.
        most: usize,
    },
    /// A file of /proc or /sys cannot be read.
    #[error("failed to read {}: {cause}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        cause: std::io::Error,
    },
}

impl Error {
    /// Whether the cause is this kernel, or what of it can be seen from here: nobody can watch here,
    /// whatever privilege or arguments they have.
    pub fn is_of_kernel(&self) -> bool {
        matches!(
            self,
            Error::NoBtf { .. } | Error::NoSys | Error::LockedDown | Error::Kernel { .. }
        )
    }

    /// Whether the kernel's own counters can be read all the same.
    pub fn leaves_counters(&self) -> bool {
        matches!(self, Error::Privilege { .. })
            || self.is_of_kernel() && !matches!(self, Error::NoSys)
    }

    /// What the user can do about it: a current value, a needed value, a command.
    pub fn hint(&self) -> String {
        match self {
            Error::Privilege { granting, .. } => {
                format!("run it as root: `sudo iowhy`; or grant what it needs: `{granting}`")
            }
            Error::NoBtf { .. } => {
                "the kernel must be built with CONFIG_DEBUG_INFO_BTF=y (the distributions' kernels \
                 from 5.10 on are), and nothing may hide it; `iowhy check` shows what is there"
                    .to_owned()
            }
            Error::NoSys => {
                "`mount -t sysfs sysfs /sys`; a container needs the host's, as `docker run \
                 --privileged -v /sys:/sys` gives it"
                    .to_owned()
            }
            Error::LockedDown => {
                "boot with lockdown=integrity, or without it: only confidentiality hides the \
                 kernel's memory"
                    .to_owned()
            }
            Error::Kernel { .. } => "`iowhy check` shows what this kernel allows".to_owned(),
            Error::NoDevice { known, .. } => format!("the devices here are {}", known.join(" ")),
            Error::TooManyDevices { .. } => {
                "name fewer, or none to watch all of them and filter the report".to_owned()
            }
            Error::Read { .. } => "is /proc and /sys mounted, and are you root?".to_owned(),
        }
    }
}
