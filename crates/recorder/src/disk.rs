//! Files and directories that are written whole, so that a crash leaves the old or the new one.
//!
//! What does not belong here: what is in them, and who may wait for a disk.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Directories are for root and the group.
const DIRECTORY_MODE: u32 = 0o750;
/// Files likewise.
const FILE_MODE: u32 = 0o640;

/// Makes a directory, and those above it.
///
/// # Errors
/// When it cannot be made.
pub fn make(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(path)
}

/// Waits until the disk has the names in the directory `path`, as they are now: after a power cut a
/// name may otherwise be gone, or stand for an older file.
///
/// # Errors
/// When the directory cannot be opened, or the disk does not take them.
pub fn sync_names(path: &Path) -> io::Result<()> {
    // Of a relative path.
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    File::open(path)?.sync_all()
}

/// Where `path` is written before it gets its name.
fn partial(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.partial"))
}

/// Replaces the content of `path` by `bytes`. They survive a power cut from then on.
///
/// # Errors
/// When it cannot be written; the old content stays.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let partial = partial(path);
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(FILE_MODE);
    let written = options.open(&partial).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    written.and_then(|()| fs::rename(&partial, path)).inspect_err(|_| {
        // It is of no use, and its space may be missing.
        let _ = fs::remove_file(&partial);
    })?;
    path.parent().map_or(Ok(()), sync_names)
}

/// Replaces the content of `path` by `bytes`, readable for everybody, in a directory that others
/// own.
///
/// # Errors
/// When it cannot be written; the old content stays.
pub fn publish(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let partial = partial(path);
    let mut options = OpenOptions::new();
    // A link that somebody put there is not followed.
    options.write(true).create_new(true).mode(0o644);
    let _ = fs::remove_file(&partial);
    options.open(&partial)?.write_all(bytes)?;
    fs::rename(&partial, path)
}

/// Bytes that all files below `path` take; what cannot be read counts nothing.
pub fn bytes_below(path: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(path) else { return 0 };
    let bytes = entries.flatten().map(|entry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => bytes_below(&entry.path()),
        _ => entry.metadata().map_or(0, |metadata| metadata.blocks() * 512),
    });
    bytes.sum()
}

/// Makes `to` hold what `from` holds: files that `to` has in the same size are taken as the same
/// unless `is_final` says otherwise of their name, and files that `from` lacks go, except `kept`.
/// All of it survives a power cut once the name of `to` does ([`sync_names`]).
///
/// # Errors
/// When something cannot be read or written. What was copied stays, so that the next call goes on.
pub fn mirror(
    from: &Path,
    to: &Path,
    is_final: &dyn Fn(&str) -> bool,
    kept: &[&str],
) -> io::Result<()> {
    make(to)?;
    let mut names = Vec::new();
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        let text = name.to_string_lossy().into_owned();
        if text.starts_with('.') {
            continue;
        }
        let (source, target) = (entry.path(), to.join(&name));
        match entry.file_type()?.is_dir() {
            true => mirror(&source, &target, is_final, kept)?,
            false if is_final(&text) && is_copied(&source, &target) => (),
            false => copy(&source, &target)?,
        }
        names.push(name);
    }
    for entry in fs::read_dir(to)?.flatten() {
        let name = entry.file_name();
        if !names.contains(&name) && !kept.iter().any(|kept| **kept == *name) {
            remove(&entry.path());
        }
    }
    sync_names(to)
}

fn is_copied(source: &Path, target: &Path) -> bool {
    let size = |path: &Path| fs::metadata(path).map(|metadata| metadata.len());
    matches!((size(source), size(target)), (Ok(source), Ok(target)) if source == target)
}

fn copy(source: &Path, target: &Path) -> io::Result<()> {
    let partial = partial(target);
    let copied = File::open(source).and_then(|mut from| {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(FILE_MODE);
        let mut to = options.open(&partial)?;
        io::copy(&mut from, &mut to)?;
        to.sync_all()
    });
    copied.and_then(|()| fs::rename(&partial, target)).inspect_err(|_| {
        let _ = fs::remove_file(&partial);
    })
}

/// Removes a file or a directory; what cannot be removed is removed the next time.
pub fn remove(path: &Path) {
    let is_directory = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir());
    let _ = if is_directory { fs::remove_dir_all(path) } else { fs::remove_file(path) };
}

#[cfg(test)]
mod tests {
    use super::*;

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
        // Final files stay, others are copied again; what is gone goes, but for what is kept.
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
