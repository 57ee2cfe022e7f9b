//! `iowhy completions` and `iowhy man`: shell completions and manual pages, from the definitions of
//! the command line.
//!
//! What does not belong here: texts about single flags. They are in `args`.

use crate::args::completions::{CompletionsArgs, ManArgs};
use crate::args::{Cli, EXIT_CODES};
use crate::failure::Failure;
use crate::output;
use clap::{Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use std::fs;
use std::io;
use std::path::Path;

/// The manual's section: system administration, as for blktrace and biosnoop.
const SECTION: &str = "8";

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

/// Prints the completion script of a shell.
pub fn print(args: &CompletionsArgs) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "iowhy", &mut script);
    output::print(&String::from_utf8_lossy(&script))
}

/// Writes a manual page for the program and one for each of its commands.
pub fn write_pages(args: &ManArgs) -> Result<(), Failure> {
    let directory = &args.output;
    let failed = |cause: &io::Error| Failure::not_written(directory, cause);
    fs::create_dir_all(directory).map_err(|cause| failed(&cause))?;
    let mut program = Cli::command().disable_help_subcommand(true);
    program.build();
    write_page(&program, true, directory).map_err(|cause| failed(&cause))?;
    for command in program.get_subcommands().filter(|command| !command.is_hide_set()) {
        write_page(command, false, directory).map_err(|cause| failed(&cause))?;
    }
    Ok(())
}

fn write_page(command: &Command, is_program: bool, directory: &Path) -> io::Result<()> {
    let man = Man::new(command.clone())
        .section(SECTION)
        .source(format!("iowhy {}", env!("CARGO_PKG_VERSION")))
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
        end.control("SH", ["OVERHEAD"]).text([roman(OVERHEAD)]);
    }
    end.control("SH", ["EXIT STATUS"]).text([roman(EXIT_CODES)]);
    let others = match is_program {
        true => "blktrace(8), blkparse(1), iostat(1), biosnoop(8)",
        false => "iowhy(8)",
    };
    end.control("SH", ["SEE ALSO"]).text([roman(others)]);
    end.to_writer(&mut page)?;
    fs::write(directory.join(man.get_filename()), page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn examples_are_valid_command_lines() {
        for (example, _) in EXAMPLES {
            Cli::command().try_get_matches_from(example.split(' ')).unwrap();
        }
    }
}
