//! The label of a recording, from before iowhy judges it: the file `NAME.label.json` next to the
//! recording `NAME`, or with a path to it.
//!
//! What does not belong here: its match with a diagnosis (see [`super::mark`]).

use crate::error::Context;
use crate::labs::outcome::FoundCause;
use crate::{LabError, Result};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The suffix of a label file.
const ENDING: &str = ".label.json";
/// The causes that are true of any machine whose processors are busy with others' work.
const OF_A_BUSY_MACHINE: &[&str] = &["cpu-starvation", "cpu-steal"];

/// The right answer. Words are compared without regard to case.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Label {
    /// The recording's path from the label's folder, if it is not `NAME`.
    pub recording: Option<PathBuf>,
    /// The trouble and its root cause, in one sentence.
    pub story: String,
    /// Whether nothing is wrong, so that nothing of the scene may be worth a warning.
    pub healthy: bool,
    /// Programs that are slow, by the names of their processes.
    pub victims: Vec<String>,
    /// Programs that make them slow, if these are others.
    pub culprits: Vec<String>,
    /// Ids of causes, each of which is a correct answer; the most exact one first.
    pub causes: Vec<String>,
    /// The words that the finding must have in its sentences or its fix: one of each group.
    pub says: Vec<Vec<String>>,
    /// Causes that are wrong, and words that no sentence or fix above "info" may have.
    pub must_not: Vec<String>,
    /// The scene's devices: findings about another device are about others' work.
    pub devices: Vec<String>,
    /// Whether the processors were busy with others' work.
    pub busy: bool,
}

/// A recording with its label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelledRecording {
    /// The recording's name.
    pub name: String,
    /// Its folder.
    pub path: PathBuf,
    /// The right answer.
    pub label: Label,
}

impl Label {
    /// Returns the label in a file.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, is no label, or has nothing to compare with.
    pub fn read(path: &Path) -> Result<Label> {
        let action = || format!("read the label {}", path.display());
        let text = std::fs::read_to_string(path).context(action)?;
        let label: Label = serde_json::from_str(&text).context(action)?;
        if label.healthy == label.causes.is_empty() {
            return Ok(label);
        }
        Err(LabError::failed(action(), "a label is healthy or has causes, and not both"))
    }

    /// Returns whether a finding is about others on the machine: another device, or another
    /// program.
    pub fn is_elsewhere(&self, found: &FoundCause) -> bool {
        let is_true_anyway = self.busy && OF_A_BUSY_MACHINE.contains(&found.cause.as_str());
        let subject = &found.subject;
        let is_of_scene = match (&subject.device, &subject.process) {
            (Some(device), _) if !self.devices.is_empty() => self.devices.contains(device),
            (_, Some(process)) => self.is_of_scene(process),
            _ => true,
        };
        let is_cause = self.causes.contains(&found.cause);
        !is_of_scene || is_true_anyway && !is_cause
    }

    fn is_of_scene(&self, process: &str) -> bool {
        let names = || self.victims.iter().chain(&self.culprits);
        names().next().is_none() || names().any(|name| name == process)
    }

    /// Whether a finding is the right answer.
    pub fn is_right(&self, found: &FoundCause) -> bool {
        let text = text_of(found);
        let is_said = |word: &String| text.contains(&word.to_lowercase());
        self.causes.contains(&found.cause)
            && self.says.iter().all(|group| group.iter().any(is_said))
    }

    /// Returns whether a finding says something that is ruled out.
    pub fn is_ruled_out(&self, found: &FoundCause) -> bool {
        let text = text_of(found);
        self.must_not
            .iter()
            .any(|words| *words == found.cause || text.contains(&words.to_lowercase()))
    }

    /// Returns whether a finding names a slow program, or one that makes it slow.
    pub fn names_somebody(&self, found: &FoundCause) -> bool {
        let text = text_of(found);
        self.victims.iter().chain(&self.culprits).any(|name| text.contains(&name.to_lowercase()))
    }
}

fn text_of(found: &FoundCause) -> String {
    let waits = found.waits.as_deref().unwrap_or_default();
    format!("{}\n{waits}\n{}", found.sentence, found.fix).to_lowercase()
}

/// Returns the labelled recordings in a folder, by name.
///
/// # Errors
///
/// Fails if the folder cannot be read, holds none, or a label has no recording.
pub fn labelled(folder: &Path) -> Result<Vec<LabelledRecording>> {
    let entries = std::fs::read_dir(folder).context(|| format!("list {}", folder.display()))?;
    let mut found = Vec::new();
    for entry in entries.flatten() {
        let file = entry.file_name().to_string_lossy().into_owned();
        let Some(name) = file.strip_suffix(ENDING) else { continue };
        let label = Label::read(&entry.path())?;
        let path = folder.join(label.recording.as_deref().unwrap_or(Path::new(name)));
        if !path.join("recording.json").is_file() {
            return Err(LabError::missing(
                format!("the recording {}", path.display()),
                "a label stands beside the folder of its recording, or has a path to it",
            ));
        }
        found.push(LabelledRecording { name: name.to_owned(), path, label });
    }
    if found.is_empty() {
        return Err(LabError::missing(
            format!("a label in {}", folder.display()),
            "write NAME.label.json beside each recording NAME",
        ));
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}
