//! What tests of recordings share: reading one to its end.

use super::RecordingReader;
use crate::source::{Batch, Progress, Source};
use crate::{Environment, Names, Status};
use std::path::Path;

/// All rows of a source, with their texts and its environment.
pub struct Rows {
    pub batch: Batch,
    pub names: Names,
    pub environment: Environment,
}

impl Rows {
    /// The number of requests, and of those that were in flight at the end.
    pub fn requests(&self) -> (usize, usize) {
        let is_open = |status: Status| matches!(status, Status::InFlight);
        let open = self.batch.requests.iter().filter(|request| is_open(request.status));
        (self.batch.requests.len(), open.count())
    }
}

/// Reads a source to its end. Texts are numbered in the order of the rows, so that sources with the
/// same rows are equal.
pub fn rows<S: Source>(source: &mut S) -> Rows {
    let (mut all, mut read) = (Batch::default(), Names::new());
    let mut batch = Batch::default();
    while source.fill(&mut batch, &mut read).ok().unwrap() == Progress::More {
        all.append(&mut batch);
    }
    all.append(&mut batch);
    let mut names = Names::new();
    all.rename(&mut |name| names.intern(read.get(name)));
    Rows { batch: all, names, environment: source.environment().clone() }
}

/// Reads a recording to its end.
pub fn rows_of(path: &Path) -> Rows {
    rows(&mut RecordingReader::open(path).unwrap())
}
