//! Holders of the memory that others lack.
//!
//! What does not belong here: who waits for memory (see the rules).

use super::{Facts, Subject};
use crate::words;
use iowhy_model::Metric;
use iowhy_model::metric::{process_of, process_subject};

/// The least share of the memory that a process took during the watch for which it is named.
/// Chosen: what a program takes as it goes on is less.
const TAKEN: f64 = 0.05;
/// The least share of the memory that a process has for which it is named. Chosen.
const HELD: f64 = 0.25;
/// The share of the machine's memory below which what is available is short. Chosen: the kernel's
/// own reserves are a few percent.
const SHORT: f64 = 0.1;

/// The share of a limit that is used from which it is used up: the kernel reclaims in batches, and
/// its own memory, which counts as well, is in neither of the two. Chosen.
const FULL: f64 = 0.7;

/// The process that took most of the memory during the watch, else the one that has most.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MemoryHolder<'a> {
    /// The process.
    pub pid: u32,
    /// Its name.
    pub name: &'a str,
    /// The memory that it has, bytes.
    pub bytes: f64,
    /// The memory that it took during the watch, bytes; 0 if that is no news.
    pub taken: f64,
}

impl MemoryHolder<'_> {
    /// Returns the end of a sentence about the subject: `; java (712) took 1.50 GiB and has 6.10
    /// GiB`, or `; it took ...` if it is the subject.
    pub fn words(&self, subject: &Subject) -> String {
        let name = match subject.pid == Some(self.pid) {
            true => "it".to_owned(),
            false => words::process(self.name, Some(self.pid), None),
        };
        let has = words::bytes(self.bytes);
        match self.taken > 0.0 {
            true => format!("; {name} took {} and has {has}", words::bytes(self.taken)),
            false => format!("; {name} has {has}"),
        }
    }
}

/// A cgroup whose processes have all the memory that its limit allows.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FullCgroup<'a> {
    /// Its path.
    pub path: &'a str,
    /// Its limit, bytes.
    pub limit: f64,
    /// File pages that were reclaimed from it and that it needed again, bytes per second, in the
    /// second half of the watch: in the first one a set may be read for the first time.
    pub refaults: f64,
    /// What it read meanwhile from all devices, bytes per second; `None` where it is not counted.
    pub read: Option<f64>,
}

