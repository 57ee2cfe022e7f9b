//! The cost of a process: wall time, CPU time, anonymous memory.

use crate::error::Context;
use crate::{LabError, Result, command, machine};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The best cost of a process, or the sum of consecutive processes.
#[derive(Clone, Copy, Debug)]
pub struct CommandCost {
    /// Wall time, seconds.
    pub wall: f64,
    /// CPU time of all threads, seconds.
    pub cpu: f64,
    /// The largest anonymous memory that was seen, bytes.
    pub memory: u64,
}

impl CommandCost {
    /// Nothing measured yet.
    pub const UNKNOWN: CommandCost =
        CommandCost { wall: f64::INFINITY, cpu: f64::INFINITY, memory: 0 };

    fn better(&mut self, other: CommandCost) {
        self.wall = self.wall.min(other.wall);
        self.cpu = self.cpu.min(other.cpu);
        self.memory = self.memory.max(other.memory);
    }

    /// Adds the cost of the next process.
    #[must_use]
    pub fn then(self, next: CommandCost) -> CommandCost {
        CommandCost {
            wall: self.wall + next.wall,
            cpu: self.cpu + next.cpu,
            memory: self.memory.max(next.memory),
        }
    }
}

/// A program with its arguments, run again and again.
pub struct TimedCommand {
    /// Its name in the table.
    pub name: &'static str,
    /// The command.
    pub file: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// The file for its standard output, in the folder.
    pub output: &'static str,
    /// Its cost.
    pub cost: CommandCost,
}

impl TimedCommand {
    /// Runs it once in `folder`. Polling memory disturbs the times, so a round measures one or the
    /// other.
    pub fn run(&mut self, folder: &Path, memory: bool) -> Result<()> {
        let mut command = Command::new(&self.file);
        command.args(&self.arguments).current_dir(folder).env("TZ", "UTC");
        let shown = command::shown(&command);
        let path = folder.join(self.output);
        let file = File::create(&path).context(|| format!("write {}", path.display()))?;
        command.stdin(Stdio::null()).stdout(file).stderr(Stdio::null());
        let began = Instant::now();
        let mut child = command.spawn().context(|| format!("run {shown}"))?;
        let most = if memory { watch(&mut child) } else { 0 };
        let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) else {
            return Err(LabError::failed(format!("run {shown}"), "it has no process id"));
        };
        // /proc/PID exists until the process is waited for.
        let _interrupted = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
        let wall = began.elapsed().as_secs_f64();
        let cpu = machine::cpu_seconds_of(child.id()).unwrap_or(f64::INFINITY);
        let status = child.wait().context(|| format!("wait for {shown}"))?;
        if !status.success() {
            return Err(LabError::failed(format!("run {shown}"), status));
        }
        if memory {
            self.cost.memory = self.cost.memory.max(most);
        } else {
            self.cost.better(CommandCost { wall, cpu, memory: 0 });
        }
        Ok(())
    }
}

fn watch(child: &mut Child) -> u64 {
    let mut most = 0;
    while child.try_wait().is_ok_and(|ended| ended.is_none()) {
        most = most.max(machine::memory_of(child.id(), "RssAnon").unwrap_or(0));
        std::thread::sleep(Duration::from_millis(1));
    }
    most
}
