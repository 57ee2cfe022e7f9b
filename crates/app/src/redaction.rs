//! `--redact`: one redactor for everything that this process reads, so that the sources of a
//! comparison, a filter and what is printed agree.
//!
//! A recording's key is derived from a secret of the machine (`/etc/machine-id`) and from the
//! recording, so that a second command shows the same placeholders. Without that file, and for live
//! watches and captures, the key is random.
//!
//! What does not belong here: what is replaced by what ([`iowhy_diagnosis::redact`]).

use crate::args::Command;
use crate::failure::{Failure, USAGE};
use iowhy_diagnosis::redact::{KEY_BYTES, RedactedRows, Redactor};
use iowhy_model::{Environment, Filter};
use std::sync::OnceLock;

/// The machine's secret: 128 random bits, of which systemd asks that only keys derived from it
/// leave the machine.
const MACHINE_ID: &str = "/etc/machine-id";

/// A random key, if names are to be redacted.
static RANDOM: OnceLock<[u8; KEY_BYTES]> = OnceLock::new();
/// The redactor, once the first source decided its key.
static REDACTOR: OnceLock<Redactor> = OnceLock::new();

/// Notes, before anything is read, that names are to be redacted; refuses a command that does not
/// do it.
pub fn begin(command: Option<&Command>) -> Result<(), Failure> {
    match command {
        None => {}
        Some(Command::Events(events)) if !events.blkparse_compat => {}
        Some(Command::Stages(stages)) if !stages.btt_compat => {}
        Some(Command::Opens(opens)) if !opens.held => {}
        Some(
            Command::Record(_)
            | Command::Report(_)
            | Command::Chains(_)
            | Command::Import(_)
            | Command::Export(_)
            | Command::Stat(_)
            | Command::Latency(_)
            | Command::Files(_)
            | Command::Diff(_)
            | Command::Explain(_)
            | Command::Blame(_)
            | Command::Proc(_)
            | Command::Snoop(_)
            | Command::Stacks(_)
            | Command::Waits(_)
            | Command::Cache(_),
        ) => {}
        // A command that is not listed here is refused, so that none can forget to redact.
        Some(_) => return Err(refused()),
    }
    let mut key = [0; KEY_BYTES];
    rustix::rand::getrandom(&mut key, rustix::rand::GetRandomFlags::empty()).map_err(|cause| {
        Failure::new(format!("failed to make a key for --redact: {cause}"), None)
    })?;
    RANDOM.get_or_init(|| key);
    Ok(())
}

/// Whether names are to be redacted.
pub fn is_wanted() -> bool {
    RANDOM.get().is_some()
}

fn refused() -> Failure {
    let message = "failed to redact names: this command answers with names, or with exactly what \
        another tool prints";
    let hint = "leave out --redact; watches, reports, views and exports take it";
    Failure { code: USAGE, ..Failure::new(message, Some(hint.to_owned())) }
}

/// The redactor of this process, if names are to be redacted; the first source decides its key.
pub fn of_recording(environment: &Environment) -> Option<&'static Redactor> {
    let random = Redactor::new(*RANDOM.get()?);
    Some(REDACTOR.get_or_init(|| keyed(environment).unwrap_or(random)))
}

/// Returns the redactor for data other than a recording.
pub fn redactor() -> Option<&'static Redactor> {
    let random = Redactor::new(*RANDOM.get()?);
    Some(REDACTOR.get_or_init(|| random))
}

/// Returns the environment of a watch without rows, redacted if that is wanted.
pub fn environment(environment: Environment) -> Environment {
    match redactor().cloned() {
        None => environment,
        Some(redactor) => RedactedRows::new(redactor).environment(&environment),
    }
}

/// A filter for rows that may be redacted.
pub fn filter(filter: Filter) -> Filter {
    redactor().map_or_else(|| filter.clone(), |redactor| redactor.filter(&filter))
}

fn keyed(environment: &Environment) -> Option<Redactor> {
    let secret = iowhy_fs::read::bytes(MACHINE_ID.as_ref(), 4096)
        .ok()
        .filter(|secret| secret.len() >= 32)?;
    let Environment { host, kernel, start_ns, realtime_offset_ns, .. } = environment;
    let recording = format!("{host}\0{kernel}\0{start_ns}\0{realtime_offset_ns}");
    Some(Redactor::new(Redactor::derive_key(&secret, recording.as_bytes())))
}
