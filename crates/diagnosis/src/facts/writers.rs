//! The programs that write to a file system, by their calls: what is written back may have been
//! dirtied before the watch, and then its requests have no writer.
//!
//! What does not belong here: how a program writes (`writing`).

use super::neighbours::is_program;
use super::{Facts, subject_of};
use crate::Subject;
use iowhy_analysis::summary::{ActivityRow, Direction, ProcessRow, UsedRow};
use std::collections::BTreeMap;

/// Folders of file systems in memory, which are in no list of mounts.
const IN_MEMORY: [&str; 5] = ["/dev/", "/run/", "/tmp/", "/proc/", "/sys/"];

/// The number of a mounted file system: major and minor.
pub type Place = (u32, u32);

/// A process writes by far more than another from this ratio on. Chosen.
const BY_FAR: u64 = 4;

impl<'a> Facts<'a> {
    /// Returns the process whose data most of a device's writes are, if it is by far another one
    /// than the one that a finding is about.
    pub fn heavier_writer(&self, waiting: &Subject) -> Option<Subject> {
        let device = self.device_of(waiting)?;
        let written = |row: &&UsedRow<ProcessRow>| row.usage.directions[Direction::Write].bytes;
        let most = device.processes.iter().max_by_key(written)?;
        let own = device.processes.iter().find(|row| row.subject.pid == waiting.pid);
        let is_own = match waiting.pid {
            Some(_) => most.subject.pid == waiting.pid,
            None => Some(&most.subject.process) == waiting.process.as_ref(),
        };
        let is_other = most.subject.pid.is_some() && !is_own;
        let is_far = written(&most) >= BY_FAR * own.as_ref().map_or(0, written).max(1);
        (is_other && is_far && is_program(&most.subject))
            .then(|| subject_of(&device.device, Some(most)))
    }

    /// Returns the number of the file system that has a file; `None` if it is in memory, or not
    /// known.
    pub fn place_of(&self, file: &str) -> Option<Place> {
        let is_in_memory = IN_MEMORY.iter().any(|folder| file.starts_with(folder));
        let mount = self.mount_of_file(file).filter(|_| !is_in_memory)?;
        Some((mount.major, mount.minor))
    }

    /// Returns the file system that a program changes by most calls.
    pub fn place_changed_by(&self, process: &str) -> Option<Place> {
        self.place_changed(|row| row.process.as_deref() == Some(process))
    }

    /// Returns the file system that these calls change most often.
    pub fn place_changed(&self, is_meant: impl Fn(&ActivityRow) -> bool) -> Option<Place> {
        let mut changes: BTreeMap<Place, u64> = BTreeMap::new();
        for row in self.calls_on_files().filter(|row| is_meant(row)) {
            let Some(place) = row.file.as_deref().and_then(|file| self.place_of(file)) else {
                continue;
            };
            let counts = &row.counts;
            let calls = [counts.writes, counts.creates, counts.unlinks];
            let all = changes.entry(place).or_default();
            *all = calls.into_iter().fold(*all, u64::saturating_add);
        }
        changes.into_iter().filter(|(_, calls)| *calls > 0).max_by_key(|it| it.1).map(|it| it.0)
    }

    /// Returns what each program has written by calls to files of a file system, bytes.
    pub fn written_by_calls(&self, place: Place) -> BTreeMap<&'a str, u64> {
        let mut written: BTreeMap<&str, u64> = BTreeMap::new();
        for row in self.calls_on_files() {
            let Some(process) = row.process.as_deref() else { continue };
            if row.file.as_deref().and_then(|file| self.place_of(file)) == Some(place) {
                let bytes = written.entry(process).or_default();
                *bytes = bytes.saturating_add(row.counts.write_bytes);
            }
        }
        written
    }

    fn calls_on_files(&self) -> impl Iterator<Item = &'a ActivityRow> {
        self.summary.activity.iter().flat_map(|activity| &activity.rows)
    }
}
