//! The directory of incidents: one directory each, named by its number.
//!
//! ```text
//! incidents/000007/incident.json   what is known of it (see super::record)
//!                  findings.json   the diagnosis around the trigger, as --json=brief prints it
//!                  report.html     the same with tables and charts, as report --html writes it
//!                  recording/      the minutes before and after
//!                  earlier/        minutes before that, where recording began anew in between
//!                  pinned          only of those that are never removed to make room
//! ```
//!
//! What does not belong here: how incidents get there (see [`crate::saver`]).

use super::record::{INCIDENT_FORMAT, IncidentRecord};
use super::retention::StoredSize;
use crate::disk;
use iowhy_fs::read;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The file with the record of an incident.
pub const RECORD: &str = "incident.json";
/// The file with the diagnosis of an incident.
pub const FINDINGS: &str = "findings.json";
/// The file with the page of an incident.
pub const PAGE: &str = "report.html";
/// The directory of the recording in an incident.
pub const RECORDING: &str = "recording";
/// The directory of the recording of the time before it, if there is one.
pub const EARLIER: &str = "earlier";
/// The file that pins an incident.
pub const PINNED: &str = "pinned";
/// The last number of an incident: two thousand years at six an hour. A directory with a larger
/// number is none of the daemon's.
pub const LAST_NUMBER: u32 = 99_999_999;
/// Bytes of an `incident.json`; a larger file is refused.
const MOST_BYTES: u64 = 4 << 20;

/// The incidents of a host.
#[derive(Clone, Debug)]
pub struct IncidentStore {
    directory: PathBuf,
}

/// An incident that is kept.
#[derive(Clone, Debug)]
pub struct StoredIncident {
    /// The incident's record.
    pub record: IncidentRecord,
    /// Its directory.
    pub path: PathBuf,
    /// Whether it is never removed to make room.
    pub pinned: bool,
    /// Its bytes on disk.
    pub bytes: u64,
}

impl StoredIncident {
    /// Reads the incident in the directory `path`, which may be anywhere.
    ///
    /// # Errors
    /// Fails if its `incident.json` cannot be read, or is of a newer iowhy.
    pub fn read(path: &Path) -> io::Result<StoredIncident> {
        let record = read_record(path)?;
        let (pinned, bytes) = (path.join(PINNED).exists(), disk::bytes_below(path));
        Ok(StoredIncident { record, path: path.to_owned(), pinned, bytes })
    }
}

impl IncidentStore {
    /// Returns the store below the state directory `state`.
    pub fn below(state: &Path) -> IncidentStore {
        IncidentStore { directory: state.join("incidents") }
    }

    /// Returns the directory of all incidents.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the directory of incident `number`.
    pub fn path(&self, number: u32) -> PathBuf {
        self.directory.join(format!("{number:06}"))
    }

