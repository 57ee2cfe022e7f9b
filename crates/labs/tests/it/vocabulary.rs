//! Holds the vocabulary of docs/vocabulary.md: the words of its last table are in no page, no
//! message, no screen and no comment.
//!
//! A row with a remark in parentheses, such as "beside (of a load)", is about one sense of a word:
//! its phrase is only refused where a word of the remark stands in the same or a neighbouring line.

use crate::architecture::{expect_none, root, sources};
use crate::support::trial;
use iowhy_labs::Result;
use iowhy_labs::error::Context;
use libtest_mimic::Trial;
use std::fs;

/// The heading above the table of words that are not used.
const HEADING: &str = "## Words that are not used";

pub fn tests() -> Vec<Trial> {
    vec![
        trial("vocabulary::pages", pages_use_the_glossary),
        trial("vocabulary::other_files", other_files_use_the_glossary),
        trial("vocabulary::strings_and_comments", strings_and_comments_use_the_glossary),
        trial("vocabulary::identifiers", identifiers_use_the_glossary),
        trial("vocabulary::a_banned_word_is_found", a_banned_word_is_found),
    ]
}

/// A phrase that must not occur, in lower case.
struct BannedPhrase {
    phrase: String,
    /// Words of which one must be near for the phrase to count; empty if it always counts.
    near: Vec<String>,
}

impl BannedPhrase {
    fn new(phrase: &str, remark: &str) -> BannedPhrase {
        let words = remark.split([' ', ',']).filter(|word| !word.is_empty());
        let nouns = words.filter(|word| !["of", "a", "an", "as", "the"].contains(word));
        BannedPhrase { phrase: phrase.to_lowercase(), near: nouns.map(str::to_lowercase).collect() }
    }

    /// Whether the phrase counts in `context`: one of its words is there, perhaps in the plural.
    fn applies(&self, context: &str) -> bool {
        let is_near =
            |word: &String| has_phrase(context, word) || has_phrase(context, &format!("{word}s"));
        self.near.is_empty() || self.near.iter().any(is_near)
    }
}

/// The phrases of the glossary's last table.
fn banned() -> Result<Vec<BannedPhrase>> {
    let path = root().join("docs/vocabulary.md");
    let page = fs::read_to_string(&path).context(|| format!("read {}", path.display()))?;
    let table = page.split_once(HEADING).map_or("", |(_, table)| table);
    let rows = table.lines().filter_map(|line| line.strip_prefix("| ")?.split(" |").next());
    let mut found = Vec::new();
    for cell in rows.filter(|cell| *cell != "not") {
        let (phrases, remark) = cell.split_once(" (").unwrap_or((cell, ""));
        let remark = remark.trim_end_matches(')');
        found.extend(phrases.split(", ").map(|phrase| BannedPhrase::new(phrase, remark)));
    }
    let narrow = found.iter().filter(|word| !word.near.is_empty()).count();
    assert!(found.len() - narrow >= 5 && narrow >= 5, "the glossary's last table was not found");
    Ok(found)
}

/// Returns whether `text` has the phrase as whole words.
fn has_phrase(text: &str, phrase: &str) -> bool {
    let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    text.match_indices(phrase).any(|(at, _)| {
        let before = text.get(..at).and_then(|part| part.chars().next_back());
        let after = text.get(at + phrase.len()..).and_then(|part| part.chars().next());
        !is_word(before) && !is_word(after)
    })
}

/// Returns lines that contain a banned phrase: `file:line: phrase`. A phrase that is broken over
/// two lines counts for the first.
fn violations(name: &str, text: &str, phrases: &[BannedPhrase]) -> Vec<String> {
    let lines: Vec<String> = text.lines().map(str::to_lowercase).collect();
    let strip =
        |line: &String| line.trim().trim_start_matches(['/', '*', '!', '#', ' ']).to_owned();
    let mut found = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let next = lines.get(index + 1).map(strip).unwrap_or_default();
        let joined = format!("{} {next}", line.trim_end_matches(['\\', ' ']));
        let previous = index.checked_sub(1).and_then(|at| lines.get(at)).map(strip);
        let context = format!("{} {joined}", previous.unwrap_or_default());
        for banned in phrases {
            let phrase = &banned.phrase;
            let is_here = has_phrase(&joined, phrase) && !has_phrase(&next, phrase);
            if is_here && banned.applies(&context) {
                found.push(format!("{name}:{}: {phrase}", index + 1));
            }
        }
    }
    found
}

