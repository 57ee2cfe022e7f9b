//! Holds the walls of docs/architecture.md: which crate may depend on which, where unsafe code,
//! Arrow and kernel interfaces may be, how long a file may be.

use crate::support::trial;
use iowhy_labs::error::Context;
use iowhy_labs::{Result, command};
use libtest_mimic::Trial;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Which of our crates each one may depend on, and which libraries it must not.
const WALLS: &[(&str, &[&str], &[&str])] = &[
    (
        "iowhy-core",
        &[],
        &[
            "libbpf-rs",
            "libbpf-sys",
            "clap",
            "ratatui",
            "indicatif",
            "rustix",
            "blazesym",
            "datafusion",
        ],
    ),
    (
        "iowhy-capture",
        &["iowhy-core"],
        &["clap", "ratatui", "indicatif", "parquet", "arrow-array", "datafusion"],
    ),
    (
        "iowhy-views",
        &["iowhy-core"],
        &["libbpf-rs", "libbpf-sys", "blazesym", "parquet", "arrow-array", "datafusion"],
    ),
    (
        "iowhy",
        &["iowhy-core", "iowhy-capture", "iowhy-views"],
        &["libbpf-rs", "libbpf-sys", "parquet", "arrow-array", "datafusion"],
    ),
    ("iowhy-fleet", &["iowhy-core"], &["libbpf-rs", "libbpf-sys", "blazesym"]),
    // Labs drive the binary; their tests read recordings with the model's column names.
    ("iowhy-labs", &[], &["libbpf-rs", "libbpf-sys", "datafusion"]),
];

const LINES: usize = 600;
const LINES_OF_BPF: usize = 300;

pub fn tests() -> Vec<Trial> {
    vec![
        trial("architecture::crates_depend_as_drawn", crates_depend_as_drawn),
        trial("architecture::arrow_only_under_recording", arrow_only_under_recording),
        trial("architecture::unsafe_only_in_the_wire_module", unsafe_only_in_the_wire_module),
        trial("architecture::libraries_do_not_print", libraries_do_not_print),
        trial("architecture::files_are_short", files_are_short),
        trial("architecture::modules_say_what_they_are", modules_say_what_they_are),
    ]
}

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every file below `crates` whose name ends with `suffix`, with its path from there.
pub fn sources(suffix: &str) -> Result<Vec<(String, String)>> {
    let base = root().join("crates");
    let mut folders = vec![base.clone()];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in
            fs::read_dir(&folder).context(|| format!("list {}", folder.display()))?.flatten()
        {
            let path = entry.path();
            let name = path.strip_prefix(&base).unwrap_or(&path).to_string_lossy().into_owned();
            if path.is_dir() {
                folders.push(path);
            } else if name.ends_with(suffix) {
                let text =
                    fs::read_to_string(&path).context(|| format!("read {}", path.display()))?;
                found.push((name, text));
            }
        }
    }
    found.sort();
    Ok(found)
}

/// The words of a line of code, without its comment.
fn words(line: &str) -> impl Iterator<Item = &str> {
    let code = line.split("//").next().unwrap_or_default();
    code.split(|c: char| !c.is_alphanumeric() && c != '_')
}

/// Lines of code in which one of `wanted` stands as a word: `file:line`.
fn uses(text: &str, name: &str, wanted: &[&str]) -> Vec<String> {
    text.lines()
        .enumerate()
        .filter(|(_, line)| words(line).any(|word| wanted.contains(&word)))
        .map(|(index, line)| format!("{name}:{}: {}", index + 1, line.trim()))
        .collect()
}

pub fn expect_none(what: &str, found: &[String]) {
    assert!(found.is_empty(), "{what}:\n{}", found.join("\n"));
}

