//! `iowhy snoop`.

use super::{Only, SOURCE};
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

/// `iowhy snoop`.
#[derive(Args, Debug)]
pub struct Snoop {
    /// The source to read; empty to watch this machine
    #[arg(value_name = "SOURCE", help = format!("{SOURCE}; without one, watch this machine"))]
    pub paths: Vec<PathBuf>,
    /// How long to watch: 30, 30s, 5m; without it, until Ctrl-C
    #[arg(
        short,
        long,
        value_name = "TIME",
        value_parser = super::seconds,
        conflicts_with = "paths",
    )]
    pub time: Option<Duration>,
    /// Also show the time from queueing to issue to the driver
    #[arg(short = 'Q', long)]
    pub queued: bool,
    /// Print each request as one line of JSON
    #[arg(long)]
    pub json: bool,
    /// Show seconds since the watch began (CLOCK_MONOTONIC) instead of the time of day
    #[arg(long)]
    pub monotonic: bool,
    /// Show all columns in full width
    #[arg(long)]
    pub wide: bool,
    /// Which requests to keep.
    #[command(flatten)]
    pub only: Only,
}
