//! `iowhy probe`.

use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

/// `iowhy probe`.
#[derive(Args, Debug)]
pub struct Probe {
    /// A device or a file to read; with --write, a directory to make a file in
    #[arg(value_name = "DEVICE|FILE", value_parser = super::device_or_file())]
    pub target: PathBuf,
    /// Seconds for each part of the test
    #[arg(short, long, value_name = "SECONDS", default_value = "3", value_parser = part)]
    pub time: Duration,
    /// Write too: into a file of 256 MiB that iowhy makes in this directory and removes again
    #[arg(long)]
    pub write: bool,
    /// Print the figures as JSON, for programs
    #[arg(long)]
    pub json: bool,
}

/// The test is short: nobody leaves it running on a sick machine by mistake.
fn part(text: &str) -> Result<Duration, String> {
    match super::seconds(text)? {
        time if time > Duration::from_secs(60) => Err("longer than a minute".to_owned()),
        time => Ok(time),
    }
}
