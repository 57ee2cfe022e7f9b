//! fio: where it is, and whether it is new enough.
//!
//! What does not belong here: what it is told to do (see [`crate::jobs`]).

use crate::error::{ActionContext, ReproduceError, Result};
use crate::jobs::OLDEST_FIO;
use crate::plan::LoadPlan;
use iowhy_fs::programs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const INSTALL: &str = "install fio: `apt install fio`, `dnf install fio`";

/// fio's path.
///
/// # Errors
/// Fails if there is none.
pub fn find() -> Result<PathBuf> {
    programs::find("fio")
        .ok_or_else(|| ReproduceError::new("find fio", "it is not installed").hint(INSTALL))
}

/// Refuses a missing or too old fio, if the plan needs it.
///
/// # Errors
/// Fails if fio is needed, and missing or too old.
pub fn need(plan: &LoadPlan) -> Result<()> {
    if plan.programs.iter().all(|program| program.jobs.is_empty()) {
        return Ok(());
    }
    check(&find()?)
}

/// Refuses the fio at `path`, if it is too old.
fn check(path: &Path) -> Result<()> {
    let mut command = Command::new(path);
    command.arg("--version").stdin(Stdio::null());
    let output = command.output().context(|| format!("start {}", path.display()))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let (major, minor) = OLDEST_FIO;
    match version(&said) {
        Some(version) if version >= OLDEST_FIO => Ok(()),
        known => {
            let is = match known {
                Some((major, minor)) => format!("it is version {major}.{minor}"),
                None => format!("its version is not known: {:?}", said.trim()),
            };
            let cause = format!("{is}, and {major}.{minor} or newer is needed");
            Err(ReproduceError::new(format!("use {}", path.display()), cause).hint(INSTALL))
        }
    }
}

/// `fio-3.33`, `fio-3.36-104-gd1b2`.
fn version(said: &str) -> Option<(u32, u32)> {
    let numbers = said.trim().strip_prefix("fio-")?;
    let (major, rest) = numbers.split_once('.')?;
    let minor = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_or_unknown_fio_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let fio = folder.path().join("fio");
        for (said, cause) in [("fio-3.5", "version 3.5"), ("hello", "version is not known")] {
            std::fs::write(&fio, format!("#!/bin/sh\necho {said}\n")).unwrap();
            std::fs::set_permissions(&fio, PermissionsExt::from_mode(0o755)).unwrap();
            let text = check(&fio).unwrap_err().to_string();
            assert!(text.contains(cause) && text.contains("3.31 or newer"), "{text}");
        }
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        assert_eq!(version("fio-3.33\n"), Some((3, 33)));
        assert_eq!(version("fio-3.36-104-gd1b2"), Some((3, 36)));
        assert_eq!(version("fio-3.5"), Some((3, 5)));
        assert!(version("fio-3.5") < Some(OLDEST_FIO));
        assert_eq!(version("something"), None);
    }
}
