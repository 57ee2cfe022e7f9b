//! The rights that a watch keeps once it has begun: one table of capabilities with what each is
//! for, and the roles of its threads and of the reader's process.
//!
//! What does not belong here: how rights are given up (`iowhy_fs::confined`), and what a watch
//! needs to begin ([`crate::privilege`]).

use crate::host::health;
use crate::kernel;
use crate::privilege;
use crate::session::Session;
use iowhy_fs::confined::{InEffect, ProgramLoading, Role, enter, limit_this_thread};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};
use std::io;
use std::path::PathBuf;

/// A capability that is kept.
struct KeptCapability {
    set: CapabilitySet,
    /// Whether it is used on this machine.
    is_used: fn(RightsHolder) -> bool,
}

/// A process or thread that holds rights.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RightsHolder {
    /// The thread of a watch that is not renewed.
    Watch,
    /// The thread of a daemon that watches.
    Daemon,
    /// The process that reads memory, programs and settings of others.
    Reader,
    /// The process that asks devices for their health.
    HealthAsker,
}

const KEPT: &[KeptCapability] = &[
    // For counters, programs and open files of processes, and stacks of sleeping ones.
    KeptCapability { set: CapabilitySet::SYS_PTRACE, is_used: always },
    // For the same of other users.
    KeptCapability { set: CapabilitySet::DAC_READ_SEARCH, is_used: always },
    // For programs' files by /proc/PID/map_files, whatever became of their path.
    KeptCapability { set: CapabilitySet::CHECKPOINT_RESTORE, is_used: always },
    // For names of kernel functions, and the kernel's log.
    KeptCapability { set: CapabilitySet::SYSLOG, is_used: watches },
    // For the priority of the thread that reads the ring buffer.
    KeptCapability { set: CapabilitySet::SYS_NICE, is_used: watches },
    // For health of NVMe controllers, states of the device mapper, smartctl.
    KeptCapability {
        set: CapabilitySet::SYS_ADMIN.union(CapabilitySet::SYS_RAWIO),
        is_used: asks_devices,
    },
    // For programs of the next watch of a daemon; every map before 5.19.
    KeptCapability { set: CapabilitySet::BPF.union(CapabilitySet::PERFMON), is_used: loads },
    // For maps of the next watch of a daemon, where they count as locked memory.
    KeptCapability { set: CapabilitySet::SYS_RESOURCE, is_used: needs_room },
];

fn always(_: RightsHolder) -> bool {
    true
}

fn watches(by: RightsHolder) -> bool {
    matches!(by, RightsHolder::Watch | RightsHolder::Daemon)
}

fn loads(by: RightsHolder) -> bool {
    by == RightsHolder::Daemon
}

fn needs_room(by: RightsHolder) -> bool {
    loads(by) && kernel::maps_are_locked_memory()
}

/// The process that asks is started when a watch begins: the thread of one that is not renewed has
/// no more use for it.
fn asks_devices(by: RightsHolder) -> bool {
    matches!(by, RightsHolder::Daemon | RightsHolder::HealthAsker)
        && (privilege::has_devices_that_refuse() || health::has_program())
}

fn kept(by: RightsHolder) -> CapabilitySet {
    let kept = KEPT.iter().filter(|right| (right.is_used)(by));
    kept.fold(CapabilitySet::empty(), |all, right| all.union(right.set))
}

/// Limits a process that was started to read: it parses content of others.
pub fn limit_reader(role: RightsHolder) {
    limit_this_thread(&Role::Reads(ProgramLoading::Over), kept(role));
}

/// Limits the thread of a daemon that watches, whose watch is renewed; it writes below `places`.
///
/// # Errors
/// Fails if the system has no thread for it.
pub fn limit_daemon(places: Vec<PathBuf>) -> io::Result<InEffect> {
    enter(places, kept(RightsHolder::Daemon), ProgramLoading::Allowed)
}

/// Limits the thread of a watch that has begun and is not renewed; it writes below `places`.
///
/// # Errors
/// Fails if the system has no thread for it.
pub(crate) fn limit_watch(session: &Session, places: Vec<PathBuf>) -> io::Result<InEffect> {
    let mut kept = kept(RightsHolder::Watch);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_that_has_begun_keeps_no_right_to_load_write_or_administer_without_a_use() {
        let never = CapabilitySet::BPF
            | CapabilitySet::PERFMON
            | CapabilitySet::SYS_ADMIN
            | CapabilitySet::SYS_RAWIO
            | CapabilitySet::DAC_OVERRIDE
            | CapabilitySet::SYS_MODULE
            | CapabilitySet::SETUID
            | CapabilitySet::KILL
            | CapabilitySet::NET_ADMIN;
        assert!(!kept(RightsHolder::Watch).intersects(never));
        assert!(!kept(RightsHolder::Reader).intersects(never | CapabilitySet::SYS_NICE));
        let loading = CapabilitySet::BPF | CapabilitySet::PERFMON;
        let daemons = kept(RightsHolder::Daemon).intersection(never).difference(loading);
        let devices = CapabilitySet::SYS_ADMIN | CapabilitySet::SYS_RAWIO;
        assert!(devices.contains(daemons), "{daemons:?}");
        assert!(!kept(RightsHolder::HealthAsker).intersects(loading));
        let document = include_str!("../../../SECURITY.md");
        for (name, _) in KEPT.iter().flat_map(|right| right.set.iter_names()) {
            assert!(document.contains(&format!("`CAP_{name}`")), "{name}");
        }
    }
}
