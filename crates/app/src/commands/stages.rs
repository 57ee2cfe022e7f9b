//! `iowhy stages`: where requests spent their time, from a live watch, a recording or a capture.

use super::events::no_events;
use crate::args::stages::Stages as Args;
use crate::failure::Failure;
use crate::output::{self, Answer};
use crate::sources::{self, Found};
use crate::watching::{Sink, Until, watch};
use iowhy_capture::live;
use iowhy_core::analysis::stages::btt::{Btt, report};
use iowhy_core::analysis::stages::{Stages, pipeline, text};
use iowhy_core::formats::blktrace::{Batch, Inputs, Order};
use iowhy_core::formats::replay::{Replay, Replayed};
use iowhy_core::model::environment::Device;
use iowhy_core::model::{Environment, Filter, Names};
use iowhy_core::recording::Reader;
use iowhy_core::source::{self, Progress, Source};
use std::ffi::OsString;
use std::fs;
use std::path::Path;

/// Prints what was asked for.
pub fn run(args: &Args) -> Result<(), Failure> {
    if args.source.paths.is_empty() {
        return live(args);
    }
    match sources::find(&args.source.paths)? {
        Found::Recording(path) => recording(args, &path),
        Found::Capture(inputs) => capture(args, &inputs),
    }
}

/// What is made of single events, besides iowhy's own figures.
struct Compatible(Option<Btt>);

impl Compatible {
    fn new(args: &Args) -> Compatible {
        let files = args.files.wanted();
        let wanted = args.btt_compat || files.is_some();
        Compatible(wanted.then(|| {
            let mut btt = Btt::default();
            btt.files = files;
            btt
        }))
    }

    fn take(&mut self, batch: &Batch, genesis: u64) {
        if let Some(btt) = &mut self.0 {
            btt.take(batch, genesis);
        }
    }

    /// Writes data files, and btt's report where it was asked for.
    fn finish(self, args: &Args) -> Result<(), Failure> {
        let Some(mut btt) = self.0 else { return Ok(()) };
        if let Some(Err((path, cause))) = btt.files.as_mut().map(|files| files.finish()) {
            return Err(not_written(&path, &cause));
        }
        for (count, what) in [
            (btt.dropped, "queued bios that never completed were given up"),
            (btt.lumped, "events are of more devices than are told apart, and were left out"),
        ] {
            if count > 0 {
                output::note(&format!("lost: {count} {what}"));
            }
        }
        if args.btt_compat { btt_report(&mut btt, args) } else { Ok(()) }
    }
}

fn btt_report(btt: &mut Btt, args: &Args) -> Result<(), Failure> {
    let (mut figures, mut ranges) = (Vec::new(), Vec::new());
    // Writing to memory cannot fail.
    let _ = report::write(btt, args.all_data, &mut figures);
    let Some(prefix) = &args.output else {
        let mut answer = Answer::begin();
        answer.write(&figures);
        return answer.finish();
    };
    let _ = report::write_ranges(btt, &mut ranges);
    for (ending, content) in [(".avg", &figures), (".dat", &ranges), (".msg", &btt.messages)] {
        let mut path = OsString::from(prefix);
        path.push(ending);
        if !content.is_empty() {
            let path = Path::new(&path);
            fs::write(path, content).map_err(|cause| not_written(path, &cause))?;
        }
    }
    Ok(())
}

fn not_written(path: &Path, cause: &std::io::Error) -> Failure {
    Failure::new(format!("failed to write {}: {cause}", path.display()), None)
}

/// Prints iowhy's own figures, after what must be known before them.
fn print(stages: &Stages, name: text::Naming<'_>, notes: &[String]) -> Result<(), Failure> {
    let mut answer = Answer::begin();
    for note in notes {
        answer.write(output::escaped(note).as_bytes());
        answer.write(b"\n");
    }
    let mut figures = Vec::new();
    // Writing to memory cannot fail.
    let _ = text::write(stages, name, &mut figures);
    answer.write(&figures);
    answer.finish()
}

