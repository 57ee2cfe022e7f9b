//! `iowhy report`: the same screen, from a recording or a capture.

use crate::args::{Json, Only, Report, Show};
use crate::failure::Failure;
use crate::output;
use crate::sources;
use iowhy_core::analysis::{Filtered, Summaries};
use iowhy_core::diagnosis::diagnose;
use iowhy_core::model::Filter;
use iowhy_core::source::Source;
use std::path::PathBuf;

/// Reads the source and shows it.
pub fn run(args: &Report) -> Result<(), Failure> {
    let source = sources::words(&args.source.paths);
    show(&read(&args.source.paths, &args.only)?, Some(&source), &args.show)
}

/// The summaries of what `only` keeps of a source, and of what that is judged by.
pub fn read(paths: &[PathBuf], only: &Only) -> Result<Summaries, Failure> {
    let mut source = sources::open(paths, false)?;
    let filter = only.filter();
    source.require_devices(&filter, false)?;
    let mut filtered = Filtered::new(source.environment(), &filter);
    let all = Filter::default();
    let (names, _) = sources::read_all(&mut source, &all, |batch, names, environment| {
        filtered.add(batch, names, environment.end_ns);
        Ok(())
    })?;
    source.require_devices(&filter, true)?;
    Ok(filtered.finish(source.environment(), &names))
}

/// Prints a summary as the user asked for it; `source` is of what, on a command line.
pub fn show(summaries: &Summaries, source: Option<&str>, show: &Show) -> Result<(), Failure> {
    let (summary, diagnosis) = (&summaries.shown, diagnose(summaries.judged()));
    let text = match (show.json, show.full) {
        (Some(Json::Full), _) => iowhy_views::json::render(summary, &diagnosis),
        (Some(Json::Brief), _) => iowhy_views::brief::render(summary, &diagnosis),
        (None, true) => iowhy_views::text::render(summary, &diagnosis, source, &output::style()),
        (None, false) => iowhy_views::text::page(summary, &diagnosis, source, &output::style()),
    };
    output::print(&text)
}
