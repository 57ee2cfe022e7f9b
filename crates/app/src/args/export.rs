//! `iowhy export`.

use super::{Only, SOURCE};
use clap::{Args, ValueEnum};
use iowhy_analysis::formats::collapsed;
use std::path::PathBuf;

/// `iowhy export`.
#[derive(Args, Debug)]
pub struct Export {
    /// The source to read; empty for the last watch
    #[arg(value_name = "SOURCE", help = format!("{SOURCE}; without one, the last watch"))]
    pub paths: Vec<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value = "recording")]
    pub format: ExportFormat,
    /// Output file; of a recording and with --format blktrace, a new directory [default: standard
    /// output]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// The table to export, with --format csv
    #[arg(long, value_name = "TABLE", default_value = "requests", value_parser = table)]
    pub table: iowhy_analysis::formats::csv::Which,
    /// With --format csv for a spreadsheet: what it would take for a formula has a ' before it
    #[arg(long)]
    pub spreadsheet: bool,
    /// The weight of a stack, with --format collapsed
    #[arg(long, value_enum, default_value = "time")]
    pub weight: StackWeight,
    /// blktrace protocol version, with --format blktrace; Linux 6.19 and later write 8
    #[arg(
        long,
        value_name = "7|8",
        default_value = "7",
        value_parser = clap::value_parser!(u8).range(7..=8),
    )]
    pub protocol: u8,
    /// Which requests to keep.
    #[command(flatten)]
    pub only: Only,
}

/// The format of an export.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExportFormat {
    /// A recording: what the filter keeps of the source, with --redact without names
    Recording,
    /// A trace for ui.perfetto.dev
    Perfetto,
    /// A log that `fio --read_iolog` replays, for fio 3.31 and later
    Iolog,
    /// The same for any version of fio, with times in milliseconds
    IologV2,
    /// Folded stacks for flame graphs
    Collapsed,
    /// A profile for `pprof`: waits for storage and requests by stack
    Pprof,
    /// OpenTelemetry's JSON: devices' figures as metrics, findings as log records
    Otlp,
    /// The rows of one table
    Csv,
    /// Files for blkparse, btt and `fio --read_iolog`; needs a source with block events
    Blktrace,
}

/// The weight of a stack.
#[derive(ValueEnum, Clone, Copy, Debug)]
pub enum StackWeight {
    /// Microseconds from queueing to completion
    Time,
    /// Requests
    Requests,
    /// Bytes
    Bytes,
}

impl From<StackWeight> for collapsed::FrameWeight {
    fn from(weight: StackWeight) -> collapsed::FrameWeight {
        match weight {
            StackWeight::Requests => collapsed::FrameWeight::Requests,
            StackWeight::Bytes => collapsed::FrameWeight::Bytes,
            StackWeight::Time => collapsed::FrameWeight::Time,
        }
    }
}

fn table(text: &str) -> Result<iowhy_analysis::formats::csv::Which, String> {
    use iowhy_analysis::formats::csv::Which;
    Which::from_name(text).ok_or_else(|| {
        let names: Vec<&str> = Which::ALL.iter().map(|which| which.name()).collect();
        format!("expected one of {}", names.join(", "))
    })
}
