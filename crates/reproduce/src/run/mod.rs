//! Runs a plan: makes what it needs in the places that the user named, lays out files, starts and
//! ends the load. Everything is given back when [`Prepared`] is dropped.
//!
//! | where | what |
//! |---|---|
//! | [`fio`] | fio itself: its version, its commands |
//! | [`cgroups`] | limits on I/O and memory |
//! | [`place`] | directories and file systems on the targets |
//!
//! What does not belong here: recording it, and comparing (the binary).

pub mod cgroups;
pub mod fio;
pub mod place;

use crate::error::{ActionContext, ReproduceError, Result};
use crate::folder;
use crate::jobs;
use crate::kernel_file;
use crate::plan::{LoadPlan, PlannedProgram, PlannedStep};
use crate::replay::player::ReplayTimes;
use crate::settings::Alteration;
use crate::target::RunTarget;
use crate::undo::Undo;
use cgroups::LoadCgroup;
use iowhy_fs::{Folder, read};
use place::Place;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The longest time that the load goes on beyond the watch, if nobody ends it, seconds.
const LONGEST_S: u64 = 300;
/// Bytes of a job file, or of a program's output.
const MOST_TEXT: u64 = 16 << 20;
/// Time between two looks while waiting.
const POLL: Duration = Duration::from_millis(50);
/// Time that the load may take to end before it is killed.
const PATIENCE: Duration = Duration::from_secs(10);
/// Less than this share of the memory that the original had is not worth a limit. Chosen.
const ROOMY: f64 = 1.15;

/// Options of a run.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// One for each disk of the plan, or one for all.
    pub targets: Vec<RunTarget>,
    /// Whether changes of the whole machine are allowed: emptying caches, vm.* settings.
    pub affect_machine: bool,
    /// Settings beyond the plan's.
    pub alterations: Vec<Alteration>,
    /// Whether the disks keep the settings that they have.
    pub keep_settings: bool,
}

/// A plan whose files are laid out.
#[derive(Debug)]
pub struct Prepared {
    plan: LoadPlan,
    folder: PathBuf,
    places: Vec<Place>,
    memory_bytes: Option<u64>,
    /// Differences to the original, a sentence each.
    pub notes: Vec<String>,
    /// Given back last, after the load has ended.
    undo: Undo,
}

/// A load that runs; it ends when this is dropped.
#[derive(Debug)]
pub struct RunningLoad {
    children: Vec<(String, Child, PathBuf)>,
}

