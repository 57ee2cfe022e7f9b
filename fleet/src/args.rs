//! The command line of `iowhy-fleet`.
//!
//! What does not belong here: what commands do.

pub use crate::push_args::{AccessArgs, PlaceArgs, PushArgs};
use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use iowhy_fleet::clock::{GivenSpan, GivenTime};
use iowhy_fleet::questions::top::TopOrder;
use iowhy_fleet::questions::writers::{WriterGroup, WriterOrder};
use std::net::IpAddr;
use std::path::PathBuf;

/// One question to many hosts: gathers what `iowhy daemon` keeps, and answers over all of it.
#[derive(Debug, Parser)]
#[command(name = "iowhy-fleet", version)]
pub struct FleetArgs {
    #[command(subcommand)]
    pub command: FleetCommand,
}

/// What a question is about, and where it is answered.
#[derive(Args, Clone, Debug)]
pub struct QueryArgs {
    #[command(flatten)]
    pub place: PlaceArgs,
    /// Only from this time on: 2026-11-24, "2026-11-24 09:40" (UTC), 6h (ago)
    #[arg(long, value_name = "TIME")]
    pub from: Option<GivenTime>,
    /// Only until this time
    #[arg(long, value_name = "TIME")]
    pub until: Option<GivenTime>,
    /// The scheduler of a cluster; without it, this process answers
    #[arg(long, value_name = "df://HOST:PORT")]
    pub cluster: Option<String>,
    /// Certificates to reach the cluster with: a directory with ca.crt, tls.crt and tls.key
    #[arg(long, value_name = "DIR", env = "IOWHY_FLEET_TLS")]
    pub tls: Option<PathBuf>,
    /// Memory of a query in this process, megabytes
    #[arg(long, value_name = "MB", default_value_t = 2000)]
    pub memory_mb: usize,
    /// How long a query may take
    #[arg(long, value_name = "TIME", default_value = "10m")]
    pub timeout: GivenSpan,
    /// JSON instead of text
    #[arg(long)]
    pub json: bool,
    /// Say at the end what was read
    #[arg(long)]
    pub stats: bool,
}

/// A command.
#[derive(Debug, Subcommand)]
pub enum FleetCommand {
    /// Send what the recorder of this host has and the store has not
    Push(PushArgs),
    /// Merge uploads into tables
    Compact {
        #[command(flatten)]
        place: PlaceArgs,
        /// How long files stay that were replaced: longer than any query takes
        #[arg(long, value_name = "TIME", default_value = "15m")]
        grace: GivenSpan,
    },
    /// Time series of other programs as tables of a fleet
    Import(ImportArgs),
    /// What waits to be merged, and what was refused
    Status(PlaceArgs),
    /// Run a query
    Sql {
        /// The query
        query: String,
        #[command(flatten)]
        about: QueryArgs,
    },
    /// Tables, columns and functions of queries
    Tables,
    /// The files that count, for other programs
    Files {
        /// The table
        table: String,
        #[command(flatten)]
        about: QueryArgs,
    },
    /// What is wrong where, and since when
    Findings(QueryArgs),
    /// Drives, hosts, racks, firmware and kernels that are slower than their siblings
    Outliers {
        #[command(flatten)]
        about: QueryArgs,
        /// Drives that are shown
        #[arg(long, default_value_t = 20)]
        limit: usize,
        #[command(flatten)]
        alert: AlertArgs,
    },
    /// Hosts that send nothing any more
    Silent {
        #[command(flatten)]
        about: QueryArgs,
        /// From how long behind the others on
        #[arg(long = "for", value_name = "TIME", default_value = "1h")]
        after: GivenSpan,
        /// Exit with code 10 if there is one
        #[arg(long)]
        exit_code: bool,
    },
    /// Two kernels, or the time before and after a rollout, at equal load
    Diff {
        #[command(flatten)]
        about: QueryArgs,
        /// Two kernels
        #[arg(long, num_args = 2, value_names = ["A", "B"], required_unless_present = "rollout")]
        kernel: Option<Vec<String>>,
        /// When the rollout began
        #[arg(long, value_name = "TIME", conflicts_with = "kernel")]
        rollout: Option<GivenTime>,
    },
    /// The slowest, the busiest
    Top {
        #[command(flatten)]
        about: QueryArgs,
        /// By what
        #[arg(long, value_enum, default_value = "latency")]
        by: TopOrder,
        /// Rows
        #[arg(long, default_value_t = 20)]
        limit: usize,
    },
    /// Who writes most, and what each byte asked for costs
    Writers {
        #[command(flatten)]
        about: QueryArgs,
        /// What rows are of
        #[arg(long, value_enum, default_value = "program")]
        by: WriterGroup,
        /// By what they are sorted
        #[arg(long, value_enum, default_value = "written")]
        order: WriterOrder,
        /// Rows
        #[arg(long, default_value_t = 20)]
        limit: usize,
    },
    /// One host around a time
    Host {
        /// Its name or identity
        name: String,
        /// When; the end of what there is without it
        #[arg(long = "time", value_name = "TIME")]
        time: Option<GivenTime>,
        #[command(flatten)]
        about: QueryArgs,
    },
    /// The page of the fleet
    Report {
        /// Where to write it
        #[arg(long, value_name = "FILE")]
        html: PathBuf,
        #[command(flatten)]
        about: QueryArgs,
    },
    /// Make a fleet with planted trouble to try all this
    Simulate(SimulateArgs),
    /// Run the scheduler of a cluster
    Scheduler(SchedulerArgs),
    /// Run an executor of a cluster
    Executor(ExecutorArgs),
    /// Print a script that completes commands and options in a shell
    Completions {
        /// The shell that reads the script
        #[arg(value_enum)]
        shell: Shell,
    },
    /// Write the manual pages
    Man {
        /// Directory for the pages; created if it does not exist
        #[arg(value_name = "DIR")]
        output: PathBuf,
    },
}

