//! `iowhy chains`.

use super::{Only, Show, SourceOrWatch};
use clap::Args;

/// `iowhy chains`.
#[derive(Args, Debug)]
pub struct Chains {
    /// What to read, or how long to watch.
    #[command(flatten)]
    pub source: SourceOrWatch,
    /// How to show it.
    #[command(flatten)]
    pub show: Show,
    /// What to keep.
    #[command(flatten)]
    pub only: Only,
}
