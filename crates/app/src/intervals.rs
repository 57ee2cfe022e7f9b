//! Drives the views of intervals: a screen whenever an interval is over, live or from a source.
//!
//! What does not belong here: what the screens show (see [`iowhy_views::interval`]).

use crate::args::interval::{Given, Intervals};
use crate::commands::unprivileged;
use crate::failure::{Failure, USAGE};
use crate::output::{self, Answer};
use crate::sources;
use crate::watching::{Sink, Until, watch};
use iowhy_capture::live::Options;
use iowhy_core::analysis::intervals::{Cutter, Interval, Pass};
use iowhy_core::figures::counted;
use iowhy_core::model::{Environment, Filter, Names};
use iowhy_core::source::{Batch, Source};
use iowhy_views::interval::{View, line, render};
use iowhy_views::style::Style;
use std::time::Duration;

/// How long to watch without an interval.
const WHOLE: Duration = Duration::from_secs(10);
/// Rows of tables whose length the view does not say.
const ROWS: usize = 10;
/// How long after the end of an interval its last rows may stand in a recording.
const LATE_NS: u64 = 1_000_000_000;

/// Shows a view whose figures a pass like `like` gives; `options` says what a live watch needs.
pub fn show<P: Pass>(
    args: &Intervals,
    options: Options,
    like: impl FnOnce(&Environment) -> P,
    view: &'static View<P::Figures>,
) -> Result<(), Failure> {
    let given = given(args, view.name)?;
    let printer = Printer::new(args, view);
    match given.paths.is_empty() {
        true => live(args, &given, options, like, printer),
        false => recorded(args, &given, like, printer),
    }
}

/// What the words of the command line say.
pub fn given(args: &Intervals, view: &str) -> Result<Given, Failure> {
    args.given().map_err(|cause| {
        let ways =
            ["", " 1", " 1 10", " RECORDING 1"].map(|words| format!("`iowhy {view}{words}`"));
        let hint = ways.join(", ");
        let message = format!("failed to read the arguments: {cause}");
        Failure { code: USAGE, ..Failure::new(message, Some(hint)) }
    })
}

/// Intervals on their way to standard output.
struct Printer<F: 'static> {
    view: &'static View<F>,
    style: Style,
    json: bool,
    filter: Filter,
    answer: Answer,
}

impl<F> Printer<F> {
    fn new(args: &Intervals, view: &'static View<F>) -> Printer<F> {
        let style = output::style();
        let width = if args.wide { usize::MAX / 2 } else { style.width };
        Printer {
            view,
            style: Style { width, rows: ROWS, ..style },
            json: args.json,
            filter: args.only.filter(),
            answer: Answer::begin(),
        }
    }

    /// Prints an interval; an error where nobody reads any more.
    fn print(&mut self, mut interval: Interval<F>) -> Result<(), Failure> {
        interval.environment.keep(&self.filter);
        let text = match self.json {
            true => line(self.view, &interval),
            false => render(self.view, &interval, &self.style),
        };
        let read = self.answer.write(text.as_bytes()) && self.answer.flush();
        let unread = || Failure::new("failed to print an interval", None);
        read.then_some(()).ok_or_else(unread)
    }
}

/// What takes the rows of a watch.
struct Cutting<P: Pass>
where
    P::Figures: 'static,
{
    cutter: Cutter<P>,
    printer: Printer<P::Figures>,
    environment: Environment,
    seen_ns: u64,
}

impl<P: Pass> Sink for Cutting<P> {
    const PRINTS: bool = true;

    fn take(&mut self, batch: &Batch, names: &Names) -> Result<(), Failure> {
        self.cutter.add(batch, &self.environment, names);
        Ok(())
    }

    fn note(&mut self, now: &Environment) {
        self.environment.clone_from(now);
    }

    fn is_content(&self) -> bool {
        self.cutter.is_over(self.seen_ns)
    }

    fn seen(&mut self, until_ns: u64, names: &Names) -> Result<(), Failure> {
        self.seen_ns = until_ns;
        let printer = &mut self.printer;
        let mut print = |interval| printer.print(interval);
        self.cutter.close_until(until_ns, &self.environment, names, &mut print)
    }
}

fn live<P: Pass>(
    args: &Intervals,
    given: &Given,
    options: Options,
    like: impl FnOnce(&Environment) -> P,
    printer: Printer<P::Figures>,
) -> Result<(), Failure> {
    // With a count the last interval ends the watch.
    let time = given.wanted.every_ns.is_none().then_some(WHOLE);
    let options = Options { devices: args.only.devices.clone(), ..options };
    let until = Until { time, command: None };
    let watched = watch(&options, &args.only.filter(), until, |now| {
        let cutter = Cutter::new(like(now), given.wanted, now);
        Ok(Cutting { cutter, printer, environment: now.clone(), seen_ns: 0 })
    })
    .map_err(|failure| {
        let interval = given.wanted.every_ns.map_or(WHOLE, Duration::from_nanos);
        unprivileged::instead(failure, interval, args.json)
    })?;
    let Cutting { cutter, mut printer, .. } = watched.sink;
    let late = cutter.late();
    if watched.failed.is_none() {
        let mut print = |interval| printer.print(interval);
        // Whatever it fails with, the answer's end says it better.
        let _ = cutter.finish(&watched.environment, &watched.names, &mut print);
    }
    printer.answer.finish()?;
    tell_late(late);
    output::losses(&watched.environment.losses);
    Ok(())
}

fn recorded<P: Pass>(
    args: &Intervals,
    given: &Given,
    like: impl FnOnce(&Environment) -> P,
    mut printer: Printer<P::Figures>,
) -> Result<(), Failure> {
    let mut source = sources::open(&given.paths, false)?;
    let mut cutter = Cutter::new(like(source.environment()), given.wanted, source.environment());
    let filter = args.only.filter();
    let mut print = |interval| printer.print(interval);
    let mut unread = false;
    let (names, silent) = sources::read_while(&mut source, &filter, |batch, names, source| {
        cutter.add(batch, source.environment(), names);
        if source.is_settled() {
            let until_ns = cutter.latest_ns().saturating_sub(LATE_NS);
            let closed = cutter.close_until(until_ns, source.environment(), names, &mut print);
            unread = closed.is_err();
        }
        Ok(!unread && !cutter.is_done())
    })?;
    let late = cutter.late();
    if !unread {
        let _ = cutter.finish(source.environment(), &names, &mut print);
    }
    printer.answer.finish()?;
    tell_late(late);
    output::losses(&source.environment().losses);
    silent.sentences().for_each(|said| output::note(&said));
    Ok(())
}

/// Says what does not stand in its own interval.
fn tell_late(late: u64) {
    if late > 0 {
        let what = "rows came after their interval was shown, and count in the next one";
        output::note(&counted(late, what));
    }
}
