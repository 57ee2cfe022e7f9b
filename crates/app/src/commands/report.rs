//! `iowhy report`: the same screen, from a recording.

use crate::args::{Report, Show};
use crate::failure::Failure;
use crate::output;
use iowhy_core::analysis::{Summarizer, Summary};
use iowhy_core::model::Names;
use iowhy_core::recording::Reader;
use iowhy_core::source::{Batch, Progress, Source};

/// Reads the recording and shows it.
pub fn run(args: &Report) -> Result<(), Failure> {
    let mut reader = Reader::open(&args.recording)?;
    let filter = args.only.filter();
    let mut names = Names::new();
    let mut batch = Batch::default();
    let mut summarizer = Summarizer::new(reader.environment());
    loop {
        batch.clear();
        let progress = reader.fill(&mut batch, &mut names)?;
        batch.retain(&filter, &names);
        summarizer.add(&batch, &names);
        if progress == Progress::Done {
            break;
        }
    }
    show(&summarizer.finish(reader.environment(), &names), &args.show)
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
