//! From any source to another program's format, in one pass and bounded memory.
//!
//! What does not belong here: what the formats look like (the modules beside this one), and where
//! the bytes go.

use iowhy_model::source::{Batch, Progress, Source};
use iowhy_model::{Environment, Filter, Losses, Names};
use std::io::{self, Write};

/// A reason why an export ended early.
#[derive(Debug, thiserror::Error)]
pub enum ExportError<E> {
    /// The source could not be read.
    #[error(transparent)]
    Source(E),
    /// The export could not be written.
    #[error("failed to write the export: {0}")]
    Write(io::Error),
}

/// The extent of an export: the rows in it, and those left out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Exported {
    /// Rows that are in the export.
    pub rows: u64,
    /// Requests of the source.
    pub requests: u64,
    /// Requests of the source that the filter keeps.
    pub kept_requests: u64,
    /// Rows, or details of them, that the format has no place for.
    pub left_out: Losses,
    /// Notes for users of the export, a sentence each.
    pub notes: Vec<String>,
}

/// A format that is being written. It receives every row once, in the source's order.
pub trait Exporter {
    /// Writes the part before the rows.
    ///
    /// # Errors
    /// Fails if `out` cannot be written to.
    fn begin(&mut self, environment: &Environment, out: &mut dyn Write) -> io::Result<()>;

    /// Takes rows.
    ///
    /// # Errors
    /// Fails if `out` cannot be written to.
    fn take(&mut self, batch: &Batch, names: &Names, out: &mut dyn Write) -> io::Result<()>;

    /// Writes the rows that were kept back, and returns the extent of the export.
    ///
    /// # Errors
    /// Fails if `out` cannot be written to.
    fn finish(&mut self, names: &Names, out: &mut dyn Write) -> io::Result<Exported>;
}

/// Writes the rows of `source` that `filter` keeps to `out`. A source that only waits for rows (a
/// live watch) is asked again and again, so it should be recorded first.
///
/// # Errors
/// Fails if the source cannot be read or `out` not written to.
pub fn export<S: Source>(
    source: &mut S,
    filter: &Filter,
    format: &mut dyn Exporter,
    out: &mut dyn Write,
) -> Result<Exported, ExportError<S::Error>> {
    let mut names = Names::new();
    let mut batch = Batch::default();
    let (mut requests, mut kept_requests) = (0, 0);
    let filter = filter.on_disks(&source.environment().devices);
    format.begin(source.environment(), out).map_err(ExportError::Write)?;
    loop {
        batch.clear();
        let progress = source.fill(&mut batch, &mut names).map_err(ExportError::Source)?;
        requests += batch.requests.len() as u64;
        batch.retain(&filter, &names, source.environment().end_ns);
        kept_requests += batch.requests.len() as u64;
        format.take(&batch, &names, out).map_err(ExportError::Write)?;
        if progress == Progress::Done {
            break;
        }
    }
    let exported = format.finish(&names, out).map_err(ExportError::Write)?;
    out.flush().map_err(ExportError::Write)?;
    Ok(Exported { requests, kept_requests, ..exported })
}
