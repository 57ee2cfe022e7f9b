//! Files and directories that are written completely: a crash leaves the old or the new one.
//!
//! What does not belong here: their content, and which thread may wait for a disk.

use iowhy_fs::{Folder, folder};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The mode of directories, for root and the group.
const DIRECTORY_MODE: u32 = 0o750;
/// The mode of files, for root and the group.
pub const FILE_MODE: u32 = 0o640;

/// Makes a directory, and those above it, or opens it.
///
/// # Errors
/// Fails if it cannot be made, or is not the daemon's alone.
pub fn make(path: &Path) -> io::Result<Folder> {
    Folder::make_all(path, DIRECTORY_MODE)
}

/// Makes one of the daemon's own directories at its start. If it is the daemon's but others may
/// write to it, as some runtimes make it, it is closed to them.
///
/// # Errors
/// Fails if it cannot be made, or is somebody else's.
pub fn make_closed(path: &Path) -> io::Result<()> {
    match make(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Folder::open(path)?.make_own()
        }
        made => made.map(drop),
    }
}

/// Returns the directory in which `path` stands, which is the daemon's alone, and its name there.
///
/// # Errors
/// Fails if it cannot be opened, or others may write to it.
pub fn own_parent(path: &Path) -> io::Result<(Folder, std::ffi::OsString)> {
    let (folder, name) = iowhy_fs::parent(path)?;
    folder.check_own()?;
    Ok((folder, name))
}

/// Waits until the names in the directory `path` are on disk: after a power cut a name may
/// otherwise be gone, or stand for an older file.
///
/// # Errors
/// Fails if the directory cannot be opened, or the disk does not take them.
pub fn sync_names(path: &Path) -> io::Result<()> {
    // A relative path may have an empty parent.
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    Folder::open(path)?.sync_names()
}

/// Replaces the content of `path` by `bytes`. They survive a power cut from then on.
///
/// # Errors
/// Fails if it cannot be written; the old content stays.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let (folder, name) = own_parent(path)?;
    folder.replace(&name, bytes, FILE_MODE, true)?;
    folder.sync_names()
}

/// Replaces the content of `path` by `bytes`, readable for everybody, in a directory that others
/// own.
///
/// # Errors
/// Fails if it cannot be written; the old content stays.
pub fn publish(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let (folder, name) = iowhy_fs::parent(path)?;
    folder.replace(&name, bytes, 0o644, false)
}

/// Returns the bytes that all files below `path` take; those that cannot be read count nothing.
pub fn bytes_below(path: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(path) else { return 0 };
    let bytes = entries.flatten().map(|entry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => bytes_below(&entry.path()),
        _ => entry.metadata().map_or(0, |metadata| metadata.blocks() * 512),
    });
    bytes.sum()
}

/// Makes `to` a copy of `from`. Files of the same size are taken as the same if `is_final` says so
/// of their name, and files that `from` lacks are removed, except `kept`. All of it survives a
/// power cut once the name of `to` does ([`sync_names`]).
///
/// # Errors
/// Fails if something cannot be read or written. Files that were copied stay, so that the next call
/// goes on.
pub fn mirror(
    from: &Path,
    to: &Path,
    is_final: &dyn Fn(&str) -> bool,
    kept: &[&str],
) -> io::Result<()> {
    let (source, target) = (Folder::open_own(from)?, make(to)?);
    let mut names = Vec::new();
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        let text = name.to_string_lossy().into_owned();
        if text.starts_with('.') {
            continue;
        }
        match entry.file_type()?.is_dir() {
            true => mirror(&entry.path(), &to.join(&name), is_final, kept)?,
            false if is_final(&text) && is_copied(&entry.path(), &to.join(&name)) => (),
            false => copy(&source, &target, &name)?,
        }
        names.push(name);
    }
    for name in target.names()? {
        if !names.contains(&name) && !kept.iter().any(|kept| **kept == *name) {
            // A file that cannot be removed is removed the next time.
            let _ = target.remove_all(&name);
        }
    }
    target.sync_names()
}

