//! README.md, docs/first-use.md and docs/recipes.md: every command in them is run as written,
//! except names that are each reader's own (a disk, a directory, a program) and the length of its
//! watch. Links lead to files, and the README names every page.
//!
//! What does not belong here: whether an answer is right; the README's screen (a test of the crate
//! `iowhy`).

mod commands;
mod place;
mod promises;

use crate::architecture::{expect_none, root};
use crate::support::trial;
use commands::{PageCommand, commands};
use iowhy_labs::Result;
use iowhy_labs::error::Context;
use libtest_mimic::Trial;
use place::{Outcome, ReaderPlace};
use std::fs;
use std::path::Path;

pub fn tests() -> Vec<Trial> {
    vec![
        trial("documents::readme", || commands_run("README.md", 45)),
        trial("documents::first_use", || commands_run("docs/first-use.md", 14)),
        trial("documents::recipes", || commands_run("docs/recipes.md", 25)),
        trial("documents::promises_are_held", promises::promises_are_held),
        trial("documents::links", links_lead_to_files),
        trial("documents::readme_names_every_page", readme_names_every_page),
    ]
}

fn page(name: &str) -> Result<String> {
    fs::read_to_string(root().join(name)).context(|| format!("read {name}"))
}

/// Runs every command of a page, of which there are at least `least`; prints the reason of each
/// that this machine cannot run.
#[allow(clippy::print_stderr, reason = "a skip's reason")]
fn commands_run(name: &str, least: usize) -> Result<()> {
    let found = commands(&page(name)?);
    assert!(found.len() >= least, "{name} has only {} commands: {found:?}", found.len());
    let mut place = ReaderPlace::new()?;
    let mut failed = Vec::new();
    for PageCommand { line, text } in found {
        match place.run(&text)? {
            Outcome::Ran => {}
            Outcome::Skipped(reason) => eprintln!("{name}:{line}: `{text}` is skipped: {reason}"),
            Outcome::Failed(said) => failed.push(format!("{name}:{line}: `{text}`: {said}")),
        }
    }
    expect_none("commands that do not do what stands beside them", &failed);
    Ok(())
}

/// The pages that are read on their own.
fn pages() -> Result<Vec<String>> {
    let mut names: Vec<String> =
        ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "CODE_OF_CONDUCT.md"]
            .map(str::to_owned)
            .to_vec();
    for folder in ["docs", "docs/situations"] {
        let path = root().join(folder);
        for entry in fs::read_dir(&path).context(|| format!("list {folder}"))?.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.ends_with(".md") {
                names.push(format!("{folder}/{name}"));
            }
        }
    }
    names.sort();
    Ok(names)
}

/// The targets of a page's links.
fn targets(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| rest.split(')').next())
}

/// The anchors of a page's headings, as GitHub makes them.
fn anchors(text: &str) -> Vec<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let anchor = |line: &str| {
        let heading = line.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
        heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_')).collect()
    };
    headings.map(anchor).collect()
}

fn links_lead_to_files() -> Result<()> {
    let mut broken = Vec::new();
    let mut count = 0;
    for name in pages()? {
        let text = page(&name)?;
        let folder = Path::new(&name).parent().unwrap_or(Path::new("")).to_owned();
        for target in targets(&text).filter(|target| !target.contains("://")) {
            count += 1;
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let path = if path.is_empty() { name.clone().into() } else { folder.join(path) };
            let is_there = root().join(&path).exists();
            let has_anchor = anchor.is_empty()
                || page(&path.to_string_lossy())
                    .is_ok_and(|text| anchors(&text).iter().any(|known| known == anchor));
            if !is_there || !has_anchor {
                broken.push(format!("{name}: {target}"));
            }
        }
    }
    expect_none("links that lead nowhere", &broken);
    assert!(count > 100, "only {count} links were found");
    Ok(())
}

fn readme_names_every_page() -> Result<()> {
    let readme = page("README.md")?;
    let linked: Vec<&str> = targets(&readme).collect();
    let is_missing = |name: &String| {
        !matches!(name.as_str(), "README.md" | "docs/SUMMARY.md")
            && !linked.contains(&name.as_str())
    };
    let missing: Vec<String> = pages()?.into_iter().filter(is_missing).collect();
    expect_none("pages that the README does not name", &missing);
    Ok(())
}
