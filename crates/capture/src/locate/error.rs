//! Errors of locating a block.

use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// A reason why a device or a file cannot be inspected.
#[derive(Debug, thiserror::Error)]
pub enum LocateError {
    /// The device or file cannot be opened or read.
    #[error("failed to read {}: {cause}", path.display())]
    Read {
        /// The device or file.
        path: PathBuf,
        /// The system's error.
        cause: io::Error,
    },
    /// The path is neither a block device nor an image.
    #[error("failed to inspect {}: not a block device or regular file", path.display())]
    NoDevice {
        /// The path that the user named.
        path: PathBuf,
    },
    /// The file's extents are not known.
    #[error("failed to find the blocks of {}: {cause}", path.display())]
    NoExtents {
        /// The file.
        path: PathBuf,
        /// The reason.
        cause: String,
    },
}

impl LocateError {
    /// A failure to read `path`.
    pub(super) fn read(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> LocateError {
        let path = path.into();
        move |cause| LocateError::Read { path, cause }
    }

    /// Whether a privilege is missing.
    pub fn is_privilege(&self) -> bool {
        let denied = io::ErrorKind::PermissionDenied;
        matches!(self, LocateError::Read { cause, .. } if cause.kind() == denied)
    }

    /// Returns what the user can do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            LocateError::Read { path, cause } if self.is_privilege() => {
                Some(privilege(is_device(path), cause.raw_os_error()))
            }
            LocateError::NoDevice { .. } => Some("name a device (/dev/sda) or a file-system image"),
            LocateError::Read { cause, .. } if cause.kind() == io::ErrorKind::NotFound => {
                Some("name a device (/dev/sda), a file-system image, or a file")
            }
            LocateError::Read { .. } | LocateError::NoExtents { .. } => None,
        }
    }
}

fn is_device(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|about| about.file_type().is_block_device())
}

/// The missing privilege, by the system's errno. EPERM on a device that its mode allows to read
/// means that the container was not given the device.
fn privilege(is_device: bool, number: Option<i32>) -> &'static str {
    match (is_device, number == Some(libc::EPERM)) {
        (true, true) => {
            "root in this container may not read the device: run iowhy on the host, or give the \
             container the device (`docker run --device ...`)"
        }
        (true, false) => {
            "a device is readable by root, its group (mostly disk), and anyone with \
             CAP_DAC_READ_SEARCH: `sudo iowhy locate ...`"
        }
        (false, _) => {
            "root and anyone with CAP_DAC_READ_SEARCH can read every file: `sudo iowhy locate ...`"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_privilege() {
        for number in [libc::EACCES, libc::EPERM] {
            let error = LocateError::read("/nowhere/file")(io::Error::from_raw_os_error(number));
            assert!(error.is_privilege());
            assert!(error.hint().unwrap().contains("CAP_DAC_READ_SEARCH"), "{error}");
        }
        assert!(privilege(true, Some(libc::EACCES)).contains("disk"));
        assert!(privilege(true, Some(libc::EPERM)).contains("--device"));
        let gone = LocateError::read("/nowhere/file")(io::Error::from_raw_os_error(libc::ENOENT));
        assert!(!gone.is_privilege() && gone.hint().unwrap().contains("/dev/sda"));
    }
}
