//! What the user names as a source: a recording, or a capture by blktrace, blkparse, ftrace or perf.
//! Which of them it is follows from what lies there, and is found out here only.
//!
//! What does not belong here: live watches (see [`crate::watching`]).

use crate::failure::Failure;
use iowhy_core::command::shell_word;
use iowhy_core::formats::blktrace::input::Input;
use iowhy_core::formats::blktrace::{self, Capture, Inputs, Kind, Options, Order, Warnings};
use iowhy_core::formats::events::ProcessNames;
use iowhy_core::formats::import::{self, Import};
use iowhy_core::model::filter::Silent;
use iowhy_core::model::{Environment, Filter, Name, Names};
use iowhy_core::recording::Reader;
use iowhy_core::source::{Batch, Progress, Source};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// What was named.
pub enum Found {
    /// A recording's directory.
    Recording(PathBuf),
    /// Files of a capture.
    Capture(Inputs),
}

const WHAT_IS_READ: &str = "a source is a recording's directory, blktrace's files (sda.blktrace.*, \
    or just sda), a dump of `blkparse -d`, the text of blkparse, ftrace or perf script, or - for \
    standard input";

/// Devices that a hint names.
const MOST_LISTED: usize = 8;

/// What warnings call standard input.
const STDIN_NAME: &str = "standard input";

/// Finds what `given` stand for.
pub fn find(given: &[PathBuf]) -> Result<Found, Failure> {
    let recording = given.iter().find(|path| path.join("recording.json").exists());
    match (recording, given) {
        (Some(path), [_]) => Ok(Found::Recording(path.clone())),
        (Some(path), _) => {
            let message = format!("failed to read {}: a recording is read alone", path.display());
            Err(Failure::new(message, Some("name one recording, or one capture".to_owned())))
        }
        (None, _) => match Inputs::find(given) {
            Ok(inputs) => Ok(Found::Capture(inputs)),
            Err((path, cause)) => Err(nothing_there(&path, &cause)),
        },
    }
}

/// `given` as the words of a command line that names the same again.
pub fn words(given: &[PathBuf]) -> String {
    let word = |path: &PathBuf| {
        let text = path.to_string_lossy();
        // Views of intervals would take it for the length of one.
        let plain = if text.parse::<f64>().is_ok() { format!("./{text}") } else { text.into() };
        shell_word(&plain).into_owned()
    };
    given.iter().map(word).collect::<Vec<_>>().join(" ")
}

fn nothing_there(path: &Path, cause: &std::io::Error) -> Failure {
    let shown = path.display();
    if is_denied(path) {
        let message = format!("failed to read {shown}: permission denied");
        let hint = "a recording can be read by the user who made it alone: `sudo iowhy report ...`";
        return Failure::new(message, Some(hint.to_owned()));
    }
    if path.join("requests").is_dir() {
        let message = format!("failed to read {shown}: it is a recording without recording.json");
        let hint = "copy a recording with all of its files; DuckDB and others read what is there: \
                    requests/*.parquet";
        return Failure::new(message, Some(hint.to_owned()));
    }
    let message = match path.is_dir() {
        true => format!("failed to read {shown}: it holds no recording.json and no *.blktrace.*"),
        false if cause.kind() == std::io::ErrorKind::NotFound => {
            format!("failed to read {shown}: there is no such file, and no {shown}.blktrace.*")
        }
        false => format!("failed to read {shown}: {cause}"),
    };
    let hint = match shown.to_string().parse::<f64>() {
        Ok(_) => format!("-t {shown} watches this machine for {shown} s; {WHAT_IS_READ}"),
        Err(_) => WHAT_IS_READ.to_owned(),
    };
    Failure::new(message, Some(hint))
}

/// Whether this user may not see what lies in `path`.
fn is_denied(path: &Path) -> bool {
    let seen = std::fs::metadata(path.join("recording.json"));
    seen.is_err_and(|cause| cause.kind() == std::io::ErrorKind::PermissionDenied)
}

