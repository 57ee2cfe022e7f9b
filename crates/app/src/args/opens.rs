//! `iowhy opens`.

use super::SOURCE;
use super::candidates::{devices, processes};
use clap::Args;
use clap_complete::ArgValueCandidates;
use std::path::PathBuf;
use std::time::Duration;

/// `iowhy opens`.
#[derive(Args, Debug)]
pub struct Opens {
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
    /// List files open now, and the space taken by deleted ones (replaces lsof)
    #[arg(long, conflicts_with_all = ["paths", "time"])]
    pub held: bool,
    /// Only files on this device (repeat for more): sda, /dev/nvme0n1p2; a partition counts as its
    /// disk
    #[arg(short, long = "device", value_name = "DEV", add = ArgValueCandidates::new(devices))]
    pub devices: Vec<String>,
    /// Only this process, by PID or name (repeat for more)
    #[arg(
        short,
        long = "process",
        value_name = "PID|NAME",
        add = ArgValueCandidates::new(processes),
    )]
    pub processes: Vec<String>,
    /// Only files whose path starts with PREFIX (repeat for more)
    #[arg(short, long = "file", value_name = "PREFIX")]
    pub files: Vec<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Don't truncate paths
    #[arg(long)]
    pub wide: bool,
}
