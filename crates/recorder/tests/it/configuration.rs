//! `docs/configuration.md`: each setting that it names exists and has the default that it says, and
//! each one of the packaged file is on it.

use iowhy_recorder::config::RecorderConfig;
use std::path::Path;

fn file(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::read_to_string(root.join(name)).unwrap()
}

/// The rows of the page: table of the file, setting, its default as TOML or a word about it.
fn rows(page: &str) -> Vec<(String, String, String)> {
    let mut table = String::new();
    let mut rows = Vec::new();
    for line in page.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            table = heading.to_owned();
        }
        let cells: Vec<&str> = line.split(" | ").collect();
        if let [setting, default, _] = cells[..]
            && let Some(name) = setting.strip_prefix("| `").and_then(|rest| rest.strip_suffix('`'))
        {
            rows.push((table.clone(), name.to_owned(), default.to_owned()));
        }
    }
    rows
}

#[test]
fn settings_and_defaults_are_those_of_the_program() {
    let rows = rows(&file("docs/configuration.md"));
    assert!(rows.len() > 25, "{rows:?}");
    let mut text = String::new();
    let mut tables: Vec<&str> = Vec::new();
    for (table, name, default) in &rows {
        let Some(value) = default.strip_prefix('`').and_then(|rest| rest.strip_suffix('`')) else {
            continue;
        };
        // A hook and a condition have no default as a whole.
        if table == "[hook]" || table == "[[trigger.when]]" {
            continue;
        }
        if table.starts_with('[') && !tables.contains(&table.as_str()) {
            tables.push(table);
            text.push_str(&format!("{table}\n"));
        }
        text.push_str(&format!("{name} = {value}\n"));
    }
    let parsed = RecorderConfig::parse(Path::new("docs"), &text).unwrap();
    assert_eq!(parsed, RecorderConfig::default(), "{text}");
    assert!(tables.contains(&"[trigger]") && text.contains("history-days"));
}

#[test]
fn every_setting_of_the_packaged_file_is_on_the_page() {
    let rows = rows(&file("docs/configuration.md"));
    for line in file("packaging/iowhy.toml").lines() {
        if let Some((name, _)) = line.strip_prefix('#').and_then(|rest| rest.split_once(" = ")) {
            assert!(rows.iter().any(|(_, setting, _)| setting == name), "{name}");
        }
    }
}

#[test]
fn the_examples_can_be_parsed() {
    for page in ["docs/configuration.md", "docs/recorder.md"] {
        for example in file(page).split("```toml\n").skip(1) {
            let example = example.split("```").next().unwrap();
            RecorderConfig::parse(Path::new(page), example).unwrap();
        }
    }
}
