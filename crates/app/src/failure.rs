//! The failure of a command: a message, a hint, an exit code. The only place that knows exit codes.

use iowhy_model::output_path;
use std::fmt::Display;
use std::io;
use std::path::Path;

/// The command failed.
pub const FAILED: u8 = 1;
/// The arguments make no sense.
pub const USAGE: u8 = 2;
/// A privilege is missing. Test runners read this number as "skipped".
pub const NO_PRIVILEGE: u8 = 77;

/// A watch is not supported by this kernel or in this container ("service unavailable").
pub const NO_KERNEL: u8 = 69;

/// The failure of a command.
#[derive(Debug)]
pub struct Failure {
    /// `failed to <verb> <object>: <cause>`.
    pub message: String,
    /// Advice on what to do about it.
    pub hint: Option<String>,
    /// The exit code.
    pub code: u8,
    /// Whether the kernel's own counters can be shown instead.
    pub leaves_counters: bool,
}

impl Failure {
    /// A failure with the general exit code.
    pub fn new(message: impl Display, hint: Option<String>) -> Failure {
        Failure { message: message.to_string(), hint, code: FAILED, leaves_counters: false }
    }

    /// The failure to create or write `path`.
    pub fn not_written(path: &Path, cause: &io::Error) -> Failure {
        let hint = output_path::hint(path, cause).map(str::to_owned);
        Failure::new(format!("failed to write {}: {cause}", path.display()), hint)
    }
}

impl From<iowhy_capture::WatchError> for Failure {
    fn from(error: iowhy_capture::WatchError) -> Failure {
        let code = match error {
            iowhy_capture::WatchError::Privilege { .. } => NO_PRIVILEGE,
            _ if error.is_of_kernel() => NO_KERNEL,
            _ => FAILED,
        };
        let leaves_counters = error.leaves_counters();
        Failure { code, leaves_counters, ..Failure::new(&error, Some(error.hint())) }
    }
}

impl From<iowhy_model::recording::RecordingError> for Failure {
    fn from(error: iowhy_model::recording::RecordingError) -> Failure {
        let hint = error.hint().map(str::to_owned);
        Failure::new(error, hint)
    }
}

impl From<iowhy_capture::locate::LocateError> for Failure {
    fn from(error: iowhy_capture::locate::LocateError) -> Failure {
        let hint = error.hint().map(str::to_owned);
        let code = if error.is_privilege() { NO_PRIVILEGE } else { FAILED };
        Failure { code, ..Failure::new(error, hint) }
    }
}
