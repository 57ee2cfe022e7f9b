//! The capabilities that a watch needs or can use: one table for `iowhy check`, the hint of a
//! refused watch and the limits of a watch.
//!
//! What does not belong here: what a kernel refuses to every user (see [`crate::live`]).

use crate::error::WatchError;
use crate::kernel;
use rustix::process::{Resource, getrlimit};
use rustix::thread::CapabilitySet;

/// A capability, and the facts that are not visible without it.
#[derive(Clone, Copy, Debug)]
pub struct Capability {
    /// The kernel's name for it.
    pub name: &'static str,
    /// Whether a watch requires it.
    pub needed: bool,
    /// The facts that are not visible without it.
    pub lost: &'static str,
    /// The capabilities of which any one suffices.
    any: CapabilitySet,
    /// Whether this machine requires it.
    asked_for: fn() -> bool,
    /// Whether the command that grants capabilities grants it, too: not one that is nearly root.
    pub granted: bool,
}

/// Every capability that a watch needs or can use, on one kernel or another.
const CAPABILITIES: &[Capability] = &[
    Capability {
        name: "CAP_BPF",
        needed: true,
        lost: "all requests: only /proc/diskstats is left",
        any: CapabilitySet::BPF.union(CapabilitySet::SYS_ADMIN),
        asked_for: everywhere,
        granted: true,
    },
    Capability {
        name: "CAP_PERFMON",
        needed: true,
        lost: "all requests: only /proc/diskstats is left",
        any: CapabilitySet::PERFMON.union(CapabilitySet::SYS_ADMIN),
        asked_for: everywhere,
        granted: true,
    },
    Capability {
        name: "CAP_SYS_RESOURCE",
        needed: true,
        lost: "all requests: this kernel charges BPF maps as locked memory, and RLIMIT_MEMLOCK is \
               too low",
        any: CapabilitySet::SYS_RESOURCE,
        asked_for: maps_need_room,
        granted: true,
    },
    Capability {
        name: "CAP_SYS_PTRACE",
        needed: false,
        lost: "function names, counters in /proc/PID/io, open files and blocking locks of other \
               users' processes",
        any: CapabilitySet::SYS_PTRACE,
        asked_for: everywhere,
        granted: true,
    },
    Capability {
        name: "CAP_DAC_READ_SEARCH",
        needed: false,
        lost: "counters in /proc/PID/io and open files of other users' processes, and function \
               names of programs that only those users may read",
        any: CapabilitySet::DAC_READ_SEARCH.union(CapabilitySet::DAC_OVERRIDE),
        asked_for: everywhere,
        granted: true,
    },
    Capability {
        name: "CAP_SYSLOG",
        needed: false,
        lost: "kernel function names, and files of direct I/O, journals and swap, where \
               kernel.kptr_restrict is 1",
        any: CapabilitySet::SYSLOG,
        asked_for: everywhere,
        granted: true,
    },
    Capability {
        name: "CAP_SYS_NICE",
        needed: false,
        lost: "records that are dropped while programs use all CPUs, because iowhy reads them at \
               normal priority",
        any: CapabilitySet::SYS_NICE,
        asked_for: everywhere,
        granted: true,
    },
    Capability {
        name: "CAP_SYS_ADMIN",
        needed: false,
        lost: "health logs of NVMe drives, the limits that EBS volumes report, and the state of \
               thin pools, snapshots and paths: iowhy has to run as root for them",
        any: CapabilitySet::SYS_ADMIN,
        asked_for: has_devices_that_refuse,
        granted: false,
    },
];

fn everywhere() -> bool {
    true
}

/// Whether there is an NVMe controller or a device mapper, which answer only who may change them,
/// too.
pub(crate) fn has_devices_that_refuse() -> bool {
    let controllers = std::fs::read_dir("/sys/class/nvme");
    controllers.is_ok_and(|mut entries| entries.next().is_some())
        || std::path::Path::new("/sys/class/misc/device-mapper").exists()
}

/// Whether BPF maps are charged as locked memory (before 5.11) and a limit is set.
fn maps_need_room() -> bool {
    getrlimit(Resource::Memlock).current.is_some() && kernel::maps_are_locked_memory()
}

/// The capabilities that this machine requires.
pub fn asked_for() -> impl Iterator<Item = &'static Capability> {
    CAPABILITIES.iter().filter(|capability| (capability.asked_for)())
}

