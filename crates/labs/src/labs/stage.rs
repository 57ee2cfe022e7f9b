//! What one lab stands on: devices, cgroups, processes, and dice for all that may differ.

use super::expected::Expected;
use super::guest::Scene;
use crate::devices::{Backing, BlockDevice, Cgroup, FileSystem, Kind, LoopDevice};
use crate::error::Context;
use crate::fio::Job;
use crate::scratch::Scratch;
use crate::{Result, command, machine, process};
use rustix::process::Signal;
use std::any::Any;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

const MIB: u64 = 1 << 20;

/// Numbers that differ in each run and can be had again from the seed.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// The dice of a seed.
    pub fn new(seed: u64) -> Dice {
        Dice(seed | 1)
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        low + (self.0 >> 33) % (high - low + 1)
    }

    /// One of `choices`.
    pub fn one<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.between(0, choices.len() as u64 - 1) as usize]
    }

    /// A name that nobody chose.
    pub fn name(&mut self) -> String {
        let syllables = ["ba", "ko", "ri", "ten", "mol", "sa", "vu", "nex", "lo", "pim"];
        (0..3).map(|_| self.one(&syllables)).collect()
    }
}

/// A lab in the making. What it holds is removed in the order of the fields.
pub struct Stage {
    /// For all that may differ.
    pub dice: Dice,
    /// Seconds that will be watched.
    pub seconds: u64,
    /// The devices that are watched, by name, with blanks between; all of the machine where it is empty.
    pub watched: String,
    /// Whom the finding must name, and what it must advise.
    pub expected: Expected,
    /// What is run in a guest instead of here.
    pub guest: Option<Scene>,
    /// The load; ended first.
    load: Vec<Child>,
    later: Vec<(Arc<AtomicBool>, JoinHandle<()>)>,
    keep: Vec<Box<dyn Any>>,
    changed: Vec<(PathBuf, String)>,
    /// The lab's own directory.
    pub scratch: Arc<Scratch>,
}

impl Stage {
    /// An empty stage.
    pub fn new(seed: u64, seconds: u64) -> Result<Stage> {
        machine::need_bpf()?;
        Ok(Stage {
            dice: Dice::new(seed),
            seconds,
            watched: String::new(),
            expected: Expected::default(),
            guest: None,
            load: Vec::new(),
            later: Vec::new(),
            keep: Vec::new(),
            changed: Vec::new(),
            scratch: Scratch::new()?,
        })
    }

