//! `iowhy-mcp`: iowhy's answers for agents, over the Model Context Protocol on standard input and
//! output.
//!
//! | where | what |
//! |---|---|
//! | [`server`] | the five tools and what they are told to be |
//! | [`arguments`] | what a tool is given, and the command line that it becomes |
//! | [`program`] | runs the command `iowhy`: time, size, cancellation |
//! | [`directories`] | where recordings are, and those of servers that were killed |
//! | [`answers`] | answers of at most 8 kB, and handles for the rest |
//!
//! It links nothing of iowhy: each tool runs the command that a person would type, so that both see
//! the same, and the host's binary needs no async runtime. It has no network.
//!
//! What does not belong here: anything about block I/O.
#![forbid(unsafe_code)]

mod answers;
mod arguments;
mod directories;
mod program;
mod server;

use clap::Parser;
use rmcp::ServiceExt;
use server::IowhyServer;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// Serves iowhy's answers to an agent over the Model Context Protocol (standard input and output).
#[derive(Parser, Debug)]
#[command(name = "iowhy-mcp", version)]
struct McpCli {
    /// The program iowhy [default: beside this program, else in PATH]
    #[arg(long, value_name = "PATH")]
    iowhy: Option<PathBuf>,
    /// Where recordings of watches are kept until this program ends [default: TMPDIR, else /tmp]
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Replace names of files, processes, hosts, users, containers and units by placeholders in
    /// every answer
    #[arg(long)]
    redact: bool,
    /// Seconds that a command may take, beyond the time of a watch
    #[arg(
        long,
        value_name = "SECONDS",
        default_value = "120",
        value_parser = clap::value_parser!(u64).range(1..=3600)
    )]
    timeout: u64,
}

fn main() -> ExitCode {
    if let Some(cause) = iowhy_fs::bound::become_program() {
        let _ = write!(std::io::stderr(), "{cause}");
        return ExitCode::from(program::NOT_STARTED as u8);
    }
    answer()
}

/// Answers until the client has gone, on the main thread: programs that it starts end with it.
#[tokio::main(flavor = "current_thread")]
async fn answer() -> ExitCode {
    match serve(McpCli::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(cause) => {
            // If standard error is closed, there is nowhere to report this.
            let _ = writeln!(std::io::stderr(), "iowhy-mcp: {cause}");
            ExitCode::FAILURE
        }
    }
}

/// Serves until the client closes standard input or a signal comes; recordings go with the server.
async fn serve(cli: McpCli) -> Result<(), String> {
    let program = cli.iowhy.unwrap_or_else(program::beside);
    let directory = cli.directory.unwrap_or_else(std::env::temp_dir);
    let server =
        IowhyServer::new(program, &directory, cli.redact, Duration::from_secs(cli.timeout))
            .map_err(|cause| {
                format!("failed to create a directory in {}: {cause}", directory.display())
            })?;
    let mut ended = signal(SignalKind::terminate()).map_err(|cause| cause.to_string())?;
    let mut interrupted = signal(SignalKind::interrupt()).map_err(|cause| cause.to_string())?;
    let serving = async {
        let service = server.serve(rmcp::transport::stdio()).await;
        let service = service.map_err(|cause| format!("failed to serve: {cause}"))?;
        service.waiting().await.map(|_| ()).map_err(|cause| format!("failed to serve: {cause}"))
    };
    tokio::select! {
        served = serving => served,
        _ = ended.recv() => Ok(()),
        _ = interrupted.recv() => Ok(()),
    }
}
