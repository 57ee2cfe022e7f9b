//! `iowhy diff` from the outside.

use crate::{answer, iowhy, json, labs};
use std::ffi::OsStr;

#[test]
fn a_recording_does_not_differ_from_itself() {
    for lab in labs() {
        let found = json([OsStr::new("diff"), OsStr::new("--json"), lab.as_ref(), lab.as_ref()]);
        assert_eq!(found["verdict"], "same", "{}: {}", lab.display(), found["sentence"]);
        assert_eq!(found["environment"].as_array().map(Vec::len), Some(0));
    }
}

#[test]
fn what_hangs_is_said_first() {
    let [slow, hung] = ["device-slow-tail", "hung-io"]
        .map(|name| labs().into_iter().find(|lab| lab.ends_with(name)));
    let (slow, hung) = (slow.unwrap(), hung.unwrap());
    let arguments = [OsStr::new("diff"), slow.as_ref(), hung.as_ref(), OsStr::new("--width=60")];
    let screen = answer(arguments);
    assert!(screen.contains("loop6 completed nothing in the last 18.0 s of B"), "{screen}");
    assert!(screen.lines().all(|line| line.chars().count() <= 60), "{screen}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let lab = labs().remove(0);
    let unknown = iowhy([OsStr::new("diff"), lab.as_ref(), OsStr::new("--device=a=b")]);
    let message = String::from_utf8_lossy(&unknown.stderr);
    assert_eq!(unknown.status.code(), Some(2), "{message}");
    assert!(
        message.contains("failed to compare a") && message.contains("hint: A has requests of"),
        "{message}"
    );
    let nothing = iowhy([OsStr::new("diff"), lab.as_ref(), OsStr::new("/nonexistent")]);
    assert_eq!(nothing.status.code(), Some(1));
}
