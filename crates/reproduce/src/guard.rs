//! A process that gives back what a run has changed when the run is killed, at once and not only
//! with the next run: this program again, which waits for the lock that a living run holds.
//!
//! What does not belong here: what is given back (see [`crate::undo`]).

use crate::undo;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// The first argument of a guard. The user's arguments never begin with it: it is no command.
const ARGUMENT: &str = "--give-back";

/// Guards a run, if this process was started for that; returns whether it was.
pub fn become_guard() -> bool {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_none_or(|first| first != ARGUMENT) {
        return false;
    }
    if let Some(folder) = arguments.next() {
        undo::give_back_behind(&PathBuf::from(folder));
    }
    true
}

/// Starts the guard of the run whose notes are in `folder`. Without one the next run gives back
/// what this one leaves.
pub(crate) fn start(folder: &Path) {
    let Some(mut guard) = iowhy_fs::bound::own_program() else { return };
    guard.arg(ARGUMENT).arg(folder).current_dir("/");
    // The terminal's signals are not for it: it outlives the run.
    guard.process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // It is reaped by the process that adopts it, or by the end of this process.
    let _ = guard.spawn();
}
