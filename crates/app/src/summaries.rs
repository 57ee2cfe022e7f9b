//! A source read to its end: its summaries.
//!
//! What does not belong here: which sources there are (see [`crate::sources`]), and what is shown
//! of a summary (see [`crate::commands`]).

use crate::args::Only;
use crate::failure::Failure;
use crate::sources;
use iowhy_analysis::{Filtered, Summaries};
use iowhy_model::source::Source;
use iowhy_model::{Filter, Names};
use std::path::PathBuf;

/// The summaries of a source.
pub struct ReadSource {
    /// The summaries.
    pub summaries: Summaries,
    /// The texts of its rows.
    pub names: Names,
}

/// The summary that `only` selects from a source, and the one that the diagnosis uses.
pub fn read(paths: &[PathBuf], only: &Only) -> Result<Summaries, Failure> {
    Ok(read_with(paths, only, false)?.summaries)
}

/// Reads both summaries, and with `charts` also the data of charts.
pub fn read_with(paths: &[PathBuf], only: &Only, charts: bool) -> Result<ReadSource, Failure> {
    let mut source = sources::open(paths, false)?;
    let filter = only.filter();
    source.require_devices(&filter, false)?;
    let mut filtered = Filtered::new(source.environment(), &filter);
    if charts {
        filtered = filtered.with_charts(source.environment());
    }
    let mut filtered = filtered.on_threads();
    let all = Filter::default();
    let (names, _) = sources::read_all(&mut source, &all, |batch, names, environment| {
        filtered.add(batch, names, environment.end_ns);
        Ok(())
    })?;
    source.require_devices(&filter, true)?;
    let summaries = filtered.finish(source.environment(), &names);
    Ok(ReadSource { summaries, names })
}
