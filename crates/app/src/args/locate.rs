//! `iowhy locate`.

use clap::Args;
use std::path::PathBuf;

/// `iowhy locate`.
#[derive(Args, Debug)]
#[command(
    after_help = "With a DEVICE, answers for each BLOCK, or for each line of standard input. \
    With a FILE that is no device and no BLOCK, says where the file is."
)]
pub struct Locate {
    /// A disk, a partition, an image of one; or a file to be found on its device
    #[arg(value_name = "DEVICE|FILE", value_parser = super::device_or_file())]
    pub path: PathBuf,
    /// Sectors of 512 bytes from the beginning of DEVICE; `-` reads them from standard input
    #[arg(value_name = "BLOCK")]
    pub blocks: Vec<String>,
    /// Blocks are those of the file system on DEVICE, in its own block size
    #[arg(long)]
    pub fs_block: bool,
    /// Print a JSON object for each answer
    #[arg(long)]
    pub json: bool,
}
