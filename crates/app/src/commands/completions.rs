//! `iowhy completions`: shell completions, from the definition of the command line.
//!
//! What does not belong here: texts about single flags (`args`), manual pages.

use crate::args::Cli;
use crate::args::completions::CompletionsArgs;
use crate::failure::Failure;
use crate::output;
use clap::CommandFactory;

/// Prints the completion script of a shell.
pub fn print(args: &CompletionsArgs) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "iowhy", &mut script);
    output::print(&String::from_utf8_lossy(&script))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
