//! Everything that a run changes is written down before, and given back when the run ends:
//! settings, mounts, directories, cgroups, processes. After a kill, the next run gives it back.
//!
//! Notes are below /run, which a reboot empties like the settings themselves. A directory is only
//! removed if it has the mark that was made with it.
//!
//! What does not belong here: what is changed (see [`crate::run`], [`crate::settings`]).

use crate::error::{ActionContext, ReproduceError, Result};
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Where notes are.
const BASE: &str = "/run/iowhy-reproduce";
/// The environment variable that tells whose a process is.
pub const VARIABLE: &str = "IOWHY_REPRODUCTION";
/// The file that marks a directory as a reproduction's own.
pub const MARK: &str = ".iowhy-reproduction";
/// What the first bytes of a device are that only a reproduction has used; zeros follow.
pub const DEVICE_MARK: &[u8] = b"iowhy-reproduction: nothing on this device is of use\n";
/// Bytes at both ends of a device where file systems have their signatures.
pub const DEVICE_EDGE: u64 = 1 << 20;
/// Attempts to remove what may be busy for a moment, and the pause between them.
const ATTEMPTS: usize = 50;
const PAUSE: Duration = Duration::from_millis(100);

/// A kind of change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum NotedChange {
    /// A file below /sys or /proc/sys, and its value before.
    Setting,
    /// A mount point.
    Mount,
    /// A directory that was made, with its mark.
    Folder,
    /// A cgroup.
    Cgroup,
    /// A device that was formatted: its file system is wiped again.
    Format,
    /// A command that undoes another one.
    Command,
}

impl NotedChange {
    const ALL: [NotedChange; 6] = [
        NotedChange::Setting,
        NotedChange::Mount,
        NotedChange::Folder,
        NotedChange::Cgroup,
        NotedChange::Format,
        NotedChange::Command,
    ];

    const fn word(self) -> &'static str {
        match self {
            NotedChange::Setting => "setting",
            NotedChange::Mount => "mount",
            NotedChange::Folder => "folder",
            NotedChange::Cgroup => "cgroup",
            NotedChange::Format => "format",
            NotedChange::Command => "command",
        }
    }
}

/// What has been changed so far.
#[derive(Debug)]
pub struct Undo {
    folder: PathBuf,
    _lock: File,
}

impl Undo {
    /// Begins, after giving back what killed runs left; those are returned, a sentence each.
    ///
    /// # Errors
    /// The directory of the notes cannot be used.
    pub fn begin() -> Result<(Undo, Vec<String>)> {
        Undo::begin_in(Path::new(BASE))
    }

    fn begin_in(base: &Path) -> Result<(Undo, Vec<String>)> {
        make_base(base)?;
        let _guard = locked(&base.join("lock"), FlockOperation::LockExclusive)?;
        let swept = sweep(base);
        let folder = (0..)
            .map(|number| base.join(format!("{}-{number}", std::process::id())))
            .find(|path| !path.exists())
            .unwrap_or_else(|| base.join("run"));
        fs::create_dir(&folder).context(|| format!("make {}", folder.display()))?;
        let lock = locked(&folder.join("lock"), FlockOperation::NonBlockingLockExclusive)?;
        Ok((Undo { folder, _lock: lock }, swept))
    }

    /// A directory for logs and links, removed at the end.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Marks a process as this run's.
    pub fn mark(&self, command: &mut Command) {
        command.env(VARIABLE, &self.folder);
    }

    fn note(&self, change: NotedChange, what: &Path, value: &str) -> Result<()> {
        let path = self.folder.join("journal");
        let action = || format!("write {}", path.display());
        let text = what.to_str().filter(|it| !it.contains(['\t', '\n']));
        let Some(text) = text else {
            let cause = "it cannot be noted: it contains a tab, a newline or broken characters";
            return Err(ReproduceError::new(format!("use {}", what.display()), cause));
        };
        let mut file = OpenOptions::new().create(true).append(true).open(&path).context(action)?;
        writeln!(file, "{}\t{text}\t{value}", change.word()).context(action)
    }

    /// Changes a setting until the end; gives its value before.
    ///
    /// # Errors
    /// It does not exist, or takes no such value.
    pub fn set(&self, path: &Path, value: &str) -> Result<String> {
        let before = setting(path)?;
        if before == value {
            return Ok(before);
        }
        self.note(NotedChange::Setting, path, &before)?;
        fs::write(path, value).context(|| format!("write {value:?} to {}", path.display()))?;
        Ok(before)
    }

