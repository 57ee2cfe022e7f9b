//! The syncs of one program, as it timed them itself (fio), as strace saw them return, and as iowhy
//! counted and timed them, in one run.
//!
//! What does not belong here: the device's figures (see [`super::scene`]).

use super::compare::ComparedFigures;
use crate::devices::{FileSystemKind, LabFileSystem, ServedDevice};
use crate::error::Context;
use crate::fio::{self, Engine, FioAccess, FioReport, Job};
use crate::scratch::Scratch;
use crate::{LabError, Result, command, iowhy};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Syncs of the load.
const SYNCS: u64 = 600;
/// The latency of the device: long compared with the stop of a call for strace.
const LATENCY: Duration = Duration::from_millis(3);
const MIB: u64 = 1 << 20;

/// Calls of a kind, and their time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CallTimes {
    /// The number of calls.
    pub calls: u64,
    /// Their time from entry to return, seconds.
    pub seconds: f64,
}

impl CallTimes {
    fn mean_us(self) -> f64 {
        self.seconds * 1e6 / self.calls.max(1) as f64
    }
}

/// Runs the load and adds the figures of each of the three.
pub fn compare(compared: &mut ComparedFigures) -> Result<()> {
    let scratch = Scratch::new()?;
    let device = ServedDevice::new(&scratch, 128 * MIB)?;
    let hand = device.hand();
    let disk = LabFileSystem::new(&scratch, device, FileSystemKind::Ext4)?;
    let file = fio::prepare(&disk.path().join("log"), 4 * MIB)?;
    hand.latency(LATENCY);
    let (report, trace) = (scratch.fresh("fio.json"), scratch.fresh("strace"));
    let recording = scratch.fresh("recording");
    let job = Job::new(&file, Engine::Psync, FioAccess::Write, 4096)
        .with("fsync", "1")
        .with("number_ios", SYNCS.to_string());
    let load = job.command(&report)?;
    let mut traced = Command::new(iowhy::binary()?);
    traced.args(["record", "--every", "-o"]).arg(&recording).arg("--");
    traced.arg(command::find("strace")?).args(["-f", "-T", "-e", "trace=fsync", "-o"]).arg(&trace);
    traced.arg(load.get_program()).args(load.get_args());
    let done = output(traced);
    hand.latency(Duration::ZERO);
    done?;
    let seen = std::fs::read_to_string(&trace).context(|| "read strace's output".to_owned())?;
    let fio = FioReport::read(&report)?.sync.lat_ns;
    let fio = CallTimes { calls: fio.count, seconds: fio.mean * fio.count as f64 / 1e9 };
    let (strace, ours) = (traced_syncs(&seen), counted_syncs(&recording)?);
    for (name, theirs) in [("fio", fio), ("strace -T", strace)] {
        compared.line(format!("{name} fsync calls"), theirs.calls as f64, ours.calls as f64);
        let figure = format!("{name} mean time of fsync, µs");
        compared.line(figure, theirs.mean_us(), ours.mean_us());
    }
    Ok(())
}

fn output(mut command: Command) -> Result<String> {
    let name = command::shown(&command);
    let output = command.output().context(|| format!("run {name}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(LabError::failed(format!("run {name}"), format!("{}: {said}", output.status)))
}

/// The calls that returned, of lines such as `7 fsync(3) = 0 <0.003512>`; of a call that another
/// one interrupts, the second line has the time.
fn traced_syncs(trace: &str) -> CallTimes {
    let time = |line: &str| {
        let is_sync = line.contains("fsync(") || line.contains("fsync resumed");
        let (_, time) = line.rsplit_once('<').filter(|_| is_sync)?;
        time.trim_end().strip_suffix('>')?.parse::<f64>().ok()
    };
    trace.lines().filter_map(time).fold(CallTimes::default(), |sum, seconds| CallTimes {
        calls: sum.calls + 1,
        seconds: sum.seconds + seconds,
    })
}

/// The syncs of fio that `iowhy files` counts in a recording.
fn counted_syncs(recording: &Path) -> Result<CallTimes> {
    let mut files = Command::new(iowhy::binary()?);
    files.args(["files", "--json", "-p", "fio"]).arg(recording);
    let answer: Value =
        serde_json::from_str(output(files)?.trim()).context(|| "read iowhy files".to_owned())?;
    let rows = answer["figures"]["rows"].as_array().cloned().unwrap_or_default();
    let sum = |field: &str| rows.iter().filter_map(|row| row[field].as_u64()).sum::<u64>();
    Ok(CallTimes { calls: sum("fsyncs"), seconds: sum("fsync_ns") as f64 / 1e9 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_return_are_counted_once() {
        let trace = "7 fsync(3) = 0 <0.003500>\n\
                     8 fsync(4 <unfinished ...>\n\
                     7 fsync(3) = 0 <0.001500>\n\
                     8 <... fsync resumed>)    = 0 <0.005000>\n\
                     7 write(3, \"<9.0>\", 4) = 4 <0.000100>\n\
                     7 +++ exited with 0 +++\n";
        let found = traced_syncs(trace);
        assert_eq!(found.calls, 3);
        assert!((found.mean_us() - 3333.3).abs() < 1.0, "{found:?}");
        assert_eq!(traced_syncs(""), CallTimes::default());
    }
}
