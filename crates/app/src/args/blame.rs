//! `iowhy blame`.

use super::SourceOrWatch;
use super::candidates::{devices, processes};
use clap::Args;
use clap_complete::ArgValueCandidates;

/// `iowhy blame`.
#[derive(Args, Debug)]
pub struct BlameArgs {
    /// The source to read, or how long to watch.
    #[command(flatten)]
    pub source: SourceOrWatch,
    /// Only this device (repeat for more): sda, /dev/nvme0n1
    #[arg(short, long = "device", value_name = "DEV", add = ArgValueCandidates::new(devices))]
    pub devices: Vec<String>,
    /// Only waits of this process, by PID or name; requests of all processes are kept
    #[arg(
        short,
        long = "process",
        value_name = "PID|NAME",
        add = ArgValueCandidates::new(processes),
    )]
    pub processes: Vec<String>,
    /// Print everything as JSON, with units
    #[arg(long)]
    pub json: bool,
}
