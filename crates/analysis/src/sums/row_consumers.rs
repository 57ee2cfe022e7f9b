//! Consumers of rows: a pass, of which an interval view runs one for each interval, and a part of
//! the analysis that may have a thread of its own.
//!
//! What does not belong here: who gives rows (`intervals`, `pass`).

use iowhy_model::source::Batch;
use iowhy_model::{Environment, Names};

/// One pass from batches to figures. An interval view runs one for each interval.
pub trait Pass: Sized {
    /// Its result.
    type Figures;

    /// A pass like this one, without rows, for `environment`.
    fn begin(&self, environment: &Environment) -> Self;

    /// Adds rows, whose texts are in `names`.
    fn add(&mut self, batch: &Batch, names: &Names);

    /// The figures of all rows that were added.
    fn finish(self, environment: &Environment, names: &Names) -> Self::Figures;
}

/// A consumer of all batches of a source.
pub(crate) trait BatchConsumer: Send + 'static {
    /// Takes a batch, whose texts are in `names`: the same table for every batch.
    fn take(&mut self, batch: &Batch, names: &Names);
}
