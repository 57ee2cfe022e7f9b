//! Files and directories as a privileged iowhy makes, replaces, reads and removes them. Every crate
//! writes through this one; a test of the architecture holds that.
//!
//! iowhy runs as root, and often below a directory of somebody else: `-o` in a home directory,
//! `/tmp`, a case that was sent. The owner of that directory may rename, remove and link whatever
//! stands in it at any moment. So:
//!
//! - A directory is opened once ([`Folder`]); what happens in it goes through its handle, not
//!   through its path.
//! - On the way to a directory only links of root and of the caller are followed ([`walk`]); the
//!   last name never is one.
//! - A file is made exclusively and gets its name when it is whole ([`Folder::create`],
//!   [`Folder::rename`]). No file is ever opened to be truncated.
//! - A directory that iowhy keeps things in belongs to the caller, and nobody else may write to it
//!   ([`Folder::check_own`]).
//! - What is read is a regular file of a bounded size ([`read`]): no pipe that never ends, no
//!   device.
//! - Programs that root starts are those of the system, not of the caller's search path
//!   ([`programs`]).
//! - A program that root starts ends with root's iowhy, however that ends ([`bound`]).
//! - A program with capabilities instead of root opens what its user names with that user's own
//!   rights ([`rights`]).
//! - A thread that watches gives up writing, and one that writes may do so only where it was told
//!   to ([`confined`]).
//!
//! What does not belong here: what is in the files, and /proc and /sys, where the kernel answers.

#![forbid(unsafe_code)]

pub mod bound;
pub mod confined;
pub mod folder;
pub mod programs;
pub mod read;
pub mod rights;
pub mod special;
pub mod walk;

pub use folder::Folder;

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::Path;

/// The mode of files that hold names of files, processes or users.
pub const PRIVATE_FILE: u32 = 0o600;
/// The mode of directories that hold such files.
pub const PRIVATE_FOLDER: u32 = 0o700;

/// The directory in which `path` stands, and its name there.
///
/// # Errors
/// Fails if the directory cannot be opened, or `path` ends in no name.
pub fn parent(path: &Path) -> io::Result<(Folder, OsString)> {
    let no_name = || io::Error::new(io::ErrorKind::InvalidInput, "it has no file name");
    let name = path.file_name().ok_or_else(no_name)?.to_owned();
    Ok((Folder::open(folder_of(path))?, name))
}

/// The path of the directory in which `path` stands.
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."))
}

/// Makes the file `path`, where nothing stands yet.
///
/// # Errors
/// Fails if something stands there, a link included, or the file cannot be made.
pub fn create(path: &Path, mode: u32) -> io::Result<File> {
    let (folder, name) = parent(path)?;
    folder.create(&name, mode)
}

/// Removes the empty directory `path`.
///
/// # Errors
/// Fails if it is no directory, not empty, or cannot be removed.
pub fn remove_folder(path: &Path) -> io::Result<()> {
    let (folder, name) = parent(path)?;
    folder.remove_folder(&name)
}

/// Removes whatever stands at `path`: a file, a link, a directory with all that is in it.
///
/// # Errors
/// Fails if it cannot be removed.
pub fn remove_all(path: &Path) -> io::Result<()> {
    let (folder, name) = parent(path)?;
    folder.remove_all(&name)
}
