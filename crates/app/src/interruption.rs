//! Ctrl-C while something is written: the command ends in order and removes what it began. A second
//! one ends it at once.
//!
//! What does not belong here: live watches, whose end a signal asks for ([`crate::watching`]).

use crate::failure::Failure;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// The exit code of a command that Ctrl-C ended, as shells have it.
const INTERRUPTED: u8 = 130;

static SIGNALLED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// From now on signals are noted instead of ending the process at once.
pub fn note_signals() -> Result<(), Failure> {
    if SIGNALLED.get().is_some() {
        return Ok(());
    }
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        let code = 128 + signal;
        signal_hook::flag::register_conditional_shutdown(signal, code, Arc::clone(&flag))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&flag)))
            .map_err(|error| Failure::new(format!("failed to handle signals: {error}"), None))?;
    }
    SIGNALLED.get_or_init(|| flag);
    Ok(())
}

/// A failure once a signal came.
pub fn check() -> Result<(), Failure> {
    match SIGNALLED.get().is_some_and(|flag| flag.load(Ordering::Relaxed)) {
        false => Ok(()),
        true => {
            let failure = Failure::new("interrupted: nothing was written", None);
            Err(Failure { code: INTERRUPTED, ..failure })
        }
    }
}
