//! `iowhy`: watch for a while and show the first screen.

use crate::args::{Show, Watch};
use crate::failure::Failure;
use crate::watching::{Sink, Until, watch};
use iowhy_core::analysis::{Filtered, Summarizer};
use iowhy_core::model::{Environment, Filter, Names};
use iowhy_core::source::Batch;

impl Sink for Summarizer {
    fn take(&mut self, batch: &Batch, names: &Names) -> Result<(), Failure> {
        self.add(batch, names);
        Ok(())
    }
}

/// Takes all rows of a watch of which a part is shown.
struct Parts {
    filtered: Filtered,
    /// When the watch ended; 0 while it runs.
    end_ns: u64,
}

impl Sink for Parts {
    fn take(&mut self, batch: &Batch, names: &Names) -> Result<(), Failure> {
        self.filtered.add(batch, names, self.end_ns);
        Ok(())
    }

    fn ended(&mut self, end_ns: u64) {
        self.end_ns = end_ns;
    }
}

/// Watches and shows. Where nobody may, shows what /proc gives and fails all the same.
pub fn run(args: &Watch, show: &Show) -> Result<(), Failure> {
    let options = args.beside.options(&args.only);
    let until = Until { time: Some(args.time), command: None };
    let begin = |now: &Environment| {
        Ok(Parts { filtered: Filtered::new(now, &args.only.filter()), end_ns: 0 })
    };
    let watched = watch(&options, &Filter::default(), until, begin)
        .map_err(|failure| super::unprivileged::instead(failure, args.time, show.json.is_some()))?;
    let summaries = watched.sink.filtered.finish(&watched.environment, &watched.names);
    super::report::show(&summaries, None, show)
}
