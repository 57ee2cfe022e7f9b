//! `iowhy plot`.

use super::{Only, SourceArgs};
use clap::Args;
use std::path::PathBuf;

/// `iowhy plot`.
#[derive(Args, Debug)]
pub struct Plot {
    /// The source to read.
    #[command(flatten)]
    pub source: SourceArgs,
    /// The image file to write: .svg or .png
    #[arg(short, long, value_name = "FILE", default_value = "iowhy.svg")]
    pub output: PathBuf,
    /// Which requests to keep.
    #[command(flatten)]
    pub only: Only,
}