    /// Keeps something until the lab ends.
    pub fn keep<T: 'static>(&mut self, thing: T) {
        self.keep.push(Box::new(thing));
    }

    /// A fast device in memory, which is watched.
    pub fn fast(&mut self, mib: u64) -> Result<LoopDevice> {
        let device = LoopDevice::new(&self.scratch, Backing::Tmpfs, mib * MIB)?;
        self.watched = device.name().to_owned();
        Ok(device)
    }

    /// A device over another one, whose limits can be changed without anybody above seeing it. It is
    /// watched.
    pub fn hidden(&mut self, mib: u64) -> Result<(LoopDevice, Hidden)> {
        let below = LoopDevice::new(&self.scratch, Backing::Tmpfs, mib * MIB)?;
        let above = LoopDevice::over(&self.scratch, &below)?;
        self.watched = above.name().to_owned();
        let hidden = Hidden::new(below.path())?;
        self.keep(below);
        Ok((above, hidden))
    }

    /// A file system on `device`.
    pub fn mounted(
        &mut self,
        device: impl BlockDevice + 'static,
        kind: Kind,
    ) -> Result<FileSystem> {
        FileSystem::new(&self.scratch, device, kind)
    }

    /// Starts a fio job that goes on until the lab ends.
    pub fn fio(&mut self, job: Job) -> Result<()> {
        let command = self.command_of(job)?;
        self.start(command)
    }

    /// Starts a fio job inside a cgroup.
    pub fn fio_inside(&mut self, job: Job, cgroup: &Cgroup) -> Result<()> {
        let command = self.command_of(job)?;
        self.start(cgroup.inside(&command))
    }

    fn command_of(&mut self, job: Job) -> Result<Command> {
        let seed = self.dice.between(1, 1 << 30);
        let job = job.with("randseed", seed.to_string()).timed(self.seconds + 30);
        job.command(&self.scratch.fresh("fio.json"))
    }

    /// Starts a process that is ended with the lab.
    pub fn start(&mut self, mut command: Command) -> Result<()> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let shown = command::shown(&command);
        let child = command.spawn().context(|| format!("start {shown}"))?;
        self.load.push(child);
        Ok(())
    }

    /// Starts a shell that runs `script` with `arguments` as $1 and so on.
    pub fn shell(&mut self, script: &str, arguments: &[&Path]) -> Result<()> {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", script, "sh"]).args(arguments);
        self.start(shell)
    }

    /// Starts a Python program that is written here.
    pub fn python(&mut self, program: &str, arguments: &[&Path]) -> Result<()> {
        let mut python = Command::new(command::find("python3")?);
        python.args(["-c", program]).args(arguments);
        self.start(python)
    }

    /// Does something once, so many milliseconds from now, unless the lab ends before.
    pub fn after(&mut self, milliseconds: u64, action: impl FnOnce() + Send + 'static) {
        let ended = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&ended);
        let thread = std::thread::spawn(move || {
            for _ in 0..milliseconds / 10 {
                if seen.load(Ordering::Relaxed) {
                    return;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            action();
        });
        self.later.push((ended, thread));
    }

    /// Changes a setting below /sys, such as a device's queue's, until the lab ends: a loop device keeps
    /// its settings for whoever uses it next.
    pub fn set_file(&mut self, path: PathBuf, value: &str) -> Result<()> {
        let before = fs::read_to_string(&path).context(|| format!("read {}", path.display()))?;
        fs::write(&path, value).context(|| format!("write {value} to {}", path.display()))?;
        self.changed.push((path, before));
        Ok(())
    }

    /// The same for a setting of a device's queue.
    pub fn set(&mut self, device: &dyn BlockDevice, setting: &str, value: &str) -> Result<()> {
        self.set_file(format!("/sys/block/{}/queue/{setting}", device.name()).into(), value)
    }

    /// Lets what is below be as uneven as a disk: from `low` to `high` requests a second, anew every 300 ms.
    pub fn uneven(&mut self, hidden: &Hidden, low: u64, high: u64) {
        let (later, mut dice, seconds) = (hidden.clone(), self.dice.clone(), self.seconds);
        self.after(10, move || {
            for _ in 0..seconds * 5 {
                drop(later.iops(dice.between(low, high)));
                std::thread::sleep(Duration::from_millis(300));
            }
        });
    }

    /// The block size, depth and rate that a lab may draw: a number of I/Os a second that people set.
    pub fn round_iops(&mut self) -> u64 {
        self.dice.one(&[150, 200, 250, 300, 400, 500])
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        for (ended, thread) in self.later.drain(..) {
            ended.store(true, Ordering::Relaxed);
            let _panicked = thread.join();
        }
        // A limited device would let nobody end.
        for thing in &self.keep {
            if let Some(hidden) = thing.downcast_ref::<Hidden>() {
                hidden.open();
            }
        }
        for child in &self.load {
            process::signal(child, Signal::TERM);
        }
        for child in &mut self.load {
            process::wait_or_kill(child, Duration::from_secs(8));
        }
        while let Some((path, before)) = self.changed.pop() {
            // The chosen one stands in brackets.
            let chosen = before.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
            let value = chosen.map_or(before.trim(), |(value, _)| value);
            let _the_device_is_gone = fs::write(path, value);
        }
        while let Some(last) = self.keep.pop() {
            drop(last);
        }
    }
}

/// A device whose limits hold for the whole machine: the root of cgroup version 1.
#[derive(Clone, Debug)]
pub struct Hidden {
    root: PathBuf,
    number: String,
}

/// The files with limits for the whole machine.
const LIMITS: [&str; 4] = ["read_iops", "write_iops", "read_bps", "write_bps"];

impl Hidden {
    fn new(device: &Path) -> Result<Hidden> {
        use std::os::unix::fs::MetadataExt;
        let root = machine::cgroup_v1_root("blkio").ok_or_else(|| {
            crate::Error::unsupported("cgroup v1's blkio", "a guest whose disk QEMU limits")
        })?;
        let about = fs::metadata(device).context(|| format!("look at {}", device.display()))?;
        let number = about.rdev();
        let number = format!("{}:{}", rustix::fs::major(number), rustix::fs::minor(number));
        Ok(Hidden { root, number })
    }

    /// Limits it: `what` is one of read_iops, write_iops, read_bps and write_bps.
    pub fn limit(&self, what: &str, value: u64) -> Result<()> {
        let path = self.root.join(format!("blkio.throttle.{what}_device"));
        fs::write(&path, format!("{} {value}", self.number))
            .context(|| format!("write to {}", path.display()))
    }

    /// Limits reads and writes to so many a second.
    pub fn iops(&self, value: u64) -> Result<()> {
        self.limit("read_iops", value)?;
        self.limit("write_iops", value)
    }

    /// Takes every limit away.
    pub fn open(&self) {
        for what in LIMITS {
            let _never_set = self.limit(what, 0);
        }
    }
}
