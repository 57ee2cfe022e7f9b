//! Reading what others own: regular files of a bounded size. A pipe, a device or a socket that
//! stands where a file is expected is an error at once; reading one might never end.
//!
//! What does not belong here: standard input and pipes that a user names as a source.

use crate::rights::with_own_rights;
use rustix::fs::{CWD, FileType, Mode, OFlags};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::path::Path;

/// Flags of every file that is read: opening a pipe without a writer must not wait.
pub(crate) const READING: OFlags =
    OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// Opens the regular file `path`.
///
/// # Errors
/// Fails if it cannot be opened, or is no regular file.
pub fn open(path: &Path) -> io::Result<File> {
    with_own_rights(|| open_regular(path, OFlags::empty()))
}

/// Opens the regular file `path`, which must be no link itself: for a path that iowhy itself looks
/// for in /proc, with all of its rights.
///
/// # Errors
/// Fails if it cannot be opened, is a link, or is no regular file.
pub fn open_unfollowed(path: &Path) -> io::Result<File> {
    open_regular(path, OFlags::NOFOLLOW)
}

/// Opens a file after a look at its kind: to open a device may already do something, such as rewind
/// a tape or start a watchdog's time.
fn open_regular(path: &Path, flags: OFlags) -> io::Result<File> {
    let looking = flags | OFlags::PATH | OFlags::CLOEXEC;
    let seen = regular(rustix::fs::openat(CWD, path, looking, Mode::empty())?.into())?;
    let same = format!("/proc/self/fd/{}", seen.as_raw_fd());
    Ok(rustix::fs::openat(CWD, same, READING, Mode::empty())?.into())
}

/// Opens a source that a user names: a regular file, or a pipe or a terminal that it may wait for.
///
/// # Errors
/// Fails if it cannot be opened, or is a directory.
pub fn open_source(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY;
    let opened = with_own_rights(|| rustix::fs::openat(CWD, path, flags, Mode::empty()));
    let file = File::from(opened?);
    match FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) {
        FileType::Directory => Err(rustix::io::Errno::ISDIR.into()),
        _ => Ok(file),
    }
}

/// Returns `file` if it is a regular one.
///
/// # Errors
/// Fails if the file is something else; the error says what.
pub(crate) fn regular(file: File) -> io::Result<File> {
    let kind = FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode);
    let found = match kind {
        FileType::RegularFile => return Ok(file),
        FileType::Directory => return Err(rustix::io::Errno::ISDIR.into()),
        FileType::Fifo => "a pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Symlink => "a link",
        _ => "something else",
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("it is {found}, not a regular file")))
}

/// The content of the regular file `path`, which has at most `most` bytes.
///
/// # Errors
/// Fails if the file cannot be read, is no regular file, or is larger.
pub fn bytes(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    all_of(open(path)?, most)
}

/// The text of the regular file `path`, which has at most `most` bytes.
///
/// # Errors
/// Fails for the same reasons as [`bytes`], or if the content is not UTF-8.
pub fn text(path: &Path, most: u64) -> io::Result<String> {
    let not_text = |_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text");
    String::from_utf8(bytes(path, most)?).map_err(not_text)
}

/// All of an open file, which has at most `most` bytes.
///
/// # Errors
/// Fails if the file cannot be read, or is larger.
pub fn all_of(file: File, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let why = format!("it has more than {most} bytes, as no file of this kind has");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    Ok(bytes)
}

/// The first `most` bytes of a file in /proc, as far as they can be read: its owner decides how
/// long it is.
pub fn beginning(path: &Path, most: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Ok(file) = File::open(path) {
        // What was read before an error is of use.
        let _ = file.take(most).read_to_end(&mut bytes);
    }
    bytes
}

/// Objects of a JSON text that iowhy itself wrote: a host with thousands of cgroups has fewer. An
/// object without a field takes two bytes of text and a kilobyte of memory.
const MOST_OBJECTS: usize = 1 << 16;

/// Checks that the JSON `text` has no more objects than a file of iowhy's own.
///
/// # Errors
/// Fails if the text has more.
pub fn check_objects(text: &[u8]) -> io::Result<()> {
    if text.iter().filter(|byte| **byte == b'{').count() <= MOST_OBJECTS {
        return Ok(());
    }
    let why = format!("it has more than {MOST_OBJECTS} objects, as no file of this kind has");
    Err(io::Error::new(io::ErrorKind::FileTooLarge, why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::inotify;

    #[test]
    fn what_is_no_file_is_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let (pipe, plain) = (folder.path().join("pipe"), folder.path().join("plain"));
        rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR, 0).unwrap();
        std::fs::write(&plain, "x").unwrap();
        let watch = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
        for path in [&pipe, &plain] {
            inotify::add_watch(&watch, path, inotify::WatchFlags::OPEN).unwrap();
        }
        let mut buffer = [0; 256];
        assert!(open(&pipe).is_err() && open_unfollowed(&pipe).is_err());
        assert_eq!(rustix::io::read(&watch, &mut buffer), Err(rustix::io::Errno::AGAIN));
        assert!(open(&plain).is_ok());
        assert!(rustix::io::read(&watch, &mut buffer).is_ok());
        // A link is followed only where that is asked for.
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&plain, &link).unwrap();
        assert!(open(&link).is_ok() && open_unfollowed(&link).is_err());
    }
}
