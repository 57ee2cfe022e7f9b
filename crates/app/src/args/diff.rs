//! `iowhy diff`.

use clap::Args;
use std::path::PathBuf;

/// `iowhy diff`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  iowhy diff                            the last two watches: without and with a fix
  iowhy diff before after               what changed between two recordings
  iowhy diff good-host bad-host -d sda=nvme0n1
  iowhy diff recording -d sda=sdb       a drive against its sibling, in one recording")]
pub struct Diff {
    /// The first watch: a recording, or a capture by its common prefix (see `iowhy report --help`);
    /// without it, the watch before the last one
    #[arg(value_name = "A")]
    pub a: Option<PathBuf>,
    /// The second watch; without it, the last one, or with -d A=B another device of A
    #[arg(value_name = "B")]
    pub b: Option<PathBuf>,
    /// Compare a device of A with one of B; a single name means the same name in both (repeat for
    /// more) [default: devices of the same name, else the busiest of each]
    #[arg(short, long = "device", value_name = "DEV=DEV", value_parser = devices)]
    pub devices: Vec<(String, String)>,
    /// Output width in columns [default: that of the terminal]
    #[arg(long, value_name = "COLUMNS")]
    pub width: Option<usize>,
    /// Print everything as JSON, with units
    #[arg(long)]
    pub json: bool,
    /// Write a page with charts to this new file; it opens in any browser without network
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "width"])]
    pub html: Option<PathBuf>,
}

fn devices(text: &str) -> Result<(String, String), String> {
    let (a, b) = text.split_once('=').unwrap_or((text, text));
    match a.is_empty() || b.is_empty() {
        true => Err("a device name is missing: expected sda=sdb or sda".to_owned()),
        false => Ok((a.to_owned(), b.to_owned())),
    }
}
