//! Reads that are page faults of a memory-mapped file.
//!
//! What does not belong here: who reads one block at a time ([`super`]).

use super::*;

/// What to do about them.
pub(super) const FAULTS: &str = "read with pread or io_uring from threads of a pool instead of \
                                through the map, or load the map first (MAP_POPULATE, \
                                madvise(MADV_WILLNEED)): a page fault stops the thread with \
                                all that it holds, such as Python's interpreter lock or one \
                                of Go's GOMAXPROCS processors, and with them threads that do \
                                no I/O; a Java thread in one reaches no safepoint, for which \
                                all others wait (a garbage collection)";

/// Reads by page faults of a memory-mapped file: one page for each.
pub struct MappedReads {
    /// The file with most of them.
    pub file: Option<String>,
    /// Whether that is half of all.
    pub is_of_one: bool,
}

impl MappedReads {
    /// Returns the page faults that most requests of a device are.
    pub fn new(facts: &Facts<'_>, device: &DeviceSummary) -> Option<MappedReads> {
        let faults = facts::origin_of(device, Origin::PageFault).1;
        let is_most = 2 * faults > facts::of(device, Direction::Read).requests;
        let files = facts.patterns(&device.device).map(|pattern| &pattern.access.files[..]);
        let most = files.unwrap_or_default().iter().max_by_key(|file| file.faults);
        let is_of_one = most.is_some_and(|file| 2 * file.faults >= faults);
        let file = most.filter(|file| file.faults > 0).map(|file| file.file.clone());
        is_most.then_some(MappedReads { file, is_of_one })
    }

    /// `; these are page faults of the mapped file /srv/idx`, and how long others of its threads
    /// waited for the one that faults.
    pub(super) fn words(&self, facts: &Facts<'_>, subject: &Subject) -> String {
        let map = match &self.file {
            Some(file) if subject.file.as_ref() == Some(file) => "its memory map".to_owned(),
            Some(file) => format!("the memory map of {file}"),
            None => "the memory map of a file".to_owned(),
        };
        let rows = facts.chains();
        let behind = rows.filter(|row| {
            let mut steps = row.steps.iter();
            row.device == subject.device && steps.all(|step| Some(step.pid) == subject.pid)
        });
        let behind = match behind.map(|row| row.time_ns).fold(0_u64, u64::saturating_add) {
            0 => String::new(),
            time_ns => {
                format!(", for which other threads of it wait {}", words::time(time_ns as f64))
            }
        };
        format!("; these are page faults of {map}{behind}")
    }
}
