#![no_main]
use std::sync::LazyLock;
use tempfile::TempDir;

static FOLDER: LazyLock<Option<TempDir>> = LazyLock::new(|| tempfile::tempdir().ok());

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Some(folder) = &*FOLDER {
        iowhy_fuzz::recording(bytes, folder.path());
    }
});
