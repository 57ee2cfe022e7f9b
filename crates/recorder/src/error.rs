//! The reasons why the daemon cannot start or go on.

use crate::config::ConfigError;
use iowhy_capture::WatchError;
use iowhy_model::output_path;
use iowhy_model::recording::RecordingError;
use std::io;
use std::path::{Path, PathBuf};

/// The hint for a daemon that is already running.
const SECOND_DAEMON: &str =
    "`systemctl status iowhy` shows it; a second one needs its own --runtime and --state";

/// The reason why the daemon cannot start or go on.
#[derive(Debug, thiserror::Error)]
pub enum RecorderError {
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The machine cannot be watched.
    #[error(transparent)]
    Watch(#[from] WatchError),
    /// The ring cannot be written.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// Another daemon uses the same directory.
    #[error("failed to lock {path}: another `iowhy daemon` is running", path = path.display())]
    Locked {
        /// The lock's file.
        path: PathBuf,
    },
    /// A file or a directory cannot be used.
    #[error("failed to {verb} {path}: {source}", path = path.display())]
    File {
        /// The action that was tried.
        verb: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The system refused something else.
    #[error("failed to {what}: {source}")]
    System {
        /// The action that was tried.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

impl RecorderError {
    /// Makes the error of an action on a file.
    pub fn file(verb: &'static str, path: &Path, source: io::Error) -> RecorderError {
        RecorderError::File { verb, path: path.to_owned(), source }
    }

    /// Returns the hint for the user, if there is one.
    pub fn hint(&self) -> Option<String> {
        match self {
            RecorderError::Config(_) => Some("`iowhy daemon --check-config` checks it".to_owned()),
            RecorderError::Watch(error) => Some(error.hint()),
            RecorderError::Recording(error) => error.hint().map(str::to_owned),
            RecorderError::Locked { .. } => Some(SECOND_DAEMON.to_owned()),
            RecorderError::File { path, source, .. } => {
                output_path::hint(path, source).map(str::to_owned)
            }
            RecorderError::System { .. } => None,
        }
    }
}
