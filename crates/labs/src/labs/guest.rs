//! Labs in guests: causes outside the watched kernel, or that would affect all of this machine.
//!
//! A guest runs one lab only, so the watch covers the whole guest. Its recording is copied back and
//! diagnosed here, like every other.
//!
//! What does not belong here: the load in the guest (the scenes).

use super::outcome::FoundCause;
use super::run;
use crate::error::Context;
use crate::vm::{DiskLimits, Guest, Kernel, RunningGuest};
use crate::{LabError, Result, command};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// The kernel of a lab's guest: the newest for which all of iowhy's BPF programs exist and are
/// tested.
const KERNEL: &str = "6.12";
/// Lines that a guest prints when the watch begins and when it ends.
const WATCHING: &str = "the watch begins";
const WATCHED: &str = "the watch has ended";

/// A change that is made to a running guest from outside.
type Change = Box<dyn FnOnce(&mut RunningGuest) -> Result<()>>;

/// A lab in a guest.
pub struct GuestScene {
    guest: Guest,
    script: String,
    changes: Vec<(Duration, Change)>,
}

impl GuestScene {
    /// `script` is for bash: it creates the devices, starts the load in the background, and ends
    /// when the load is ready to be watched. If it ends with an error, the lab fails.
    pub fn new(script: impl Into<String>) -> Result<GuestScene> {
        let kernel = Kernel::fetch(KERNEL, &mut |_line| ())?;
        let guest = Guest::new(kernel).file("/usr/bin/iostat", command::find("iostat")?);
        Ok(GuestScene { guest, script: script.into(), changes: Vec::new() })
    }

    /// Changes the guest: disks, modules, memory.
    pub fn with(mut self, change: impl FnOnce(Guest) -> Guest) -> GuestScene {
        self.guest = change(self.guest);
        self
    }

    /// Makes a change from outside, `milliseconds` after the previous change, or after the watch
    /// has begun.
    pub fn then(
        mut self,
        milliseconds: u64,
        change: impl FnOnce(&mut RunningGuest) -> Result<()> + 'static,
    ) -> GuestScene {
        self.changes.push((Duration::from_millis(milliseconds), Box::new(change)));
        self
    }

    /// Limits a disk from outside, `milliseconds` after the previous change.
    pub fn then_limit(self, milliseconds: u64, disk: &str, limits: DiskLimits) -> GuestScene {
        let disk = disk.to_owned();
        self.then(milliseconds, move |running| running.limit(&disk, limits))
    }

    /// The script that the guest runs.
    fn command(&self, seconds: u64) -> String {
        let watch = format!(
            "iowhy record -o /out/recording -- \
             bash -c 'echo {WATCHING}; iostat -dx -y {seconds} 1 >/out/iostat'"
        );
        let end = "kill -9 $(jobs -p); exit $status";
        format!("set -e\n{}\nset +e\n{watch}\nstatus=$?\necho {WATCHED}\n{end}\n", self.script)
    }

    /// Runs it, and returns iowhy's findings; the recording is kept at `recording`.
    pub fn watch(
        self,
        seconds: u64,
        recording: &Path,
        say: &mut dyn FnMut(&str),
    ) -> Result<Vec<FoundCause>> {
        let mut running = self.guest.start(&self.command(seconds))?;
        running.wait_for(WATCHING)?;
        for (after, change) in self.changes {
            std::thread::sleep(after);
            change(&mut running)?;
        }
        running.wait_for(WATCHED)?;
        let outcome = running.finish()?;
        if outcome.status != 0 {
            return Err(LabError::failed("run a lab in a guest", &outcome.said));
        }
        command::run("cp", [Path::new("-rT"), &outcome.out().join("recording"), recording])?;
        let iostat = outcome.out().join("iostat");
        let shown = fs::read_to_string(&iostat).context(|| format!("read {}", iostat.display()))?;
        shown.lines().filter(|line| is_busy(line)).for_each(say);
        run::findings(recording)
    }
}

/// Whether a line of iostat's output is its heading or that of a device with I/O.
fn is_busy(line: &str) -> bool {
    let used = line.split_whitespace().next_back();
    line.starts_with("Device")
        || used.is_some_and(|used| used.parse().is_ok_and(|used: f64| used > 0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_devices_are_left_out_of_the_symptom() {
        assert!(is_busy("Device r/s %util"));
        assert!(is_busy("vda 100.00 98.20"));
        assert!(!is_busy("vdb 0.00 0.00"));
        assert!(!is_busy(""));
    }
}
