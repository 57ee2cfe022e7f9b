//! `iowhy`: why is my disk slow?
//!
//! | where | what |
//! |---|---|
//! | [`args`] | the command line |
//! | [`commands`] | a module for each command |
//! | [`sources`] | what the user names as a source: a recording or a capture |
//! | [`watching`] | drives a live watch: time, signals, progress |
//! | [`intervals`] | drives the views of intervals |
//! | [`output`] | standard output and error: the only place that prints |
//! | [`failure`] | messages, hints and exit codes |
//!
//! What does not belong here: anything about block I/O.
#![forbid(unsafe_code)]

mod args;
mod commands;
mod failure;
mod intervals;
mod output;
mod sources;
mod watching;

use clap::Parser;
use iowhy_capture::reader;
use std::process::ExitCode;

fn main() -> ExitCode {
    if reader::is_asked_for() {
        // Nobody is there to be told what went wrong, and the parent process sees the end of the pipe.
        let served = reader::serve(std::io::stdin().lock(), std::io::stdout());
        return served.map_or(ExitCode::from(failure::FAILED), |()| ExitCode::SUCCESS);
    }
    let cli = args::Cli::parse();
    let result = match &cli.command {
        None => commands::watch::run(&cli.watch, &cli.show),
        Some(args::Command::Record(record)) => commands::record::run(record),
        Some(args::Command::Report(report)) => commands::report::run(report),
        Some(args::Command::Events(events)) => commands::events::run(events),
        Some(args::Command::Stages(stages)) => commands::stages::run(stages),
        Some(args::Command::Chains(chains)) => commands::chains::run(chains),
        Some(args::Command::Import(import)) => commands::import::run(import),
        Some(args::Command::Export(export)) => commands::export::run(export),
        Some(args::Command::Locate(locate)) => commands::locate::run(locate),
        Some(args::Command::Plot(plot)) => commands::plot::run(plot),
        Some(args::Command::Stat(stat)) => commands::views::stat(stat),
        Some(args::Command::Latency(latency)) => commands::views::latency(latency),
        Some(args::Command::Files(files)) => commands::views::files(files),
        Some(args::Command::Opens(opens)) => commands::opens::run(opens),
        Some(args::Command::Diff(diff)) => commands::diff::run(diff),
        Some(args::Command::Explain(explain)) => commands::explain::run(explain),
        Some(args::Command::Blame(blame)) => commands::blame::run(blame),
        Some(args::Command::Proc(proc)) => commands::views::proc(proc),
        Some(args::Command::Snoop(snoop)) => commands::snoop::run(snoop),
        Some(args::Command::Stacks(stacks)) => commands::views::stacks::run(stacks),
        Some(args::Command::Waits(waits)) => commands::views::waits(waits),
        Some(args::Command::Cache(cache)) => commands::views::cache(cache),
        Some(args::Command::Probe(probe)) => commands::probe::run(probe),
        Some(args::Command::Check(check)) => commands::check::run(check),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output::failure(&failure);
            ExitCode::from(failure.code)
        }
    }
}
