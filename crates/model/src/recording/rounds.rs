//! Rounds of a recording: the segments with the same number, which hold the same few seconds of
//! every table. The flight recorder removes the oldest rounds of a recording that is being written,
//! and copies a few minutes of it to recordings of their own.
//!
//! What does not belong here: which rounds are removed, and when a cut is made.

use super::error::RecordingError;
use super::manifest;
use super::segment::{file_name, number};
use super::tables::TABLES;
use super::writer::RecordingWriter;
use crate::environment::FORMAT;
use crate::source::Batch;
use crate::table::Table;
use crate::{Environment, Names, Process, Stack};
use iowhy_fs::{Folder, PRIVATE_FOLDER};
use std::fs;
use std::io;
use std::ops::RangeInclusive;
use std::path::Path;

/// The round of rows that are not final: of requests and waits in flight when a cut was made. It is
/// read last.
pub const OPEN_ROUND: u32 = 99_999_999;

/// The name under which a round is written before it becomes a recording's open one.
const ASIDE: &str = ".open";

/// The tables whose rows later rounds refer to.
const REFERRED: [&str; 2] = [Stack::NAME, Process::NAME];

/// Bytes of a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoundBytes {
    /// Bytes that [`remove_round`] frees.
    pub removable: u64,
    /// Bytes of stacks and processes, which stay.
    pub referred: u64,
}

/// The size of round `number` of the recording `directory`; missing segments count nothing.
pub fn round_bytes(directory: &Path, number: u32) -> RoundBytes {
    let mut bytes = RoundBytes::default();
    for table in TABLES {
        let path = directory.join(table.name).join(file_name(number));
        let size = fs::metadata(path).map_or(0, |metadata| metadata.len());
        match REFERRED.contains(&table.name) {
            true => bytes.referred += size,
            false => bytes.removable += size,
        }
    }
    bytes
}

/// Removes round `number` but for its stacks and processes, which later rounds may refer to.
pub fn remove_round(directory: &Path, number: u32) {
    for table in TABLES.iter().filter(|table| !REFERRED.contains(&table.name)) {
        // A missing file needs no removal, and one that cannot be removed stays counted by its
        // owner.
        let _ = Folder::open(&directory.join(table.name))
            .and_then(|folder| folder.remove_file(file_name(number)));
    }
}

/// Makes the recording `to` of the given rounds of the recording `from`, with all of its stacks and
/// processes, and with `environment` as its `recording.json`. Segments are hard links, so both
/// directories are on one file system.
///
/// # Errors
/// Fails if a directory, a link or `recording.json` cannot be made. A segment that is not there is
/// passed over: a table without rows in a round has none.
pub fn cut(
    from: &Path,
    to: &Path,
    rounds: RangeInclusive<u32>,
    environment: &Environment,
) -> Result<(), RecordingError> {
    let target = Folder::make_all(to, PRIVATE_FOLDER);
    let target = target.map_err(|error| RecordingError::create(to, error))?;
    for table in TABLES {
        let segments_to = target
            .make_folder_once(table.name, PRIVATE_FOLDER)
            .map_err(|error| RecordingError::create(&to.join(table.name), error))?;
        let path = from.join(table.name);
        let Some(segments_from) = table_folder(&path)? else { continue };
        for number in segments(&path)? {
            if rounds.contains(&number) || REFERRED.contains(&table.name) {
                link(&segments_from, &segments_to, number)?;
            }
        }
    }
    let mut environment = Environment { format: FORMAT, ..environment.clone() };
    environment.note_start_time();
    manifest::write(&target, &environment)
}

/// The directory of a table; `None` where there is none.
fn table_folder(path: &Path) -> Result<Option<Folder>, RecordingError> {
    match Folder::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        opened => opened.map(Some).map_err(|error| RecordingError::read(path, error)),
    }
}

fn segments(folder: &Path) -> Result<Vec<u32>, RecordingError> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|error| RecordingError::read(folder, error))?,
    };
    let names = entries.flatten().filter_map(|entry| number(entry.file_name().to_str()?));
    Ok(names.collect())
}

