//! The capabilities that a watch needs or can use: one table, which `iowhy check`, the hint of a
//! refused watch and the limits of a watch all read.
//!
//! What does not belong here: what a kernel refuses to everybody (see [`crate::live`]).

use crate::error::Error;
use rustix::thread::CapabilitySet;

/// A capability, and what is lost without it.
#[derive(Clone, Copy, Debug)]
pub struct Capability {
    /// The kernel's name of it.
    pub name: &'static str,
    /// Whether no watch begins without it.
    pub needed: bool,
    /// What cannot be seen without it.
    pub lost: &'static str,
    /// Any of these will do.
    any: CapabilitySet,
}

/// Every capability that a watch needs or can use.
pub const CAPABILITIES: &[Capability] = &[
    Capability {
        name: "CAP_BPF",
        needed: true,
        lost: "every request: only /proc/diskstats is left",
        any: CapabilitySet::BPF.union(CapabilitySet::SYS_ADMIN),
    },
    Capability {
        name: "CAP_PERFMON",
        needed: true,
        lost: "every request: only /proc/diskstats is left",
        any: CapabilitySet::PERFMON.union(CapabilitySet::SYS_ADMIN),
    },
    Capability {
        name: "CAP_SYS_PTRACE",
        needed: false,
        lost: "of other users' processes: names of their functions, their counters in /proc/PID/io, \
               what they hold open, and locks in which they stand still",
        any: CapabilitySet::SYS_PTRACE,
    },
    Capability {
        name: "CAP_DAC_READ_SEARCH",
        needed: false,
        lost: "of other users' processes: their counters in /proc/PID/io, what they hold open, and \
               names of functions of programs that only they may read",
        any: CapabilitySet::DAC_READ_SEARCH.union(CapabilitySet::DAC_OVERRIDE),
    },
    Capability {
        name: "CAP_SYSLOG",
        needed: false,
        lost: "names of the kernel's functions, files of direct I/O, journals and swap, where \
               kernel.kptr_restrict is 1",
        any: CapabilitySet::SYSLOG,
    },
];

/// Those that this process lacks.
pub fn missing() -> Vec<&'static Capability> {
    match rustix::thread::capabilities(None) {
        Ok(sets) => missing_of(sets.effective),
        Err(_) => Vec::new(),
    }
}

fn missing_of(effective: CapabilitySet) -> Vec<&'static Capability> {
    CAPABILITIES.iter().filter(|it| !effective.intersects(it.any)).collect()
}

/// An error where this process lacks what no watch begins without.
pub fn require() -> Result<(), Error> {
    let missing: Vec<&str> =
        missing().into_iter().filter(|it| it.needed).map(|it| it.name).collect();
    if missing.is_empty() { Ok(()) } else { Err(Error::Privilege { missing: missing.join(", ") }) }
}

/// The command that grants all of them: what it sets replaces what was set before.
pub fn granting() -> String {
    let names: Vec<String> = CAPABILITIES.iter().map(|it| it.name.to_lowercase()).collect();
    format!("sudo setcap {}+ep \"$(command -v iowhy)\"", names.join(","))
}

/// A sentence for each thing that a watch cannot see for want of a capability. Whether addresses of the
/// kernel are hidden depends on more than that, and a watch finds out.
pub fn limits() -> impl Iterator<Item = String> {
    let lost = missing().into_iter().filter(|it| !it.any.contains(CapabilitySet::SYSLOG));
    lost.map(|it| format!("missing {}, so lost is {}", it.name, it.lost))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(effective: CapabilitySet) -> Vec<&'static str> {
        missing_of(effective).into_iter().map(|it| it.name).collect()
    }

    #[test]
    fn what_is_missing_is_named() {
        assert_eq!(names(CapabilitySet::all()), Vec::<&str>::new());
        assert_eq!(names(CapabilitySet::empty()).len(), CAPABILITIES.len());
        for (one, name) in
            [(CapabilitySet::SYS_PTRACE, "CAP_SYS_PTRACE"), (CapabilitySet::SYSLOG, "CAP_SYSLOG")]
        {
            assert_eq!(names(CapabilitySet::all() - one), [name]);
        }
    }

    #[test]
    fn some_stand_for_others() {
        let admin = names(CapabilitySet::SYS_ADMIN | CapabilitySet::DAC_OVERRIDE);
        assert_eq!(admin, ["CAP_SYS_PTRACE", "CAP_SYSLOG"]);
    }

    #[test]
    fn the_command_grants_all() {
        let command = granting();
        for it in CAPABILITIES {
            assert!(command.contains(&it.name.to_lowercase()), "{command}");
            assert!(!it.lost.is_empty());
        }
    }
}
