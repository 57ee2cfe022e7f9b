//! SECURITY.md's table: every promise names a test that holds it, and that exists.

use super::page;
use crate::architecture::{expect_none, root};
use iowhy_labs::Result;
use iowhy_labs::error::Context;
use std::fs;
use std::path::{Path, PathBuf};

/// The least number of promises.
const LEAST: usize = 15;

/// Checks that every row of the table has a test, and that every named test exists.
pub fn promises_are_held() -> Result<()> {
    let text = page("SECURITY.md")?;
    let rows: Vec<Vec<&str>> = text
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| to whom"))
        .map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect())
        .filter(|cells: &Vec<&str>| cells.len() == 3)
        .collect();
    assert!(rows.len() >= LEAST, "the table has only {} promises", rows.len());
    let mut missing = Vec::new();
    for row in rows {
        let [_, promise, holders] = row.as_slice() else { continue };
        let named: Vec<&str> = holders.split('`').skip(1).step_by(2).collect();
        if named.is_empty() {
            missing.push(format!("nothing holds: {promise}"));
        }
        let mut owner = "";
        for name in named {
            let name = match name.split_once(": ") {
                Some((found, name)) => {
                    owner = found;
                    name
                }
                None => name,
            };
            if !is_there(owner, name)? {
                missing.push(format!("{owner}: {name}, which is to hold: {promise}"));
            }
        }
    }
    expect_none("promises without a test", &missing);
    Ok(())
}

/// Returns whether such a test, module of tests, script or target of `make` exists.
fn is_there(owner: &str, name: &str) -> Result<bool> {
    if let Some(target) = name.strip_prefix("make ") {
        return Ok(page("Makefile")?.lines().any(|line| line.starts_with(&format!("{target}:"))));
    }
    if name.contains('/') {
        return Ok(root().join(name).exists());
    }
    let name = name.rsplit("::").next().unwrap_or(name);
    let folder = match owner {
        "fleet" => root().join("fleet"),
        owner => root().join("crates").join(owner),
    };
    let mut sources = Vec::new();
    list(&folder, &mut sources)?;
    let function = format!("fn {name}(");
    for source in sources {
        let is_module = source.file_stem().is_some_and(|stem| stem == name);
        let text = fs::read_to_string(&source).context(|| format!("read {}", source.display()))?;
        let is_tested =
            ["#[test]", "#[tokio::test", "trial("].iter().any(|mark| text.contains(mark));
        let may_hold_tests =
            is_tested || source.components().any(|part| part.as_os_str() == "tests");
        if may_hold_tests && (is_module || text.contains(&function)) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn list(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).context(|| format!("list {}", folder.display()))?.flatten() {
        let path = entry.path();
        if path.is_dir() {
            list(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    Ok(())
}
