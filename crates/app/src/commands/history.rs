//! `iowhy history`: the figures of the last days, and who wrote.

use super::page::NewPage;
use crate::args::daemon::HistoryArgs;
use crate::failure::Failure;
use crate::output;
use iowhy_recorder::clock::LocalTime;
use iowhy_recorder::control::RecorderState;
use iowhy_recorder::history::HistoryFiles;
use iowhy_recorder::history::table::{row_seconds, table};
use iowhy_recorder::screen;
use iowhy_recorder::writers::files::{WriterFiles, found_over_days};
use iowhy_recorder::writers::over_days::OverDaysFinding;
use iowhy_recorder::writers::question::{GroupedBy, WriterQuestion, answer};
use iowhy_recorder::writers::{page, text};
use std::io::{self, ErrorKind};
use std::path::Path;

/// Shows them.
pub fn run(args: &HistoryArgs) -> Result<(), Failure> {
    let config = args.places.config()?;
    let state = config.state;
    let (from_s, until_s) = span(args)?;
    if args.html.is_some() && !args.who && args.file.is_none() {
        let message = "failed to write a page: there is one of who wrote".to_owned();
        return Err(Failure::new(message, Some("add --who or --file".to_owned())));
    }
    if args.who || args.file.is_some() {
        return writers(args, &state, (from_s, until_s), || {
            RecorderState::read(&state, &config.runtime).why_no_history()
        });
    }
    let files = HistoryFiles::below(&state);
    let minutes = files.minutes(from_s, until_s).map_err(|error| unreadable(&state, &error))?;
    if args.json {
        let lines = minutes.iter().filter_map(|minute| serde_json::to_string(minute).ok());
        let lines = lines.map(|line| iowhy_views::json::escaped(line + "\n"));
        return output::print(&lines.collect::<String>());
    }
    if minutes.is_empty() {
        let why = RecorderState::read(&state, &config.runtime).why_no_history();
        return output::print(&format!("{why}\n"));
    }
    let row_s = row_seconds(until_s - from_s, args.rows);
    output::print(&table(&minutes, row_s, args.device.as_deref(), &output::style()))
}

fn unreadable(state: &Path, error: &io::Error) -> Failure {
    let message = format!("failed to read the history below {}: {error}", state.display());
    let is_denied = error.kind() == ErrorKind::PermissionDenied;
    let hint = "it is for root and the group iowhy: `sudo iowhy history`";
    Failure::new(message, is_denied.then(|| hint.to_owned()))
}

/// Returns the first second that is shown, and the first one after the end, seconds since 1970.
fn span(args: &HistoryArgs) -> Result<(i64, i64), Failure> {
    let now_s = LocalTime::now_s();
    let time = |text: &String| match LocalTime::parse_day(text) {
        Some(time) => Ok(time.0.div_euclid(1_000_000_000)),
        None => {
            let message = format!("failed to understand the time {text:?}");
            let hint = "times are: yesterday, today, 09:35, \"2026-11-24 09:35\"";
            Err(Failure::new(message, Some(hint.to_owned())))
        }
    };
    let until_s = args.until.as_ref().map(time).transpose()?.unwrap_or(now_s + 1);
    let from_s = match &args.since {
        Some(since) => time(since)?,
        None => until_s.saturating_sub(args.last.0.as_secs() as i64),
    };
    if from_s >= until_s {
        let message = "failed to find any time: it ends before it begins".to_owned();
        return Err(Failure::new(message, Some("--since is earlier than --until".to_owned())));
    }
    Ok((from_s, until_s))
}

fn writers(
    args: &HistoryArgs,
    state: &Path,
    (from_s, until_s): (i64, i64),
    why: impl FnOnce() -> &'static str,
) -> Result<(), Failure> {
    let html = args.html.as_deref().map(NewPage::check_plain).transpose()?;
    let files = WriterFiles::below(state);
    let records = files.records(from_s, until_s).map_err(|error| unreadable(state, &error))?;
    let by = if args.file.is_some() { GroupedBy::File } else { GroupedBy::Program };
    let question = WriterQuestion {
        by,
        device: args.device.clone(),
        file: args.file.clone().filter(|part| !part.is_empty()),
        from_s,
        until_s,
    };
    let mut answer = answer(&records, &question);
    let found = found_over_days(&files, until_s).map_err(|error| unreadable(state, &error))?;
    let is_asked = |finding: &OverDaysFinding| {
        args.device.as_ref().is_none_or(|device| *device == finding.device)
    };
    answer.findings = found.into_iter().filter(is_asked).collect();
    if args.json {
        return output::print(&screen::json(&answer));
    }
    if records.is_empty() {
        return output::print(&format!("{}\n", why()));
    }
    if let Some(html) = html {
        return html.save(&page::page(&answer, &records, &question, args.rows as usize));
    }
    output::print(&text::page(&answer, args.rows as usize, &output::style()))
}
