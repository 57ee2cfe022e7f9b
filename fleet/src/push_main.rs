//! The binary `iowhy-fleet-push`: `iowhy-fleet push` by itself, for every host.
//!
//! What does not belong here: questions.
#![forbid(unsafe_code)]

mod push_args;
mod push_command;

use clap::{Args, Command, CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;
use iowhy_fleet::error::{FleetContext, FleetError, Result};
use iowhy_fleet::output::{make_private, safe_lines};
use iowhy_manual::ManualTexts;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The exit code when another try may succeed, as in sysexits.h.
const TEMPORARY_FAILURE: u8 = 75;

const NAME: &str = "iowhy-fleet-push";

/// Sends what the recorder of this host has and the store has not: `iowhy-fleet push`.
#[derive(Debug, Parser)]
#[command(name = NAME, version)]
struct PushProgram {
    #[command(flatten)]
    push: push_args::PushArgs,
}

/// What a package installs beside the program.
#[derive(Debug, Subcommand)]
enum PackageCommand {
    /// Print a script that completes options in a shell
    #[command(hide = true)]
    Completions(CompletionArgs),
    /// Write the manual page
    #[command(hide = true)]
    Man(ManualArgs),
}

#[derive(Args, Debug)]
struct CompletionArgs {
    /// The shell that reads the script
    #[arg(value_enum)]
    shell: Shell,
}

#[derive(Args, Debug)]
struct ManualArgs {
    /// Directory for the page; created if it does not exist
    #[arg(value_name = "DIR")]
    output: PathBuf,
}

/// The command line: a package's commands need nothing of what an upload needs.
fn command_line() -> Command {
    PackageCommand::augment_subcommands(PushProgram::command())
        .subcommand_required(false)
        .arg_required_else_help(false)
        .args_conflicts_with_subcommands(true)
        .subcommand_negates_reqs(true)
        .disable_help_subcommand(true)
}

fn completions(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut PushProgram::command(), NAME, &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

fn write_page(directory: &Path) -> Result<()> {
    let texts = ManualTexts {
        version: env!("CARGO_PKG_VERSION"),
        examples: &[(
            "iowhy-fleet-push --at s3://bucket/fleet",
            "Send what this host's recorder keeps.",
        )],
        sections: &[],
        exit_codes: "0: done. 1: it failed. 2: the command line is wrong. 75: the store failed \
            for longer than it was tried again; another try may succeed.",
        see_also: "iowhy(8), iowhy-daemon(8), iowhy-fleet(8)",
        commands: &[],
    };
    iowhy_manual::write_pages(PushProgram::command(), &texts, directory)
        .context(|| format!("write the manual page into {}", directory.display()))
}

async fn run() -> Result<String> {
    let matches = command_line().get_matches();
    let wrong = |error: clap::Error| FleetError::new(error.to_string());
    if matches.subcommand_name().is_some() {
        return match PackageCommand::from_arg_matches(&matches).map_err(wrong)? {
            PackageCommand::Completions(args) => Ok(completions(args.shell)),
            PackageCommand::Man(args) => write_page(&args.output).map(|()| String::new()),
        };
    }
    push_command::run_push(PushProgram::from_arg_matches(&matches).map_err(wrong)?.push).await
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    make_private();
    match run().await {
        Ok(text) => match std::io::stdout().lock().write_all(text.as_bytes()) {
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => ExitCode::FAILURE,
            _ => ExitCode::SUCCESS,
        },
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "{NAME}: {}", safe_lines(&error.to_string()));
            match error.is_transient {
                true => ExitCode::from(TEMPORARY_FAILURE),
                false => ExitCode::FAILURE,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_and_completions_need_no_store() {
        command_line().debug_assert();
        let parse = |line: &str| command_line().try_get_matches_from(line.split(' '));
        assert!(parse("iowhy-fleet-push man /tmp").is_ok());
        assert!(parse("iowhy-fleet-push --at /srv/fleet --bandwidth 9").is_ok());
        assert!(parse("iowhy-fleet-push --at /srv/fleet man /tmp").is_err());
        let folder = tempfile::tempdir().unwrap();
        write_page(folder.path()).unwrap();
        let page = std::fs::read_to_string(folder.path().join("iowhy-fleet-push.8")).unwrap();
        assert!(page.contains(".SH OPTIONS") && page.contains("EXIT STATUS"), "{page}");
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            assert!(completions(shell).contains("bandwidth"), "{shell}");
        }
    }
}
