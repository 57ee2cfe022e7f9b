//! `iowhy incidents`: what the flight recorder kept.

use crate::args::daemon::{DaemonPlaces, IncidentAction, IncidentsArgs};
use crate::failure::Failure;
use crate::output;
use iowhy_recorder::control::RecorderState;
use iowhy_recorder::incidents::store::{IncidentStore, StoredIncident};
use iowhy_recorder::screen;
use std::io::{self, ErrorKind};
use std::path::Path;

/// Lists incidents, shows, pins or removes one.
pub fn run(args: &IncidentsArgs) -> Result<(), Failure> {
    if let Some(IncidentAction::Show { incident, json }) = &args.action {
        return show(args, incident, *json || args.json);
    }
    let store = store(&args.places)?;
    match args.action {
        None | Some(IncidentAction::Show { .. }) => list(&store, args.json, &args.places),
        Some(IncidentAction::List { json }) => list(&store, json || args.json, &args.places),
        Some(IncidentAction::Pin { number, undo }) => {
            let pinned = store.pin(number, !undo);
            pinned.map_err(|error| failed("pin", &store, number, &error))?;
            let what = if undo { "can be removed again" } else { "is pinned" };
            output::print(&format!("incident {number} {what}\n"))
        }
        Some(IncidentAction::Rm { number }) => {
            store.remove(number).map_err(|error| failed("remove", &store, number, &error))?;
            output::print(&format!("incident {number} is removed\n"))
        }
    }
}

/// Shows an incident, by its number or its directory.
fn show(args: &IncidentsArgs, named: &Path, json: bool) -> Result<(), Failure> {
    let number = named.to_str().and_then(|text| text.parse().ok());
    let incident = match number {
        Some(number) => get(&store(&args.places)?, number)?,
        None => StoredIncident::read(named).map_err(|error| unreadable(named, &error))?,
    };
    match json {
        true => output::print(&screen::json(&incident.record)),
        false => output::print(&screen::incident(&incident, &output::style())),
    }
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    let message = match error.kind() {
        ErrorKind::NotFound => format!("failed to read {}: it is no incident", path.display()),
        _ => format!("failed to read {}: {error}", path.display()),
    };
    let numbers = || "`iowhy incidents` lists numbers and their incidents".to_owned();
    Failure::new(message, hint(error).or_else(|| Some(numbers())))
}

/// The incidents of the configured or named state directory.
pub fn store(places: &DaemonPlaces) -> Result<IncidentStore, Failure> {
    Ok(IncidentStore::below(&places.config()?.state))
}

/// Every incident, the oldest first.
pub fn all(store: &IncidentStore) -> Result<Vec<StoredIncident>, Failure> {
    store.all().map_err(|error| {
        let message = format!("failed to read {}: {error}", store.directory().display());
        Failure::new(message, hint(&error))
    })
}

fn list(store: &IncidentStore, json: bool, places: &DaemonPlaces) -> Result<(), Failure> {
    let incidents = all(store)?;
    let unread = store.numbers().map_or(0, |numbers| numbers.len().saturating_sub(incidents.len()));
    if unread > 0 {
        output::note(&format!("{unread} more cannot be read: `iowhy incidents show N` says why"));
    }
    if incidents.is_empty() && unread == 0 {
        let config = places.config()?;
        let state = RecorderState::read(&config.state, &config.runtime);
        if json {
            output::note(state.why_no_incidents());
            return output::print("[]\n");
        }
        return output::print(&format!("{}\n", state.why_no_incidents()));
    }
    match json {
        true => {
            let records: Vec<_> = incidents.iter().map(|incident| &incident.record).collect();
            output::print(&screen::json(&records))
        }
        false => output::print(&screen::list(&incidents, &output::style())),
    }
}

fn get(store: &IncidentStore, number: u32) -> Result<StoredIncident, Failure> {
    store.get(number).map_err(|error| failed("read", store, number, &error))
}

fn failed(verb: &str, store: &IncidentStore, number: u32, error: &io::Error) -> Failure {
    match error.kind() {
        ErrorKind::NotFound => {
            let message = format!(
                "failed to {verb} incident {number}: there is no such incident in {}",
                store.directory().display()
            );
            Failure::new(message, Some("`iowhy incidents` lists them".to_owned()))
        }
        _ => {
            let path = store.path(number);
            Failure::new(format!("failed to {verb} {}: {error}", path.display()), hint(error))
        }
    }
}

fn hint(error: &io::Error) -> Option<String> {
    let is_denied = error.kind() == ErrorKind::PermissionDenied;
    is_denied
        .then(|| "incidents are for root and the group iowhy: `sudo iowhy incidents`".to_owned())
}
