//! Outputs that are no files: a pipe, a terminal, `/dev/null`, `/dev/stdout`. They are written as
//! they are.
//!
//! What does not belong here: block devices, which are never an output.

use crate::confined::by_writer;
use crate::rights::with_own_rights;
use crate::walk;
use rustix::fd::OwnedFd;
use rustix::fs::{CWD, FileType, Mode, OFlags};
use std::fs::File;
use std::io;
use std::path::Path;
use std::process::Stdio;
use std::sync::OnceLock;

/// The file system of pipes without a name (`PIPEFS_MAGIC`).
const PIPEFS: i64 = 0x5049_5045;

/// `/dev/null`, opened before a thread gave up writing.
static NOWHERE: OnceLock<File> = OnceLock::new();

/// Opens `/dev/null` for [`nowhere`].
pub(crate) fn open_nowhere() {
    if NOWHERE.get().is_none()
        && let Ok(opened) =
            rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
    {
        // Another thread may have been faster.
        let _ = NOWHERE.set(File::from(opened));
    }
}

/// The output of a program that nobody reads; also where `/dev/null` cannot be opened any more.
pub fn nowhere() -> Stdio {
    let opened = NOWHERE.get().and_then(|file| file.try_clone().ok());
    opened.map_or_else(Stdio::null, Stdio::from)
}

/// Whether a pipe or a character device stands at `path`; links are followed as on the way to a
/// directory.
///
/// # Errors
/// A block device, a socket, or a link or a pipe of somebody else stands there.
pub fn is_special(path: &Path) -> io::Result<bool> {
    let end = match with_own_rights(|| walk::end_of(path)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        end => end?,
    };
    check_pipe(&end)?;
    match FileType::from_raw_mode(rustix::fs::fstat(&end)?.st_mode) {
        FileType::Fifo | FileType::CharacterDevice => Ok(true),
        FileType::RegularFile | FileType::Directory => Ok(false),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a device or a socket")),
    }
}

/// Refuses a pipe with a name that is somebody else's: they would read what root alone may read.
/// One without a name was handed to this process, as a shell does it.
fn check_pipe(end: &OwnedFd) -> io::Result<()> {
    let about = rustix::fs::fstat(end)?;
    let is_pipe = FileType::from_raw_mode(about.st_mode) == FileType::Fifo;
    let owners = [0, rustix::process::geteuid().as_raw()];
    if !is_pipe || owners.contains(&about.st_uid) || rustix::fs::fstatfs(end)?.f_type == PIPEFS {
        return Ok(());
    }
    let why = format!("it is a pipe of user {}, who would read what is written", about.st_uid);
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
}

/// Opens the pipe or the character device `path` for writing. Opening a pipe waits for its reader.
///
/// # Errors
/// It cannot be opened, is neither, or is a pipe of somebody else.
pub fn open(path: &Path) -> io::Result<File> {
    let end = with_own_rights(|| walk::end_of(path))?;
    check_pipe(&end)?;
    // Through the handle: the name may have become another's meanwhile.
    let seen = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&end));
    let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOCTTY;
    let is_wanted =
        |mode| matches!(FileType::from_raw_mode(mode), FileType::Fifo | FileType::CharacterDevice);
    if !is_wanted(rustix::fs::fstat(&end)?.st_mode) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no pipe and no terminal"));
    }
    by_writer(move || {
        let opened = with_own_rights(|| rustix::fs::openat(CWD, seen, flags, Mode::empty()));
        Ok(File::from(opened?))
    })
}
