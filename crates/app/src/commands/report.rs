//! `iowhy report`: the same screen, from a recording or a capture.

use crate::args::{Only, Report, Show};
use crate::failure::Failure;
use crate::output;
use crate::sources;
use iowhy_core::analysis::{Summarizer, Summary};
use iowhy_core::diagnosis::diagnose;
use iowhy_core::source::Source;
use std::path::PathBuf;

/// Reads the source and shows it.
pub fn run(args: &Report) -> Result<(), Failure> {
    let source = sources::words(&args.source.paths);
    show(&read(&args.source.paths, &args.only)?, Some(&source), &args.show)
}

/// The summary of what `only` keeps of a source.
pub fn read(paths: &[PathBuf], only: &Only) -> Result<Summary, Failure> {
    let mut source = sources::open(paths, false)?;
    let mut summarizer = Summarizer::new(source.environment());
    let (names, silent) = sources::read_all(&mut source, &only.filter(), |batch, names, _| {
        summarizer.add(batch, names);
        Ok(())
    })?;
    let mut environment = source.environment().clone();
    let own = only.to_string();
    if !own.is_empty() {
        environment.filter = [environment.filter.as_str(), &own].join(" ").trim().to_owned();
    }
    environment.limits.extend(silent.sentences());
    Ok(summarizer.finish(&environment, &names))
}

/// Prints a summary as the user asked for it; `source` is of what, on a command line.
pub fn show(summary: &Summary, source: Option<&str>, show: &Show) -> Result<(), Failure> {
    let diagnosis = diagnose(summary);
    let text = if show.json {
        iowhy_views::json::render(summary, &diagnosis)
    } else {
        iowhy_views::text::render(summary, &diagnosis, source, &output::style())
    };
    output::print(&text)
}
