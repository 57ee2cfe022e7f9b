//! `iowhy chains`.

use super::{Only, SourceOrWatch};
use clap::Args;

/// `iowhy chains`.
#[derive(Args, Debug)]
pub struct Chains {
    /// What to read, or how long to watch.
    #[command(flatten)]
    pub source: SourceOrWatch,
    /// Print everything as JSON, with units, for programs
    #[arg(long)]
    pub json: bool,
    /// What to keep.
    #[command(flatten)]
    pub only: Only,
}
