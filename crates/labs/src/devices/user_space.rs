//! Common code of FUSE file systems that serve one file in one directory.
//!
//! What does not belong here: their answers to readers of the file.

use crate::Result;
use crate::error::Context;
use crate::scratch::Scratch;
use fuser::{BackgroundSession, Config, FileAttr, FileType, Filesystem, INodeNo, MountOption};
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// The file's number; the folder's is 1.
pub(super) const FILE: INodeNo = INodeNo(2);
/// Time for which the kernel may cache the file's attributes: they never change.
pub(super) const FOREVER: Duration = Duration::from_secs(3600);

/// The attributes of the file, with its size in bytes, or of the directory.
pub(super) fn about(inode: INodeNo, bytes: u64) -> FileAttr {
    let is_file = inode == FILE;
    let size = if is_file { bytes } else { 0 };
    let epoch = SystemTime::UNIX_EPOCH;
    FileAttr {
        ino: inode,
        size,
        blocks: size / 512,
        atime: epoch,
        mtime: epoch,
        ctime: epoch,
        crtime: epoch,
        kind: if is_file { FileType::RegularFile } else { FileType::Directory },
        perm: 0o700,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

/// Mounts it on a new folder; it goes with the session.
pub(super) fn mount(
    scratch: &Scratch,
    stem: &str,
    served: impl Filesystem,
    more: &[MountOption],
) -> Result<(PathBuf, BackgroundSession)> {
    let folder = scratch.fresh(stem);
    fs::create_dir(&folder).context(|| format!("make {}", folder.display()))?;
    let mut config = Config::default();
    config.mount_options = vec![MountOption::FSName("iowhy-labs".to_owned())];
    config.mount_options.extend_from_slice(more);
    let session = fuser::spawn_mount(served, &folder, &config)
        .context(|| format!("mount a file system in user space on {}", folder.display()))?;
    Ok((folder, session))
}
