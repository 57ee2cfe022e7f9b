//! fio: where it is, and whether it is new enough.
//!
//! What does not belong here: what it is told to do (see [`crate::jobs`]).

use crate::error::{ActionContext, ReproduceError, Result};
use crate::jobs::OLDEST_FIO;
use crate::plan::LoadPlan;
use std::path::PathBuf;
use std::process::{Command, Stdio};

const INSTALL: &str = "install fio: `apt install fio`, `dnf install fio`";

/// A program in PATH, or where system programs are.
pub fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(PathBuf::from);
    let mut places = std::env::split_paths(&path).chain(system).map(|it| it.join(name));
    places.find(|it| it.is_file())
}

/// fio's path.
///
/// # Errors
/// There is none.
pub fn find() -> Result<PathBuf> {
    program("fio").ok_or_else(|| ReproduceError::new("find fio", "it is not in PATH").hint(INSTALL))
}

/// Refuses a missing or too old fio, if the plan needs it.
///
/// # Errors
/// It is.
pub fn need(plan: &LoadPlan) -> Result<()> {
    if plan.programs.iter().all(|it| it.jobs.is_empty()) {
        return Ok(());
    }
    let path = find()?;
    let mut command = Command::new(&path);
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
    fn versions_are_compared_as_numbers() {
        assert_eq!(version("fio-3.33\n"), Some((3, 33)));
        assert_eq!(version("fio-3.36-104-gd1b2"), Some((3, 36)));
        assert_eq!(version("fio-3.5"), Some((3, 5)));
        assert!(version("fio-3.5") < Some(OLDEST_FIO));
        assert_eq!(version("something"), None);
    }
}
