//! The rights with which files that a user names are opened.
//!
//! A program with file capabilities (`setcap`) can read every file of the machine for any user.
//! What the user names on the command line is opened without these capabilities; only what iowhy
//! itself looks for in /proc is not. Root's rights are its own.
//!
//! What does not belong here: which capabilities a watch needs.

use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities,
};

/// The capabilities that pass over the permissions of files, also of those that the links in /proc
/// of another user's process lead to.
const OVER_PERMISSIONS: CapabilitySet = CapabilitySet::DAC_OVERRIDE
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::CHOWN)
    .union(CapabilitySet::SYS_PTRACE)
    .union(CapabilitySet::CHECKPOINT_RESTORE);

/// Does `action` without the capabilities that pass over permissions, unless root does it.
pub fn with_own_rights<T>(action: impl FnOnce() -> T) -> T {
    let _lowered = Lowered::new();
    action()
}

/// The thread's capabilities as they were, restored at the end.
struct Lowered(Option<CapabilitySets>);

impl Lowered {
    fn new() -> Lowered {
        if rustix::process::geteuid().is_root() {
            return Lowered(None);
        }
        let Ok(before) = capabilities(None) else { return Lowered(None) };
        if !before.effective.intersects(OVER_PERMISSIONS) {
            return Lowered(None);
        }
        let effective = before.effective.difference(OVER_PERMISSIONS);
        // A set that only becomes smaller is always granted.
        let lowered = set_capabilities(None, CapabilitySets { effective, ..before });
        Lowered(lowered.is_ok().then_some(before))
    }
}

impl Drop for Lowered {
    fn drop(&mut self) {
        if let Some(before) = self.0 {
            // The capabilities are within the permitted set, so the kernel grants them.
            let _ = set_capabilities(None, before);
        }
    }
}

/// Gives up for good all capabilities that came with the program's file (`setcap`) rather than from
/// the process that started it, which sets `no_new_privs` for it: for a process that answers
/// anybody who starts it.
pub fn keep_those_of_parent_only() {
    let is_started_so = rustix::thread::no_new_privs().unwrap_or(false);
    if is_started_so || rustix::process::geteuid().is_root() {
        return;
    }
    let empty = CapabilitySet::empty();
    let none = CapabilitySets { effective: empty, permitted: empty, inheritable: empty };
    // A set that only becomes smaller is always granted.
    let _ = set_capabilities(None, none);
}

/// Gives up for good the capabilities that pass over permissions: for commands that only read files
/// that their user names.
pub fn keep_own_rights_only() {
    if rustix::process::geteuid().is_root() {
        return;
    }
    if let Ok(now) = capabilities(None) {
        let less = |set: CapabilitySet| set.difference(OVER_PERMISSIONS);
        let sets = CapabilitySets {
            effective: less(now.effective),
            permitted: less(now.permitted),
            inheritable: less(now.inheritable),
        };
        // Sets that only become smaller are always granted.
        let _ = set_capabilities(None, sets);
    }
}

/// Gives up for good every capability of the calling thread that is not in `kept`, also for the
/// programs that it starts.
pub fn keep_only(kept: CapabilitySet) {
    for capability in CapabilitySet::all().difference(kept).iter() {
        // Without CAP_SETPCAP, or where this kernel does not know it, it stays: no_new_privs keeps
        // programs from gaining it.
        let _ = remove_capability_from_bounding_set(capability);
    }
    let _ = clear_ambient_capability_set();
    keep_for_now(kept);
}

/// Gives up every capability of the calling thread that is not in `kept`; a program that root
/// starts may have them again.
pub fn keep_for_now(kept: CapabilitySet) {
    if let Ok(now) = capabilities(None) {
        let less = |set: CapabilitySet| set.intersection(kept);
        let inheritable = less(now.inheritable);
        let sets = CapabilitySets {
            effective: less(now.effective),
            permitted: less(now.permitted),
            inheritable,
        };
        // Sets that only become smaller are always granted.
        let _ = set_capabilities(None, sets);
    }
}
