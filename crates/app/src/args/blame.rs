//! `iowhy blame`.

use super::SourceOrWatch;
use clap::Args;

/// `iowhy blame`.
#[derive(Args, Debug)]
pub struct Blame {
    /// What to read, or how long to watch.
    #[command(flatten)]
    pub source: SourceOrWatch,
    /// Only this device (repeat for more): sda, /dev/nvme0n1
    #[arg(short, long = "device", value_name = "DEV")]
    pub devices: Vec<String>,
    /// Only what this process waited for, by number or name; everybody's requests stay
    #[arg(short, long = "process", value_name = "PID|NAME")]
    pub processes: Vec<String>,
    /// Print everything as JSON, with units, for programs
    #[arg(long)]
    pub json: bool,
}
