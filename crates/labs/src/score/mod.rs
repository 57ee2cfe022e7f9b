//! `iowhy-labs score`: judges labelled recordings without a kernel, and counts how often the first
//! finding is the right answer.
//!
//! | module | contents |
//! |---|---|
//! | [`label`] | what is known of a recording before it is judged |
//! | [`mark`] | how well a diagnosis matches that |
//! | [`table`] | the tables, and the change since the last run |
//!
//! What does not belong here: scenes that run (see [`crate::labs`]).

pub mod label;
pub mod mark;
pub mod table;

use crate::error::Context;
use crate::labs::run::findings;
use crate::{LabError, Result};
use label::LabelledRecording;
use mark::ScoreMark;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What to score.
#[derive(clap::Args, Debug)]
pub struct ScoreSettings {
    /// Folders with recordings and a label file NAME.label.json beside each
    #[arg(required = true)]
    folders: Vec<PathBuf>,
    /// Where the marks of the last run are kept
    #[arg(long, default_value = "target/score.json")]
    last: PathBuf,
    /// Print only scenes that are not right
    #[arg(long)]
    missed: bool,
}

/// One recording, judged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scored {
    /// The folder's and the recording's name.
    pub name: String,
    /// The match of the findings.
    pub mark: ScoreMark,
    /// The most exact right answer; nothing for a healthy scene.
    pub expected: Option<String>,
    /// The cause that came first, of those that count.
    pub said: Option<String>,
    /// Its severity and confidence, and its sentence.
    pub sentence: String,
}

/// Judges the recordings and prints the tables.
///
/// # Errors
///
/// Fails if a folder, a label or a recording cannot be read.
pub fn run(settings: &ScoreSettings, say: &mut dyn FnMut(&str)) -> Result<ExitCode> {
    let mut scored = Vec::new();
    for folder in &settings.folders {
        scored.extend(score(folder)?);
    }
    let last = read_last(&settings.last);
    let is_shown = |scored: &&Scored| !settings.missed || scored.mark != ScoreMark::Right;
    scored.iter().filter(is_shown).for_each(|scored| say(&table::line(scored)));
    table::tables(&scored).lines().for_each(&mut *say);
    table::changes(&last, &scored).iter().for_each(|line| say(line));
    keep(&settings.last, &last, &scored)?;
    Ok(ExitCode::SUCCESS)
}

/// Judges the recordings in a folder, as many at a time as there are processors.
///
/// # Errors
///
/// Fails if the folder, a label or a recording cannot be read.
pub fn score(folder: &Path) -> Result<Vec<Scored>> {
    let recordings = label::labelled(folder)?;
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    let worker = || {
        while let Some(recording) = recordings.get(next.fetch_add(1, Ordering::Relaxed)) {
            let scored = judged(folder, recording);
            done.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(scored);
        }
    };
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..workers).for_each(|_| drop(scope.spawn(worker))));
    let done = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut scored = done.into_iter().collect::<Result<Vec<Scored>>>()?;
    scored.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(scored)
}

fn judged(folder: &Path, recording: &LabelledRecording) -> Result<Scored> {
    let found = findings(&recording.path)?;
    let counted = mark::counted(&recording.label, &found);
    let first = counted.first();
    let group = folder.file_name().unwrap_or_default().to_string_lossy();
    Ok(Scored {
        name: format!("{group}/{}", recording.name),
        mark: mark::mark(&recording.label, &found),
        expected: recording.label.causes.first().cloned(),
        said: first.map(|first| first.cause.clone()),
        sentence: first.map_or_else(
            || "nothing above info".to_owned(),
            |first| format!("{}, {}: {}", first.severity, first.confidence, first.sentence),
        ),
    })
}

/// Returns the marks of the last run; none if there was none.
fn read_last(path: &Path) -> Vec<Scored> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

/// Keeps these marks, and those of scenes that were not judged now.
fn keep(path: &Path, last: &[Scored], scored: &[Scored]) -> Result<()> {
    let action = || format!("keep the marks in {}", path.display());
    let is_old = |before: &&Scored| !scored.iter().any(|now| now.name == before.name);
    let all: Vec<&Scored> = last.iter().filter(is_old).chain(scored).collect();
    let text = serde_json::to_string_pretty(&all).context(action)?;
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).context(action)?;
    }
    std::fs::write(path, text).map_err(|cause| LabError::failed(action(), cause))
}
