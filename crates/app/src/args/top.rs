//! `iowhy top`.

use super::SOURCE;
use super::candidates::devices;
use clap::Args;
use clap_complete::ArgValueCandidates;
use std::path::PathBuf;

/// `iowhy top`.
#[derive(Args, Debug)]
pub struct TopArgs {
    /// The source to read; empty to watch this machine
    #[arg(value_name = "SOURCE", help = format!("{SOURCE}; without one, watch this machine"))]
    pub paths: Vec<PathBuf>,
    /// Only this device (repeat for more): sda, /dev/nvme0n1
    #[arg(short, long = "device", value_name = "DEV", add = ArgValueCandidates::new(devices))]
    pub devices: Vec<String>,
}
