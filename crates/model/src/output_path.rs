//! Hints for outputs that cannot be created: a recording, an export, a page.
//!
//! What does not belong here: the error message.

use std::io::{self, ErrorKind};
use std::path::Path;

/// The hint if `path` could not be created or written.
pub fn hint(path: &Path, cause: &io::Error) -> Option<&'static str> {
    of_kernel(path).or(match cause.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            Some("name a directory that you may write to")
        }
        ErrorKind::NotFound => Some("create its parent directory first"),
        ErrorKind::NotADirectory | ErrorKind::AlreadyExists => {
            Some("a file is in the way: name another directory")
        }
        ErrorKind::IsADirectory => Some("a directory is in the way: name a file"),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            Some("free some space, or name a path on another disk")
        }
        _ => None,
    })
}

/// The hint if `path` is in a virtual file system of the kernel.
pub fn of_kernel(path: &Path) -> Option<&'static str> {
    let whole = std::path::absolute(path).ok()?;
    // A path that does not exist is in the file system of its parent.
    let there = whole.ancestors().find_map(|part| part.canonicalize().ok())?;
    let is_kernels = ["/proc", "/sys"].iter().any(|root| there.starts_with(root));
    is_kernels.then_some(
        "/proc and /sys cannot hold files of users: name a path on a disk or in \
        /tmp",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_can_stand_in_proc_and_sys() {
        for path in ["/proc/x", "/proc/self/../x/y", "/sys/x"] {
            let message = hint(Path::new(path), &ErrorKind::NotFound.into());
            assert!(message.unwrap().starts_with("/proc and /sys"), "{path}");
        }
    }

    #[test]
    fn the_cause_decides_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("process/x");
        let message = |kind: ErrorKind| hint(&path, &kind.into());
        assert!(message(ErrorKind::NotFound).unwrap().starts_with("create its parent directory"));
        assert!(message(ErrorKind::PermissionDenied).unwrap().contains("may write to"));
        assert_eq!(message(ErrorKind::Interrupted), None);
    }
}
