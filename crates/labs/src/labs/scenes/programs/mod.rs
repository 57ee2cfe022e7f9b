//! Real programs with their own configuration, each in a trouble that its manual or its users describe,
//! and each with a healthy twin that must stay silent.
//!
//! They come from Debian (`scripts/install-deps programs`), keep their data on the lab's own device,
//! listen on a socket in their own folder or on a port of 127.0.0.1, and end with the lab. What is not
//! installed is skipped with that reason.
//!
//! What does not belong here: loads that stand for programs (see the siblings).

use super::*;
use crate::command;
use crate::devices::{FileSystem, Hand, Speed};
use crate::error::Context;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

pub mod others;
pub mod postgres;

/// How fast a lab's disk is once its program is ready: reads and writes of a fast volume, and what is
/// given beside.
fn fast_volume(speed: Speed) -> Speed {
    Speed { latency: Duration::from_micros(200), ..speed }
}

/// A file system on a disk whose speed nobody above can see, which is open until it is set.
fn disk(stage: &mut Stage, mib: u64) -> Result<(FileSystem, Hand)> {
    let (device, hand) = stage.hidden(mib)?;
    Ok((stage.mounted(device, Kind::Ext4)?, hand))
}

/// The same command as another user, where there is one of that name: some programs refuse root.
fn as_user(user: &str, command: &Command) -> Result<Command> {
    let mut wrapped = Command::new(command::find("setpriv")?);
    wrapped.args(["--reuid", user, "--regid", user, "--clear-groups", "--"]);
    wrapped.arg(command.get_program()).args(command.get_args());
    Ok(wrapped)
}

/// A folder on a disk that belongs to a user, who can reach it: the lab's own folders are root's.
fn folder_of(stage: &Stage, user: &str, disk: &FileSystem, name: &str) -> Result<PathBuf> {
    let above = stage.scratch.path().ancestors().take(2);
    for folder in above.chain([disk.path()]) {
        command::run("chmod", [OsStr::new("o+x"), folder.as_os_str()])?;
    }
    let folder = disk.path().join(name);
    std::fs::create_dir(&folder).context(|| format!("make {}", folder.display()))?;
    command::run("chown", [OsStr::new(user), folder.as_os_str()])?;
    Ok(folder)
}

/// Runs a command to its end.
fn finish(command: Command) -> Result<()> {
    command::output_of(command).map(drop)
}

/// A program of Debian's that is not on the path, such as those of a version of PostgreSQL.
fn program(folders: &str, name: &str) -> Result<PathBuf> {
    let missing = || {
        Error::missing(
            format!("program called {name}"),
            "scripts/install-deps programs installs it",
        )
    };
    let entries = std::fs::read_dir(folders).map_err(|_| missing())?;
    let paths = entries.flatten().map(|it| it.path().join("bin").join(name));
    paths.filter(|path| path.is_file()).max().ok_or_else(missing)
}

/// A command with arguments that are texts.
fn command_of(program: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments);
    command
}
