//! Directories of recordings: a server has one of its own, which goes with it, or with the next
//! server of its user if it is killed.
//!
//! What does not belong here: the recordings.

use iowhy_fs::{Folder, PRIVATE_FILE};
use std::fs::File;
use std::io;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

/// How every such directory is called, before a random part.
const PREFIX: &str = "iowhy-mcp-";
/// The file that a server locks as long as it lives.
const LOCK: &str = "lock";
/// The age of a directory that its server has locked if it lives.
const LOCKED_AFTER: Duration = Duration::from_secs(60);

/// Makes a directory below `folder`, and its lock.
///
/// # Errors
/// Fails if it cannot be made.
pub fn make(folder: &Path) -> io::Result<(TempDir, File)> {
    let made = tempfile::Builder::new().prefix(PREFIX).tempdir_in(folder)?;
    let lock = Folder::open_own(made.path())?.lock_file(LOCK, PRIVATE_FILE)?;
    // Where the file system has no locks nothing is removed later.
    let _ = lock.try_lock();
    Ok((made, lock))
}

/// Removes those below `folder` of servers of this user that were killed.
pub fn remove_left_over(folder: &Path) {
    let Ok(folder) = Folder::open(folder) else { return };
    for name in folder.names().unwrap_or_default() {
        if name.to_string_lossy().starts_with(PREFIX) && is_left_over(&folder, &name) == Some(true)
        {
            // The next server tries again.
            let _ = folder.remove_all(&name);
        }
    }
}

/// Whether the directory `name` is this user's, and of no server that lives.
fn is_left_over(folder: &Folder, name: &std::ffi::OsStr) -> Option<bool> {
    let age = folder.metadata(name).ok()?.modified().ok()?.elapsed().ok()?;
    let own = folder.folder(name).ok()?;
    own.check_own().ok()?;
    let lock = own.open_file(LOCK).ok()?;
    Some(age > LOCKED_AFTER && lock.try_lock().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_killed_server_left_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let (alive, _lock) = make(folder.path()).unwrap();
        let (killed, lock) = make(folder.path()).unwrap();
        let (young, young_lock) = make(folder.path()).unwrap();
        drop((lock, young_lock));
        std::fs::write(killed.path().join("x"), "x").unwrap();
        let other = folder.path().join("iowhy-mcp-other");
        std::fs::create_dir(&other).unwrap();
        let then = std::time::SystemTime::now() - 2 * LOCKED_AFTER;
        for path in [alive.path(), killed.path(), &other] {
            File::open(path).unwrap().set_modified(then).unwrap();
        }
        remove_left_over(folder.path());
        assert!(!killed.path().exists());
        assert!(alive.path().exists() && young.path().exists() && other.exists());
    }
}
