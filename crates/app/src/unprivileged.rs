//! Unprivileged device statistics from /proc and /sys. Shown if the privilege for more is missing,
//! or the kernel does not support more.

use crate::failure::Failure;
use crate::output;
use crate::redaction;
use iowhy_analysis::Summarizer;
use iowhy_capture::host::{devices, system};
use iowhy_diagnosis::Diagnosis;
use iowhy_model::Names;
use std::time::Duration;

/// Long enough for a rate, short enough for a user who wanted another command.
const LONGEST: Duration = Duration::from_secs(2);

/// Prints the failure, shows the kernel's counters if they are available although a watch cannot
/// begin, and returns a failure without a message.
pub fn instead(failure: Failure, time: Duration, json: bool) -> Failure {
    if !failure.leaves_counters || json {
        return failure;
    }
    output::failure(&failure);
    match show(time) {
        Ok(()) => Failure { message: String::new(), hint: None, ..failure },
        Err(unshown) => unshown,
    }
}

/// Reads the kernel's counters for a moment and shows them.
fn show(time: Duration) -> Result<(), Failure> {
    output::note("only the kernel's counters are shown:");
    let mut environment = redaction::environment(system::environment());
    environment.start_ns = system::now_ns();
    *environment.devices = devices::read_all();
    std::thread::sleep(time.min(LONGEST));
    environment.end_ns = system::now_ns();
    environment.finished = true;
    devices::read_end(&mut environment.devices, false);
    environment.limits.push(
        "no requests, processes, files or code paths: counters of the kernel only".to_owned(),
    );
    let summary = Summarizer::new(&environment).finish(&environment, &Names::new());
    let diagnosis = Diagnosis::default();
    output::print(&iowhy_views::text::page(&summary, &diagnosis, None, &output::style()))
}
