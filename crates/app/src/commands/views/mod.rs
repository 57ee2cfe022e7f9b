//! The views of intervals: which pass gives the figures of each, and what a live watch needs for it.

pub mod stacks;

use crate::args::interval::{Cache, Files, Intervals, Latency, Proc, Stat, Waits};
use crate::failure::Failure;
use crate::intervals::show;
use iowhy_capture::live::Options;
use iowhy_capture::sampler::Sampling;
use iowhy_core::analysis::files::Tally;
use iowhy_core::analysis::histograms::Histograms;
use iowhy_core::analysis::waits::groups::WaitGroups;
use iowhy_core::analysis::{Interval, Summarizer};
use iowhy_views::interval::{BLOCKED, CACHE, FILES, LATENCY, PROC, STAT};
use std::time::Duration;

/// Requests, and the counters of the machine as often as intervals ask for: no stacks, no waits.
fn requests(intervals: &Intervals) -> Options {
    Options { sampling: Some(sampling(intervals, false)), ..Options::default() }
}

fn sampling(intervals: &Intervals, processes: bool) -> Sampling {
    let asked = intervals.given().ok().and_then(|given| given.wanted.every_ns);
    let most = Sampling::default().every;
    let every = asked.map_or(most, Duration::from_nanos);
    // An interval that is no whole number of seconds ends between two looks.
    let is_whole = every.subsec_nanos() == 0;
    let every = if is_whole { most } else { every };
    Sampling { every, processes, ..Sampling::default() }
}

/// `iowhy stat`.
pub fn stat(args: &Stat) -> Result<(), Failure> {
    show(&args.intervals, requests(&args.intervals), Summarizer::new, &STAT)
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
    show(&args.intervals, Options::default(), |_| like, &LATENCY)
}

/// `iowhy proc`.
pub fn proc(args: &Proc) -> Result<(), Failure> {
    let sampling = Some(sampling(&args.intervals, true));
    let options = Options { sampling, waits: true, ..Options::default() };
    show(&args.intervals, options, Summarizer::new, &PROC)
}

/// `iowhy cache`.
pub fn cache(args: &Cache) -> Result<(), Failure> {
    let sampling = Sampling { page_cache: args.page_cache, ..sampling(&args.intervals, true) };
    let options = Options { sampling: Some(sampling), ..Options::default() };
    show(&args.intervals, options, Summarizer::new, &CACHE)
}

/// `iowhy waits`.
pub fn waits(args: &Waits) -> Result<(), Failure> {
    let like = WaitGroups::new(args.by.into());
    let options = Options { waits: true, ..Options::default() };
    show(&args.intervals, options, |_| like, &BLOCKED)
}
