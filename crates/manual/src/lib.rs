//! Manual pages of a program and of its commands, from the definition of its command line.
//!
//! What does not belong here: the texts of a program. Each one passes its own.
#![forbid(unsafe_code)]

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, italic, roman};
use iowhy_fs::Folder;
use std::io;
use std::path::Path;

/// The manual's section: system administration, as for blktrace and biosnoop.
const SECTION: &str = "8";

/// Texts of a program's pages beside its commands and options.
#[derive(Clone, Copy, Debug)]
pub struct ManualTexts<'a> {
    /// The program's version.
    pub version: &'a str,
    /// Command lines, each with what it does. A command's page has those whose second word is its
    /// name; the program's page has the others, and the first one of each command.
    pub examples: &'a [(&'a str, &'a str)],
    /// More sections of the program's page: heading and text.
    pub sections: &'a [(&'a str, &'a str)],
    /// The meaning of each exit code, on every page.
    pub exit_codes: &'a str,
    /// Other programs' pages, on the program's page. Those of its commands name the program.
    pub see_also: &'a str,
    /// Further texts of single pages.
    pub commands: &'a [CommandText<'a>],
}

/// Texts of a command's page beside its options.
#[derive(Clone, Debug, Default)]
pub struct CommandText<'a> {
    /// The command's name; the program's own for its page.
    pub name: &'a str,
    /// Paragraphs of the description, after the sentence of `--help`.
    pub description: &'a [&'a str],
    /// The tables that it prints.
    pub tables: Vec<TableText>,
    /// Files that it reads or writes, each with what for.
    pub files: &'a [(&'a str, &'a str)],
    /// Related pages.
    pub see_also: &'a str,
}

/// A table that a command prints.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableText {
    /// The table's heading on the screen.
    pub title: String,
    /// One sentence on the meaning of a row.
    pub sentence: String,
    /// The columns: heading, and the meaning with its unit.
    pub columns: Vec<(String, String)>,
}

/// A page that belongs to no command: of a file's format, of terms.
#[derive(Clone, Debug)]
pub struct TopicPage<'a> {
    /// The page's name.
    pub name: &'a str,
    /// The section of the manual: 5 for formats of files, 7 for everything else.
    pub section: u8,
    /// The page's subject, in half a sentence.
    pub summary: &'a str,
    /// Paragraphs before the entries.
    pub description: &'a [&'a str],
    /// Sections with entries.
    pub sections: Vec<TopicSection>,
    /// Related pages.
    pub see_also: &'a str,
}

/// A section of a [`TopicPage`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TopicSection {
    /// The section's heading.
    pub heading: &'static str,
    /// Each entry's name with its paragraphs.
    pub entries: Vec<(String, Vec<String>)>,
}

/// Writes a page for the program and one for each of its commands that is not hidden into
/// `directory`, which is made if it is missing.
///
/// # Errors
/// Fails if the directory or a page cannot be written.
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

/// Writes a page that belongs to no command into `directory`, which exists.
///
/// # Errors
/// Fails if the page cannot be written.
pub fn write_topic(topic: &TopicPage, version: &str, directory: &Path) -> io::Result<()> {
    let mut page = Roff::default();
    let section = topic.section.to_string();
    let source = format!("iowhy {version}");
    page.control("TH", [topic.name, &section, "", &source, "iowhy"]);
    page.control("SH", ["NAME"]).text([roman(format!("{} - {}", topic.name, topic.summary))]);
    page.control("SH", ["DESCRIPTION"]);
    paragraphs(&mut page, topic.description);
    for TopicSection { heading, entries } in &topic.sections {
        page.control("SH", [*heading]);
        for (name, texts) in entries {
            page.control("TP", []).text([bold(name)]);
            for (at, text) in texts.iter().enumerate() {
                if at > 0 {
                    page.control("IP", []);
                }
                page.text([roman(text)]);
            }
        }
    }
    page.control("SH", ["SEE ALSO"]).text([roman(topic.see_also)]);
    let mut text = Vec::new();
    page.to_writer(&mut text)?;
    let name = format!("{}.{section}", topic.name);
    Folder::open(directory)?.replace(name, &text, 0o644, false)
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
    let none = CommandText::default();
    let text = texts.commands.iter().find(|text| text.name == command.get_name());
    let text = text.unwrap_or(&none);
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    let mut more = Roff::default();
    paragraphs(&mut more, text.description);
    more.to_writer(&mut page)?;
    man.render_options_section(&mut page)?;
    let mut end = Roff::default();
    if part_of.is_none() {
        man.render_subcommands_section(&mut page)?;
    }
    columns(&mut end, &text.tables);
    listed(&mut end, "EXAMPLES", &examples(command.get_name(), part_of.is_none(), texts));
    if part_of.is_none() {
        for (heading, text) in texts.sections {
            end.control("SH", [*heading]).text([roman(*text)]);
        }
    }
    listed(&mut end, "FILES", text.files);
    end.control("SH", ["EXIT STATUS"]).text([roman(texts.exit_codes)]);
    let others = match part_of {
        None => texts.see_also.to_owned(),
        Some(program) if text.see_also.is_empty() => format!("{program}({SECTION})"),
        Some(program) => format!("{program}({SECTION}), {}", text.see_also),
    };
    end.control("SH", ["SEE ALSO"]).text([roman(others)]);
    end.to_writer(&mut page)?;
    folder.replace(man.get_filename(), &page, 0o644, false)
}

/// The examples of a page.
fn examples<'a>(name: &str, is_program: bool, texts: &ManualTexts<'a>) -> Vec<(&'a str, &'a str)> {
    let subject = |example: &str| {
        let word = example.split(' ').nth(1).unwrap_or_default();
        texts.commands.iter().map(|text| text.name).find(|name| *name == word).map(str::to_owned)
    };
    let mut seen = Vec::new();
    let mut chosen = Vec::new();
    for (example, effect) in texts.examples {
        let command = subject(example);
        let is_chosen = match (is_program, &command) {
            (true, None) => true,
            (true, Some(command)) => !seen.contains(command),
            (false, _) => example.split(' ').nth(1) == Some(name),
        };
        seen.extend(command);
        if is_chosen {
            chosen.push((*example, *effect));
        }
    }
    chosen
}

fn paragraphs(page: &mut Roff, texts: &[&str]) {
    for text in texts {
        page.control("PP", []).text([roman(*text)]);
    }
}

/// A section of terms with their meanings; none if there are no terms.
fn listed(page: &mut Roff, heading: &str, terms: &[(&str, &str)]) {
    if terms.is_empty() {
        return;
    }
    page.control("SH", [heading]);
    for (term, meaning) in terms {
        page.control("TP", []).text([bold(*term)]).text([roman(*meaning)]);
    }
}

fn columns(page: &mut Roff, tables: &[TableText]) {
    if tables.is_empty() {
        return;
    }
    page.control("SH", ["COLUMNS"]);
    for table in tables {
        page.control("SS", [table.title.as_str()]).text([roman(&table.sentence)]);
        for (heading, meaning) in &table.columns {
            let heading: Inline = italic(heading);
            page.control("TP", []).text([heading]).text([roman(meaning)]);
        }
    }
}
