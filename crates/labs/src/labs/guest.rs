//! Labs in guests: causes that lie outside the kernel that is watched, or that would change all of this
//! machine.
//!
//! A guest is there for its lab alone, so nothing is left out of the watch. Its recording comes back and
//! is judged here, as every other.
//!
//! What does not belong here: what happens in the guest (the scenes).

use super::outcome::Found;
use super::run;
use crate::error::Context;
use crate::vm::{Guest, Kernel, Limits, Running};
use crate::{Error, Result, command};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// The kernel of a lab's guest: the newest for which all of iowhy's programs exist and are tested.
const KERNEL: &str = "6.12";
/// What a guest says when the watch has begun, and when it has ended.
const WATCHING: &str = "the watch begins";
const WATCHED: &str = "the watch has ended";

/// Something that is done to a running guest from outside.
type Change = Box<dyn FnOnce(&mut Running) -> Result<()>>;

/// A lab in a guest.
pub struct Scene {
    guest: Guest,
    script: String,
    changes: Vec<(Duration, Change)>,
}

impl Scene {
    /// `script` is for bash: it makes the devices, starts the load in the background, and ends when the
    /// load is as it shall be watched. Where it ends with an error, the lab fails.
    pub fn new(script: impl Into<String>) -> Result<Scene> {
        let kernel = Kernel::fetch(KERNEL, &mut |_line| ())?;
        let guest = Guest::new(kernel).file("/usr/bin/iostat", command::find("iostat")?);
        Ok(Scene { guest, script: script.into(), changes: Vec::new() })
    }

    /// Disks, modules, memory.
    pub fn with(mut self, change: impl FnOnce(Guest) -> Guest) -> Scene {
        self.guest = change(self.guest);
        self
    }

    /// Does something from outside, so many milliseconds after the last such thing, or after the watch
    /// has begun.
    pub fn then(
        mut self,
        milliseconds: u64,
        change: impl FnOnce(&mut Running) -> Result<()> + 'static,
    ) -> Scene {
        self.changes.push((Duration::from_millis(milliseconds), Box::new(change)));
        self
    }

    /// Limits a disk from outside, then.
    pub fn then_limit(self, milliseconds: u64, disk: &str, limits: Limits) -> Scene {
        let disk = disk.to_owned();
        self.then(milliseconds, move |running| running.limit(&disk, limits))
    }

    /// All that the guest runs.
    fn command(&self, seconds: u64) -> String {
        let watch = format!(
            "iowhy record -o /out/recording -- \
             bash -c 'echo {WATCHING}; iostat -dx -y {seconds} 1 >/out/iostat'"
        );
        let end = "kill -9 $(jobs -p); exit $status";
        format!("set -e\n{}\nset +e\n{watch}\nstatus=$?\necho {WATCHED}\n{end}\n", self.script)
    }

    /// Runs it, and gives what iowhy found; the recording is kept at `recording`.
    pub fn watch(
        self,
        seconds: u64,
        recording: &Path,
        say: &mut dyn FnMut(&str),
    ) -> Result<Vec<Found>> {
        let mut running = self.guest.start(&self.command(seconds))?;
        running.wait_for(WATCHING)?;
        for (after, change) in self.changes {
            std::thread::sleep(after);
            change(&mut running)?;
        }
        running.wait_for(WATCHED)?;
        let outcome = running.finish()?;
        if outcome.status != 0 {
            return Err(Error::failed("run a lab in a guest", &outcome.said));
        }
        command::run("cp", [Path::new("-rT"), &outcome.out().join("recording"), recording])?;
        let iostat = outcome.out().join("iostat");
        let shown = fs::read_to_string(&iostat).context(|| format!("read {}", iostat.display()))?;
        shown.lines().filter(|line| is_busy(line)).for_each(say);
        run::findings(recording)
    }
}

/// Whether a line of iostat's is its heading or that of a device that did something.
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
