//! Waits divided among programs: processes of one name in one container are one program, such as a
//! database's backends. Those of an interpreter are several if they wait for files in different
//! folders.
//!
//! What does not belong here: who made whom wait (see `facts::behind`).

use super::thresholds::WARNING_SHARE;
use super::{Facts, Waited};
use crate::{programs, words};
use iowhy_analysis::summary::patterns::WaitGroup;
use iowhy_model::WaitClass;
use iowhy_model::compact_sort::CompactSort;
use iowhy_model::figures::plural;
use std::collections::{BTreeMap, BTreeSet};

/// The waits of one program.
#[derive(Clone, Debug)]
pub struct WaitingProgram<'a> {
    /// The name of its processes.
    pub process: &'a str,
    /// Its container or systemd unit.
    pub container: Option<&'a str>,
    /// The PIDs of its processes.
    pub pids: BTreeSet<u32>,
    /// Their threads that waited.
    pub threads: u64,
    /// Its waits.
    pub waited: Waited<'a>,
}

/// Classes of waits for requests of a device: no limit, lock or transaction keeps the thread.
const OF_DEVICE: &[WaitClass] = &[
    WaitClass::Device,
    WaitClass::Tag,
    WaitClass::PageRead,
    WaitClass::PageFault,
    WaitClass::Fsync,
    WaitClass::Swap,
];

impl<'a> Facts<'a> {
    /// Returns the waits of each program, the one that waits longest first.
    pub fn by_program(&self, waited: &Waited<'a>) -> Vec<WaitingProgram<'a>> {
        let folders = folders_of_scripts(self, waited);
        let mut by_name: BTreeMap<_, Vec<&'a WaitGroup>> = BTreeMap::new();
        for group in &waited.groups {
            let folder = folders.get(&group.pid).copied();
            let key = (group.process.as_str(), group.container.as_deref(), folder);
            by_name.entry(key).or_default().push(group);
        }
        let mut programs: Vec<WaitingProgram<'a>> = by_name
            .into_iter()
            .map(|((process, container, _), groups)| WaitingProgram {
                process,
                container,
                pids: groups.iter().map(|group| group.pid).collect(),
                threads: threads(&groups),
                waited: Waited::from_groups(groups),
            })
            .collect();
        programs.compact_sort_by_key(|program| std::cmp::Reverse(program.waited.time_ns));
        programs
    }

    /// Returns the end of a sentence about work on a device: the program that waits longest of its
    /// victims, as of a tenth of the watch, as for a warning; else nothing.
    pub fn beside(&self, victims: &Waited<'a>) -> String {
        let own = victims.groups.iter().filter(|group| OF_DEVICE.contains(&group.class));
        let programs = self.by_program(&Waited::from_groups(own.copied().collect()));
        let least_ns = WARNING_SHARE * self.duration_ns() as f64;
        let felt = programs.first().filter(|it| it.waited.time_ns as f64 >= least_ns);
        felt.map_or_else(String::new, |first| {
            let (who, wait) = first.named();
            let mean = words::time(first.waited.mean_ns());
            format!("; {who} {wait} for the same device, {mean} each")
        })
    }
}

impl WaitingProgram<'_> {
    /// Returns the program in sentences (`md5sum (7)`, `3 threads of mysqld (7)`, `12 processes of
    /// md5sum`), and the verb that agrees with it.
    pub fn named(&self) -> (String, &'static str) {
        let pids = self.pids.len() as u64;
        let who = words::process(self.process, self.pid(), self.container);
        match (pids, self.threads) {
            (1, threads) if threads > 1 => {
                (format!("{} of {who}", plural(threads, "thread")), "wait")
            }
            (1, _) => (who, "waits"),
            (pids, _) => (format!("{} of {who}", plural(pids, "process")), "wait"),
        }
    }

    /// Returns the number of its process, if that is known and it is a single one.
    pub fn pid(&self) -> Option<u32> {
        self.pids.first().copied().filter(|pid| self.pids.len() == 1 && *pid > 0)
    }

