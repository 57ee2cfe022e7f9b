//! `iowhy snoop`: a line for each request, live or from a source.

use crate::args::snoop::Snoop;
use crate::failure::Failure;
use crate::output::{self, Answer};
use crate::sources;
use crate::watching::{Sink, Until, watch};
use iowhy_capture::live::Options;
use iowhy_core::model::{Environment, Names};
use iowhy_core::source::{Batch, Source};
use iowhy_views::interval::snoop::{Lines, json_line};
use iowhy_views::style::Style;

/// Lines on their way to standard output.
struct Printer {
    lines: Lines,
    json: bool,
    answer: Answer,
}

impl Printer {
    fn begin(args: &Snoop, environment: &Environment) -> Printer {
        let style = output::style();
        let width = if args.wide { usize::MAX / 2 } else { style.width };
        let queued = args.queued || args.wide;
        let lines = Lines::new(Style { width, ..style }, queued, environment.start_ns);
        let mut answer = Answer::begin();
        if !args.json {
            lines.left_out().iter().for_each(|said| output::note(&format!("note: {said}")));
            answer.write(lines.heading().as_bytes());
        }
        Printer { lines, json: args.json, answer }
    }

    /// Prints the requests of a batch; false where nobody reads any more.
    fn print(&mut self, batch: &Batch, names: &Names) -> bool {
        let mut read = true;
        for (request, parts) in batch.requests_with_parts() {
            let line = match self.json {
                true => json_line(request, parts, names),
                false => self.lines.line(request, parts, names),
            };
            read = self.answer.write(line.as_bytes());
        }
        read && self.answer.flush()
    }

    /// Ends the answer; says beside it what it had no room for.
    fn finish(self) -> Result<(), Failure> {
        self.answer.finish()?;
        self.lines.legend().iter().for_each(|said| output::note(&format!("note: {said}")));
        Ok(())
    }
}

impl Sink for Printer {
    const PRINTS: bool = true;

    fn take(&mut self, batch: &Batch, names: &Names) -> Result<(), Failure> {
        let unread = || Failure::new("failed to print requests", None);
        self.print(batch, names).then_some(()).ok_or_else(unread)
    }
}

/// Prints what was asked for.
pub fn run(args: &Snoop) -> Result<(), Failure> {
    match args.paths.is_empty() {
        true => live(args),
        false => recorded(args),
    }
}

fn live(args: &Snoop) -> Result<(), Failure> {
    let options = Options { devices: args.only.devices.clone(), ..Options::default() };
    let until = Until { time: args.time, command: None };
    let filter = args.only.filter();
    let watched = watch(&options, &filter, until, |now| Ok(Printer::begin(args, now)))?;
    watched.sink.finish()?;
    output::losses(&watched.environment.losses);
    Ok(())
}

fn recorded(args: &Snoop) -> Result<(), Failure> {
    let mut source = sources::open(&args.paths, false)?;
    let mut printer = Printer::begin(args, source.environment());
    let filter = args.only.filter();
    sources::read_while(&mut source, &filter, |batch, names, _| Ok(printer.print(batch, names)))?;
    printer.finish()?;
    output::losses(&source.environment().losses);
    Ok(())
}
