//! The commands as `--help` shows them: grouped by the question that each answers. `-h` names only
//! those to start with.
//!
//! What does not belong here: what a command does. Its definition says so.

use clap::Command;
use std::fmt::Write as _;

/// Commands to start with, as `-h` shows them.
const START: &[(&str, &str)] = &[
    ("iowhy", "watch for ten seconds and name the cause"),
    ("iowhy explain 1", "the first finding of that watch: evidence, fix, check"),
    ("iowhy report --full", "every section of it; --html FILE writes a page"),
    ("iowhy top", "the same, live"),
    ("iowhy record -o DIR", "keep a watch, for later or for another machine"),
    ("iowhy check", "what iowhy can see on this machine"),
];

/// Questions, and the commands that answer each.
const GROUPS: &[(&str, &[&str])] = &[
    ("Why is it slow?", &["explain", "blame", "waits", "chains", "stacks"]),
    (
        "Look at what happens",
        &[
            "top", "stat", "proc", "files", "latency", "stages", "cache", "snoop", "opens",
            "events", "locate",
        ],
    ),
    ("Compare, and test a fix", &["diff", "reproduce", "verify", "probe"]),
    ("Keep it", &["record", "report", "daemon", "capture", "incidents", "history"]),
    ("Share it with people and tools", &["export", "import", "schema"]),
    ("Set up", &["check", "completions"]),
];

const TEMPLATE: &str = "{before-help}{about-with-newline}
{usage-heading} {usage}
       iowhy COMMAND [OPTIONS]
{after-help}

{all-args}";

/// The same command line whose help groups the commands.
pub fn grouped(command: Command) -> Command {
    let codes = format!("\n\nExit codes: {}", super::EXIT_CODES);
    let short = format!(
        "{}\n`iowhy --help` lists all commands and options; `iowhy COMMAND -h` explains one.",
        start()
    );
    let long = format!("{}\n{}{}", start(), groups(&command), codes.trim_start());
    command
        .help_template(TEMPLATE)
        .override_usage("iowhy [OPTIONS] [INTERVAL [COUNT]]")
        .disable_help_subcommand(true)
        .after_help(short)
        .after_long_help(long)
}

/// The same for the parser: its list of commands would repeat the groups.
pub fn without_list(command: Command) -> Command {
    let names: Vec<String> =
        command.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    let hidden = |command: Command, name: String| {
        command.mut_subcommand(name, |subcommand| subcommand.hide(true))
    };
    names.into_iter().fold(command, hidden)
}

fn start() -> String {
    let width = START.iter().map(|(line, _)| line.len()).max().unwrap_or(0);
    let line = |(line, does): &(&str, &str)| format!("  {line:width$}  {does}\n");
    format!("Start with:\n{}", START.iter().map(line).collect::<String>())
}

fn groups(command: &Command) -> String {
    let width =
        command.get_subcommands().map(|subcommand| subcommand.get_name().len()).max().unwrap_or(0);
    let mut text = String::new();
    for (question, names) in GROUPS {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{question}");
        for name in *names {
            let about = command.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(text, "  {name:width$}  {about}");
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;
    use std::collections::BTreeSet;

    #[test]
    fn every_command_answers_one_question() {
        let command = Cli::definition();
        let shown = command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set());
        let names: BTreeSet<&str> = shown.map(Command::get_name).collect();
        let grouped: Vec<&str> =
            GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        assert_eq!(grouped.iter().copied().collect::<BTreeSet<_>>(), names);
        assert_eq!(grouped.len(), names.len(), "a command stands in two groups");
    }
}
