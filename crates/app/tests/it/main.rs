//! Tests that run the program on recordings: no root, no kernel.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test may panic, in its helpers too"
)]

mod convert;
mod decoders;
mod diff;
mod evidence;
mod explain;
mod export;
mod filters;
mod forms;
mod html;
mod incidents;
mod interrupted;
mod manual;
mod mixed;
mod names;
mod pairs;
mod readme;
mod redact;
mod safety;
mod situations;
mod terminal;
mod top;
mod unrecorded;

use serde_json::Value;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// The recordings of labs that are kept: each folder's name is its cause.
fn labs() -> Vec<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../diagnosis/tests/labs");
    let mut labs: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path()).collect();
    labs.sort();
    labs
}

fn iowhy<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_iowhy"));
    command.args(arguments).stdin(Stdio::null()).env("NO_COLOR", "1");
    command.output().unwrap()
}

/// Returns the output of a command that must not fail.
fn answer<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> String {
    let output = iowhy(arguments);
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {message}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

fn json<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Value {
    serde_json::from_str(&answer(arguments)).unwrap()
}
