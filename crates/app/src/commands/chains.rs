//! `iowhy chains`: threads that waited for threads that waited for storage.

use crate::args::chains::ChainsArgs;
use crate::failure::Failure;
use crate::output;
use crate::watching::{Until, watch};
use iowhy_analysis::{Summarizer, Summary};
use iowhy_capture::live::WatchOptions;

/// Stacks per second and CPU, as in a watch without flags.
const STACKS: u32 = 500;

/// Shows wait chains of a live watch or a source.
pub fn run(args: &ChainsArgs) -> Result<(), Failure> {
    let summary = match args.source.paths.as_slice() {
        [] => live(args)?,
        paths => crate::summaries::read(paths, &args.only)?.shown,
    };
    let text = match args.json {
        true => iowhy_views::json::chains(&summary),
        false => iowhy_views::text::chains(&summary, &output::style()),
    };
    output::print(&text)
}

fn live(args: &ChainsArgs) -> Result<Summary, Failure> {
    let options = WatchOptions {
        devices: args.only.devices.clone(),
        stacks_per_second: STACKS,
        waits: true,
        chains: true,
        ..WatchOptions::default()
    };
    let until = Until { time: Some(args.source.time), command: None };
    let filter = args.only.filter();
    let watched = watch(&options, &filter, until, |now| Ok(Summarizer::new(now)))?;
    let mut environment = watched.environment;
    environment.keep(&filter);
    Ok(watched.sink.finish(&environment, &watched.names))
}
