//! `iowhy import`.

use super::Source;
use clap::Args;
use std::path::PathBuf;

/// `iowhy import`.
#[derive(Args, Debug)]
pub struct Import {
    /// What to read.
    #[command(flatten)]
    pub source: Source,
    /// Directory to make for the recording
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,
    /// Also keep every single block event, for `iowhy events` and `iowhy export --format blktrace`
    #[arg(long)]
    pub events: bool,
}
