//! Tests that every command that a rule names as evidence can be parsed.

use super::Cli;
use clap::Parser;
use std::path::{Path, PathBuf};

/// Sample values for the placeholders of a rule. The flags of a subject are those of a process or
/// a device.
const FILLED: &[(&str, &[&str])] = &[
    ("{flags}", &["", " -p 30603", " -d sda"]),
    ("{name}", &["sda"]),
    ("{below}", &["sda"]),
    ("{pid}", &["30603"]),
    ("{place}", &["/srv"]),
    ("{}", &["sda"]),
];

/// Returns the source files that name evidence: the rules of causes and of bottlenecks, and what
/// they share.
fn rules() -> Vec<(PathBuf, String)> {
    let diagnosis = Path::new(env!("CARGO_MANIFEST_DIR")).join("../diagnosis/src");
    let folders = ["rules", "bottleneck"].map(|folder| diagnosis.join(folder));
    let files = folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap().flatten());
    let read = |path: PathBuf| (path.clone(), std::fs::read_to_string(path).unwrap());
    let shared = std::iter::once(diagnosis.join("convoy.rs"));
    let files = files.map(|file| file.path()).filter(|path| path.is_file());
    files.chain(shared).map(read).collect()
}

/// Prefixes of other programs' commands that show a setting or a size.
const OTHERS: &[&str] =
    &["cat /", "df ", "vmstat ", "ls /sys/", "dmesg", "nvme ", "dmsetup status --noflush "];

/// Returns the string literals of a source file that are commands of this or another program.
fn commands(source: &str) -> Vec<String> {
    let texts = source.split('"').skip(1).step_by(2);
    let is_command =
        |text: &&str| *text == "iowhy" || text.starts_with("iowhy ") || is_of_others(text);
    texts.filter(is_command).map(str::to_owned).collect()
}

/// Returns the commands that are given as evidence: the last argument of `shown`, or the value it
/// is bound to.
fn evidence(source: &str) -> Vec<String> {
    let mut found = Vec::new();
    for call in source.split(".shown(").skip(1) {
        let own = call.split("\n        .").next().unwrap_or(call);
        let own = own.split(";\n").next().unwrap_or(own);
        found.extend(commands(own).pop().or_else(|| bound(own, source)));
    }
    found
}

/// Returns the command that a `let` binds to one of a call's words.
fn bound(call: &str, source: &str) -> Option<String> {
    let words = call.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
    let bindings = words.filter(|word| !word.is_empty()).flat_map(|word| {
        let binding = format!("let {word} = ");
        let bound = source.split(&*binding).skip(1);
        bound.filter_map(|after| commands(after.split(';').next()?).pop()).collect::<Vec<_>>()
    });
    bindings.last()
}

fn is_of_others(command: &str) -> bool {
    OTHERS.iter().any(|begin| command.starts_with(begin))
}

fn filled(command: &str) -> Vec<String> {
    let mut all = vec![command.to_owned()];
    for (place, values) in FILLED {
        let with = |text: String| -> Vec<String> {
            if text.contains(place) {
                values.iter().map(|value| text.replace(place, value)).collect()
            } else {
                vec![text]
            }
        };
        all = all.into_iter().flat_map(with).collect();
    }
    all
}

#[test]
fn evidence_is_a_command() {
    let mut seen = 0;
    for (path, source) in rules() {
        let shown = source.matches(".shown(").count();
        let named = evidence(&source);
        assert!(named.len() >= shown, "{}: {shown} figures, {named:?}", path.display());
        for command in named.iter().flat_map(|command| filled(command)) {
            assert!(!command.contains(['{', '|', '>', ';', '$', '`']), "{command}");
            if is_of_others(&command) {
                continue;
            }
            let parsed = Cli::try_parse_from(command.split_whitespace());
            assert!(parsed.is_ok(), "{}: {command}: {}", path.display(), parsed.unwrap_err());
            seen += 1;
        }
    }
    assert!(seen > 100, "{seen}");
}
