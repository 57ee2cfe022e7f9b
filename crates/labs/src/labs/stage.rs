//! The setup of a lab: devices, cgroups, processes, and random numbers for everything that may
//! vary.

use super::expected::Expected;
use super::guest::GuestScene;
use super::measure::{Measure, Relief};
use crate::devices::{
    Backing, BlockDevice, FileSystemKind, Hand, LabCgroup, LabFileSystem, LoopDevice, ServedDevice,
};
use crate::error::Context;
use crate::fio::Job;
use crate::scratch::Scratch;
use crate::{LabError, Result, command, machine, process};
use rustix::process::Signal;
use std::any::Any;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

const MIB: u64 = 1 << 20;
/// The interval of checking whether the watch has begun, in milliseconds.
const POLL_MS: u64 = 50;
/// An interval longer than any lab, for actions that are done once.
pub const NEVER_MS: u64 = 3_600_000;
/// Seconds that fio may run longer than the watch: a busy machine is slow to begin one.
const LONGEST_S: u64 = 600;
/// The time that the load may take to end before it is killed.
const PATIENCE: Duration = Duration::from_secs(4);

/// Numbers that differ in each run and are the same for the same seed.
#[derive(Clone, Debug)]
pub struct SeededNumbers(u64);

impl SeededNumbers {
    /// The dice of a seed.
    pub fn new(seed: u64) -> SeededNumbers {
        SeededNumbers(seed | 1)
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        low + (self.0 >> 33) % (high - low + 1)
    }

    /// Picks one of `choices`.
    pub fn one<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.between(0, choices.len() as u64 - 1) as usize]
    }

    /// A random name.
    pub fn name(&mut self) -> String {
        let syllables = ["ba", "ko", "ri", "ten", "mol", "sa", "vu", "nex", "lo", "pim"];
        (0..3).map(|_| self.one(&syllables)).collect()
    }
}

/// A lab that is being set up. Its parts are removed in the order of the fields.
pub struct LabStage {
    /// The source of all random choices.
    pub dice: SeededNumbers,
    /// Seconds that will be watched.
    pub seconds: u64,
    /// The devices that are watched, by name, with blanks between; empty for the whole machine.
    pub watched: String,
    /// The path of the recording.
    pub recording: PathBuf,
    /// The process that the finding must name, and the advice that it must give.
    pub expected: Expected,
    /// The scene that runs in a guest instead of here.
    pub guest: Option<GuestScene>,
    /// The removal of the cause, and the measure before and after.
    pub relief: Option<Relief>,
    /// The processes that are measured, with all that they started; empty for the whole load.
    pub measured: Vec<u32>,
    /// The program's own counter, if that is measured.
    count: Option<Box<dyn Fn() -> Result<u64>>>,
    /// The load; ended first.
    load: Vec<Child>,
    later: Vec<(Arc<AtomicBool>, JoinHandle<()>)>,
    hands: Vec<Hand>,
    keep: Vec<Box<dyn Any>>,
    /// The lab's own directory.
    pub scratch: Arc<Scratch>,
}

impl LabStage {
    /// An empty stage.
    pub fn new(seed: u64, seconds: u64) -> Result<LabStage> {
        machine::need_bpf()?;
        Ok(LabStage {
            dice: SeededNumbers::new(seed),
            seconds,
            watched: String::new(),
            recording: PathBuf::new(),
            expected: Expected::default(),
            guest: None,
            relief: None,
            measured: Vec::new(),
            count: None,
            load: Vec::new(),
            later: Vec::new(),
            hands: Vec::new(),
            keep: Vec::new(),
            scratch: Scratch::new()?,
        })
    }

