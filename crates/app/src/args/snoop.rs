//! `iowhy snoop`.

use super::{Only, SOURCE};
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

/// `iowhy snoop`.
#[derive(Args, Debug)]
pub struct Snoop {
    /// What to read; nothing to watch this machine
    #[arg(value_name = "SOURCE", help = format!("{SOURCE}; without one, watch this machine"))]
    pub paths: Vec<PathBuf>,
    /// Seconds to watch; without it, until Ctrl-C
    #[arg(short, long, value_name = "SECONDS", value_parser = super::seconds, conflicts_with = "paths")]
    pub time: Option<Duration>,
    /// Also the time from queueing to the issue to the driver
    #[arg(short = 'Q', long)]
    pub queued: bool,
    /// Print each request as one line of JSON, for programs
    #[arg(long)]
    pub json: bool,
    /// All columns, however wide they are
    #[arg(long)]
    pub wide: bool,
    /// What to keep.
    #[command(flatten)]
    pub only: Only,
}
