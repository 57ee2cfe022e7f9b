//! An interrupted watch keeps its data.

use crate::recording::Recording;
use crate::support::{finish, iowhy, printed, trial, wait_until};
use iowhy_labs::devices::{Backing, BlockDevice, LoopDevice};
use iowhy_labs::error::Context;
use iowhy_labs::fio::{Engine, FioAccess, Job};
use iowhy_labs::scratch::Scratch;
use iowhy_labs::{LabError, Result, machine, process};
use libtest_mimic::Trial;
use rustix::process::{Pid, Signal, kill_process};
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};
use std::sync::Arc;

pub fn tests() -> Vec<Trial> {
    vec![
        trial("signals::interrupted_once", || ends_cleanly(&[Signal::INT])),
        trial("signals::interrupted_twice", || ends_cleanly(&[Signal::INT, Signal::INT])),
        trial("signals::terminated", || ends_cleanly(&[Signal::TERM])),
        trial("signals::killed", killed),
        trial("signals::command_fails", command_fails),
        trial("signals::time_is_over_before_the_command", time_is_over),
    ]
}

/// A load that goes on until it is dropped.
struct EndlessLoad {
    scratch: Arc<Scratch>,
    device: LoopDevice,
    fio: Child,
}

impl EndlessLoad {
    fn start() -> Result<EndlessLoad> {
        machine::need_bpf()?;
        let scratch = Scratch::new()?;
        let device = LoopDevice::new(&scratch, Backing::Tmpfs, 64 << 20)?;
        let job = Job::new(device.path(), Engine::Psync, FioAccess::RandomRead, 4096).direct();
        let job = job.with("rate_iops", "500").with("size", "64m").timed(300);
        let mut command = job.command(&scratch.fresh("fio.json"))?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let fio = command.spawn().context(|| "start fio".to_owned())?;
        Ok(EndlessLoad { scratch, device, fio })
    }

    /// Starts a watch and waits until it has written its first segment.
    fn watch(&self) -> Result<(Child, PathBuf)> {
        let output = self.scratch.fresh("recording");
        let mut record = iowhy(["record", "-d", self.device.name(), "-o"])?;
        record.arg(&output).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = record.spawn().context(|| "start iowhy".to_owned())?;
        let segments = output.join("requests");
        wait_until("the first segment", || {
            if let Ok(Some(status)) = child.try_wait() {
                return Err(LabError::failed("watch", format!("iowhy ended early: {status}")));
            }
            Ok(std::fs::read_dir(&segments).into_iter().flatten().flatten().any(is_segment))
        })?;
        Ok((child, output))
    }
}

fn is_segment(entry: std::fs::DirEntry) -> bool {
    entry.path().extension().is_some_and(|extension| extension == "parquet")
}

impl Drop for EndlessLoad {
    fn drop(&mut self) {
        process::end(&mut self.fio);
    }
}

fn ending(mut child: Child) -> Result<Output> {
    let ended = || Ok(child.try_wait().is_ok_and(|status| status.is_some()));
    if let Err(error) = wait_until("the end of iowhy", ended) {
        process::signal(&child, Signal::KILL);
        return Err(error);
    }
    child.wait_with_output().context(|| "wait for iowhy".to_owned())
}

fn report(recording: &Path) -> Result<Output> {
    let mut command = iowhy(["report"])?;
    command.arg(recording);
    finish(command)
}

/// The recording is readable, whichever way the watch ended, and iowhy reports on it.
fn expect_readable(output: &Path) -> Result<Recording> {
    let recording = Recording::open(output)?;
    assert!(!recording.requests.is_empty(), "closed segments are readable");
    let shown = report(output)?;
    assert!(shown.status.success(), "{}", printed(&shown));
    Ok(recording)
}

fn ends_cleanly(signals: &[Signal]) -> Result<()> {
    let load = EndlessLoad::start()?;
    let (child, output) = load.watch()?;
    for signal in signals {
        process::signal(&child, *signal);
    }
    let ended = ending(child)?;
    let text = printed(&ended);
    assert!(!text.contains("panicked"), "{text}");
    let recording = expect_readable(&output)?;
    if signals.len() == 1 {
        assert!(ended.status.code().is_some(), "{}: {text}", ended.status);
        assert!(recording.environment.finished, "{:?}", recording.environment);
        assert!(recording.environment.end_ns > recording.environment.start_ns);
    }
    Ok(())
}

fn killed() -> Result<()> {
    let load = EndlessLoad::start()?;
    let (child, output) = load.watch()?;
    process::signal(&child, Signal::KILL);
    ending(child)?;
    let recording = expect_readable(&output)?;
    assert!(!recording.environment.finished, "it says that its writer died");
    Ok(())
}

/// The command's failure is not the watch's: the recording is kept, and the failure is reported.
fn command_fails() -> Result<()> {
    machine::need_bpf()?;
    let scratch = Scratch::new()?;
    let output = scratch.fresh("recording");
    let mut record = iowhy(["record", "-o"])?;
    record.arg(&output).args(["--", "/bin/sh", "-c", "exit 3"]);
    let text = printed(&finish(record)?);
    assert!(text.contains("exit status: 3"), "{text}");
    assert!(Recording::open(&output)?.environment.finished);
    Ok(())
}

/// A command that runs longer than the watch does not hold up its end.
fn time_is_over() -> Result<()> {
    machine::need_bpf()?;
    let scratch = Scratch::new()?;
    let (output, pid) = (scratch.fresh("recording"), scratch.fresh("pid"));
    let mut record = iowhy(["record", "-t", "1", "-o"])?;
    record
        .arg(&output)
        .args(["--", "/bin/sh", "-c", r#"echo $$ > "$0" && exec sleep 300"#])
        .arg(&pid);
    record.stdout(Stdio::null()).stderr(Stdio::null());
    let ended = ending(record.spawn().context(|| "start iowhy".to_owned())?);
    let number = std::fs::read_to_string(&pid).unwrap_or_default();
    if let Some(pid) = number.trim().parse().ok().and_then(Pid::from_raw) {
        let _ended_already = kill_process(pid, Signal::TERM);
    }
    ended?;
    assert!(Recording::open(&output)?.environment.finished);
    Ok(())
}
