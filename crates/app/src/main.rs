//! `iowhy`: why is my disk slow?
//!
//! | where | what |
//! |---|---|
//! | [`args`] | the command line |
//! | [`commands`] | a module for each command |
//! | [`sources`] | what the user names as a source: a recording or a capture |
//! | [`foreign`] | summaries and logs of other tools: `--as` |
//! | [`watching`] | drives a live watch: time, signals, progress |
//! | [`intervals`] | drives the views of intervals |
//! | [`last_watch`] | the last watch stays in memory |
//! | [`selection`], [`near`] | names that select nothing, and what was meant |
//! | [`own`] | `--own` |
//! | [`output`] | standard output and error: the only place that prints |
//! | [`progress`] | how far long work is |
//! | [`interruption`] | Ctrl-C, and a limit of file sizes, while something is written |
//! | [`partial`] | outputs that get their name when they are whole |
//! | [`redaction`] | `--redact` |
//! | [`slow_disk`] | a recording waits for its disk |
//! | [`unprivileged`] | the kernel's own counters, where a watch is not possible |
//! | [`failure`] | messages, hints and exit codes |
//!
//! What does not belong here: anything about block I/O.
#![forbid(unsafe_code)]

mod args;
mod commands;
mod convert;
mod failure;
mod foreign;
mod interruption;
mod intervals;
mod last_watch;
mod near;
mod output;
mod own;
mod partial;
mod progress;
mod redaction;
mod selection;
mod slow_disk;
mod sources;
mod summaries;
mod unprivileged;
mod watching;

use iowhy_capture::reader;
use std::process::ExitCode;

fn main() -> ExitCode {
    interruption::fail_at_size_limit();
    if reader::is_asked_for() {
        iowhy_fs::rights::keep_those_of_parent_only();
        iowhy_capture::confined::limit_reader(reader::role());
        // The parent process sees the end of the pipe; no one reads this process's messages.
        let served = reader::serve(std::io::stdin().lock(), std::io::stdout());
        return served.map_or(ExitCode::from(failure::FAILED), |()| ExitCode::SUCCESS);
    }
    if iowhy_reproduce::guard::become_guard() {
        return ExitCode::SUCCESS;
    }
    if let Some(cause) = iowhy_fs::bound::become_program() {
        output::note(&format!("iowhy: failed to start a program: {cause}"));
        return ExitCode::from(failure::FAILED);
    }
    // Answers the shell's question when Tab is pressed, which ends the process.
    commands::completions::answer();
    let cli = args::Cli::of_process();
    output::colour(cli.color);
    if cli.command.as_ref().is_some_and(only_reads) {
        iowhy_fs::rights::keep_own_rights_only();
    }
    if let Some(layout) = &cli.blkparse_format {
        foreign::read_by(layout.clone());
    }
    if let Some(word) = &cli.source_kind {
        foreign::force(word.clone());
    }
    if cli.own {
        own::show();
    }
    let result = match cli.redact.then(|| redaction::begin(cli.command.as_ref())) {
        Some(Err(failure)) => Err(failure),
        _ => run(&cli),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output::failure(&failure);
            ExitCode::from(failure.code)
        }
    }
}

/// Whether a command only reads files that its user names, for which the user's own rights suffice.
fn only_reads(command: &args::Command) -> bool {
    use args::Command;
    match command {
        Command::Report(_)
        | Command::Import(_)
        | Command::Diff(_)
        | Command::Reproduce(_)
        | Command::Incidents(_)
        | Command::History(_)
        | Command::Locate(_)
        | Command::Probe(_) => true,
        Command::Events(events) => !events.source.paths.is_empty(),
        _ => false,
    }
}

fn run(cli: &args::Cli) -> Result<(), failure::Failure> {
    match &cli.command {
        None => commands::watch::run(cli),
        Some(args::Command::Record(record)) => commands::record::run(record),
        Some(args::Command::Report(report)) => commands::report::run(report),
        Some(args::Command::Events(events)) => commands::events::run(events),
        Some(args::Command::Stages(stages)) => commands::stages::run(stages),
        Some(args::Command::Chains(chains)) => commands::chains::run(chains),
        Some(args::Command::Import(import)) => commands::import::run(import),
        Some(args::Command::Export(export)) => commands::export::run(export),
        Some(args::Command::Locate(locate)) => commands::locate::run(locate),
        Some(args::Command::Top(top)) => commands::top::run(top),
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
        Some(args::Command::Reproduce(reproduce)) => commands::reproduce::run(reproduce),
        Some(args::Command::Rerun(rerun)) => commands::reproduce::rerun::run(rerun),
        Some(args::Command::Replay(replay)) => commands::reproduce::replay::run(replay),
        Some(args::Command::Verify(verify)) => commands::reproduce::verify::run(verify),
        Some(args::Command::Daemon(daemon)) => commands::daemon::run(daemon),
        Some(args::Command::Capture(capture)) => commands::daemon::capture(capture),
        Some(args::Command::Incidents(incidents)) => commands::incidents::run(incidents),
        Some(args::Command::History(history)) => commands::history::run(history),
        Some(args::Command::Check(check)) => commands::check::run(check),
        Some(args::Command::Completions(shell)) => commands::completions::print(shell),
        Some(args::Command::Man(man)) => commands::manual::write_pages(man),
        Some(args::Command::Schema(schema)) => commands::schema::run(schema),
    }
}
