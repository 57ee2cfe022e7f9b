//! The command line of what uploads, in `iowhy-fleet` and in `iowhy-fleet-push`.
//!
//! What does not belong here: other commands.

use clap::Args;
use iowhy_fleet::clock::GivenSpan;
use iowhy_fleet::push::RecordingChoice;
use std::path::PathBuf;

/// A place and how it is reached.
#[derive(Args, Clone, Debug)]
pub struct PlaceArgs {
    /// The fleet's store: a directory, s3://BUCKET/PREFIX, gs://… or az://…
    #[arg(long, value_name = "PLACE", env = "IOWHY_FLEET_AT")]
    pub at: String,
    #[command(flatten)]
    pub access: AccessArgs,
}

/// How stores are reached.
#[derive(Args, Clone, Debug)]
pub struct AccessArgs {
    /// A file with lines such as AWS_ACCESS_KEY_ID=…, mode 600; the environment otherwise
    #[arg(long, value_name = "FILE", env = "IOWHY_FLEET_CREDENTIALS")]
    pub credentials: Option<PathBuf>,
    /// Allow connections to the store that are not encrypted
    #[arg(long)]
    pub allow_http: bool,
}

/// What is sent.
#[derive(Args, Debug)]
pub struct PushArgs {
    #[command(flatten)]
    pub place: PlaceArgs,
    /// The recorder's state directory
    #[arg(long, value_name = "DIR", default_value = "/var/lib/iowhy")]
    pub spool: PathBuf,
    /// Where this remembers what was sent
    #[arg(
        long,
        value_name = "DIR",
        env = "STATE_DIRECTORY",
        default_value = "/var/lib/iowhy-fleet"
    )]
    pub state: PathBuf,
    /// Another name than the host's
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// What the host shares power, network or a shelf with
    #[arg(long, value_name = "NAME", default_value = "", env = "IOWHY_FLEET_RACK")]
    pub rack: String,
    /// Incidents that are sent with their recordings
    #[arg(long, value_enum, default_value = "none")]
    pub recordings: RecordingChoice,
    /// Replace names of hosts, racks, serial numbers, containers, processes and files; send no
    /// recordings
    #[arg(long)]
    pub redact: bool,
    /// A secret that hosts share, mode 600, so that one name has one placeholder
    #[arg(long, value_name = "FILE", requires = "redact")]
    pub redact_key: Option<PathBuf>,
    /// At most so many kilobytes a second
    #[arg(long, value_name = "KB")]
    pub bandwidth: Option<u64>,
    /// How long it tries again when the store fails
    #[arg(long, value_name = "TIME", default_value = "5m")]
    pub patience: GivenSpan,
    /// Push again after about this time, until it is ended: where no timer starts it
    #[arg(long, value_name = "TIME")]
    pub every: Option<GivenSpan>,
    /// The root of /etc, /proc and /sys
    #[arg(long, value_name = "DIR", default_value = "/", hide = true)]
    pub root: PathBuf,
}
