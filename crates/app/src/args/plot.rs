//! `iowhy plot`.

use super::Only;
use clap::Args;
use std::path::PathBuf;

/// `iowhy plot`.
#[derive(Args, Debug)]
pub struct Plot {
    /// The recording's directory
    #[arg(value_name = "DIR")]
    pub recording: PathBuf,
    /// The picture to write: .svg or .png
    #[arg(short, long, value_name = "FILE", default_value = "iowhy.svg")]
    pub output: PathBuf,
    /// What to keep.
    #[command(flatten)]
    pub only: Only,
}
