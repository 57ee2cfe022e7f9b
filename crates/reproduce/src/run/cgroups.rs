//! A cgroup for a program of the load: its limits on I/O and memory, in either version.
//!
//! What does not belong here: which limits (see [`crate::plan`]).

use super::place::Place;
use crate::error::{ReproduceError, Result};
use crate::plan::{DiskLimit, PlannedProgram};
use crate::undo::Undo;
use std::path::{Path, PathBuf};
use std::process::Command;

const BASE: &str = "/sys/fs/cgroup";
/// Puts itself into the cgroups before a `--`, then becomes the program behind it.
const ENTER: &str = r#"while [ "$1" != -- ]; do echo $$ >"$1/cgroup.procs" || exit 1; shift; done
shift; exec "$@""#;

/// The directories of a program's cgroups: one in version 2, one for each controller in version 1.
#[derive(Clone, Debug)]
pub struct LoadCgroup {
    folders: Vec<PathBuf>,
}

impl LoadCgroup {
    /// Makes the cgroup of a program; `None` if it has no limits.
    ///
    /// # Errors
    /// Fails if this machine cannot limit what was limited, or the cgroup cannot be made.
    pub fn new(
        undo: &Undo,
        program: &PlannedProgram,
        memory_bytes: Option<u64>,
        places: &[Place],
    ) -> Result<Option<LoadCgroup>> {
        let memory = [program.memory_bytes, memory_bytes].into_iter().flatten().min();
        if memory.is_none() && program.limits.is_empty() {
            return Ok(None);
        }
        let name = format!(
            "{}-{}",
            undo.folder().file_name().unwrap_or_default().to_string_lossy(),
            program.name
        );
        let name = format!("iowhy-reproduce-{name}");
        let mut group = LoadCgroup { folders: Vec::new() };
        match Path::new(BASE).join("cgroup.controllers").exists() {
            true => group.second(undo, &name, memory, &program.limits, places)?,
            false => group.first(undo, &name, memory, &program.limits, places)?,
        }
        Ok(Some(group))
    }

    fn second(
        &mut self,
        undo: &Undo,
        name: &str,
        memory: Option<u64>,
        limits: &[DiskLimit],
        places: &[Place],
    ) -> Result<()> {
        let base = Path::new(BASE);
        for (controller, wanted) in [("+io", !limits.is_empty()), ("+memory", memory.is_some())] {
            if wanted {
                write(&base.join("cgroup.subtree_control"), controller)?;
            }
        }
        let folder = self.make(undo, base.join(name))?;
        if let Some(memory) = memory {
            write(&folder.join("memory.max"), &memory.to_string())?;
        }
        for limit in limits {
            let words: Vec<String> = keys(limit).map(|(key, v)| format!("{}={v}", key.0)).collect();
            if let Some(place) = places.get(limit.disk) {
                let (major, minor) = place.number;
                write(&folder.join("io.max"), &format!("{major}:{minor} {}", words.join(" ")))?;
            }
        }
        Ok(())
    }

    fn first(
        &mut self,
        undo: &Undo,
        name: &str,
        memory: Option<u64>,
        limits: &[DiskLimit],
        places: &[Place],
    ) -> Result<()> {
        if let Some(memory) = memory {
            let folder = self.make(undo, Path::new(BASE).join("memory").join(name))?;
            write(&folder.join("memory.limit_in_bytes"), &memory.to_string())?;
        }
        if limits.is_empty() {
            return Ok(());
        }
        let folder = self.make(undo, Path::new(BASE).join("blkio").join(name))?;
        for limit in limits {
            let Some(place) = places.get(limit.disk) else { continue };
            let (major, minor) = place.number;
            for (key, value) in keys(limit) {
                let file = folder.join(format!("blkio.throttle.{}", key.1));
                write(&file, &format!("{major}:{minor} {value}"))?;
            }
        }
        Ok(())
    }

    fn make(&mut self, undo: &Undo, folder: PathBuf) -> Result<PathBuf> {
        if !folder.exists() {
            undo.make_cgroup(&folder).map_err(|error| {
                error.hint("is the cgroup controller mounted, and is this root?")
            })?;
        }
        self.folders.push(folder.clone());
        Ok(folder)
    }

    /// `command`, run inside it.
    ///
    /// # Errors
    /// Fails if there is no shell.
    pub fn inside(&self, command: Command) -> Result<Command> {
        let shell = iowhy_fs::programs::find("sh")
            .ok_or_else(|| ReproduceError::new("start sh", "there is none"))?;
        let mut inside = Command::new(shell);
        inside.args(["-c", ENTER, "sh"]).args(&self.folders).arg("--");
        inside.arg(command.get_program()).args(command.get_args());
        iowhy_fs::bound::surround(&mut inside, &command);
        Ok(inside)
    }
}

/// The limits that are set, by their key in version 2 and their file in version 1.
fn keys(limit: &DiskLimit) -> impl Iterator<Item = ((&'static str, &'static str), u64)> {
    [
        (("rbps", "read_bps_device"), limit.read_bytes),
        (("wbps", "write_bps_device"), limit.write_bytes),
        (("riops", "read_iops_device"), limit.reads),
        (("wiops", "write_iops_device"), limit.writes),
    ]
    .into_iter()
    .filter_map(|(key, value)| Some((key, value?)))
}

fn write(path: &Path, value: &str) -> Result<()> {
    crate::kernel_file::write(path, value)
}