impl Prepared {
    /// Makes everything that `plan`, which was written to `folder`, needs; `is_stopped` is asked
    /// while that takes long.
    ///
    /// # Errors
    /// Fails if a place may not be used, a program is missing or fails, or it was stopped. Whatever
    /// was made is removed.
    pub fn new(
        folder: &Path,
        plan: LoadPlan,
        options: &RunOptions,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Prepared> {
        // Programs run in a directory of their own, where a relative path leads elsewhere.
        let folder =
            std::path::absolute(folder).context(|| format!("find {}", folder.display()))?;
        let (undo, mut notes) = Undo::begin()?;
        let checked = place::check(&plan, &options.targets)?;
        let mut plan = plan;
        options.alterations.iter().for_each(|alteration| alteration.alter(&mut plan));
        fio::need(&plan)?;
        let memory_bytes = memory_limit(&plan);
        let mut prepared =
            Prepared { plan, folder, places: Vec::new(), memory_bytes, notes: Vec::new(), undo };
        for (at, target) in checked.iter().enumerate() {
            let place = place::make(&prepared.undo, &prepared.plan, at, target)?;
            prepared.places.push(place);
        }
        prepared.set(options, &mut notes)?;
        prepared.lay_out(is_stopped)?;
        prepared.empty_caches(options, &mut notes)?;
        prepared.notes = notes;
        Ok(prepared)
    }

    /// The kernel's names of the disks, in the plan's order, each once.
    pub fn disks(&self) -> Vec<String> {
        self.places.iter().map(|place| place.disk.clone()).collect()
    }

    /// The plan, as altered.
    pub fn plan(&self) -> &LoadPlan {
        &self.plan
    }

    /// Returns the changes that are undone at the end.
    pub fn undo(&self) -> &Undo {
        &self.undo
    }

    /// Replaces the plan's jobs, whose files stay the same.
    pub fn replace(&mut self, plan: LoadPlan) {
        self.plan = plan;
    }

    /// Settings for what runs from now on, given back at the end.
    ///
    /// # Errors
    /// Fails if a setting cannot be written.
    pub fn alter(&self, alteration: &Alteration) -> Result<Vec<(PathBuf, String)>> {
        let mut before = Vec::new();
        match alteration {
            Alteration::Queue(name, value) => {
                for place in &self.places {
                    let path = queue(&place.disk).join(name);
                    before.push((path.clone(), self.undo.set(&path, value)?));
                }
            }
            Alteration::Machine(path, value) => {
                before.push((path.clone(), self.undo.set(path, value)?));
            }
            _ => {}
        }
        Ok(before)
    }

    /// Gives settings the values that [`Prepared::alter`] returned.
    ///
    /// # Errors
    /// Fails if a setting cannot be written.
    pub fn restore(&self, before: &[(PathBuf, String)]) -> Result<()> {
        for (path, value) in before.iter().rev() {
            kernel_file::write(path, value)?;
        }
        Ok(())
    }

    fn set(&self, options: &RunOptions, notes: &mut Vec<String>) -> Result<()> {
        for (place, disk) in self.places.iter().zip(&self.plan.disks) {
            let named = crate::planning::DISK_SETTINGS.iter();
            for name in named.filter(|_| !options.keep_settings) {
                let path = queue(&place.disk).join(name);
                let Some(value) = disk.settings.get(*name) else { continue };
                // A queue may not have it, or not take this value: that is noted.
                if self.undo.set(&path, value).is_err() {
                    notes.push(format!("{} does not take {name}={value}", place.disk));
                }
            }
        }
        for (name, value) in &self.plan.settings {
            let path = Path::new("/proc/sys").join(name);
            let now = crate::undo::setting(&path).unwrap_or_default();
            if now == *value || value == "0" {
                continue;
            }
            match options.affect_machine {
                true => drop(self.undo.set(&path, value)?),
                false => notes.push(format!(
                    "{name} is {now}, it was {value}; --affect-machine sets it for the run"
                )),
            }
        }
        let extra = options.alterations.iter().map(|alteration| self.alter(alteration).map(drop));
        extra.collect::<Result<()>>()
    }

    /// Makes files as they were before the load.
    fn lay_out(&self, is_stopped: &dyn Fn() -> bool) -> Result<()> {
        for program in &self.plan.programs {
            let mut commands = Vec::new();
            if !program.jobs.is_empty() {
                let mut command = self.fio(program)?;
                command.arg("--create_only=1").arg(self.job_file(program)?);
                commands.push(command);
            }
            for (number, step) in program.steps.iter().enumerate() {
                let name = jobs::step_name(program, number, step);
                commands.push(self.step_command(program, &name, step, "layout")?);
            }
            for command in commands {
                self.finish(command, &program.name, is_stopped)?;
            }
        }
        self.sync_places()
    }

    fn sync_places(&self) -> Result<()> {
        for place in self.places.iter().filter_map(|place| place.directory.as_ref()) {
            let synced = Folder::open(place).and_then(|folder| folder.sync_file_system());
            synced.context(|| format!("sync {}", place.display()))?;
        }
        Ok(())
    }

    /// Names and inodes that are cached would need no disk.
    fn empty_caches(&self, options: &RunOptions, notes: &mut Vec<String>) -> Result<()> {
        if !self.plan.needs_cold_inodes() {
            return Ok(());
        }
        let mut left = false;
        for place in &self.places {
            left |= !place.remount()?;
        }
        if !left {
            return Ok(());
        }
        match options.affect_machine {
            // ext4's journal holds blocks of inodes until the inodes themselves are gone.
            true => (0..2).try_for_each(|_| {
                self.sync_places()?;
                kernel_file::write(Path::new("/proc/sys/vm/drop_caches"), "3")
            }),
            false => {
                notes.push(
                    "names and inodes are cached, so the scan needs no disk: use --on-device, or \
                     --affect-machine, which empties the machine's caches"
                        .to_owned(),
                );
                Ok(())
            }
        }
    }

    /// The job file as it is run, written anew: the owner of the case could change that in it
    /// between a look at it and fio's.
    fn job_file(&self, program: &PlannedProgram) -> Result<PathBuf> {
        let text = jobs::job_file(program).unwrap_or_default();
        let name = format!("{}.fio", program.name);
        self.undo.put(&name, text.as_bytes())?;
        Ok(self.undo.folder().join(name))
    }

    fn variables(&self, command: &mut Command) {
        for (at, place) in self.places.iter().enumerate() {
            let number = at + 1;
            if let Some(directory) = &place.directory {
                command.env(format!("DISK{number}"), directory);
            }
            command.env(format!("RAW{number}"), &place.raw);
        }
        command.env("SECONDS", (self.plan.seconds + LONGEST_S).to_string());
    }

    /// The link under which a program is started, so that it has its name; made once.
    fn link(&self, program: &PlannedProgram, target: &Path) -> Result<PathBuf> {
        let link = self.undo.folder().join(&program.name);
        if fs::symlink_metadata(&link).is_err() {
            self.undo.link(target, &program.name)?;
        }
        Ok(link)
    }

    /// fio for a program: under its name, if names are kept.
    fn fio(&self, program: &PlannedProgram) -> Result<Command> {
        let fio = fio::find()?;
        let link = self.link(program, &fio)?;
        let is_named = !program.name.starts_with("program-");
        let mut command = Command::new(if is_named { link } else { fio });
        command.arg("--output-format=json").current_dir(self.undo.folder());
        self.variables(&mut command);
        Ok(command)
    }

    /// iowhy itself, which plays a sequence under the program's name.
    fn replay_command(
        &self,
        program: &PlannedProgram,
        name: &str,
        step: &PlannedStep,
        phase: &str,
    ) -> Result<Command> {
        let own = std::env::current_exe().context(|| "find iowhy itself".to_owned())?;
        let link = self.link(program, &own)?;
        let place = self.places.get(step.disk());
        let place = place.and_then(|place| match step.is_raw() {
            true => Some(&place.raw),
            false => place.directory.as_ref(),
        });
        let nowhere = || ReproduceError::new(format!("run {name}"), "its disk has no directory");
        let mut command = Command::new(link);
        command.arg("replay").arg(self.folder.join(folder::replay_path(name)));
        command.arg(place.ok_or_else(nowhere)?).arg(phase).current_dir(self.undo.folder());
        Ok(command)
    }

    fn step_command(
        &self,
        program: &PlannedProgram,
        name: &str,
        step: &PlannedStep,
        phase: &str,
    ) -> Result<Command> {
        if matches!(step, PlannedStep::Replay { .. }) {
            return self.replay_command(program, name, step, phase);
        }
        let python = iowhy_fs::programs::find("python3").ok_or_else(|| {
            ReproduceError::new("start python3", "there is none")
                .hint("install it: `apt install python3`, `dnf install python3`")
        })?;
        let place = self.places.get(step.disk()).and_then(|place| place.directory.as_ref());
        let Some(directory) = place else {
            return Err(ReproduceError::new(format!("run {name}"), "its disk has no directory"));
        };
        // The program's text follows from the plan: the one in the case may be somebody else's.
        let comm = self.plan.keep_names.then_some(program.name.as_str());
        let file = format!("{name}.py");
        self.undo.put(&file, jobs::program(step, name, comm).as_bytes())?;
        let mut command = Command::new(python);
        command.arg(self.undo.folder().join(file)).arg(directory).arg(phase);
        command.current_dir(self.undo.folder());
        Ok(command)
    }

    /// Runs a command to its end.
    fn finish(&self, command: Command, name: &str, is_stopped: &dyn Fn() -> bool) -> Result<()> {
        let (mut child, log) = self.spawn(command, name)?;
        loop {
            match child.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => {
                    let cause = said(&log).unwrap_or_else(|| status.to_string());
                    return Err(ReproduceError::new(format!("lay out files of {name}"), cause));
                }
                Ok(None) if is_stopped() => {
                    let _ = child.kill();
                    let _ = child.wait();
                    return Err(ReproduceError::new(format!("lay out files of {name}"), "stopped"));
                }
                Ok(None) => std::thread::sleep(POLL),
                Err(cause) => return Err(ReproduceError::new(format!("wait for {name}"), cause)),
            }
        }
    }

