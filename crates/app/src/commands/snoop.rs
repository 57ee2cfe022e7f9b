//! `iowhy snoop`: a line for each request, live or from a source.

use crate::args::snoop::Snoop;
use crate::failure::Failure;
use crate::output::{self, PipedOutput};
use crate::own;
use crate::sources;
use crate::watching::{Until, WatchSink, watch};
use iowhy_capture::live::WatchOptions;
use iowhy_model::clock::WallClock;
use iowhy_model::source::{Batch, Source};
use iowhy_model::{Environment, Names};
use iowhy_views::interval::snoop::{Lines, json_line};
use iowhy_views::style::Style;

/// Writes lines to standard output.
struct SnoopPrinter {
    lines: Lines,
    json: bool,
    /// The wall clock, for JSON.
    clock: Option<WallClock>,
    answer: PipedOutput,
}

impl SnoopPrinter {
    fn begin(args: &Snoop, environment: &Environment) -> SnoopPrinter {
        let style = output::style();
        let width = if args.wide { usize::MAX / 2 } else { style.width };
        let queued = args.queued || args.wide;
        let lines = Lines::new(Style { width, ..style }, queued, args.monotonic, environment);
        let mut answer = PipedOutput::begin();
        if !args.json {
            let notes = lines.times().into_iter().chain(lines.left_out());
            notes.for_each(|note| output::note(&format!("note: {note}")));
            answer.write(lines.heading().as_bytes());
        }
        SnoopPrinter {
            lines,
            json: args.json,
            clock: WallClock::from_environment(environment),
            answer,
        }
    }

    /// Prints the requests of a batch; false if the reader has gone.
    fn print(&mut self, batch: &Batch, names: &Names) -> bool {
        let mut read = true;
        let rows = batch.requests_with_parts();
        for (request, parts) in rows.filter(|row| !own::is_hidden(row.0.process, names)) {
            let line = match self.json {
                true => json_line(request, parts, names, self.clock.as_ref()),
                false => self.lines.line(request, parts, names),
            };
            read = self.answer.write(line.as_bytes());
        }
        read && self.answer.flush()
    }

    /// Ends the output, with notes about what did not fit.
    fn finish(self) -> Result<(), Failure> {
        self.answer.finish()?;
        self.lines.legend().iter().for_each(|said| output::note(&format!("note: {said}")));
        Ok(())
    }
}

impl WatchSink for SnoopPrinter {
    const PRINTS: bool = true;

    fn take(&mut self, batch: &Batch, names: &Names) -> Result<(), Failure> {
        let unread = || Failure::new("failed to print requests", None);
        self.print(batch, names).then_some(()).ok_or_else(unread)
    }
}

/// Prints a line for each request.
pub fn run(args: &Snoop) -> Result<(), Failure> {
    match args.paths.is_empty() {
        true => live(args),
        false => recorded(args),
    }
}

fn live(args: &Snoop) -> Result<(), Failure> {
    let options = WatchOptions { devices: args.only.devices.clone(), ..WatchOptions::default() };
    let until = Until { time: args.time, command: None };
    let filter = args.only.filter();
    let watched = watch(&options, &filter, until, |now| Ok(SnoopPrinter::begin(args, now)))?;
    watched.sink.finish()?;
    output::losses(&watched.environment.losses);
    Ok(())
}

fn recorded(args: &Snoop) -> Result<(), Failure> {
    let mut source = sources::open(&args.paths, false)?.quietly();
    let mut printer = SnoopPrinter::begin(args, source.environment());
    let filter = args.only.filter();
    sources::read_while(&mut source, &filter, |batch, names, _| Ok(printer.print(batch, names)))?;
    printer.finish()?;
    output::losses(&source.environment().losses);
    Ok(())
}
