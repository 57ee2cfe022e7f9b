//! `iowhy stages`: where requests spent their time, from a live watch, a recording or a capture.

use super::events::{choose, no_events, only_devices};
use crate::args::stages::StagesArgs as Args;
use crate::failure::Failure;
use crate::interruption;
use crate::output::{self, PipedOutput};
use crate::partial::PartialOutput;
use crate::sources::{self, FoundSource};
use crate::watching::{Until, WatchSink, watch};
use iowhy_analysis::stages::summary::device_name;
use iowhy_analysis::stages::{RequestStages, StagesSummary};
use iowhy_blktrace::btt::{Btt, DataFiles, DeviceNames, report};
use iowhy_blktrace::replay::{Replay, Replayed};
use iowhy_blktrace::stages::{StageAnalysis, pipeline};
use iowhy_blktrace::trace::{Inputs, Order, RecordBatch, Warnings};
use iowhy_capture::live;
use iowhy_fs::read;
use iowhy_model::environment::Device;
use iowhy_model::figures::counted;
use iowhy_model::source::{self, Source};
use iowhy_model::{Environment, Event, Losses, Names, Request};
use iowhy_views::stages;
use std::borrow::Cow;
use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Bytes of a file of names that are read.
const MOST_NAMES: u64 = 1 << 20;

/// Prints the stages, or btt's report.
pub fn run(args: &Args) -> Result<(), Failure> {
    if let Some((option, then)) = args.elsewhere.given() {
        let then = match args.source.paths.is_empty() {
            true => then.replace("SOURCE ", ""),
            false => then.replace("SOURCE", &sources::words(&args.source.paths)),
        };
        let message = format!("failed to write what btt's {option} does: another command shows it");
        return Err(Failure::new(message, Some(format!("`{then}`"))));
    }
    if Compatible::is_wanted(args) {
        only_devices(&args.only, "give figures of single events")?;
    }
    if args.source.paths.is_empty() {
        return live(args);
    }
    if args.files.wanted().is_some() || args.output.is_some() {
        interruption::note_signals()?;
    }
    match sources::find(&args.source.paths)? {
        FoundSource::Capture(inputs) if !needs_requests(args) => capture(args, inputs),
        _ => rows(args),
    }
}

/// Whether a filter needs data that single events do not have.
fn needs_requests(args: &Args) -> bool {
    !args.only.without_devices().is_everything()
}

/// Output that needs single events, in addition to iowhy's own figures.
struct Compatible(Option<Btt>);

impl Compatible {
    fn new(args: &Args) -> Result<Compatible, Failure> {
        if !Compatible::is_wanted(args) {
            return Ok(Compatible(None));
        }
        let mut btt = Btt::default();
        btt.names = device_names(args)?;
        btt.files = args.files.wanted().map(|mut files| {
            files.names = btt.names.clone();
            files
        });
        Ok(Compatible(Some(btt)))
    }

    fn is_wanted(args: &Args) -> bool {
        args.btt_compat || args.files.wanted().is_some()
    }

    fn take(&mut self, batch: &RecordBatch, genesis: u64) {
        if let Some(btt) = &mut self.0 {
            btt.take(batch, genesis);
        }
    }

    /// Writes data files, and btt's report if requested.
    fn finish(self, args: &Args) -> Result<(), Failure> {
        let Some(mut btt) = self.0 else { return Ok(()) };
        interruption::check()?;
        if let Some(Err((path, cause))) = btt.files.as_mut().map(|files| files.finish()) {
            return Err(Failure::not_written(&path, &cause));
        }
        for (count, what) in [
            (btt.dropped, "queued bios that never completed were dropped"),
            (
                btt.aggregated,
                "events are of more devices than are distinguished, and were left out",
            ),
        ] {
            if count > 0 {
                output::note(&format!("lost: {}", counted(count, what)));
            }
        }
        if args.btt_compat { btt_report(&mut btt, args) } else { Ok(()) }
    }
}

/// The names in the file of -M.
fn device_names(args: &Args) -> Result<DeviceNames, Failure> {
    let Some(path) = &args.files.dev_maps else { return Ok(DeviceNames::default()) };
    let mut text = String::new();
    let failed = |cause: &dyn std::fmt::Display| {
        let hint = "a line is a name and a number: sdq 65,0".to_owned();
        Failure::new(format!("failed to read {}: {cause}", path.display()), Some(hint))
    };
    read::open_source(path)
        .and_then(|file| file.take(MOST_NAMES).read_to_string(&mut text))
        .map_err(|cause| failed(&cause))?;
    DeviceNames::from_text(&text).map_err(|line| failed(&format!("{line:?} names no device")))
}

