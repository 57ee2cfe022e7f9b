//! Everything that a run changes is written down before, and given back when the run ends:
//! settings, mounts, directories, cgroups, processes. After a kill, the run's guard gives it back,
//! or the next run.
//!
//! Notes are below /run, which a reboot empties like the settings themselves. A directory is only
//! removed if it has the mark that was made with it.
//!
//! What does not belong here: what is changed (see [`crate::run`], [`crate::settings`]).

use crate::error::{ActionContext, ReproduceError, Result};
use crate::guard;
use crate::kernel_file;
use iowhy_fs::{Folder, PRIVATE_FILE, PRIVATE_FOLDER, read};
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// The directory of notes.
const BASE: &str = "/run/iowhy-reproduce";
/// The environment variable that tells whose a process is.
pub const VARIABLE: &str = "IOWHY_REPRODUCTION";
/// The file of changes, a line each.
const JOURNAL: &str = "journal";
/// The lock that a living run holds.
const LOCK: &str = "lock";
/// Bytes of a process's environment that are searched for the mark.
const MOST_ENVIRONMENT: u64 = 128 << 10;
/// Larger notes are not those of a run.
const MOST_NOTES_BYTES: u64 = 1 << 20;
/// The file that marks a directory as a reproduction's own.
pub const MARK: &str = ".iowhy-reproduction";
/// The first bytes of a device that only a reproduction has used; zeros follow.
pub const DEVICE_MARK: &[u8] = b"iowhy-reproduction: nothing on this device is of use\n";
/// Bytes at both ends of a device where file systems have their signatures.
pub const DEVICE_EDGE: u64 = 1 << 20;
/// Attempts to remove something that may be busy for a moment, and the pause between them.
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

/// The changes so far.
#[derive(Debug)]
pub struct Undo {
    folder: Folder,
    _lock: File,
}

impl Undo {
    /// Begins, after undoing the changes that killed runs left; those are returned, a sentence
    /// each.
    ///
    /// # Errors
    /// Fails if the directory of the notes cannot be used.
    pub fn begin() -> Result<(Undo, Vec<String>)> {
        let begun = Undo::begin_in(Path::new(BASE))?;
        guard::start(begun.0.folder());
        Ok(begun)
    }

    fn begin_in(base: &Path) -> Result<(Undo, Vec<String>)> {
        let notes = base_folder(base)?;
        let _guard = locked(&notes, FlockOperation::LockExclusive)?;
        let swept = sweep(&notes);
        let name = (0..)
            .map(|number| format!("{}-{number}", std::process::id()))
            .find(|name| !notes.has(name))
            .unwrap_or_else(|| "run".to_owned());
        let folder = notes.make_folder(&name, PRIVATE_FOLDER);
        let folder = folder.context(|| format!("make {}", base.join(name).display()))?;
        let lock = locked(&folder, FlockOperation::NonBlockingLockExclusive)?;
        Ok((Undo { folder, _lock: lock }, swept))
    }

