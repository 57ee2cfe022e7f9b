//! Unix sockets for root and the group.
//!
//! What does not belong here: the protocols on them.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;

/// Listens on the socket `path`. A socket of an earlier run, and nothing else, is replaced.
///
/// # Errors
/// Fails if the directory is somebody else's, another kind of file has the path, or the socket
/// cannot be made.
pub fn listen(path: &Path) -> io::Result<UnixListener> {
    let (folder, name) = iowhy_fs::parent(path)?;
    // In a directory of the daemon, nobody else can put a link in the socket's place. The directory
    // that is checked is used by its handle: its path may lead elsewhere a moment later.
    folder.check_own()?;
    let path = folder.by_handle(&name);
    if fs::symlink_metadata(&path).is_ok_and(|found| found.file_type().is_socket()) {
        folder.remove_file(&name)?;
    }
    let listener = UnixListener::bind(&path)?;
    fs::set_permissions(&path, Permissions::from_mode(0o660))?;
    Ok(listener)
}
