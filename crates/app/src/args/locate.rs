//! `iowhy locate`.

use clap::Args;
use std::path::PathBuf;

/// `iowhy locate`.
#[derive(Args, Debug)]
#[command(
    after_help = "With a DEVICE, prints the file of each BLOCK, or of each line of standard input. \
    With a regular FILE and no BLOCK, prints the location of the file."
)]
pub struct Locate {
    /// A disk, a partition or an image of one; or a file to locate on its device
    #[arg(value_name = "DEVICE|FILE", value_parser = super::device_or_file())]
    pub path: PathBuf,
    /// Offsets in 512-byte sectors from the start of DEVICE; `-` reads them from standard input
    #[arg(value_name = "BLOCK")]
    pub blocks: Vec<String>,
    /// BLOCKs are blocks of the file system on DEVICE, in its block size
    #[arg(long)]
    pub fs_block: bool,
    /// Print a JSON object per result
    #[arg(long)]
    pub json: bool,
}
