//! A program that ends with iowhy, however iowhy ends: this program becomes that one, after it has
//! told the kernel to kill it when its parent ends. A program that is killed cannot end the ones
//! that it started.
//!
//! What does not belong here: what the program does.

use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// The first argument of the process that becomes the program. The user's arguments never begin
/// with it: it is no command.
const ARGUMENT: &str = "--end-with-parent";
/// This program, also where its file was replaced meanwhile.
const SELF: &str = "/proc/self/exe";

/// A command that starts `program`. The thread that spawns it must live as long as iowhy does: its
/// end is what the kernel waits for.
pub fn command(program: &Path) -> Command {
    // Without /proc the program runs to its end.
    if !Path::new(SELF).exists() {
        return Command::new(program);
    }
    let mut command = Command::new(SELF);
    command.arg(ARGUMENT).arg(std::process::id().to_string()).arg(program);
    command
}

/// Becomes the program, if this process was started for that: returns why it could not, or `None`
/// if it was started for something else.
pub fn become_program() -> Option<io::Error> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != ARGUMENT {
        return None;
    }
    Some(replaced(arguments).err().unwrap_or_else(|| io::ErrorKind::InvalidInput.into()))
}

/// Becomes the program of `arguments`: the parent, the program, its arguments.
fn replaced(mut arguments: impl Iterator<Item = OsString>) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let parent = arguments.next().and_then(|parent| parent.to_str()?.parse().ok());
    // It may have ended before the kernel was told.
    if getppid().map(|pid| pid.as_raw_pid()) != parent {
        return Err(io::Error::other("the process that started it has ended"));
    }
    match arguments.next() {
        Some(program) => Err(Command::new(program).args(arguments).exec()),
        None => Ok(()),
    }
}