fn crates_depend_as_drawn() -> Result<()> {
    let mut metadata = std::process::Command::new(env!("CARGO"));
    metadata.current_dir(root()).args(["metadata", "--no-deps", "--format-version=1", "--offline"]);
    let text = command::output_of(metadata)?;
    let metadata: serde_json::Value =
        serde_json::from_str(&text).context(|| "read what cargo says".to_owned())?;
    let walls: BTreeMap<&str, _> =
        WALLS.iter().map(|(name, allowed, refused)| (*name, (*allowed, *refused))).collect();
    let mut broken = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let name = package["name"].as_str().unwrap_or_default();
        let Some((allowed, refused)) = walls.get(name) else {
            broken.push(format!("{name} has no line in WALLS"));
            continue;
        };
        let shipped = package["dependencies"].as_array().into_iter().flatten();
        let shipped = shipped.filter(|dependency| dependency["kind"].is_null());
        for dependency in shipped.filter_map(|dependency| dependency["name"].as_str()) {
            let ours = dependency == "iowhy" || dependency.starts_with("iowhy-");
            if (ours && !allowed.contains(&dependency)) || refused.contains(&dependency) {
                broken.push(format!("{name} -> {dependency}"));
            }
        }
    }
    expect_none("dependencies that the architecture does not have", &broken);
    Ok(())
}

fn arrow_only_under_recording() -> Result<()> {
    let mut found = Vec::new();
    for (name, text) in sources(".rs")? {
        let allowed = ["core/src/recording/", "labs/src/recorded.rs"];
        if name.contains("/src/") && !allowed.iter().any(|place| name.starts_with(place)) {
            found.extend(uses(&text, &name, &["arrow", "arrow_array", "arrow_schema", "parquet"]));
        }
    }
    // A file name that ends in .parquet is no import.
    found.retain(|line| line.contains("::") || line.contains("use "));
    expect_none("Arrow or Parquet outside core/src/recording", &found);
    Ok(())
}

fn unsafe_only_in_the_wire_module() -> Result<()> {
    let mut found = Vec::new();
    let mut unguarded = Vec::new();
    for (name, text) in sources(".rs")? {
        let wire = name.starts_with("capture/src/wire");
        if name.contains("/src/") && !wire {
            found.extend(uses(&text, &name, &["unsafe"]));
        }
        let is_root = name.ends_with("/src/lib.rs") || name.ends_with("/src/main.rs");
        if is_root
            && !text.contains("#![forbid(unsafe_code)]")
            && !text.contains("#![deny(unsafe_code)]")
        {
            unguarded.push(name);
        }
    }
    expect_none("unsafe outside capture/src/wire", &found);
    expect_none("crates without forbid(unsafe_code) (capture: deny)", &unguarded);
    Ok(())
}

/// clippy denies the macros; this is about the writers behind them.
fn libraries_do_not_print() -> Result<()> {
    let mut found = Vec::new();
    for (name, text) in sources(".rs")? {
        let library = ["core/src/", "capture/src/", "views/src/"];
        if library.iter().any(|prefix| name.starts_with(prefix)) {
            // What another program wrote is a field, not this program's terminal.
            let others = ["output.", "command.", "child."].into_iter();
            let text = others.fold(text, |text, of| {
                text.replace(&format!("{of}stdout"), "").replace(&format!("{of}stderr"), "")
            });
            found.extend(uses(&text, &name, &["stdout", "stderr", "println", "eprintln"]));
        }
    }
    expect_none("a library that writes to the terminal", &found);
    Ok(())
}

fn files_are_short() -> Result<()> {
    let mut long = Vec::new();
    for (suffix, limit) in [(".rs", LINES), (".h", LINES), (".bpf.c", LINES_OF_BPF)] {
        for (name, text) in sources(suffix)? {
            let lines = text.lines().count();
            let generated = text.lines().take(3).any(|line| line.contains("generated by"));
            if lines > limit && !generated {
                long.push(format!("{name}: {lines} lines, at most {limit}"));
            }
        }
    }
    expect_none("files that are too long", &long);
    Ok(())
}

fn modules_say_what_they_are() -> Result<()> {
    let silent: BTreeSet<String> = sources(".rs")?
        .into_iter()
        .filter(|(name, _)| name.contains("/src/"))
        .filter(|(_, text)| !text.lines().take(5).any(|line| line.starts_with("//!")))
        .map(|(name, _)| name)
        .collect();
    expect_none("modules without a sentence about themselves", &Vec::from_iter(silent));
    Ok(())
}
