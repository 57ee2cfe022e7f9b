//! The rights that a watch keeps once it has begun: one table of capabilities with what each is
//! for, and the roles of its threads and of the reader's process.
//!
//! What does not belong here: how rights are given up (`iowhy_fs::confined`), and what a watch needs
//! to begin ([`crate::privilege`]).

use crate::host::health;
use crate::kernel;
use crate::privilege;
use crate::session::Session;
use iowhy_fs::confined::{InEffect, ProgramLoading, Role, enter, limit_this_thread};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};
use std::io;
use std::path::PathBuf;

/// A capability that is kept, and its use.
struct KeptCapability {
    set: CapabilitySet,
    /// Its use after the beginning.
    purpose: &'static str,
    /// Whether the reader's process has it, too.
    by_reader: bool,
    /// Whether this machine and this watch have that use.
    is_used: fn(ProgramLoading) -> bool,
}

const KEPT: &[KeptCapability] = &[
    KeptCapability {
        set: CapabilitySet::SYS_PTRACE,
        purpose: "counters, programs and open files of processes, and stacks of sleeping ones",
        by_reader: true,
        is_used: always,
    },
    KeptCapability {
        set: CapabilitySet::DAC_READ_SEARCH,
        purpose: "the same of other users",
        by_reader: true,
        is_used: always,
    },
    KeptCapability {
        set: CapabilitySet::CHECKPOINT_RESTORE,
        purpose: "programs' files by /proc/PID/map_files, whatever became of their path",
        by_reader: true,
        is_used: always,
    },
    KeptCapability {
        set: CapabilitySet::SYSLOG,
        purpose: "names of kernel functions, and the kernel's log",
        by_reader: true,
        is_used: always,
    },
    KeptCapability {
        set: CapabilitySet::SYS_NICE,
        purpose: "the priority of the thread that reads the ring buffer",
        by_reader: false,
        is_used: always,
    },
    KeptCapability {
        set: CapabilitySet::SYS_ADMIN.union(CapabilitySet::SYS_RAWIO),
        purpose: "health of NVMe controllers, states of the device mapper, smartctl",
        by_reader: true,
        is_used: asks_devices,
    },
    KeptCapability {
        set: CapabilitySet::BPF.union(CapabilitySet::PERFMON),
        purpose: "programs of the next watch of a daemon; every map before 5.19",
        by_reader: false,
        is_used: loads,
    },
    KeptCapability {
        set: CapabilitySet::SYS_RESOURCE,
        purpose: "maps of the next watch of a daemon, where they count as locked memory",
        by_reader: false,
        is_used: needs_room,
    },
];

fn always(_: ProgramLoading) -> bool {
    true
}

fn loads(loading: ProgramLoading) -> bool {
    loading == ProgramLoading::Allowed
}

fn needs_room(loading: ProgramLoading) -> bool {
    loads(loading) && kernel::maps_are_locked_memory()
}

fn asks_devices(_: ProgramLoading) -> bool {
    privilege::has_devices_that_refuse() || health::has_program()
}

fn kept(loading: ProgramLoading, by_reader: bool) -> CapabilitySet {
    let kept = KEPT.iter().filter(|it| (it.is_used)(loading) && (it.by_reader || !by_reader));
    kept.fold(CapabilitySet::empty(), |all, it| all.union(it.set))
}

/// Limits the reader's process: it parses memory, programs and names of others.
pub fn limit_reader() {
    let role = Role::Reads(ProgramLoading::Over);
    limit_this_thread(&role, kept(ProgramLoading::Over, true));
}

/// Limits the thread of a daemon that watches, whose watch is renewed; it writes below `places`.
///
/// # Errors
/// The system has no thread for it.
pub fn limit_daemon(places: Vec<PathBuf>) -> io::Result<InEffect> {
    enter(places, kept(ProgramLoading::Allowed, false), ProgramLoading::Allowed)
}

/// Limits the thread of a watch that has begun and is not renewed; it writes below `places`.
///
/// # Errors
/// The system has no thread for it.
pub(crate) fn limit_watch(session: &Session, places: Vec<PathBuf>) -> io::Result<InEffect> {
    let mut kept = kept(ProgramLoading::Over, false);
    if !reads_maps_without(session) {
        kept |= CapabilitySet::BPF;
    }
    enter(places, kept, ProgramLoading::Over)
}

/// Whether maps that are open can be read without CAP_BPF: since 5.19, found by reading one.
fn reads_maps_without(session: &Session) -> bool {
    let Ok(before) = capabilities(None) else { return false };
    let over = CapabilitySet::BPF.union(CapabilitySet::SYS_ADMIN);
    let lowered = CapabilitySets { effective: before.effective.difference(over), ..before };
    if set_capabilities(None, lowered).is_err() {
        return false;
    }
    let is_read = session.reads_maps();
    set_capabilities(None, before).is_ok() && is_read
}

/// The names of what a watch of this machine keeps, and what for; the second is a daemon's.
pub fn uses() -> impl Iterator<Item = (String, &'static str)> {
    KEPT.iter().map(|it| {
        let names: Vec<String> =
            it.set.iter_names().map(|(name, _)| format!("CAP_{name}")).collect();
        (names.join(", "), it.purpose)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_that_has_begun_keeps_no_right_to_load_write_or_administer_without_a_use() {
        let over = kept(ProgramLoading::Over, false);
        let never = CapabilitySet::BPF
            | CapabilitySet::PERFMON
            | CapabilitySet::DAC_OVERRIDE
            | CapabilitySet::SYS_MODULE
            | CapabilitySet::SETUID
            | CapabilitySet::KILL
            | CapabilitySet::NET_ADMIN;
        assert!(!over.intersects(never), "{over:?}");
        assert!(!kept(ProgramLoading::Allowed, true).intersects(never | CapabilitySet::SYS_NICE));
        let has_use = asks_devices(ProgramLoading::Over);
        assert_eq!(over.contains(CapabilitySet::SYS_ADMIN), has_use);
        assert!(uses().all(|(names, purpose)| names.starts_with("CAP_") && purpose.len() > 10));
    }
}
