//! A program that this one starts ends with it, also if it is killed. The processes are this test
//! itself: without the usual harness, whose main function would not become a program.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::panic,
    reason = "it is a test, which the compiler does not know without the usual harness"
)]

use iowhy_fs::bound;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The argument of the process in between, which is killed.
const BETWEEN: &str = "between";
/// A variable that the program must have.
const VARIABLE: &str = "IOWHY_TEST_BOUND";

fn main() {
    if let Some(cause) = bound::become_program() {
        panic!("{cause}");
    }
    match std::env::args().nth(1).as_deref() {
        Some(BETWEEN) => between(),
        _ => {
            a_program_ends_with_the_process_that_started_it();
            println!("test a_program_ends_with_the_process_that_started_it ... ok");
        }
    }
}

/// Starts two programs, says which, and waits to be killed.
fn between() {
    let script = "echo $$ $IOWHY_TEST_BOUND $PWD; exec sleep 600";
    let mut killed = bound::command(Path::new("sh"));
    killed.args(["-c", script]).env(VARIABLE, "kept").current_dir("/");
    let mut asked = Command::new("sh");
    asked.args(["-c", script]).env(VARIABLE, "kept").current_dir("/");
    let _both = [killed.spawn().unwrap(), bound::asked_to_end(&asked).spawn().unwrap()];
    std::thread::sleep(Duration::from_secs(600));
}

fn is_alive(pid: &str) -> bool {
    // A process that has ended and was not waited for has no memory.
    let memory = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    !memory.is_empty() && !memory.starts_with("0 ")
}

fn a_program_ends_with_the_process_that_started_it() {
    let mut between = Command::new("/proc/self/exe");
    let mut between = between.arg(BETWEEN).stdout(Stdio::piped()).spawn().unwrap();
    let said = BufReader::new(between.stdout.take().unwrap()).lines();
    let said: Vec<String> = said.take(2).map(Result::unwrap).collect();
    let pids = said.iter().map(|line| line.strip_suffix(" kept /").unwrap());
    let pids: Vec<&str> = pids.collect();
    assert!(pids.iter().all(|pid| is_alive(pid)), "{said:?}");
    between.kill().unwrap();
    between.wait().unwrap();
    let begun = Instant::now();
    while pids.iter().any(|pid| is_alive(pid)) {
        assert!(begun.elapsed() < Duration::from_secs(20), "{said:?} outlived it");
        std::thread::sleep(Duration::from_millis(20));
    }
}
