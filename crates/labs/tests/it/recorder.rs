//! The flight recorder on a disk that hangs: the incident is on disk seconds later, and names the
//! process and the file, also if the daemon is killed meanwhile.

use crate::support::{finish, iowhy, printed, trial};
use iowhy_labs::devices::{Backing, FileSystemKind, LabFileSystem, LoopDevice};
use iowhy_labs::error::Context;
use iowhy_labs::scratch::Scratch;
use iowhy_labs::{Result, command, machine, process};
use libtest_mimic::Trial;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;
/// The time that the disk hangs at least: no healthy one does for ten seconds.
const HANG: Duration = Duration::from_secs(12);
/// The time that any step may take on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(60);

pub fn tests() -> Vec<Trial> {
    vec![
        trial("recorder::a_hang_is_an_incident", hang),
        trial("recorder::an_incident_outlives_the_daemon", killed),
        trial("recorder::two_daemons", two),
        trial("recorder::a_wrong_configuration", wrong),
    ]
}

/// A file system on a loop device whose own file lies on a file system that can be frozen, and a
/// daemon that watches it.
struct RecordedDisk {
    // Dropped in this order.
    daemon: Option<Child>,
    writer: Option<Child>,
    upper: LabFileSystem,
    lower: LabFileSystem,
    state: PathBuf,
    runtime: PathBuf,
    scratch: Arc<Scratch>,
}

impl RecordedDisk {
    fn new() -> Result<RecordedDisk> {
        machine::need_bpf()?;
        let scratch = Scratch::new()?;
        let disk = LoopDevice::new(&scratch, Backing::Tmpfs, 256 * MIB)?;
        let lower = LabFileSystem::new(&scratch, disk, FileSystemKind::Ext4)?;
        let disk = LoopDevice::inside_as(Backing::File, &scratch, lower.path(), 64 * MIB)?;
        let upper = LabFileSystem::new(&scratch, disk, FileSystemKind::Ext4)?;
        let (state, runtime) = (scratch.fresh("state"), scratch.fresh("runtime"));
        let (daemon, writer) = (None, None);
        Ok(RecordedDisk { daemon, writer, upper, lower, state, runtime, scratch })
    }

    /// `iowhy COMMAND` with this daemon's directories.
    fn command(&self, words: &[&str]) -> Result<Command> {
        let config = self.scratch.path().join("iowhy.toml");
        let disk = self.upper.device().name();
        // Only the test's own condition begins an incident.
        let text = format!(
            "after = \"15s\"\nbefore = \"1m\"\n[watch]\ndevices = [{disk:?}]\n\
             [trigger]\nfinding = \"off\"\npressure-io = \"off\"\n"
        );
        std::fs::write(&config, text).context(|| "write the configuration".to_owned())?;
        let mut command = iowhy(words)?;
        command.arg("--config").arg(config).arg("--state").arg(&self.state);
        command.arg("--runtime").arg(&self.runtime);
        Ok(command)
    }

    /// Starts the daemon, and returns once it watches.
    fn start(&mut self) -> Result<()> {
        let mut daemon = self.command(&["daemon"])?;
        daemon.stdout(Stdio::null()).stderr(Stdio::null());
        self.daemon = Some(daemon.spawn().context(|| "start the daemon".to_owned())?);
        let ring = self.runtime.join("ring");
        wait_for("a ring", || {
            std::fs::read_dir(&ring).is_ok_and(|mut entries| entries.next().is_some())
        });
        Ok(())
    }

    /// A program that writes and syncs a file all the time, and a hang that lasts until the
    /// incident is on disk: the recorder must not wait for its end.
    fn hang(&mut self) -> Result<()> {
        let file = self.upper.path().join("orders.journal");
        let script = "open F, '>>', $ARGV[0] or die; for (;;) { syswrite F, 'x' x 4096; \
                      F->sync; select undef, undef, undef, 0.02 }";
        let mut perl = Command::new(command::find("perl")?);
        perl.args(["-MIO::Handle", "-e", script]).arg(file);
        self.writer = Some(perl.spawn().context(|| "start perl".to_owned())?);
        std::thread::sleep(Duration::from_secs(2));
        let frozen = self.lower.freeze()?;
        std::thread::sleep(HANG);
        wait_for("an incident while the disk hangs", || self.incident().is_some());
        drop(frozen);
        Ok(())
    }

