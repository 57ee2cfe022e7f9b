//! `iowhy events`: single block events as text, from a live watch, a recording or a capture.

use crate::args::Only;
use crate::args::events::Events;
use crate::failure::Failure;
use crate::foreign;
use crate::output::{self, PipedOutput};
use crate::redaction;
use crate::selection::hint_of_btt;
use crate::sources::{self, FoundSource, Opened};
use crate::watching::{Until, WatchSink, watch};
use iowhy_blktrace::events::steps::{CaptureClock, HostTime};
use iowhy_blktrace::events::{EventOptions, EventText};
use iowhy_blktrace::replay::{Replay, Replayed};
use iowhy_blktrace::stages::pipeline::{self, CaptureStart};
use iowhy_blktrace::trace::{Inputs, Order, RecordBatch};
use iowhy_capture::live;
use iowhy_model::environment::Device;
use iowhy_model::source::{self, Progress, Source};
use iowhy_model::{Environment, Filter, Names};
use std::path::Path;

/// Prints the selected events.
pub fn run(args: &Events) -> Result<(), Failure> {
    if args.source.paths.is_empty() {
        return live(args);
    }
    match sources::find(&args.source.paths)? {
        FoundSource::Recording(path) => rows(args, sources::open_recording(&path)?, &path),
        FoundSource::Capture(inputs) if redaction::is_wanted() => {
            rows(args, sources::open_capture(&inputs, true)?, Path::new("capture"))
        }
        FoundSource::Capture(inputs) => capture(args, inputs),
        FoundSource::Foreign(found) => Err(foreign::without_events(&found)),
    }
}

/// Writes lines to standard output.
struct EventPrinter {
    text: EventText,
    answer: PipedOutput,
    lines: Vec<u8>,
    /// Whether lines are printed, or only the statistics at the end.
    shown: bool,
}

impl EventPrinter {
    /// `environment` is that of a recording or a watch; a capture has its own clock.
    fn new(args: &Events, devices: Vec<u32>, environment: Option<&Environment>) -> EventPrinter {
        let utc_offset_s = environment.and_then(|environment| environment.utc_offset_s);
        let is_local = !args.monotonic && !args.blkparse_compat;
        let options = EventOptions {
            compatible: args.blkparse_compat,
            json: args.json,
            format: args.format.clone(),
            formats: args.formats.clone(),
            mask: args.mask(),
            devices,
            from: args.window.map_or(0, |window| window.0),
            until: args.window.map(|window| window.1),
            local: is_local.then(|| HostTime::at(utc_offset_s)),
        };
        let mut text = EventText::new(options);
        if let Some(clock) = environment.and_then(clock) {
            text.set_clock(clock);
        }
        EventPrinter {
            text,
            answer: PipedOutput::escaping(),
            lines: Vec::new(),
            shown: !args.no_text,
        }
    }

    /// Prints the lines of `batch`; false if no more are needed.
    fn take(&mut self, batch: &RecordBatch, genesis: u64) -> bool {
        let more = self.text.write(batch, genesis, &mut self.lines);
        let read = !self.shown || self.answer.write(&self.lines);
        self.lines.clear();
        more && read
    }

    fn replay(&mut self, replayed: Replayed<'_>) -> bool {
        let names = &mut self.text.summary.names;
        if names.len() < replayed.devices.len() {
            *names = replayed.devices.to_vec();
        }
        self.take(replayed.batch, replayed.genesis)
    }

    fn finish(mut self, args: &Events) -> Result<(), Failure> {
        if !args.quiet && !args.json {
            // Writing to memory cannot fail.
            let _ = self.text.summary.write(&mut self.lines);
            self.answer.write(&self.lines);
        }
        self.answer.finish()
    }
}

/// The wall clock of a watch, where it is known.
fn clock(environment: &Environment) -> Option<CaptureClock> {
    let (start_ns, offset_ns) = (environment.start_ns, environment.realtime_offset_ns);
    let wall = start_ns.checked_add_signed(offset_ns).filter(|_| offset_ns != 0)?;
    Some(CaptureClock::new(start_ns, wall))
}

fn capture(args: &Events, mut inputs: Inputs) -> Result<(), Failure> {
    let chosen = choose(&args.devices, &mut inputs)?;
    let mut printer = EventPrinter::new(args, chosen, None);
    let order = if args.blkparse_compat { Order::Blkparse } else { Order::Time };
    if !args.blkparse_compat {
        printer.text.names = sources::names(&inputs)?;
    }
    let capture = sources::capture(&inputs, order)?;
    if !capture.is_merged() {
        let names = inputs.groups.iter().map(|group| group.name.clone());
        printer.text.summary.names = names.collect();
    }
    let mut any = false;
    let EventPrinter { text, answer, shown, .. } = &mut printer;
    let format = |start: CaptureStart, batch: &RecordBatch, lines: &mut Vec<u8>| {
        any |= !batch.records.is_empty();
        text.write(batch, start.genesis, lines)
    };
    let capture = pipeline::run_apart(capture, format, |lines| !*shown || answer.write(lines));
    if !any {
        sources::no_capture(capture.warnings())?;
    }
    printer.finish(args)?;
    output::warnings(capture.warnings());
    Ok(())
}

