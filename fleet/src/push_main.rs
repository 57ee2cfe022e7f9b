//! The binary `iowhy-fleet-push`: `iowhy-fleet push` by itself, for every host.
//!
//! What does not belong here: questions.
#![forbid(unsafe_code)]

mod push_args;
mod push_command;

use clap::Parser;
use std::io::Write;
use std::process::ExitCode;

/// The exit code when another try may succeed, as in sysexits.h.
const TEMPORARY_FAILURE: u8 = 75;

/// Sends what the recorder of this host has and the store has not: `iowhy-fleet push`.
#[derive(Debug, Parser)]
#[command(name = "iowhy-fleet-push", version)]
struct PushProgram {
    #[command(flatten)]
    push: push_args::PushArgs,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match push_command::run_push(PushProgram::parse().push).await {
        Ok(text) => match std::io::stdout().lock().write_all(text.as_bytes()) {
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => ExitCode::FAILURE,
            _ => ExitCode::SUCCESS,
        },
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "iowhy-fleet-push: {error}");
            match error.is_transient {
                true => ExitCode::from(TEMPORARY_FAILURE),
                false => ExitCode::FAILURE,
            }
        }
    }
}
