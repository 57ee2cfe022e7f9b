//! A flight recorder of the benchmarks: with its own directories, and ended on drop.
//!
//! What does not belong here: the measurements of it (see [`super::recorder`], [`super::soak`]).

use crate::error::Context;
use crate::scratch::Scratch;
use crate::{LabError, Result, iowhy, machine, process};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The time that any step may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// A configuration that begins no incident; the time after one is short, since the benchmark waits
/// for it.
const QUIET: &str = "after = \"10s\"\n[trigger]\nfinding = \"off\"\npressure-io = \"off\"\n\
                     in-flight = \"off\"\nhung-task = \"off\"\n";

/// Waits until a condition is true.
pub(super) fn wait_for(what: &str, mut is_there: impl FnMut() -> bool) -> Result<()> {
    let begun = Instant::now();
    while !is_there() {
        if begun.elapsed() > PATIENCE {
            return Err(LabError::failed(format!("see {what}"), format!("waited {PATIENCE:?}")));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// A daemon with directories of its own, ended on drop.
pub(super) struct RunningDaemon {
    child: Child,
    config: PathBuf,
    pub state: PathBuf,
    pub runtime: PathBuf,
}

impl RunningDaemon {
    /// Starts a daemon with those lines in its configuration; returns once it watches.
    pub fn start(scratch: &Scratch, lines: &str) -> Result<RunningDaemon> {
        RunningDaemon::start_in(scratch, &scratch.fresh("state"), ("", lines))
    }

    /// Starts a daemon with its state in that directory. `lines` are those before the first table
    /// of the configuration, and the tables.
    pub fn start_in(
        scratch: &Scratch,
        state: &Path,
        (settings, tables): (&str, &str),
    ) -> Result<RunningDaemon> {
        let (config, state) = (scratch.fresh("iowhy.toml"), state.to_owned());
        // In memory, as /run is.
        let name = format!("iowhy-bench-{}", std::process::id());
        let runtime = PathBuf::from("/dev/shm").join(name);
        let text = format!("{settings}{QUIET}{tables}");
        fs::write(&config, text).context(|| format!("write {}", config.display()))?;
        let mut command = Command::new(iowhy::binary()?);
        command.arg("daemon").arg("--config").arg(&config).arg("--state").arg(&state);
        command.arg("--runtime").arg(&runtime);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().context(|| "start the daemon".to_owned())?;
        let daemon = RunningDaemon { child, config, state, runtime };
        let ring = daemon.runtime.join("ring");
        let has_begun = || fs::read_dir(&ring).is_ok_and(|mut entries| entries.next().is_some());
        wait_for("a ring", has_begun)?;
        Ok(daemon)
    }

    pub fn command(&self, words: &[&str]) -> Result<Command> {
        let mut command = Command::new(iowhy::binary()?);
        command.args(words).arg("--config").arg(&self.config).arg("--state").arg(&self.state);
        command.arg("--runtime").arg(&self.runtime);
        Ok(command)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    fn gone() -> LabError {
        LabError::failed("measure the daemon", "it has ended")
    }

    pub fn cpu_seconds(&self) -> Result<f64> {
        machine::cpu_seconds_of(self.child.id()).ok_or_else(RunningDaemon::gone)
    }

    /// Its resident memory: `VmRSS` now, `VmHWM` the largest so far, bytes.
    pub fn memory(&self, which: &str) -> Result<u64> {
        machine::memory_of(self.child.id(), which).ok_or_else(RunningDaemon::gone)
    }

    /// Bytes of the longest line of its history.
    pub fn history_line(&self) -> Option<u64> {
        let days = fs::read_dir(self.state.join("history")).ok()?.flatten();
        let texts = days.filter_map(|day| fs::read_to_string(day.path()).ok());
        texts.flat_map(|text| text.lines().map(|line| line.len() as u64 + 1).max()).max()
    }

    pub fn stop(self) -> Result<()> {
        let state = self.state.clone();
        drop(self);
        fs::remove_dir_all(&state).context(|| format!("remove {}", state.display()))
    }
}

impl Drop for RunningDaemon {
    fn drop(&mut self) {
        process::signal(&self.child, rustix::process::Signal::TERM);
        process::wait_or_kill(&mut self.child, Duration::from_secs(30));
        // Nobody else removes it.
        let _ = fs::remove_dir_all(&self.runtime);
    }
}
