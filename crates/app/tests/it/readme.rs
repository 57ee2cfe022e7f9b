//! The README's screen is what its command prints. If the screen is meant to change, run this with
//! `IOWHY_BLESS=1`, and read it as the person at 3 a.m. would. Its other commands are run by
//! `crates/labs/tests/it/documents.rs`.

use std::path::Path;
use std::process::{Command, Stdio};

const BEGIN: &str =
    "<!-- screen: written by IOWHY_BLESS=1 cargo test -p iowhy --test it readme:: -->\n";
const END: &str = "<!-- end of screen -->";

#[test]
fn its_screen_is_what_the_command_prints() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = root.join("README.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (block, after) = rest.split_once(END).unwrap();
    let command = block.lines().find_map(|line| line.strip_prefix("$ ")).unwrap();
    let mut words = command.split(' ');
    assert_eq!(words.next(), Some("iowhy"));
    let mut iowhy = Command::new(env!("CARGO_BIN_EXE_iowhy"));
    iowhy.args(words).current_dir(&root).stdin(Stdio::null());
    iowhy.env("NO_COLOR", "1").env("TZ", "UTC").env("COLUMNS", "80").env("LC_ALL", "C.UTF-8");
    let output = iowhy.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let screen = String::from_utf8(output.stdout).unwrap();
    let wanted = format!("{before}{BEGIN}\n```\n$ {command}\n{screen}```\n\n{END}{after}");
    if std::env::var_os("IOWHY_BLESS").is_some() {
        std::fs::write(&path, wanted).unwrap();
    } else {
        assert!(page == wanted, "README.md is old: run this with IOWHY_BLESS=1\n{screen}");
    }
}

/// Functions of a program without symbols that may follow one another on a stack; a walk through a
/// stack that has no frame pointers gives dozens of addresses that are none.
const MOST_UNNAMED: usize = 4;

#[test]
fn its_recording_has_stacks_of_functions() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut iowhy = Command::new(env!("CARGO_BIN_EXE_iowhy"));
    iowhy.args(["stacks", "demo/recording", "--json"]).current_dir(&root).stdin(Stdio::null());
    let output = iowhy.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = told["figures"]["rows"].as_array().unwrap();
    assert!(rows.len() > 3, "{told}");
    for row in rows {
        let user = row["user"].as_array().unwrap();
        let is_unnamed = |frame: &serde_json::Value| frame.as_str().unwrap().starts_with("0x");
        let longest = user.split(|frame| !is_unnamed(frame)).map(<[_]>::len).max();
        assert!(longest <= Some(MOST_UNNAMED), "no functions: {user:?}");
    }
}
