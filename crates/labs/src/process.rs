//! Processes that a lab started, and only those: ended as Ctrl-C would.

use rustix::process::{Pid, Signal, kill_process};
use std::process::Child;
use std::time::{Duration, Instant};

/// How long a process may take to end before it is killed.
const PATIENCE: Duration = Duration::from_secs(30);

/// Sends `signal` to a process that has not been waited for.
pub fn signal(child: &Child, signal: Signal) {
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ended_already = kill_process(pid, signal);
    }
}

/// Ends a process as Ctrl-C would; kills it where that does not help.
pub fn end(child: &mut Child) {
    if child.try_wait().is_ok_and(|status| status.is_none()) {
        signal(child, Signal::INT);
    }
    wait_or_kill(child, PATIENCE);
}

/// Waits until it has ended; kills it after `patience`.
pub fn wait_or_kill(child: &mut Child, patience: Duration) {
    let start = Instant::now();
    while child.try_wait().is_ok_and(|status| status.is_none()) {
        if start.elapsed() > patience {
            let _ended_already = child.kill();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
