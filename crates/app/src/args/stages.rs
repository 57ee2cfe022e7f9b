//! `iowhy stages`. The letters of data files are btt's.

use super::{Only, SourceOrWatch};
use clap::Args;
use iowhy_core::analysis::stages::btt::{DataFiles, FileKind};
use std::path::PathBuf;

/// `iowhy stages`.
#[derive(Args, Debug)]
pub struct Stages {
    /// What to read, or how long to watch.
    #[command(flatten)]
    pub source: SourceOrWatch,
    /// The figures of btt 1.3.0, to the digit, with its way of pairing
    #[arg(long)]
    pub btt_compat: bool,
    /// With --btt-compat, also its figures per process and per device
    #[arg(short = 'A', long, requires = "btt_compat")]
    pub all_data: bool,
    /// With --btt-compat, write PREFIX.avg, PREFIX.dat and PREFIX.msg as btt does
    #[arg(short, long, value_name = "PREFIX", requires = "btt_compat")]
    pub output: Option<PathBuf>,
    /// Print the figures as JSON, with units, for programs
    #[arg(long, conflicts_with = "btt_compat")]
    pub json: bool,
    /// Data files.
    #[command(flatten)]
    pub files: Files,
    /// What to keep.
    #[command(flatten)]
    pub only: Only,
}

/// Which of btt's data files to write.
#[derive(Args, Debug)]
#[command(next_help_heading = "Data files as btt writes them")]
pub struct Files {
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

impl Files {
    /// The files, if any were asked for.
    pub fn wanted(&self) -> Option<DataFiles> {
        let wanted = [
            (FileKind::D2c, &self.d2c_latencies),
            (FileKind::Q2c, &self.q2c_latencies),
            (FileKind::Blocks, &self.dump_blocknos),
            (FileKind::QueueSeeks, &self.seeks),
            (FileKind::IssueSeeks, &self.seeks),
            (FileKind::Depth, &self.active_queue_depth),
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
