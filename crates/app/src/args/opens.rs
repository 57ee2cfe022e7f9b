//! `iowhy opens`.

use super::SOURCE;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

/// `iowhy opens`.
#[derive(Args, Debug)]
pub struct Opens {
    /// What to read; nothing to watch this machine
    #[arg(value_name = "SOURCE", help = format!("{SOURCE}; without one, watch this machine"))]
    pub paths: Vec<PathBuf>,
    /// Seconds to watch; without it, until Ctrl-C
    #[arg(short, long, value_name = "SECONDS", value_parser = super::seconds, conflicts_with = "paths")]
    pub time: Option<Duration>,
    /// Show who holds what open now, deleted files with the space that they take (replaces lsof)
    #[arg(long, conflicts_with_all = ["paths", "time"])]
    pub held: bool,
    /// Only this process, by number or name (repeat for more)
    #[arg(short, long = "process", value_name = "PID|NAME")]
    pub processes: Vec<String>,
    /// Only files whose path begins like this (repeat for more)
    #[arg(short, long = "file", value_name = "PREFIX")]
    pub files: Vec<String>,
    /// Print JSON, for programs
    #[arg(long)]
    pub json: bool,
    /// Paths as long as they are
    #[arg(long)]
    pub wide: bool,
}
