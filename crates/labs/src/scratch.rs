//! A private directory for one lab. It is removed together with its mounts, loop devices, zram
//! devices and cgroups; so are the leftovers of an earlier lab that was killed.
//!
//! What does not belong here: making devices ([`crate::devices`]).

use crate::error::Context;
use crate::{LabError, Result, command, machine, process};
use rustix::fs::FlockOperation;
use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The parent of every lab's directory. Nothing outside it is ever taken for a leftover.
const BASE: &str = "/var/tmp/iowhy-labs";
/// The environment variable that identifies a process's lab.
const VARIABLE: &str = "IOWHY_LAB";
/// Settings that a lab changed, with their old values.
const SETTINGS: &str = "settings";
/// Numbers the labs of one process.
static COUNT: AtomicU32 = AtomicU32::new(0);

/// One lab's directory. It is held by everything that was made in it, so it is removed last.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    /// Locked as long as the lab lives; the kernel unlocks it even when the process is killed.
    _lock: File,
}

impl Scratch {
    /// Makes the directory, after removing the leftovers of dead labs.
    pub fn new() -> Result<Arc<Scratch>> {
        machine::need_root()?;
        let base = Path::new(BASE);
        make_base(base)?;
        // Held while directories are made or removed: one without a lock yet looks dead.
        let _guard = locked(&base.join("lock"), FlockOperation::LockExclusive)?;
        sweep(base);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = base.join(format!("{}-{number}", std::process::id()));
        fs::create_dir(&path).context(|| format!("make {}", path.display()))?;
        let _lock = locked(&path.join("lock"), FlockOperation::NonBlockingLockExclusive)?;
        fs::write(path.join("boot"), machine::boot_id()).context(|| "note the boot".to_owned())?;
        Ok(Arc::new(Scratch { path, _lock }))
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a path in it that no other call returns.
    pub fn fresh(&self, stem: &str) -> PathBuf {
        self.path.join(format!("{stem}-{}", COUNT.fetch_add(1, Ordering::Relaxed)))
    }

    /// Makes a tmpfs in it, which takes memory only for written data.
    pub fn memory(&self) -> Result<PathBuf> {
        let folder = self.fresh("tmpfs");
        fs::create_dir(&folder).context(|| format!("make {}", folder.display()))?;
        command::run("mount", [Path::new("-ttmpfs"), Path::new("iowhy-labs"), &folder])?;
        Ok(folder)
    }

    /// Marks a process as this lab's, so that it can be ended when the lab was killed.
    pub fn mark(&self, command: &mut Command) {
        command.env(VARIABLE, &self.path);
    }

    /// Returns the variable in the environment of this lab's processes.
    pub fn variable(&self) -> String {
        variable(&self.path)
    }

    /// Changes a setting below /sys until the lab ends, also if it is killed: a loop device keeps
    /// its settings for its next user. Returns the old value.
    pub fn set(&self, path: &Path, value: &str) -> Result<String> {
        let shown = path.display();
        let before = fs::read_to_string(path).context(|| format!("read {shown}"))?;
        let notes = self.path.join(SETTINGS);
        let file = OpenOptions::new().create(true).append(true).open(&notes);
        // Brackets mark the current choice.
        let chosen = before.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
        let before = chosen.map_or(before.trim(), |(value, _)| value);
        let noted = file.and_then(|mut file| writeln!(file, "{shown}\t{before}"));
        noted.context(|| format!("write to {}", notes.display()))?;
        fs::write(path, value).context(|| format!("write {value} to {shown}"))?;
        Ok(before.to_owned())
    }

    /// Restores the settings that [`Scratch::set`] changed.
    pub fn restore(&self) {
        restore(&self.path);
    }

    /// Lets other users' programs pass through to their own files in it; they cannot list it.
    pub fn let_pass(&self) -> Result<()> {
        for folder in [Path::new(BASE), &self.path] {
            let passable = fs::Permissions::from_mode(0o711);
            fs::set_permissions(folder, passable)
                .context(|| format!("let others pass {}", folder.display()))?;
        }
        Ok(())
    }

    /// The name of this lab's cgroups.
    pub fn cgroup(&self) -> String {
        cgroup_name(&self.path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        remove_leftovers(&self.path, &mut Removed::default());
    }
}

/// The leftovers of killed labs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// The number of labs.
    pub labs: u64,
    /// The numbers of things that were ended, restored or removed, by their names.
    pub things: BTreeMap<&'static str, u64>,
    /// Folders of labs of which something is still in use.
    pub left: Vec<PathBuf>,
}

impl Removed {
    fn add(&mut self, thing: &'static str, count: u64) {
        if count > 0 {
            *self.things.entry(thing).or_default() += count;
        }
    }
}

impl fmt::Display for Removed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.labs == 0 {
            return f.write_str("nothing to remove: no killed lab left anything");
        }
        write!(f, "removed what {} left", several(self.labs, "killed lab"))?;
        let things = self.things.iter().map(|(thing, count)| several(*count, thing));
        let things: Vec<String> = things.collect();
        if !things.is_empty() {
            write!(f, ": {}", things.join(", "))?;
        }
        for folder in &self.left {
            write!(f, "\nstill in use, and left: {}", folder.display())?;
        }
        Ok(())
    }
}

/// `1 mount`, `2 mounts`.
fn several(count: u64, thing: &str) -> String {
    format!("{count} {thing}{}", if count == 1 { "" } else { "s" })
}