    /// Starts a program of the load, which ends with this process even if that is killed.
    fn spawn(&self, command: Command, name: &str) -> Result<(Child, PathBuf)> {
        let mut command = iowhy_fs::bound::asked_to_end(&command);
        let log = self.undo.folder().join(format!("{name}.log"));
        let file = self.undo.log_file(&format!("{name}.log"))?;
        let both = file.try_clone().context(|| format!("write {}", log.display()))?;
        command.stdin(Stdio::null()).stdout(file).stderr(both);
        self.undo.mark(&mut command);
        let child = command.spawn().context(|| format!("start {name}"))?;
        Ok((child, log))
    }

    /// Starts the load.
    ///
    /// # Errors
    /// Fails if a program cannot be started, or a cgroup cannot be made.
    pub fn start(&self) -> Result<RunningLoad> {
        let mut load = RunningLoad { children: Vec::new() };
        for program in &self.plan.programs {
            let cgroup = LoadCgroup::new(&self.undo, program, self.memory_bytes, &self.places)?;
            let mut commands = Vec::new();
            if !program.jobs.is_empty() {
                let mut command = self.fio(program)?;
                command.arg(self.job_file(program)?);
                commands.push((program.name.clone(), command));
            }
            for (number, step) in program.steps.iter().enumerate() {
                let name = jobs::step_name(program, number, step);
                let command = self.step_command(program, &name, step, "run")?;
                commands.push((name, command));
            }
            for (name, command) in commands {
                let command = match &cgroup {
                    Some(cgroup) => cgroup.inside(command)?,
                    None => command,
                };
                let (child, log) = self.spawn(command, &name)?;
                load.children.push((name, child, log));
            }
        }
        Ok(load)
    }
}

