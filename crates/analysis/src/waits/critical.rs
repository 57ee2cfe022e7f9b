//! The part of a thread's waits for storage that is on the critical path of its process: the part
//! in which another thread of it slept until this one went on. While that one works, nothing would
//! end earlier without the wait.
//!
//! What does not belong here: what that means for a finding (crate `iowhy-diagnosis`).

use super::graph::{BlockedSpan, WaitGraph, WaitTarget};
use crate::summary::patterns::AwaitedThread;
use iowhy_model::bounded_map::CappedMap;
use iowhy_model::compact_sort::CompactSort;
use iowhy_model::source::Batch;
use iowhy_model::{Wait, WaitChain};

/// Maximum number of processes, and of waits of each; of one with more nothing is known.
const MOST_PROCESSES: usize = 128;
const MOST_WAITS: usize = 4096;

/// The waits of one process: each with its thread.
#[derive(Clone, Debug, Default)]
struct ProcessSpans {
    spans: Vec<(u32, BlockedSpan)>,
    /// Whether waits are missing, or stand for others.
    is_part: bool,
    /// Whether a thread slept for another one.
    is_joint: bool,
}

impl ProcessSpans {
    fn add(&mut self, thread: u32, start_ns: u64, length_ns: u64, on: WaitTarget) {
        self.is_part |= self.spans.len() >= MOST_WAITS;
        if self.is_part {
            // Nothing is said of it any more.
            self.spans = Vec::new();
            return;
        }
        let end_ns = start_ns.saturating_add(length_ns);
        self.spans.push((thread, BlockedSpan { start_ns, end_ns, on }));
    }
}

/// Collects the waits of threads for storage and for each other.
#[derive(Clone, Debug, Default)]
pub struct CriticalTally {
    processes: CappedMap<u32, ProcessSpans, MOST_PROCESSES>,
    /// The first row of a chain, which the next one may continue.
    first: Option<WaitChain>,
}

impl CriticalTally {
    /// Adds rows.
    pub fn add(&mut self, batch: &Batch) {
        batch.waits.iter().for_each(|wait| self.add_wait(wait));
        batch.wait_chains.iter().for_each(|row| self.add_row(row));
    }

    fn add_wait(&mut self, wait: &Wait) {
        if wait.kernel_thread {
            return;
        }
        if let Some(process) = self.processes.or_default(wait.pid) {
            process.is_part |= wait.weight.is_some();
            process.add(wait.tid, wait.start_ns, wait.duration_ns, WaitTarget::Storage);
        }
    }

    /// Adds the sleep of a chain's first thread for its second one. All paths of a chain are of one
    /// sleep.
    fn add_row(&mut self, row: &WaitChain) {
        if row.hop == 0 {
            self.first = (row.path == 0).then(|| row.clone());
            return;
        }
        let Some(first) = self.first.take() else { return };
        let is_next = row.hop == 1 && (row.chain_id, row.path) == (first.chain_id, first.path);
        if !is_next || row.pid != first.pid {
            return;
        }
        if let Some(process) = self.processes.or_default(row.pid) {
            process.is_joint = true;
            let on = WaitTarget::Thread(row.tid);
            process.add(first.tid, first.start_ns, first.duration_ns, on);
        }
    }

    /// Returns, of each process of which all is known, the thread that waits for storage longest
    /// and the one that waits for it longest; by the process.
    pub fn finish(&self) -> Vec<AwaitedThread> {
        let is_known = |(_, process): &(&u32, &ProcessSpans)| process.is_joint && !process.is_part;
        let known = self.processes.iter().filter(is_known);
        let mut found: Vec<AwaitedThread> =
            known.filter_map(|(pid, process)| awaited(*pid, process)).collect();
        found.compact_sort_by_key(|thread| thread.pid);
        found
    }
}

fn awaited(pid: u32, process: &ProcessSpans) -> Option<AwaitedThread> {
    let graph = WaitGraph::new(process.spans.iter().copied());
    let storage_ns = |thread: u32| -> u64 {
        let own = graph.of(thread).iter().filter(|span| span.on == WaitTarget::Storage);
        own.map(|span| span.end_ns - span.start_ns).fold(0, u64::saturating_add)
    };
    let reader = graph.threads().max_by_key(|thread| (storage_ns(*thread), u32::MAX - thread))?;
    let reached_ns = |other: &u32| graph.ends_through(*other, reader).storage_ns;
    let others = graph.threads().filter(|other| *other != reader);
    let other = others.max_by_key(|other| (reached_ns(other), u32::MAX - other))?;
    let is_for_it = |span: &&BlockedSpan| span.on == WaitTarget::Thread(reader);
    let sleeps: Vec<&BlockedSpan> = graph.of(other).iter().filter(is_for_it).collect();
    let gaps = sleeps.windows(2).map(|pair| pair[1].start_ns.saturating_sub(pair[0].end_ns));
    let (first, last) = (sleeps.first()?, sleeps.last()?);
    Some(AwaitedThread {
        pid,
        waited_ns: storage_ns(reader),
        reached_ns: reached_ns(&other),
        sleeps: sleeps.len() as u64,
        span_ns: last.end_ns - first.start_ns,
        longest_apart_ns: gaps.max().unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use crate::script::ScriptSummary;
    use iowhy_model::WaitClass;
    use iowhy_model::script::{MS, START_NS, Script};

    /// Rounds of a reader that reads for `read` ms and another thread that computes for `work` ms;
    /// who is ready first sleeps for the other.
    fn rounds(read: u64, work: u64) -> Script {
        let mut script = Script::new(10);
        let round = read.max(work);
        for index in 0..10_000 / round {
            let at = index * round * MS;
            script.wait((1, "db"), WaitClass::PageRead, read * MS, read * MS, 0);
            let wait = script.batch.waits.last_mut().unwrap();
            (wait.start_ns, wait.tid) = (START_NS + at, 1);
            if work < read {
                script.chain(&[(2, "worker"), (1, "db")], (read - work) * MS, (read - work) * MS);
                let from = script.batch.wait_chains.len() - 2;
                for row in &mut script.batch.wait_chains[from..] {
                    row.start_ns = START_NS + at + work * MS;
                }
            }
        }
        script
    }

    #[test]
    fn what_another_thread_works_through_is_not_reached() {
        let found = rounds(17, 4).summary().patterns.awaited;
        let [thread] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((thread.pid, thread.sleeps), (1, 588));
        assert_eq!((thread.waited_ns, thread.reached_ns), (588 * 17 * MS, 588 * 13 * MS));
        assert_eq!(thread.longest_apart_ns, 4 * MS);
        assert!(rounds(17, 73).summary().patterns.awaited.is_empty(), "nobody sleeps for it");
    }

    #[test]
    fn a_sample_says_nothing() {
        let mut script = rounds(17, 4);
        script.batch.waits[5].weight = Some(2);
        assert!(script.summary().patterns.awaited.is_empty());
    }
}
