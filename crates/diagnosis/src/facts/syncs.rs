//! Programs that sync, how often, and how many bytes per sync: by the program's own calls, not by
//! what its device does for others.
//!
//! What does not belong here: judging it (see `rules`).

use super::calls::{SYNC_ALL, SYNC_DATA};
use super::{Facts, Subject, Waited};
use crate::programs::{self, FileRole, Topic};
use iowhy_analysis::summary::{ActivityRow, DeviceSummary};
use iowhy_model::compact_sort::CompactSort;
use iowhy_model::environment::is_part_of;
use iowhy_model::{Origin, WaitClass};
use std::collections::BTreeMap;

/// The least number of files that are synced without having been written. Chosen: a program that
/// makes sure of its own files has some.
const MANY_FILES: u64 = 50;

/// The least number of files for many. Chosen: more than a program's log and its state.
const SYNCED_FILES: u64 = 20;
/// The most syncs of each of them: of the file, of its folder, and of a second name. Chosen.
const SYNCS_OF_EACH: u64 = 4;

/// The advice where a program's writes are synchronous although it calls no sync.
const SYNCHRONOUS: &str = "find what makes each write a sync: O_SYNC or O_DSYNC of the program \
                           (`oflag=sync`), or attribute S of the file or of its folder (`lsattr \
                           FILE`; `chattr -S FILE` clears it)";

/// The syncs of one program: of all processes of one name in one container.
#[derive(Clone, Debug)]
pub struct ProgramSyncs<'a> {
    /// Its waits for them.
    pub waited: Waited<'a>,
    /// Its calls; `None` if calls are not in the data.
    pub calls: Option<u64>,
    /// Those for files most of which it syncs, and what it wrote to them; `None` likewise.
    pub written: Option<SyncedWrites>,
    /// Time of these calls from entry to return, nanoseconds; `None` if not all were timed.
    pub timed_ns: Option<u64>,
    /// Whether its writes themselves are synchronous, and it calls no sync.
    pub by_writes: bool,
    /// Whether all of these are only of the part of the watch in which calls were counted.
    pub is_partial: bool,
}

/// Syncs of some files, and the writes before them.
#[derive(Clone, Copy, Debug)]
pub struct SyncedWrites {
    syncs: u64,
    writes: u64,
    bytes: u64,
    files: u64,
}

impl SyncedWrites {
    /// Of `rows`, each of whose writes counts as a sync if they sync `by_writes`; `None` without
    /// any.
    fn of<'a>(rows: impl Iterator<Item = &'a ActivityRow>, by_writes: bool) -> Option<Self> {
        let mut sums = SyncedWrites { syncs: 0, writes: 0, bytes: 0, files: 0 };
        // Several processes may sync the same files.
        let mut files: BTreeMap<Option<&str>, u64> = BTreeMap::new();
        for row in rows {
            let counts = &row.counts;
            let syncs = if by_writes { counts.writes } else { counts.fsyncs };
            sums.syncs = sums.syncs.saturating_add(syncs);
            sums.writes = sums.writes.saturating_add(counts.writes);
            sums.bytes = sums.bytes.saturating_add(counts.write_bytes);
            let count = files.entry(row.file.as_deref()).or_default();
            *count = row.files.unwrap_or(1).max(*count);
        }
        sums.files = files.into_values().fold(0, u64::saturating_add);
        (sums.syncs > 0).then_some(sums)
    }
}

