//! Manual pages of a program and of its commands, from the definition of its command line.
//!
//! What does not belong here: the texts of a program. Each one passes its own.
#![forbid(unsafe_code)]

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use iowhy_fs::Folder;
use std::io;
use std::path::Path;

/// The manual's section: system administration, as for blktrace and biosnoop.
const SECTION: &str = "8";

/// What the pages of a program say beside its commands and options.
#[derive(Clone, Copy, Debug)]
pub struct ManualTexts<'a> {
    /// The program's version.
    pub version: &'a str,
    /// Command lines for the program's page, each with what it does.
    pub examples: &'a [(&'a str, &'a str)],
    /// More sections of the program's page: heading and text.
    pub sections: &'a [(&'a str, &'a str)],
    /// What each exit code means, on every page.
    pub exit_codes: &'a str,
    /// Other programs' pages, on the program's page. Those of its commands name the program.
    pub see_also: &'a str,
}

/// Writes a page for the program and one for each of its commands that is not hidden into
/// `directory`, which is made if it is missing.
///
/// # Errors
/// When the directory or a page cannot be written.
pub fn write_pages(program: Command, texts: &ManualTexts, directory: &Path) -> io::Result<()> {
    let folder = match Folder::open(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Folder::make_all(directory, 0o755)?
        }
        opened => opened?,
    };
    let mut program = program.disable_help_subcommand(true);
    program.build();
    write_page(&program, None, texts, &folder)?;
    for command in program.get_subcommands().filter(|command| !command.is_hide_set()) {
        write_page(command, Some(program.get_name()), texts, &folder)?;
    }
    Ok(())
}

/// Writes one page; a command's page names the program it is a part of.
fn write_page(
    command: &Command,
    part_of: Option<&str>,
    texts: &ManualTexts,
    folder: &Folder,
) -> io::Result<()> {
    let program = part_of.unwrap_or(command.get_name());
    let man = Man::new(command.clone())
        .section(SECTION)
        .source(format!("{program} {}", texts.version))
        .manual("iowhy");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    let mut end = Roff::default();
    if part_of.is_none() {
        man.render_subcommands_section(&mut page)?;
        end.control("SH", ["EXAMPLES"]);
        for (command, effect) in texts.examples {
            end.control("TP", []).text([bold(*command)]).text([roman(*effect)]);
        }
        for (heading, text) in texts.sections {
            end.control("SH", [*heading]).text([roman(*text)]);
        }
    }
    end.control("SH", ["EXIT STATUS"]).text([roman(texts.exit_codes)]);
    let others = match part_of {
        None => texts.see_also.to_owned(),
        Some(program) => format!("{program}({SECTION})"),
    };
    end.control("SH", ["SEE ALSO"]).text([roman(others)]);
    end.to_writer(&mut page)?;
    folder.replace(man.get_filename(), &page, 0o644, false)
}
