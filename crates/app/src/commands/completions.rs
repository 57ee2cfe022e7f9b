//! `iowhy completions` and `iowhy man`: shell completions and manual pages, from the definitions of
//! the command line.
//!
//! What does not belong here: texts about single flags. They are in `args`.

use crate::args::completions::{CompletionsArgs, ManArgs};
use crate::args::{Cli, EXIT_CODES};
use crate::failure::Failure;
use crate::output;
use clap_complete::env::{CompleteEnv, Shells};
use iowhy_manual::ManualTexts;

/// Command lines for the first page, each with what it does.
const EXAMPLES: &[(&str, &str)] = &[
    ("iowhy", "Watch this machine for ten seconds and name the cause."),
    ("iowhy -d sdb -t 30 --full", "Watch one disk for 30 seconds and show every section."),
    ("iowhy record -o /run/sick", "Record until Ctrl-C, for later or for another machine."),
    ("iowhy report /run/sick", "Show the same screen from that recording."),
    ("iowhy explain 1 /run/sick", "Explain its first finding: mechanism, evidence, fix."),
    ("iowhy stat 1", "Show device statistics each second, as iostat -x does."),
    ("iowhy check", "Show what iowhy can collect here, and what is missing."),
];

const OVERHEAD: &str = "The first lines of each screen show the CPU time that iowhy used and the \
    number of records that it lost. A watch allocates a bounded amount of memory, changes no \
    setting, and unloads its BPF programs when it exits, even if it is killed.";

/// The variable by which a shell asks what may come next.
const ASKS: &str = "IOWHY_COMPLETE";

/// Answers a shell that asks what may come next, and ends the process; returns if none does.
pub fn answer() {
    if std::env::var_os(ASKS).is_some() {
        CompleteEnv::with_factory(Cli::definition).var(ASKS).complete();
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

/// Writes a manual page for the program and one for each of its commands.
pub fn write_pages(args: &ManArgs) -> Result<(), Failure> {
    let texts = ManualTexts {
        version: env!("CARGO_PKG_VERSION"),
        examples: EXAMPLES,
        sections: &[("OVERHEAD", OVERHEAD)],
        exit_codes: EXIT_CODES,
        see_also: "blktrace(8), blkparse(1), iostat(1), biosnoop(8)",
    };
    iowhy_manual::write_pages(Cli::definition(), &texts, &args.output)
        .map_err(|cause| Failure::not_written(&args.output, &cause))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::definition().debug_assert();
    }

    #[test]
    fn examples_are_valid_command_lines() {
        for (example, _) in EXAMPLES {
            Cli::definition().try_get_matches_from(example.split(' ')).unwrap();
        }
    }
}
