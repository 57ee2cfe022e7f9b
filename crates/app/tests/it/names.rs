//! Words as they are typed: near names, amounts with units, words of iostat's users, filters that
//! select nothing.

use crate::{answer, iowhy, labs};

/// The exit code of a command, and what it said on standard error.
fn said(arguments: &[&str]) -> (Option<i32>, String) {
    let output = iowhy(arguments);
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn lab() -> String {
    labs().remove(0).to_str().unwrap().to_owned()
}

#[test]
fn a_name_that_does_not_exist_has_a_near_one() {
    for (arguments, code, meant) in [
        (&["reprot"][..], 2, "did you mean report"),
        (&["expalin"], 2, "did you mean explain"),
        (&["explain", "fsync"], 1, "fsync-heavy"),
        (&["explain", "metadata"], 1, "metadata-scan"),
    ] {
        let (found, message) = said(arguments);
        assert_eq!(found, Some(code), "{arguments:?}: {message}");
        assert!(message.contains(meant) && !message.contains("rerun"), "{arguments:?}: {message}");
    }
    let (code, message) = said(&[&lab()]);
    assert_eq!(code, Some(2));
    assert!(message.contains("`iowhy report "), "{message}");
    let (code, message) = said(&["-v", "stat"]);
    assert_eq!(code, Some(2));
    assert!(message.contains("`iowhy stat ...`"), "{message}");
}

#[test]
fn a_filter_that_selects_nothing_fails_and_says_what_there_is() {
    let lab = lab();
    for view in ["report", "stat", "proc", "waits", "snoop", "files"] {
        let (code, message) = said(&[view, &lab, "-p", "nosuchprogram"]);
        assert_eq!(code, Some(1), "{view}: {message}");
        assert!(message.contains("nothing was selected by --process nosuchprogram"), "{message}");
        assert!(message.contains("there are I/O and waits of"), "{view}: {message}");
    }
    let (code, message) = said(&["stages", &lab, "-p", "per_io.dat"]);
    assert_eq!(code, Some(1));
    assert!(message.contains("`iowhy stages --per-io-dump FILE`"), "{message}");
    let (code, message) = said(&["report", &lab, "--flags", "XYZ"]);
    assert_eq!(code, Some(2));
    assert!(message.contains("is no flag of rwbs"), "{message}");
}

#[test]
fn amounts_have_units() {
    let lab = lab();
    let view = |above: &str| answer(["stat", &lab, "--above", above]);
    assert_eq!(view("1"), view("1ms"));
    assert_eq!(view("1"), view("1000us"));
    assert_eq!(answer(["stat", &lab, "1"]), answer(["stat", &lab, "1000ms"]));
    for (arguments, hint) in [
        (&["-t", "ten"][..], "not a time"),
        (&["record", "--most-mb", "4k"], "less than 1 MB"),
        (&["5", "0"], "a number of intervals is 1 or more"),
        (&["1", "2", "3"], "at most two numbers"),
    ] {
        let (code, message) = said(arguments);
        assert_eq!(code, Some(2), "{arguments:?}: {message}");
        assert!(message.contains(hint), "{arguments:?}: {message}");
    }
}

#[test]
fn evidence_in_json_names_its_source() {
    let lab = lab();
    let report = crate::json(["report", &lab, "--json"]);
    let mut commands = 0;
    for finding in report["findings"].as_array().unwrap() {
        for evidence in finding["evidence"].as_array().unwrap() {
            let command = evidence["command"].as_str().unwrap();
            assert!(!command.starts_with("iowhy") || command.contains(&lab), "{command}");
            commands += 1;
        }
    }
    assert!(commands > 0);
}

#[test]
fn a_page_for_a_ticket_is_small_and_has_pictures() {
    let folder = tempfile::tempdir().unwrap();
    for (number, lab) in labs().into_iter().enumerate() {
        let page = folder.path().join(format!("{number}.html"));
        let answer =
            answer(["report".as_ref(), lab.as_os_str(), "--share".as_ref(), page.as_os_str()]);
        assert!(answer.contains("WHY"), "the answer is printed, too");
        let text = std::fs::read_to_string(&page).unwrap();
        assert!(text.len() <= 200_000, "{} bytes", text.len());
        assert!(text.contains("<svg") && !text.contains("<script"), "{}", lab.display());
        assert!(text.contains("Evidence"), "{}", lab.display());
    }
}
