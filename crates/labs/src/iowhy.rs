//! The built binary `iowhy`, run as a user runs it.

use crate::{Error, Result};
use std::path::PathBuf;

/// Where the binary is: `IOWHY_BIN`, or beside this program (or its parent folder, for tests).
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
            Error::missing("the binary iowhy", "cargo build --package iowhy, or set IOWHY_BIN")
        })
}
