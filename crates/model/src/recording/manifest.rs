//! `recording.json`: the environment of the watch, written atomically.

use super::bounds;
use super::error::{ErrorCause, RecordingError};
use crate::Environment;
use crate::environment::FORMAT;
use iowhy_fs::{Folder, PRIVATE_FILE, read};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

const NAME: &str = "recording.json";
const RESERVE: &str = ".recording.json.reserve";
/// Space that is kept for the last `recording.json` on a disk that gets full: some ten kilobytes
/// are usual, and a host with a thousand mounts needs some hundred.
const RESERVED_BYTES: usize = 256 << 10;
/// The largest size of a `recording.json`, bytes.
const MOST_BYTES: u64 = 4 << 20;

/// The path of `recording.json` in a recording.
pub(super) fn path(directory: &Path) -> PathBuf {
    directory.join(NAME)
}

/// Writes `environment` in place of the earlier `recording.json`.
pub(super) fn write(folder: &Folder, environment: &Environment) -> Result<(), RecordingError> {
    let replace = || -> Result<(), ErrorCause> {
        let mut text = serde_json::to_vec_pretty(environment).map_err(io::Error::from)?;
        text.push(b'\n');
        Ok(folder.replace(NAME, &text, PRIVATE_FILE, false)?)
    };
    replace().map_err(|cause| RecordingError::write(&path(folder.path()), cause))
}

/// Removes the `recording.json` of a recording that did not begin.
pub(super) fn remove(folder: &Folder) {
    // The error that led here is the one to show.
    let _ = folder.remove_file(NAME);
}

/// Takes the space that the last `recording.json` will need, so that a watch which filled the disk
/// can still say so. [`release`] frees it.
pub(super) fn reserve(folder: &Folder) -> Result<(), RecordingError> {
    let file = folder.create(RESERVE, PRIVATE_FILE);
    file.and_then(|mut file| file.write_all(&vec![0; RESERVED_BYTES]))
        .map_err(|error| RecordingError::create(&folder.path().join(RESERVE), error))
}

/// Frees the space that [`reserve`] took.
pub(super) fn release(folder: &Folder) {
    // If it cannot be removed, at worst the file that needs its space cannot be written, which is
    // reported.
    let _ = folder.remove_file(RESERVE);
}

/// Reads the `recording.json` of the recording `directory`.
pub(super) fn read(directory: &Path) -> Result<Environment, RecordingError> {
    let not = |why| RecordingError::NotARecording { path: directory.to_owned(), why };
    let metadata =
        fs::metadata(directory).map_err(|error| RecordingError::read(directory, error))?;
    if !metadata.is_dir() {
        return Err(not("it is a file, and a recording is a directory"));
    }
    let path = path(directory);
    let file = match read::open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(not("it has no recording.json"));
        }
        file => file.map_err(|error| RecordingError::read(&path, error))?,
    };
    let text =
        read::all_of(file, MOST_BYTES).map_err(|error| RecordingError::read(&path, error))?;
    parse(directory, &path, &text)
}

fn parse(directory: &Path, path: &Path, text: &[u8]) -> Result<Environment, RecordingError> {
    let wrong = |cause: String| RecordingError::Manifest { path: path.to_owned(), cause };
    if text.is_empty() {
        return Err(wrong("it is empty".to_owned()));
    }
    read::check_objects(text).map_err(|error| wrong(error.to_string()))?;
    // The format first: a later one may contain anything else.
    let header =
        serde_json::from_slice::<Header>(text).map_err(|error| wrong(described(&error)))?;
    match header.format {
        0 => Err(RecordingError::NotARecording {
            path: directory.to_owned(),
            why: "its recording.json is not iowhy's: it has no format",
        }),
        found if found > FORMAT => {
            Err(RecordingError::Newer { path: directory.to_owned(), found, writer: header.version })
        }
        _ => {
            let read = serde_json::from_slice(text).map_err(|error| wrong(described(&error)));
            read.map(bounds::with_times)
        }
    }
}

/// The fields of every format.
#[derive(serde::Deserialize)]
#[serde(default)]
#[derive(Default)]
struct Header {
    format: u32,
    version: String,
}

fn described(error: &serde_json::Error) -> String {
    if error.is_eof() {
        format!("it is cut short in line {}", error.line())
    } else {
        error.to_string()
    }
}
