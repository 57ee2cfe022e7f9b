//! Times that threads waited on a run queue between two sleeps. The kernel keeps the total
//! run-queue time of each thread, and each sleep records its value at its beginning.
//!
//! What does not belong here: how long a thread waits for a CPU after its wake-up (see
//! [`super::decode`]).

use crate::wire::wire_wait;
use iowhy_model::bounded_map::RestartingMap;

/// Threads whose last sleep is kept; beyond that, the next sleep of each counts as its first.
const MOST_THREADS: usize = 16_384;

/// A sleep that may have been for storage.
#[derive(Clone, Copy, Debug)]
pub struct Slept {
    /// The record.
    pub wire: wire_wait,
    /// Time that the thread waited for a CPU since the previous sleep, ns; `None` if that is not
    /// known.
    pub cpu_wait_ns: Option<u64>,
}

/// The last sleep of each thread.
#[derive(Clone, Debug, Default)]
pub struct CpuWaits {
    last: RestartingMap<u32, LastCpuWait, MOST_THREADS>,
}

#[derive(Clone, Copy, Debug)]
struct LastCpuWait {
    /// The kernel's total when it began.
    count_ns: u64,
    /// The run-queue time that the sleep itself added, ns.
    run_queue_ns: u64,
}

impl CpuWaits {
    /// Returns the sleep with the run-queue time since the previous one.
    pub fn follow(&mut self, wire: wire_wait) -> Slept {
        Slept { wire, cpu_wait_ns: self.since_last(&wire) }
    }

    fn since_last(&mut self, wait: &wire_wait) -> Option<u64> {
        if wait.cpu_wait_ns == 0 {
            return None;
        }
        let woken_ns = if wait.wake_ns == 0 { wait.end_ns } else { wait.wake_ns };
        let own = LastCpuWait {
            count_ns: wait.cpu_wait_ns,
            run_queue_ns: wait.end_ns.saturating_sub(woken_ns),
        };
        let before = self.last.insert(wait.tid, own)?;
        // A smaller total is that of another thread with a reused number.
        let since = wait.cpu_wait_ns.checked_sub(before.count_ns)?;
        Some(since.saturating_sub(before.run_queue_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromZeros;

    fn sleep(tid: u32, cpu_wait_ns: u64, run_queue_ns: u64) -> wire_wait {
        let (wake_ns, end_ns) = (1_000, 1_000 + run_queue_ns);
        wire_wait { tid, cpu_wait_ns, wake_ns, end_ns, ..wire_wait::new_zeroed() }
    }

    fn followed<const N: usize>(sleeps: [wire_wait; N]) -> [Option<u64>; N] {
        let mut cpu_waits = CpuWaits::default();
        sleeps.map(|wire| cpu_waits.follow(wire).cpu_wait_ns)
    }

    #[test]
    fn what_a_sleep_counts_itself_is_not_counted_again() {
        let found =
            followed([sleep(7, 500, 40), sleep(8, 10, 0), sleep(7, 570, 0), sleep(7, 570, 0)]);
        assert_eq!(found, [None, None, Some(30), Some(0)]);
        // The kernel's clock and ours differ slightly.
        assert_eq!(followed([sleep(7, 500, 40), sleep(7, 539, 0)]), [None, Some(0)]);
    }

    #[test]
    fn what_the_kernel_does_not_count_is_not_known() {
        assert_eq!(followed([sleep(7, 0, 0), sleep(7, 0, 0)]), [None, None]);
        assert_eq!(followed([sleep(7, 500, 0), sleep(7, 20, 0)]), [None, None]);
    }

    #[test]
    fn threads_beyond_those_that_are_kept_begin_anew() {
        let mut cpu_waits = CpuWaits::default();
        for tid in 0..MOST_THREADS as u32 + 1 {
            cpu_waits.follow(sleep(tid, 100, 0));
        }
        assert!(cpu_waits.last.len() <= MOST_THREADS);
        assert_eq!(cpu_waits.follow(sleep(3, 200, 0)).cpu_wait_ns, None);
    }
}
