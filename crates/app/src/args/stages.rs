//! `iowhy stages`. Short options of data files are those of btt.

use super::{Only, SourceOrWatch};
use clap::Args;
use iowhy_blktrace::btt::{BttFileKind, DataFiles};
use std::path::PathBuf;

/// `iowhy stages`.
#[derive(Args, Debug)]
pub struct StagesArgs {
    /// The source to read, or how long to watch.
    #[command(flatten)]
    pub source: SourceOrWatch,
    /// Print exactly the figures of btt 1.3.0, paired as btt does
    #[arg(long)]
    pub btt_compat: bool,
    /// With --btt-compat, also print btt's figures per process and per device
    #[arg(short = 'A', long, requires = "btt_compat")]
    pub all_data: bool,
    /// With --btt-compat, write PREFIX.avg, PREFIX.dat and PREFIX.msg as btt does
    #[arg(short, long, value_name = "PREFIX", requires = "btt_compat")]
    pub output: Option<PathBuf>,
    /// Print the figures as JSON, with units
    #[arg(long, conflicts_with = "btt_compat")]
    pub json: bool,
    /// Data files.
    #[command(flatten)]
    pub files: BttFiles,
    /// Which requests to keep.
    #[command(flatten)]
    pub only: Only,
}

/// Which of btt's data files to write.
#[derive(Args, Debug)]
#[command(next_help_heading = "Data files as btt writes them")]
pub struct BttFiles {
    /// D2C of each bio: PREFIX_8,0_d2c.dat
    #[arg(short = 'l', long, value_name = "PREFIX")]
    pub d2c_latencies: Option<PathBuf>,
    /// Q2C of each bio: PREFIX_8,0_q2c.dat
    #[arg(short = 'q', long, value_name = "PREFIX")]
    pub q2c_latencies: Option<PathBuf>,
    /// Time and sectors of each issue: PREFIX_8,0_{r,w,c}.dat
    #[arg(short = 'B', long, value_name = "PREFIX")]
    pub dump_blocknos: Option<PathBuf>,
    /// Distances from Q to Q and from D to D: PREFIX_8,0_{q2q,d2d}_{r,w,c}.dat
    #[arg(short = 's', long, value_name = "PREFIX")]
    pub seeks: Option<PathBuf>,
    /// Requests at the device: PREFIX_8,0_aqd.dat
    #[arg(short = 'Q', long, value_name = "PREFIX")]
    pub active_queue_depth: Option<PathBuf>,
}

impl BttFiles {
    /// Returns the data files to write, if any.
    pub fn wanted(&self) -> Option<DataFiles> {
        let wanted = [
            (BttFileKind::D2c, &self.d2c_latencies),
            (BttFileKind::Q2c, &self.q2c_latencies),
            (BttFileKind::Blocks, &self.dump_blocknos),
            (BttFileKind::QueueSeeks, &self.seeks),
            (BttFileKind::IssueSeeks, &self.seeks),
            (BttFileKind::Depth, &self.active_queue_depth),
        ];
        let mut files = None;
        for (kind, prefix) in wanted {
            if let Some(prefix) = prefix {
                files.get_or_insert_with(DataFiles::default).add(kind, prefix.clone());
            }
        }
        files
    }
}