fn is_copied(source: &Path, target: &Path) -> bool {
    let size = |path: &Path| fs::metadata(path).map(|metadata| metadata.len());
    matches!((size(source), size(target)), (Ok(source), Ok(target)) if source == target)
}

fn copy(source: &Folder, target: &Folder, name: &OsStr) -> io::Result<()> {
    let partial = folder::partial(name);
    let copied = source.open_file(name).and_then(|mut from| {
        let mut to = target.create_anew(&partial, FILE_MODE)?;
        io::copy(&mut from, &mut to)?;
        to.sync_all()
    });
    copied.and_then(|()| target.rename(&partial, target, name)).inspect_err(|_| {
        let _ = target.remove_file(&partial);
    })
}

/// Removes a file or a directory; if that fails, it is removed the next time.
pub fn remove(path: &Path) {
    let _ = iowhy_fs::remove_all(path);
}

#[cfg(test)]
mod tests {
    use super::*;
    use iowhy_fs::PRIVATE_FOLDER;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_link_in_place_of_a_file_is_never_written_through() {
        let folder = tempfile::tempdir().unwrap();
        let (victim, state) = (folder.path().join("victim"), folder.path().join("state"));
        fs::write(&victim, "precious").unwrap();
        let own = Folder::make_all(&state, PRIVATE_FOLDER).unwrap();
        for name in ["file", ".file.partial"] {
            own.symlink(&victim, name).unwrap();
        }
        replace(&state.join("file"), b"new").unwrap();
        assert_eq!((text(&state.join("file")), text(&victim)), ("new".into(), "precious".into()));
        symlink(&victim, state.join("x.prom")).unwrap();
        publish(&state.join("x.prom"), b"figures").unwrap();
        assert_eq!(text(&victim), "precious");
        // A state directory that everybody may write to is refused with the reason.
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(&state, fs::Permissions::from_mode(0o777)).unwrap();
        let said = make(&state).unwrap_err().to_string();
        assert!(said.contains("others may write to the directory"), "{said}");
        assert!(replace(&state.join("file"), b"newer").is_err());
        make_closed(&state).unwrap();
        replace(&state.join("file"), b"newer").unwrap();
    }

    fn text(path: &Path) -> String {
        fs::read_to_string(path).unwrap()
    }

    #[test]
    fn a_mirror_has_what_the_original_has() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        fs::create_dir_all(from.join("a")).unwrap();
        fs::write(from.join("a/1.segment"), "one").unwrap();
        fs::write(from.join("state"), "old").unwrap();
        fs::write(from.join(".hidden"), "x").unwrap();
        let is_final = |name: &str| name.ends_with(".segment");
        mirror(&from, &to, &is_final, &["pinned"]).unwrap();
        assert_eq!(
            (text(&to.join("a/1.segment")), text(&to.join("state"))),
            ("one".into(), "old".into())
        );
        assert!(!to.join(".hidden").exists());
        // Final files stay, others are copied again; files that are gone are removed, except those
        // kept.
        fs::write(from.join("a/1.segment"), "two").unwrap();
        fs::write(from.join("state"), "new").unwrap();
        fs::write(to.join("pinned"), "").unwrap();
        fs::write(to.join("stale"), "").unwrap();
        mirror(&from, &to, &is_final, &["pinned"]).unwrap();
        assert_eq!(
            (text(&to.join("a/1.segment")), text(&to.join("state"))),
            ("one".into(), "new".into())
        );
        assert!(to.join("pinned").exists() && !to.join("stale").exists());
        let mode = fs::metadata(to.join("state")).unwrap().mode();
        assert_eq!(mode & 0o007, 0, "{mode:o}");
        assert!(bytes_below(&to) > 0);
    }

    #[test]
    fn what_cannot_be_written_leaves_the_old() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        replace(&path, b"old").unwrap();
        fs::create_dir(folder.path().join(".file.partial")).unwrap();
        assert!(replace(&path, b"new").is_err());
        assert_eq!(text(&path), "old");
    }
}
