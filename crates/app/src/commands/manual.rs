//! `iowhy man`: the manual pages, from the definition of the command line, of the tables and of the
//! causes.
//!
//! What does not belong here: what the pages say about single commands (see [`texts`]) and flags
//! (`args`).

mod texts;

use crate::args::completions::ManArgs;
use crate::args::{Cli, EXIT_CODES};
use crate::failure::Failure;
use iowhy_diagnosis::{Rule, all, bottleneck};
use iowhy_manual::{CommandText, ManualTexts, TableText, TopicPage, TopicSection};
use iowhy_views::reference;
use texts::{EXAMPLES, PAGES, PageText};

const OVERHEAD: &str = "The first lines of each screen show the CPU time that iowhy used and the \
    number of records that it lost. A watch allocates a bounded amount of memory, changes no \
    setting, and unloads its BPF programs when it exits, even if it is killed.";
const ENVIRONMENT: &str = "NO_COLOR, if it is set, and TERM=dumb turn colours off. COLUMNS sets \
    the width where standard output is no terminal. TZ sets the time zone of times of day.";
const ABOUT_CAUSES: &[&str] = &[
    "iowhy names causes and bottlenecks. A cause is a mechanism that was detected; a bottleneck \
     says who waits, where and for what, whatever the cause. Each entry says how it makes a disk \
     slow, and which observation would change the verdict.",
    "The names are an interface: they stand in the JSON of findings and in metrics, and are never \
     renamed or reused. iowhy explain CAUSE prints an entry, iowhy explain CAUSE SOURCE also what \
     was observed.",
];

/// Writes a manual page for the program, one for each of its commands and one of the causes.
pub fn write_pages(args: &ManArgs) -> Result<(), Failure> {
    let version = env!("CARGO_PKG_VERSION");
    let commands: Vec<CommandText<'_>> = PAGES.iter().map(command_text).collect();
    let texts = ManualTexts {
        version,
        examples: EXAMPLES,
        sections: &[("OVERHEAD", OVERHEAD), ("ENVIRONMENT", ENVIRONMENT)],
        exit_codes: EXIT_CODES,
        see_also: "iowhy-causes(7), iowhy-glossary(7), iowhy.toml(5), blktrace(8), blkparse(1), \
            iostat(1), biosnoop(8)",
        commands: &commands,
    };
    let written = iowhy_manual::write_pages(Cli::definition(), &texts, &args.output);
    written
        .and_then(|()| iowhy_manual::write_topic(&causes(), version, &args.output))
        .map_err(|cause| Failure::not_written(&args.output, &cause))
}

fn command_text(page: &PageText) -> CommandText<'static> {
    let tables = reference::tables_of(page.name).into_iter().map(|table| TableText {
        title: table.title.to_owned(),
        sentence: table.sentence.to_owned(),
        columns: table
            .columns
            .into_iter()
            .map(|(heading, meaning)| (heading.to_owned(), meaning))
            .collect(),
    });
    CommandText {
        name: page.name,
        description: page.description,
        tables: tables.collect(),
        files: page.files,
        see_also: page.see_also,
    }
}

/// The page iowhy-causes(7).
fn causes() -> TopicPage<'static> {
    let is_bottleneck =
        |rule: &&Rule| bottleneck::ALL.iter().any(|other| other.cause == rule.cause);
    let entry = |rule: &Rule| {
        let texts = vec![
            sentence(rule.title),
            rule.mechanism.to_owned(),
            format!("What would change the verdict: {}", rule.changes),
        ];
        (rule.cause.to_owned(), texts)
    };
    let (bottlenecks, causes): (Vec<&Rule>, Vec<&Rule>) = all().partition(is_bottleneck);
    let section = |heading, rules: Vec<&Rule>| TopicSection {
        heading,
        entries: rules.into_iter().map(entry).collect(),
    };
    TopicPage {
        name: "iowhy-causes",
        section: 7,
        summary: "the causes and bottlenecks that iowhy names",
        description: ABOUT_CAUSES,
        sections: vec![section("CAUSES", causes), section("BOTTLENECKS", bottlenecks)],
        see_also: "iowhy(8), iowhy-explain(8), iowhy-glossary(7)",
    }
}

/// A noun phrase as a sentence.
fn sentence(phrase: &str) -> String {
    let mut letters = phrase.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", letters.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_are_valid_command_lines() {
        for (example, _) in EXAMPLES {
            Cli::definition()
                .try_get_matches_from(example.split(' '))
                .unwrap_or_else(|error| panic!("{example}: {error}"));
        }
    }

    #[test]
    fn every_command_has_a_text_and_an_example() {
        for command in Cli::definition().get_subcommands().filter(|command| !command.is_hide_set())
        {
            let name = command.get_name();
            let page = PAGES.iter().find(|page| page.name == name);
            assert!(page.is_some_and(|page| !page.description.is_empty()), "{name}");
            let prefix = format!("iowhy {name}");
            let is_of_it = |(example, _): &(&str, &str)| {
                example
                    .strip_prefix(&prefix)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
            };
            assert!(EXAMPLES.iter().any(is_of_it), "{name}");
        }
    }

    #[test]
    fn pages_that_are_named_exist() {
        let command = Cli::definition();
        let named = PAGES.iter().flat_map(|page| page.see_also.split(", "));
        for page in named.filter_map(|page| page.strip_prefix("iowhy-")?.strip_suffix("(8)")) {
            assert!(command.find_subcommand(page).is_some(), "{page}");
        }
        assert_eq!(sentence("a disk"), "A disk.");
    }
}
