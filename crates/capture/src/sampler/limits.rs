//! Cgroups throttled by their CPU limit, and the processes in them: cpu.stat of each cgroup that
//! has such a limit.
//!
//! A process belongs to the first cgroup that was seen throttling it: of nested limits, only one is
//! counted for it.

use super::Out;
use crate::host::cgroup::throttled_ns;
use crate::host::process::ProcStat;
use crate::host::read_text;
use iowhy_model::metric::process_subject;
use iowhy_model::{Metric, Name};
use rustc_hash::FxHashMap;
use std::path::{Path, PathBuf};

/// Processes recorded per cgroup; only those that do I/O matter, which are few.
const MOST_MEMBERS: usize = 64;
/// Cgroups below it that are searched for processes.
const MOST_FOLDERS: usize = 64;
/// The metrics of a process.
const OF_PROCESSES: [Metric; 2] = [Metric::HeldBack, Metric::ProcessCpu];

/// The limits known so far.
#[derive(Debug, Default)]
pub(super) struct ResourceLimits {
    /// Each cgroup's throttled time, and when it was read.
    counts: FxHashMap<Name, (u64, u64)>,
    /// The cgroup that throttles a process, and the process's subject in samples.
    members: FxHashMap<u32, (Name, Name)>,
}

impl ResourceLimits {
    /// Checks the cgroup `subject`, with directory `folder` in the controller's hierarchy.
    pub fn look(&mut self, folder: &Path, subject: Name, out: &mut Out<'_>) {
        let text = read_text(folder.join("cpu.stat")).unwrap_or_default();
        let Some(held_ns) = throttled_ns(&text) else { return };
        out.put(Metric::CgroupHeldBack, subject, held_ns);
        let before = self.counts.insert(subject, (held_ns, out.now_ns));
        // Most have no limit, or do not reach it: their processes are not searched for.
        let Some(before) = before.filter(|(count, _)| *count < held_ns) else { return };
        let mut seen = Vec::new();
        for pid in members(folder) {
            let owner = self.members.get(&pid).map(|(owner, _)| *owner);
            if owner.is_none_or(|owner| owner == subject) {
                seen.push(pid);
                self.tell(pid, subject, (before, held_ns), out);
            }
        }
        self.forget(subject, &seen, out);
    }

    fn tell(
        &mut self,
        pid: u32,
        cgroup: Name,
        (before, held_ns): ((u64, u64), u64),
        out: &mut Out<'_>,
    ) {
        let Some((name, cpu_ns)) = cpu_of(pid) else { return };
        let subject = out.names.intern(&process_subject(pid, &name));
        let known = self.members.insert(pid, (cgroup, subject));
        if let Some((_, former)) = known.filter(|(_, former)| *former != subject) {
            // The process runs another program now, or its number was reused.
            out.forget(&OF_PROCESSES, former);
        }
        out.put_since(Metric::HeldBack, subject, before, held_ns);
        out.put(Metric::ProcessCpu, subject, cpu_ns);
    }

    /// Drops the processes of a cgroup that are no longer in it.
    fn forget(&mut self, cgroup: Name, seen: &[u32], out: &mut Out<'_>) {
        self.members.retain(|pid, (owner, subject)| {
            let stays = *owner != cgroup || seen.contains(pid);
            if !stays {
                out.forget(&OF_PROCESSES, *subject);
            }
            stays
        });
    }
}

/// The processes of a cgroup and of its descendants.
fn members(folder: &Path) -> Vec<u32> {
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> = vec![folder.to_owned()];
    let mut looked = 0;
    while let Some(folder) = folders.pop() {
        looked += 1;
        let text = read_text(folder.join("cgroup.procs")).unwrap_or_default();
        found.extend(text.lines().filter_map(|line| line.trim().parse::<u32>().ok()));
        if found.len() >= MOST_MEMBERS || looked == MOST_FOLDERS {
            break;
        }
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        let below =
            entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        folders.extend(below.map(|entry| entry.path()));
    }
    found.truncate(MOST_MEMBERS);
    found
}

/// A process's name and the CPU time of all its threads.
fn cpu_of(pid: u32) -> Option<(String, u64)> {
    let stat = ProcStat::for_pid(pid)?;
    let cpu_ns = stat.cpu_ns()?;
    Some((stat.name, cpu_ns))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampler::WrittenCounters;
    use iowhy_model::source::Batch;
    use iowhy_model::{Names, Scope};

    #[test]
    fn both_versions_are_read() {
        let old = "nr_periods 9\nnr_throttled 3\nthrottled_time 5000\nnr_bursts 0\nburst_time 0\n";
        let new = "usage_usec 7\nnr_periods 9\nnr_throttled 3\nthrottled_usec 5\n";
        assert_eq!((throttled_ns(old), throttled_ns(new)), (Some(5000), Some(5000)));
        assert_eq!(throttled_ns("nr_periods 0\nnr_throttled 0\nthrottled_time 0\n"), None);
        assert_eq!(throttled_ns("usage_usec 7\n"), None);
    }

    #[test]
    fn who_is_held_back_is_told_from_the_look_before() {
        let folder = std::env::temp_dir().join(format!("iowhy-limits-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("below")).unwrap();
        let own = std::process::id();
        std::fs::write(folder.join("below/cgroup.procs"), format!("{own}\n")).unwrap();
        let (mut limits, mut written) = (ResourceLimits::default(), WrittenCounters::default());
        let (mut batch, mut names) = (Batch::default(), Names::new());
        let cgroup = names.intern("/a");
        for (now_ns, held) in [(10, 100), (20, 100), (30, 600), (40, 900)] {
            let stat = format!("nr_periods 1\nthrottled_time {held}\n");
            std::fs::write(folder.join("cpu.stat"), stat).unwrap();
            let mut out =
                Out { now_ns, written: &mut written, batch: &mut batch, names: &mut names };
            limits.look(&folder, cgroup, &mut out);
        }
        std::fs::remove_dir_all(&folder).unwrap();
        let word = names.intern(Metric::HeldBack.info().word);
        let told = batch
            .samples
            .iter()
            .filter(|sample| sample.metric == word && sample.scope == Scope::Process);
        let told: Vec<(u64, f64)> = told.map(|told| (told.time_ns, told.value)).collect();
        assert_eq!(told, [(20, 100.0), (30, 600.0), (40, 900.0)]);
    }
}
