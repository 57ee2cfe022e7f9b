//! What each process had devices do, and what it asked for, as /proc/PID/io and stat tell.

use super::Out;
use crate::host::process::Stat;
use crate::host::{own, read_text};
use iowhy_core::model::metric::process_subject;
use iowhy_core::model::{Metric, Name};
use rustc_hash::FxHashMap;

/// CPU time for one look at processes: 1 % of a CPU, if there is one every second.
const BUDGET_NS: u64 = 10_000_000;
/// Processes that get rows at one look: those that moved most.
const MOST_TOLD: usize = 50;
/// For how many looks a process that did I/O is looked at before others.
const LATELY: u64 = 8;

/// Lines of /proc/PID/io, in its order.
const IO: [Metric; 7] = [
    Metric::LogicalRead,
    Metric::LogicalWrite,
    Metric::ReadCalls,
    Metric::WriteCalls,
    Metric::CausedRead,
    Metric::CausedWrite,
    Metric::CancelledWrite,
];
const OTHER: [Metric; 2] = [Metric::ProcessMajorFaults, Metric::DelayedByIo];

#[derive(Debug, Default)]
pub(super) struct Processes {
    known: FxHashMap<u32, Known>,
    looks: u64,
    /// The process that the next look begins with, of those that did nothing lately.
    cursor: u32,
    /// Those that got their first rows, until somebody takes note of who they are.
    pub told: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    subject: Name,
    started: u64,
    io: [u64; 7],
    /// The look at which its counters had changed last.
    changed: u64,
    seen: u64,
    /// Whether it got rows.
    told: bool,
}

/// A process whose counters have changed.
struct Changed {
    pid: u32,
    io: [u64; 7],
    moved: u64,
}

impl Processes {
    pub fn look(&mut self, out: &mut Out<'_>) {
        self.looks += 1;
        let begun_ns = own::cpu_ns();
        let (first, rest) = self.order();
        let mut changed = Vec::new();
        let mut unread = 0;
        for (index, pid) in first.iter().chain(&rest).enumerate() {
            let budget_ns = if index < first.len() { BUDGET_NS * 2 } else { BUDGET_NS };
            let is_over = own::cpu_ns() - begun_ns > budget_ns;
            if is_over {
                unread += 1;
                self.known.entry(*pid).and_modify(|known| known.seen = self.looks);
                continue;
            }
            self.cursor = if index < first.len() { self.cursor } else { *pid };
            changed.extend(self.read(*pid, out));
        }
        changed.sort_by_key(|it| std::cmp::Reverse(it.moved));
        let untold = changed.len().saturating_sub(MOST_TOLD);
        for it in changed.iter().take(MOST_TOLD) {
            self.tell(it, out);
        }
        out.system(Metric::ProcessesUnread, unread);
        out.system(Metric::ProcessesUntold, untold as u64);
        self.forget(out);
    }

    /// Those that did I/O lately, then the others from where the last look ended.
    fn order(&mut self) -> (Vec<u32>, Vec<u32>) {
        let Ok(entries) = std::fs::read_dir("/proc") else { return Default::default() };
        let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let own = std::process::id();
        let is_lately = |pid: &u32| {
            let known = self.known.get(pid);
            known.is_some_and(|known| known.changed > 0 && known.changed + LATELY > self.looks)
        };
        let (first, mut rest): (Vec<u32>, Vec<u32>) =
            numbers.filter(|pid| *pid != own).partition(is_lately);
        rest.sort_unstable();
        let from = rest.partition_point(|pid| *pid <= self.cursor);
        rest.rotate_left(from);
        (first, rest)
    }

    /// Reads one; says whether it has changed since it was last told.
    fn read(&mut self, pid: u32, out: &mut Out<'_>) -> Option<Changed> {
        let io = io_of(&read_text(format!("/proc/{pid}/io"))?)?;
        let known = match self.known.get_mut(&pid) {
            Some(known) => known,
            None => {
                let (name, started, others) = stat_of(pid)?;
                let subject = out.names.intern(&process_subject(pid, &name));
                let known =
                    Known { subject, started, io, changed: 0, seen: self.looks, told: false };
                put(out, subject, &io, &others);
                self.known.entry(pid).or_insert(known)
            }
        };
        known.seen = self.looks;
        if known.io == io {
            IO.iter().zip(io).for_each(|(metric, value)| out.put(*metric, known.subject, value));
            return None;
        }
        known.changed = self.looks;
        let moved = |at: usize| io[at].saturating_sub(known.io[at]);
        // What devices do for it counts before what it copies from and to memory.
        let weight = (moved(4) + moved(5)).saturating_mul(1000) + moved(0) + moved(1);
        Some(Changed { pid, io, moved: weight })
    }

    fn tell(&mut self, changed: &Changed, out: &mut Out<'_>) {
        let Some((name, started, others)) = stat_of(changed.pid) else { return };
        let Some(known) = self.known.get_mut(&changed.pid) else { return };
        let subject = out.names.intern(&process_subject(changed.pid, &name));
        if known.started != started || known.subject != subject {
            // Another process has the number, or it runs another program now.
            out.forget(&IO, known.subject);
            out.forget(&OTHER, known.subject);
            let began = if known.started == started { known.io } else { [0; 7] };
            put(out, subject, &began, &[0, 0]);
            (known.subject, known.started, known.told) = (subject, started, false);
        }
        if !std::mem::replace(&mut known.told, true) {
            self.told.push(changed.pid);
        }
        known.io = changed.io;
        put(out, subject, &changed.io, &others);
    }

    fn forget(&mut self, out: &mut Out<'_>) {
        let looks = self.looks;
        let gone: Vec<u32> =
            self.known.iter().filter(|it| it.1.seen < looks).map(|it| *it.0).collect();
        for pid in gone {
            if let Some(known) = self.known.remove(&pid) {
                out.forget(&IO, known.subject);
                out.forget(&OTHER, known.subject);
            }
        }
    }
}

fn put(out: &mut Out<'_>, subject: Name, io: &[u64; 7], others: &[u64; 2]) {
    IO.iter().zip(io).for_each(|(metric, value)| out.put(*metric, subject, *value));
    OTHER.iter().zip(others).for_each(|(metric, value)| out.put(*metric, subject, *value));
}

/// The seven numbers of /proc/PID/io.
fn io_of(text: &str) -> Option<[u64; 7]> {
    let numbers = text.lines().map(|line| line.split_once(": ")?.1.trim().parse().ok());
    let numbers: Option<Vec<u64>> = numbers.collect();
    numbers?.try_into().ok()
}

/// Name, start time (ns), major faults and time waited for block I/O.
fn stat_of(pid: u32) -> Option<(String, u64, [u64; 2])> {
    let stat = Stat::of(pid)?;
    let waited_ns = stat.ticks_ns(42).unwrap_or(0);
    let (started_ns, faults) = (stat.start_ns()?, stat.field(12)?);
    Some((stat.name, started_ns, [faults, waited_ns]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_can_be_read() {
        let own = std::process::id();
        let (name, started, _) = stat_of(own).unwrap();
        assert!(!name.is_empty() && started > 0);
        let text = "rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 5\nwrite_bytes: 6\n\
                    cancelled_write_bytes: 7\n";
        assert_eq!(io_of(text), Some([1, 2, 3, 4, 5, 6, 7]));
        assert_eq!(io_of("rchar: 1\n"), None);
    }
}
