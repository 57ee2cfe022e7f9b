//! Inputs of past fuzzing are read again: fuzz/corpus holds those that failed, minimized, and
//! fuzz/seeds those that fuzzing began with.

#[path = "../../../../fuzz/src/lib.rs"]
mod readers;

use std::fs;
use std::path::{Path, PathBuf};

/// The inputs kept for one target.
fn kept(target: &str) -> Vec<Vec<u8>> {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let folders = ["corpus", "seeds"].map(|kind| fuzz.join(kind).join(target));
    let files = |folder: &PathBuf| fs::read_dir(folder).into_iter().flatten().flatten();
    folders.iter().flat_map(files).map(|file| fs::read(file.path()).unwrap()).collect()
}

#[test]
fn what_fuzzing_found_is_survived() {
    kept("capture").iter().for_each(|bytes| readers::capture(bytes));
    kept("text").iter().for_each(|bytes| readers::text(bytes));
    kept("format").iter().for_each(|bytes| readers::format(bytes));
    let folder = tempfile::tempdir().unwrap();
    kept("recording").iter().for_each(|bytes| readers::recording(bytes, folder.path()));
}
