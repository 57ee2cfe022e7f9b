//! What a shell offers where a name is expected: the devices, processes, causes and incidents that
//! there are now.
//!
//! What does not belong here: whether a name is valid. A source may have others than this machine.

use clap_complete::CompletionCandidate;
use iowhy_core::diagnosis::all;
use iowhy_recorder::config::RecorderConfig;
use iowhy_recorder::incidents::store::IncidentStore;
use std::collections::BTreeSet;
use std::path::Path;

/// Processes that are offered: as many as a person can look through.
const MOST: usize = 1000;

/// The disks of this machine.
pub fn devices() -> Vec<CompletionCandidate> {
    sorted(entries(Path::new("/sys/block")))
}

/// The names of the processes that run now.
pub fn processes() -> Vec<CompletionCandidate> {
    let is_process = |name: &String| name.starts_with(|letter: char| letter.is_ascii_digit());
    let name = |pid: String| std::fs::read_to_string(format!("/proc/{pid}/comm")).ok();
    let names = entries(Path::new("/proc")).filter(is_process).filter_map(name);
    sorted(names.map(|name| name.trim_end().to_owned()).filter(|name| !name.is_empty()))
}

/// The causes that iowhy knows, each with what it is.
pub fn causes() -> Vec<CompletionCandidate> {
    all().map(|rule| CompletionCandidate::new(rule.cause).help(Some(rule.title.into()))).collect()
}

/// The numbers of the incidents that the flight recorder kept.
pub fn incidents() -> Vec<CompletionCandidate> {
    let config = RecorderConfig::read(None).ok();
    let store = config.map(|config| IncidentStore::below(&config.state));
    let numbers = store.and_then(|store| store.numbers().ok()).unwrap_or_default();
    numbers.into_iter().map(|number| CompletionCandidate::new(number.to_string())).collect()
}

/// The names in a directory; none where it cannot be read.
fn entries(directory: &Path) -> impl Iterator<Item = String> {
    let read = std::fs::read_dir(directory).into_iter().flatten().flatten();
    read.filter_map(|entry| entry.file_name().into_string().ok())
}

fn sorted(names: impl Iterator<Item = String>) -> Vec<CompletionCandidate> {
    let names: BTreeSet<String> = names.take(MOST).collect();
    names.into_iter().map(CompletionCandidate::new).collect()
}
