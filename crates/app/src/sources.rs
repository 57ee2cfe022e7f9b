//! Sources that the user names: a recording, or a capture by blktrace, blkparse, ftrace or perf.
//! The type is detected from the content, and only here.
//!
//! What does not belong here: live watches (see [`crate::watching`]).

use crate::convert;
use crate::failure::Failure;
use crate::foreign::{self, ForeignSource};
use crate::interruption;
use crate::progress::ReadProgress;
use crate::redaction;
use crate::selection::SelectionCount;
use iowhy_blktrace::events::ProcessNames;
use iowhy_blktrace::import::{self, CaptureImport};
use iowhy_blktrace::trace::input::Input;
use iowhy_blktrace::trace::{
    CaptureError, CaptureOptions, Inputs, Order, TraceCapture, WarningKind, Warnings,
};
use iowhy_diagnosis::redact::RedactedSource;
use iowhy_foreign::ForeignImport;
use iowhy_fs::rights::with_own_rights;
use iowhy_model::command::shell_word;
use iowhy_model::filter::SilentWaits;
use iowhy_model::recording::{RecordingAhead, RecordingReader};
use iowhy_model::source::{Batch, Progress, Source};
use iowhy_model::{Environment, Filter, Name, Names};
use iowhy_recorder::incidents::store::{RECORD, RECORDING};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A source.
pub enum FoundSource {
    /// A recording's directory.
    Recording(PathBuf),
    /// Files of a capture.
    Capture(Inputs),
    /// A summary or log of another tool.
    Foreign(ForeignSource),
}

const WHAT_IS_READ: &str = "a source is the directory of a recording or an incident, blktrace's \
    files (sda.blktrace.*, or just sda), a dump of `blkparse -d`, the text of blkparse (of its \
    -f with --blkparse-format), ftrace or perf script, the output of iostat -x, sar, vmstat, \
    pidstat -d, atop -P, pcp2json, iotop -b, biosnoop, fio, smartctl or dmesg, node_exporter's \
    metrics, a sosreport, or - for standard input; --as says which";

/// The file that every recording has.
const RECORDED: &str = "recording.json";

/// Maximum number of devices in a hint.
const MOST_LISTED: usize = 8;

/// The name of standard input in warnings.
const STDIN_NAME: &str = "standard input";

/// Detects the type of the paths `given`, by what their user may see.
pub fn find(given: &[PathBuf]) -> Result<FoundSource, Failure> {
    with_own_rights(|| detect(given))
}

fn detect(given: &[PathBuf]) -> Result<FoundSource, Failure> {
    once_each(given)?;
    let given = &*convert::instead(given)?;
    let recording = given.iter().find_map(|path| Some((path, recording_in(path)?)));
    match (recording, given) {
        (Some((_, recording)), [_]) => Ok(FoundSource::Recording(recording)),
        (Some((path, _)), _) => {
            let message = format!("failed to read {}: a recording is read alone", path.display());
            Err(Failure::new(message, Some("name one recording, or one capture".to_owned())))
        }
        (None, _) => match foreign::find(given)? {
            Some(found) => Ok(FoundSource::Foreign(found)),
            None => match Inputs::find(given) {
                Ok(inputs) => Ok(FoundSource::Capture(inputs)),
                Err((path, cause)) => Err(nothing_there(&path, &cause)),
            },
        },
    }
}

/// Fails if a path is given twice, also by a link: its figures would count twice. A prefix and
/// one of its files are not compared here.
fn once_each(given: &[PathBuf]) -> Result<(), Failure> {
    let mut seen = BTreeSet::new();
    for path in given {
        let place = std::fs::canonicalize(path).unwrap_or_else(|_| path.clone());
        if !seen.insert(place) {
            let message = format!("failed to read {}: it is given twice", path.display());
            return Err(Failure::new(message, Some("name each file once".to_owned())));
        }
    }
    Ok(())
}

/// The recording that `path` is, or that the incident in `path` has.
fn recording_in(path: &Path) -> Option<PathBuf> {
    let is_recording = |path: &Path| path.join(RECORDED).exists();
    let inner = path.join(RECORDING);
    match is_recording(path) {
        true => Some(path.to_owned()),
        false => (path.join(RECORD).exists() && is_recording(&inner)).then_some(inner),
    }
}

