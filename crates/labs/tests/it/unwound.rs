//! User stacks of programs without frame pointers, by their `.eh_frame`.

use crate::chains::{
    Program, SECONDS, compiled_with, compiler, made, source, throttled as watch_throttled,
};
use crate::recording::Recording;
use crate::support::trial_alone;
use iowhy_labs::{Result, command};
use iowhy_model::Stack;
use libtest_mimic::Trial;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Few enough that each write waits for longer than 10 ms.
const WRITES_PER_SECOND: u64 = 40;
/// The program's name, as a process.
const NAME: &str = "unwound-c";
/// The compiler's options for a program without frame pointers, and for one with them.
pub const NO_FRAME_POINTERS: &[&str] = &["-O2", "-fomit-frame-pointer"];
pub const FRAME_POINTERS: &[&str] =
    &["-O2", "-fno-omit-frame-pointer", "-mno-omit-leaf-frame-pointer", "-static"];

pub fn tests() -> Vec<Trial> {
    vec![
        trial_alone("unwound::without_frame_pointers", without),
        trial_alone("unwound::with_frame_pointers", with),
        trial_alone("unwound::go_without_symbols", go),
    ]
}

fn watch(options: &[&str], name: &str) -> Result<Recording> {
    let program = compiled_with("unwound.c", name, options)?;
    let program: Program = Box::new(move |file| {
        let mut command = Command::new(&program);
        command.arg(file).arg(SECONDS.to_string());
        command
    });
    watch_throttled(&program, WRITES_PER_SECOND, Duration::ZERO, |_| Ok(()))
}

/// Returns the stacks of the program's waits and requests.
fn stacks_of<'a>(recording: &'a Recording, name: &str) -> Vec<&'a Stack> {
    let own = |process| recording.text(process) == name;
    let waits = recording.waits.iter().filter(|wait| own(wait.process));
    let requests = recording.requests.iter().filter(|request| own(request.process));
    let ids: BTreeSet<u64> = waits
        .filter_map(|wait| wait.user_stack_id)
        .chain(requests.filter_map(|request| request.user_stack_id))
        .collect();
    recording.stacks.iter().filter(|stack| stack.user && ids.contains(&stack.stack_id)).collect()
}

fn shown(recording: &Recording, stacks: &[&Stack]) -> String {
    let line = |stack: &&Stack| {
        let frames = recording.frames(Some(stack.stack_id)).join(" < ");
        let (way, reason) = (recording.text(stack.unwound_by), recording.text(stack.reason));
        format!("{way}: {frames} ({reason})\n")
    };
    stacks.iter().map(line).collect()
}

fn without() -> Result<()> {
    expect_by_tables(&watch(NO_FRAME_POINTERS, NAME)?, NAME);
    Ok(())
}

/// Long waits and requests have complete stacks.
pub fn expect_by_tables(recording: &Recording, name: &str) {
    let stacks = stacks_of(recording, name);
    let by_tables = |stack: &&&Stack| recording.text(stack.unwound_by) == ".eh_frame";
    let unwound: Vec<&Stack> = stacks.iter().filter(by_tables).copied().collect();
    let text = shown(recording, &stacks);
    assert!(!unwound.is_empty(), "none by .eh_frame:\n{text}");
    assert!(unwound.iter().all(|stack| stack.complete), "{text}");
    let leads_to_main = |stack: &&Stack| {
        let frames = recording.frames(Some(stack.stack_id));
        let place = |name: &str| frames.iter().position(|frame| *frame == name);
        let order = ["write_one", "writes_at_depth", "writer", "main"].map(place);
        order.iter().all(Option::is_some) && order.is_sorted()
    };
    assert!(unwound.iter().any(leads_to_main), "no complete stack to main:\n{text}");
    let complete: BTreeSet<u64> = unwound.iter().map(|stack| stack.stack_id).collect();
    let is_complete = |id: Option<u64>| id.is_some_and(|id| complete.contains(&id));
    let own = recording.waits.iter().filter(|wait| recording.text(wait.process) == name);
    let mut long = own.filter(|wait| wait.duration_ns >= 10_000_000);
    assert!(long.any(|wait| is_complete(wait.user_stack_id)), "no long wait has one:\n{text}");
    assert!(recording.requests.iter().any(|request| is_complete(request.user_stack_id)), "{text}");
}

fn with() -> Result<()> {
    let name = "unwound-fp";
    expect_by_frame_pointers(&watch(FRAME_POINTERS, name)?, name);
    Ok(())
}

/// If the program keeps frame pointers, they lead to the beginning of its thread. The C library
/// keeps none, so main's stack ends early in it.
pub fn expect_by_frame_pointers(recording: &Recording, name: &str) {
    let stacks = stacks_of(recording, name);
    let text = shown(recording, &stacks);
    let is_walked = |stack: &&Stack| {
        let frames = recording.frames(Some(stack.stack_id));
        let is_whole = stack.complete && frames.contains(&"writes_at_depth");
        is_whole && recording.text(stack.unwound_by) == "frame pointers"
    };
    assert!(stacks.iter().any(is_walked), "{text}");
    let of_thread =
        |stack: &&&Stack| recording.frames(Some(stack.stack_id)).contains(&"start_thread");
    let mut unwound = stacks.iter().filter(of_thread);
    assert!(
        unwound.all(|unwound| recording.text(unwound.unwound_by) == "frame pointers"),
        "{text}"
    );
}

/// A goroutine's stack is complete and has names, also if the program has no symbols, and only
/// tables of its C part.
fn go() -> Result<()> {
    let program = made("unwound-go");
    let mut build = Command::new(compiler("go")?);
    build.env("CGO_ENABLED", "1").args(["build", "-ldflags", "-s -w -linkmode external", "-o"]);
    command::output_of({
        build.arg(&program).arg(source("unwound.go"));
        build
    })?;
    let sections = command::run("readelf", [Path::new("-SW"), &program])?;
    assert!(sections.contains(".eh_frame") && !sections.contains(".symtab"), "{sections}");
    let program: Program = Box::new(move |file| {
        let mut command = Command::new(&program);
        command.arg(file).arg(SECONDS.to_string());
        command
    });
    let recording = watch_throttled(&program, WRITES_PER_SECOND, Duration::ZERO, |_| Ok(()))?;
    let stacks = stacks_of(&recording, "unwound-go");
    let text = shown(&recording, &stacks);
    // Go's own table of functions names them, however a stack was walked, and tells where it ends.
    let named = stacks.iter().filter_map(|stack| {
        let frames = recording.frames(Some(stack.stack_id));
        frames.contains(&"main.writeAtDepth").then_some((stack, frames))
    });
    let is_whole = |(stack, frames): &(&&Stack, Vec<&str>)| {
        stack.complete && frames.last() == Some(&"runtime.goexit")
    };
    assert!(named.clone().count() > 0 && named.clone().all(|named| is_whole(&named)), "{text}");
    let by_tables = |stack: &&&Stack| recording.text(stack.unwound_by) == ".eh_frame";
    assert!(stacks.iter().filter(by_tables).all(|stack| stack.complete), "{text}");
    // The recursion alone is eight functions deep.
    assert!(named.clone().any(|(_, frames)| frames.len() >= 8), "{text}");
    Ok(())
}
