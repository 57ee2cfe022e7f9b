//! `iowhy export --format blktrace`: single events as blktrace's files, one for each device and
//! CPU.

use crate::args::export::Export;
use crate::commands::events::{no_events, only_devices};
use crate::failure::Failure;
use crate::partial::PartialOutput;
use crate::{output, sources};
use iowhy_blktrace::replay::InOrder;
use iowhy_blktrace::trace::CaptureWriter;
use iowhy_blktrace::trace::writer::{CaptureSettings, WriteError, WrittenCapture};
use iowhy_fs::{Folder, PRIVATE_FOLDER};
use iowhy_model::figures::counted;
use iowhy_model::{Environment, Event, Filter, Names};
use std::fs;
use std::path::{Path, PathBuf};

/// Writes the files, and reports what they lack.
pub fn write(args: &Export, paths: &[PathBuf]) -> Result<(), Failure> {
    let folder = folder(args)?;
    let partial = PartialOutput::for_target(&folder)?;
    let folder = partial.path().to_owned();
    let mut files = CaptureFiles { folder, protocol: args.protocol, writer: None, failed: None };
    let mut source = sources::open(paths, true)?;
    let devices = args.only.filter().devices;
    let mut order = InOrder::default();
    let take = |batch: &mut iowhy_model::source::Batch, names: &Names, now: &Environment| {
        let wanted = |event: &&Event| {
            devices.is_empty() || devices.iter().any(|device| device == names.get(event.device))
        };
        let events: Vec<Event> = batch.events.iter().filter(wanted).cloned().collect();
        order.push(&events, |event| files.write(event, names, now));
        files.check()
    };
    let (names, _) = sources::read_all(&mut source, &Filter::default(), take)?;
    let environment = iowhy_model::source::Source::environment(&source).clone();
    order.finish(|event| files.write(event, &names, &environment));
    files.check()?;
    let Some(writer) = files.writer else {
        return Err(no_events(paths.first().map_or(Path::new("-"), PathBuf::as_path)));
    };
    let written = writer.finish()?;
    partial.finish()?;
    output::losses(&environment.losses);
    report(&written, order.late(), args.output.as_deref().unwrap_or(&files.folder));
    Ok(())
}

/// The directory to create. No file is overwritten, and no filter is ignored silently.
fn folder(args: &Export) -> Result<PathBuf, Failure> {
    let Some(folder) = &args.output else {
        let hint = "name a directory: --output DIR".to_owned();
        let message = "failed to export blktrace files: they need a directory";
        return Err(Failure::new(message, Some(hint)));
    };
    only_devices(&args.only, "export blktrace files")?;
    let is_free = fs::read_dir(folder).map_or(!folder.exists(), |mut found| found.next().is_none());
    if !is_free {
        let shown = folder.display();
        let message = format!("failed to create {shown}: it exists and is not empty");
        return Err(Failure::new(message, Some("name a new directory".to_owned())));
    }
    Ok(folder.clone())
}

/// The files that are being written; the first event creates the directory.
struct CaptureFiles {
    folder: PathBuf,
    protocol: u8,
    writer: Option<CaptureWriter>,
    failed: Option<Failure>,
}

impl CaptureFiles {
    fn write(&mut self, event: &Event, names: &Names, now: &Environment) {
        if self.failed.is_none() {
            self.failed = self.try_write(event, names, now).err();
        }
    }

    fn try_write(
        &mut self,
        event: &Event,
        names: &Names,
        now: &Environment,
    ) -> Result<(), Failure> {
        let writer = match &mut self.writer {
            Some(writer) => writer,
            None => {
                let folder = Folder::make(&self.folder, PRIVATE_FOLDER);
                let (folder, _) =
                    folder.map_err(|cause| Failure::not_written(&self.folder, &cause))?;
                let realtime_offset_ns = now.realtime_offset_ns;
                let settings = CaptureSettings { version: self.protocol, realtime_offset_ns };
                self.writer.insert(CaptureWriter::new(folder, settings))
            }
        };
        Ok(writer.write(event, names)?)
    }

    fn check(&mut self) -> Result<(), Failure> {
        self.failed.take().map_or(Ok(()), Err)
    }
}

impl From<WriteError> for Failure {
    fn from(error: WriteError) -> Failure {
        Failure::not_written(&error.path, &error.source)
    }
}

fn report(written: &WrittenCapture, late: u64, folder: &Path) {
    let WrittenCapture { events, files, left_out } = *written;
    for (count, meaning) in [
        (left_out, "events are of more devices or CPUs than files can be open"),
        (late, "events came too late to be sorted by time"),
    ] {
        if count > 0 {
            output::note(&format!("lost: {}", counted(count, meaning)));
        }
    }
    let (events, files) = (counted(events, "events"), counted(files, "files"));
    output::note(&format!("exported {events} to {files} in {}", folder.display()));
}
