//! `iowhy completions`: shell completions, from the definition of the command line.
//!
//! What does not belong here: texts about single flags (`args`), manual pages.

use crate::args::Cli;
use crate::args::candidates::with_plain_paths;
use crate::args::completions::CompletionsArgs;
use crate::failure::Failure;
use crate::output;
use clap_complete::env::{CompleteEnv, Shells};

/// The variable by which a shell asks for completions.
const ASKS: &str = "IOWHY_COMPLETE";

/// Answers a shell that asks for completions, and ends the process; returns if none asks.
pub fn answer() {
    if std::env::var_os(ASKS).is_some() {
        iowhy_fs::rights::keep_own_rights_only();
        let definition = || with_plain_paths(Cli::definition());
        CompleteEnv::with_factory(definition).var(ASKS).complete();
    }
}

/// Prints the completion script of a shell.
pub fn print(args: &CompletionsArgs) -> Result<(), Failure> {
    let mut script = Vec::new();
    let shells = Shells::builtins();
    let name = args.shell.to_string();
    let shell = shells.completer(&name).ok_or_else(|| {
        Failure::new(format!("failed to write completions: {name} is not supported"), None)
    })?;
    shell
        .write_registration(ASKS, "iowhy", "iowhy", "iowhy", &mut script)
        .map_err(|cause| Failure::new(format!("failed to write completions: {cause}"), None))?;
    output::print(&String::from_utf8_lossy(&script))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::definition().debug_assert();
    }
}
