//! `iowhy-fleet man` and `iowhy-fleet completions`: manual pages and shell completions, which a
//! package installs, from the definitions of the command line.
//!
//! What does not belong here: texts about single options. They are in `args`.

use crate::args::FleetArgs;
use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use iowhy_fleet::error::{FleetContext, Result};
use std::fs;
use std::io;
use std::path::Path;

/// The manual's section: system administration, as for `iowhy`.
const SECTION: &str = "8";

/// Command lines for the first page, each with what it does.
const EXAMPLES: &[(&str, &str)] = &[
    ("iowhy-fleet push --at s3://bucket/fleet", "Send what this host's recorder keeps."),
    ("iowhy-fleet compact --at s3://bucket/fleet", "Merge what hosts sent into tables."),
    ("iowhy-fleet outliers --at s3://bucket/fleet", "Name drives that are slower than others."),
    ("iowhy-fleet findings --at s3://bucket/fleet", "Show what is wrong where, and since when."),
    ("iowhy-fleet report --html fleet.html --at s3://bucket/fleet", "Write all of it as a page."),
];

const EXIT_CODES: &str = "0: done. 1: it failed. 2: the command line is wrong. 75: the store \
    failed for longer than it was tried again; another try may succeed.";

/// The completion script of a shell.
pub fn completions(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut FleetArgs::command(), "iowhy-fleet", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// Writes a manual page for the program and one for each of its commands.
pub fn write_pages(directory: &Path) -> Result<()> {
    let failed = || format!("write manual pages into {}", directory.display());
    fs::create_dir_all(directory).context(failed)?;
    let mut program = FleetArgs::command().disable_help_subcommand(true);
    program.build();
    write_page(&program, true, directory).context(failed)?;
    for command in program.get_subcommands() {
        write_page(command, false, directory).context(failed)?;
    }
    Ok(())
}

fn write_page(command: &Command, is_program: bool, directory: &Path) -> io::Result<()> {
    let man = Man::new(command.clone())
        .section(SECTION)
        .source(concat!("iowhy-fleet ", env!("CARGO_PKG_VERSION")))
        .manual("iowhy");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    let mut end = Roff::default();
    if is_program {
        man.render_subcommands_section(&mut page)?;
        end.control("SH", ["EXAMPLES"]);
        for (command, effect) in EXAMPLES {
            end.control("TP", []).text([bold(*command)]).text([roman(*effect)]);
        }
    }
    end.control("SH", ["EXIT STATUS"]).text([roman(EXIT_CODES)]);
    let others = if is_program { "iowhy(8), iowhy-daemon(8)" } else { "iowhy-fleet(8)" };
    end.control("SH", ["SEE ALSO"]).text([roman(others)]);
    end.to_writer(&mut page)?;
    fs::write(directory.join(man.get_filename()), page)
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
        let commands: Vec<String> =
            FleetArgs::command().get_subcommands().map(|it| it.get_name().to_owned()).collect();
        assert!(commands.len() > 10);
        for command in commands {
            let path = folder.path().join(format!("iowhy-fleet-{command}.8"));
            assert!(fs::read_to_string(path).unwrap().contains(".SH OPTIONS"), "{command}");
        }
        let page = fs::read_to_string(folder.path().join("iowhy-fleet.8")).unwrap();
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
