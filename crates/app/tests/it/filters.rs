//! Filters and missing data, tested from the outside.

use crate::{answer, iowhy, json, labs};
use std::fs;
use std::path::{Path, PathBuf};

fn lab(name: &str) -> PathBuf {
    labs().into_iter().find(|lab| lab.ends_with(name)).unwrap()
}

/// Standard error, and the exit code.
fn message(words: &[&str], lab: &Path) -> (String, Option<i32>) {
    let output = iowhy(words.iter().copied().chain([lab.to_str().unwrap()]));
    (String::from_utf8(output.stderr).unwrap(), output.status.code())
}

#[test]
fn a_filter_changes_no_finding() {
    for lab in labs() {
        let path = lab.to_str().unwrap();
        let whole = json(["report", path, "--json"]);
        for filter in [["-f", "/nosuch"], ["-p", "nobody"], ["--above", "100000"]] {
            // A filter that selects nothing makes the command fail, after its report has said so.
            let output = iowhy(["report", path, "--json", filter[0], filter[1]]);
            let part: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!(part["findings"], whole["findings"], "{path} {filter:?}");
            assert_eq!(part["doubt"], whole["doubt"], "{path} {filter:?}");
            let seen = part["watch"]["requests"].as_u64().unwrap();
            let left_out = part["watch"]["left_out_requests"].as_u64().unwrap();
            assert_eq!(seen + left_out, whole["watch"]["requests"], "{path} {filter:?}");
        }
    }
}

#[test]
fn a_device_that_a_recording_does_not_have_is_refused() {
    let lab = lab("device-slow-tail");
    for view in ["stat", "latency", "proc", "cache", "waits", "stacks", "snoop", "blame", "report"]
    {
        let (message, code) = message(&[view, "-d", "nosuch"], &lab);
        assert_eq!(code, Some(1), "{view}: {message}");
        assert!(
            message.contains(
                "failed to find device nosuch: the source does not have \
            it"
            ),
            "{message}"
        );
        assert!(message.contains("hint: it has requests of loop"), "{view}: {message}");
    }
}

#[test]
fn waits_that_are_not_there_are_not_known() {
    let whole = lab("metadata-scan");
    assert!(!answer([Path::new("waits"), whole.as_path()]).contains("not known"));
    let part = Path::new(env!("CARGO_TARGET_TMPDIR")).join("without-waits");
    let _ = fs::remove_dir_all(&part);
    copy(&whole, &part);
    for table in ["waits", "wait_requests"] {
        fs::remove_dir_all(part.join(table)).unwrap();
    }
    let found = answer([Path::new("waits"), part.as_path()]);
    assert!(found.contains("blocked time is not known"), "{found}");
    assert!(found.contains("no table of waits"), "{found}");
    fs::remove_dir_all(&part).unwrap();
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let place = to.join(entry.file_name());
        match entry.path().is_dir() {
            true => copy(&entry.path(), &place),
            false => _ = fs::copy(entry.path(), place).unwrap(),
        }
    }
}
