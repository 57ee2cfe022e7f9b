//! Who made others wait, told by program: processes of one name are parts of one.

use super::Facts;
use crate::diagnosis::words;
use std::collections::BTreeMap;

/// A program of this machine that others wait behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Behind {
    /// Its name.
    pub process: String,
    /// The number of one of its processes.
    pub pid: Option<u32>,
    /// For how long the device worked on its requests while others waited, nanoseconds.
    pub time_ns: u64,
    /// Who waited behind it, the one that was made to wait longest.
    pub victim: String,
    /// All that these others waited for requests, nanoseconds.
    pub waited_ns: u64,
}

impl Facts<'_> {
    /// Who made processes of other names wait by requests of these origins; nobody where it is not known.
    pub fn behind(&self, origins: &[&str]) -> Vec<Behind> {
        let mut found: BTreeMap<&str, Behind> = BTreeMap::new();
        for waiter in self.summary().blame.iter().flat_map(|blame| &blame.waiters) {
            let mut counted: Vec<&str> = Vec::new();
            for behind in waiter.behind.iter().filter(|it| !it.own) {
                let Some(process) = behind.process.as_deref() else { continue };
                let counts = behind.origin.is_some_and(|origin| origins.contains(&origin));
                if !counts || process == waiter.process {
                    continue;
                }
                let its = found.entry(process).or_insert_with(|| Behind {
                    process: process.to_owned(),
                    pid: behind.pid,
                    time_ns: 0,
                    victim: words::process(&waiter.process, waiter.pid, None),
                    waited_ns: 0,
                });
                its.time_ns += behind.time_ns;
                if !counted.contains(&process) {
                    counted.push(process);
                    its.waited_ns += waiter.shares.waited_ns;
                }
            }
        }
        found.into_values().collect()
    }
}
