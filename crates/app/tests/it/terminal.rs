//! Plain commands on terminals that can do little: no colours, no cursor, forty columns, ASCII.

use std::process::{Command, Stdio};

const COLUMNS: usize = 40;
/// Views whose lines are as wide as the tool's that they replace: they have fixed columns.
const FIXED: &[&str] = &["snoop", "opens"];

/// Returns the output of a command with such a terminal; `lab` is a recording below the kept ones.
fn printed(arguments: &[&str], lab: &str) -> String {
    let folder = crate::labs()[0].parent().unwrap().to_owned();
    let mut command = Command::new(env!("CARGO_BIN_EXE_iowhy"));
    command.current_dir(folder).args(arguments).arg(lab).stdin(Stdio::null());
    command.env_remove("NO_COLOR").env_remove("LANG").env_remove("LC_CTYPE");
    command.env("TERM", "dumb").env("COLUMNS", COLUMNS.to_string()).env("LC_ALL", "C");
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?} {lab}: {said}");
    assert!(!said.contains(['\r', '\u{1b}']), "{arguments:?} {lab}: {said:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Whether a line may be wider: a command that is meant to be copied is never broken.
fn is_command(line: &str) -> bool {
    let line = line.trim_start_matches("more").trim_start();
    ["iowhy ", "echo ", "sysctl ", "cat ", "dd ", "smartctl ", "nvme ", "kill ", "grep "]
        .iter()
        .any(|program| line.starts_with(program))
}

#[test]
fn nothing_is_wider_than_a_narrow_dumb_terminal() {
    for lab in crate::labs() {
        let lab = lab.file_name().unwrap().to_str().unwrap().to_owned();
        for arguments in [
            &["report"][..],
            &["report", "--full"],
            &["explain", "1"],
            &["waits"],
            &["files"],
            &["stat"],
            &["latency"],
            &["stacks"],
            &["blame"],
            &["chains"],
            &["cache"],
            &["proc"],
            &["opens"],
            &["snoop"],
        ] {
            let text = printed(arguments, &lab);
            // Not every recording has opened files.
            assert!(arguments == ["opens"] || !text.is_empty(), "{arguments:?} {lab}");
            for line in text.lines() {
                let is_plain = line.chars().all(|character| matches!(character, ' '..='~'));
                assert!(is_plain, "{arguments:?} {lab}: {line:?}");
                let may_be_wide = FIXED.contains(&arguments[0]) || is_command(line);
                assert!(may_be_wide || line.len() <= COLUMNS, "{arguments:?} {lab}: {line}");
            }
        }
    }
}
