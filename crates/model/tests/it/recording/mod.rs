//! Promises of the recording: what is written is read, by us and by others, and nothing that
//! happens to a recording takes more of it away than it has to.

mod bad_input;
mod damage;
mod ends;
mod formats;
mod other_programs;
mod rows;
mod same_rows;
mod shown;

use iowhy_model::environment::{Device, Mount};
use iowhy_model::recording::{RecordingError, RecordingReader, RecordingWriter, SegmentLimits};
use iowhy_model::source::{Batch, Progress, Source};
use iowhy_model::{Environment, Names};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// Segments that end only when a test asks, and row groups small enough that there are several.
const SMALL: SegmentLimits = SegmentLimits {
    group_rows: 100,
    group_bytes: 1 << 20,
    segment_bytes: usize::MAX,
    segment_age: Duration::MAX,
};

/// A directory that does not exist yet, in one that goes away.
fn place() -> (TempDir, PathBuf) {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("recording");
    (parent, directory)
}

fn environment() -> Environment {
    Environment {
        version: "0.1.0".to_owned(),
        source: "scripted".to_owned(),
        host: "db7 \u{1b}[31m".to_owned(),
        start_ns: 1_000,
        realtime_offset_ns: -5,
        devices: vec![Device { name: "sda".to_owned(), ..Device::default() }].into(),
        mounts: vec![Mount { path: "/a \"b\"\n".to_owned(), ..Mount::default() }].into(),
        ..Environment::default()
    }
}

/// Writes `batches`, each as segments of its own, and finishes.
fn write(directory: &Path, batches: &[Batch], names: &Names) {
    let mut writer = RecordingWriter::with_limits(directory, &environment(), SMALL).unwrap();
    for batch in batches {
        writer.add(batch, names).unwrap();
        writer.rotate(names).unwrap();
    }
    let mut end = Environment { end_ns: 9_000, finished: true, ..environment() };
    writer.finish(&mut end, names).unwrap();
}

/// Everything that a recording holds.
fn read(directory: &Path) -> Result<(Batch, Names, Environment), RecordingError> {
    let (mut all, mut names) = (Batch::default(), Names::new());
    let mut reader = RecordingReader::open(directory)?;
    while reader.fill(&mut all, &mut names)? == Progress::More {}
    Ok((all, names, reader.environment().clone()))
}

/// The files of a table, by name.
fn files(directory: &Path, table: &str) -> Vec<String> {
    let entries = std::fs::read_dir(directory.join(table)).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