fn capture(args: &Args, inputs: &Inputs) -> Result<(), Failure> {
    let mut compatible = Compatible::new(args);
    if compatible.0.is_none() {
        let (stages, warnings) = pipeline::analyse(inputs)?;
        if stages.devices().is_empty() {
            sources::no_capture(&warnings)?;
        }
        return print(&stages, &text::name, &output::sentences(&warnings));
    }
    let order = if args.btt_compat { Order::Blkparse } else { Order::Time };
    let mut stages = Stages::default();
    let mut any = false;
    let capture = pipeline::run(sources::capture(inputs, order)?, |start, batch| {
        any |= !batch.records.is_empty();
        compatible.take(batch, start.genesis);
        if !args.btt_compat {
            stages.take(batch, start.genesis);
        }
    });
    if !any {
        sources::no_capture(capture.warnings())?;
    }
    compatible.finish(args)?;
    if args.btt_compat {
        output::warnings(capture.warnings());
        return Ok(());
    }
    stages.finish();
    print(&stages, &text::name, &output::sentences(capture.warnings()))
}

/// Takes rows: single events where there are any, else requests.
struct Rows {
    compatible: Compatible,
    replay: Replay,
    events: Stages,
    requests: Stages,
}

impl Rows {
    fn new(args: &Args) -> Rows {
        let (events, requests) = (Stages::default(), Stages::default());
        Rows { compatible: Compatible::new(args), replay: Replay::default(), events, requests }
    }

    fn add(&mut self, batch: &source::Batch, names: &Names) {
        // Once there are events, they tell all that requests do, and more.
        if self.replay.is_empty() {
            self.requests.take_requests(batch, names);
        }
        let Rows { compatible, replay, events, .. } = self;
        follow(compatible, events, replay.take(&batch.events, names));
    }

    /// Prints what there was; `without` says why there were no events, where they are needed.
    fn finish(
        mut self,
        args: &Args,
        names: &Names,
        environment: &Environment,
        without: impl FnOnce() -> Failure,
    ) -> Result<(), Failure> {
        let Rows { compatible, replay, events, .. } = &mut self;
        follow(compatible, events, replay.finish(names));
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
            device.map_or_else(|| text::name(number), |device| device.name.clone())
        };
        let mut notes = output::loss_sentences(&environment.losses);
        if self.replay.is_empty() {
            notes.push("from requests: bios, plugs and unplugs are only in single events".into());
            self.requests.finish();
            return print(&self.requests, &name, &notes);
        }
        self.events.finish();
        print(&self.events, &name, &notes)
    }
}

fn follow(compatible: &mut Compatible, stages: &mut Stages, replayed: Replayed<'_>) {
    compatible.take(replayed.batch, replayed.genesis);
    stages.take(replayed.batch, replayed.genesis);
}

fn recording(args: &Args, path: &Path) -> Result<(), Failure> {
    let mut reader = Reader::open(path)?;
    let mut rows = Rows::new(args);
    let (mut names, mut batch) = (Names::new(), source::Batch::default());
    loop {
        batch.clear();
        let progress = reader.fill(&mut batch, &mut names)?;
        rows.add(&batch, &names);
        if progress == Progress::Done {
            break;
        }
    }
    rows.finish(args, &names, reader.environment(), || no_events(path))
}

impl Sink for Rows {
    fn take(&mut self, batch: &source::Batch, names: &Names) -> Result<(), Failure> {
        self.add(batch, names);
        Ok(())
    }
}

fn live(args: &Args) -> Result<(), Failure> {
    let options = live::Options {
        devices: args.devices.clone(),
        events: Compatible::new(args).0.is_some(),
        ..live::Options::default()
    };
    let until = Until { time: Some(args.source.time), command: None };
    let watched = watch(&options, &Filter::default(), until, |_| Ok(Rows::new(args)))?;
    let none = || Failure::new("failed to find events: the watch saw none", None);
    watched.sink.finish(args, &watched.names, &watched.environment, none)
}
