//! `iowhy export`: a recording or a capture in another program's format.

mod captures;
mod otlp;
mod recording;

use crate::args::export::{Export, ExportFormat};
use crate::failure::Failure;
use crate::last_watch;
use crate::output::{self, EscapedLines};
use crate::partial::PartialOutput;
use crate::sources;
use iowhy_analysis::formats::collapsed::Collapsed;
use iowhy_analysis::formats::csv::{Csv, Which};
use iowhy_analysis::formats::export::{self, ExportError, Exported, export};
use iowhy_analysis::formats::perfetto::Perfetto;
use iowhy_analysis::formats::pprof::Pprof;
use iowhy_blktrace::iolog::{Iolog, Version};
use iowhy_model::figures::counted;
use std::io::{BufWriter, ErrorKind, Write};
use std::path::Path;

/// Writes the export, and reports what it leaves out.
pub fn run(args: &Export) -> Result<(), Failure> {
    let paths = last_watch::or_last(&args.paths)?;
    let Some(mut format) = format(args) else {
        return match args.format {
            ExportFormat::Blktrace => captures::write(args, &paths),
            ExportFormat::Otlp => otlp::write(args, &paths),
            _ => recording::write(args, &paths),
        };
    };
    let events = args.format == ExportFormat::Csv && args.table == Which::Events;
    let mut source = sources::open(&paths, events)?;
    if args.output.is_none() {
        source = source.quietly();
    }
    let filter = args.only.filter();
    source.require_devices(&filter, false)?;
    let partial = args.output.as_deref().map(PartialOutput::for_target).transpose()?;
    let mut out = writer(args, partial.as_ref())?;
    match export(&mut source, &filter, format.as_mut(), &mut out) {
        Ok(exported) => {
            drop(out);
            partial.map_or(Ok(()), PartialOutput::finish)?;
            report(&exported, args);
        }
        Err(ExportError::Source(error)) => return Err(error),
        // A reader that closes the pipe early is not an error.
        Err(ExportError::Write(cause)) if cause.kind() == ErrorKind::BrokenPipe => {}
        Err(ExportError::Write(cause)) => return Err(failed(args.output.as_deref(), &cause)),
    }
    Ok(())
}

fn writer(args: &Export, partial: Option<&PartialOutput>) -> Result<Box<dyn Write>, Failure> {
    let Some(partial) = partial else {
        let binary = [
            (ExportFormat::Perfetto, "the trace", "trace.pftrace"),
            (ExportFormat::Pprof, "the profile", "waits.pb"),
        ];
        let written = binary.iter().find(|(format, ..)| *format == args.format);
        if let Some((_, what, name)) = written.filter(|_| output::is_terminal()) {
            let hint = format!("name a file: --output {name}");
            let message =
                format!("failed to write {what}: it is binary, and standard output a terminal");
            return Err(Failure::new(message, Some(hint)));
        }
        let answer = BufWriter::with_capacity(1 << 18, output::answer());
        // Names are anybody's: a terminal would do what they say.
        let answer: Box<dyn Write> = match output::is_terminal() {
            true => Box::new(EscapedLines::new(answer)),
            false => Box::new(answer),
        };
        return Ok(answer);
    };
    Ok(Box::new(BufWriter::with_capacity(1 << 18, partial.create()?)))
}

fn failed(path: Option<&Path>, cause: &std::io::Error) -> Failure {
    match path {
        Some(path) => Failure::not_written(path, cause),
        None => Failure::new(format!("failed to write the export: {cause}"), None),
    }
}

/// The format; none for those of many files.
fn format(args: &Export) -> Option<Box<dyn export::Exporter>> {
    let format: Box<dyn export::Exporter> = match args.format {
        ExportFormat::Perfetto => Box::new(Perfetto::default()),
        ExportFormat::Iolog => Box::new(Iolog::new(Version::Three)),
        ExportFormat::IologV2 => Box::new(Iolog::new(Version::Two)),
        ExportFormat::Csv if args.spreadsheet => Box::new(Csv::new(args.table).for_spreadsheet()),
        ExportFormat::Csv => Box::new(Csv::new(args.table)),
        ExportFormat::Collapsed => Box::new(Collapsed::new(args.weight.into())),
        ExportFormat::Pprof => Box::new(Pprof::default()),
        ExportFormat::Recording | ExportFormat::Blktrace | ExportFormat::Otlp => return None,
    };
    Some(format)
}

fn report(exported: &Exported, args: &Export) {
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

/// Returns the reason why an export is empty, if the format's own notes do not say it.
fn why_nothing(exported: &Exported, args: &Export) -> Option<String> {
    let Exported { requests, kept_requests, .. } = *exported;
    let why = match args.format {
        ExportFormat::Csv if !exported.notes.is_empty() => return None,
        ExportFormat::Csv => format!("the table {} has no matching rows", args.table.name()),
        _ if requests == 0 => "the source has no requests".to_owned(),
        _ if kept_requests == 0 => {
            format!("{} keeps none of {}", args.only, counted(requests, "requests"))
        }
        _ if !exported.notes.is_empty() => return None,
        _ => format!("the format cannot express any of {}", counted(kept_requests, "requests")),
    };
    Some(why)
}
