//! How an answer is shown, and where it stays.

use clap::Args;
use std::path::PathBuf;

/// Whether a watch stays.
#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Output")]
pub struct Keep {
    /// Also write the watch to this new directory, as a recording
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Don't keep this watch in memory for `iowhy explain 1`, `report`, `diff` and `reproduce`
    #[arg(long)]
    pub no_keep: bool,
}

/// How to show a summary.
#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Output")]
pub struct Show {
    /// Show all sections instead of only the first page
    #[arg(long, short = 'v')]
    pub full: bool,
    /// Print JSON with units: everything, or a summary of at most 8 kB
    #[arg(
        long,
        value_name = "HOW",
        value_enum,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "full"
    )]
    pub json: Option<Json>,
    /// Also write a page with charts to this new file; it opens in any browser without network
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    pub html: Option<PathBuf>,
    /// Also write a small page for a ticket to this new file: findings, evidence and three pictures
    /// in at most 200 kB
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "html"])]
    pub share: Option<PathBuf>,
}

/// Whether output is coloured.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WantedColour {
    /// On a terminal that can, unless NO_COLOR is set
    #[default]
    Auto,
    /// In a pipe, too
    Always,
    /// Nowhere
    Never,
}

/// The form of an answer, as `-o` named it before it named files in every command.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum OutputForm {
    /// For people, as without this option
    Text,
    /// As --json
    Json,
    /// As --json=brief
    Brief,
}

impl OutputForm {
    /// The same as an option of today.
    pub fn of_today(self) -> Option<Json> {
        match self {
            OutputForm::Text => None,
            OutputForm::Json => Some(Json::Full),
            OutputForm::Brief => Some(Json::Brief),
        }
    }
}

/// How much of a watch is printed as JSON.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Json {
    /// Everything
    Full,
    /// Findings, waits, devices and the top of each list in at most 8 kB
    Brief,
}