    /// Keeps a value until the lab ends.
    pub fn keep<T: 'static>(&mut self, thing: T) {
        self.keep.push(Box::new(thing));
    }

    /// A fast device in memory, which is watched.
    pub fn fast(&mut self, mib: u64) -> Result<LoopDevice> {
        let device = LoopDevice::new(&self.scratch, Backing::Tmpfs, mib * MIB)?;
        self.watched = device.name().to_owned();
        Ok(device)
    }

    /// Makes a watched device whose speed can be changed from below, invisibly to its users.
    pub fn hidden(&mut self, mib: u64) -> Result<(ServedDevice, Hand)> {
        let device = ServedDevice::new(&self.scratch, mib * MIB)?;
        self.watched = device.name().to_owned();
        self.hands.push(device.hand());
        let hand = device.hand();
        Ok((device, hand))
    }

    /// A file system on `device`.
    pub fn mounted(
        &mut self,
        device: impl BlockDevice + 'static,
        kind: FileSystemKind,
    ) -> Result<LabFileSystem> {
        LabFileSystem::new(&self.scratch, device, kind)
    }

    /// Starts a fio job that goes on until the lab ends.
    pub fn fio(&mut self, job: Job) -> Result<()> {
        let command = self.command_of(job)?;
        self.start(command)
    }

    /// Starts a fio job inside a cgroup.
    pub fn fio_inside(&mut self, job: Job, cgroup: &LabCgroup) -> Result<()> {
        let command = self.command_of(job)?;
        self.start(cgroup.inside(&command))
    }

    /// Starts a fio job whose process has its own name.
    pub fn fio_as(&mut self, name: &str, job: Job) -> Result<()> {
        let command = self.command_of(job)?;
        let program = self.called(&command::find("fio")?, name)?;
        let mut renamed = Command::new(program);
        renamed.args(command.get_args());
        self.start(renamed)
    }

    /// A program under another name: the kernel names a process after the file that it was started
    /// by.
    pub fn called(&self, program: &Path, name: &str) -> Result<PathBuf> {
        let link = self.scratch.path().join(name);
        std::os::unix::fs::symlink(program, &link)
            .context(|| format!("make {}", link.display()))?;
        Ok(link)
    }

    /// Calls `action` in the watch, so many tenths of it after its beginning, and again after as
    /// many milliseconds as it returns, until the lab ends.
    pub fn in_watch(
        &mut self,
        tenths: (u64, u64),
        mut action: impl FnMut() -> u64 + Send + 'static,
    ) {
        let mut wait = Some(self.seconds * 100 * self.dice.between(tenths.0, tenths.1));
        // A busy machine takes seconds to begin a watch; its recording exists once it has begun.
        let begun = self.recording.join("recording.json");
        self.again(POLL_MS, move || match wait {
            Some(_) if !begun.exists() => POLL_MS,
            Some(_) => wait.take().unwrap_or(0),
            None => action(),
        });
    }

    /// The command of a fio job that goes on until the lab ends.
    pub fn command_of(&mut self, job: Job) -> Result<Command> {
        let seed = self.dice.between(1, 1 << 30);
        let job = job.with("randseed", seed.to_string()).timed(self.seconds + LONGEST_S);
        job.command(&self.scratch.fresh("fio.json"))
    }

    /// Starts a process that is ended with the lab.
    pub fn start(&mut self, mut command: Command) -> Result<()> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.scratch.mark(&mut command);
        let shown = command::shown(&command);
        let child = command.spawn().context(|| format!("start {shown}"))?;
        self.load.push(child);
        Ok(())
    }

    /// The devices that are watched.
    pub fn devices(&self) -> impl Iterator<Item = &str> {
        self.watched.split_whitespace()
    }

    /// Returns the first of them: the one that has the cause.
    pub fn device(&self) -> &str {
        self.devices().next().unwrap_or_default()
    }

    /// Returns the processes of the load, and all that they started.
    pub fn pids(&self) -> Vec<u32> {
        let started: Vec<u32> = self.load.iter().map(Child::id).collect();
        process::below(&started)
    }

    /// Returns the processes that are measured.
    pub fn measured_pids(&self) -> Vec<u32> {
        if self.measured.is_empty() { self.pids() } else { process::below(&self.measured) }
    }

    /// Defines how the cause is removed while the load continues, and the measure of its impact.
    pub fn relieved(
        &mut self,
        measure: Measure,
        action: impl FnOnce(&mut LabStage) -> Result<()> + 'static,
    ) {
        self.relief = Some(Relief::new(measure, action));
    }

    /// Sets the program's own counter, and the removal of its cause.
    pub fn counted(
        &mut self,
        count: impl Fn() -> Result<u64> + 'static,
        action: impl FnOnce(&mut LabStage) -> Result<()> + 'static,
    ) {
        self.count = Some(Box::new(count));
        self.relieved(Measure::Own, action);
    }

    /// Returns the program's own count.
    pub fn own_count(&self) -> Result<u64> {
        let nothing = || LabError::failed("read what the program counts", "the lab names no count");
        self.count.as_ref().ok_or_else(nothing).and_then(|count| count())
    }

    /// Replaces the program, if its own behaviour is the cause.
    pub fn instead(&mut self, measure: Measure, command: Command) {
        self.relieved(measure, |stage| {
            stage.end_load();
            stage.start(command)
        });
    }

    /// Ends all processes of the load.
    pub fn end_load(&mut self) {
        // A shell's children outlive it.
        let below = self.pids();
        for child in &self.load {
            process::signal(child, Signal::TERM);
        }
        for child in &mut self.load {
            process::wait_or_kill(child, PATIENCE);
        }
        let ours = self.scratch.variable();
        process::with_environment(&ours).filter(|pid| below.contains(pid)).for_each(process::kill);
        self.load.clear();
    }

    /// Changes a setting of a device's queue, which is the cause: its old value removes the cause.
    pub fn set_cause(
        &mut self,
        device: &dyn BlockDevice,
        setting: &str,
        value: &str,
    ) -> Result<()> {
        let path = PathBuf::from(format!("/sys/block/{}/queue/{setting}", device.name()));
        let before = self.scratch.set(&path, value)?;
        self.relieved(Measure::Bytes, move |_| {
            fs::write(&path, &before).context(|| format!("write {before} to {}", path.display()))
        });
        Ok(())
    }

    /// Changes it in the watch, so many tenths of it after its beginning; then another setting,
    /// which may not exist before.
    pub fn cause_in_watch(
        &mut self,
        device: &dyn BlockDevice,
        tenths: (u64, u64),
        (setting, value): (&'static str, &'static str),
        further: Option<(&'static str, &'static str)>,
    ) {
        let queue = PathBuf::from(format!("/sys/block/{}/queue", device.name()));
        let (of, scratch) = (queue.join(setting), Arc::clone(&self.scratch));
        let change = move || -> Result<String> {
            let before = scratch.set(&queue.join(setting), value)?;
            let further = further.map(|(name, value)| scratch.set(&queue.join(name), value));
            further.transpose().map(|_| before)
        };
        let before = Arc::new(OnceLock::new());
        let was = Arc::clone(&before);
        self.in_watch(tenths, move || {
            drop(was.set(change()));
            NEVER_MS
        });
        self.relieved(Measure::Bytes, move |_| {
            let failed = |why: String| LabError::failed(format!("change {}", of.display()), why);
            let before = match before.get() {
                Some(Ok(before)) => before,
                Some(Err(error)) => return Err(failed(error.to_string())),
                None => return Err(failed("the watch was over".to_owned())),
            };
            fs::write(&of, before).context(|| format!("write {before} to {}", of.display()))
        });
    }

    /// Starts a shell that runs `script` with `arguments` as $1 and so on.
    pub fn shell(&mut self, script: &str, arguments: &[&Path]) -> Result<()> {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", script, "sh"]).args(arguments);
        self.start(shell)
    }

    /// Starts a Python program.
    pub fn python(&mut self, program: &str, arguments: &[&Path]) -> Result<()> {
        self.start(python(program, arguments)?)
    }

    /// Changes a setting below /sys until the lab ends.
    pub fn set_file(&mut self, path: PathBuf, value: &str) -> Result<()> {
        self.scratch.set(&path, value).map(drop)
    }

    /// Changes a setting of a device's queue until the lab ends.
    pub fn set(&mut self, device: &dyn BlockDevice, setting: &str, value: &str) -> Result<()> {
        self.set_file(format!("/sys/block/{}/queue/{setting}", device.name()).into(), value)
    }

    /// Makes a device as uneven as a disk: from `low` to `high` requests a second, changed every
    /// 300 ms.
    pub fn uneven(&mut self, hand: &Hand, low: u64, high: u64) {
        let (hand, mut dice) = (hand.clone(), self.dice.clone());
        self.again(10, move || {
            drop(hand.iops(dice.between(low, high)));
            300
        });
    }

    /// Makes each request take about `mean`, now more and then less, as with disks: their rates are
    /// not as even as a provider's limit.
    pub fn uneven_latency(&mut self, hand: &Hand, mean: Duration) {
        let (hand, mut dice) = (hand.clone(), self.dice.clone());
        self.again(10, move || {
            hand.latency(mean * dice.between(80, 120) as u32 / 100);
            300
        });
    }

    /// Calls `action` in so many milliseconds, and again after as many as it returns, until the lab
    /// ends.
    pub fn again(&mut self, milliseconds: u64, mut action: impl FnMut() -> u64 + Send + 'static) {
        let ended = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&ended);
        let thread = std::thread::spawn(move || {
            let mut wait = milliseconds;
            loop {
                for _ in 0..wait.div_ceil(10) {
                    if seen.load(Ordering::Relaxed) {
                        return;
                    }
                    std::thread::sleep(Duration::from_millis(10));
                }
                wait = action();
            }
        });
        self.later.push((ended, thread));
    }

    /// Calls `action` once, so many milliseconds from now, unless the lab ends before.
    pub fn after(&mut self, milliseconds: u64, action: impl FnOnce() + Send + 'static) {
        let mut action = Some(action);
        self.again(milliseconds, move || {
            if let Some(action) = action.take() {
                action();
            }
            NEVER_MS
        });
    }

    /// Draws a round number of I/Os per second, as people set them.
    pub fn round_iops(&mut self) -> u64 {
        self.dice.one(&[150, 200, 250, 300, 400, 500])
    }
}

/// Returns a program of `programs/` after assignments of its inputs: numbers, or names in quotes.
pub fn given(program: &str, values: &[(&str, &dyn std::fmt::Debug)]) -> String {
    let assignments = values.iter().map(|(name, value)| format!("{name} = {value:?}\n"));
    assignments.chain([program.to_owned()]).collect()
}

/// The command of a Python program.
pub fn python(program: &str, arguments: &[&Path]) -> Result<Command> {
    let mut python = Command::new(command::find("python3")?);
    python.args(["-c", program]).args(arguments);
    Ok(python)
}

impl Drop for LabStage {
    fn drop(&mut self) {
        for (ended, thread) in self.later.drain(..) {
            ended.store(true, Ordering::Relaxed);
            let _panicked = thread.join();
        }
        // With the limit, the processes would take too long to end.
        self.hands.iter().for_each(Hand::open);
        self.end_load();
        self.scratch.restore();
        while let Some(last) = self.keep.pop() {
            drop(last);
        }
    }
}
