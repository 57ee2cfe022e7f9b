//! The way from a path to a directory, one name after the other, so that nobody else's link is
//! followed.
//!
//! `openat2` with `RESOLVE_NO_SYMLINKS` would refuse every link, also root's own: `/var/run`, a
//! home directory on another disk. Links of root and of the caller lead where these want; a link of
//! anybody else leads where that person wants, and is refused with the reason.
//! `fs.protected_symlinks` has a similar rule, but only for directories such as /tmp.
//!
//! What does not belong here: what is done in the directory.

use crate::rights::with_own_rights;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, PROC_SUPER_MAGIC};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path};

/// Links that are followed on one way, as many as the kernel follows.
const MOST_LINKS: usize = 40;

/// A name that is opened only to go on from it, or to be examined.
const ON_THE_WAY: OFlags = OFlags::PATH.union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);

/// Opens the directory `path` to make, open and remove names in it.
///
/// # Errors
/// Fails if `path` is no directory, cannot be opened, or a link of somebody else stands on the way.
pub fn folder(path: &Path) -> io::Result<OwnedFd> {
    with_own_rights(|| {
        let end = end_of(path)?;
        match kind_of(&end)? {
            FileType::Directory => Ok(end),
            _ => Err(rustix::io::Errno::NOTDIR.into()),
        }
    })
}

/// Opens `path` as a handle that can only be examined; links are followed as for [`folder`].
///
/// # Errors
/// Fails if nothing stands there, or a link of somebody else stands on the way.
pub(crate) fn end_of(path: &Path) -> io::Result<OwnedFd> {
    let mut left = names(path);
    let mut at = start(path)?;
    let mut links = 0;
    while let Some(name) = left.pop() {
        let next = rustix::fs::openat(&at, &name, ON_THE_WAY, Mode::empty())?;
        if kind_of(&next)? != FileType::Symlink {
            at = next;
            continue;
        }
        if is_of_proc(&at)? {
            // The kernel's own: it says where an open file is, and nobody can make one.
            let flags = ON_THE_WAY.difference(OFlags::NOFOLLOW);
            at = rustix::fs::openat(&at, &name, flags, Mode::empty())?;
            continue;
        }
        links += 1;
        if links > MOST_LINKS {
            return Err(rustix::io::Errno::LOOP.into());
        }
        let target = target_of(&next, &name)?;
        if target.is_absolute() {
            at = start(&target)?;
        }
        left.extend(names(&target));
    }
    Ok(at)
}

/// Opens the directory in which the way begins.
fn start(path: &Path) -> io::Result<OwnedFd> {
    let name = if path.is_absolute() { "/" } else { "." };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(CWD, name, flags, Mode::empty())?)
}

/// The names of a path, the last first.
fn names(path: &Path) -> Vec<OsString> {
    let named = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        _ => None,
    });
    let mut names: Vec<OsString> = named.collect();
    names.reverse();
    names
}

/// The target of a link, unless it is somebody else's.
fn target_of(link: &OwnedFd, name: &OsStr) -> io::Result<std::path::PathBuf> {
    let owner = rustix::fs::fstat(link)?.st_uid;
    if owner != 0 && owner != rustix::process::geteuid().as_raw() {
        let shown = name.display();
        let why = format!("{shown} is a link of user {owner}, who decides where it leads");
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    let target = rustix::fs::readlinkat(link, "", Vec::new())?;
    Ok(OsString::from_vec(target.into_bytes()).into())
}

fn is_of_proc(folder: &OwnedFd) -> io::Result<bool> {
    Ok(rustix::fs::fstatfs(folder)?.f_type == PROC_SUPER_MAGIC)
}

fn kind_of(handle: impl AsFd) -> io::Result<FileType> {
    Ok(FileType::from_raw_mode(rustix::fs::fstat(handle)?.st_mode))
}

/// Returns the metadata of `name` in a directory, without following a link.
pub(crate) fn about(folder: &OwnedFd, name: &OsStr) -> io::Result<rustix::fs::Stat> {
    Ok(rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?)
}
