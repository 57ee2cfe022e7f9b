//! `iowhy diff`.

use clap::Args;
use std::path::PathBuf;

/// `iowhy diff`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  iowhy diff before after               what changed between two recordings
  iowhy diff good-host bad-host -d sda=nvme0n1
  iowhy diff recording -d sda=sdb       a drive against its sibling, in one recording")]
pub struct Diff {
    /// The first watch: a recording, or a capture by its common prefix (see `iowhy report --help`)
    #[arg(value_name = "A")]
    pub a: PathBuf,
    /// The second; without it, A again: devices of one watch against each other, with -d
    #[arg(value_name = "B", required_unless_present = "devices")]
    pub b: Option<PathBuf>,
    /// Compare this device of A with that of B; one name is that device of both (repeat for more).
    /// Without it, devices of the same name are compared, else the busiest of each
    #[arg(short, long = "device", value_name = "DEV=DEV", value_parser = devices)]
    pub devices: Vec<(String, String)>,
    /// Columns to draw for [default: the terminal's]
    #[arg(long, value_name = "COLUMNS")]
    pub width: Option<usize>,
    /// Print everything as JSON, with units, for programs
    #[arg(long)]
    pub json: bool,
}

fn devices(text: &str) -> Result<(String, String), String> {
    let (a, b) = text.split_once('=').unwrap_or((text, text));
    match a.is_empty() || b.is_empty() {
        true => Err("a device's name is missing: sda=sdb, or sda".to_owned()),
        false => Ok((a.to_owned(), b.to_owned())),
    }
}
