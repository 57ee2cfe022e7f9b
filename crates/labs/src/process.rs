//! Processes that a lab started, and only those: ended as Ctrl-C would.

use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::process::Child;
use std::time::{Duration, Instant};

/// The time that a process may take to end before it is killed.
const PATIENCE: Duration = Duration::from_secs(30);

/// Sends `signal` to a process that has not been waited for.
pub fn signal(child: &Child, signal: Signal) {
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ended_already = kill_process(pid, signal);
    }
}

/// Ends a process as Ctrl-C would; kills it if that does not help.
pub fn end(child: &mut Child) {
    if child.try_wait().is_ok_and(|status| status.is_none()) {
        signal(child, Signal::INT);
    }
    wait_or_kill(child, PATIENCE);
}

/// Waits until it has ended; kills it after `patience`.
pub fn wait_or_kill(child: &mut Child, patience: Duration) {
    let start = Instant::now();
    while child.try_wait().is_ok_and(|status| status.is_none()) {
        if start.elapsed() > patience {
            let _ended_already = child.kill();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns these processes and all their descendants.
pub fn below(pids: &[u32]) -> Vec<u32> {
    let mut found = pids.to_vec();
    let parents: Vec<(u32, u32)> =
        all().filter_map(|pid| Some((pid, field(pid, PARENT)?.parse().ok()?))).collect();
    let mut at = 0;
    while let Some(parent) = found.get(at).copied() {
        let children = parents.iter().filter(|(pid, of)| *of == parent && !found.contains(pid));
        let children: Vec<u32> = children.map(|(pid, _)| *pid).collect();
        found.extend(children);
        at += 1;
    }
    found
}

/// The processes that were started with this in their environment.
pub fn with_environment(variable: &str) -> impl Iterator<Item = u32> + '_ {
    all().filter(move |pid| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|part| part == variable.as_bytes())
    })
}

/// Kills a process by its number.
pub fn kill(pid: u32) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ended_already = kill_process(pid, Signal::KILL);
    }
}

/// The CPU time that a process took, milliseconds.
pub fn cpu_ms(pid: u32) -> Option<f64> {
    let ticks = |at| field(pid, at).and_then(|field| field.parse::<f64>().ok());
    let a_second = rustix::param::clock_ticks_per_second() as f64;
    Some((ticks(USER_TIME)? + ticks(SYSTEM_TIME)?) / a_second * 1e3)
}

/// The faults of a process that had to read from a device.
pub fn major_faults(pid: u32) -> Option<u64> {
    field(pid, MAJOR_FAULTS)?.parse().ok()
}

/// Returns the number of read and write calls of a process, with their variants.
pub fn calls(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
    let of =
        |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.parse::<u64>().ok());
    Some(of("syscr: ")? + of("syscw: ")?)
}

/// Fields of `/proc/PID/stat` after the name, as proc(5) numbers them.
const PARENT: usize = 4;
const MAJOR_FAULTS: usize = 12;
const USER_TIME: usize = 14;
const SYSTEM_TIME: usize = 15;

fn field(pid: u32, number: usize) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may contain any character, also a parenthesis.
    let (_, rest) = text.rsplit_once(") ")?;
    rest.split(' ').nth(number - 3).map(str::to_owned)
}

fn all() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}
