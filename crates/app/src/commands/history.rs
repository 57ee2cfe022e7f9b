//! `iowhy history`: the figures of the last days.

use crate::args::daemon::HistoryArgs;
use crate::failure::Failure;
use crate::output;
use iowhy_recorder::clock::LocalTime;
use iowhy_recorder::control::RecorderState;
use iowhy_recorder::history::HistoryFiles;
use iowhy_recorder::history::table::{row_seconds, table};
use std::io::ErrorKind;

/// Shows them.
pub fn run(args: &HistoryArgs) -> Result<(), Failure> {
    let config = args.places.config()?;
    let state = config.state;
    let (now_s, seconds) = (LocalTime::now_s(), args.last.0.as_secs() as i64);
    let files = HistoryFiles::below(&state);
    let minutes = files.minutes(now_s - seconds, now_s + 1).map_err(|error| {
        let message = format!("failed to read the history below {}: {error}", state.display());
        let is_denied = error.kind() == ErrorKind::PermissionDenied;
        let hint = "it is for root and the group iowhy: `sudo iowhy history`";
        Failure::new(message, is_denied.then(|| hint.to_owned()))
    })?;
    if args.json {
        let lines = minutes.iter().filter_map(|minute| serde_json::to_string(minute).ok());
        return output::print(&lines.map(|line| line + "\n").collect::<String>());
    }
    if minutes.is_empty() {
        let why = RecorderState::read(&state, &config.runtime).why_no_history();
        return output::print(&format!("{why}\n"));
    }
    let row_s = row_seconds(seconds, args.rows);
    output::print(&table(&minutes, row_s, args.device.as_deref(), &output::style()))
}
