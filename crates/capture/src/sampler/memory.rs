//! Processes with most of the memory that is not of files: /proc/PID/statm.
//!
//! What does not belong here: the memory of the machine (see [`super::system`]) and of cgroups (see
//! [`super::cgroups`]).

use super::Out;
use crate::host::cgroup::Roots;
use crate::host::process::ProcStat;
use crate::host::{own, read_text};
use iowhy_model::metric::process_subject;
use iowhy_model::{Metric, Name};
use rustc_hash::{FxHashMap, FxHashSet};

/// CPU time per search: 1 % of a CPU in the second in which there is one.
const BUDGET_NS: u64 = 10_000_000;
/// Samples between two searches of all processes; those found are read each time.
const ANEW: u64 = 5;
/// Processes that have rows: those with most memory.
const MOST: usize = 8;
/// Processes that are followed because an earlier search found them.
const MOST_FOLLOWED: usize = 4 * MOST;
/// The least memory that is worth a row, bytes.
const LEAST: u64 = 16 << 20;
/// The metrics of a process.
pub(super) const OF_PROCESSES: [Metric; 3] =
    [Metric::ProcessMemory, Metric::ProcessMemoryLimit, Metric::ProcessMemoryGroup];

/// The processes with most memory.
#[derive(Debug, Default)]
pub(super) struct MemorySampler {
    roots: Roots,
    /// By process number.
    found: FxHashMap<u32, Name>,
    looks: u64,
    /// The process that the next search begins behind.
    cursor: u32,
}

impl MemorySampler {
    /// For controllers with these roots.
    pub fn new(roots: Roots) -> MemorySampler {
        MemorySampler { roots, ..MemorySampler::default() }
    }

    /// Reads the memory of those found; `listed` are all processes.
    pub fn look(&mut self, listed: &FxHashSet<u32>, out: &mut Out<'_>) {
        if self.looks.is_multiple_of(ANEW) {
            self.search(listed, out);
        }
        self.looks += 1;
        self.found.retain(|pid, subject| match anonymous(*pid) {
            Some(bytes) => {
                out.put(Metric::ProcessMemory, *subject, bytes);
                true
            }
            None => {
                out.forget(&OF_PROCESSES, *subject);
                false
            }
        });
    }

    /// Adds the processes with most memory to those known. What the budget has no time for comes
    /// first in the next search.
    fn search(&mut self, listed: &FxHashSet<u32>, out: &mut Out<'_>) {
        let mut all: Vec<u32> = listed.iter().copied().collect();
        all.sort_unstable();
        let from = all.partition_point(|pid| *pid <= self.cursor);
        all.rotate_left(from);
        let begun_ns = own::cpu_ns();
        let mut large: Vec<(u64, u32)> = Vec::new();
        for pid in all {
            if own::cpu_ns() - begun_ns > BUDGET_NS {
                break;
            }
            self.cursor = pid;
            large.extend(anonymous(pid).filter(|bytes| *bytes >= LEAST).map(|bytes| (bytes, pid)));
        }
        large.sort_unstable_by(|a, b| b.cmp(a));
        large.truncate(MOST);
        if self.found.len() > MOST_FOLLOWED {
            self.found.retain(|pid, subject| {
                let stays = large.iter().any(|(_, large)| large == pid);
                if !stays {
                    out.forget(&OF_PROCESSES, *subject);
                }
                stays
            });
        }
        for (_, pid) in large {
            let Some(stat) = ProcStat::for_pid(pid) else { continue };
            let subject = out.names.intern(&process_subject(pid, &stat.name));
            let before = self.found.insert(pid, subject);
            if let Some(before) = before.filter(|before| *before != subject) {
                // The process runs another program now, or its number was reused.
                out.forget(&OF_PROCESSES, before);
            }
            if let Some((limit, cgroup)) = self.roots.memory_limit_of(pid) {
                out.put(Metric::ProcessMemoryLimit, subject, limit);
                out.put(Metric::ProcessMemoryGroup, subject, cgroup);
            }
        }
    }
}

/// The resident memory of a process that no file backs, bytes; `None` if it has ended.
fn anonymous(pid: u32) -> Option<u64> {
    of_statm(&read_text(format!("/proc/{pid}/statm"))?)
}

/// The pages that are resident, less those of files and of shared memory.
fn of_statm(text: &str) -> Option<u64> {
    let mut pages = text.split_whitespace().skip(1).map(|word| word.parse::<u64>().ok());
    let (resident, shared) = (pages.next()??, pages.next()??);
    resident.saturating_sub(shared).checked_mul(rustix::param::page_size() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::system::now_ns;
    use crate::sampler::WrittenCounters;

    #[test]
    fn pages_of_files_do_not_count() {
        let page = rustix::param::page_size() as u64;
        assert_eq!(of_statm("900 300 100 5 0 80 0\n"), Some(200 * page));
        assert_eq!(of_statm("900 100 300 5 0 80 0\n"), Some(0));
        assert_eq!(of_statm("900\n"), None);
    }

    #[test]
    fn a_process_that_takes_memory_is_found_with_its_growth() {
        let mut child = std::process::Command::new("sh")
            .args(["-c", "x=$(head -c 40000000 /dev/zero | tr '\\0' x); echo; read y; echo ${#x}"])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        // The child has its memory when it says so.
        let mut said = [0];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut said).unwrap();
        let (mut batch, mut names) = Default::default();
        let mut written = WrittenCounters::default();
        let mut sampler = MemorySampler::new(Roots::find());
        let listed = [child.id(), std::process::id()].into_iter().collect();
        for _ in 0..2 {
            let now_ns = now_ns();
            let mut out =
                Out { now_ns, written: &mut written, batch: &mut batch, names: &mut names };
            sampler.look(&listed, &mut out);
        }
        let known = sampler.found.contains_key(&child.id());
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(known, "{:?}", sampler.found);
        let subject = names.intern(&process_subject(child.id(), "sh"));
        let rows = batch.samples.iter().filter(|row| row.subject == subject);
        let bytes = rows.map(|row| row.value).fold(0.0, f64::max);
        assert!((30e6..200e6).contains(&bytes), "{bytes}");
    }
}
