//! The views of intervals: which pass computes the figures of each, and what a live watch has to
//! collect.

pub mod stacks;

use crate::args::interval::{Cache, FilesArgs, Intervals, LatencyArgs, Proc, StatArgs, WaitsArgs};
use crate::failure::Failure;
use crate::intervals::show;
use iowhy_analysis::files::ActivityTally;
use iowhy_analysis::histograms::Histograms;
use iowhy_analysis::waits::groups::WaitGroups;
use iowhy_analysis::{Interval, Summarizer};
use iowhy_capture::budget::DEFAULT_PERCENT;
use iowhy_capture::live::WatchOptions;
use iowhy_capture::sampler::Sampling;
use iowhy_views::interval::{BLOCKED, CACHE, FILES, LATENCY, PROC, STAT};
use std::time::Duration;

/// Requests, and the counters of the machine as often as intervals ask for: no stacks, no waits.
fn requests(intervals: &Intervals) -> WatchOptions {
    WatchOptions { sampling: Some(sampling(intervals, false)), ..WatchOptions::default() }
}

fn sampling(intervals: &Intervals, processes: bool) -> Sampling {
    let asked = intervals.given().ok().and_then(|given| given.wanted.every_ns);
    let most = Sampling::default().every;
    let every = asked.map_or(most, Duration::from_nanos);
    // An interval that is not a whole number of seconds ends between two polls.
    let is_whole = every.subsec_nanos() == 0;
    let every = if is_whole { most } else { every };
    Sampling { every, processes, ..Sampling::default() }
}

/// `iowhy stat`.
pub fn stat(args: &StatArgs) -> Result<(), Failure> {
    show(&args.intervals, requests(&args.intervals), Summarizer::new, &STAT)
}

/// `iowhy files`.
pub fn files(args: &FilesArgs) -> Result<(), Failure> {
    let options =
        WatchOptions { files: true, budget: Some(DEFAULT_PERCENT), ..WatchOptions::default() };
    show(&args.intervals, options, |_| ActivityTally::default(), &FILES)
}

/// `iowhy latency`.
pub fn latency(args: &LatencyArgs) -> Result<(), Failure> {
    let interval = if args.queued { Interval::Q2c } else { Interval::D2c };
    let like = Histograms::new(args.by(), interval);
    show(&args.intervals, WatchOptions::default(), |_| like, &LATENCY)
}

/// `iowhy proc`.
pub fn proc(args: &Proc) -> Result<(), Failure> {
    let sampling = Some(sampling(&args.intervals, true));
    let options = WatchOptions { sampling, waits: true, ..WatchOptions::default() };
    show(&args.intervals, options, Summarizer::new, &PROC)
}

/// `iowhy cache`.
pub fn cache(args: &Cache) -> Result<(), Failure> {
    let sampling = Sampling { page_cache: args.page_cache, ..sampling(&args.intervals, true) };
    let options = WatchOptions { sampling: Some(sampling), ..WatchOptions::default() };
    show(&args.intervals, options, Summarizer::new, &CACHE)
}

/// `iowhy waits`.
pub fn waits(args: &WaitsArgs) -> Result<(), Failure> {
    let like = WaitGroups::new(args.by.into());
    let options = WatchOptions { waits: true, ..WatchOptions::default() };
    show(&args.intervals, options, |_| like, &BLOCKED)
}