fn btt_report(btt: &mut Btt, args: &Args) -> Result<(), Failure> {
    let (mut figures, mut ranges) = (Vec::new(), Vec::new());
    // Writing to memory cannot fail.
    let _ = report::write(btt, args.all_data, &mut figures);
    let Some(prefix) = &args.output else {
        let mut answer = PipedOutput::begin();
        answer.write(&figures);
        return answer.finish();
    };
    let _ = report::write_ranges(btt, &mut ranges);
    let mut outputs = Vec::new();
    for (ending, content) in [(".avg", &figures), (".dat", &ranges), (".msg", &btt.messages)] {
        let mut path = OsString::from(prefix);
        path.push(ending);
        if !content.is_empty() {
            let output = PartialOutput::for_target(Path::new(&path))?;
            output.write(content)?;
            outputs.push(output);
        }
    }
    outputs.into_iter().try_for_each(PartialOutput::finish)
}

/// Prints iowhy's own figures, after the notes.
fn print(
    args: &Args,
    stages: &StagesSummary,
    notes: &[String],
    losses: &Losses,
) -> Result<(), Failure> {
    output::print(&match args.json {
        true => stages::json(stages, notes, losses),
        false => stages::render(stages, notes, &output::style()),
    })
}

/// Prints the figures of a capture, whose losses are among the notes.
fn print_capture(args: &Args, stages: &StageAnalysis, warnings: &Warnings) -> Result<(), Failure> {
    let figures = stages.summary(&device_name);
    print(args, &figures, &output::sentences(warnings), &Losses::default())
}

fn capture(args: &Args, mut inputs: Inputs) -> Result<(), Failure> {
    let numbers = choose(&args.only.devices, &mut inputs)?;
    let mut compatible = Compatible::new(args)?;
    if compatible.0.is_none() && numbers.is_empty() && args.source.part().is_none() {
        let (stages, warnings) = pipeline::analyse(&inputs)?;
        if stages.devices().is_empty() {
            sources::no_capture(&warnings)?;
        }
        return print_capture(args, &stages, &warnings);
    }
    let order = if args.btt_compat { Order::Blkparse } else { Order::Time };
    let mut stages = StageAnalysis::default();
    let mut any = false;
    let capture = pipeline::run_while(sources::capture(&inputs, order)?, |start, batch| {
        any |= !batch.records.is_empty();
        let batch = of_devices(&numbers, in_part(args.source.part(), batch, start.genesis));
        compatible.take(&batch, start.genesis);
        if !args.btt_compat {
            stages.take(&batch, start.genesis);
        }
        interruption::check().is_ok()
    });
    interruption::check()?;
    if !any {
        sources::no_capture(capture.warnings())?;
    }
    compatible.finish(args)?;
    if args.btt_compat {
        output::warnings(capture.warnings());
        return Ok(());
    }
    stages.finish();
    print_capture(args, &stages, capture.warnings())
}

/// The records between two times after the first event, as btt's -t and -T keep them.
fn in_part(part: Option<(u64, u64)>, batch: &RecordBatch, genesis: u64) -> Cow<'_, RecordBatch> {
    let Some((from, until)) = part else { return Cow::Borrowed(batch) };
    let mut kept = batch.clone();
    kept.records.retain(|record| {
        record.is_notify() || (from..=until).contains(&record.time.wrapping_sub(genesis))
    });
    Cow::Owned(kept)
}

/// The records of these devices, or of all if none is given; names of processes belong to no
/// device.
fn of_devices<'a>(numbers: &[u32], batch: Cow<'a, RecordBatch>) -> Cow<'a, RecordBatch> {
    if numbers.is_empty() {
        return batch;
    }
    let mut kept = batch.into_owned();
    kept.records.retain(|record| record.is_notify() || numbers.contains(&record.device));
    Cow::Owned(kept)
}

/// Takes rows: single events if there are any that have the required data, else requests.
struct StageRows {
    /// The devices whose events are kept; all if none is given.
    devices: Vec<String>,
    /// The part of a source to keep, nanoseconds after its beginning.
    part: Option<(u64, u64)>,
    needs_requests: bool,
    /// The directory of btt's report.
    report: Option<PathBuf>,
    compatible: Compatible,
    replay: Replay,
    events: StageAnalysis,
    requests: RequestStages,
}

impl StageRows {
    fn new(args: &Args) -> Result<StageRows, Failure> {
        Ok(StageRows {
            devices: args.only.filter().devices,
            part: args.source.part().filter(|_| !args.source.paths.is_empty()),
            needs_requests: needs_requests(args),
            report: args.output.as_deref().map(|path| iowhy_fs::folder_of(path).to_owned()),
            compatible: Compatible::new(args)?,
            replay: Replay::default(),
            events: StageAnalysis::default(),
            requests: RequestStages::default(),
        })
    }

