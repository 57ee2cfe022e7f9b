//! `iowhy report`: the same screen, from a recording or a capture.

use super::page::NewPage;
use crate::args::daemon::DaemonPlaces;
use crate::args::{Json, OutputForm, ReportArgs, Show};
use crate::commands::incidents;
use crate::failure::{Failure, USAGE};
use crate::last_watch;
use crate::output;
use crate::selection;
use crate::sources;
use crate::summaries;
use iowhy_analysis::Summaries;
use iowhy_diagnosis::diagnose;
use iowhy_model::command::of_source;
use iowhy_recorder::clock::LocalTime;
use iowhy_recorder::control::RecorderState;
use iowhy_recorder::incidents::store::RECORDING;
use iowhy_recorder::screen;
use std::path::PathBuf;

/// Reads the source and shows it.
pub fn run(args: &ReportArgs) -> Result<(), Failure> {
    let paths = match &args.at {
        None => last_watch::or_last(&args.paths)?,
        Some(time) => vec![recorded_at(time, &args.places)?],
    };
    let source = sources::words(&paths);
    let page = NewPage::wanted(&args.show)?;
    let read = summaries::read_with(&paths, &args.only, page.is_some())?;
    if let Some(page) = page {
        page.write(&read.summaries, &read.names, Some(&source))?;
    }
    let json = args.form.inspect(|form| old_form(*form)).and_then(OutputForm::of_today);
    let shown = Show { json: args.show.json.or(json), ..args.show.clone() };
    // A user who wants a page alone still sees the answer, and what the page is called.
    output::print(&text(&read.summaries, ShownSource::Named(&source), &shown))?;
    selection::check(&args.only.filter(), &read.summaries.shown, read.summaries.judged())
}

/// Says how `-o FORM` is written today.
pub fn old_form(form: OutputForm) {
    let today = match form {
        OutputForm::Text => "no option",
        OutputForm::Json => "--json",
        OutputForm::Brief => "--json=brief",
    };
    output::note(&format!("note: -o names a file in every command; this form is now {today}"));
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
            let (number, summary) = (record.number, record.summary());
            output::note(&format!("incident {number}: {summary}"));
            output::note(&format!(
                "`iowhy incidents show {number}` has the verdict around its trigger; below is all \
                 of its recording"
            ));
            Ok(store.path(record.number).join(RECORDING))
        }
        None => {
            let message = format!("failed to find an incident that covers {at_ns}");
            let hint = match kept.is_empty() {
                true => {
                    let config = places.config()?;
                    RecorderState::read(&config.state, &config.runtime).why_no_incidents()
                }
                false => "`iowhy incidents` lists them, `iowhy history` shows all minutes",
            };
            Err(Failure::new(message, Some(hint.to_owned())))
        }
    }
}

/// The summary of a watch that has just ended in the requested form; `is_kept` if commands without
/// a source mean it.
pub fn live_text(summaries: &Summaries, is_kept: bool, form: &Show) -> String {
    text(summaries, if is_kept { ShownSource::Kept } else { ShownSource::Gone }, form)
}

/// The source that other commands name to mean the watch that is shown.
enum ShownSource<'a> {
    /// A source, as a command line names it.
    Named(&'a str),
    /// No name is needed: it is the last watch.
    Kept,
    /// No name is possible: the watch is gone.
    Gone,
}

/// A summary in the requested form.
fn text(summaries: &Summaries, shown: ShownSource<'_>, show: &Show) -> String {
    let (summary, mut diagnosis) = (&summaries.shown, diagnose(summaries.judged()));
    let is_kept = matches!(shown, ShownSource::Kept);
    let source = match shown {
        ShownSource::Named(source) => Some(source),
        ShownSource::Kept | ShownSource::Gone => None,
    };
    if let (Some(_), Some(source)) = (show.json, source) {
        diagnosis.findings.iter_mut().for_each(|finding| {
            finding
                .evidence
                .iter_mut()
                .for_each(|evidence| evidence.command = of_source(&evidence.command, source));
        });
    }
    match (show.json, show.full) {
        (Some(Json::Full), _) => iowhy_views::json::render(summary, &diagnosis),
        (Some(Json::Brief), _) => iowhy_views::brief::render(summary, &diagnosis),
        (None, false) if is_kept => {
            iowhy_views::text::kept_page(summary, &diagnosis, &output::style())
        }
        (None, true) => iowhy_views::text::render(summary, &diagnosis, source, &output::style()),
        (None, false) => iowhy_views::text::page(summary, &diagnosis, source, &output::style()),
    }
}