/// Every file below a folder of the repository, or in it if it is "", with its text.
fn texts(folder: &str) -> Result<Vec<(String, String)>> {
    let mut folders = vec![root().join(folder)];
    let mut found = Vec::new();
    while let Some(folder_path) = folders.pop() {
        let entries =
            fs::read_dir(&folder_path).context(|| format!("list {}", folder_path.display()))?;
        for path in entries.flatten().map(|entry| entry.path()) {
            if path.is_file() {
                let bytes = fs::read(&path).context(|| format!("read {}", path.display()))?;
                let name = path.strip_prefix(root()).unwrap_or(&path).display().to_string();
                found.push((name, String::from_utf8_lossy(&bytes).into_owned()));
            } else if !folder.is_empty() {
                folders.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Returns every Markdown page of the repository except the glossary itself. The changelog may
/// quote old names.
fn pages() -> Result<Vec<(String, String)>> {
    let mut pages = texts("")?;
    pages.extend(texts("docs")?);
    pages.retain(|(name, _)| name.ends_with(".md") && name != "docs/vocabulary.md");
    for (_, text) in pages.iter_mut().filter(|(name, _)| name == "CHANGELOG.md") {
        let quoted = |line: &str| line.split('"').step_by(2).collect::<Vec<_>>().join("");
        *text = text.lines().map(quoted).collect::<Vec<_>>().join("\n");
    }
    assert!(pages.len() >= 10, "the pages were not found");
    Ok(pages)
}

/// Programs and files that are not Rust: skills, packages, scripts, labs' programs and the script
/// of the HTML report.
fn other_files() -> Result<Vec<(String, String)>> {
    let mut files = Vec::new();
    for folder in ["skills", "packaging", "scripts", "crates/labs/programs", "crates/views/web/src"]
    {
        let found = texts(folder)?;
        assert!(!found.is_empty(), "{folder} has no files");
        files.extend(found);
    }
    Ok(files)
}

/// Every source file but this one, which has banned words in its test.
fn code() -> Result<Vec<(String, String)>> {
    let mut files = Vec::new();
    for suffix in [".rs", ".bpf.c", ".h"] {
        files.extend(sources(suffix)?);
    }
    files.retain(|(name, _)| !name.ends_with("it/vocabulary.rs"));
    Ok(files)
}

/// The banned phrases in all of `files`.
fn refused(files: &[(String, String)]) -> Result<()> {
    let phrases = banned()?;
    let found = files.iter().flat_map(|(name, text)| violations(name, text, &phrases));
    expect_none("words that docs/vocabulary.md replaces", &found.collect::<Vec<_>>());
    Ok(())
}

fn pages_use_the_glossary() -> Result<()> {
    refused(&pages()?)
}

fn other_files_use_the_glossary() -> Result<()> {
    refused(&other_files()?)
}

fn strings_and_comments_use_the_glossary() -> Result<()> {
    refused(&code()?)
}

/// The words of names in `text`. Metrics `under_way.*` are part of the recording's interface.
fn words_of_names(text: &str) -> String {
    text.replace("under_way.", "").replace('_', " ")
}

/// Names of functions, variables, programs and tests. Only rows without a remark: a name has no
/// sentence around it.
fn identifiers_use_the_glossary() -> Result<()> {
    let mut phrases = banned()?;
    phrases.retain(|phrase| phrase.near.is_empty());
    let files = code()?.into_iter().chain(other_files()?);
    let found = files
        .flat_map(|(name, text)| violations(&name, &words_of_names(&text), &phrases))
        .collect::<Vec<_>>();
    expect_none("names with words that docs/vocabulary.md replaces", &found);
    Ok(())
}

fn a_banned_word_is_found() -> Result<()> {
    let plain = ["under way", "nap"].map(|phrase| BannedPhrase::new(phrase, ""));
    let text = "/// What is under\n/// way.\nlet snapshot = begin_nap();\n// A nap.\n";
    assert_eq!(violations("f", text, &plain), ["f:1: under way", "f:4: nap"]);
    let names = words_of_names("list_under_way(\"under_way.requests\")\n");
    assert_eq!(violations("f", &names, &plain), ["f:1: under way"]);
    let of_a_load = [BannedPhrase::new("beside", "of a load")];
    let text = "// Two loads run\n// beside\n// it.\n//\n// It stands beside the door.\n";
    assert_eq!(violations("f", text, &of_a_load), ["f:2: beside"]);
    Ok(())
}
