//! The crate's integration tests: text and JSON in the form of each tool's, and the expected
//! results.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod forms;
mod hostile;
mod locales;
mod machines;
mod pasted;
mod threads;
mod tools;

use iowhy_analysis::{Direction, Summarizer, Summary};
use iowhy_diagnosis::{Diagnosis, diagnose};
use iowhy_foreign::import::{Bytes, kind_of};
use iowhy_foreign::{ForeignImport, ForeignKind};
use iowhy_model::Names;
use iowhy_model::source::{Batch, Progress, Source};
use std::io::Cursor;

/// A file as it is read.
struct ReadFile {
    summary: Summary,
    diagnosis: Diagnosis,
}

impl ReadFile {
    fn new(bytes: &[u8]) -> Result<ReadFile, String> {
        let input = Box::new(Cursor::new(bytes.to_vec()));
        let (kind, whole) = kind_of(input).map_err(|error| error.to_string())?;
        ReadFile::of_kind(kind.ok_or("it is of no kind")?, whole)
    }

    fn of_kind(kind: ForeignKind, input: Bytes) -> Result<ReadFile, String> {
        let mut import = ForeignImport::new(kind, input);
        let (mut batch, mut names) = (Batch::default(), Names::new());
        let mut summarizer = Summarizer::new(import.environment());
        loop {
            batch.clear();
            let progress = import.fill(&mut batch, &mut names)?;
            summarizer.add(&batch, &names);
            if progress == Progress::Done {
                break;
            }
        }
        let summary = summarizer.finish(import.environment(), &names);
        let diagnosis = diagnose(&summary);
        Ok(ReadFile { summary, diagnosis })
    }

    fn text(text: &str) -> ReadFile {
        ReadFile::new(text.as_bytes()).unwrap()
    }

    fn causes(&self) -> Vec<&'static str> {
        self.diagnosis.findings.iter().map(|finding| finding.cause).collect()
    }

    fn said(&self) -> String {
        self.summary.environment.limits.join("\n")
    }

    /// Requests per second and mean time in ms of one direction of a device.
    fn rate(&self, device: &str, direction: Direction) -> (f64, f64) {
        let device = self.summary.devices.iter().find(|known| known.device == device).unwrap();
        let figures = &device.directions[direction];
        (figures.requests_per_s, figures.await_ns.unwrap_or(0.0) / 1e6)
    }
}