    /// A directory for logs and links, removed at the end.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a file into that directory.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn put(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let written = self.folder.replace(name, bytes, PRIVATE_FILE, false);
        written.context(|| format!("write {}", self.folder().join(name).display()))
    }

    /// Makes a file for a program's output in that directory, in place of an earlier one.
    ///
    /// # Errors
    /// Fails if the file cannot be made.
    pub fn log_file(&self, name: &str) -> Result<File> {
        let made = self.folder.create_anew(name, PRIVATE_FILE);
        made.context(|| format!("write {}", self.folder().join(name).display()))
    }

    /// Makes a link in that directory.
    ///
    /// # Errors
    /// Fails if something of that name exists, or the link cannot be made.
    pub fn link(&self, target: &Path, name: &str) -> Result<()> {
        let made = self.folder.symlink(target, name);
        made.context(|| format!("make {}", self.folder().join(name).display()))
    }

    /// Marks a process as this run's.
    pub fn mark(&self, command: &mut Command) {
        command.env(VARIABLE, self.folder());
    }

    fn note(&self, change: NotedChange, what: &Path, value: &str) -> Result<()> {
        let action = || format!("write {}", self.folder().join(JOURNAL).display());
        let text = what.to_str().filter(|text| !text.contains(['\t', '\n']));
        let Some(text) = text else {
            let cause = "it cannot be noted: it contains a tab, a newline or broken characters";
            return Err(ReproduceError::new(format!("use {}", what.display()), cause));
        };
        let mut file = self.folder.append(JOURNAL, PRIVATE_FILE).context(action)?;
        writeln!(file, "{}\t{text}\t{value}", change.word()).context(action)
    }

    /// Changes a setting until the end; gives its value before.
    ///
    /// # Errors
    /// Fails if the setting does not exist, or takes no such value.
    pub fn set(&self, path: &Path, value: &str) -> Result<String> {
        let before = setting(path)?;
        if before == value {
            return Ok(before);
        }
        self.note(NotedChange::Setting, path, &before)?;
        kernel_file::write(path, value)?;
        Ok(before)
    }

    /// Makes a directory that is removed at the end with all that is in it.
    ///
    /// # Errors
    /// Fails if the directory exists, or cannot be made.
    pub fn make_folder(&self, path: &Path) -> Result<()> {
        if fs::symlink_metadata(path).is_ok() {
            return Err(ReproduceError::new(format!("make {}", path.display()), "it exists"));
        }
        self.note(NotedChange::Folder, path, "")?;
        let made = Folder::make_new(path, PRIVATE_FOLDER);
        let made = made.context(|| format!("make {}", path.display()))?;
        made.create(MARK, PRIVATE_FILE).context(|| format!("mark {}", path.display()))?;
        Ok(())
    }

    /// Notes that `path` is about to be a mount point.
    ///
    /// # Errors
    /// Fails if the note cannot be written.
    pub fn will_mount(&self, path: &Path) -> Result<()> {
        self.note(NotedChange::Mount, path, "")
    }

    /// Notes that a device is about to be formatted.
    ///
    /// # Errors
    /// Fails if the note cannot be written.
    pub fn will_format(&self, device: &Path) -> Result<()> {
        self.note(NotedChange::Format, device, "")
    }

    /// Notes a command of the shell that is run at the end.
    ///
    /// # Errors
    /// Fails if the note cannot be written.
    pub fn will_run(&self, command: &str) -> Result<()> {
        self.note(NotedChange::Command, Path::new(command), "")
    }

    /// Makes a cgroup.
    ///
    /// # Errors
    /// Fails if the cgroup cannot be made.
    pub fn make_cgroup(&self, path: &Path) -> Result<()> {
        self.note(NotedChange::Cgroup, path, "")?;
        let made = Folder::make_new(path, 0o755);
        made.map(drop).context(|| format!("make {}", path.display()))
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        give_back(self.folder());
    }
}

/// The current value of a setting: the choice in brackets, if there are several.
///
/// # Errors
/// Fails if the setting cannot be read.
pub fn setting(path: &Path) -> Result<String> {
    let text = fs::read_to_string(path).context(|| format!("read {}", path.display()))?;
    let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    Ok(chosen.map_or(text.trim(), |(value, _)| value).to_owned())
}

/// Makes the base directory; refuses one that somebody else could have prepared.
fn base_folder(base: &Path) -> Result<Folder> {
    let made = Folder::make(base, PRIVATE_FOLDER).map_err(|cause| {
        ReproduceError::new(format!("make {}", base.display()), cause).hint("run it as root")
    });
    Ok(made?.0)
}

/// Takes the lock in `folder`.
fn locked(folder: &Folder, how: FlockOperation) -> Result<File> {
    let action = || format!("lock {}", folder.path().join(LOCK).display());
    let file = folder.lock_file(LOCK, PRIVATE_FILE).context(action)?;
    flock(&file, how).context(action)?;
    Ok(file)
}

/// Waits until the run whose notes are in `folder` has ended, and undoes what it has left.
pub(crate) fn give_back_behind(folder: &Path) {
    if folder.parent() == Some(Path::new(BASE)) {
        give_back_in(Path::new(BASE), folder);
    }
}

fn give_back_in(base: &Path, folder: &Path) {
    let Ok(own) = Folder::open_own(folder) else { return };
    // A living run holds the lock, and the kernel frees it however the run ends.
    let Ok(lock) = locked(&own, FlockOperation::LockShared) else { return };
    drop(lock);
    // The next run may be about to undo the same.
    let notes = base_folder(base);
    let guard = notes.and_then(|notes| locked(&notes, FlockOperation::LockExclusive));
    // Another run may have made it anew.
    let is_dead = |own: Folder| locked(&own, FlockOperation::NonBlockingLockShared).is_ok();
    if guard.is_ok() && Folder::open_own(folder).is_ok_and(is_dead) {
        give_back(folder);
    }
}

