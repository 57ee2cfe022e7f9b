//! `iowhy export --format otlp`: devices' figures and findings in OpenTelemetry's JSON.

use crate::args::export::Export;
use crate::failure::Failure;
use crate::partial::PartialOutput;
use crate::{output, summaries};
use iowhy_diagnosis::diagnose;
use iowhy_model::figures::counted;
use iowhy_views::otlp;
use std::path::PathBuf;

/// Writes it.
pub fn write(args: &Export, paths: &[PathBuf]) -> Result<(), Failure> {
    let read = summaries::read(paths, &args.only)?;
    let diagnosis = diagnose(read.judged());
    let text = otlp::lines(&read.shown, &diagnosis);
    let Some(target) = &args.output else { return output::print(&text) };
    let partial = PartialOutput::for_target(target)?;
    partial.write(text.as_bytes())?;
    partial.finish()?;
    let findings = counted(diagnosis.findings.len() as u64, "findings");
    output::note(&format!("exported {findings} to {}", target.display()));
    Ok(())
}
