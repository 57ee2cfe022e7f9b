//! Programs that made others wait: processes of one name in one container are one program.

use super::{Facts, Waited};
use crate::words;
use iowhy_analysis::summary::ProcessRow;
use std::collections::{BTreeMap, BTreeSet};

/// A program of this machine that others wait behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BehindProgram {
    /// Its name.
    pub process: String,
    /// The PID of one of its processes.
    pub pid: Option<u32>,
    /// Its container or systemd unit.
    pub container: Option<String>,
    /// Time that the device served its requests while others waited, nanoseconds.
    pub time_ns: u64,
    /// The program that waited longest behind it.
    pub victim: String,
    /// Total time that these others waited for requests, nanoseconds.
    pub waited_ns: u64,
}

/// The class that has what all others leave.
pub const IDLE_CLASS: &str = "idle";

impl<'a> Facts<'a> {
    /// Returns the programs whose requests of these origins made other programs wait; empty without
    /// blame. Two tenants may run programs of one name, so containers distinguish them.
    pub fn behind(&self, origins: &[&str]) -> Vec<BehindProgram> {
        let mut found: BTreeMap<(&str, Option<&str>), BehindProgram> = BTreeMap::new();
        for waiter in self.summary().blame.iter().flat_map(|blame| &blame.waiters) {
            let own = (waiter.process.as_str(), self.container_of(waiter.pid, &waiter.process));
            let mut counted: Vec<(&str, Option<&str>)> = Vec::new();
            for behind in waiter.behind.iter().filter(|culprit| !culprit.own) {
                let Some(process) = behind.process.as_deref() else { continue };
                let program = (process, self.container_of(behind.pid, process));
                let counts = behind.origin.is_some_and(|origin| origins.contains(&origin));
                let yields = self.yields_to((waiter.pid, own.0), (behind.pid, process));
                let is_harm = is_other(program, own) && !yields;
                if !counts || !is_harm {
                    continue;
                }
                let its = found.entry(program).or_insert_with(|| BehindProgram {
                    process: process.to_owned(),
                    pid: behind.pid,
                    container: program.1.map(str::to_owned),
                    time_ns: 0,
                    victim: words::process(&waiter.process, waiter.pid, own.1),
                    waited_ns: 0,
                });
                its.time_ns += behind.time_ns;
                if !counted.contains(&program) {
                    counted.push(program);
                    its.waited_ns += waiter.shares.waited_ns;
                }
            }
        }
        found.into_values().collect()
    }

    /// Returns how much of these waits' time is charged to requests of anybody, nanoseconds: what
    /// was in the device's queue or at the device, of processes that blame has.
    pub fn seen_by_blame_ns(&self, waited: &Waited<'_>) -> u64 {
        let pids: BTreeSet<u32> = waited.groups.iter().map(|group| group.pid).collect();
        let waiters = self.summary().blame.iter().flat_map(|blame| &blame.waiters);
        let own = waiters.filter(|waiter| waiter.pid.is_some_and(|pid| pids.contains(&pid)));
        own.map(|waiter| waiter.shares.waited_ns).fold(0, u64::saturating_add)
    }

    /// Returns what is known of a process beside its activity.
    pub fn identity(&self, pid: u32, process: &str) -> Option<&'a ProcessRow> {
        self.summary().identities.get(&(pid, process.to_owned()))
    }

    /// Whether a process has what others leave, of the CPUs or of the disks: `chrt -i`, `ionice -c
    /// 3`.
    pub fn is_of_idle_class(&self, pid: u32, process: &str) -> bool {
        let identity = self.identity(pid, process);
        identity.is_some_and(|identity| identity.io_class.as_deref() == Some(IDLE_CLASS))
    }

    /// Returns the container or systemd unit of a process, if known.
    fn container_of(&self, pid: Option<u32>, process: &str) -> Option<&'a str> {
        self.identity(pid?, process)?.container.as_deref()
    }
}

/// Whether these are two programs: with different names, or known to be in different containers.
fn is_other(one: (&str, Option<&str>), other: (&str, Option<&str>)) -> bool {
    let differ = |(a, b): (Option<&str>, Option<&str>)| a.is_some() && b.is_some() && a != b;
    one.0 != other.0 || differ((one.1, other.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_differ_by_name_or_container() {
        let of = |container| ("postgres", container);
        assert!(is_other(of(Some("pod-a")), of(Some("pod-b"))));
        assert!(!is_other(of(Some("pod-a")), of(Some("pod-a"))));
        // If one is unknown, they may be parts of one.
        assert!(!is_other(of(Some("pod-a")), of(None)));
        assert!(is_other(of(None), ("mysqld", None)));
    }
}