/// Undoes the changes of runs whose processes are gone.
fn sweep(notes: &Folder) -> Vec<String> {
    let mut swept = Vec::new();
    for name in notes.names().unwrap_or_default() {
        let Ok(folder) = notes.folder(&name) else { continue };
        let dead = folder
            .open_file(LOCK)
            .map_or(true, |lock| flock(&lock, FlockOperation::NonBlockingLockShared).is_ok());
        if dead {
            let count = give_back(folder.path());
            swept.push(format!("undid what a killed run had changed: {count} things"));
        }
    }
    swept
}

/// Undoes the changes noted in `folder`, the last first, and returns their number; changes that
/// cannot be undone now keep their notes for the next run.
fn give_back(folder: &Path) -> usize {
    end_processes(folder);
    let text = read::text(&folder.join(JOURNAL), MOST_NOTES_BYTES).unwrap_or_default();
    let mut left = Vec::new();
    let mut count = 0;
    for line in text.lines().rev() {
        let mut words = line.splitn(3, '\t');
        let (Some(word), Some(path)) = (words.next(), words.next()) else { continue };
        let value = words.next().unwrap_or_default();
        let Some(change) = NotedChange::ALL.into_iter().find(|change| change.word() == word) else {
            continue;
        };
        match undone(change, Path::new(path), value) {
            true => count += 1,
            false => left.push(line),
        }
    }
    if left.is_empty() {
        // The folder is ours, and holds only notes and logs.
        let _ = iowhy_fs::remove_all(folder);
    } else {
        left.reverse();
        let text = left.join("\n") + "\n";
        let _ = Folder::open_own(folder)
            .and_then(|folder| folder.replace(JOURNAL, text.as_bytes(), PRIVATE_FILE, false));
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
        let environment = read::beginning(&entry.path().join("environ"), MOST_ENVIRONMENT);
        let is_ours = environment.split(|byte| *byte == 0).any(|word| word == wanted);
        if is_ours
            && pid.unsigned_abs() != own
            && let Some(pid) = rustix::process::Pid::from_raw(pid)
        {
            // The process may have ended.
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
        NotedChange::Setting => !path.exists() || kernel_file::write(path, value).is_ok(),
        NotedChange::Mount => {
            eventually(|| !is_mount_point(path) || run("umount", &[path.as_os_str()]))
        }
        NotedChange::Folder => {
            let is_ours = path.join(MARK).is_file() || is_empty(path);
            !path.is_dir() || (is_ours && eventually(|| iowhy_fs::remove_all(path).is_ok()))
        }
        NotedChange::Cgroup => {
            eventually(|| !path.exists() || iowhy_fs::remove_folder(path).is_ok())
        }
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
    let file = kernel_file::open(path)?;
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
    let above =
        path.parent().and_then(|parent| fs::metadata(parent).ok()).map(|metadata| metadata.dev());
    let own = fs::symlink_metadata(path).ok().map(|metadata| metadata.dev());
    own.is_some() && own != above
}

fn run(program: &str, arguments: &[&std::ffi::OsStr]) -> bool {
    let mut command = Command::new(iowhy_fs::programs::find_or_name(program));
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
    fn a_guard_gives_back_what_a_killed_run_left() {
        let base = tempfile::tempdir().unwrap();
        let notes = base.path().join("notes");
        let file = base.path().join("read_ahead_kb");
        fs::write(&file, "128").unwrap();
        let (undo, _) = Undo::begin_in(&notes).unwrap();
        undo.set(&file, "4").unwrap();
        let folder = undo.folder().to_owned();
        let guard = std::thread::spawn({
            let (notes, folder) = (notes.clone(), folder.clone());
            move || give_back_in(&notes, &folder)
        });
        std::thread::sleep(PAUSE);
        assert!(!guard.is_finished());
        assert_eq!(fs::read_to_string(&file).unwrap(), "4");
        // As a killed process leaves it: the notes stay, and the lock is free.
        let undo = std::mem::ManuallyDrop::new(undo);
        flock(&undo._lock, FlockOperation::Unlock).unwrap();
        guard.join().unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "128");
        assert!(!folder.exists());
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
