//! A source whose rows and environment are redacted, whatever reads it.
//!
//! What does not belong here: what is replaced ([`super`]).

use super::Redactor;
use super::rows::MovedNames;
use iowhy_model::source::{Batch, Progress, Source};
use iowhy_model::{Environment, Names};

/// Redacts rows as they come; for sources that are not read through [`Source`] alone, as a live
/// watch.
#[derive(Debug)]
pub struct RedactedRows {
    moved: MovedNames,
}

impl RedactedRows {
    /// Rows under the redactor's key.
    pub fn new(redactor: Redactor) -> RedactedRows {
        RedactedRows { moved: MovedNames::new(redactor) }
    }

    /// Redacts every row of `batch`, whose texts are in `from`; afterwards they are in `to`.
    pub fn batch(&mut self, batch: &mut Batch, from: &Names, to: &mut Names) {
        self.moved.batch(batch, from, to);
    }

    /// The redacted environment.
    pub fn environment(&self, environment: &Environment) -> Environment {
        self.moved.redactor().environment(environment)
    }
}

/// A source with redacted names.
#[derive(Debug)]
pub struct RedactedSource<S> {
    inner: S,
    rows: RedactedRows,
    /// The texts of the original rows.
    names: Names,
    /// The environment that `redacted` was made of.
    original: Environment,
    redacted: Environment,
}

impl<S: Source> RedactedSource<S> {
    /// `inner` under the redactor's key. One that is redacted already gives the same rows.
    pub fn new(inner: S, redactor: Redactor) -> RedactedSource<S> {
        let rows = RedactedRows::new(redactor);
        let original = inner.environment().clone();
        let redacted = rows.environment(&original);
        RedactedSource { inner, rows, names: Names::new(), original, redacted }
    }

    /// The source behind it.
    pub fn inner(&self) -> &S {
        &self.inner
    }
}

impl<S: Source> Source for RedactedSource<S> {
    type Error = S::Error;

    fn fill(&mut self, batch: &mut Batch, names: &mut Names) -> Result<Progress, S::Error> {
        if self.original.redacted {
            return self.inner.fill(batch, names);
        }
        // Rows that are there already have their names in `names`.
        let mut own = Batch::default();
        let progress = self.inner.fill(&mut own, &mut self.names)?;
        self.rows.batch(&mut own, &self.names, names);
        batch.append(&mut own);
        if self.original != *self.inner.environment() {
            self.original.clone_from(self.inner.environment());
            self.redacted = self.rows.environment(&self.original);
        }
        if progress == Progress::Done {
            // Placeholders can be longer than what they stand for.
            let refused = names.refused().saturating_sub(self.names.refused());
            let meaning = "texts beyond what iowhy keeps";
            self.redacted.losses.add("names", refused, meaning, false);
        }
        Ok(progress)
    }

    fn environment(&self) -> &Environment {
        match self.original.redacted {
            true => self.inner.environment(),
            false => &self.redacted,
        }
    }
}