    fn incident(&self) -> Option<serde_json::Value> {
        let text = std::fs::read(self.state.join("incidents/000001/incident.json")).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// The incident once it is complete, which must name program and file.
    fn expect_hang(&self) -> Result<()> {
        wait_for("an incident", || {
            self.incident().is_some_and(|incident| incident["complete"] == true)
        });
        let incident = self.incident().unwrap_or_default();
        assert_eq!(incident["triggers"][0]["kind"], "in-flight", "{incident:#}");
        let findings = incident["findings"].as_array().cloned().unwrap_or_default();
        // The program syncs a lot before and after, but that did not begin the incident.
        let hung = findings.first().filter(|finding| finding["cause"] == "hung-io");
        let hung = hung.unwrap_or_else(|| panic!("hung-io is not the first: {incident:#}"));
        assert_eq!(hung["device"], self.upper.device().name(), "{hung:#}");
        assert_eq!(hung["process"], "perl", "{hung:#}");
        let file = hung["file"].as_str().unwrap_or_default();
        assert!(file.ends_with("orders.journal"), "{hung:#}");
        let mut show = iowhy(["incidents", "--state"])?;
        show.arg(&self.state).args(["show", "1"]);
        let shown = printed(&finish(show)?);
        assert!(shown.contains("perl") && shown.contains("orders.journal"), "{shown}");
        Ok(())
    }
}

impl Drop for RecordedDisk {
    fn drop(&mut self) {
        for mut child in [self.writer.take(), self.daemon.take()].into_iter().flatten() {
            process::end(&mut child);
            process::wait_or_kill(&mut child, Duration::from_secs(20));
        }
    }
}

fn wait_for(what: &str, mut is_there: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_there() {
        assert!(begun.elapsed() < PATIENCE, "no {what} after {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn hang() -> Result<()> {
    let mut disk = RecordedDisk::new()?;
    disk.start()?;
    disk.hang()?;
    disk.expect_hang()
}

/// The daemon is killed while the incident is open: the next one saves the data that is only in
/// memory.
fn killed() -> Result<()> {
    let mut disk = RecordedDisk::new()?;
    disk.start()?;
    disk.hang()?;
    if let Some(mut daemon) = disk.daemon.take() {
        daemon.kill().context(|| "kill the daemon".to_owned())?;
        daemon.wait().context(|| "wait for the daemon".to_owned())?;
    }
    let before = disk.incident();
    disk.start()?;
    let recorded = disk.state.join("incidents/000001/recording/recording.json");
    wait_for("an incident", || recorded.is_file());
    let incident = disk.incident().unwrap_or_default();
    assert_eq!(incident["triggers"][0]["kind"], "in-flight", "{before:?} {incident:#}");
    Ok(())
}

fn two() -> Result<()> {
    let mut disk = RecordedDisk::new()?;
    disk.start()?;
    let second = finish(disk.command(&["daemon"])?)?;
    assert_eq!(second.status.code(), Some(1), "{}", printed(&second));
    assert!(printed(&second).contains("another `iowhy daemon` is running"), "{}", printed(&second));
    let captured = finish(disk.command(&["capture", "a test"])?)?;
    assert!(printed(&captured).contains("incident 1"), "{}", printed(&captured));
    wait_for("an incident", || disk.incident().is_some());
    let incident = disk.incident().unwrap_or_default();
    assert_eq!(incident["triggers"][0]["sentence"], "a test", "{incident:#}");
    Ok(())
}

fn wrong() -> Result<()> {
    let scratch = Scratch::new()?;
    let config = scratch.path().join("iowhy.toml");
    std::fs::write(&config, "keep = \"10m\"\n[trigger]\nin-flight = \"soon\"\n")
        .context(|| "write the configuration".to_owned())?;
    let mut check = iowhy(["daemon", "--check-config", "--config"])?;
    check.arg(&config);
    let checked = finish(check)?;
    assert_eq!(checked.status.code(), Some(2), "{}", printed(&checked));
    assert!(printed(&checked).contains("line 3: \"soon\" is not a time"), "{}", printed(&checked));
    Ok(())
}
