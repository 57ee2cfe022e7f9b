//! The command line of the flight recorder.

use super::amounts::megabytes_from;
use super::candidates::{devices, incidents};
use clap::{Args, Subcommand};
use clap_complete::ArgValueCandidates;
use iowhy_recorder::config::RecorderConfig;
use iowhy_recorder::units::TimeSpan;
use std::path::PathBuf;

/// Where the daemon keeps what it records.
#[derive(Args, Debug, Clone)]
pub struct DaemonPlaces {
    /// Configuration file [default: /etc/iowhy/iowhy.toml if it exists]
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Directory of incidents and history, instead of the configured one
    #[arg(long, global = true, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Directory in memory for the ring and the control socket, instead of the configured one
    #[arg(long, global = true, value_name = "DIR")]
    pub runtime: Option<PathBuf>,
}

/// `iowhy daemon`.
#[derive(Args, Debug)]
pub struct DaemonArgs {
    /// Where it keeps what it records.
    #[command(flatten)]
    pub places: DaemonPlaces,
    /// Only check the configuration
    #[arg(long)]
    pub check_config: bool,
    /// How far back the ring reaches, instead of the configured time: 10m, 1h
    #[arg(long, value_name = "TIME")]
    pub keep: Option<TimeSpan>,
    /// Maximum size of the ring, instead of the configured one: 64M, 1G; a number alone is in MB
    #[arg(long, value_name = "SIZE", value_parser = megabytes_from(16))]
    pub keep_mb: Option<u32>,
    /// Maximum size of all incidents, instead of the configured one: 500M, 2G; a number alone is in
    /// MB. The oldest that is not pinned is removed first
    #[arg(long, value_name = "SIZE", value_parser = megabytes_from(1))]
    pub incidents_mb: Option<u32>,
}

/// `iowhy capture`.
#[derive(Args, Debug)]
pub struct CaptureArgs {
    /// Where the daemon is.
    #[command(flatten)]
    pub places: DaemonPlaces,
    /// Why, in a few words; it is kept with the incident
    #[arg(value_name = "REASON", default_value = "")]
    pub reason: String,
}

/// `iowhy incidents`.
#[derive(Args, Debug)]
pub struct IncidentsArgs {
    /// Where they are.
    #[command(flatten)]
    pub places: DaemonPlaces,
    /// Print the list as JSON
    #[arg(long)]
    pub json: bool,
    /// What to do; without it, list them.
    #[command(subcommand)]
    pub action: Option<IncidentAction>,
}

/// What to do with incidents.
#[derive(Subcommand, Debug)]
pub enum IncidentAction {
    /// List all incidents
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show why an incident was kept and what was found
    Show {
        /// The incident's number, or its directory, which may be a copy from another host
        #[arg(value_name = "N|DIR", add = ArgValueCandidates::new(incidents))]
        incident: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Never remove an incident to make room for others
    Pin {
        /// The incident's number
        #[arg(value_name = "N", add = ArgValueCandidates::new(incidents))]
        number: u32,
        /// Let it be removed again
        #[arg(long)]
        undo: bool,
    },
    /// Remove an incident
    Rm {
        /// The incident's number
        #[arg(value_name = "N", add = ArgValueCandidates::new(incidents))]
        number: u32,
    },
}

/// `iowhy history`.
#[derive(Args, Debug)]
pub struct HistoryArgs {
    /// Where it is.
    #[command(flatten)]
    pub places: DaemonPlaces,
    /// How far back: 6h, 1d, 31d
    #[arg(long, value_name = "TIME", default_value = "1d")]
    pub last: TimeSpan,
    /// From then on, instead: yesterday, today, 09:35, "2026-11-24 09:35"
    #[arg(long, value_name = "TIME", conflicts_with = "last")]
    pub since: Option<String>,
    /// Until before then: the same forms
    #[arg(long, value_name = "TIME")]
    pub until: Option<String>,
    /// Who wrote: programs with what they asked for, what devices wrote for them, and why
    #[arg(long)]
    pub who: bool,
    /// The same by file; with a part of its name, only files that contain it
    #[arg(long, value_name = "PART", num_args = 0..=1, default_missing_value = "")]
    pub file: Option<String>,
    /// Write who wrote as a page in one file, which must not exist
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    pub html: Option<PathBuf>,
    /// Rows of each table
    #[arg(long, value_name = "N", default_value = "24", value_parser = rows())]
    pub rows: u32,
    /// Only this device
    #[arg(short, long = "device", value_name = "DEV", add = ArgValueCandidates::new(devices))]
    pub device: Option<String>,
    /// Print JSON: the minutes as lines, or who wrote as one object
    #[arg(long)]
    pub json: bool,
}

fn rows() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=10_000)
}

impl DaemonPlaces {
    /// The configuration with these places.
    ///
    /// # Errors
    /// When the configuration file cannot be used.
    pub fn config(&self) -> Result<RecorderConfig, iowhy_recorder::config::ConfigError> {
        let mut config = RecorderConfig::read(self.config.as_deref())?;
        if let Some(state) = &self.state {
            config.state.clone_from(state);
        }
        if let Some(runtime) = &self.runtime {
            config.runtime.clone_from(runtime);
        }
        Ok(config)
    }
}