impl ProgramSyncs<'_> {
    /// Returns the process that waited longest, with its device and file.
    pub fn subject(&self) -> Subject {
        let mut subject = self.waited.subject();
        let pid = subject.pid;
        if self.waited.groups.iter().any(|group| Some(group.pid) != pid) {
            subject.pid = None;
        }
        subject
    }

    /// Returns the number of syncs; of those that waited, if calls were not counted all the time.
    pub fn count(&self) -> u64 {
        self.calls.filter(|_| !self.is_partial).unwrap_or(self.waited.calls)
    }

    /// Returns the bytes per sync.
    pub fn bytes_each(&self) -> Option<f64> {
        self.written.map(|sums| sums.bytes as f64 / sums.syncs as f64)
    }

    /// Returns the writes per sync.
    pub fn writes_each(&self) -> Option<f64> {
        self.written.map(|sums| sums.writes as f64 / sums.syncs as f64)
    }

    /// Whether they are of many files, a few of each.
    pub fn are_of_many_files(&self) -> bool {
        self.written.is_some_and(|sums| {
            sums.files >= SYNCED_FILES && sums.files.saturating_mul(SYNCS_OF_EACH) >= sums.syncs
        })
    }

    /// Returns the time of its syncs, nanoseconds, without a single wait that is longer than all
    /// others together: that is an event of its own, and no habit of the program.
    pub fn usual_ns(&self) -> u64 {
        let longest_ns = self.waited.longest_ns();
        let others_ns = self.waited.time_ns.saturating_sub(longest_ns);
        if longest_ns > others_ns { others_ns } else { self.waited.time_ns }
    }

    /// Whether most of their time is for the journal although they ask for data alone (fdatasync):
    /// the file grows, or was not written at these places before.
    pub fn are_of_growth(&self, facts: &Facts<'_>) -> bool {
        let of_data = self.waited.groups.iter().filter(|group| {
            group.class == WaitClass::JournalCommit && facts.is_call(group.syscall, SYNC_DATA)
        });
        let time_ns = of_data.map(|group| group.class_ns()).fold(0, u64::saturating_add);
        time_ns.saturating_mul(2) >= self.waited.time_ns.max(1)
    }

    /// Returns the usual time per sync, nanoseconds: from its entry to its return where calls were
    /// timed, else the time that it was blocked.
    pub fn mean_ns(&self) -> f64 {
        let event_ns = self.waited.time_ns - self.usual_ns();
        let timed_ns = self.timed_ns.filter(|timed_ns| !self.is_partial && *timed_ns > event_ns);
        let usual_ns = timed_ns.map_or(self.usual_ns(), |timed_ns| timed_ns - event_ns);
        usual_ns as f64 / self.count().max(1) as f64
    }
}

