//! Captures of some events alone: what they cannot tell is null, and `?` in tables.

use crate::{answer, iowhy, json};
use std::fs;

/// A capture with these actions of ten writes.
fn capture(actions: &str) -> (tempfile::TempDir, String) {
    let line = |number: u32, action: char| {
        let (millisecond, process) = (number * 10, if action == 'C' { "0" } else { "a" });
        let later = "QGDC".find(action).unwrap();
        format!(
            "  8,0 3 {number} 0.{millisecond:03}{later}00000 697 {action} W {} + 8 [{process}]\n",
            number * 8
        )
    };
    let text: String = (1..=10)
        .flat_map(|number| actions.chars().map(move |action| line(number, action)))
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("capture.txt");
    fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (folder, path)
}

#[test]
fn stages_tell_no_zero_of_what_was_not_recorded() {
    for (actions, [queued, issued, active]) in [
        ("QGDC", [true, true, true]),
        ("C", [false, false, false]),
        ("D", [false, true, false]),
        ("QC", [true, false, false]),
        ("DC", [false, true, true]),
    ] {
        let (_folder, path) = capture(actions);
        let stages = json(["stages", "--json", &path]);
        let device = &stages["devices"][0];
        assert_eq!(device["queued"].is_number(), queued, "{actions}: {}", device["queued"]);
        assert_eq!(device["merged"].is_number(), queued, "{actions}: {}", device["merged"]);
        assert_eq!(device["issued"].is_number(), issued, "{actions}: {}", device["issued"]);
        assert_eq!(device["requeues"].is_number(), issued, "{actions}: {}", device["requeues"]);
        let share = &device["active"]["time_share"];
        assert_eq!(share.is_number(), active, "{actions}: {share}");
        let text = answer(["stages", &path]);
        let is_unknown = |title: &str, column: usize| {
            let rows = text.lines().skip_while(|line| !line.starts_with(title));
            let row = rows.skip(1).find(|line| line.starts_with("8,0")).unwrap();
            row.split_whitespace().nth(column).unwrap() == "?"
        };
        assert_eq!(is_unknown("TRAFFIC", 1), !queued, "{actions}: {text}");
        assert_eq!(is_unknown("PERIODS", 1), !active, "{actions}: {text}");
    }
}

#[test]
fn a_script_of_btt_is_told_what_its_option_for_bios_is() {
    let (_folder, path) = capture("QGDC");
    let output = iowhy(["stages", "--btt-compat", "-p", "per_io.dump", &path]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("--per-io-dump FILE"), "{said}");
}
