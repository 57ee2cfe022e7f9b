//! `iowhy opens`.

use clap::Args;

/// `iowhy opens`.
#[derive(Args, Debug)]
pub struct Opens {
    /// Show who holds what open now, deleted files with the space that they take (replaces lsof)
    #[arg(long, required = true)]
    pub held: bool,
    /// Only this process, by number or name (repeat for more)
    #[arg(short, long = "process", value_name = "PID|NAME")]
    pub processes: Vec<String>,
    /// Only files whose path begins like this (repeat for more)
    #[arg(short, long = "file", value_name = "PREFIX")]
    pub files: Vec<String>,
    /// Print JSON, for programs
    #[arg(long)]
    pub json: bool,
    /// Paths as long as they are
    #[arg(long)]
    pub wide: bool,
}
