//! Runs other programs to their end; the error contains their messages.

use crate::{LabError, Result};
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Runs `program` and returns its standard output.
pub fn run<A: AsRef<OsStr>>(
    program: &str,
    arguments: impl IntoIterator<Item = A>,
) -> Result<String> {
    let mut command = Command::new(find(program)?);
    command.args(arguments);
    output_of(command)
}

/// Runs `command` and returns its standard output.
pub fn output_of(mut command: Command) -> Result<String> {
    let action = || format!("run {}", shown(&command));
    let action = action();
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|cause| LabError::failed(action.clone(), cause))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(LabError::failed(action, format!("{}: {}", output.status, said.trim())))
}

/// Returns the path of `program`: from PATH, or from the directories of system programs, which an
/// ordinary PATH lacks.
pub fn find(program: &str) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(PathBuf::from))
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
        .ok_or_else(|| LabError::missing(program, "scripts/install-deps"))
}

/// Formats a command line as a person would type it, for messages.
pub fn shown(command: &Command) -> String {
    std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| word.to_string_lossy().into_owned())
        .collect::<Vec<_>>()
        .join(" ")
}
