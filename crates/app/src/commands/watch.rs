//! `iowhy`: watch for a while and show the first screen.

use crate::args::{Show, Watch};
use crate::failure::Failure;
use crate::watching::{Sink, Until, watch};
use iowhy_core::analysis::Summarizer;
use iowhy_core::model::{Environment, Names};
use iowhy_core::source::Batch;

impl Sink for Summarizer {
    fn take(&mut self, batch: &Batch, names: &Names) -> Result<(), Failure> {
        self.add(batch, names);
        Ok(())
    }
}

/// Watches and shows. Where nobody may, shows what /proc gives and fails all the same.
pub fn run(args: &Watch, show: &Show) -> Result<(), Failure> {
    let options = args.beside.options(&args.only);
    let until = Until { time: Some(args.time), command: None };
    let filter = args.only.filter();
    let watched = watch(&options, &filter, until, |now| Ok(Summarizer::new(now)))
        .map_err(|failure| super::unprivileged::instead(failure, args.time, show.json))?;
    let environment = Environment { filter: args.only.to_string(), ..watched.environment };
    let summary = watched.sink.finish(&environment, &watched.names);
    super::report::show(&summary, None, show)
}
