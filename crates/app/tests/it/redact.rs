//! `--redact` on the command line: every command that takes it, and those that refuse.

use crate::{answer, iowhy, labs};

/// The part that every recording of the repository has in its paths: the number of the lab's run.
fn lab() -> String {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../demo/recording");
    root.to_owned()
}

const SECRET: &str = "24986-0";

#[test]
fn no_command_shows_a_name() {
    let lab = lab();
    assert!(answer(["report", &lab, "--full"]).contains(SECRET));
    for arguments in [
        &["report"][..],
        &["report", "--full"],
        &["report", "--json"],
        &["report", "--json=brief"],
        &["explain"],
        &["explain", "--json"],
        &["stat"],
        &["stat", "--json"],
        &["proc"],
        &["proc", "--json"],
        &["files", "--wide"],
        &["files", "--json"],
        &["waits", "--by", "file", "--wide"],
        &["waits", "--by", "file", "--json"],
        &["latency", "--json"],
        &["stacks", "--json"],
        &["cache", "--json"],
        &["snoop", "--wide"],
        &["snoop", "--json"],
        &["opens", "--wide"],
        &["opens", "--json"],
        &["chains"],
        &["chains", "--json"],
        &["blame"],
        &["blame", "--json"],
        &["stages"],
        &["stages", "--json"],
        &["diff", &lab],
        &["diff", &lab, "--json"],
        &["export", "--format", "csv", "--table", "request_parts"],
        &["export", "--format", "csv", "--table", "files"],
        &["export", "--format", "collapsed"],
        &["export", "--format", "perfetto"],
        &["export", "--format", "iolog"],
    ] {
        let output = iowhy(arguments.iter().copied().chain([lab.as_str(), "--redact"]));
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {message}");
        let shown = String::from_utf8_lossy(&output.stdout);
        assert!(!shown.is_empty(), "{arguments:?}");
        let line = shown.lines().find(|line| line.contains(SECRET));
        assert!(line.is_none(), "{arguments:?}: {line:?}");
    }
}

#[test]
fn the_same_recording_has_the_same_placeholders() {
    if !std::path::Path::new("/etc/machine-id").exists() {
        eprintln!("skipped: no /etc/machine-id, so keys are random");
        return;
    }
    let [first, second] = [0, 1].map(|_| answer(["report", &lab(), "--full", "--redact"]));
    assert_eq!(first, second);
}

#[test]
fn filters_take_original_names() {
    let all = answer(["snoop", &lab(), "--json", "-f", "/var/tmp/iowhy-labs/24986-0"]);
    let redacted =
        answer(["snoop", &lab(), "--json", "-f", "/var/tmp/iowhy-labs/24986-0", "--redact"]);
    assert_eq!(redacted.lines().count(), all.lines().count());
    assert!(!redacted.is_empty() && !redacted.contains(SECRET));
}

#[test]
fn a_copy_has_the_findings_and_no_name() {
    let folder = tempfile::tempdir().unwrap();
    for lab in labs() {
        let name = lab.file_name().unwrap().to_str().unwrap().to_owned();
        let copy = folder.path().join(&name);
        let (from, to) = (lab.to_str().unwrap(), copy.to_str().unwrap());
        answer(["export", from, "-o", to, "--redact"]);
        let found = crate::json(["report", to, "--json=brief"]);
        assert_eq!(found["findings"][0]["cause"], name.as_str());
    }
}

#[test]
fn answers_that_are_names_refuse() {
    let lab = lab();
    for arguments in [
        &["locate", "/dev/null", "1"][..],
        &["opens", "--held"],
        &["probe", "/dev/null"],
        &["events", &lab, "--blkparse-compat"],
        &["stages", &lab, "--btt-compat"],
    ] {
        let output = iowhy(arguments.iter().copied().chain(["--redact"]));
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
        assert!(message.contains("failed to redact") && message.contains("hint:"), "{message}");
    }
}
