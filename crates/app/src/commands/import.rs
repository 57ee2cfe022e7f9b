//! `iowhy import`: converts a capture to a recording.

use crate::args::import::ImportArgs;
use crate::failure::Failure;
use crate::output;
use crate::partial::PartialOutput;
use crate::sources::{self, FoundSource};
use iowhy_model::figures::counted;
use iowhy_model::recording::{RecordingReader, RecordingWriter};
use iowhy_model::source::{Batch, Source};
use iowhy_model::{Environment, Filter, Names};

/// Imports a capture, and reports what it lacks.
pub fn run(args: &ImportArgs) -> Result<(), Failure> {
    let mut source = match sources::find(&args.source.paths)? {
        FoundSource::Capture(inputs) => sources::open_capture(&inputs, args.events)?,
        FoundSource::Foreign(found) => sources::open_foreign(&found)?,
        FoundSource::Recording(path) => {
            // For a damaged recording the error is the damage, not that it needs no import.
            RecordingReader::open(&path)?;
            let message = format!("failed to import {}: it is a recording", path.display());
            let hint = format!("use it as it is: `iowhy report {}`", sources::words(&[path]));
            return Err(Failure::new(message, Some(hint)));
        }
    };
    let partial = PartialOutput::directory(&args.output)?;
    // Created with the first event, so that an input that is not a capture leaves nothing behind.
    let mut writer = None;
    let mut requests = 0;
    let take = |batch: &mut Batch, names: &Names, now: &Environment| {
        requests += batch.requests.len() as u64;
        if writer.is_none() && !batch.is_empty() {
            let created = RecordingWriter::create(partial.path(), now);
            writer = Some(created.map_err(|error| partial.named(error.into()))?);
        }
        match &mut writer {
            Some(writer) => Ok(writer.add(batch, names)?),
            None => Ok(()),
        }
    };
    let (names, _) = sources::read_all(&mut source, &Filter::default(), take)?;
    let mut environment = source.environment().clone();
    let writer = match writer {
        Some(writer) => writer,
        None => RecordingWriter::create(partial.path(), &environment)?,
    };
    writer.finish(&mut environment, &names)?;
    partial.finish()?;
    output::limits(&environment);
    output::losses(&environment.losses);
    let (seconds, path) = (environment.duration_ns() as f64 / 1e9, args.output.display());
    let requests = counted(requests, "requests");
    output::note(&format!("imported {requests} of {seconds:.1} s into {path}"));
    let source = sources::words(std::slice::from_ref(&args.output));
    output::note(&format!("show it with: `iowhy report {source}`"));
    Ok(())
}