    /// Returns the file, or the pattern of files, with most of its time.
    pub fn file(&self) -> Option<String> {
        let mut files: BTreeMap<&str, u64> = BTreeMap::new();
        for group in &self.waited.groups {
            let Some(file) = group.file.as_deref() else { continue };
            let time_ns = files.entry(file).or_default();
            *time_ns = time_ns.saturating_add(group.time_ns);
        }
        let half = self.waited.time_ns / 2;
        if let Some((file, _)) = files.iter().find(|(_, time)| **time > half) {
            return Some((*file).to_owned());
        }
        let mut folders: BTreeMap<&str, (u64, Vec<&str>)> = BTreeMap::new();
        for (file, time) in &files {
            let sums = folders.entry(words::folder(file).unwrap_or_default()).or_default();
            sums.0 = sums.0.saturating_add(*time);
            sums.1.push(file);
        }
        let (_, (_, names)) = folders.iter().find(|(_, (time, _))| *time > half)?;
        words::pattern(names)
    }

    /// Returns the call with most of its time.
    pub fn call(&self, facts: &Facts<'_>) -> Option<&'static str> {
        let mut calls: BTreeMap<Option<u32>, u64> = BTreeMap::new();
        for group in &self.waited.groups {
            let time_ns = calls.entry(group.syscall).or_default();
            *time_ns = time_ns.saturating_add(group.time_ns);
        }
        let (call, _) = calls.into_iter().max_by_key(|(_, time)| *time)?;
        facts.call_name(call)
    }
}

/// Returns the folder that each process of an interpreter waits for longest, of those that wait for
/// a tenth of the watch: of short ones a script may start many.
fn folders_of_scripts<'a>(facts: &Facts<'_>, waited: &Waited<'a>) -> BTreeMap<u32, &'a str> {
    let mut times: BTreeMap<u32, BTreeMap<&'a str, u64>> = BTreeMap::new();
    let scripts = waited.groups.iter().filter(|group| programs::is_interpreter(&group.process));
    for group in scripts {
        let folder = group.file.as_deref().and_then(words::folder).unwrap_or_default();
        let time_ns = times.entry(group.pid).or_default().entry(folder).or_default();
        *time_ns = time_ns.saturating_add(group.time_ns);
    }
    let least_ns = (WARNING_SHARE * facts.duration_ns() as f64) as u64;
    times.retain(|_, folders| folders.values().copied().fold(0, u64::saturating_add) >= least_ns);
    let most = |folders: BTreeMap<&'a str, u64>| folders.into_iter().max_by_key(|folder| folder.1);
    times.into_iter().filter_map(|(pid, folders)| Some((pid, most(folders)?.0))).collect()
}

/// Returns the number of threads of all processes: for each process the largest number of its
/// groups.
fn threads(groups: &[&WaitGroup]) -> u64 {
    let mut most: BTreeMap<u32, u64> = BTreeMap::new();
    for group in groups {
        let known = most.entry(group.pid).or_default();
        *known = (*known).max(group.threads);
    }
    most.values().copied().fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::WaitingProgram;
    use crate::facts::Facts;
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::WaitClass;
    use iowhy_model::script::{MS, Script};

    #[test]
    fn many_processes_of_one_name_are_one_program() {
        let mut script = Script::new(10);
        for pid in 10..40 {
            script.wait((pid, "md5sum"), WaitClass::Device, 200 * MS, 200 * MS, 0);
        }
        script.wait((7, "web"), WaitClass::Device, 900 * MS, 900 * MS, 0);
        // Two scripts are two programs.
        for (pid, folder) in [(8, "/a"), (9, "/b")] {
            script.wait((pid, "python3"), WaitClass::Device, 1000 * MS, 1000 * MS, 0);
            script.waited_on("sda", &format!("{folder}/file"), 0);
        }
        let summary = script.summary();
        let facts = Facts::new(&summary);
        let waited = facts.waits(|_| true);
        let said: Vec<_> = facts.by_program(&waited).iter().map(WaitingProgram::named).collect();
        let of = |who: &str, wait| (who.to_owned(), wait);
        assert_eq!(said[0], of("30 processes of md5sum", "wait"));
        assert!(said.contains(&of("web (7)", "waits")), "{said:?}");
        assert!(said.contains(&of("python3 (8)", "waits")) && said.len() == 4, "{said:?}");
    }
}
