//! The rights with which files that a user names are opened.
//!
//! A program with file capabilities (`setcap`) can read every file of the machine for any user.
//! What the user names on the command line is opened without these capabilities; only what iowhy
//! itself looks for in /proc is not. Root's rights are its own.
//!
//! What does not belong here: which capabilities a watch needs.

use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

/// The capabilities that pass over the permissions of files.
const OVER_PERMISSIONS: CapabilitySet = CapabilitySet::DAC_OVERRIDE
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::CHOWN);

/// Does `action` without the capabilities that pass over permissions, unless root does it.
pub fn with_own_rights<T>(action: impl FnOnce() -> T) -> T {
    let _lowered = Lowered::new();
    action()
}

/// This thread's capabilities as they were, restored at the end.
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
            // They are within the permitted set, so the kernel grants them.
            let _ = set_capabilities(None, before);
        }
    }
}

/// Gives up for good what passes over permissions: for commands that only read what their user
/// names.
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