    /// Makes a directory that is removed at the end with all that is in it.
    ///
    /// # Errors
    /// It exists, or cannot be made.
    pub fn make_folder(&self, path: &Path) -> Result<()> {
        if fs::symlink_metadata(path).is_ok() {
            return Err(ReproduceError::new(format!("make {}", path.display()), "it exists"));
        }
        self.note(NotedChange::Folder, path, "")?;
        fs::create_dir(path).context(|| format!("make {}", path.display()))?;
        File::create_new(path.join(MARK)).context(|| format!("mark {}", path.display()))?;
        Ok(())
    }

    /// Notes that `path` is about to be a mount point.
    ///
    /// # Errors
    /// The note cannot be written.
    pub fn will_mount(&self, path: &Path) -> Result<()> {
        self.note(NotedChange::Mount, path, "")
    }

    /// Notes that a device is about to be formatted.
    ///
    /// # Errors
    /// The note cannot be written.
    pub fn will_format(&self, device: &Path) -> Result<()> {
        self.note(NotedChange::Format, device, "")
    }

    /// Notes a command of the shell that is run at the end.
    ///
    /// # Errors
    /// The note cannot be written.
    pub fn will_run(&self, command: &str) -> Result<()> {
        self.note(NotedChange::Command, Path::new(command), "")
    }

    /// Makes a cgroup.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn make_cgroup(&self, path: &Path) -> Result<()> {
        self.note(NotedChange::Cgroup, path, "")?;
        fs::create_dir(path).context(|| format!("make {}", path.display()))
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        give_back(&self.folder);
    }
}

/// The current value of a setting: the choice in brackets, if there are several.
///
/// # Errors
/// It cannot be read.
pub fn setting(path: &Path) -> Result<String> {
    let text = fs::read_to_string(path).context(|| format!("read {}", path.display()))?;
    let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    Ok(chosen.map_or(text.trim(), |(value, _)| value).to_owned())
}

/// Makes the base directory; refuses one that somebody else could have prepared.
fn make_base(base: &Path) -> Result<()> {
    let made = fs::DirBuilder::new().mode(0o700).create(base);
    let action = || format!("make {}", base.display());
    if let Err(cause) = made
        && cause.kind() != std::io::ErrorKind::AlreadyExists
    {
        return Err(ReproduceError::new(action(), cause).hint("run it as root"));
    }
    let about = fs::symlink_metadata(base).context(action)?;
    let own = rustix::process::geteuid().as_raw();
    if !about.is_dir() || about.uid() != own || about.mode() & 0o022 != 0 {
        let cause = "it is not a directory that only this user can write to";
        return Err(ReproduceError::new(format!("use {}", base.display()), cause));
    }
    Ok(())
}

fn locked(path: &Path, how: FlockOperation) -> Result<File> {
    let action = || format!("lock {}", path.display());
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(path);
    let file = file.context(action)?;
    flock(&file, how).context(action)?;
    Ok(file)
}

/// Undoes what runs left whose processes are gone.
fn sweep(base: &Path) -> Vec<String> {
    let mut swept = Vec::new();
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let path = entry.path();
        if !path.is_dir() {
            continue;
        }
        let dead = File::open(path.join("lock"))
            .map_or(true, |lock| flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok());
        if dead {
            let count = give_back(&path);
            swept.push(format!("undid what a killed run had changed: {count} things"));
        }
    }
    swept
}

/// Undoes what is noted in `folder`, the last first, and says how many; what cannot be undone
/// now keeps its notes for the next run.
fn give_back(folder: &Path) -> usize {
    end_processes(folder);
    let text = fs::read_to_string(folder.join("journal")).unwrap_or_default();
    let mut left = Vec::new();
    let mut count = 0;
    for line in text.lines().rev() {
        let mut words = line.splitn(3, '\t');
        let (Some(word), Some(path)) = (words.next(), words.next()) else { continue };
        let value = words.next().unwrap_or_default();
        let Some(change) = NotedChange::ALL.into_iter().find(|it| it.word() == word) else {
            continue;
        };
        match undone(change, Path::new(path), value) {
            true => count += 1,
            false => left.push(line),
        }
    }
    if left.is_empty() {
        // It is ours, and holds only notes and logs.
        let _ = fs::remove_dir_all(folder);
    } else {
        left.reverse();
        let _ = fs::write(folder.join("journal"), left.join("\n") + "\n");
    }
    count
}

