//! A Python with the libraries by which other people read iowhy's files.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The Python that `scripts/python-env` makes. If the script fails, prints the reason and returns
/// `None`; under `CI=true` panics.
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
