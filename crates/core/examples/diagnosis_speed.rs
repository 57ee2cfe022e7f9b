//! How long diagnosing a recording takes, beside reading and summarising it.
//!
//! `cargo run --release -p iowhy-core --example diagnosis_speed -- RECORDING`
#![allow(clippy::print_stdout, reason = "it prints what it measures")]

use iowhy_core::analysis::Summarizer;
use iowhy_core::diagnosis::diagnose;
use iowhy_core::model::Names;
use iowhy_core::recording::Reader;
use iowhy_core::source::{Batch, Progress, Source};
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "demo/recording".to_owned());
    let begun = Instant::now();
    let mut source = Reader::open(path.as_ref())?;
    let mut summarizer = Summarizer::new(source.environment());
    let (mut batch, mut names) = (Batch::default(), Names::new());
    loop {
        batch.clear();
        let progress = source.fill(&mut batch, &mut names)?;
        summarizer.add(&batch, &names);
        if progress == Progress::Done {
            break;
        }
    }
    let summary = summarizer.finish(source.environment(), &names);
    let read = begun.elapsed();
    let begun = Instant::now();
    let diagnosis = diagnose(&summary);
    println!(
        "{} requests: read and summarised in {:.1} ms, diagnosed in {:.2} ms: {} findings",
        summary.watch.requests,
        read.as_secs_f64() * 1e3,
        begun.elapsed().as_secs_f64() * 1e3,
        diagnosis.findings.len()
    );
    Ok(())
}