fn queue(disk: &str) -> PathBuf {
    PathBuf::from(format!("/sys/block/{disk}/queue"))
}

/// The last line that a program said.
fn said(log: &Path) -> Option<String> {
    let text = read::text(log, MOST_TEXT).ok()?;
    let telling = |line: &&str| line.contains("fio:") || line.contains("rror");
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines().find(telling).or_else(|| lines().next_back()).map(str::to_owned)
}

/// The memory that the load may use, if this machine has much more than the original's page cache
/// had.
fn memory_limit(plan: &LoadPlan) -> Option<u64> {
    let then = plan.available_bytes?;
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let now = line.split_whitespace().next()?.parse::<u64>().ok()? << 10;
    (now as f64 > then as f64 * ROOMY).then_some(then)
}

impl RunningLoad {
    /// A failure if a program has ended although the load should go on.
    ///
    /// # Errors
    /// Fails if one has ended, with its last message.
    pub fn check(&mut self) -> Result<()> {
        for (name, child, log) in &mut self.children {
            if let Ok(Some(status)) = child.try_wait() {
                let cause = said(log).unwrap_or_else(|| status.to_string());
                return Err(ReproduceError::new(format!("keep {name} running"), cause));
            }
        }
        Ok(())
    }

    /// Returns the punctuality of the replays so far; `None` if there is none, or it has just
    /// begun.
    pub fn replayed(&self) -> Option<ReplayTimes> {
        let times = self.children.iter().filter_map(|(_, _, log)| {
            let text = read::text(log, MOST_TEXT).ok()?;
            // The last line may be half written.
            text.lines().rev().find_map(|line| serde_json::from_str::<ReplayTimes>(line).ok())
        });
        times.reduce(|a, b| ReplayTimes {
            done: a.done + b.done,
            late: a.late + b.late,
            late_ns: a.late_ns + b.late_ns,
        })
    }
}

impl Drop for RunningLoad {
    fn drop(&mut self) {
        for (_, child, _) in &self.children {
            let pid = rustix::process::Pid::from_child(child);
            // The process may have ended.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let begun = Instant::now();
        for (_, child, _) in &mut self.children {
            while begun.elapsed() < PATIENCE && matches!(child.try_wait(), Ok(None)) {
                std::thread::sleep(POLL);
            }
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
