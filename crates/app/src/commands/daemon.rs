//! `iowhy daemon` and `iowhy capture`: the flight recorder, and asking it for an incident.

use crate::args::daemon::{CaptureArgs, DaemonArgs};
use crate::failure::{Failure, USAGE};
use crate::output;
use iowhy_recorder::RecorderError;
use iowhy_recorder::config::{ConfigError, DEFAULT_PATH};
use iowhy_recorder::control::{self, socket_path};
use iowhy_recorder::units::Size;
use std::io::ErrorKind;
use std::path::Path;

/// Runs until SIGTERM or SIGINT, or only checks the configuration.
pub fn run(args: &DaemonArgs) -> Result<(), Failure> {
    let mut config = args.places.config()?;
    if let Some(keep) = args.keep {
        config.keep = keep;
        config.before.0 = config.before.0.min(keep.0);
    }
    config.keep_mb = args.keep_mb.map_or(config.keep_mb, Size::mb);
    config.incidents_mb = args.incidents_mb.map_or(config.incidents_mb, Size::mb);
    let file = args.places.config.as_deref().unwrap_or(Path::new(DEFAULT_PATH));
    if let Some(contradiction) = config.contradiction() {
        // The file alone has none: an argument does.
        let reason = contradiction.reason;
        return Err(ConfigError::Value { path: file.to_owned(), reason }.into());
    }
    if args.check_config {
        let what = if file.exists() { "is valid" } else { "does not exist: the defaults apply" };
        return output::print(&format!("{} {what}\n", file.display()));
    }
    Ok(iowhy_recorder::daemon::run(&config, &output::note)?)
}

/// Asks the daemon for an incident.
pub fn capture(args: &CaptureArgs) -> Result<(), Failure> {
    let config = args.places.config()?;
    let said = control::capture(&config.runtime, &args.reason).map_err(|error| {
        let socket = socket_path(&config.runtime);
        let hint = match error.kind() {
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
                "is the daemon running? `systemctl status iowhy`; without it: `iowhy record`"
            }
            ErrorKind::PermissionDenied => "root and the group iowhy may use it",
            _ => "`journalctl -u iowhy` may say more",
        };
        let message = format!("failed to ask the daemon at {}: {error}", socket.display());
        Failure::new(message, Some(hint.to_owned()))
    })?;
    let number = said.strip_prefix("incident ").unwrap_or_default();
    output::print(&format!("{said} began; show it with: iowhy incidents show {number}\n"))
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Failure {
        let hint = "correct it, then check it: `iowhy daemon --check-config`";
        Failure { code: USAGE, ..Failure::new(error, Some(hint.to_owned())) }
    }
}

impl From<RecorderError> for Failure {
    fn from(error: RecorderError) -> Failure {
        match error {
            RecorderError::Watch(error) => error.into(),
            RecorderError::Recording(error) => error.into(),
            RecorderError::Config(error) => error.into(),
            other => {
                let hint = other.hint();
                Failure::new(other, hint)
            }
        }
    }
}
