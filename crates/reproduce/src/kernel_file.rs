//! Settings in the kernel's files, below /proc/sys, /sys/block and /sys/fs/cgroup: they exist or
//! they do not, so none is made, and a link is not followed.
//!
//! What does not belong here: which values they get, and what gives them back (see
//! [`crate::undo`]).

use crate::error::{ActionContext, Result};
use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Writes `value` to the setting `path`.
///
/// # Errors
/// Fails if the setting does not exist, is a link, or takes no such value.
pub fn write(path: &Path, value: &str) -> Result<()> {
    let written = open(path).and_then(|mut file| file.write_all(value.as_bytes()));
    written.context(|| format!("write {value:?} to {}", path.display()))
}

/// Opens a setting, or a device, to be written; neither becomes shorter by it.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW.bits().cast_signed();
    OpenOptions::new().write(true).truncate(true).custom_flags(flags).open(path)
}
