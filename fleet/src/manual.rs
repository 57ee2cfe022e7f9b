//! `iowhy-fleet man` and `iowhy-fleet completions`: manual pages and shell completions, which a
//! package installs, from the definitions of the command line.
//!
//! What does not belong here: texts about single options. They are in `args`.

use crate::args::FleetArgs;
use clap::CommandFactory;
use clap_complete::Shell;
use iowhy_fleet::error::{FleetContext, Result};
use iowhy_manual::ManualTexts;
use std::path::Path;

/// Command lines for the first page, each with what it does.
const EXAMPLES: &[(&str, &str)] = &[
    ("iowhy-fleet push --at s3://bucket/fleet", "Send what this host's recorder keeps."),
    ("iowhy-fleet compact --at s3://bucket/fleet", "Merge what hosts sent into tables."),
    ("iowhy-fleet outliers --at s3://bucket/fleet", "Name drives that are slower than others."),
    ("iowhy-fleet findings --at s3://bucket/fleet", "Show what is wrong where, and since when."),
    ("iowhy-fleet writers --at s3://bucket/fleet", "Name programs that write most on all hosts."),
    ("iowhy-fleet report --html fleet.html --at s3://bucket/fleet", "Write all of it as a page."),
];

const EXIT_CODES: &str = "0: done. 1: it failed. 2: the command line is wrong. 10: with \
    --exit-code, something is slow or silent. 75: the store \
    failed for longer than it was tried again; another try may succeed.";

/// The completion script of a shell.
pub fn completions(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut FleetArgs::command(), "iowhy-fleet", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// Writes a manual page for the program and one for each of its commands.
pub fn write_pages(directory: &Path) -> Result<()> {
    let texts = ManualTexts {
        version: env!("CARGO_PKG_VERSION"),
        examples: EXAMPLES,
        sections: &[],
        exit_codes: EXIT_CODES,
        see_also: "iowhy(8), iowhy-daemon(8)",
        commands: &[],
    };
    iowhy_manual::write_pages(FleetArgs::command(), &texts, directory)
        .context(|| format!("write manual pages into {}", directory.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_are_valid_command_lines() {
        FleetArgs::command().debug_assert();
        for (example, _) in EXAMPLES {
            FleetArgs::command().try_get_matches_from(example.split(' ')).unwrap();
        }
    }

    #[test]
    fn every_command_has_a_page() {
        let folder = tempfile::tempdir().unwrap();
        write_pages(folder.path()).unwrap();
        let commands: Vec<String> = FleetArgs::command()
            .get_subcommands()
            .map(|subcommand| subcommand.get_name().to_owned())
            .collect();
        assert!(commands.len() > 10);
        for command in commands {
            let path = folder.path().join(format!("iowhy-fleet-{command}.8"));
            assert!(std::fs::read_to_string(path).unwrap().contains(".SH OPTIONS"), "{command}");
        }
        let page = std::fs::read_to_string(folder.path().join("iowhy-fleet.8")).unwrap();
        assert!(page.contains("EXIT STATUS") && page.contains("iowhy\\-fleet\\-push"));
    }

    #[test]
    fn completions_know_commands_and_options() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = completions(shell);
            assert!(script.contains("push") && script.contains("bandwidth"), "{shell}");
        }
    }
}
