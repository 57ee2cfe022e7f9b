//! The arguments of `iowhy completions` and `iowhy man`: what a package installs beside the
//! program.

use clap::Args;
use clap_complete::Shell;
use std::path::PathBuf;

/// `iowhy completions`.
#[derive(Args, Debug)]
pub struct CompletionsArgs {
    /// The shell that reads the script
    #[arg(value_enum)]
    pub shell: Shell,
}

/// `iowhy man`.
#[derive(Args, Debug)]
pub struct ManArgs {
    /// Directory for the pages; created if it does not exist
    #[arg(value_name = "DIR")]
    pub output: PathBuf,
}
