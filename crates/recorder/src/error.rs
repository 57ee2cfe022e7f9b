//! The reasons why the daemon cannot start or go on.

use crate::config::ConfigError;
use iowhy_capture::WatchError;
use iowhy_model::output_path;
use iowhy_model::recording::{ErrorCause, RecordingError};
use rustix::io::Errno;
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

    /// Returns whether room or descriptors are missing, which passes.
    pub fn is_lack(&self) -> bool {
        match self {
            RecorderError::Recording(error) => is_lack(error),
            RecorderError::File { source, .. } | RecorderError::System { source, .. } => {
                is_lack_of(source)
            }
            _ => false,
        }
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

/// Returns whether room or descriptors are missing for a recording, which passes.
pub fn is_lack(error: &RecordingError) -> bool {
    match error {
        RecordingError::Create { source, .. } | RecordingError::Read { source, .. } => {
            is_lack_of(source)
        }
        RecordingError::Write { cause: ErrorCause::System(source), .. } => is_lack_of(source),
        _ => false,
    }
}

fn is_lack_of(error: &io::Error) -> bool {
    let lacks = [Errno::NOSPC, Errno::DQUOT, Errno::FBIG, Errno::MFILE, Errno::NFILE];
    Errno::from_io_error(error).is_some_and(|error| lacks.contains(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_for_a_while_ends_nothing() {
        let failed = |error: Errno| RecorderError::file("make", Path::new("/run/x"), error.into());
        assert!(failed(Errno::NOSPC).is_lack() && failed(Errno::MFILE).is_lack());
        assert!(!failed(Errno::IO).is_lack() && !failed(Errno::ROFS).is_lack());
        let source = Errno::NFILE.into();
        assert!(is_lack(&RecordingError::Create { path: PathBuf::new(), source }));
        let cause = ErrorCause::System(Errno::NOSPC.into());
        assert!(is_lack(&RecordingError::Write { path: PathBuf::new(), cause }));
        let cause = ErrorCause::Content("no space".to_owned());
        assert!(!is_lack(&RecordingError::Write { path: PathBuf::new(), cause }));
    }
}
