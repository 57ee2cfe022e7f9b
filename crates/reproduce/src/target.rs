//! Places at which a reproduction may run: an empty directory, or an empty device that nothing
//! uses. All checks come before anything is written.
//!
//! What does not belong here: making anything there (see [`crate::run`]).

use crate::error::{ActionContext, ReproduceError, Result};
use crate::undo::{DEVICE_EDGE, DEVICE_MARK};
use crate::users::user_of;
use iowhy_fs::Folder;
use rustix::fs::OFlags;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Names that may be in an empty directory.
const ALLOWED: &[&str] = &["lost+found"];
/// Bytes at both ends of a device, and places between them, that must be zero for it to be empty.
const EDGE: u64 = DEVICE_EDGE;
const PROBED: u64 = 64;
const PROBE: u64 = 4096;
/// Space of a file system that must stay free.
pub(crate) const RESERVE: u64 = 64 << 20;
/// File systems in memory or on a network, where no disk is tested.
const NO_DISK: &[&str] = &["tmpfs", "ramfs", "overlay", "nfs", "nfs4", "cifs", "9p", "virtiofs"];

/// A place that the user named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunTarget {
    /// An empty directory.
    Directory(PathBuf),
    /// A device.
    Device {
        /// The device's node.
        path: PathBuf,
        /// Whether data on it may be destroyed.
        destroy: bool,
    },
}

/// A place that was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedTarget {
    /// The place.
    pub target: RunTarget,
    /// The kernel's name of the whole disk below it.
    pub disk: String,
    /// The number of that disk.
    pub number: (u32, u32),
    /// Bytes that can be used.
    pub free: u64,
}

impl RunTarget {
    /// Returns the path of the directory or device.
    pub fn path(&self) -> &Path {
        match self {
            RunTarget::Directory(path) | RunTarget::Device { path, .. } => path,
        }
    }

    /// Checks that a reproduction that needs so many bytes may run here.
    ///
    /// # Errors
    /// Fails if it may not, with the reason.
    pub fn check(&self, bytes: u64) -> Result<CheckedTarget> {
        let text = self.path().to_str().unwrap_or(":");
        if text.contains([':', '$', '\n', '\t', '\\']) {
            let cause = "fio cannot read such a path: it contains one of : $ \\ or a control \
                         character";
            return Err(self.refused(cause).hint("name another path"));
        }
        let checked = match self {
            RunTarget::Directory(path) => self.check_directory(path)?,
            RunTarget::Device { path, destroy } => self.check_device(path, *destroy)?,
        };
        // A device has no other user whose space would be taken.
        let reserve = if matches!(self, RunTarget::Directory(_)) { RESERVE } else { 0 };
        if checked.free < bytes.saturating_add(reserve) {
            let (needs, has) =
                ((bytes.saturating_add(reserve)).div_ceil(1 << 20), checked.free >> 20);
            let cause = format!("{needs} MiB are needed, {has} MiB are free");
            return Err(self.refused(&cause).hint("name a larger place"));
        }
        Ok(checked)
    }

    fn refused(&self, cause: &str) -> ReproduceError {
        ReproduceError::new(format!("use {}", self.path().display()), cause)
    }

