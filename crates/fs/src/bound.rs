//! A program that ends with iowhy, however iowhy ends: this program becomes that one, after it has
//! told the kernel to end it when its parent ends. A program that is killed cannot end the ones
//! that it started.
//!
//! What does not belong here: what the program does.

use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

/// The first argument of the process that becomes the program. The user's arguments never begin
/// with it: it is no command.
const ARGUMENT: &str = "--end-with-parent";
/// This program, also where its file was replaced meanwhile.
const SELF: &str = "/proc/self/exe";
/// Whether this program becomes another one when it is asked to.
static BECOMES: AtomicBool = AtomicBool::new(false);

/// A command that starts `program`, which is killed when this process ends. The thread that spawns
/// it must live as long as iowhy does: its end is what the kernel waits for.
pub fn command(program: &Path) -> Command {
    started(program, Signal::KILL)
}

/// `command`, which is asked to end (SIGTERM) when this process ends, so that it ends what it has
/// started itself; of its streams nothing is kept. Its thread must live as for [`command`].
pub fn asked_to_end(command: &Command) -> Command {
    let mut bound = started(Path::new(command.get_program()), Signal::TERM);
    bound.args(command.get_args());
    surround(&mut bound, command);
    bound
}

/// Gives `wrapper`, which starts what `command` would, its environment and its directory.
pub fn surround(wrapper: &mut Command, command: &Command) {
    for (key, value) in command.get_envs() {
        match value {
            Some(value) => wrapper.env(key, value),
            None => wrapper.env_remove(key),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        wrapper.current_dir(folder);
    }
}

/// Returns a command that starts this program again, for arguments that it answers before all
/// others; `None` without /proc, and where this is a part of another program, such as a test.
pub fn own_program() -> Option<Command> {
    let can_be = BECOMES.load(Ordering::Relaxed) && Path::new(SELF).exists();
    can_be.then(|| Command::new(SELF))
}

fn started(program: &Path, signal: Signal) -> Command {
    // Without it the program runs to its end.
    let Some(mut command) = own_program() else { return Command::new(program) };
    let numbers = [std::process::id().to_string(), signal.as_raw().to_string()];
    command.arg(ARGUMENT).args(numbers).arg(program);
    command
}

/// Becomes the program, if this process was started for that: returns why it could not, or `None`
/// if it was started for something else.
pub fn become_program() -> Option<io::Error> {
    BECOMES.store(true, Ordering::Relaxed);
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != ARGUMENT {
        return None;
    }
    Some(replaced(arguments).err().unwrap_or_else(|| io::ErrorKind::InvalidInput.into()))
}

/// Becomes the program of `arguments`: the parent, the signal, the program, its arguments.
fn replaced(mut arguments: impl Iterator<Item = OsString>) -> io::Result<()> {
    let mut number = || arguments.next().and_then(|number| number.to_str()?.parse().ok());
    let (parent, signal) = (number(), number());
    let is_kill = signal == Some(Signal::KILL.as_raw());
    set_parent_process_death_signal(Some(if is_kill { Signal::KILL } else { Signal::TERM }))?;
    // It may have ended before the kernel was told.
    if getppid().map(|pid| pid.as_raw_pid()) != parent {
        return Err(io::Error::other("the process that started it has ended"));
    }
    match arguments.next() {
        Some(program) => {
            let cause = Command::new(&program).args(arguments).exec();
            Err(io::Error::new(cause.kind(), format!("{}: {cause}", program.display())))
        }
        None => Ok(()),
    }
}
