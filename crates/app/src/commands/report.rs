//! `iowhy report`: the same screen, from a recording or a capture.

use crate::args::{Report, Show};
use crate::failure::Failure;
use crate::output;
use crate::sources;
use iowhy_core::analysis::{Summarizer, Summary};
use iowhy_core::model::filter::silent_waits;
use iowhy_core::source::Source;

/// Reads the source and shows it.
pub fn run(args: &Report) -> Result<(), Failure> {
    let mut source = sources::open(&args.source.paths, false)?;
    let mut summarizer = Summarizer::new(source.environment());
    let (names, silent) =
        sources::read_all(&mut source, &args.only.filter(), |batch, names, _| {
            summarizer.add(batch, names);
            Ok(())
        })?;
    let mut environment = source.environment().clone();
    let own = args.only.to_string();
    if !own.is_empty() {
        environment.filter = [environment.filter.as_str(), &own].join(" ").trim().to_owned();
    }
    environment.limits.extend(silent_waits(silent));
    show(&summarizer.finish(&environment, &names), &args.show)
}

/// Prints a summary as the user asked for it.
pub fn show(summary: &Summary, show: &Show) -> Result<(), Failure> {
    let text = if show.json {
        iowhy_views::json::render(summary)
    } else {
        iowhy_views::text::render(summary, &output::style())
    };
    output::print(&text)
}
