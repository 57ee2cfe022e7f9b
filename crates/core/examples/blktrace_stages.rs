//! iowhy's stage analysis of a capture, to time it.

use iowhy_core::analysis::stages::{pipeline, text};
use iowhy_core::formats::blktrace::Inputs;
use std::io::{BufWriter, Write};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let files: Vec<std::path::PathBuf> = std::env::args_os().skip(1).map(Into::into).collect();
    let inputs =
        Inputs::find(&files).map_err(|(path, error)| format!("{}: {error}", path.display()))?;
    let (stages, warnings) = pipeline::analyse(&inputs)?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    for warning in warnings.items() {
        writeln!(out, "{warning}")?;
    }
    text::write(&stages, &mut out)?;
    out.flush()?;
    Ok(())
}
