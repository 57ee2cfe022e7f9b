//! `iowhy report`: the same screen, from a recording or a capture.

use super::page::NewPage;
use crate::args::daemon::DaemonPlaces;
use crate::args::{Json, ReportArgs, Show};
use crate::commands::incidents;
use crate::failure::{Failure, USAGE};
use crate::output;
use crate::sources;
use crate::summaries;
use iowhy_core::analysis::Summaries;
use iowhy_core::diagnosis::diagnose;
use iowhy_recorder::clock::LocalTime;
use iowhy_recorder::incidents::store::RECORDING;
use iowhy_recorder::screen;
use std::path::PathBuf;

/// Reads the source and shows it.
pub fn run(args: &ReportArgs) -> Result<(), Failure> {
    let paths = match &args.at {
        None => args.paths.clone(),
        Some(time) => vec![recorded_at(time, &args.places)?],
    };
    let source = sources::words(&paths);
    let page = args.show.html.as_deref().map(NewPage::check).transpose()?;
    let read = summaries::read_with(&paths, &args.only, page.is_some())?;
    match page {
        Some(page) => page.write(&read.summaries, &read.names, Some(&source)),
        None => show(&read.summaries, Some(&source), &args.show),
    }
}

/// The recording of the newest incident that covers a local time.
fn recorded_at(time: &str, places: &DaemonPlaces) -> Result<PathBuf, Failure> {
    let Some(at_ns) = LocalTime::parse(time) else {
        let message = format!("failed to understand the time {time:?}");
        let hint = "write 09:35, 09:35:10 or \"2026-11-24 09:35\", local to this host";
        return Err(Failure { code: USAGE, ..Failure::new(message, Some(hint.to_owned())) });
    };
    let store = incidents::store(places)?;
    let kept = incidents::all(&store)?;
    match screen::covering(&kept, at_ns.0).last() {
        Some(record) => {
            output::note(&format!("incident {}: {}", record.number, record.reason()));
            Ok(store.path(record.number).join(RECORDING))
        }
        None => {
            let message = format!("failed to find an incident that covers {at_ns}");
            let hint = "`iowhy incidents` lists them, `iowhy history` shows all minutes";
            Err(Failure::new(message, Some(hint.to_owned())))
        }
    }
}

/// Prints a summary in the requested form; `source` is its source as on a command line.
pub fn show(summaries: &Summaries, source: Option<&str>, show: &Show) -> Result<(), Failure> {
    let (summary, diagnosis) = (&summaries.shown, diagnose(summaries.judged()));
    let text = match (show.json(), show.full) {
        (Some(Json::Full), _) => iowhy_views::json::render(summary, &diagnosis),
        (Some(Json::Brief), _) => iowhy_views::brief::render(summary, &diagnosis),
        (None, true) => iowhy_views::text::render(summary, &diagnosis, source, &output::style()),
        (None, false) => iowhy_views::text::page(summary, &diagnosis, source, &output::style()),
    };
    output::print(&text)
}
