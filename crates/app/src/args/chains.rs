//! `iowhy chains`.

use super::{Only, SourceOrWatch};
use clap::Args;

/// `iowhy chains`.
#[derive(Args, Debug)]
pub struct ChainsArgs {
    /// The source to read, or how long to watch.
    #[command(flatten)]
    pub source: SourceOrWatch,
    /// Print everything as JSON, with units
    #[arg(long)]
    pub json: bool,
    /// Which requests to keep.
    #[command(flatten)]
    pub only: Only,
}
