//! `iowhy plot`.

use super::{Only, Source};
use clap::Args;
use std::path::PathBuf;

/// `iowhy plot`.
#[derive(Args, Debug)]
pub struct Plot {
    /// What to read.
    #[command(flatten)]
    pub source: Source,
    /// The picture to write: .svg or .png
    #[arg(short, long, value_name = "FILE", default_value = "iowhy.svg")]
    pub output: PathBuf,
    /// What to keep.
    #[command(flatten)]
    pub only: Only,
}
