//! A daemon of a test's own, with its directories and its disk.
//!
//! What does not belong here: the events of a test.

use crate::support::{finish, iowhy, printed};
use iowhy_labs::devices::{Backing, BlockDevice, LoopDevice};
use iowhy_labs::error::Context;
use iowhy_labs::scratch::Scratch;
use iowhy_labs::{Result, machine, process};
use rustix::process::Signal;
use serde_json::Value;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;
/// The time that any step may take on a machine that is busy; the saver tries again after 30 s.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// A daemon that watches a disk of its own.
pub struct TestDaemon {
    // Dropped in this order.
    child: Option<Child>,
    pub disk: LoopDevice,
    pub state: PathBuf,
    pub runtime: PathBuf,
    pub scratch: Arc<Scratch>,
}

impl TestDaemon {
    /// Makes a daemon that is not started; its state directory is `state` or in the scratch
    /// directory.
    pub fn new(state: Option<PathBuf>) -> Result<TestDaemon> {
        machine::need_bpf()?;
        let scratch = Scratch::new()?;
        let disk = LoopDevice::new(&scratch, Backing::Tmpfs, 64 * MIB)?;
        let state = state.unwrap_or_else(|| scratch.fresh("state"));
        let runtime = PathBuf::from("/dev/shm").join(format!(
            "iowhy-test-{}-{}",
            std::process::id(),
            disk.name()
        ));
        Ok(TestDaemon { child: None, disk, state, runtime, scratch })
    }

    /// Starts it with `settings` in addition to those that disable other conditions, and returns
    /// once it watches. `devices` are those that it watches, or all.
    pub fn start(&mut self, devices: &[&str], settings: &str) -> Result<()> {
        self.start_with_limit(devices, "off", settings)
    }

    /// Starts it with the setting `hung-task`.
    pub fn start_with_limit(&mut self, devices: &[&str], limit: &str, more: &str) -> Result<()> {
        let text = format!(
            "after = \"3s\"\nbefore = \"1m\"\n[watch]\ndevices = {devices:?}\n[trigger]\n\
             finding = \"off\"\npressure-io = \"off\"\nin-flight = \"off\"\n\
             hung-task = {limit:?}\n{more}"
        );
        std::fs::write(self.config(), text).context(|| "write the configuration".to_owned())?;
        let log = File::create(self.log_file()).context(|| "make the log".to_owned())?;
        let mut daemon = self.command(&["daemon"])?;
        daemon.stdout(Stdio::null()).stderr(log);
        self.child = Some(daemon.spawn().context(|| "start the daemon".to_owned())?);
        let ring = self.runtime.join("ring");
        self.wait_for("a ring", || {
            std::fs::read_dir(&ring).is_ok_and(|mut entries| entries.next().is_some())
        });
        Ok(())
    }

    fn config(&self) -> PathBuf {
        self.scratch.path().join("iowhy.toml")
    }

    fn log_file(&self) -> PathBuf {
        self.scratch.path().join("daemon.log")
    }

    /// Returns its log.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(self.log_file()).unwrap_or_default()).into_owned()
    }

    /// Returns the command `iowhy WORDS` with its directories.
    pub fn command(&self, words: &[&str]) -> Result<Command> {
        let mut command = iowhy(words)?;
        command.arg("--config").arg(self.config()).arg("--state").arg(&self.state);
        command.arg("--runtime").arg(&self.runtime);
        Ok(command)
    }

    /// Returns the output of `iowhy WORDS`, with its directories.
    pub fn printed(&self, words: &[&str]) -> Result<String> {
        Ok(printed(&finish(self.command(words)?)?))
    }

    /// Reads its disk directly, so that there is something to record.
    pub fn read_disk(&self) -> Result<()> {
        read(self.disk.path())
    }

    pub fn signal(&self, signal: Signal) {
        if let Some(child) = &self.child {
            process::signal(child, signal);
        }
    }

    /// Returns whether it still runs.
    pub fn is_running(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// Its sockets of TCP and UDP, as the kernel lists them.
    pub fn network_sockets(&self) -> Vec<String> {
        let pid = self.child.as_ref().map_or(0, Child::id);
        let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten();
        let targets = descriptors
            .flatten()
            .filter_map(|descriptor| std::fs::read_link(descriptor.path()).ok());
        let inode = |target: PathBuf| {
            let text = target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned();
            Some(text)
        };
        let own: Vec<String> = targets.filter_map(inode).collect();
        assert!(!own.is_empty(), "not even the control socket of {pid} is visible");
        let tables = ["tcp", "tcp6", "udp", "udp6"].into_iter();
        let texts =
            tables.flat_map(|table| std::fs::read_to_string(format!("/proc/{pid}/net/{table}")));
        let lines: Vec<String> =
            texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect();
        let is_own = |line: &String| {
            line.split_whitespace()
                .nth(9)
                .is_some_and(|inode| own.iter().any(|known| known == inode))
        };
        lines.into_iter().filter(is_own).collect()
    }

    pub fn directory(&self, number: u32) -> PathBuf {
        self.state.join(format!("incidents/{number:06}"))
    }

    /// Returns the record of an incident, if it is complete.
    pub fn incident(&self, number: u32) -> Option<Value> {
        let text = std::fs::read(self.directory(number).join("incident.json")).ok()?;
        let incident: Value = serde_json::from_slice(&text).ok()?;
        (incident["complete"] == true).then_some(incident)
    }

    /// Waits until an incident is complete, and returns its record.
    pub fn wait_for_incident(&self, number: u32) -> Value {
        self.wait_for("an incident", || self.incident(number).is_some());
        self.incident(number).unwrap_or_default()
    }

    pub fn wait_for(&self, what: &str, mut is_there: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !is_there() {
            assert!(begun.elapsed() < PATIENCE, "no {what} after {PATIENCE:?}: {}", self.log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Reads a device directly.
pub fn read(device: &Path) -> Result<()> {
    let mut dd = Command::new("dd");
    dd.arg(format!("if={}", device.display()));
    dd.args(["of=/dev/null", "bs=64k", "count=100", "iflag=direct", "status=none"]);
    let read = finish(dd)?;
    assert!(read.status.success(), "{}", printed(&read));
    Ok(())
}

impl Drop for TestDaemon {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            process::end(&mut child);
            process::wait_or_kill(&mut child, Duration::from_secs(20));
        }
        // In memory: nobody else removes it.
        let _ = std::fs::remove_dir_all(&self.runtime);
    }
}