impl<'a> Facts<'a> {
    /// Returns the cgroup with the smallest limit on a process's memory, if that is used up: `None`
    /// also if it is not known.
    pub fn full_cgroup(&self, pid: u32, process: &str) -> Option<FullCgroup<'a>> {
        let samples = &self.summary.samples;
        let limit = samples.get(Metric::ProcessMemoryLimit, &process_subject(pid, process))?.last;
        let number = self.memory_group(pid, process)?;
        let numbers = samples.of(Metric::CgroupNumber).iter();
        let path = numbers.rev().find(|series| series.last as u64 == number)?.subject.as_str();
        let last = |metric| samples.get(metric, path).map_or(0.0, |series| series.last);
        let used = last(Metric::CgroupFile) + last(Metric::CgroupAnonymous);
        if used < FULL * limit {
            return None;
        }
        let until_ns = samples.latest_ns();
        let late = |metric| samples.get(metric, path)?.late_growth(until_ns);
        let (refaults, read) = (late(Metric::CgroupRefaults)?, late(Metric::CgroupRead));
        Some(FullCgroup { path, limit, refaults, read })
    }

    /// Returns the number of the cgroup with the smallest limit on a process's memory; `None` if it
    /// is not known, as of small processes that do not wait for storage.
    pub fn memory_group(&self, pid: u32, process: &str) -> Option<u64> {
        let samples = &self.summary.samples;
        let series = samples.get(Metric::ProcessMemoryGroup, &process_subject(pid, process))?;
        Some(series.last as u64)
    }

    /// Returns who has the memory that the subject lacks: of the machine if that is short, else of
    /// the cgroup whose limit the subject is under; `None` if nobody stands out, or if neither is
    /// known to be short.
    pub fn memory_holder(&self, subject: &Subject) -> Option<MemoryHolder<'a>> {
        let all = self.summary.environment.memory_bytes as f64;
        match self.is_memory_short() {
            true => self.largest_holder(all, |_| true),
            false => self.memory_holder_within(subject),
        }
    }

    /// The same within the cgroup whose limit the subject has reached.
    pub fn memory_holder_within(&self, subject: &Subject) -> Option<MemoryHolder<'a>> {
        let own = process_subject(subject.pid?, subject.process.as_deref()?);
        let of = |metric, process: &str| Some(self.summary.samples.get(metric, process)?.last);
        let group = of(Metric::ProcessMemoryGroup, &own)?;
        let limit = of(Metric::ProcessMemoryLimit, &own)?;
        self.largest_holder(limit, |process| of(Metric::ProcessMemoryGroup, process) == Some(group))
    }

    /// The process that took most of `all` bytes or has most of them, of those that fit.
    fn largest_holder(&self, all: f64, fits: impl Fn(&str) -> bool) -> Option<MemoryHolder<'a>> {
        let samples = &self.summary.samples;
        let holders = samples.of(Metric::ProcessMemory).iter().filter_map(|series| {
            let (pid, name) = process_of(&series.subject)?;
            let taken = Some(series.grown()).filter(|taken| *taken >= TAKEN * all);
            let holder =
                MemoryHolder { pid, name, bytes: series.last, taken: taken.unwrap_or(0.0) };
            let stands_out = taken.is_some() || series.last >= HELD * all;
            (stands_out && fits(&series.subject)).then_some(holder)
        });
        let most =
            holders.max_by(|a, b| a.taken.total_cmp(&b.taken).then(a.bytes.total_cmp(&b.bytes)));
        most.filter(|_| all > 0.0)
    }

    /// Whether hardly any of the machine's memory is available; false if that is not known.
    pub fn is_memory_short(&self) -> bool {
        let all = self.summary.environment.memory_bytes as f64;
        let available = self.summary.samples.system(Metric::MemoryAvailable);
        available.and_then(|series| series.min).is_some_and(|least| least < SHORT * all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::script::{S, START_NS, Script};
    use iowhy_model::{Sample, Scope};

    const GIB: f64 = (1u64 << 30) as f64;

    /// A process with its memory at both ends, and its cgroup with a limit; 0 for none.
    type Process = (&'static str, f64, f64, u64);

    /// Returns the words about the holder of the memory that process 7 lacks; each cgroup has a
    /// limit of 256 MiB, and of the machine's 16 GiB so much is available.
    fn holder(available: f64, processes: &[Process]) -> Option<String> {
        let mut script = Script::new(10);
        script.environment.memory_bytes = 16 << 30;
        let mut put = |scope, subject: &str, metric: Metric, value: f64, ns: u64| {
            let (subject, metric) =
                (script.names.intern(subject), script.names.intern(metric.info().word));
            let row = Sample { time_ns: START_NS + ns, scope, subject, metric, value };
            script.batch.samples.push(row);
        };
        put(Scope::System, "", Metric::MemoryAvailable, available, 0);
        put(Scope::System, "", Metric::MemoryAvailable, available, S);
        for (subject, first, last, cgroup) in processes {
            put(Scope::Process, subject, Metric::ProcessMemory, *first, 0);
            put(Scope::Process, subject, Metric::ProcessMemory, *last, S);
            if *cgroup > 0 {
                put(Scope::Process, subject, Metric::ProcessMemoryLimit, 0.25 * GIB, 0);
                put(Scope::Process, subject, Metric::ProcessMemoryGroup, *cgroup as f64, 0);
            }
        }
        let summary = script.summary();
        let subject =
            Subject { process: Some("db".to_owned()), pid: Some(7), ..Subject::default() };
        Some(Facts::new(&summary).memory_holder(&subject)?.words(&subject))
    }

    #[test]
    fn who_took_most_stands_before_who_has_most() {
        let both = [("7 db", 8.0 * GIB, 8.0 * GIB, 0), ("9 job", GIB, 3.0 * GIB, 0)];
        assert_eq!(holder(GIB, &both).unwrap(), "; job (9) took 2.00 GiB and has 3.00 GiB");
        assert_eq!(holder(GIB, &both[..1]).unwrap(), "; it has 8.00 GiB");
        assert_eq!(holder(GIB, &[("9 job", GIB, GIB, 0)]), None);
        assert_eq!(holder(9.0 * GIB, &both), None, "the machine has enough");
    }

    #[test]
    fn a_limit_concerns_those_that_share_it() {
        let own = ("7 db", 0.05 * GIB, 0.04 * GIB, 5);
        let job = ("9 job", 0.125 * GIB, 0.1875 * GIB, 5);
        let neighbour = ("11 java", 0.0625 * GIB, 0.25 * GIB, 6);
        let found = holder(9.0 * GIB, &[own, job, neighbour]).unwrap();
        assert_eq!(found, "; job (9) took 64.0 MiB and has 192 MiB");
        assert_eq!(holder(9.0 * GIB, &[own, neighbour]), None, "another cgroup's, as large");
        // The machine is short, whatever the limit.
        let large = ("12 java", 9.0 * GIB, 13.0 * GIB, 0);
        assert_eq!(
            holder(GIB, &[own, large]).unwrap(),
            "; java (12) took 4.00 GiB and has 13.0 GiB"
        );
    }
}
