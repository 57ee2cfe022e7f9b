//! The views of intervals: which pass gives the figures of each, and what a live watch needs for it.

use crate::args::interval::{Files, Latency, Stat};
use crate::failure::Failure;
use crate::intervals::show;
use iowhy_capture::live::Options;
use iowhy_core::analysis::files::Tally;
use iowhy_core::analysis::histograms::Histograms;
use iowhy_core::analysis::{Interval, Summarizer};
use iowhy_views::interval::{FILES, LATENCY, STAT};

/// Requests alone: no stacks, no waits.
fn requests() -> Options {
    Options::default()
}

/// `iowhy stat`.
pub fn stat(args: &Stat) -> Result<(), Failure> {
    show(&args.intervals, requests(), Summarizer::new, &STAT)
}

/// `iowhy files`.
pub fn files(args: &Files) -> Result<(), Failure> {
    let options = Options { files: true, most_calls: Options::MOST_CALLS, ..Options::default() };
    show(&args.intervals, options, |_| Tally::default(), &FILES)
}

/// `iowhy latency`.
pub fn latency(args: &Latency) -> Result<(), Failure> {
    let interval = if args.queued { Interval::Q2c } else { Interval::D2c };
    let like = Histograms::new(args.by(), interval);
    show(&args.intervals, requests(), |_| like, &LATENCY)
}