    fn add(&mut self, batch: &source::Batch, names: &Names, start_ns: u64) {
        // Events contain everything that requests do, and more.
        if self.replay.is_empty() {
            match self.part {
                None => self.requests.take(batch, names),
                Some((from, until)) => {
                    let is_in = |request: &Request| {
                        (from..=until).contains(&request.start_ns.saturating_sub(start_ns))
                    };
                    let requests =
                        batch.requests.iter().filter(|request| is_in(request)).cloned().collect();
                    self.requests.take(&source::Batch { requests, ..Default::default() }, names);
                }
            }
        }
        if self.needs_requests {
            return;
        }
        let own = self.own(&batch.events, names);
        let StageRows { compatible, replay, events, part, .. } = self;
        follow(compatible, events, *part, replay.take(&own, names));
    }

    /// The events of the selected devices.
    fn own<'a>(&self, events: &'a [Event], names: &Names) -> Cow<'a, [Event]> {
        if self.devices.is_empty() {
            return Cow::Borrowed(events);
        }
        let is_own =
            |event: &&Event| self.devices.iter().any(|device| device == names.get(event.device));
        Cow::Owned(events.iter().filter(is_own).cloned().collect())
    }

    /// Prints the result; `without` is the reason for missing events, if they are needed.
    fn finish(
        mut self,
        args: &Args,
        names: &Names,
        environment: &Environment,
        mut notes: Vec<String>,
        without: impl FnOnce() -> Failure,
    ) -> Result<(), Failure> {
        let StageRows { compatible, replay, events, part, .. } = &mut self;
        follow(compatible, events, *part, replay.finish(names));
        if self.compatible.0.is_some() && self.replay.is_empty() {
            return Err(without());
        }
        self.compatible.finish(args)?;
        if args.btt_compat {
            output::losses(&environment.losses);
            return Ok(());
        }
        let name = |number: u32| {
            let same = |device: &&Device| device.number() == number;
            let device = environment.devices.iter().find(same);
            device.map_or_else(|| device_name(number), |device| device.name.clone())
        };
        notes.extend(output::loss_sentences(&environment.losses));
        if !args.only.is_everything() {
            notes.push(format!("only {}", args.only));
        }
        if self.replay.is_empty() {
            notes.push("from requests: bios, plugs and unplugs are only in single events".into());
            notes.extend(estimates(environment));
            self.requests.finish();
            let figures = self.requests.summary(&name);
            return print(args, &figures, &notes, &environment.losses);
        }
        self.events.finish();
        print(args, &self.events.summary(&name), &notes, &environment.losses)
    }
}

/// Returns the sentence of a watch in which requests were sampled.
fn estimates(environment: &Environment) -> Option<String> {
    let recorded = match environment.requests_one_in() {
        Some(one_in) => format!("1 of {one_in} requests was recorded"),
        None => environment.is_sampled().then(|| "a sample of requests was recorded".to_owned())?,
    };
    Some(format!(
        "{recorded} at the fewest: numbers are estimates that are not scaled to the kernel's \
         counts (`iowhy report` has those); seeks, periods and Q2Q are of the recorded ones"
    ))
}

fn follow(
    compatible: &mut Compatible,
    stages: &mut StageAnalysis,
    part: Option<(u64, u64)>,
    replayed: Replayed<'_>,
) {
    let batch = in_part(part, replayed.batch, replayed.genesis);
    compatible.take(&batch, replayed.genesis);
    stages.take(&batch, replayed.genesis);
}

/// From a recording, or from a capture's requests.
fn rows(args: &Args) -> Result<(), Failure> {
    let paths = &args.source.paths;
    let mut source = sources::open(paths, false)?;
    let mut rows = StageRows::new(args)?;
    // Losses are those of the whole source; waits are not shown here.
    let keep = args.only.filter();
    let (names, _) = sources::read_all(&mut source, &keep, |batch, names, environment| {
        rows.add(batch, names, environment.start_ns);
        Ok(())
    })?;
    let notes = source.warnings().map_or_else(Vec::new, output::sentences);
    let none = || no_events(paths.first().map_or(Path::new("-"), PathBuf::as_path));
    rows.finish(args, &names, source.environment(), notes, none)
}

impl WatchSink for StageRows {
    /// btt's files go where their prefixes lead, its report where `-o` leads.
    fn places(&self) -> Vec<PathBuf> {
        let files = self.compatible.0.as_ref().and_then(|btt| btt.files.as_ref());
        let folders = files.map(DataFiles::folders).unwrap_or_default();
        folders.into_iter().chain(self.report.clone()).collect()
    }

    fn take(&mut self, batch: &source::Batch, names: &Names) -> Result<(), Failure> {
        self.add(batch, names, 0);
        Ok(())
    }
}

fn live(args: &Args) -> Result<(), Failure> {
    let options = live::WatchOptions {
        devices: args.only.devices.clone(),
        events: Compatible::is_wanted(args),
        ..live::WatchOptions::default()
    };
    let until = Until { time: Some(args.source.length()), command: None };
    let watched = watch(&options, &args.only.filter(), until, |_| StageRows::new(args))?;
    let none = || Failure::new("failed to find events: the watch had none", None);
    watched.sink.finish(args, &watched.names, &watched.environment, Vec::new(), none)
}