fn link(from: &Folder, to: &Folder, number: u32) -> Result<(), RecordingError> {
    let name = file_name(number);
    match from.link(&name, to, &name) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        linked => linked.map_err(|error| RecordingError::create(&to.path().join(name), error)),
    }
}

/// Adds `batch` to the finished recording `directory` as its [`OPEN_ROUND`].
///
/// # Errors
/// Fails if a file cannot be written.
pub fn add_open_round(
    directory: &Path,
    batch: &Batch,
    names: &Names,
) -> Result<(), RecordingError> {
    if batch.is_empty() {
        return Ok(());
    }
    let aside = directory.join(ASIDE);
    let mut environment = Environment::default();
    let mut writer = RecordingWriter::create(&aside, &environment)?;
    writer.add(batch, names)?;
    writer.finish(&mut environment, names)?;
    let failed = RecordingError::create;
    let recording = Folder::open(directory).map_err(|error| failed(directory, error))?;
    for table in TABLES {
        let from = aside.join(table.name);
        for number in segments(&from)? {
            let to = directory.join(table.name);
            let moved = recording.folder(table.name).and_then(|folder| {
                let from = Folder::open(&from)?;
                from.rename(file_name(number), &folder, file_name(OPEN_ROUND))
            });
            moved.map_err(|error| failed(&to, error))?;
        }
    }
    recording.remove_all(ASIDE).map_err(|error| failed(&aside, error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::tests::rows_of;
    use crate::script::Script;

    /// Three rounds of ten requests each in one recording.
    fn three_rounds(directory: &Path) -> Script {
        let mut script = Script::new(3);
        for index in 0..30 {
            let at = index * 100_000_000;
            script.read("sda", 4096).by(7, "cat").at(at).direct(100, 200, 3_000_000).add();
        }
        let mut writer = RecordingWriter::create(directory, &script.environment).unwrap();
        for batch in script.source(10).batches {
            writer.add(&batch, &script.names).unwrap();
            writer.rotate(&script.names).unwrap();
        }
        writer.finish(&mut script.environment.clone(), &script.names).unwrap();
        script
    }

    fn requests(directory: &Path) -> (usize, usize) {
        rows_of(directory).requests()
    }

    #[test]
    fn a_cut_has_its_rounds_and_every_process() {
        let folder = tempfile::tempdir().unwrap();
        let (all, part) = (folder.path().join("all"), folder.path().join("part"));
        let script = three_rounds(&all);
        let rows = script.source(10).batches.len() as u32;
        cut(&all, &part, rows..=rows, &script.environment).unwrap();
        assert!(requests(&part).0 < requests(&all).0, "{:?}", requests(&part));
        let kept = rows_of(&part);
        let processes =
            kept.batch.requests.iter().map(|request| kept.names.get(request.process.unwrap()));
        assert!(processes.clone().count() > 0 && processes.into_iter().all(|name| name == "cat"));
        // Cutting again into the same directory only adds.
        cut(&all, &part, 1..=rows, &script.environment).unwrap();
        assert_eq!(requests(&part), requests(&all));
    }

    #[test]
    fn a_removed_round_frees_what_is_not_referred_to() {
        let folder = tempfile::tempdir().unwrap();
        let all = folder.path().join("all");
        three_rounds(&all);
        let before = requests(&all).0;
        let has_rows = |number: &u32| round_bytes(&all, *number).removable > 0;
        let first = (1..9).find(has_rows).unwrap();
        let bytes = round_bytes(&all, first);
        remove_round(&all, first);
        assert_eq!(round_bytes(&all, first), RoundBytes { removable: 0, ..bytes });
        assert!(requests(&all).0 < before);
    }

    #[test]
    fn what_is_in_flight_is_a_round_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let all = folder.path().join("all");
        let mut script = three_rounds(&all);
        let (before, _) = requests(&all);
        script.batch = Batch::default();
        script.read("sda", 512).status(crate::Status::InFlight).add();
        for _ in 0..2 {
            add_open_round(&all, &script.batch, &script.names).unwrap();
            assert_eq!(requests(&all), (before + 1, 1));
        }
    }
}
