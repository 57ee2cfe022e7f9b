//! `iowhy import`.

use super::SourceArgs;
use clap::Args;
use std::path::PathBuf;

/// `iowhy import`.
#[derive(Args, Debug)]
pub struct ImportArgs {
    /// The source to read.
    #[command(flatten)]
    pub source: SourceArgs,
    /// Directory to create for the recording
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,
    /// Also keep every block event, for `iowhy events` and `iowhy export --format blktrace`
    #[arg(long)]
    pub events: bool,
}
