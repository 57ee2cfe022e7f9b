//! The reverse: the location of a file on its device.
//!
//! What does not belong here: upper and lower devices; the answer is for the file system's own
//! device.

use super::btrfs::{self, Chunks};
use super::{LocateError, device, walk};
use crate::host::mounts::Mounts;
use crate::host::read_number;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A part of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileExtent {
    /// Offset in the file, bytes.
    pub offset: u64,
    /// Length, bytes.
    pub bytes: u64,
    /// The first sector (512 bytes) on the device; if it is not known, the reason.
    pub sector: Result<u64, String>,
    /// Whether it is only allocated: it reads as zeroes, whatever the device holds.
    pub unwritten: bool,
}

/// The location of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileExtents {
    /// The device that holds the file system.
    pub device: PathBuf,
    /// The start of that device on the whole disk, sectors; 0 for a whole disk.
    pub start: u64,
    /// The file's inode.
    pub inode: u64,
    /// The file's extents.
    pub extents: Vec<FileExtent>,
}

/// Returns the location of `path` on its device. Bytes that are not written back yet have no
/// location: they are not listed, and nothing is synced for them, because that can hang on a sick
/// disk.
///
/// # Errors
/// Fails if the file cannot be opened, is not on a block device, or the kernel does not report its
/// extents.
pub fn file_extents(path: &Path) -> Result<FileExtents, LocateError> {
    let file = File::open(path).map_err(LocateError::read(path))?;
    let about = file.metadata().map_err(LocateError::read(path))?;
    let mapped = walk::extents(&file).map_err(|cause| match cause.kind() {
        io::ErrorKind::PermissionDenied => LocateError::read(path)(cause),
        _ => no_extents(path, cause.to_string()),
    })?;
    let number = (rustix::fs::major(about.dev()), rustix::fs::minor(about.dev()));
    let mounts = Mounts::read();
    let real = std::fs::canonicalize(path).map_err(LocateError::read(path))?;
    let mount = mounts.of_file(number, &real);
    let no_device = || no_extents(path, "its file system is not on a block device".to_owned());
    let node = mount.and_then(Mounts::node_of).ok_or_else(no_device)?;
    let chunks =
        if mount.is_some_and(|mount| mount.kind == "btrfs") { Some(chunks(&node)?) } else { None };
    let sector = |extent: &walk::MappedRange| match &chunks {
        None => Ok(extent.address / 512),
        Some(Err(why)) => Err(why.clone()),
        Some(Ok(chunks)) => {
            let byte = chunks.device_of(extent.address);
            byte.map(|byte| byte / 512).ok_or_else(|| "its chunk is not known".to_owned())
        }
    };
    let extents = mapped.iter().map(|extent| FileExtent {
        offset: extent.offset,
        bytes: extent.length,
        sector: sector(extent),
        unwritten: extent.unwritten,
    });
    let extents = extents.collect();
    Ok(FileExtents { start: start_of(&node), device: node, inode: about.ino(), extents })
}

fn no_extents(path: &Path, cause: String) -> LocateError {
    LocateError::NoExtents { path: path.to_owned(), cause }
}

fn chunks(node: &Path) -> Result<Result<Chunks, String>, LocateError> {
    let device = File::open(node).map_err(LocateError::read(node))?;
    let superblock = btrfs::superblock(&device).map_err(LocateError::read(node))?;
    Chunks::read(&device, &superblock).map_err(LocateError::read(node))
}

fn start_of(node: &Path) -> u64 {
    let Ok(about) = std::fs::metadata(node) else { return 0 };
    let number = (rustix::fs::major(about.rdev()), rustix::fs::minor(about.rdev()));
    read_number(device::sysfs(number).join("start")).unwrap_or(0)
}