/// Opens a capture's streams.
pub fn capture(inputs: &Inputs, order: Order) -> Result<Capture, Failure> {
    Ok(Capture::from_inputs(inputs.clone(), Options { order })?)
}

/// The process names that a capture tells, where it can be read twice: a name often comes later
/// than its process's first event.
pub fn names(inputs: &Inputs) -> Result<ProcessNames, Failure> {
    let mut files = inputs.groups.iter().flat_map(|group| &group.inputs);
    let is_file = |input: &Input| match input {
        Input::Stdin => false,
        Input::Merged(path) | Input::Cpu { path, .. } => path.is_file(),
    };
    match files.all(is_file) {
        true => Ok(ProcessNames::of(capture(inputs, Order::Time)?)),
        false => Ok(ProcessNames::default()),
    }
}

/// The failure to read what is no capture at all, for a capture that gave no event.
pub fn no_capture(warnings: &Warnings) -> Result<(), Failure> {
    // A file may be empty, since its CPU saw nothing; a pipe is not.
    if warnings.items().iter().any(|it| it.kind == Kind::Empty && &*it.file == STDIN_NAME) {
        let message = format!("failed to read {STDIN_NAME}: nothing came");
        let hint = "did the program before the pipe fail, or was nothing piped? For example: \
                    `blkparse -i sda | iowhy report -`";
        return Err(Failure::new(message, Some(hint.to_owned())));
    }
    let foreign = |kind| matches!(kind, Kind::NotBlktrace | Kind::UnknownLine | Kind::ReadFailed);
    match warnings.items().iter().find(|warning| foreign(warning.kind)) {
        None => Ok(()),
        Some(warning) => {
            let cause = warning.kind.sentence(warning.count);
            let message = format!("failed to read {}: {cause}", warning.file);
            Err(Failure::new(message, Some(WHAT_IS_READ.to_owned())))
        }
    }
}

/// A recording or a capture that gives rows.
pub enum Opened {
    /// A recording.
    Recording(Box<Reader>),
    /// A capture, its events joined to requests.
    Capture(Box<Import>),
}

/// Opens what `given` stand for; `events` also gives a capture's single events, which a recording
/// gives whenever it has them.
pub fn open(given: &[PathBuf], events: bool) -> Result<Opened, Failure> {
    match find(given)? {
        Found::Recording(path) => Ok(Opened::Recording(Box::new(Reader::open(&path)?))),
        Found::Capture(inputs) => Ok(Opened::Capture(Box::new(import(&inputs, events)?))),
    }
}

impl Opened {
    /// Refuses devices that the source does not have: of a recording before it is read, of a capture,
    /// which has no list of its own, once it is (`is_read`).
    pub fn require_devices(&self, filter: &Filter, is_read: bool) -> Result<(), Failure> {
        let environment = self.environment();
        let wanted = filter.on_disks(&environment.devices).devices;
        let is_listed = |name: &&String| environment.devices.iter().any(|it| it.name == **name);
        if wanted.iter().all(|name| is_listed(&name)) {
            return Ok(());
        }
        let known: BTreeSet<String> = match (self, is_read) {
            // One that came and went during the watch is in no list.
            (Opened::Recording(reader), false) => devices_of(reader.directory())?,
            (Opened::Capture(_), true) => {
                environment.devices.iter().map(|device| device.name.clone()).collect()
            }
            _ => return Ok(()),
        };
        let unknown = wanted.iter().find(|name| !is_listed(name) && !known.contains(*name));
        match unknown {
            None => Ok(()),
            Some(name) => Err(no_device(name, &known)),
        }
    }

    /// Whether no row will come that belongs, but for a second or so, before those that came: a
    /// recording gives a few seconds of one table, then of the next.
    pub fn is_settled(&self) -> bool {
        match self {
            Opened::Recording(reader) => reader.is_between_rounds(),
            Opened::Capture(_) => true,
        }
    }
}

