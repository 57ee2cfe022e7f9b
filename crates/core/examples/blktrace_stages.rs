//! iowhy's stage analysis of a capture, to time it.

use iowhy_core::analysis::stages::{Stages, pipeline, text};
use iowhy_core::formats::blktrace::{Capture, Options};
use std::io::{BufWriter, Write};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let files: Vec<std::path::PathBuf> = std::env::args_os().skip(1).map(Into::into).collect();
    let capture = Capture::open(&files, Options::default())?;
    let mut stages = Stages::default();
    let capture = pipeline::run(capture, |start, batch| stages.take(batch, start.genesis));
    stages.finish();
    let mut out = BufWriter::new(std::io::stdout().lock());
    for warning in capture.warnings().items() {
        writeln!(out, "{warning}")?;
    }
    text::write(&stages, &mut out)?;
    out.flush()?;
    Ok(())
}
