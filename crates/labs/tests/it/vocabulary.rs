//! Holds the vocabulary of docs/glossary.md: the words of its last table are in no page, no
//! message, no screen and no comment.
//!
//! A row whose first cell has a remark in parentheses is about one sense of a word; only people can
//! check it.

use crate::architecture::{expect_none, root, sources};
use crate::support::trial;
use iowhy_labs::Result;
use iowhy_labs::error::Context;
use libtest_mimic::Trial;
use std::fs;
use std::path::PathBuf;

/// The heading above the table of words that are not used.
const HEADING: &str = "## Words that are not used";

pub fn tests() -> Vec<Trial> {
    vec![
        trial("vocabulary::pages", pages_use_the_glossary),
        trial("vocabulary::strings_and_comments", strings_and_comments_use_the_glossary),
        trial("vocabulary::a_banned_word_is_found", a_banned_word_is_found),
    ]
}

/// The phrases that must not occur, in lower case.
fn banned() -> Result<Vec<String>> {
    let path = root().join("docs/glossary.md");
    let page = fs::read_to_string(&path).context(|| format!("read {}", path.display()))?;
    let table = page.split_once(HEADING).map_or("", |(_, table)| table);
    let rows = table.lines().filter_map(|line| line.strip_prefix("| ")?.split(" |").next());
    let cells = rows.filter(|cell| *cell != "not" && !cell.contains('('));
    let phrases: Vec<String> =
        cells.flat_map(|cell| cell.split(", ")).map(str::to_lowercase).collect();
    assert!(phrases.len() >= 5, "the glossary's last table was not found: {phrases:?}");
    Ok(phrases)
}

/// Whether `text` has the phrase as whole words.
fn has_phrase(text: &str, phrase: &str) -> bool {
    let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    text.match_indices(phrase).any(|(at, _)| {
        let before = text.get(..at).and_then(|it| it.chars().next_back());
        let after = text.get(at + phrase.len()..).and_then(|it| it.chars().next());
        !is_word(before) && !is_word(after)
    })
}

/// Lines that hold a banned phrase: `file:line: phrase`. A phrase that is broken over two lines
/// counts for the first.
fn violations(name: &str, text: &str, phrases: &[String]) -> Vec<String> {
    let lines: Vec<String> = text.lines().map(str::to_lowercase).collect();
    let strip = |line: &str| line.trim().trim_start_matches(['/', '*', '!', ' ']).to_owned();
    let mut found = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let next = lines.get(index + 1).map(|it| strip(it)).unwrap_or_default();
        let joined = format!("{} {next}", line.trim_end_matches(['\\', ' ']));
        for phrase in phrases {
            if has_phrase(&joined, phrase) && !has_phrase(&next, phrase) {
                found.push(format!("{name}:{}: {phrase}", index + 1));
            }
        }
    }
    found
}

/// Every Markdown page of the repository but the glossary itself.
fn pages() -> Result<Vec<PathBuf>> {
    let mut pages = Vec::new();
    for folder in ["", "docs"] {
        let folder = root().join(folder);
        let entries = fs::read_dir(&folder).context(|| format!("list {}", folder.display()))?;
        pages.extend(entries.flatten().map(|entry| entry.path()));
    }
    pages.retain(|path| {
        path.extension().is_some_and(|it| it == "md") && !path.ends_with("docs/glossary.md")
    });
    pages.sort();
    Ok(pages)
}

fn pages_use_the_glossary() -> Result<()> {
    let phrases = banned()?;
    let mut found = Vec::new();
    for path in pages()? {
        let text = fs::read_to_string(&path).context(|| format!("read {}", path.display()))?;
        found.extend(violations(&path.display().to_string(), &text, &phrases));
    }
    expect_none("words that docs/glossary.md replaces", &found);
    Ok(())
}

fn strings_and_comments_use_the_glossary() -> Result<()> {
    let phrases = banned()?;
    let mut found = Vec::new();
    for suffix in [".rs", ".bpf.c", ".h"] {
        for (name, text) in sources(suffix)? {
            if !name.ends_with("it/vocabulary.rs") {
                found.extend(violations(&name, &text, &phrases));
            }
        }
    }
    expect_none("words that docs/glossary.md replaces", &found);
    Ok(())
}

fn a_banned_word_is_found() -> Result<()> {
    let phrases = ["under way".to_owned(), "nap".to_owned()];
    let text = "/// What is under\n/// way.\nlet snapshot = begin_nap();\n// A nap.\n";
    assert_eq!(violations("f", text, &phrases), ["f:1: under way", "f:4: nap"]);
    Ok(())
}
