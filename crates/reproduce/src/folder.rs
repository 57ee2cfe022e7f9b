//! The directory of a reproduction: `run`, `plan.json`, `README.md`, `jobs/`, `programs/`,
//! `replay/`.
//!
//! What does not belong here: its content (see [`crate::jobs`]).

use crate::error::{ActionContext, ReproduceError, Result};
use crate::jobs;
use crate::plan::{FORMAT, LoadPlan, PlannedStep};
use crate::plan_check;
use crate::replay::ReplayText;
use iowhy_fs::{Folder, PRIVATE_FILE, PRIVATE_FOLDER, read as reading};
use std::path::{Path, PathBuf};

/// A larger `plan.json` is not one.
const MOST_PLAN_BYTES: u64 = 8 << 20;

/// A file of a reproduction: its path in the directory, its text, whether it can be executed.
pub struct FolderFile {
    /// Below the directory.
    pub path: PathBuf,
    /// The file's text.
    pub text: String,
    /// Whether it is a program.
    pub executable: bool,
}

/// All files of a plan.
pub fn files(plan: &LoadPlan) -> Vec<FolderFile> {
    let file = |path: String, text: String, executable| FolderFile {
        path: PathBuf::from(path),
        text,
        executable,
    };
    let json = serde_json::to_string_pretty(plan).unwrap_or_default();
    let mut files = vec![
        file("run".to_owned(), jobs::RUN.to_owned(), true),
        file("plan.json".to_owned(), format!("{json}\n"), false),
        file("README.md".to_owned(), jobs::readme(plan), false),
    ];
    for program in &plan.programs {
        if let Some(text) = jobs::job_file(program) {
            files.push(file(job_path(&program.name), text, false));
        }
        let made = |step: &(usize, &PlannedStep)| !matches!(step.1, PlannedStep::Replay { .. });
        for (number, step) in program.steps.iter().enumerate().filter(made) {
            let name = jobs::step_name(program, number, step);
            let comm = plan.keep_names.then_some(program.name.as_str());
            let text = jobs::program(step, &name, comm);
            files.push(file(program_path(&name), text, true));
        }
    }
    files
}

/// The job file of a program, below the directory.
pub fn job_path(program: &str) -> String {
    format!("jobs/{program}.fio")
}

/// The program of a step, below the directory.
pub fn program_path(step: &str) -> String {
    format!("programs/{step}.py")
}

/// The sequence of a replay, below the directory.
pub fn replay_path(step: &str) -> String {
    format!("replay/{step}.txt")
}

/// Writes the sequences of a replay into `folder`, which exists.
///
/// # Errors
/// Fails if a file cannot be written.
pub fn write_replay(folder: &Folder, texts: &[ReplayText]) -> Result<()> {
    for ReplayText { name, text } in texts {
        put(folder, Path::new(&replay_path(name)), text, PRIVATE_FILE)?;
    }
    Ok(())
}

/// Writes a file below `folder`, whose path has a directory and a name, or a name alone.
fn put(folder: &Folder, path: &Path, text: &str, mode: u32) -> Result<()> {
    let action = || format!("write {}", folder.path().join(path).display());
    let below = path.parent().filter(|parent| *parent != Path::new(""));
    let below = match below {
        None => folder.clone(),
        Some(parent) => folder.make_folder_once(parent, PRIVATE_FOLDER).context(action)?,
    };
    let name = path.file_name().unwrap_or_default();
    below.replace(name, text.as_bytes(), mode, false).context(action)
}

/// Writes the files of a plan into `folder`. They are its owner's alone: they may hold names.
///
/// # Errors
/// Fails if a file cannot be written.
pub fn write(folder: &Folder, plan: &LoadPlan) -> Result<()> {
    for file in files(plan) {
        let mode = if file.executable { PRIVATE_FOLDER } else { PRIVATE_FILE };
        put(folder, &file.path, &file.text, mode)?;
    }
    Ok(())
}

/// Writes those files into the directory `path`, which exists and is the caller's alone.
///
/// # Errors
/// Fails if the directory is somebody else's, or a file cannot be written.
pub fn write_below(path: &Path, plan: &LoadPlan) -> Result<()> {
    let folder = Folder::open_own(path).context(|| format!("write {}", path.display()))?;
    write(&folder, plan)
}

/// Reads the plan of a reproduction. A plan that hurts takes at most 256 MiB.
///
/// # Errors
/// Fails if the folder holds no reproduction, or one of a later version.
pub fn read(folder: &Path) -> Result<LoadPlan> {
    let path = folder.join("plan.json");
    let action = || format!("read {}", path.display());
    let text = reading::text(&path, MOST_PLAN_BYTES).map_err(|cause| {
        ReproduceError::new(action(), cause)
            .hint("name the directory that `iowhy reproduce SOURCE -o DIR` has written")
    })?;
    reading::check_objects(text.as_bytes()).context(action)?;
    let mut plan: LoadPlan = serde_json::from_str(&text).context(action)?;
    // Earlier versions wrote plans with more buffers.
    plan.fit_buffers();
    if plan.format != FORMAT {
        let cause = format!("its format is {}, this iowhy knows {FORMAT}", plan.format);
        return Err(ReproduceError::new(action(), cause)
            .hint("use the version of iowhy that wrote it, or write it anew"));
    }
    if let Some(defect) = plan_check::defect(&plan) {
        return Err(ReproduceError::new(action(), defect)
            .hint("it was changed since iowhy wrote it: write the reproduction anew"));
    }
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{PlannedDisk, PlannedJob, PlannedProgram};
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_plan_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let job = PlannedJob { name: "a".to_owned(), ..PlannedJob::default() };
        let program = PlannedProgram {
            name: "program1".to_owned(),
            jobs: vec![job],
            ..PlannedProgram::default()
        };
        let disk = PlannedDisk { name: "disk1".to_owned(), ..PlannedDisk::default() };
        let (disks, programs) = (vec![disk], vec![program]);
        let plan = LoadPlan { format: FORMAT, disks, programs, ..LoadPlan::default() };
        write_below(folder.path(), &plan).unwrap();
        assert_eq!(read(folder.path()).unwrap(), plan);
        let run = fs::metadata(folder.path().join("run")).unwrap();
        assert_eq!(run.permissions().mode() & 0o777, 0o700);
        assert!(folder.path().join("jobs/program1.fio").is_file());
    }

    #[test]
    fn a_later_format_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("plan.json"), "{\"format\": 99}").unwrap();
        let error = read(folder.path()).unwrap_err();
        assert!(error.to_string().contains("format is 99"), "{error}");
        assert!(read(Path::new("/nonexistent")).unwrap_err().hint.is_some());
    }
}
