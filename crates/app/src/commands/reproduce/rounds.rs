//! One round: the load is started, recorded by iowhy itself, and ended.
//!
//! What does not belong here: what is done with the recording.

use crate::failure::Failure;
use crate::interruption;
use iowhy_reproduce::replay::player::ReplayTimes;
use iowhy_reproduce::run::Prepared;
use std::io::Read as _;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Time that the load runs before it is recorded.
const SETTLE: Duration = Duration::from_millis(1500);
const POLL: Duration = Duration::from_millis(50);

/// Whether a signal came.
pub fn is_stopped() -> bool {
    interruption::check().is_err()
}

/// Runs the load for so long and records it into `output`; says how punctual a replay was.
pub fn record(
    prepared: &Prepared,
    time: Duration,
    output: &Path,
) -> Result<Option<ReplayTimes>, Failure> {
    let mut load = prepared.start()?;
    let begun = Instant::now();
    while begun.elapsed() < SETTLE {
        interruption::check()?;
        load.check()?;
        std::thread::sleep(POLL);
    }
    let own = std::env::current_exe()
        .map_err(|cause| Failure::new(format!("failed to find iowhy itself: {cause}"), None))?;
    let mut command = iowhy_fs::bound::command(&own);
    command.args(["record", "-t", &time.as_secs_f64().to_string(), "-o"]).arg(output);
    let mut disks = prepared.disks();
    disks.sort_unstable();
    disks.dedup();
    disks.iter().for_each(|disk| {
        command.args(["-d", disk]);
    });
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let failed = |cause: String| Failure::new(format!("failed to record the run: {cause}"), None);
    let mut child = command.spawn().map_err(|cause| failed(cause.to_string()))?;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) => {}
            Err(cause) => return Err(failed(cause.to_string())),
        }
        let stopped = interruption::check().and_then(|()| Ok(load.check()?));
        if let Err(failure) = stopped {
            // The child's programs are unloaded with it.
            let _ = child.kill();
            let _ = child.wait();
            return Err(failure);
        }
        std::thread::sleep(POLL);
    };
    if status.success() {
        return Ok(load.replayed());
    }
    let mut said = String::new();
    if let Some(mut pipe) = child.stderr.take() {
        // Text that cannot be read is left out.
        let _ = pipe.read_to_string(&mut said);
    }
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    let failure = failed(said.lines().next().unwrap_or("it was killed").to_owned());
    Err(Failure { code: code.unwrap_or(failure.code), ..failure })
}
