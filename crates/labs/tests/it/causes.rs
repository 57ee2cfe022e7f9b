//! A cause is one file: nothing else names it, and nothing else is touched to add one.
//!
//! What does not belong here: the other walls of the architecture (see [`super::architecture`]).

use crate::architecture::{expect_none, root, sources};
use crate::support::trial;
use iowhy_labs::error::Context;
use iowhy_labs::{Result, command};
use libtest_mimic::Trial;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where each file is a cause.
const RULES: &str = "diagnosis/src/rules/";
/// Files that name a cause's id and mean something else, or name what they make themselves.
const OTHERWISE: &[(&str, &str)] = &[
    ("capture/src/host/health/mapper.rs", "a type of targets of the device mapper: thin-pool"),
    ("diagnosis/src/rules/volume_state.rs", "the same"),
    ("diagnosis/src/impacts.rs", "tests of impacts"),
    ("labs/", "a lab says which cause it makes"),
];

pub fn tests() -> Vec<Trial> {
    vec![
        trial("architecture::causes_are_named_in_their_files", causes_are_named_in_their_files),
        trial("architecture::a_new_file_is_a_new_cause", a_new_file_is_a_new_cause),
    ]
}

/// The id of each cause, and its file.
fn ids(files: &[(String, String)]) -> BTreeMap<String, String> {
    let rules = files.iter().filter(|(name, _)| name.starts_with(RULES));
    let id = |text: &str| {
        let (_, rule) = text.split_once("\nrule!")?;
        rule.split('"').nth(1).map(str::to_owned)
    };
    rules.filter_map(|(name, text)| Some((id(text)?, name.clone()))).collect()
}

/// Strings of the product, in Rust and TypeScript, that are the id of a cause elsewhere: what
/// depends on a cause is a part of its `rule!`.
fn causes_are_named_in_their_files() -> Result<()> {
    let rust = sources(".rs")?;
    let ids = ids(&rust);
    assert!(ids.len() >= 70, "only {} causes were found", ids.len());
    let is_product = |name: &str| {
        (name.contains("/src/") || name.contains("/web/src/"))
            && !name.ends_with("/tests.rs")
            && !OTHERWISE.iter().any(|(file, _)| name.starts_with(file))
    };
    let mut found = Vec::new();
    for (name, text) in rust.iter().chain(&sources(".ts")?).filter(|(name, _)| is_product(name)) {
        // A module of its own for tests stands at the end.
        let begins = |(at, _): &(usize, &str)| {
            let next = text[*at..].lines().nth(1).unwrap_or_default();
            next.contains("mod ") && next.ends_with('{')
        };
        let end =
            text.match_indices("#[cfg(test)]\n").find(begins).map_or(text.len(), |found| found.0);
        let product = &text[..end];
        for (index, line) in product.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            let strings = code.split('"').skip(1).step_by(2);
            let foreign = strings.filter(|text| ids.get(*text).is_some_and(|file| file != name));
            found.extend(foreign.map(|id| format!("{name}:{}: {id}", index + 1)));
        }
    }
    expect_none("causes that are named outside their files", &found);
    Ok(())
}

/// What a program with one more cause prints.
const PROGRAM: &str = r#"
use iowhy_analysis::summarize;
use iowhy_diagnosis::{diagnose, rule_of};
use iowhy_model::recording::RecordingReader;
use iowhy_views::{explain, style::Style};

fn main() {
    let rule = rule_of("scratch-cause").expect("the new file is a cause");
    print!("{}", explain::cause(rule, None, &Style::plain(80)));
    print!("{}", explain::causes(None, &Style::plain(80)));
    print!("{}", explain::json(&[rule], None));
    let recording = std::env::args().nth(1).expect("a recording");
    let mut reader = RecordingReader::open(recording.as_ref()).expect("it is read");
    let summary = &summarize(&mut reader).expect("it is summed up");
    let diagnosis = &diagnose(summary);
    let seen = explain::SeenCause { summary, diagnosis, source: "demo" };
    println!("JUDGED {}", explain::causes(Some(seen), &Style::plain(80)));
}
"#;

/// The only file that is added.
const CAUSE: &str = r#"//! A cause that a test adds.

use super::*;

rule!(
    "scratch-cause",
    "a scratch title",
    "A scratch mechanism.",
    "A scratch change.",
    place: Device,
);

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_waits()?;
    Ok(Clear)
}
"#;

/// Adds a file to a copy of the sources, and nothing else: the cause is judged, explained and in
/// JSON.
fn a_new_file_is_a_new_cause() -> Result<()> {
    let copy = tempfile::tempdir().context(|| "make a folder".to_owned())?;
    let write = |name: &str, text: &str| write(&copy.path().join(name), text);
    for package in ["analysis", "diagnosis", "fs", "model", "views"] {
        let name = Path::new("crates").join(package);
        copy_folder(&root().join(&name), &copy.path().join(&name))?;
    }
    let read =
        |name: &str| fs::read_to_string(root().join(name)).context(|| format!("read {name}"));
    let manifest = read("Cargo.toml")?;
    let (_, rest) = manifest.split_once("\n[workspace.package]").unwrap_or_default();
    let members = r#"["crates/*", "added"]"#;
    write(
        "Cargo.toml",
        &format!("[workspace]\nresolver = \"3\"\nmembers = {members}\n\n[workspace.package]{rest}"),
    )?;
    write("Cargo.lock", &read("Cargo.lock")?)?;
    write(
        "added/Cargo.toml",
        "[package]\nname = \"added\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[dependencies]\n\
         iowhy-analysis.workspace = true\niowhy-diagnosis.workspace = true\n\
         iowhy-model.workspace = true\niowhy-views.workspace = true\n",
    )?;
    write("added/src/main.rs", PROGRAM)?;
    write(&format!("crates/{RULES}scratch_cause.rs"), CAUSE)?;
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["run", "--quiet", "--offline", "--package", "added", "--"]);
    cargo.arg(root().join("demo/recording"));
    cargo.current_dir(copy.path()).env("CARGO_TARGET_DIR", target());
    let said = command::output_of(cargo)?;
    for expected in ["a scratch title", "A scratch mechanism.", "\"scratch-cause\""] {
        assert!(said.contains(expected), "{expected} is missing:\n{said}");
    }
    let judged = said.split_once("JUDGED").map(|(_, judged)| judged).unwrap_or_default();
    assert!(judged.contains("scratch-cause"), "it is not judged:\n{judged}");
    Ok(())
}

/// A folder of its own for what is built: Cargo takes the copy's packages for those of this tree.
fn target() -> PathBuf {
    let own = std::env::current_exe().unwrap_or_default();
    let built = own.ancestors().nth(3).map_or_else(|| root().join("target"), Path::to_path_buf);
    built.join("causes")
}

fn write(path: &Path, text: &str) -> Result<()> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder).context(|| format!("make {}", folder.display()))?;
    fs::write(path, text).context(|| format!("write {}", path.display()))
}

/// Copies the sources of a package.
fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    let entries = fs::read_dir(from).context(|| format!("list {}", from.display()))?;
    for entry in entries.flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        // A manifest may name its tests.
        if path.is_dir() && name != "node_modules" {
            copy_folder(&path, &to.join(name))?;
        } else if path.is_file() {
            fs::create_dir_all(to).context(|| format!("make {}", to.display()))?;
            fs::copy(&path, to.join(name)).context(|| format!("copy {}", path.display()))?;
        }
    }
    Ok(())
}
