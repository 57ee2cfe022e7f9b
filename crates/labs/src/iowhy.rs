//! The built binary `iowhy`, run as a user runs it.

use crate::{LabError, Result};
use std::path::PathBuf;

/// The path of the binary: `IOWHY_BIN`, or the directory of this program (or its parent, for
/// tests).
pub fn binary() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("IOWHY_BIN") {
        return Ok(path.into());
    }
    let own = std::env::current_exe().unwrap_or_default();
    own.ancestors()
        .skip(1)
        .take(2)
        .map(|folder| folder.join("iowhy"))
        .find(|file| file.is_file())
        .ok_or_else(|| {
            LabError::missing("the binary iowhy", "cargo build --package iowhy, or set IOWHY_BIN")
        })
}
