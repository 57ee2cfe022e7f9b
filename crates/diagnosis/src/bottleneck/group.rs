//! The waits of one kind for one device, by program: processes of one name in one container are one
//! program, such as a database's backends. Those of an interpreter are several if they wait for
//! files in different folders.
//!
//! What does not belong here: what they wait for (see [`super::bound`]).

use super::kind::BottleneckKind;
use crate::facts::thresholds::WARNING_SHARE;
use crate::facts::{Facts, Waited};
use crate::{programs, words};
use iowhy_analysis::summary::DeviceSummary;
use iowhy_analysis::summary::patterns::WaitGroup;
use iowhy_model::compact_sort::CompactSort;
use std::collections::{BTreeMap, BTreeSet};

/// The waits of one program in a group.
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

impl WaitingProgram<'_> {
    /// Returns the file, or the pattern of files, with most of its time.
    pub fn file(&self) -> Option<String> {
        let mut files: BTreeMap<&str, u64> = BTreeMap::new();
        for group in &self.waited.groups {
            let Some(file) = group.file.as_deref() else { continue };
            *files.entry(file).or_default() += group.time_ns;
        }
        let half = self.waited.time_ns / 2;
        if let Some((file, _)) = files.iter().find(|(_, time)| **time > half) {
            return Some((*file).to_owned());
        }
        let mut folders: BTreeMap<&str, (u64, Vec<&str>)> = BTreeMap::new();
        for (file, time) in &files {
            let sums = folders.entry(words::folder(file).unwrap_or_default()).or_default();
            sums.0 += time;
            sums.1.push(file);
        }
        let (_, (_, names)) = folders.iter().find(|(_, (time, _))| *time > half)?;
        words::pattern(names)
    }

    /// Returns the call with most of its time.
    pub fn call(&self, facts: &Facts<'_>) -> Option<&'static str> {
        let mut calls: BTreeMap<Option<u32>, u64> = BTreeMap::new();
        for group in &self.waited.groups {
            *calls.entry(group.syscall).or_default() += group.time_ns;
        }
        let (call, _) = calls.into_iter().max_by_key(|(_, time)| *time)?;
        facts.call_name(call)
    }
}

/// The waits of one kind for one device.
#[derive(Clone, Debug)]
pub struct GroupedWaits<'a> {
    /// The kind of bottleneck: what the threads do.
    pub kind: BottleneckKind,
    /// The device, if known.
    pub device: Option<&'a DeviceSummary>,
    /// All of the waits.
    pub waited: Waited<'a>,
    /// By program, the one with the most time first.
    pub programs: Vec<WaitingProgram<'a>>,
}

/// Returns the groups of this kind, one for each device, the one with the most time first.
pub fn all<'a>(facts: &Facts<'a>, kind: BottleneckKind) -> Vec<GroupedWaits<'a>> {
    let of_kind = facts.waits(|group| BottleneckKind::new(facts, group) == kind);
    let mut devices: BTreeMap<Option<&str>, Vec<&'a WaitGroup>> = BTreeMap::new();
    for group in of_kind.groups {
        devices.entry(group.device.as_deref()).or_default().push(group);
    }
    // What the main user of a device waits for is its own work: those behind it come first.
    let mut culprits = facts.main_users();
    culprits.retain(|user| !user.is_known());
    let is_culprits = |group: &WaitGroup| {
        culprits.iter().any(|user| {
            group.device.as_ref() == Some(&user.device.device)
                && group.process == user.row.subject.process
        })
    };
    let of_device = |(name, groups): (Option<&str>, Vec<&'a WaitGroup>)| {
        let (own, others): (Vec<&WaitGroup>, Vec<&WaitGroup>) =
            groups.into_iter().partition(|group| is_culprits(group));
        let groups = if others.is_empty() { own } else { others };
        let waited = Waited::from_groups(groups);
        let device = facts.devices().iter().find(|row| Some(row.device.as_str()) == name);
        GroupedWaits { kind, device, programs: programs(facts, &waited), waited }
    };
    let mut groups: Vec<GroupedWaits<'a>> = devices.into_iter().map(of_device).collect();
    groups.compact_sort_by_key(|group| std::cmp::Reverse(group.waited.time_ns));
    groups
}

fn programs<'a>(facts: &Facts<'_>, waited: &Waited<'a>) -> Vec<WaitingProgram<'a>> {
    let folders = folders_of_scripts(facts, waited);
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
    most.values().sum()
}
