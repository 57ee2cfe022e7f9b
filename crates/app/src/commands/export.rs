//! `iowhy export`: a recording or a capture in another program's format.

mod captures;

use crate::args::export::{Export, Format};
use crate::failure::Failure;
use crate::output;
use crate::sources;
use iowhy_core::figures::counted;
use iowhy_core::formats::collapsed::Collapsed;
use iowhy_core::formats::csv::{Csv, Which};
use iowhy_core::formats::export::{self, Error, Exported, export};
use iowhy_core::formats::iolog::{Iolog, Version};
use iowhy_core::formats::perfetto::Perfetto;
use std::fs::File;
use std::io::{BufWriter, ErrorKind, Write};
use std::path::Path;

/// Writes the export, and says beside it what is not in it.
pub fn run(args: &Export) -> Result<(), Failure> {
    let Some(mut format) = format(args) else { return captures::write(args) };
    let events = args.format == Format::Csv && args.table == Which::Events;
    let mut source = sources::open(&args.source.paths, events)?;
    let filter = args.only.filter();
    source.require_devices(&filter, false)?;
    let mut out = writer(args)?;
    match export(&mut source, &filter, format.as_mut(), &mut out) {
        Ok(exported) => tell(&exported, args),
        Err(Error::Source(error)) => return Err(error),
        // A reader that closes the pipe early is content.
        Err(Error::Write(cause)) if cause.kind() == ErrorKind::BrokenPipe => {}
        Err(Error::Write(cause)) => return Err(failed(args.output.as_deref(), &cause)),
    }
    Ok(())
}

fn writer(args: &Export) -> Result<Box<dyn Write>, Failure> {
    let Some(path) = &args.output else {
        if args.format == Format::Perfetto && output::is_terminal() {
            let hint = "name a file: --output trace.pftrace".to_owned();
            let message = "failed to write the trace: it is binary, and standard output a terminal";
            return Err(Failure::new(message, Some(hint)));
        }
        return Ok(Box::new(BufWriter::with_capacity(1 << 18, output::answer())));
    };
    let file = File::create(path).map_err(|cause| failed(Some(path), &cause))?;
    Ok(Box::new(BufWriter::with_capacity(1 << 18, file)))
}

fn failed(path: Option<&Path>, cause: &std::io::Error) -> Failure {
    match path {
        Some(path) => Failure::not_written(path, cause),
        None => Failure::new(format!("failed to write the export: {cause}"), None),
    }
}

/// The format; none for blktrace's, which is many files.
fn format(args: &Export) -> Option<Box<dyn export::Format>> {
    let format: Box<dyn export::Format> = match args.format {
        Format::Perfetto => Box::new(Perfetto::default()),
        Format::Iolog => Box::new(Iolog::new(Version::Three)),
        Format::IologV2 => Box::new(Iolog::new(Version::Two)),
        Format::Csv => Box::new(Csv::new(args.table)),
        Format::Collapsed => Box::new(Collapsed::new(args.weight.into())),
        Format::Blktrace => return None,
    };
    Some(format)
}

fn tell(exported: &Exported, args: &Export) {
    if exported.rows == 0 {
        let why = why_nothing(exported, args).map_or_else(String::new, |why| format!(": {why}"));
        output::note(&format!("nothing was exported{why}"));
    } else if let Some(path) = &args.output {
        output::note(&format!("exported {} to {}", counted(exported.rows, "rows"), path.display()));
    }
    for loss in &exported.left_out.items {
        let kind = if loss.requests { "left out" } else { "note" };
        output::note(&format!("{kind}: {}", loss.sentence()));
    }
    exported.notes.iter().for_each(|note| output::note(&format!("note: {note}")));
}

/// Why an export has no row, where the format's own notes do not tell.
fn why_nothing(exported: &Exported, args: &Export) -> Option<String> {
    let Exported { requests, kept_requests, .. } = *exported;
    let why = match args.format {
        Format::Csv if !exported.notes.is_empty() => return None,
        Format::Csv => format!("no row of the table {} is left", args.table.name()),
        _ if requests == 0 => "there is no request in it".to_owned(),
        _ if kept_requests == 0 => {
            format!("{} keeps none of {}", args.only, counted(requests, "requests"))
        }
        _ if !exported.notes.is_empty() => return None,
        _ => format!("none of {} fits the format", counted(kept_requests, "requests")),
    };
    Some(why)
}