    /// Returns the numbers of all incidents, in order.
    ///
    /// # Errors
    /// Fails if the directory cannot be read; if it does not exist, there are no incidents.
    pub fn numbers(&self) -> io::Result<Vec<u32>> {
        let entries = match fs::read_dir(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let number = |entry: fs::DirEntry| {
            let name = entry.file_name();
            let number = name.to_str()?.parse().ok().filter(|number| *number <= LAST_NUMBER)?;
            (self.path(number) == entry.path()).then_some(number)
        };
        let mut numbers: Vec<u32> = entries.flatten().filter_map(number).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Returns all incidents, the oldest first. One whose `incident.json` cannot be read is
    /// skipped.
    ///
    /// # Errors
    /// Fails as [`IncidentStore::numbers`] does.
    pub fn all(&self) -> io::Result<Vec<StoredIncident>> {
        let numbers = self.numbers()?.into_iter();
        Ok(numbers.filter_map(|number| self.get(number).ok()).collect())
    }

    /// Returns incident `number`.
    ///
    /// # Errors
    /// Fails if there is none, or its `incident.json` cannot be read.
    pub fn get(&self, number: u32) -> io::Result<StoredIncident> {
        let mut incident = StoredIncident::read(&self.path(number))?;
        incident.record.number = number;
        Ok(incident)
    }

    /// Returns the sizes of all incidents.
    ///
    /// # Errors
    /// Fails as [`IncidentStore::numbers`] does.
    pub fn sizes(&self) -> io::Result<Vec<StoredSize>> {
        let size = |number| {
            let path = self.path(number);
            let (pinned, bytes) = (path.join(PINNED).exists(), disk::bytes_below(&path));
            let asked = read_record(&path).is_ok_and(|record| record.is_asked());
            StoredSize { number, bytes, pinned, asked }
        };
        Ok(self.numbers()?.into_iter().map(size).collect())
    }

    /// Pins incident `number`, or lets it be removed again.
    ///
    /// # Errors
    /// Fails if there is no such incident, or it cannot be changed.
    pub fn pin(&self, number: u32, pinned: bool) -> io::Result<()> {
        let path = self.path(number);
        fs::metadata(&path)?;
        let (folder, mark) = disk::own_parent(&path.join(PINNED))?;
        let changed = match pinned {
            true => folder.create_anew(mark, disk::FILE_MODE).map(drop),
            false => folder.remove_file(mark),
        };
        match changed {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
            Ok(()) => folder.sync_names(),
        }
    }

    /// Removes incident `number`. It is renamed first, so that one that is half removed is not
    /// listed.
    ///
    /// # Errors
    /// Fails if there is no such incident, or it cannot be removed.
    pub fn remove(&self, number: u32) -> io::Result<()> {
        let (folder, name) = disk::own_parent(&self.path(number))?;
        let gone = format!(".{number:06}.removed");
        folder.rename(name, &folder, &gone)?;
        folder.remove_all(gone)
    }
}

/// Reads the record of the incident in `directory`.
///
/// # Errors
/// Fails if its `incident.json` cannot be read or understood, or its layout is of a newer iowhy.
pub fn read_record(directory: &Path) -> io::Result<IncidentRecord> {
    let text = read::bytes(&directory.join(RECORD), MOST_BYTES)?;
    read::check_objects(&text)?;
    let record: IncidentRecord = serde_json::from_slice(&text)?;
    match record.format {
        newer if newer > INCIDENT_FORMAT => Err(io::Error::other(format!(
            "its format is {newer}, and this iowhy reads up to {INCIDENT_FORMAT}: use a newer iowhy"
        ))),
        _ => Ok(record),
    }
}

/// Writes the record of the incident in `directory`, completely or not at all.
///
/// # Errors
/// Fails if it cannot be written.
pub fn write_record(directory: &Path, record: &IncidentRecord) -> io::Result<()> {
    let mut text = serde_json::to_vec_pretty(record)?;
    text.push(b'\n');
    disk::replace(&directory.join(RECORD), &text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store_with(numbers: &[u32], folder: &Path) -> IncidentStore {
        let store = IncidentStore::below(folder);
        for number in numbers {
            fs::create_dir_all(store.path(*number)).unwrap();
            let record = IncidentRecord { number: *number, ..IncidentRecord::default() };
            write_record(&store.path(*number), &record).unwrap();
        }
        store
    }

    #[test]
    fn incidents_are_listed_pinned_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        assert!(IncidentStore::below(folder.path()).all().unwrap().is_empty());
        let store = store_with(&[10, 9], folder.path());
        for other in ["x", "7", ".000003.removed"] {
            fs::create_dir_all(store.directory().join(other)).unwrap();
        }
        assert_eq!(store.numbers().unwrap(), [9, 10]);
        store.pin(9, true).unwrap();
        assert!(store.get(9).unwrap().pinned && !store.get(10).unwrap().pinned);
        store.pin(9, false).unwrap();
        store.pin(9, false).unwrap();
        assert!(!store.get(9).unwrap().pinned);
        store.remove(9).unwrap();
        assert_eq!(store.numbers().unwrap(), [10]);
        assert!(store.pin(9, true).is_err() && store.remove(9).is_err());
    }

    #[test]
    fn a_pipe_in_place_of_a_file_is_an_error_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let store = store_with(&[1, 2], folder.path());
        let path = store.path(1).join(RECORD);
        fs::remove_file(&path).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, 0o600.into()).unwrap();
        let said = store.get(1).unwrap_err().to_string();
        assert!(said.contains("it is a pipe"), "{said}");
        assert_eq!(store.all().unwrap().len(), 1);
    }

    #[test]
    fn a_number_that_no_daemon_gave_is_not_counted_on() {
        let folder = tempfile::tempdir().unwrap();
        let store = store_with(&[7, u32::MAX, LAST_NUMBER + 1], folder.path());
        assert_eq!(store.numbers().unwrap(), [7]);
    }

    #[test]
    fn a_damaged_incident_is_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let store = store_with(&[1, 2], folder.path());
        fs::write(store.path(1).join(RECORD), "{").unwrap();
        let all = store.all().unwrap();
        assert_eq!(all.iter().map(|incident| incident.record.number).collect::<Vec<_>>(), [2]);
        assert!(store.get(1).is_err());
    }

    #[test]
    fn an_incident_of_a_newer_iowhy_is_refused_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let store = store_with(&[1], folder.path());
        let newer = format!("{{\"format\": {}, \"number\": 1}}", INCIDENT_FORMAT + 1);
        fs::write(store.path(1).join(RECORD), newer).unwrap();
        let error = store.get(1).unwrap_err().to_string();
        assert!(error.contains("its format is 2") && error.contains("a newer iowhy"), "{error}");
        // Its number is taken, and it still makes room for others.
        assert_eq!((store.numbers().unwrap(), store.sizes().unwrap().len()), (vec![1], 1));
    }
}
