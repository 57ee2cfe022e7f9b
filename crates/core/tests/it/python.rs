//! A Python that has what other people read iowhy's files with.

use std::path::{Path, PathBuf};
use std::process::Command;

/// `scripts/python-env` makes it. `None`, and a reason printed, where it cannot; under `CI=true`
/// that is a failure.
pub fn python() -> Option<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/python-env");
    let found = Command::new(&script).output().map_err(|error| error.to_string());
    let found = found.and_then(|output| match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    });
    match found {
        Ok(programs) => Some(Path::new(&programs).join("python3")),
        Err(why) if std::env::var("CI").is_ok_and(|ci| ci == "true") => {
            panic!("no Python with DuckDB, pandas and Perfetto's definitions: {why}")
        }
        Err(why) => {
            eprintln!("skipped: no Python with DuckDB, pandas and Perfetto's definitions: {why}");
            None
        }
    }
}
