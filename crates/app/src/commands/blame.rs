//! `iowhy blame`: whose requests delayed whom, from a live watch or a recording.

use crate::args::Only;
use crate::args::blame::BlameArgs as Args;
use crate::failure::Failure;
use crate::output;
use crate::redaction;
use crate::sources;
use crate::watching::{Until, WatchSink, watch};
use iowhy_analysis::{Summarizer, Summary};
use iowhy_capture::live::WatchOptions;
use iowhy_model::source::{Batch, Source};
use iowhy_model::{Filter, Names};

/// Shows blame.
pub fn run(args: &Args) -> Result<(), Failure> {
    let only = Only { devices: args.devices.clone(), ..Only::default() };
    let waiters =
        || redaction::filter(Filter { processes: args.processes.clone(), ..Filter::default() });
    let summary = match args.source.paths.is_empty() {
        true => live(args, &only, waiters())?,
        false => recorded(args, &only, waiters)?,
    };
    if summary.ledger.is_none() || summary.blame.is_none() {
        return Err(without(&summary));
    }
    let text = match args.json {
        true => iowhy_views::json::blame(&summary),
        false => iowhy_views::text::blame::render(&summary, &output::style()),
    };
    output::print(&text)
}

/// Takes the waits of selected processes and all requests: the processes wait for those of others.
struct Waiters {
    summarizer: Summarizer,
    only: Filter,
}

impl Waiters {
    fn add(&mut self, batch: &Batch, names: &Names) {
        if self.only.is_empty() {
            return self.summarizer.add(batch, names);
        }
        let mut batch = batch.clone();
        batch.retain_waits(&self.only, names);
        self.summarizer.add(&batch, names);
    }
}

impl WatchSink for Waiters {
    fn take(&mut self, batch: &Batch, names: &Names) -> Result<(), Failure> {
        self.add(batch, names);
        Ok(())
    }
}

fn live(args: &Args, only: &Only, waiters: Filter) -> Result<Summary, Failure> {
    let options =
        WatchOptions { devices: args.devices.clone(), waits: true, ..WatchOptions::default() };
    let until = Until { time: Some(args.source.time), command: None };
    let watched = watch(&options, &only.filter(), until, |now| {
        Ok(Waiters { summarizer: Summarizer::new(now), only: waiters })
    })?;
    let mut environment = watched.environment;
    environment.keep(&only.filter());
    Ok(watched.sink.summarizer.finish(&environment, &watched.names))
}

fn recorded(
    args: &Args,
    only: &Only,
    waiters: impl FnOnce() -> Filter,
) -> Result<Summary, Failure> {
    let mut source = sources::open(&args.source.paths, false)?;
    let summarizer = Summarizer::new(source.environment());
    let mut waiters = Waiters { summarizer, only: waiters() };
    let (names, _) = sources::read_all(&mut source, &only.filter(), |batch, names, _| {
        waiters.add(batch, names);
        Ok(())
    })?;
    let mut environment = source.environment().clone();
    environment.keep(&only.filter());
    Ok(waiters.summarizer.finish(&environment, &names))
}

/// Returns the reason why there is no blame.
fn without(summary: &Summary) -> Failure {
    let filter = &summary.environment.filter;
    let (cause, hint) = match &summary.ledger {
        None => (
            "there are no waits",
            "no thread waited for storage, or waits were not collected (--no-waits)",
        ),
        Some(_) => {
            let cause = format!("requests of others are left out ({filter})");
            let hint = "record without a filter, or with --device only".to_owned();
            return Failure::new(format!("failed to compute blame: {cause}"), Some(hint));
        }
    };
    Failure::new(format!("failed to compute blame: {cause}"), Some(hint.to_owned()))
}
