//! What a shell offers where a name is expected: the devices, processes, causes, incidents and
//! files that there are now.
//!
//! A shell puts what is offered into the command line as it is, and anybody names processes and
//! files: only names that mean the same unquoted are offered.
//!
//! What does not belong here: whether a name is valid. A source may have others than this machine.

use clap::builder::ValueHint;
use clap_complete::engine::ValueCompleter;
use clap_complete::{ArgValueCandidates, ArgValueCompleter, CompletionCandidate, PathCompleter};
use iowhy_diagnosis::all;
use iowhy_model::command::shell_word;
use iowhy_recorder::config::RecorderConfig;
use iowhy_recorder::incidents::store::IncidentStore;
use std::collections::BTreeSet;
use std::ffi::OsStr;
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

/// Has the paths that are offered for the arguments of `command` and its subcommands be plain ones.
pub fn with_plain_paths(command: clap::Command) -> clap::Command {
    let offers_paths = |argument: &clap::Arg| {
        let hint = argument.get_value_hint();
        let is_path = !matches!(hint, ValueHint::Unknown | ValueHint::Other);
        let has_own = argument.get::<ArgValueCandidates>().is_some();
        is_path && !has_own && argument.get_possible_values().is_empty()
    };
    let plain = move |argument: clap::Arg| match offers_paths(&argument) {
        true => {
            let is_folder = argument.get_value_hint() == ValueHint::DirPath;
            argument.add(ArgValueCompleter::new(move |begun: &OsStr| paths(begun, is_folder)))
        }
        false => argument,
    };
    command.mut_args(plain).mut_subcommands(with_plain_paths)
}

/// The paths that begin with `begun`, which is the user's own. A shell offers the others by itself,
/// quoted, where there is none here.
fn paths(begun: &OsStr, is_folder: bool) -> Vec<CompletionCandidate> {
    let completer = if is_folder { PathCompleter::dir() } else { PathCompleter::any() };
    let mut paths = completer.complete(begun);
    paths.retain(|path| {
        let name = Path::new(path.get_value()).file_name();
        name.is_none_or(|name| name.to_str().is_some_and(is_plain))
    });
    paths
}

/// Whether a shell reads `name` as it is, as a value.
fn is_plain(name: &str) -> bool {
    shell_word(name) == name && !name.starts_with('-')
}

fn sorted(names: impl Iterator<Item = String>) -> Vec<CompletionCandidate> {
    let names: BTreeSet<String> = names.filter(|name| is_plain(name)).take(MOST).collect();
    names.into_iter().map(CompletionCandidate::new).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;
    use std::ffi::OsString;

    /// Names that a shell would run, split or take for an option.
    const HOSTILE: [&str; 7] =
        ["ab$(id>x)", "ab`id`", "ab;id", "ab id", "-ab", "ab\x0bid", "ab\u{202e}id"];

    fn values(offered: &[CompletionCandidate]) -> Vec<String> {
        offered.iter().map(|one| one.get_value().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn only_names_that_a_shell_reads_as_they_are_are_offered() {
        let names = HOSTILE.iter().chain(&["abc-1", "kworker/0:1"]).map(|name| (*name).to_owned());
        assert_eq!(values(&sorted(names)), ["abc-1", "kworker/0:1"]);
    }

    #[test]
    fn only_files_that_a_shell_reads_as_they_are_are_offered() {
        let folder = tempfile::tempdir().unwrap();
        for name in HOSTILE.iter().chain(&["abc-1"]) {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let begun = format!("{}/", folder.path().display());
        for command in [&["report"][..], &["export"], &["locate"], &["record", "-o"], &["diff"]] {
            let words = ["iowhy"].iter().chain(command).map(OsString::from);
            let words: Vec<OsString> = words.chain([OsString::from(&begun)]).collect();
            let at = words.len() - 1;
            let mut definition = with_plain_paths(Cli::definition());
            let offered = clap_complete::engine::complete(&mut definition, words, at, None);
            assert_eq!(values(&offered.unwrap()), [format!("{begun}abc-1/")], "{command:?}");
        }
    }
}
