//! `iowhy-labs`: the command line of the labs (`cargo lab ...`).
#![forbid(unsafe_code)]

use clap::{Parser, Subcommand};
use iowhy_labs::workload::Workload;
use iowhy_labs::{Result, scratch};
use std::io::Write;
use std::process::ExitCode;

/// Scratch devices, workloads and benchmarks for iowhy.
#[derive(Parser)]
#[command(name = "iowhy-labs", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Removes what killed labs left: mounts, loop and zram devices, cgroups, files.
    Clean,
    /// Does the I/O of a test.
    #[command(subcommand, hide = true)]
    Workload(Workload),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // There is nowhere left to say that standard error is closed.
            let _closed = writeln!(std::io::stderr(), "iowhy-labs: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: &Command) -> Result<()> {
    match command {
        Command::Clean => scratch::remove_dead(),
        Command::Workload(workload) => workload.run(),
    }
}
