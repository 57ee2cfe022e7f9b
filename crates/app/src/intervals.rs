//! Drives the views of intervals: a screen whenever an interval is over, live or from a source.
//!
//! What does not belong here: what the screens show (see [`iowhy_views::interval`]).

use crate::args::interval::{GivenWords, Intervals};
use crate::failure::{Failure, USAGE};
use crate::output::{self, PipedOutput};
use crate::own;
use crate::sources;
use crate::unprivileged;
use crate::watching::{Until, WatchSink, watch};
use iowhy_analysis::intervals::{Cutter, EndedInterval, Pass};
use iowhy_capture::live::WatchOptions;
use iowhy_model::figures::counted;
use iowhy_model::source::{Batch, Source};
use iowhy_model::{Environment, Filter, Names};
use iowhy_views::interval::{IntervalView, line, render};
use iowhy_views::style::Style;
use std::time::Duration;

/// Length of a watch without an interval.
const WHOLE: Duration = Duration::from_secs(10);
/// Default number of rows of a table.
const ROWS: usize = 10;
/// Time after the end of an interval in which a recording may still have rows of it.
const LATE_NS: u64 = 1_000_000_000;

/// Shows a view whose figures a pass like `like` computes; `options` are those of a live watch.
pub fn show<P: Pass>(
    args: &Intervals,
    options: WatchOptions,
    like: impl FnOnce(&Environment) -> P,
    view: &'static IntervalView<P::Figures>,
) -> Result<(), Failure> {
    let given = given(args, view.name)?;
    let printer = IntervalPrinter::new(args, view);
    match given.paths.is_empty() {
        true => live(args, &given, options, like, printer),
        false => recorded(args, &given, like, printer),
    }
}

/// Parses the words of the command line.
pub fn given(args: &Intervals, view: &str) -> Result<GivenWords, Failure> {
    args.given().map_err(|cause| {
        let ways =
            ["", " 1", " 1 10", " RECORDING 1"].map(|words| format!("`iowhy {view}{words}`"));
        let hint = ways.join(", ");
        let message = format!("failed to read the arguments: {cause}");
        Failure { code: USAGE, ..Failure::new(message, Some(hint)) }
    })
}

/// Writes intervals to standard output.
struct IntervalPrinter<F: 'static> {
    view: &'static IntervalView<F>,
    style: Style,
    json: bool,
    filter: Filter,
    answer: PipedOutput,
}

impl<F> IntervalPrinter<F> {
    fn new(args: &Intervals, view: &'static IntervalView<F>) -> IntervalPrinter<F> {
        let style = output::style();
        let width = if args.wide { usize::MAX / 2 } else { style.width };
        IntervalPrinter {
            view,
            style: Style { width, rows: ROWS, ..style },
            json: args.json,
            filter: args.only.filter(),
            answer: PipedOutput::begin(),
        }
    }

    /// Prints an interval; an error if the reader has gone.
    fn print(&mut self, mut interval: EndedInterval<F>) -> Result<(), Failure> {
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

/// Receives the rows of a watch.
struct Cutting<P: Pass>
where
    P::Figures: 'static,
{
    cutter: Cutter<P>,
    printer: IntervalPrinter<P::Figures>,
    environment: Environment,
    seen_ns: u64,
}

impl<P: Pass> WatchSink for Cutting<P> {
    const PRINTS: bool = true;

    fn take(&mut self, batch: &Batch, names: &Names) -> Result<(), Failure> {
        self.cutter.add(&own::shown(batch, names), &self.environment, names);
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
    given: &GivenWords,
    options: WatchOptions,
    like: impl FnOnce(&Environment) -> P,
    printer: IntervalPrinter<P::Figures>,
) -> Result<(), Failure> {
    // With a count the last interval ends the watch.
    let time = given.wanted.every_ns.is_none().then_some(WHOLE);
    let options = WatchOptions { devices: args.only.devices.clone(), ..options };
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
        // The error is not needed: the final write reports it.
        let _ = cutter.finish(&watched.environment, &watched.names, &mut print);
    }
    printer.answer.finish()?;
    report_late(late);
    output::losses(&watched.environment.losses);
    output::limits(&watched.environment);
    Ok(())
}

fn recorded<P: Pass>(
    args: &Intervals,
    given: &GivenWords,
    like: impl FnOnce(&Environment) -> P,
    mut printer: IntervalPrinter<P::Figures>,
) -> Result<(), Failure> {
    let mut source = sources::open(&given.paths, false)?.quietly();
    let cutter = Cutter::new(like(source.environment()), given.wanted, source.environment());
    let mut cutter = cutter.leaving_out_empty();
    let filter = args.only.filter();
    let mut print = |interval| printer.print(interval);
    let mut unread = false;
    let (names, silent) = sources::read_while(&mut source, &filter, |batch, names, source| {
        cutter.add(&own::shown(batch, names), source.environment(), names);
        if source.is_settled() || cutter.is_crowded() {
            // Between two rounds nothing older comes; within one only what must make room is shown.
            let until_ns = match source.is_settled() {
                true => cutter.latest_ns().saturating_sub(LATE_NS),
                false => 0,
            };
            let closed = cutter.close_until(until_ns, source.environment(), names, &mut print);
            unread = closed.is_err();
        }
        Ok(!unread && !cutter.is_done())
    })?;
    let late = cutter.late();
    let mut left_out = cutter.left_out();
    if !unread {
        left_out = cutter.finish(source.environment(), &names, &mut print).unwrap_or(left_out);
    }
    printer.answer.finish()?;
    report_late(late);
    if left_out > 0 {
        output::note(&counted(left_out, "intervals without a row are not shown"));
    }
    output::losses(&source.environment().losses);
    output::limits(source.environment());
    silent.sentences().for_each(|said| output::note(&said));
    Ok(())
}

/// Reports rows that are not in their own interval.
fn report_late(late: u64) {
    if late > 0 {
        let what = "rows arrived after their interval was shown, and count in the next one";
        output::note(&counted(late, what));
    }
}
