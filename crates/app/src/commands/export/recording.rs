//! `iowhy export --format recording`: a source, filtered, as a new recording, without
//! names if `--redact` is given.

use crate::args::export::Export;
use crate::failure::{Failure, USAGE};
use crate::partial::PartialOutput;
use crate::{output, sources};
use iowhy_model::Names;
use iowhy_model::figures::counted;
use iowhy_model::recording::RecordingWriter;
use iowhy_model::source::{Batch, Source};
use std::path::PathBuf;

/// Writes the recording, and prints a summary of its content.
pub fn write(args: &Export, paths: &[PathBuf]) -> Result<(), Failure> {
    let Some(target) = &args.output else {
        let hint = "name a directory: -o COPY; or another format: --format csv";
        let message = "failed to export a recording: it needs a directory";
        return Err(Failure { code: USAGE, ..Failure::new(message, Some(hint.to_owned())) });
    };
    let mut source = sources::open(paths, true)?;
    let filter = args.only.filter();
    source.require_devices(&filter, false)?;
    let partial = PartialOutput::directory(target)?;
    let writer = RecordingWriter::create(partial.path(), source.environment());
    let mut writer = writer.map_err(|error| partial.named(error.into()))?;
    let mut requests = 0;
    let take = |batch: &mut Batch, names: &Names, _: &_| {
        requests += batch.requests.len() as u64;
        Ok(writer.add(batch, names)?)
    };
    let (names, silent) = sources::read_all(&mut source, &filter, take)?;
    let mut environment = source.environment().clone();
    environment.keep(&filter);
    environment.limits.extend(silent.sentences());
    writer.finish(&mut environment, &names)?;
    partial.finish()?;
    output::losses(&environment.losses);
    let requests = counted(requests, "requests");
    output::note(&format!("exported {requests} to {}", target.display()));
    Ok(())
}