/// `given` as words of a command line.
pub fn words(given: &[PathBuf]) -> String {
    if redaction::is_wanted() && !given.is_empty() {
        return "SOURCE".to_owned();
    }
    let word = |path: &PathBuf| {
        let text = path.to_string_lossy();
        // Interval views would parse it as an interval.
        let plain = if text.parse::<f64>().is_ok() { format!("./{text}") } else { text.into() };
        shell_word(&plain).into_owned()
    };
    given.iter().map(word).collect::<Vec<_>>().join(" ")
}

fn nothing_there(path: &Path, cause: &std::io::Error) -> Failure {
    let shown = path.display();
    if is_denied(path) {
        let message = format!("failed to read {shown}: permission denied");
        let hint = "a recording is readable only by its owner: `sudo iowhy report ...`";
        return Failure::new(message, Some(hint.to_owned()));
    }
    if path.join(RECORD).exists() {
        let message = format!("failed to read {shown}: it is an incident without a recording");
        let hint =
            format!("`iowhy incidents show {}` shows what is known of it", words(&[path.into()]));
        return Failure::new(message, Some(hint));
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

/// Whether this user may not list `path`.
fn is_denied(path: &Path) -> bool {
    let seen = std::fs::metadata(path.join(RECORDED));
    seen.is_err_and(|cause| cause.kind() == std::io::ErrorKind::PermissionDenied)
}

/// Opens a capture's streams.
pub fn capture(inputs: &Inputs, order: Order) -> Result<TraceCapture, Failure> {
    Ok(TraceCapture::from_inputs(
        inputs.clone(),
        CaptureOptions { order, layout: foreign::layout() },
    )?)
}

/// The process names in a capture that can be read twice: a name often comes later than its
/// process's first event.
pub fn names(inputs: &Inputs) -> Result<ProcessNames, Failure> {
    let mut files = inputs.groups.iter().flat_map(|group| &group.inputs);
    let is_file = |input: &Input| match input {
        Input::Stdin => false,
        Input::Merged(path) | Input::Cpu { path, .. } => path.is_file(),
    };
    match files.all(is_file) {
        true => Ok(ProcessNames::for_capture(capture(inputs, Order::Time)?)),
        false => Ok(ProcessNames::default()),
    }
}

/// The failure for an input that is not a capture: it had no event.
pub fn no_capture(warnings: &Warnings) -> Result<(), Failure> {
    // A file may be empty if its CPU had no events; a pipe may not.
    if warnings
        .items()
        .iter()
        .any(|item| item.kind == WarningKind::Empty && &*item.file == STDIN_NAME)
    {
        let message = format!("failed to read {STDIN_NAME}: it is empty");
        let hint = "did the program before the pipe fail, or was nothing piped? For example: \
                    `blkparse -i sda | iowhy report -`";
        return Err(Failure::new(message, Some(hint.to_owned())));
    }
    let foreign = |kind| {
        matches!(
            kind,
            WarningKind::NotBlktrace
                | WarningKind::UnknownLine
                | WarningKind::UnknownFormat
                | WarningKind::ReadFailed
        )
    };
    match warnings.items().iter().find(|warning| foreign(warning.kind)) {
        None => Ok(()),
        Some(warning) => {
            let cause = match warning.kind {
                // Nothing was skipped: there is nothing else in it.
                WarningKind::UnknownLine => "none of its lines is an event".to_owned(),
                kind => kind.sentence(warning.count),
            };
            let message = format!("failed to read {}: {cause}", warning.file);
            Err(Failure::new(message, Some(WHAT_IS_READ.to_owned())))
        }
    }
}

/// The failure for files that are not those of CPUs, of which each may be empty, and had no event.
fn no_text(inputs: &Inputs) -> Result<(), Failure> {
    let inputs = inputs.groups.iter().flat_map(|group| &group.inputs);
    let paths: Option<Vec<PathBuf>> = inputs
        .map(|input| match input {
            Input::Merged(path) => Some(path.clone()),
            Input::Stdin => Some(PathBuf::from(STDIN_NAME)),
            Input::Cpu { .. } => None,
        })
        .collect();
    match paths.as_deref() {
        None | Some([]) => Ok(()),
        Some([path, ..]) => {
            let message = format!("failed to read {}: it is empty", path.display());
            Err(Failure::new(message, Some(WHAT_IS_READ.to_owned())))
        }
    }
}

/// A recording or a capture that yields rows.
pub enum OpenedKind {
    /// A recording.
    Recording(Box<RecordingAhead>),
    /// A capture, its events joined to requests.
    Capture(Box<CaptureImport>),
    /// A summary or log of another tool, and its name.
    Foreign(Box<ForeignImport>, String),
}

/// A source that gives rows; their names are redacted if the user wants that.
enum NamedOrNot {
    /// As it is.
    Plain(OpenedKind),
    /// Without names.
    Redacted(Box<RedactedSource<OpenedKind>>),
}

/// A source that is read, and how far.
pub struct Opened {
    source: NamedOrNot,
    progress: ReadProgress,
}

/// Opens the source `given`; `events` also yields a capture's single events, which a recording
/// yields whenever it has them.
pub fn open(given: &[PathBuf], events: bool) -> Result<Opened, Failure> {
    match find(given)? {
        FoundSource::Recording(path) => open_recording(&path),
        FoundSource::Capture(inputs) => open_capture(&inputs, events),
        FoundSource::Foreign(found) => open_foreign(&found),
    }
}

/// Opens a summary or log of another tool.
pub fn open_foreign(found: &ForeignSource) -> Result<Opened, Failure> {
    let import = Box::new(foreign::open(found)?);
    Ok(Opened::new(OpenedKind::Foreign(import, found.shown())))
}

/// Opens the recording in a directory.
pub fn open_recording(path: &Path) -> Result<Opened, Failure> {
    let ahead = RecordingAhead::new(RecordingReader::open(path)?);
    Ok(Opened::new(OpenedKind::Recording(Box::new(ahead))))
}

/// Opens a capture, its events joined to requests; `events` also gives its single events.
pub fn open_capture(inputs: &Inputs, events: bool) -> Result<Opened, Failure> {
    Ok(Opened::new(OpenedKind::Capture(Box::new(import(inputs, events)?))))
}

impl Opened {
    fn new(kind: OpenedKind) -> Opened {
        let redactor = match &kind {
            OpenedKind::Recording(reader) => redaction::of_recording(reader.environment()),
            OpenedKind::Capture(_) | OpenedKind::Foreign(..) => redaction::redactor(),
        };
        let progress = ReadProgress::new(kind.bytes().1);
        let source = match redactor {
            None => NamedOrNot::Plain(kind),
            Some(redactor) => {
                NamedOrNot::Redacted(Box::new(RedactedSource::new(kind, redactor.clone())))
            }
        };
        Opened { source, progress }
    }

    /// Hides the progress bar: rows are printed while the source is read.
    pub fn quietly(mut self) -> Opened {
        self.progress.hide();
        self
    }

    fn kind(&self) -> &OpenedKind {
        match &self.source {
            NamedOrNot::Plain(kind) => kind,
            NamedOrNot::Redacted(source) => source.inner(),
        }
    }

    /// Returns the faults of a capture.
    pub fn warnings(&self) -> Option<&Warnings> {
        match self.kind() {
            OpenedKind::Recording(_) | OpenedKind::Foreign(..) => None,
            OpenedKind::Capture(import) => Some(import.capture().warnings()),
        }
    }

    /// Refuses devices that the source does not have: for a recording before it is read; for a
    /// capture, which has no list of devices, after that (`is_read`).
    pub fn require_devices(&self, filter: &Filter, is_read: bool) -> Result<(), Failure> {
        let environment = self.environment();
        let wanted = filter.on_disks(&environment.devices).devices;
        let is_listed =
            |name: &&String| environment.devices.iter().any(|device| device.name == **name);
        if wanted.iter().all(|name| is_listed(&name)) {
            return Ok(());
        }
        let known: BTreeSet<String> = match (self.kind(), is_read) {
            // A device that existed only during the watch is in no list.
            (OpenedKind::Recording(reader), false) => devices_of(reader.directory())?,
            (OpenedKind::Capture(_) | OpenedKind::Foreign(..), true) => {
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

    /// Whether rows come in order, except for about a second: a recording yields a few seconds of
    /// one table, then of the next.
    pub fn is_settled(&self) -> bool {
        match self.kind() {
            OpenedKind::Recording(reader) => reader.is_between_rounds(),
            OpenedKind::Capture(_) | OpenedKind::Foreign(..) => true,
        }
    }
}

/// The devices that a recording has requests of.
fn devices_of(directory: &Path) -> Result<BTreeSet<String>, Failure> {
    let mut reader = RecordingReader::open(directory)?;
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
    Failure::new(format!("failed to find device {name}: the source does not have it"), Some(hint))
}

/// Imports a capture.
fn import(inputs: &Inputs, events: bool) -> Result<CaptureImport, Failure> {
    let names = names(inputs)?;
    let options = import::ImportOptions { events };
    let import = CaptureImport::new(capture(inputs, Order::Time)?, names, options);
    let texts =
        inputs.groups.iter().flat_map(|group| &group.inputs).filter_map(|input| match input {
            Input::Merged(path) => foreign::beside_events(path),
            Input::Cpu { .. } | Input::Stdin => None,
        });
    Ok(texts.fold(import, CaptureImport::with_limit))
}

impl Source for Opened {
    type Error = Failure;

    fn fill(&mut self, batch: &mut Batch, names: &mut Names) -> Result<Progress, Failure> {
        interruption::check()?;
        let progress = match &mut self.source {
            NamedOrNot::Plain(kind) => kind.fill(batch, names),
            NamedOrNot::Redacted(source) => source.fill(batch, names),
        }?;
        let bytes = self.kind().bytes().0;
        self.progress.note(batch, bytes);
        Ok(progress)
    }

    fn environment(&self) -> &Environment {
        match &self.source {
            NamedOrNot::Plain(kind) => kind.environment(),
            NamedOrNot::Redacted(source) => source.environment(),
        }
    }
}

impl OpenedKind {
    /// Bytes that were read, and all; 0 where that is not known.
    fn bytes(&self) -> (u64, u64) {
        match self {
            OpenedKind::Recording(reader) => reader.bytes(),
            OpenedKind::Capture(_) | OpenedKind::Foreign(..) => (0, 0),
        }
    }
}

impl Source for OpenedKind {
    type Error = Failure;

    fn fill(&mut self, batch: &mut Batch, names: &mut Names) -> Result<Progress, Failure> {
        match self {
            OpenedKind::Recording(reader) => Ok(reader.fill(batch, names)?),
            OpenedKind::Capture(import) => {
                let Ok(progress) = import.fill(batch, names);
                if progress == Progress::Done && import.is_empty() {
                    no_capture(import.capture().warnings())?;
                    no_text(import.capture().inputs())?;
                }
                Ok(progress)
            }
            OpenedKind::Foreign(import, shown) => import.fill(batch, names).map_err(|cause| {
                let message = format!("failed to read {shown}: {cause}");
                Failure::new(message, Some(WHAT_IS_READ.to_owned()))
            }),
        }
    }

    fn environment(&self) -> &Environment {
        match self {
            OpenedKind::Recording(reader) => reader.environment(),
            OpenedKind::Capture(import) => import.environment(),
            OpenedKind::Foreign(import, _) => import.environment(),
        }
    }
}

/// Reads `source` and passes the rows that `filter` keeps to `each`, which may take them out of the
/// batch. Returns the texts of all rows, and the number of waits that were left out because they
/// lack the data that the filter needs.
pub fn read_all(
    source: &mut Opened,
    filter: &Filter,
    mut each: impl FnMut(&mut Batch, &Names, &Environment) -> Result<(), Failure>,
) -> Result<(Names, SilentWaits), Failure> {
    read_while(source, filter, |batch, names, source| {
        each(batch, names, source.environment()).map(|()| true)
    })
}

/// Reads the rows that `filter` keeps, until `each` returns false.
pub fn read_while(
    source: &mut Opened,
    filter: &Filter,
    mut each: impl FnMut(&mut Batch, &Names, &Opened) -> Result<bool, Failure>,
) -> Result<(Names, SilentWaits), Failure> {
    source.require_devices(filter, false)?;
    let filter = &filter.on_disks(&source.environment().devices);
    let (mut names, mut batch) = (Names::new(), Batch::default());
    let mut silent = SilentWaits::default();
    let mut selected = SelectionCount::new(filter);
    loop {
        batch.clear();
        let progress = source.fill(&mut batch, &mut names)?;
        selected.there_are(&batch);
        silent.add(batch.retain(filter, &names, source.environment().end_ns));
        selected.are_kept(&batch);
        if !each(&mut batch, &names, source)? {
            return Ok((names, silent));
        }
        if progress == Progress::Done {
            source.require_devices(filter, true)?;
            selected.check(&names)?;
            return Ok((names, silent));
        }
    }
}

impl From<CaptureError> for Failure {
    fn from(error: CaptureError) -> Failure {
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