/// Events of a source that gives rows.
fn rows(args: &Events, mut reader: Opened, path: &Path) -> Result<(), Failure> {
    reader = reader.quietly();
    let chosen = numbers(&args.devices, reader.environment())?;
    let mut printer = EventPrinter::new(args, chosen, Some(reader.environment()));
    let (mut names, mut batch) = (Names::new(), source::Batch::default());
    let mut replay = Replay::default();
    let mut wanted = true;
    while wanted {
        batch.clear();
        let progress = reader.fill(&mut batch, &mut names)?;
        wanted = printer.replay(replay.take(&batch.events, &names));
        if progress == Progress::Done {
            wanted = wanted && printer.replay(replay.finish(&names));
            break;
        }
    }
    if replay.is_empty() {
        return Err(no_events(path));
    }
    printer.finish(args)?;
    if wanted {
        output::losses(&reader.environment().losses);
    }
    Ok(())
}

/// The failure for a recording without single events.
pub fn no_events(path: &Path) -> Failure {
    let message = format!("failed to find events in {}: it holds none", path.display());
    let hint = "single events are recorded by `iowhy record --events` and `iowhy import --events`";
    Failure::new(message, Some(hint.to_owned()))
}

/// Refuses filters that single events cannot be matched against, rather than ignore them silently.
pub fn only_devices(only: &Only, verb: &str) -> Result<(), Failure> {
    let rest = only.without_devices();
    if rest.is_everything() {
        return Ok(());
    }
    let message = format!("failed to {verb} with {rest}: events do not have that data");
    let hint = hint_of_btt(&rest.filter()).unwrap_or("only --device filters events");
    Err(Failure::new(message, Some(hint.to_owned())))
}

/// Receives the events of a watch.
struct Following {
    printer: EventPrinter,
    replay: Replay,
}

impl WatchSink for Following {
    fn take(&mut self, batch: &source::Batch, names: &Names) -> Result<(), Failure> {
        let wanted = self.printer.replay(self.replay.take(&batch.events, names));
        // An error ends the watch: the reader has gone, or no later event is needed.
        let ended = || Failure::new("failed to print events", None);
        (wanted && self.printer.answer.flush()).then_some(()).ok_or_else(ended)
    }
}

fn live(args: &Events) -> Result<(), Failure> {
    let options = live::WatchOptions {
        devices: args.devices.clone(),
        events: true,
        ..live::WatchOptions::default()
    };
    let until = Until { time: Some(args.source.time), command: None };
    let begin = |environment: &Environment| {
        let printer = EventPrinter::new(args, Vec::new(), Some(environment));
        Ok(Following { printer, replay: Replay::default() })
    };
    let watched = watch(&options, &Filter::default(), until, begin)?;
    let Following { mut printer, mut replay } = watched.sink;
    if watched.failed.is_none() {
        printer.replay(replay.finish(&watched.names));
    }
    printer.finish(args)?;
    output::losses(&watched.environment.losses);
    Ok(())
}

/// The selected devices, by name or by number.
struct Chosen {
    names: Vec<String>,
    numbers: Vec<u32>,
}

impl Chosen {
    fn among(wanted: &[String], known: Vec<String>) -> Result<Chosen, Failure> {
        let mut chosen = Chosen { names: Vec::new(), numbers: Vec::new() };
        for text in wanted {
            let name = text.strip_prefix("/dev/").unwrap_or(text);
            match number(text) {
                Some(number) => chosen.numbers.push(number),
                None if known.iter().any(|known| known == name) => {
                    chosen.names.push(name.to_owned());
                }
                None => {
                    let message = format!(
                        "failed to find device {text}: the source does not have \
                        it"
                    );
                    let hint = format!("it has {}; or give 8,0", known.join(", "));
                    return Err(Failure::new(message, Some(hint)));
                }
            }
        }
        Ok(chosen)
    }
}

/// Keeps the device names in `inputs`, and returns the devices given by number.
pub fn choose(wanted: &[String], inputs: &mut Inputs) -> Result<Vec<u32>, Failure> {
    let names = inputs.groups.iter().map(|group| group.name.clone()).collect();
    let chosen = Chosen::among(wanted, names)?;
    if !chosen.names.is_empty() {
        inputs.groups.retain(|group| chosen.names.contains(&group.name));
    }
    Ok(chosen.numbers)
}

/// The numbers of the selected devices.
fn numbers(wanted: &[String], environment: &Environment) -> Result<Vec<u32>, Failure> {
    let devices = &environment.devices;
    let known = devices.iter().map(|device| device.name.clone()).collect();
    let mut chosen = Chosen::among(wanted, known)?;
    let named = devices.iter().filter(|device| chosen.names.contains(&device.name));
    chosen.numbers.extend(named.map(Device::number));
    Ok(chosen.numbers)
}

/// `major,minor` or `major:minor`.
fn number(text: &str) -> Option<u32> {
    let (major, minor) = text.split_once([',', ':'])?;
    let (major, minor) = (major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?);
    (major < 1 << 12 && minor < 1 << 20).then_some((major << 20) | minor)
}