/// The capabilities that this process lacks.
pub fn missing() -> Vec<&'static Capability> {
    match rustix::thread::capabilities(None) {
        Ok(sets) => missing_of(sets.effective),
        Err(_) => Vec::new(),
    }
}

fn missing_of(effective: CapabilitySet) -> Vec<&'static Capability> {
    let missing = CAPABILITIES.iter().filter(|capability| !effective.intersects(capability.any));
    missing.filter(|capability| (capability.asked_for)()).collect()
}

/// Returns an error if this process lacks a capability that every watch requires.
pub fn require() -> Result<(), WatchError> {
    let missing: Vec<&str> = missing()
        .into_iter()
        .filter(|capability| capability.needed)
        .map(|capability| capability.name)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(WatchError::Privilege { missing: missing.join(", "), granting: granting() })
}

/// The command that grants all of them but CAP_SYS_ADMIN, which is nearly root. It replaces
/// capabilities that were set before. Only a group may run the program then: it sees every
/// process's files. Changing the group takes capabilities away, so that comes first.
pub fn granting() -> String {
    let granted = asked_for().filter(|capability| capability.granted);
    let names: Vec<String> = granted.map(|granted| granted.name.to_lowercase()).collect();
    let own = "\"$(command -v iowhy)\"";
    let names = names.join(",");
    format!("sudo chgrp adm {own} && sudo chmod 0750 {own} && sudo setcap {names}+ep {own}")
}

/// Returns a sentence for each missing capability, on what is not visible without it. CAP_SYSLOG is
/// left out: whether kernel addresses are hidden depends on more than that, and a watch detects it.
pub fn limits() -> impl Iterator<Item = String> {
    let lost =
        missing().into_iter().filter(|capability| !capability.any.contains(CapabilitySet::SYSLOG));
    let lost = lost.map(|lost| format!("not visible: {}; missing {}", lost.lost, lost.name));
    let namespace = is_in_user_namespace().then(|| {
        format!("not visible: {OUTSIDE_OF_NAMESPACE}; capabilities of a user namespace end there")
    });
    lost.chain(namespace)
}

/// What capabilities of a user namespace do not show.
pub const OUTSIDE_OF_NAMESPACE: &str = "counters in /proc/PID/io, open files, function names and \
                                        blocking locks of processes outside of this user namespace";

/// Whether this process is in a user namespace other than the machine's: its capabilities count
/// there only.
pub fn is_in_user_namespace() -> bool {
    // Where there are no user namespaces, there is no such file.
    std::fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| !maps_all(&map))
}

/// Whether users are mapped as the first user namespace maps them.
fn maps_all(map: &str) -> bool {
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(effective: CapabilitySet) -> Vec<&'static str> {
        missing_of(effective).into_iter().map(|capability| capability.name).collect()
    }

    #[test]
    fn only_the_machines_own_namespace_maps_all_users_to_themselves() {
        assert!(maps_all("         0          0 4294967295\n"));
        assert!(!maps_all("         0      65534          1\n"));
        assert!(!maps_all("0 0 4294967294\n"));
    }

    #[test]
    fn what_is_missing_is_named() {
        assert_eq!(names(CapabilitySet::all()), Vec::<&str>::new());
        assert_eq!(names(CapabilitySet::empty()).len(), asked_for().count());
        for (one, name) in
            [(CapabilitySet::SYS_PTRACE, "CAP_SYS_PTRACE"), (CapabilitySet::SYSLOG, "CAP_SYSLOG")]
        {
            assert_eq!(names(CapabilitySet::all() - one), [name]);
        }
    }

    #[test]
    fn some_stand_for_others() {
        let few = CapabilitySet::SYS_ADMIN | CapabilitySet::DAC_OVERRIDE;
        let admin = names(few | CapabilitySet::SYS_RESOURCE);
        assert_eq!(admin, ["CAP_SYS_PTRACE", "CAP_SYSLOG", "CAP_SYS_NICE"]);
    }

    #[test]
    fn the_command_grants_all() {
        let command = granting();
        for it in asked_for() {
            assert_eq!(command.contains(&it.name.to_lowercase()), it.granted, "{command}");
            assert!(!it.lost.is_empty());
        }
    }
}
