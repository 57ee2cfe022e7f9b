//! The arguments of `iowhy explain`.

use super::candidates::causes;
use clap::Args;
use clap_complete::ArgValueCandidates;
use std::path::PathBuf;

/// `iowhy explain`.
#[derive(Args, Debug)]
pub struct Explain {
    /// A cause's id, or the number of a finding in SOURCE or in the last watch; without it, list
    /// all causes. A SOURCE alone lists the causes with what was found of each
    #[arg(value_name = "CAUSE|FINDING|SOURCE", add = ArgValueCandidates::new(causes))]
    pub what: Option<String>,
    /// A recording or a capture: also show what it contains of the cause
    #[arg(value_name = "SOURCE")]
    pub paths: Vec<PathBuf>,
    /// Print JSON, with units
    #[arg(long)]
    pub json: bool,
}
