//! Screens and JSON of comparisons whose right answers are known.

use crate::scenes;
use iowhy_analysis::script::ScriptSummary;
use iowhy_diagnosis::diagnose;
use iowhy_diagnosis::diff::{Comparison, DiffSide, compare};
use iowhy_model::script::Script;
use iowhy_views::style::Style;
use iowhy_views::{diff, escape, json};

fn compared(a: &Script, b: &Script, mapped: &[(&str, &str)]) -> Comparison {
    let summaries = [a.summary(), b.summary()];
    let diagnoses = [diagnose(&summaries[0]), diagnose(&summaries[1])];
    let side = |at: usize| DiffSide {
        name: ["before", "after"][at],
        summary: &summaries[at],
        diagnosis: &diagnoses[at],
    };
    let mapped: Vec<(String, String)> =
        mapped.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
    compare([side(0), side(1)], &mapped).unwrap()
}

fn screen(name: &str, comparison: &Comparison, width: usize) {
    let found = diff::render(comparison, &Style::plain(width));
    for line in found.lines() {
        assert!(escape::width(line) <= width, "{name}: too wide: {line}");
        assert!(!line.ends_with(' '), "{name}: space at the end: {line}");
    }
    crate::screens::compare(&format!("tests/it/screens/{name}.txt"), &found);
}

#[test]
fn a_scheduler_and_a_kernel() {
    let comparison = compared(&scenes::tuned(), &scenes::untuned(), &[]);
    for width in [40, 80, 120] {
        screen(&format!("diff-{width}"), &comparison, width);
    }
}

#[test]
fn a_drive_and_its_sibling() {
    let jenkins = scenes::jenkins();
    screen("diff-sibling-80", &compared(&jenkins, &jenkins, &[("xvdj", "nvme0n1")]), 80);
}

#[test]
fn a_capture_and_nothing() {
    screen("diff-lacking-80", &compared(&scenes::jenkins(), &scenes::imported(), &[]), 80);
    screen("diff-nothing-80", &compared(&Script::new(10), &Script::new(10), &[]), 80);
}

#[test]
fn hostile_names_break_nothing() {
    let comparison = compared(&scenes::hostile(), &scenes::hostile(), &[]);
    for width in [0, 40, 80, 200] {
        let style = Style { unicode: false, width, ..Style::plain(80) };
        let found = diff::render(&comparison, &style);
        assert!(found.is_ascii() && found.chars().all(|char| char == '\n' || !char.is_control()));
        assert!(found.lines().all(|line| line.len() <= style.columns()), "{width}:\n{found}");
    }
}

#[test]
fn json_has_the_same_figures() {
    let comparison = compared(&scenes::tuned(), &scenes::untuned(), &[]);
    let report: serde_json::Value = serde_json::from_str(&json::diff(&comparison)).unwrap();
    assert_eq!(report["verdict"], "moved");
    assert_eq!(report["sentence"], comparison.sentence.as_str());
    let first = &report["times"][0];
    assert_eq!(first["parts"][0]["what"], "i2d");
    let place = first["parts"][0]["beside"][0].as_u64().unwrap() as usize;
    assert_eq!(report["environment"][place]["name"], "queue/scheduler");
    assert_eq!(report["sides"][1]["kernel"], "6.1.0");
}