    fn check_directory(&self, path: &Path) -> Result<CheckedTarget> {
        let action = || format!("use {}", path.display());
        let about = fs::symlink_metadata(path).map_err(|cause| {
            ReproduceError::new(action(), cause).hint("create the directory first")
        })?;
        if !about.is_dir() {
            let refused = self.refused("it is not a directory");
            return Err(refused.hint("name an empty directory; a device is named by --on-device"));
        }
        // Programs are told paths below it, and root writes whatever stands there then.
        if rustix::process::geteuid().is_root() {
            let checked = Folder::open(path).and_then(|folder| folder.check_paths());
            checked.map_err(|cause| {
                self.refused(&cause.to_string()).hint("name a directory of root's on that disk")
            })?;
        }
        let others: Vec<String> = fs::read_dir(path)
            .context(action)?
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .filter(|name| !ALLOWED.contains(&name.as_str()))
            .collect();
        if let Some(first) = others.first() {
            let cause = format!("it is not empty: it contains {first}");
            return Err(self.refused(&cause).hint(
                "nothing is ever made next to data: `mkdir` a new \
                                                  directory on the same disk",
            ));
        }
        let mount = mount_of(about.dev())?;
        if mount.as_ref().is_some_and(|mount| NO_DISK.contains(&mount.kind.as_str())) {
            let kind = mount.map(|mount| mount.kind).unwrap_or_default();
            let refused = self.refused(&format!("it is on {kind}, which has no disk"));
            return Err(refused.hint("name a directory of the disk to test"));
        }
        let number = match mount.and_then(|mount| device_number(&mount.source)) {
            Some(number) => number,
            None => about.dev(),
        };
        let (disk, number) = whole_disk(number).ok_or_else(|| {
            self.refused("its disk is not known").hint("name a directory on a block device")
        })?;
        let free = rustix::fs::statvfs(path).context(action)?;
        Ok(CheckedTarget {
            target: self.clone(),
            disk,
            number,
            free: free.f_bavail.saturating_mul(free.f_frsize),
        })
    }

    fn check_device(&self, path: &Path, destroy: bool) -> Result<CheckedTarget> {
        let action = || format!("use {}", path.display());
        let about = fs::metadata(path).context(action)?;
        if !about.file_type().is_block_device() {
            let refused = self.refused("it is not a block device");
            return Err(refused.hint("a directory is named by --on"));
        }
        let (disk, number) =
            whole_disk(about.rdev()).ok_or_else(|| self.refused("the kernel does not list it"))?;
        if let Some(user) = user_of(about.rdev(), &disk)? {
            let refused = self.refused(&format!("it is in use: {user}"));
            return Err(refused.hint("name a device that is not mounted and not part of another"));
        }
        // The kernel refuses this while anything has claimed the device.
        let exclusive = i32::try_from(OFlags::EXCL.bits()).unwrap_or_default();
        let mut file =
            OpenOptions::new().read(true).custom_flags(exclusive).open(path).context(action)?;
        let free = file.seek(SeekFrom::End(0)).context(action)?;
        if !destroy && !is_blank(&mut file, free).context(action)? {
            let refused = self.refused("it is not empty: it holds data");
            let hint = format!(
                "name an empty device; or destroy what is on it: --destroy {}",
                path.file_name().unwrap_or_default().to_string_lossy()
            );
            return Err(refused.hint(hint));
        }
        Ok(CheckedTarget { target: self.clone(), disk, number, free })
    }
}

/// A mount, of mountinfo.
struct MountLine {
    kind: String,
    source: String,
}

/// The last mount of a file system's device.
fn mount_of(device: u64) -> Result<Option<MountLine>> {
    let text = fs::read_to_string("/proc/self/mountinfo")
        .context(|| "read /proc/self/mountinfo".to_owned())?;
    let number = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    let own = text.lines().filter(|line| line.split(' ').nth(2) == Some(&number));
    let mut parsed = own.filter_map(|line| {
        let mut words = line.split_once(" - ")?.1.split(' ');
        Some(MountLine { kind: words.next()?.to_owned(), source: words.next()?.to_owned() })
    });
    Ok(parsed.next_back())
}

/// The number of a device node.
fn device_number(path: &str) -> Option<u64> {
    let about = fs::metadata(path).ok()?;
    about.file_type().is_block_device().then(|| about.rdev())
}

/// The whole disk that a device is, or is a partition of: its name and number.
fn whole_disk(device: u64) -> Option<(String, (u32, u32))> {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let place = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    let place = match place.join("partition").exists() {
        true => place.parent()?.to_owned(),
        false => place,
    };
    let number = fs::read_to_string(place.join("dev")).ok()?;
    let (major, minor) = number.trim().split_once(':')?;
    let name = place.file_name()?.to_str()?.to_owned();
    Some((name, (major.parse().ok()?, minor.parse().ok()?)))
}

