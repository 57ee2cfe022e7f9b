//! Unix sockets for root and the group.
//!
//! What does not belong here: what is said over them.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;

/// Listens on the socket `path`. A socket of an earlier run, and nothing else, makes room.
///
/// # Errors
/// When something else stands there, or the socket cannot be made.
pub fn listen(path: &Path) -> io::Result<UnixListener> {
    let (folder, name) = iowhy_fs::parent(path)?;
    if fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
        folder.remove_file(&name)?;
    }
    // The kernel follows no link here: a name that exists is an error.
    let listener = UnixListener::bind(path)?;
    // Only in a directory of the daemon can nobody put a link in its place meanwhile.
    match folder.check_own() {
        Ok(()) => fs::set_permissions(path, Permissions::from_mode(0o660))?,
        Err(error) => {
            let _ = folder.remove_file(&name);
            return Err(error);
        }
    }
    Ok(listener)
}
