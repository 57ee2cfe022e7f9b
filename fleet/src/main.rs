//! The binary `iowhy-fleet`: arguments, output, exit codes.
//!
//! What does not belong here: anything else.
#![forbid(unsafe_code)]

mod args;
mod commands;
mod manual;
mod push_args;
mod push_command;

use args::FleetArgs;
use clap::Parser;
use iowhy_fleet::output::{make_private, safe_lines};
use std::io::Write;
use std::process::ExitCode;

/// The exit code when another try may succeed, as in sysexits.h.
const TEMPORARY_FAILURE: u8 = 75;
/// The exit code of `--exit-code` when something is slow or silent.
const ALARM: u8 = 10;
/// Stack of the threads that plan queries: parsing and optimizing recurse.
const STACK_BYTES: usize = 16 << 20;

fn main() -> ExitCode {
    let args = FleetArgs::parse();
    make_private();
    env_logger::Builder::new()
        .filter_level(log_level())
        .parse_env("IOWHY_FLEET_LOG")
        .target(env_logger::Target::Stderr)
        .init();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_stack_size(STACK_BYTES)
        .build();
    let result = match runtime {
        Ok(runtime) => {
            let result = runtime.block_on(commands::run(args.command));
            // Results of a query that ran out of time are not needed any more.
            runtime.shutdown_background();
            result
        }
        Err(error) => {
            let message = format!("failed to start threads: {error}");
            Err(iowhy_fleet::error::FleetError::new(message))
        }
    };
    match result {
        Ok(said) => match std::io::stdout().lock().write_all(said.text.as_bytes()) {
            // A reader such as head has closed the pipe.
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => ExitCode::FAILURE,
            _ if said.is_alarm => ExitCode::from(ALARM),
            _ => ExitCode::SUCCESS,
        },
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "iowhy-fleet: {}", safe_lines(&error.to_string()));
            match error.is_transient {
                true => ExitCode::from(TEMPORARY_FAILURE),
                false => ExitCode::FAILURE,
            }
        }
    }
}

/// Returns the level of messages: only the servers of a cluster log while they run.
fn log_level() -> log::LevelFilter {
    log::LevelFilter::Error
}
