//! `iowhy import`: a capture becomes a recording.

use crate::args::import::Import;
use crate::failure::Failure;
use crate::output;
use crate::sources::{self, Found, Opened};
use iowhy_core::figures::counted;
use iowhy_core::model::{Environment, Filter, Names};
use iowhy_core::recording::{Reader, Writer};
use iowhy_core::source::{Batch, Source};

/// Imports, and says what the capture lacks.
pub fn run(args: &Import) -> Result<(), Failure> {
    let inputs = match sources::find(&args.source.paths)? {
        Found::Capture(inputs) => inputs,
        Found::Recording(path) => {
            // One that is damaged says what of it is, rather than that it can be used as it is.
            Reader::open(&path)?;
            let message = format!("failed to import {}: it is a recording", path.display());
            let hint = format!("use it as it is: `iowhy report {}`", sources::words(&[path]));
            return Err(Failure::new(message, Some(hint)));
        }
    };
    let mut source = Opened::Capture(Box::new(sources::import(&inputs, args.events)?));
    // Not made before the capture gave something: what is no capture leaves nothing behind.
    let mut writer = None;
    let mut requests = 0;
    let take = |batch: &Batch, names: &Names, now: &Environment| {
        requests += batch.requests.len() as u64;
        if writer.is_none() && !batch.is_empty() {
            writer = Some(Writer::create(&args.output, now)?);
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
        None => Writer::create(&args.output, &environment)?,
    };
    writer.finish(&mut environment, &names)?;
    environment.limits.iter().for_each(|limit| output::note(&format!("note: {limit}")));
    output::losses(&environment.losses);
    let (seconds, path) = (environment.duration_ns() as f64 / 1e9, args.output.display());
    let requests = counted(requests, "requests");
    output::note(&format!("imported {requests} of {seconds:.1} s into {path}"));
    let source = sources::words(std::slice::from_ref(&args.output));
    output::note(&format!("show it with: `iowhy report {source}`"));
    Ok(())
}
