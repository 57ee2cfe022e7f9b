//! The arguments of `iowhy explain`.

use clap::Args;
use std::path::PathBuf;

/// `iowhy explain`.
#[derive(Args, Debug)]
pub struct Explain {
    /// A cause's id, or the number of a finding in SOURCE; without it, list all causes
    #[arg(value_name = "CAUSE|FINDING")]
    pub what: Option<String>,
    /// A recording or a capture: also show what it contains of the cause
    #[arg(value_name = "SOURCE")]
    pub paths: Vec<PathBuf>,
    /// Print JSON, with units
    #[arg(long)]
    pub json: bool,
}