impl<'a> Facts<'a> {
    /// Returns the programs that wait for their syncs, longest first.
    pub fn syncs(&self) -> Vec<ProgramSyncs<'a>> {
        let mut programs: BTreeMap<(&str, Option<&str>), Vec<_>> = BTreeMap::new();
        for group in self.waits(|group| self.is_sync(group)).groups {
            let key = (group.process.as_str(), group.container.as_deref());
            programs.entry(key).or_default().push(group);
        }
        let mut found: Vec<ProgramSyncs<'a>> = programs
            .into_values()
            .map(|groups| self.syncs_of(Waited::from_groups(groups)))
            .collect();
        found.compact_sort_by_key(|syncs| std::cmp::Reverse(syncs.waited.time_ns));
        found
    }

    fn syncs_of(&self, waited: Waited<'a>) -> ProgramSyncs<'a> {
        let first = waited.groups.first();
        let process = first.map(|first| first.process.as_str());
        let rows = self.summary().activity.iter().flat_map(|activity| &activity.rows);
        let own: Vec<&ActivityRow> =
            rows.filter(|row| row.process.as_deref() == process && process.is_some()).collect();
        // If only writes themselves sync (O_SYNC, O_DSYNC), each write of the file counts as a
        // sync.
        let explicit =
            waited.groups.iter().filter(|group| !self.is_call(group.syscall, super::calls::WRITE));
        let explicit_ns: u64 =
            explicit.map(|explicit| explicit.time_ns).fold(0, u64::saturating_add);
        let by_writes = explicit_ns * 2 < waited.time_ns;
        let file = first.and_then(|first| first.file.as_deref());
        let is_written = |row: &&&ActivityRow| row.file.as_deref() == file && file.is_some();
        // A pattern of files most of which are not synced says nothing of those that are.
        let is_theirs = |row: &ActivityRow| {
            row.counts.fsyncs > 0 && row.counts.fsyncs.saturating_mul(2) >= row.files.unwrap_or(1)
        };
        let is_synced = |row: &&&ActivityRow| {
            let mut same = own.iter().filter(|other| other.file == row.file && row.file.is_some());
            same.any(|other| is_theirs(other))
        };
        let rows = own.iter();
        let written = match by_writes {
            true => SyncedWrites::of(rows.filter(is_written).copied(), true),
            false => SyncedWrites::of(rows.filter(is_synced).copied(), false),
        };
        let syncs = || own.iter().map(|row| row.counts.fsyncs).fold(0, u64::saturating_add);
        let calls = match by_writes {
            true => written.map(|sums| sums.syncs),
            false => Some(syncs()).filter(|syncs| *syncs > 0),
        };
        let environment = &self.summary().environment;
        let are_timed = environment.thinning.iter().all(|level| level.call_times)
            && own.iter().all(|row| row.counts.timed_calls >= row.counts.calls());
        let timed_ns = (!by_writes && calls.is_some() && are_timed)
            .then(|| own.iter().map(|row| row.counts.fsync_ns).fold(0, u64::saturating_add));
        let is_partial = environment.lacks_calls();
        ProgramSyncs { waited, calls, written, timed_ns, by_writes, is_partial }
    }

    /// Returns the number of files that a program syncs although it wrote nothing to them, as a
    /// database does after a crash; `None` unless those are most of its syncs.
    pub fn unwritten(&self, syncs: &ProgramSyncs<'_>) -> Option<u64> {
        let process = syncs.subject().process?;
        let rows = self.summary().activity.iter().flat_map(|report| &report.rows);
        let own: Vec<_> = rows.filter(|row| row.process.as_ref() == Some(&process)).collect();
        let sum = |fits: &dyn Fn(u64) -> bool| -> u64 {
            let fitting = own.iter().filter(|row| fits(row.counts.write_bytes));
            fitting.map(|row| row.counts.fsyncs).fold(0, u64::saturating_add)
        };
        let (clean, all) = (sum(&|bytes| bytes == 0), sum(&|_| true));
        (clean >= MANY_FILES && 10 * clean >= 9 * all).then_some(clean)
    }

    /// Returns the device that a mount option names for the log of the file system on `device`, or
    /// whose partition it names; not one of the device mapper, which has another name there.
    pub fn log_device(&self, device: &DeviceSummary) -> Option<&'a DeviceSummary> {
        let options = self.mounts(device).into_iter().flat_map(|mount| mount.options.split(','));
        let named = options.filter_map(|option| option.strip_prefix("logdev=/dev/"));
        let mut found = named
            .filter_map(|name| self.devices().iter().find(|row| is_part_of(&row.device, name)));
        found.find(|log| log.device != device.device)
    }

    /// Returns the device whose file system has its journal on another device, which holds nothing
    /// else: programs wait for commits on the first, and the second has all of the journal.
    pub fn journalled(&self, journal: &str) -> Option<&'a str> {
        let requests = |row: &DeviceSummary| super::origin_of(row, Origin::Journal).1;
        let row = self.devices().iter().find(|row| row.device == journal)?;
        let all: u64 =
            row.origins.iter().map(|row| row.usage.requests).fold(0, u64::saturating_add);
        let flushes = super::origin_of(row, Origin::Flush).1;
        if requests(row) == 0 || requests(row) + flushes < all || !self.mounts(row).is_empty() {
            return None;
        }
        let commits = self.waits_for(WaitClass::JournalCommit);
        let of = commits.groups.iter().filter_map(|group| group.device.as_deref());
        let has_none = |name: &&str| {
            self.devices().iter().any(|row| row.device == **name && requests(row) == 0)
        };
        of.filter(|name| *name != journal).find(has_none)
    }

    /// Whether a group of waits is in sync or syncfs.
    pub fn is_sync_all(&self, group: &iowhy_analysis::summary::patterns::WaitGroup) -> bool {
        self.is_call(group.syscall, SYNC_ALL)
    }
}

/// Returns the fix for syncs: the program's own setting first, if known.
pub fn advice(subject: &Subject, by_writes: bool, general: &str) -> String {
    let (process, file) = (subject.process.as_deref(), subject.file.as_deref());
    let role = file.and_then(|file| programs::role_of(process, file));
    let topic = match role {
        Some(FileRole::Compaction) if !programs::syncs_at_commit(process, file) => {
            Topic::Compaction
        }
        Some(FileRole::NewSegment) => Topic::NewSegment,
        Some(FileRole::NewTable) => Topic::Maintenance,
        _ => Topic::Sync,
    };
    match programs::advice(process, file, topic) {
        Some(own) => format!("{own}; {general}"),
        None if by_writes => format!("{SYNCHRONOUS}; {general}"),
        None => general.to_owned(),
    }
}

/// Returns the file of a subject for sentences: ` of the write-ahead log /pg_wal/1`, or nothing.
pub fn of_file(subject: &Subject) -> String {
    let Some(file) = &subject.file else { return String::new() };
    let process = subject.process.as_deref();
    match programs::role_of(process, file) {
        Some(role) => {
            format!(" of the {} {file}", programs::phrase(process, Some(file.as_str()), role))
        }
        None => format!(" of {file}"),
    }
}