/// Whether a device has only zeros at both ends and at places between them, or is marked as used by
/// reproductions only.
fn is_blank(file: &mut File, bytes: u64) -> std::io::Result<bool> {
    if bytes >= EDGE {
        let mut first = vec![0; EDGE as usize];
        file.seek(SeekFrom::Start(0))?;
        file.read_exact(&mut first)?;
        let rest = first.strip_prefix(DEVICE_MARK);
        if rest.is_some_and(|rest| rest.iter().all(|byte| *byte == 0)) {
            return Ok(true);
        }
    }
    let edge = EDGE.min(bytes);
    let step = (bytes / PROBED).max(1);
    let between = (1..PROBED).map(|at| (at * step / PROBE * PROBE, PROBE));
    let places = [(0, edge), (bytes - edge, edge)].into_iter().chain(between);
    let mut buffer = vec![0; EDGE as usize];
    for (offset, length) in places.filter(|(offset, length)| offset + length <= bytes) {
        let part = &mut buffer[..length as usize];
        file.seek(SeekFrom::Start(offset))?;
        file.read_exact(part)?;
        if part.iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(target: &RunTarget, bytes: u64) -> String {
        match target.check(bytes) {
            Err(error) => error.to_string(),
            Ok(checked) => panic!("accepted: {checked:?}"),
        }
    }

    #[test]
    fn only_an_empty_directory_is_used() {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        fs::write(folder.path().join("data"), "x").unwrap();
        let target = RunTarget::Directory(folder.path().to_owned());
        assert!(refusal(&target, 0).contains("not empty: it contains data"));
        let file = RunTarget::Directory(folder.path().join("data"));
        assert!(refusal(&file, 0).contains("not a directory"));
        let none = RunTarget::Directory(folder.path().join("none"));
        assert!(refusal(&none, 0).contains("No such file"));
    }

    #[test]
    fn memory_is_no_disk_and_a_full_disk_is_too_small() {
        let memory = tempfile::tempdir_in("/dev/shm").unwrap();
        let target = RunTarget::Directory(memory.path().to_owned());
        assert!(refusal(&target, 0).contains("which has no disk"));
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let target = RunTarget::Directory(folder.path().to_owned());
        if target.check(0).is_ok() {
            assert!(refusal(&target, 1 << 60).contains("are free"));
        }
    }

    #[test]
    fn a_path_that_fio_would_split_is_refused() {
        assert!(refusal(&RunTarget::Directory("/var/tmp/a:b".into()), 0).contains("cannot read"));
    }

    #[test]
    fn a_file_is_no_device() {
        let target = RunTarget::Device { path: "/etc/passwd".into(), destroy: true };
        assert!(refusal(&target, 0).contains("not a block device"));
    }

    #[test]
    fn a_device_that_only_reproductions_used_is_blank() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        let mut bytes = vec![b'x'; 4 << 20];
        bytes[..EDGE as usize].fill(0);
        bytes[..DEVICE_MARK.len()].copy_from_slice(DEVICE_MARK);
        fs::write(&path, &bytes).unwrap();
        assert!(is_blank(&mut File::open(&path).unwrap(), bytes.len() as u64).unwrap());
        // A file system that somebody made since.
        bytes[1080] = 0x53;
        fs::write(&path, &bytes).unwrap();
        assert!(!is_blank(&mut File::open(&path).unwrap(), bytes.len() as u64).unwrap());
    }

    #[test]
    fn data_anywhere_at_the_ends_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        let bytes = 8 << 20;
        File::create(&path).unwrap().set_len(bytes).unwrap();
        assert!(is_blank(&mut File::open(&path).unwrap(), bytes).unwrap());
        for offset in [0, 1024, bytes - 1] {
            File::create(&path).unwrap().set_len(bytes).unwrap();
            let file = OpenOptions::new().write(true).open(&path).unwrap();
            std::os::unix::fs::FileExt::write_all_at(&file, b"x", offset).unwrap();
            assert!(!is_blank(&mut File::open(&path).unwrap(), bytes).unwrap(), "{offset}");
        }
    }
}
