//! `iowhy export`.

use super::{Only, Source};
use clap::{Args, ValueEnum};
use iowhy_core::formats::collapsed;
use std::path::PathBuf;

/// `iowhy export`.
#[derive(Args, Debug)]
pub struct Export {
    /// What to read.
    #[command(flatten)]
    pub source: Source,
    /// What to write
    #[arg(long, value_enum)]
    pub format: Format,
    /// Where to write it [default: standard output]; a new directory, with --format blktrace
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// The table, with --format csv
    #[arg(long, value_name = "TABLE", default_value = "requests", value_parser = table)]
    pub table: iowhy_core::formats::csv::Which,
    /// What a stack is weighed by, with --format collapsed
    #[arg(long, value_enum, default_value = "time")]
    pub weight: Weight,
    /// blktrace's protocol, with --format blktrace: 8 is what Linux 6.19 and later write
    #[arg(long, value_name = "7|8", default_value = "7", value_parser = clap::value_parser!(u8).range(7..=8))]
    pub protocol: u8,
    /// What to keep.
    #[command(flatten)]
    pub only: Only,
}

/// What an export looks like.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// A trace for ui.perfetto.dev
    Perfetto,
    /// A log that `fio --read_iolog` replays, for fio 3.31 and later
    Iolog,
    /// The same for any fio, with times to the millisecond
    IologV2,
    /// Stacks for flame graphs
    Collapsed,
    /// The rows of one table
    Csv,
    /// Files that blkparse, btt and `fio --read_iolog` take; needs single events
    Blktrace,
}

/// What a stack is weighed by.
#[derive(ValueEnum, Clone, Copy, Debug)]
pub enum Weight {
    /// Microseconds from queueing to completion
    Time,
    /// Requests
    Requests,
    /// Bytes
    Bytes,
}

impl From<Weight> for collapsed::Weight {
    fn from(weight: Weight) -> collapsed::Weight {
        match weight {
            Weight::Requests => collapsed::Weight::Requests,
            Weight::Bytes => collapsed::Weight::Bytes,
            Weight::Time => collapsed::Weight::Time,
        }
    }
}

fn table(text: &str) -> Result<iowhy_core::formats::csv::Which, String> {
    use iowhy_core::formats::csv::Which;
    Which::from_name(text).ok_or_else(|| {
        let names: Vec<&str> = Which::ALL.iter().map(|which| which.name()).collect();
        format!("one of {}", names.join(", "))
    })
}