/// The devices that a recording has requests of.
fn devices_of(directory: &Path) -> Result<BTreeSet<String>, Failure> {
    let mut reader = Reader::open(directory)?;
    let (mut names, mut batch) = (Names::new(), Batch::default());
    let mut devices = BTreeSet::new();
    loop {
        batch.clear();
        let progress = reader.fill(&mut batch, &mut names)?;
        let found: BTreeSet<Name> = batch.requests.iter().map(|request| request.device).collect();
        devices.extend(found.into_iter().map(|name| names.get(name).to_owned()));
        if progress == Progress::Done {
            return Ok(devices);
        }
    }
}

fn no_device(name: &str, known: &BTreeSet<String>) -> Failure {
    let listed: Vec<&str> = known.iter().take(MOST_LISTED).map(String::as_str).collect();
    let more = known.len() - listed.len();
    let hint = match (listed.is_empty(), more) {
        (true, _) => "it has requests of no device".to_owned(),
        (false, 0) => format!("it has requests of {}", listed.join(" ")),
        (false, _) => format!("it has requests of {} and {more} more", listed.join(" ")),
    };
    Failure::new(format!("failed to find device {name}: the source has no such"), Some(hint))
}

/// Imports a capture.
pub fn import(inputs: &Inputs, events: bool) -> Result<Import, Failure> {
    let names = names(inputs)?;
    Ok(Import::new(capture(inputs, Order::Time)?, names, import::Options { events }))
}

impl Source for Opened {
    type Error = Failure;

    fn fill(&mut self, batch: &mut Batch, names: &mut Names) -> Result<Progress, Failure> {
        match self {
            Opened::Recording(reader) => Ok(reader.fill(batch, names)?),
            Opened::Capture(import) => {
                let Ok(progress) = import.fill(batch, names);
                if progress == Progress::Done && import.is_empty() {
                    no_capture(import.capture().warnings())?;
                }
                Ok(progress)
            }
        }
    }

    fn environment(&self) -> &Environment {
        match self {
            Opened::Recording(reader) => reader.environment(),
            Opened::Capture(import) => import.environment(),
        }
    }
}

/// Reads all of `source` and hands what `filter` keeps to `each`; gives the texts of all rows, and the
/// waits that were left out because they do not tell what the filter asks for.
pub fn read_all(
    source: &mut Opened,
    filter: &Filter,
    mut each: impl FnMut(&Batch, &Names, &Environment) -> Result<(), Failure>,
) -> Result<(Names, Silent), Failure> {
    read_while(source, filter, |batch, names, source| {
        each(batch, names, source.environment()).map(|()| true)
    })
}

/// The same, as long as `each` answers true.
pub fn read_while(
    source: &mut Opened,
    filter: &Filter,
    mut each: impl FnMut(&Batch, &Names, &Opened) -> Result<bool, Failure>,
) -> Result<(Names, Silent), Failure> {
    source.require_devices(filter, false)?;
    let filter = &filter.on_disks(&source.environment().devices);
    let (mut names, mut batch) = (Names::new(), Batch::default());
    let mut silent = Silent::default();
    loop {
        batch.clear();
        let progress = source.fill(&mut batch, &mut names)?;
        silent.add(batch.retain(filter, &names, source.environment().end_ns));
        if !each(&batch, &names, source)? {
            return Ok((names, silent));
        }
        if progress == Progress::Done {
            source.require_devices(filter, true)?;
            return Ok((names, silent));
        }
    }
}

impl From<blktrace::Error> for Failure {
    fn from(error: blktrace::Error) -> Failure {
        Failure::new(error, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_can_be_named_again() {
        let given = ["/srv/rec", "my rec", "10"].map(PathBuf::from);
        assert_eq!(words(&given), "/srv/rec 'my rec' ./10");
        assert_eq!(words(&[]), "");
    }
}
