//! The directories and devices in which a load runs.
//!
//! What does not belong here: whether they may be used (see [`crate::target`]).

use crate::error::{ActionContext, ReproduceError, Result};
use crate::plan::LoadPlan;
use crate::target::{CheckedTarget, RunTarget};
use crate::undo::Undo;
use iowhy_fs::{Folder, PRIVATE_FOLDER, programs};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The name of the directory that a run makes in the one that the user named.
const FOLDER: &str = "iowhy-reproduction";

/// The place of one disk's load.
#[derive(Clone, Debug)]
pub struct Place {
    /// The kernel's name of the disk.
    pub disk: String,
    /// The disk's number: major, minor.
    pub number: (u32, u32),
    /// The directory for files; `None` if the plan needs none.
    pub directory: Option<PathBuf>,
    /// The device itself, or a file that stands for it.
    pub raw: PathBuf,
    /// The mount that the run made: its device, its point, its file system.
    mounted: Option<(PathBuf, PathBuf, String)>,
}

/// Checks all targets of a plan.
///
/// # Errors
/// Fails if there are too few or too many, or one may not be used.
pub fn check(plan: &LoadPlan, targets: &[RunTarget]) -> Result<Vec<CheckedTarget>> {
    let disks = plan.disks.len();
    let fits = targets.len() == disks || targets.len() == 1;
    if targets.is_empty() || !fits {
        let cause = format!("it uses {disks} disks, and {} places are named", targets.len());
        return Err(ReproduceError::new("run the reproduction", cause)
            .hint("repeat --on or --on-device for each disk, in the order of README.md"));
    }
    let needed = plan.needed_bytes();
    if targets.len() == disks {
        let named = needed.into_iter().zip(targets);
        return named.map(|(bytes, target)| target.check(bytes)).collect();
    }
    let all = needed.into_iter().fold(0, u64::saturating_add);
    if matches!(targets, [RunTarget::Device { .. }]) && disks > 1 {
        let cause = format!("it uses {disks} disks, and one device is named");
        return Err(ReproduceError::new("run the reproduction", cause)
            .hint("repeat --on-device for each disk, in the order of README.md"));
    }
    let checked = targets.iter().map(|target| target.check(all)).collect::<Result<Vec<_>>>()?;
    Ok(checked.into_iter().cycle().take(disks).collect())
}

/// Makes the place of the disk at `at`, on a target that was checked.
///
/// # Errors
/// Fails if the place cannot be made.
pub fn make(undo: &Undo, plan: &LoadPlan, at: usize, checked: &CheckedTarget) -> Result<Place> {
    let place = |directory: Option<PathBuf>, raw: PathBuf| Place {
        disk: checked.disk.clone(),
        number: checked.number,
        directory,
        raw,
        mounted: None,
    };
    match &checked.target {
        RunTarget::Directory(path) => {
            let folder = path.join(format!("{FOLDER}-{}", at + 1));
            undo.make_folder(&folder)?;
            let raw = folder.join("device");
            Ok(place(Some(folder), raw))
        }
        RunTarget::Device { path, .. } => match plan.uses(at) {
            (true, true) => {
                let cause = "the original used both the device itself and files on it";
                Err(ReproduceError::new(format!("use {}", path.display()), cause)
                    .hint("name a directory: --on"))
            }
            (_, false) => {
                undo.will_format(path)?;
                Ok(place(None, path.clone()))
            }
            (_, true) => formatted(undo, plan, at, path, place(None, path.clone())),
        },
    }
}

/// A file system on the device.
fn formatted(
    undo: &Undo,
    plan: &LoadPlan,
    at: usize,
    device: &Path,
    place: Place,
) -> Result<Place> {
    let kind = plan.disks.get(at).and_then(|disk| disk.file_system.as_deref()).unwrap_or("ext4");
    let mut command = Command::new(programs::find_or_name(&format!("mkfs.{kind}")));
    match kind {
        // Nothing may be written behind the load.
        "ext4" => command.args(["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"]),
        _ => command.args(["-q", "-f"]),
    };
    undo.will_format(device)?;
    succeed(command.arg(device), &format!("format {}", device.display()))?;
    let point = undo.folder().join(format!("mount-{}", at + 1));
    Folder::make_new(&point, PRIVATE_FOLDER).context(|| format!("make {}", point.display()))?;
    undo.will_mount(&point)?;
    let place = Place {
        directory: Some(point.clone()),
        mounted: Some((device.to_owned(), point, kind.to_owned())),
        ..place
    };
    place.mount()?;
    Ok(place)
}

impl Place {
    fn mount(&self) -> Result<()> {
        let Some((device, point, kind)) = &self.mounted else { return Ok(()) };
        let mut command = Command::new(programs::find_or_name("mount"));
        command.args(["-t", kind, "-o", "noatime"]).arg(device).arg(point);
        succeed(&mut command, &format!("mount {}", device.display()))
    }

    /// Mounts it again, which empties the caches of its names and inodes; false if it is not a
    /// mount of the run.
    ///
    /// # Errors
    /// Fails if it cannot be unmounted or mounted.
    pub fn remount(&self) -> Result<bool> {
        let Some((device, point, _)) = &self.mounted else { return Ok(self.directory.is_none()) };
        let mut command = Command::new(programs::find_or_name("umount"));
        succeed(command.arg(point), &format!("unmount {}", device.display()))?;
        self.mount()?;
        Ok(true)
    }
}

fn succeed(command: &mut Command, action: &str) -> Result<()> {
    let output = command.stdin(Stdio::null()).output().map_err(|cause| {
        let program = command.get_program().to_string_lossy().into_owned();
        ReproduceError::new(action, cause).hint(format!("is {program} installed?"))
    })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(ReproduceError::new(action, format!("{}: {}", output.status, said.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{PlannedDisk, PlannedJob, PlannedProgram, PlannedStep};

    /// A plan's word on its size is not enough: files would fill the file system.
    #[test]
    fn a_plan_needs_what_its_files_take() {
        let folder = tempfile::tempdir().unwrap();
        let targets = [RunTarget::Directory(folder.path().to_owned())];
        let disk = PlannedDisk { name: "disk1".to_owned(), bytes: 1, ..PlannedDisk::default() };
        let job = PlannedJob { files: 4, file_bytes: 1 << 48, ..PlannedJob::default() };
        let step = PlannedStep::Churn {
            disk: 0,
            files: u64::MAX,
            bytes: u64::MAX,
            reads: 1,
            synced: false,
            threads: 1,
            think_us: 0.0,
        };
        for (jobs, steps) in [(vec![job], Vec::new()), (Vec::new(), vec![step])] {
            let program = PlannedProgram { jobs, steps, ..PlannedProgram::default() };
            let plan = LoadPlan {
                disks: vec![disk.clone()],
                programs: vec![program],
                ..LoadPlan::default()
            };
            let refused = check(&plan, &targets).unwrap_err().to_string();
            assert!(refused.contains("are needed"), "{refused}");
        }
    }
}
