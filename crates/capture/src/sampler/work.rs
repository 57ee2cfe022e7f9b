//! Who may wait for the processes that do I/O: read when they get their first rows, and again now
//! and then.
//!
//! What does not belong here: how it is read (see [`crate::host::work`]).

use super::Out;
use crate::host::own;
use crate::host::work::{SocketTables, WorkSeen};
use iowhy_core::bounded_map::RestartingMap;
use iowhy_core::model::{Metric, Name};

/// Processes that are read per sample.
const MOST_READ: usize = 16;
/// CPU time per sample after which no further process is read, nanoseconds.
const BUDGET_NS: u64 = 10_000_000;
/// Samples after which one is read again.
const AGAIN: u64 = 8;
/// Processes that are followed.
const MOST_FOLLOWED: usize = 4096;

/// The sample of the last read, and what was written then.
type Written = (u64, [Option<u64>; 5]);

/// Reads who may wait for processes.
#[derive(Debug, Default)]
pub(super) struct WorkSampler {
    written: RestartingMap<Name, Written, MOST_FOLLOWED>,
    looks: u64,
}

impl WorkSampler {
    /// Reads those of `told` whose turn it is: processes with their subjects, the busiest first.
    pub fn look(&mut self, told: &[(u32, Name)], out: &mut Out<'_>) {
        self.looks += 1;
        let mut tables = SocketTables::default();
        let is_due = |subject: &Name| {
            self.written.get(subject).is_none_or(|(look, _)| look + AGAIN <= self.looks)
        };
        let due: Vec<(u32, Name)> =
            told.iter().filter(|(_, subject)| is_due(subject)).take(MOST_READ).copied().collect();
        let begun_ns = own::cpu_ns();
        for (pid, subject) in due {
            if own::cpu_ns() - begun_ns > BUDGET_NS {
                break;
            }
            match WorkSeen::of(pid, &mut tables) {
                Some(seen) => self.write(subject, &seen, out),
                // One that cannot be read takes no place of another one's in the next sample.
                None => {
                    _ = self.written.insert(subject, (self.looks, <[Option<u64>; 5]>::default()))
                }
            }
        }
    }

    /// Writes what is new.
    fn write(&mut self, subject: Name, seen: &WorkSeen, out: &mut Out<'_>) {
        let values = [
            (Metric::WorkClients, Some(seen.clients)),
            (Metric::WorkPeers, Some(seen.peers)),
            (Metric::WorkTerminal, Some(u64::from(seen.terminal))),
            (Metric::WorkWaiter, seen.waiter.map(u64::from)),
            (Metric::WorkScheduler, Some(u64::from(seen.scheduler))),
        ];
        let before = self.written.get(&subject).map(|written| written.1).unwrap_or_default();
        for ((metric, value), before) in values.iter().zip(before) {
            if let Some(value) = value.filter(|value| Some(*value) != before) {
                out.row(*metric, subject, value, out.now_ns);
            }
        }
        self.written.insert(subject, (self.looks, values.map(|(_, value)| value)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::system;

    #[test]
    fn what_has_not_changed_is_written_once() {
        let (mut written, mut batch, mut names) = Default::default();
        let mut work = WorkSampler::default();
        let own = (std::process::id(), iowhy_core::model::Names::intern(&mut names, "1 own"));
        for _ in 0..4 {
            let mut out = Out {
                now_ns: system::now_ns(),
                written: &mut written,
                batch: &mut batch,
                names: &mut names,
            };
            work.look(&[own, (u32::MAX, Name::EMPTY)], &mut out);
        }
        let metric = names.intern(Metric::WorkScheduler.info().word);
        let rows = batch.samples.iter().filter(|row| row.metric == metric);
        assert_eq!(rows.count(), 1, "{:?}", batch.samples);
    }
}
