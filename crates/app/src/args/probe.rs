//! `iowhy probe`.

use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

/// `iowhy probe`.
#[derive(Args, Debug)]
pub struct ProbeArgs {
    /// A device or a file to read; with --write or --etcd, a directory to create a file in, or a
    /// name that does not exist, for a directory with the file
    #[arg(value_name = "DEVICE|FILE", value_parser = super::device_or_file())]
    pub target: PathBuf,
    /// How long each part of the test takes: 3, 3s, 500ms
    #[arg(short, long, value_name = "TIME", default_value = "3s", value_parser = part)]
    pub time: Duration,
    /// Also write, with and without fdatasync, to a 256 MiB file that iowhy creates there and
    /// removes afterwards
    #[arg(long)]
    pub write: bool,
    /// Read at growing depths instead, and name the depth beyond which requests only wait longer
    #[arg(long, conflicts_with = "write")]
    pub depths: bool,
    /// Read growing sizes instead, and say what a large read costs
    #[arg(long, conflicts_with_all = ["write", "depths"])]
    pub sizes: bool,
    /// Test whether this directory's disk is fast enough for etcd instead: appends of 2,300 bytes
    /// with fdatasync, as in etcd's documentation
    #[arg(long, conflicts_with_all = ["write", "depths", "sizes"])]
    pub etcd: bool,
    /// Print the figures as JSON
    #[arg(long)]
    pub json: bool,
}

/// Parses the length of a part. The limit prevents a long test on a sick machine by mistake.
fn part(text: &str) -> Result<Duration, String> {
    match super::seconds(text)? {
        time if time > Duration::from_secs(60) => Err("longer than a minute".to_owned()),
        time => Ok(time),
    }
}
