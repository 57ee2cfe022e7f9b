//! `iowhy`: watch for a while and show the first screen.

use super::page::NewPage;
use crate::args::{Show, WatchArgs};
use crate::failure::Failure;
use crate::watching::{Until, WatchSink, watch};
use iowhy_core::analysis::{Filtered, Summarizer};
use iowhy_core::model::{Environment, Filter, Names};
use iowhy_core::source::Batch;

impl WatchSink for Summarizer {
    fn take(&mut self, batch: &Batch, names: &Names) -> Result<(), Failure> {
        self.add(batch, names);
        Ok(())
    }
}

/// Takes all rows of a watch of which only a part is shown.
struct Parts {
    filtered: Filtered,
    /// When the watch ended; 0 while it runs.
    end_ns: u64,
}

impl WatchSink for Parts {
    fn take(&mut self, batch: &Batch, names: &Names) -> Result<(), Failure> {
        self.filtered.add(batch, names, self.end_ns);
        Ok(())
    }

    fn ended(&mut self, end_ns: u64) {
        self.end_ns = end_ns;
    }
}

/// Watches and shows. If that is not possible, shows /proc's counters and fails nevertheless.
pub fn run(args: &WatchArgs, show: &Show) -> Result<(), Failure> {
    let options = args.collect.options(&args.only);
    let until = Until { time: Some(args.time), command: None };
    let page = show.html.as_deref().map(NewPage::check).transpose()?;
    let begin = |now: &Environment| {
        let filtered = Filtered::new(now, &args.only.filter());
        let filtered = if page.is_some() { filtered.with_charts(now) } else { filtered };
        Ok(Parts { filtered, end_ns: 0 })
    };
    let watched = watch(&options, &Filter::default(), until, begin).map_err(|failure| {
        crate::unprivileged::instead(failure, args.time, show.json().is_some())
    })?;
    let summaries = watched.sink.filtered.finish(&watched.environment, &watched.names);
    match page {
        Some(page) => page.write(&summaries, &watched.names, None),
        None => super::report::show(&summaries, None, show),
    }
}
