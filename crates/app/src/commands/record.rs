//! `iowhy record`: writes a live watch to a recording.

use crate::args::RecordArgs;
use crate::failure::Failure;
use crate::output;
use crate::slow_disk::SlowDiskNotice;
use crate::sources;
use crate::watching::{EndedWatch, Until, WatchSink, watch};
use iowhy_capture::live::WatchOptions;
use iowhy_model::figures::{counted, grouped};
use iowhy_model::recording::{Budget, RecordingWriter};
use iowhy_model::source::Batch;
use iowhy_model::{Environment, Filter, Names};
use rustix::fs::Access;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Instant;

const COMMAND_HINT: &str = "the words after -- are the program to run while recording";

/// A recording that is being written.
pub struct Recorder {
    writer: RecordingWriter,
    requests: u64,
    filter: Filter,
    budget: Option<Budget>,
    begun: Instant,
    notice: SlowDiskNotice,
}

impl Recorder {
    /// Makes the recording `directory` of the watch that `now` describes, with the rows that
    /// `filter` keeps, at most `most_mb` MB per minute.
    pub fn begin(
        directory: &Path,
        now: &Environment,
        filter: &Filter,
        most_mb: Option<u64>,
    ) -> Result<Recorder, Failure> {
        let mut now = now.clone();
        now.keep(filter);
        let budget = most_mb.map(|most| Budget::per_minute(most.saturating_mul(1_000_000), 0));
        let notice = SlowDiskNotice::start(directory);
        let writer = notice.during(|| RecordingWriter::create(directory, &now))?;
        let (filter, begun) = (filter.clone(), Instant::now());
        Ok(Recorder { writer, requests: 0, filter, budget, begun, notice })
    }

    /// Ends the recording, and says what there is; fails if the watch `failed` or something cannot
    /// be written.
    pub fn end(
        self,
        environment: &Environment,
        names: &Names,
        failed: Option<Failure>,
    ) -> Result<(), Failure> {
        let directory = self.writer.directory().to_owned();
        let mut environment = self.about(environment);
        let Recorder { writer, notice, requests, .. } = self;
        let finished = notice.during(|| writer.finish(&mut environment, names));
        if let Some(failure) = failed {
            say_what_there_is(requests, &environment, &directory);
            return Err(failure);
        }
        finished?;
        say_what_there_is(requests, &environment, &directory);
        Ok(())
    }

    /// The content of `recording.json`.
    fn about(&self, now: &Environment) -> Environment {
        let mut now = now.clone();
        now.keep(&self.filter);
        if let Some(budget) = &self.budget {
            budget.losses(&mut now.losses);
        }
        now
    }
}

impl WatchSink for Recorder {
    fn places(&self) -> Vec<PathBuf> {
        vec![self.writer.directory().to_owned()]
    }

    fn take(&mut self, batch: &Batch, names: &Names) -> Result<(), Failure> {
        let now_ns = self.begun.elapsed().as_nanos() as u64;
        let thinned = self.budget.as_mut().and_then(|budget| budget.thinned(batch, now_ns));
        let batch = thinned.as_ref().unwrap_or(batch);
        self.requests += batch.requests.len() as u64;
        Ok(self.notice.during(|| self.writer.add(batch, names))?)
    }

    fn note(&mut self, now: &Environment) {
        let now = self.about(now);
        self.writer.update(&now);
    }

    fn discard(self) {
        self.writer.discard();
    }
}

/// Records until the time is over, the command ends, or a signal arrives.
pub fn run(args: &RecordArgs) -> Result<(), Failure> {
    let directory = args.output.clone().unwrap_or_else(free_name);
    let command = command(&args.command)?;
    let options = WatchOptions { events: args.events, ..args.collect.options(&args.only) };
    let filter = args.only.filter();
    let until = Until { time: args.time, command };
    let begin = |now: &Environment| Recorder::begin(&directory, now, &filter, args.most_mb);
    finish(watch(&options, &filter, until, begin)?)
}

/// The command to run. It is checked before anything is recorded.
fn command(words: &[std::ffi::OsString]) -> Result<Option<Command>, Failure> {
    let Some((program, arguments)) = words.split_first() else { return Ok(None) };
    let places = places(Path::new(program));
    let may_run = |place: &PathBuf| rustix::fs::access(place, Access::EXEC_OK).is_ok();
    if !places.iter().any(|place| place.is_file() && may_run(place)) {
        return Err(no_program(Path::new(program), &places));
    }
    let mut command = Command::new(program);
    command.args(arguments);
    Ok(Some(command))
}

/// The path of a program of that name.
fn places(program: &Path) -> Vec<PathBuf> {
    if program.components().count() > 1 {
        return vec![program.to_owned()];
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join(program)).collect()
}

fn no_program(program: &Path, places: &[PathBuf]) -> Failure {
    let there = places.iter().find(|place| place.exists());
    let (cause, hint) = match there {
        Some(place) if place.is_dir() => ("it is a directory", COMMAND_HINT.to_owned()),
        Some(place) => {
            let file = sources::words(std::slice::from_ref(place));
            let ways = format!("`chmod +x {file}`, or name what runs it: `-- sh {file}`");
            ("it is a file that cannot be executed", ways)
        }
        None => ("no such program", COMMAND_HINT.to_owned()),
    };
    Failure::new(format!("failed to start {}: {cause}", program.display()), Some(hint))
}

/// A directory that does not exist yet: `iowhy-recording`, else with a number.
pub fn free_name() -> PathBuf {
    let name = |number: u32| match number {
        1 => PathBuf::from("iowhy-recording"),
        number => PathBuf::from(format!("iowhy-recording-{number}")),
    };
    (1..).map(name).find(|path| !path.exists()).unwrap_or_else(|| name(1))
}

fn finish(watched: EndedWatch<Recorder>) -> Result<(), Failure> {
    let EndedWatch { environment, names, sink, failed, child } = watched;
    sink.end(&environment, &names, failed)?;
    if let Some(said) = child.and_then(told_of) {
        output::note(&said);
    }
    Ok(())
}

fn say_what_there_is(requests: u64, environment: &Environment, directory: &Path) {
    let seconds = environment.duration_ns() as f64 / 1e9;
    let lost = grouped(environment.losses.requests());
    let path = directory.display();
    let requests = counted(requests, "requests");
    output::note(&format!("recorded {requests} in {seconds:.1} s, {lost} lost, into {path}"));
    for loss in environment.losses.items.iter().filter(|loss| loss.requests) {
        output::note(&loss.note());
    }
    let source = sources::words(&[directory.to_owned()]);
    output::note(&format!("show it with: `iowhy report {source}`"));
}

/// A note if the command failed or is still running.
fn told_of(mut child: Child) -> Option<String> {
    match child.try_wait() {
        Ok(Some(status)) if status.success() => None,
        Ok(Some(status)) => Some(format!("the command ended with {status}")),
        _ => Some(format!("the command is still running, as process {}", child.id())),
    }
}
