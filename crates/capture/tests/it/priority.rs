//! The reader's raised priority, on a real thread that computes until it is lowered.

use iowhy_capture::priority::{RaisedClass, RaisedPriority};
use rustix::process::getpriority_process;
use std::hint::black_box;
use std::process::Command;
use std::time::{Duration, Instant};

/// A little more than the interval over which the share of a CPU is measured.
const INTERVAL: Duration = Duration::from_millis(110);

fn nice() -> i32 {
    getpriority_process(Some(rustix::thread::gettid())).expect("a thread may read its own priority")
}

/// `policy` of sched(7), as the kernel shows it: 0 is SCHED_OTHER, 6 is SCHED_DEADLINE.
fn policy(process: &str) -> String {
    let path = format!("/proc/{process}/sched");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("policy")).unwrap_or_default();
    line.rsplit(' ').next().unwrap_or_default().to_owned()
}

fn compute_for(time: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < time {
        black_box(begun);
    }
}

#[test]
fn the_priority_is_raised_bounded_and_restored() {
    let before = nice();
    let mut priority = RaisedPriority::of_this_thread();
    let Some(class) = priority.class() else {
        eprintln!("skipped: this process may not raise its priority");
        assert_eq!(nice(), before);
        return;
    };
    match class {
        RaisedClass::Deadline => assert_eq!(policy("thread-self"), "6"),
        RaisedClass::Nice => assert_eq!(nice(), -20),
    }
    // At nice -20 an interval can pass without half of a CPU: try until one does not.
    for _ in 0..50 {
        compute_for(INTERVAL);
        priority.keep_bounded();
        if priority.class().is_none() {
            break;
        }
    }
    assert_eq!((nice(), policy("thread-self").as_str()), (before, "0"));
    std::thread::sleep(INTERVAL);
    priority.keep_bounded();
    assert_eq!(priority.class(), Some(class));
    drop(priority);
    assert_eq!((nice(), policy("thread-self").as_str()), (before, "0"));
}

#[test]
fn what_a_raised_thread_starts_is_not_raised() {
    let priority = RaisedPriority::of_this_thread();
    if priority.class() != Some(RaisedClass::Deadline) {
        eprintln!("skipped: no deadline scheduling: {:?}", priority.class());
        return;
    }
    let mut sleeper = Command::new("sleep").arg("60").spawn().expect("sleep starts");
    let found = policy(&sleeper.id().to_string());
    sleeper.kill().expect("it is ours");
    sleeper.wait().expect("it ends");
    assert_eq!(found, "0");
}
