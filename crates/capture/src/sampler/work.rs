//! Who may wait for the processes that do I/O, and the limit on their memory: read when they get
//! their first rows, and again now and then.
//!
//! What does not belong here: how it is read (see [`crate::host::work`]).

use super::Out;
use crate::host::cgroup::Roots;
use crate::host::own;
use crate::host::work::{SocketTables, WorkSeen};
use iowhy_model::bounded_map::RestartingMap;
use iowhy_model::{Metric, Name};

/// Processes that are read per sample.
const MOST_READ: usize = 16;
/// CPU time per sample after which no further process is read, nanoseconds.
const BUDGET_NS: u64 = 10_000_000;
/// Samples after which one is read again.
const AGAIN: u64 = 8;
/// Samples after which what has not changed is written again: an incident is cut out of a long
/// watch, and must hold it.
const REPEATED: u64 = 32;
/// Processes that are followed.
const MOST_FOLLOWED: usize = 4096;

/// What is known of a process.
#[derive(Clone, Copy, Debug, Default)]
struct Written {
    /// The sample of the last read.
    read: u64,
    /// The sample in which all values were written.
    whole: u64,
    values: [Option<u64>; 8],
}

/// Reads who may wait for processes.
#[derive(Debug, Default)]
pub(super) struct WorkSampler {
    roots: Roots,
    written: RestartingMap<Name, Written, MOST_FOLLOWED>,
    looks: u64,
}

impl WorkSampler {
    /// For controllers with these roots.
    pub fn new(roots: Roots) -> WorkSampler {
        WorkSampler { roots, ..WorkSampler::default() }
    }

    /// Reads those of `told` whose turn it is: processes with their subjects, the busiest first.
    pub fn look(&mut self, told: &[(u32, Name)], out: &mut Out<'_>) {
        self.looks += 1;
        let mut tables = SocketTables::default();
        let is_due = |subject: &Name| {
            self.written.get(subject).is_none_or(|written| written.read + AGAIN <= self.looks)
        };
        let due: Vec<(u32, Name)> =
            told.iter().filter(|(_, subject)| is_due(subject)).take(MOST_READ).copied().collect();
        let begun_ns = own::cpu_ns();
        for (pid, subject) in due {
            if own::cpu_ns() - begun_ns > BUDGET_NS {
                break;
            }
            match WorkSeen::of(pid, &mut tables) {
                Some(seen) => self.write((pid, subject), &seen, out),
                // One that cannot be read takes no place of another one's in the next sample.
                None => {
                    let unread = Written { read: self.looks, ..Written::default() };
                    _ = self.written.insert(subject, unread);
                }
            }
        }
    }

    /// Writes what is new.
    fn write(&mut self, (pid, subject): (u32, Name), seen: &WorkSeen, out: &mut Out<'_>) {
        if let Some((limit, cgroup)) = self.roots.memory_limit_of(pid) {
            out.put(Metric::ProcessMemoryLimit, subject, limit);
            out.put(Metric::ProcessMemoryGroup, subject, cgroup);
        }
        let values = [
            (Metric::WorkClients, Some(seen.clients)),
            (Metric::WorkListeners, Some(seen.listeners)),
            (Metric::WorkPeers, Some(seen.peers)),
            (Metric::WorkTerminal, Some(u64::from(seen.terminal))),
            (Metric::WorkWaiter, seen.waiter.map(u64::from)),
            (Metric::WorkScheduler, Some(u64::from(seen.scheduler))),
            (Metric::ProcessCpu, seen.cpu_ns),
            (Metric::ProcessSystemCpu, seen.system_ns),
        ];
        let recent = |written: &&Written| written.whole + REPEATED > self.looks;
        let before = self.written.get(&subject).filter(recent).copied();
        let before = before.unwrap_or(Written { whole: self.looks, ..Written::default() });
        for ((metric, value), before) in values.iter().zip(before.values) {
            if let Some(value) = value.filter(|value| Some(*value) != before) {
                out.row(*metric, subject, value, out.now_ns);
            }
        }
        let values = values.map(|(_, value)| value);
        self.written.insert(subject, Written { read: self.looks, values, ..before });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::system;

    #[test]
    fn what_has_not_changed_is_written_now_and_then() {
        let (mut written, mut batch, mut names) = Default::default();
        let mut work = WorkSampler::default();
        let own = (std::process::id(), iowhy_model::Names::intern(&mut names, "1 own"));
        let mut rows_after = |looks: u64| {
            let mut out = Out {
                now_ns: system::now_ns(),
                written: &mut written,
                batch: &mut batch,
                names: &mut names,
            };
            for _ in 0..looks {
                work.look(&[own, (u32::MAX, Name::EMPTY)], &mut out);
            }
            let metric = names.intern(Metric::WorkScheduler.info().word);
            batch.samples.iter().filter(|row| row.metric == metric).count()
        };
        assert_eq!(rows_after(4), 1);
        assert_eq!(rows_after(REPEATED - 4), 1);
        assert_eq!(rows_after(AGAIN), 2);
    }
}