/// What programs that wake people need.
#[derive(Args, Clone, Debug)]
pub struct AlertArgs {
    /// Show only what was not named when this file was written, and write it anew
    #[arg(long, value_name = "FILE")]
    pub since_last: Option<PathBuf>,
    /// Exit with code 10 if anything is named
    #[arg(long)]
    pub exit_code: bool,
    /// Also write all that is named, and silent hosts, as OpenMetrics
    #[arg(long, value_name = "FILE")]
    pub openmetrics: Option<PathBuf>,
}

/// Which columns of which files are what.
#[derive(Args, Debug)]
pub struct ImportArgs {
    #[command(flatten)]
    pub place: PlaceArgs,
    /// Files (.csv, .csv.gz, .parquet), or directories with such files
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// What is what: NAME=COLUMN, NAME=@TEXT for all rows, NAME=/N for the N-th folder above a file
    #[arg(
        short = 'm',
        long = "map",
        value_name = "NAME=COLUMN",
        long_help = "What is what: NAME=COLUMN for a column, NAME=@TEXT for the same text in all \
                     rows, NAME=/N for the name of the N-th folder above a file. NAME is time, \
                     host, device, model, firmware, serial, rack, kernel, operation, requests, \
                     bytes, bytes_per_s, requests_per_s, latency_s, latency_ms, latency_us or \
                     latency_ns. Columns that have these names need not be mapped."
    )]
    pub map: Vec<String>,
    /// Time between two samples
    #[arg(long, value_name = "TIME", default_value = "15s")]
    pub every: GivenSpan,
    /// Bytes of a request where only throughput is known
    #[arg(long, value_name = "BYTES", default_value_t = 16_384)]
    pub request_bytes: u64,
}

/// A fleet to make.
#[derive(Args, Debug)]
pub struct SimulateArgs {
    #[command(flatten)]
    pub place: PlaceArgs,
    /// Hosts
    #[arg(long, default_value_t = 500)]
    pub hosts: usize,
    /// Its length, in full hours
    #[arg(long, value_name = "TIME", default_value = "24h")]
    pub length: GivenSpan,
    /// When it begins; by default it ends now
    #[arg(long, value_name = "TIME")]
    pub begin: Option<GivenTime>,
    /// Another number is another fleet
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Plant nothing
    #[arg(long)]
    pub healthy: bool,
    /// Write uploads as hosts send them, to be compacted
    #[arg(long)]
    pub uploads: bool,
}

/// What a node of a cluster reads, where it listens, and whom it believes.
#[derive(Args, Debug)]
pub struct NodeArgs {
    #[command(flatten)]
    pub access: AccessArgs,
    /// Its address; another one than of this machine alone needs --tls or --insecure
    #[arg(long, default_value = "127.0.0.1")]
    pub bind: IpAddr,
    /// Its certificates, as a directory with ca.crt, tls.crt and tls.key: encrypt all connections,
    /// and believe nobody without one
    #[arg(long, value_name = "DIR", env = "IOWHY_FLEET_TLS")]
    pub tls: Option<PathBuf>,
    /// Listen without certificates where others can connect: they can run any query
    #[arg(long, conflicts_with = "tls")]
    pub insecure: bool,
    /// The only store that it reads, whatever clients name
    #[arg(long, value_name = "PLACE", env = "IOWHY_FLEET_AT")]
    pub at: Option<String>,
}

/// A scheduler to run.
#[derive(Args, Debug)]
pub struct SchedulerArgs {
    #[command(flatten)]
    pub node: NodeArgs,
    /// Its port
    #[arg(long, default_value_t = 50050)]
    pub port: u16,
}

/// An executor to run, and what it may use.
#[derive(Args, Debug)]
pub struct ExecutorArgs {
    #[command(flatten)]
    pub node: NodeArgs,
    /// The port for data
    #[arg(long, default_value_t = 50051)]
    pub port: u16,
    /// The port for the scheduler
    #[arg(long, default_value_t = 50052)]
    pub control_port: u16,
    /// The scheduler
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:50050")]
    pub scheduler: String,
    /// Tasks at the same time
    #[arg(long, default_value_t = 2)]
    pub slots: usize,
    /// Memory of all tasks, megabytes
    #[arg(long, value_name = "MB", default_value_t = 2000)]
    pub memory_mb: u64,
    /// Where what passes between the stages of a query is kept
    #[arg(long, value_name = "DIR")]
    pub folder: Option<PathBuf>,
}
