//! The directory of a reproduction: `run`, `plan.json`, `README.md`, `jobs/`, `programs/`,
//! `replay/`.
//!
//! What does not belong here: its content (see [`crate::jobs`]).

use crate::error::{ActionContext, ReproduceError, Result};
use crate::jobs;
use crate::plan::{FORMAT, LoadPlan, PlannedStep};
use crate::replay::ReplayText;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A file of a reproduction: its path in the directory, its text, whether it can be executed.
pub struct FolderFile {
    /// Below the directory.
    pub path: PathBuf,
    /// Its text.
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
        let made = |it: &(usize, &PlannedStep)| !matches!(it.1, PlannedStep::Replay { .. });
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
/// A file cannot be written.
pub fn write_replay(folder: &Path, texts: &[ReplayText]) -> Result<()> {
    for ReplayText { name, text } in texts {
        let path = folder.join(replay_path(name));
        let action = || format!("write {}", path.display());
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).context(action)?;
        }
        fs::write(&path, text).context(action)?;
    }
    Ok(())
}

/// Writes the files of a plan into `folder`, which exists.
///
/// # Errors
/// A file cannot be written.
pub fn write(folder: &Path, plan: &LoadPlan) -> Result<()> {
    for file in files(plan) {
        let path = folder.join(&file.path);
        let action = || format!("write {}", path.display());
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).context(action)?;
        }
        fs::write(&path, file.text).context(action)?;
        let mode = if file.executable { 0o755 } else { 0o644 };
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).context(action)?;
    }
    Ok(())
}

/// Reads the plan of a reproduction.
///
/// # Errors
/// It is none, or one of a later version.
pub fn read(folder: &Path) -> Result<LoadPlan> {
    let path = folder.join("plan.json");
    let action = || format!("read {}", path.display());
    let text = fs::read_to_string(&path).map_err(|cause| {
        ReproduceError::new(action(), cause)
            .hint("name the directory that `iowhy reproduce SOURCE -o DIR` has written")
    })?;
    let plan: LoadPlan = serde_json::from_str(&text).context(action)?;
    if plan.format != FORMAT {
        let cause = format!("its format is {}, this iowhy knows {FORMAT}", plan.format);
        return Err(ReproduceError::new(action(), cause)
            .hint("use the version of iowhy that wrote it, or write it anew"));
    }
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{PlannedJob, PlannedProgram};

    #[test]
    fn a_plan_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let job = PlannedJob { name: "a".to_owned(), ..PlannedJob::default() };
        let program = PlannedProgram {
            name: "program1".to_owned(),
            jobs: vec![job],
            ..PlannedProgram::default()
        };
        let plan = LoadPlan { format: FORMAT, programs: vec![program], ..LoadPlan::default() };
        write(folder.path(), &plan).unwrap();
        assert_eq!(read(folder.path()).unwrap(), plan);
        let run = fs::metadata(folder.path().join("run")).unwrap();
        assert_eq!(run.permissions().mode() & 0o777, 0o755);
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
