//! Ctrl-C while something is written: the command ends in order and removes what it began. A second
//! one ends it at once. Of other signals a second one does so only if it comes later: a session
//! that closes, and timeout(1), send several at a time.
//!
//! What does not belong here: live watches, whose end a signal asks for ([`crate::watching`]).

use crate::failure::Failure;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::{flag, low_level};
use std::io::{self, Read as _};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{Builder, sleep};
use std::time::Duration;

/// The exit code of a command that Ctrl-C ended, as shells have it.
const INTERRUPTED: u8 = 130;

/// The time within which several signals are one request.
const TOGETHER: Duration = Duration::from_secs(2);

static SIGNALLED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// From now on signals are noted instead of ending the process at once.
pub fn note_signals() -> Result<(), Failure> {
    if SIGNALLED.get().is_some() {
        return Ok(());
    }
    let signalled = register()
        .map_err(|error| Failure::new(format!("failed to handle signals: {error}"), None))?;
    SIGNALLED.get_or_init(|| signalled);
    Ok(())
}

/// Returns the flag that signals set.
fn register() -> io::Result<Arc<AtomicBool>> {
    let (signalled, is_late) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
    let (mut first, waker) = UnixStream::pair()?;
    for (signal, ends_at_once) in [(SIGINT, &signalled), (SIGTERM, &is_late), (SIGHUP, &is_late)] {
        let code = 128 + signal;
        flag::register_conditional_shutdown(signal, code, Arc::clone(ends_at_once))?;
        flag::register(signal, Arc::clone(&signalled))?;
        low_level::pipe::register(signal, waker.try_clone()?)?;
    }
    Builder::new().name("signals".to_owned()).spawn(move || {
        if first.read_exact(&mut [0]).is_ok() {
            sleep(TOGETHER);
            is_late.store(true, Ordering::SeqCst);
        }
    })?;
    Ok(signalled)
}

/// From now on a file that would exceed the limit of file sizes (`ulimit -f`) is an error of the
/// write instead of the end of the process. Programs that are started have their own way.
pub fn fail_at_size_limit() {
    // Where it cannot be, the kernel's signal says it.
    let _ = flag::register(SIGXFSZ, Arc::default());
}

/// The state of what the command was to write, which is said when it is interrupted.
static OUTCOME: Mutex<&str> = Mutex::new("nothing was written");

/// From now on, this is what is said of the outcome.
pub fn set_outcome(said: &'static str) {
    *OUTCOME.lock().unwrap_or_else(PoisonError::into_inner) = said;
}

/// A failure once a signal came.
pub fn check() -> Result<(), Failure> {
    match SIGNALLED.get().is_some_and(|flag| flag.load(Ordering::Relaxed)) {
        false => Ok(()),
        true => {
            let outcome = *OUTCOME.lock().unwrap_or_else(PoisonError::into_inner);
            let failure = Failure::new(format!("interrupted: {outcome}"), None);
            Err(Failure { code: INTERRUPTED, ..failure })
        }
    }
}
