//! What can go wrong when a block is looked for.

use std::io;
use std::path::PathBuf;

/// Why a device or a file cannot be looked at.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be opened or read.
    #[error("failed to read {}: {cause}", path.display())]
    Read {
        /// The device or file.
        path: PathBuf,
        /// The system's answer.
        cause: io::Error,
    },
    /// It is neither a block device nor an image.
    #[error("failed to look into {}: it is no block device and no regular file", path.display())]
    NoDevice {
        /// What was named.
        path: PathBuf,
    },
    /// The file's extents are not known.
    #[error("failed to find the blocks of {}: {cause}", path.display())]
    NoExtents {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: String,
    },
}

impl Error {
    /// A failure to read `path`.
    pub(super) fn read(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Error {
        let path = path.into();
        move |cause| Error::Read { path, cause }
    }

    /// Whether a privilege is missing.
    pub fn is_privilege(&self) -> bool {
        matches!(self, Error::Read { cause, .. } if cause.kind() == io::ErrorKind::PermissionDenied)
    }

    /// What the user can do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            _ if self.is_privilege() => Some("reading a device needs root: sudo iowhy locate ..."),
            Error::NoDevice { .. } => Some("name a device (/dev/sda) or a file-system image"),
            Error::Read { cause, .. } if cause.kind() == io::ErrorKind::NotFound => {
                Some("name a device (/dev/sda), a file-system image, or a file")
            }
            Error::Read { .. } | Error::NoExtents { .. } => None,
        }
    }
}