/// Ends the processes that carry the mark of `folder`.
fn end_processes(folder: &Path) {
    let mut wanted = format!("{VARIABLE}=").into_bytes();
    wanted.extend(folder.as_os_str().as_encoded_bytes());
    let own = std::process::id();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        let is_ours = environment.split(|byte| *byte == 0).any(|word| word == wanted);
        if is_ours
            && pid.unsigned_abs() != own
            && let Some(pid) = rustix::process::Pid::from_raw(pid)
        {
            // It may have ended.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
}

/// Tries `action` until it succeeds, for a while.
fn eventually(mut action: impl FnMut() -> bool) -> bool {
    for attempt in 0..ATTEMPTS {
        if action() {
            return true;
        }
        if attempt + 1 < ATTEMPTS {
            std::thread::sleep(PAUSE);
        }
    }
    false
}

fn undone(change: NotedChange, path: &Path, value: &str) -> bool {
    match change {
        // A device that is gone has no setting.
        NotedChange::Setting => !path.exists() || fs::write(path, value).is_ok(),
        NotedChange::Mount => {
            eventually(|| !is_mount_point(path) || run("umount", &[path.as_os_str()]))
        }
        NotedChange::Folder => {
            let is_ours = path.join(MARK).is_file() || is_empty(path);
            !path.is_dir() || (is_ours && eventually(|| fs::remove_dir_all(path).is_ok()))
        }
        NotedChange::Cgroup => eventually(|| !path.exists() || fs::remove_dir(path).is_ok()),
        // Once: a command that fails would fail again.
        NotedChange::Command => {
            run("sh", &["-c".as_ref(), path.as_os_str()]);
            true
        }
        NotedChange::Format => !path.exists() || eventually(|| blanked(path).is_ok()),
    }
}

/// Overwrites both ends of a device that a run used, so that no file system is found there, and
/// leaves the mark by which the next run knows that its data is nobody's.
fn blanked(path: &Path) -> std::io::Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    let bytes = std::io::Seek::seek(&mut &file, std::io::SeekFrom::End(0))?;
    let edge = DEVICE_EDGE.min(bytes);
    let mut block = vec![0; edge as usize];
    file.write_all_at(&block, bytes - edge)?;
    for (place, byte) in block.iter_mut().zip(DEVICE_MARK) {
        *place = *byte;
    }
    file.write_all_at(&block, 0)?;
    file.sync_all()
}

fn is_empty(path: &Path) -> bool {
    fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
}

fn is_mount_point(path: &Path) -> bool {
    let above = path.parent().and_then(|it| fs::metadata(it).ok()).map(|it| it.dev());
    let own = fs::symlink_metadata(path).ok().map(|it| it.dev());
    own.is_some() && own != above
}

fn run(program: &str, arguments: &[&std::ffi::OsStr]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdin(std::process::Stdio::null());
    command.output().is_ok_and(|output| output.status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_and_folders_are_given_back() {
        let base = tempfile::tempdir().unwrap();
        let (notes, work) = (base.path().join("notes"), base.path().join("work"));
        let file = base.path().join("scheduler");
        fs::write(&file, "[none] bfq").unwrap();
        let (undo, swept) = Undo::begin_in(&notes).unwrap();
        assert_eq!(swept, [] as [String; 0]);
        assert_eq!(undo.set(&file, "bfq").unwrap(), "none");
        undo.make_folder(&work).unwrap();
        assert!(undo.make_folder(&work).is_err(), "it is not made twice");
        fs::write(work.join("data"), "x").unwrap();
        drop(undo);
        assert_eq!(fs::read_to_string(&file).unwrap(), "none");
        assert!(!work.exists());
    }

    #[test]
    fn the_next_run_gives_back_what_a_killed_one_left() {
        let base = tempfile::tempdir().unwrap();
        let (notes, work) = (base.path().join("notes"), base.path().join("work"));
        let (undo, _) = Undo::begin_in(&notes).unwrap();
        undo.make_folder(&work).unwrap();
        let journal = fs::read(undo.folder().join("journal")).unwrap();
        // As a killed process leaves it: notes without a lock that is held.
        let dead = notes.join("dead");
        fs::create_dir(&dead).unwrap();
        fs::write(dead.join("journal"), journal).unwrap();
        fs::remove_file(undo.folder().join("journal")).unwrap();
        let (_next, swept) = Undo::begin_in(&notes).unwrap();
        assert_eq!(swept.len(), 1, "{swept:?}");
        assert!(!work.exists() && !dead.exists());
        assert!(undo.folder().exists(), "a living run keeps its notes");
    }

    #[test]
    fn a_folder_without_the_mark_stays() {
        let base = tempfile::tempdir().unwrap();
        let work = base.path().join("work");
        fs::create_dir(&work).unwrap();
        fs::write(work.join("precious"), "x").unwrap();
        let dead = base.path().join("notes/dead");
        let (first, _) = Undo::begin_in(&base.path().join("notes")).unwrap();
        fs::create_dir(&dead).unwrap();
        fs::write(dead.join("journal"), format!("folder\t{}\t\n", work.display())).unwrap();
        let _second = Undo::begin_in(&base.path().join("notes")).unwrap();
        assert!(work.join("precious").exists());
        drop(first);
    }
}