/// Removes the leftovers of labs whose processes are gone, and returns what was removed.
pub fn remove_dead() -> Result<Removed> {
    machine::need_root()?;
    let base = Path::new(BASE);
    make_base(base)?;
    let _guard = locked(&base.join("lock"), FlockOperation::LockExclusive)?;
    Ok(sweep(base))
}

/// Makes the base directory; refuses one that somebody else could have prepared.
fn make_base(base: &Path) -> Result<()> {
    let made = fs::DirBuilder::new().mode(0o700).create(base);
    if let Err(cause) = made
        && cause.kind() != std::io::ErrorKind::AlreadyExists
    {
        return Err(LabError::failed(format!("make {}", base.display()), cause));
    }
    let about = fs::symlink_metadata(base).context(|| format!("look at {}", base.display()))?;
    if !about.is_dir() || about.uid() != 0 || about.mode() & 0o022 != 0 {
        let cause = "it is not a directory of root that only root can write to";
        return Err(LabError::failed(format!("use {}", base.display()), cause));
    }
    Ok(())
}

fn locked(path: &Path, how: FlockOperation) -> Result<File> {
    let file = File::create(path).context(|| format!("make {}", path.display()))?;
    rustix::fs::flock(&file, how).context(|| format!("lock {}", path.display()))?;
    Ok(file)
}

fn sweep(base: &Path) -> Removed {
    let mut removed = Removed::default();
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let path = entry.path();
        let dead = File::open(path.join("lock")).map_or(true, |lock| {
            rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok()
        });
        if path.is_dir() && dead {
            removed.labs += 1;
            remove_leftovers(&path, &mut removed);
        }
    }
    removed
}

/// Removes one lab's directory and everything in it. If something cannot be removed now, the
/// directory stays, so that the next lab tries again.
fn remove_leftovers(path: &Path, removed: &mut Removed) {
    // First, since they use the other things.
    for program in process::with_environment(&variable(path)) {
        process::kill(program);
        removed.add("program", 1);
    }
    removed.add("setting", restore(path));
    // Twice: a tmpfs is busy while a loop device has a file of it, a loop device while mounted.
    for _ in 0..2 {
        for mount in machine::mounts_below(path) {
            // It may be busy still.
            let is_gone = command::run("umount", [&mount]).is_ok();
            removed.add("mount", u64::from(is_gone));
        }
        for device in machine::loops_below(path) {
            let is_gone = command::run("losetup", [Path::new("--detach"), &device]).is_ok();
            removed.add("loop device", u64::from(is_gone));
        }
    }
    removed.add("zram device", remove_zram(path));
    for root in machine::cgroup_roots() {
        // Most of them have none, and one that is busy stays.
        let is_gone = fs::remove_dir(root.join(cgroup_name(path))).is_ok();
        removed.add("cgroup", u64::from(is_gone));
    }
    let is_free = machine::mounts_below(path).is_empty() && machine::loops_below(path).is_empty();
    if !is_free || fs::remove_dir_all(path).is_err() {
        // For the next lab.
        removed.left.push(path.to_owned());
    }
}

/// Restores the settings noted in `path`, the last one first; returns their number.
fn restore(path: &Path) -> u64 {
    let mut restored = 0;
    let notes = path.join(SETTINGS);
    let text = fs::read_to_string(&notes).unwrap_or_default();
    for (setting, before) in text.lines().rev().filter_map(|line| line.split_once('\t')) {
        // The device may be gone.
        restored += u64::from(fs::write(setting, before).is_ok());
    }
    let _none = fs::remove_file(notes);
    restored
}

/// Removes the zram devices noted in `path`, unless the machine was booted since: then the numbers
/// are somebody else's. Returns their number.
fn remove_zram(path: &Path) -> u64 {
    let mut removed = 0;
    if fs::read_to_string(path.join("boot")).is_ok_and(|boot| boot != machine::boot_id()) {
        return removed;
    }
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(number) = name.to_str().and_then(|name| name.strip_prefix("zram-")) else {
            continue;
        };
        let size = fs::read_to_string(format!("/sys/block/zram{number}/disksize"));
        let noted = fs::read_to_string(entry.path());
        // The number may have been reused meanwhile; the odd size identifies our device.
        if size.is_ok_and(|size| noted.is_ok_and(|noted| noted.trim() == size.trim())) {
            // It may be busy.
            let is_gone = fs::write("/sys/class/zram-control/hot_remove", number).is_ok();
            removed += u64::from(is_gone);
        }
    }
    removed
}

fn variable(path: &Path) -> String {
    format!("{VARIABLE}={}", path.display())
}

fn cgroup_name(path: &Path) -> String {
    let id = path.file_name().unwrap_or_default().to_string_lossy();
    format!("iowhy-labs-{id}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_removed_is_said() {
        let mut removed = Removed::default();
        assert_eq!(removed.to_string(), "nothing to remove: no killed lab left anything");
        removed.labs = 1;
        for (things, count) in [("program", 1), ("loop device", 2), ("mount", 0)] {
            removed.add(things, count);
        }
        let said = "removed what 1 killed lab left: 2 loop devices, 1 program";
        assert_eq!(removed.to_string(), said);
        removed.left.push(PathBuf::from("/x"));
        assert_eq!(removed.to_string(), format!("{said}\nstill in use, and left: /x"));
    }
}
