//! The command line. Each flag is defined here once: parser, help, completions and manual pages
//! follow from it.
//!
//! What does not belong here: running commands.

mod amounts;
pub mod blame;
pub mod candidates;
pub mod chains;
pub mod completions;
pub mod daemon;
pub mod diff;
pub mod events;
#[cfg(test)]
mod evidence;
pub mod explain;
pub mod export;
mod help;
pub mod import;
pub mod interval;
pub mod locate;
pub mod opens;
pub mod probe;
pub mod reproduce;
pub mod schema;
mod show;
pub mod snoop;
pub mod stages;
pub mod top;

use crate::foreign;
use crate::redaction;
use amounts::{megabytes, milliseconds, seconds};
use candidates::{devices, processes};
use clap::builder::{OsStringValueParser, PossibleValuesParser, TypedValueParser};
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::ArgValueCandidates;
use iowhy_blktrace::trace::text_events::LineLayout;
use iowhy_capture::budget::{DEFAULT_PERCENT, PERCENT_RANGE};
use iowhy_capture::live::WatchOptions;
use iowhy_capture::plan::RingSize;
use iowhy_capture::sampler::Sampling;
use iowhy_model::{Filter, Operation, WorkloadFilter};
pub use show::{Json, Keep, OutputForm, Show, WantedColour};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The exit codes, as `--help` and the manual pages list them.
pub const EXIT_CODES: &str =
    "0 success, 1 failure, 2 usage error, 69 this kernel cannot be watched, 77 missing privileges.";

/// Why is my disk slow? Watches this machine for ten seconds and names who is slow, what it waits
/// for, because of whom, and the fix.
#[derive(Parser, Debug)]
#[command(name = "iowhy", version, args_conflicts_with_subcommands = true)]
pub struct Cli {
    /// The subcommand; without one, watch this machine and show a summary.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Show a screen each INTERVAL, COUNT times or until Ctrl-C, as iostat does: 5, 500ms
    #[arg(value_name = "INTERVAL [COUNT]", allow_negative_numbers = true)]
    pub words: Vec<std::ffi::OsString>,
    /// How to watch.
    #[command(flatten)]
    pub watch: WatchArgs,
    /// Whether to keep it.
    #[command(flatten)]
    pub keep: Keep,
    /// How to show it.
    #[command(flatten)]
    pub show: Show,
    /// Replace names of files, processes, hosts, users, containers and units by placeholders
    #[arg(long, global = true)]
    pub redact: bool,
    /// Read SOURCE as this kind; without it, its content tells
    #[arg(
        long = "as",
        global = true,
        value_name = "KIND",
        value_parser = PossibleValuesParser::new(foreign::words()),
    )]
    pub source_kind: Option<String>,
    /// Read lines that `blkparse -f FORMAT` printed
    #[arg(long, global = true, value_name = "FORMAT", value_parser = LineLayout::parse)]
    #[arg(hide_short_help = true)]
    pub blkparse_format: Option<LineLayout>,
    /// Whether to colour the output: always, for `less -R`; never; or on a terminal that can
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value = "auto")]
    #[arg(hide_default_value = true)]
    pub color: WantedColour,
    /// Also show rows about iowhy itself, which views leave out
    #[arg(long, global = true)]
    pub own: bool,
}

impl Cli {
    /// The definition of the command line, with its commands grouped by question.
    pub fn definition() -> clap::Command {
        help::grouped(Cli::command())
    }

    /// Parses the command line of this process; ends it with a message where that is not possible.
    pub fn of_process() -> Cli {
        let matches = help::without_list(Cli::definition()).get_matches();
        Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
    }
}

/// The subcommands.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Record block I/O into a directory of Parquet tables (replaces blktrace)
    Record(RecordArgs),
    /// Show the summary screen of a recording or a capture
    Report(ReportArgs),
    /// Print block events, live or from a source (replaces blkparse)
    Events(events::Events),
    /// Show request latency by stage, live or from a source (replaces btt)
    Stages(Box<stages::StagesArgs>),
    /// Show threads that waited for another thread's storage wait (replaces jstack, pstack)
    Chains(chains::ChainsArgs),
    /// Convert a capture by blktrace, blkparse, ftrace or perf to a recording
    Import(import::ImportArgs),
    /// Convert a source for blktrace's tools, fio, Perfetto, flame graphs or a spreadsheet
    Export(export::Export),
    /// Find the file that a block of a device belongs to, or the blocks of a file
    Locate(locate::Locate),
    /// Show file activity by process, per interval (replaces filetop, filelife)
    Files(interval::FilesArgs),
    /// Print each open (replaces opensnoop); with --held, list open files (replaces lsof)
    Opens(opens::Opens),
    /// Show devices, processes, files and waits live, with findings (replaces iotop, atop)
    Top(top::TopArgs),
    /// Show device statistics per interval (replaces iostat -x)
    Stat(interval::StatArgs),
    /// Show request latency as histograms (replaces biolatency, iolatency)
    Latency(interval::LatencyArgs),
    /// Explain how a cause makes a disk slow, and its evidence in a source
    Explain(explain::Explain),
    /// Compare two watches, or two devices of one (replaces iostat or btt by eye)
    Diff(diff::Diff),
    /// Show whose requests delayed whom, by process, file and origin (unlike any other tool)
    Blame(blame::BlameArgs),
    /// Show device I/O by process (replaces pidstat -d, iotop)
    Proc(interval::Proc),
    /// Print a line for each request (replaces biosnoop, iosnoop)
    Snoop(snoop::Snoop),
    /// Show which functions submitted requests (replaces perf report, biostacks)
    Stacks(interval::StacksArgs),
    /// Show where threads waited for storage (replaces offcputime)
    Waits(interval::WaitsArgs),
    /// Show the page cache, dirty pages and readahead (replaces cachestat, free, vmstat)
    Cache(interval::Cache),
    /// Benchmark a device or a file with fio for a few seconds, read-only (replaces dd)
    Probe(probe::ProbeArgs),
    /// Write a small load that has the cause of a source, with fio jobs to run anywhere
    Reproduce(reproduce::ReproduceArgs),
    /// Run a reproduction; its script `run` does
    #[command(hide = true)]
    Rerun(reproduce::RerunArgs),
    /// Play the exact sequence of a reproduction; a run does
    #[command(hide = true)]
    Replay(reproduce::ReplayArgs),
    /// Test a fix on a reproduction: rounds without and with it, and the difference
    Verify(reproduce::VerifyArgs),
    /// Record all the time, and keep the minutes around each incident (runs as a service)
    Daemon(daemon::DaemonArgs),
    /// Ask the daemon to keep the last minutes as an incident
    Capture(daemon::CaptureArgs),
    /// List, show, pin or remove the incidents that the daemon kept
    Incidents(daemon::IncidentsArgs),
    /// Show devices, waits and findings of the last days, as the daemon counted them
    History(daemon::HistoryArgs),
    /// Show what iowhy can collect on this machine, and what each missing feature costs
    Check(Check),
    /// Print a completion script for a shell
    Completions(completions::CompletionsArgs),
    /// Write the manual pages
    #[command(hide = true)]
    Man(completions::ManArgs),
    /// Print the JSON Schema of what `--json` prints, or of `--json=brief`
    Schema(schema::SchemaArgs),
}

/// What `iowhy check` shows.
#[derive(Args, Debug, Clone)]
pub struct Check {
    /// Print JSON, including the state of each BPF program
    #[arg(long)]
    pub json: bool,
}

const SOURCE: &str = "A recording's directory; or blktrace's files, their common prefix, a dump of \
    `blkparse -d`, or text from blkparse, ftrace or perf script; or what iostat, sar, vmstat, \
    pidstat, biosnoop, fio, smartctl, nvme or dmesg print, or a sosreport; `-` reads standard \
    input";

/// The source to read.
#[derive(Args, Debug, Clone)]
pub struct SourceArgs {
    /// The source to read
    #[arg(value_name = "SOURCE", required = true, help = SOURCE)]
    pub paths: Vec<PathBuf>,
}

/// The source to read, or how long to watch.
#[derive(Args, Debug, Clone)]
pub struct SourceOrWatch {
    /// The source to read; empty to watch this machine
    #[arg(value_name = "SOURCE", help = format!("{SOURCE}; without one, watch this machine"))]
    pub paths: Vec<PathBuf>,
    /// How long to watch when there is no SOURCE: 30, 30s, 5m
    #[arg(
        short,
        long,
        value_name = "TIME",
        default_value = "10s",
        value_parser = seconds,
        conflicts_with = "paths",
    )]
    pub time: Duration,
}

/// How long and what to watch.
#[derive(Args, Debug, Clone)]
pub struct WatchArgs {
    /// How long to watch: 30, 30s, 5m
    #[arg(short, long, value_name = "TIME", default_value = "10s", value_parser = seconds)]
    pub time: Duration,
    /// What to collect in addition to requests.
    #[command(flatten)]
    pub collect: CollectArgs,
    /// Which requests to keep.
    #[command(flatten)]
    pub only: Only,
}

/// What a watch collects in addition to requests.
#[derive(Args, Debug, Clone)]
pub struct CollectArgs {
    /// Also record command-line arguments of processes (they can contain secrets)
    #[arg(long)]
    pub args: bool,
    /// Maximum number of stacks per second and CPU; 0 disables stacks
    #[arg(long, value_name = "N", default_value = "500")]
    pub stacks: u32,
    /// Don't collect thread waits
    #[arg(long)]
    pub no_waits: bool,
    /// Don't collect waits for threads that wait for storage; implied by `--no-waits`
    #[arg(long)]
    pub no_chains: bool,
    /// Don't collect file activity
    #[arg(long)]
    pub no_files: bool,
    /// What the watch may cost, in percent of the machine's CPUs: above it, file calls, waits and
    /// requests are sampled, counts stay exact
    #[arg(long, value_name = "PERCENT", default_value_t = DEFAULT_PERCENT, value_parser = budget)]
    pub budget: f64,
    /// Record everything, whatever it costs
    #[arg(long, conflicts_with = "budget")]
    pub every: bool,
    /// Don't sample system counters (once per second)
    #[arg(long)]
    pub no_samples: bool,
    /// Also count page cache insertions and evictions; costs about 0.1 µs per page
    #[arg(long, conflicts_with = "no_samples")]
    pub page_cache: bool,
}

impl Default for CollectArgs {
    fn default() -> CollectArgs {
        CollectArgs {
            args: false,
            stacks: 500,
            no_waits: false,
            no_chains: false,
            no_files: false,
            budget: DEFAULT_PERCENT,
            every: false,
            no_samples: false,
            page_cache: false,
        }
    }
}

impl CollectArgs {
    /// Returns the options of a watch of the devices of `only`.
    pub fn options(&self, only: &Only) -> WatchOptions {
        WatchOptions {
            devices: only.devices.clone(),
            arguments: self.args,
            stacks_per_second: self.stacks,
            waits: !self.no_waits,
            chains: !self.no_chains,
            files: !self.no_files,
            budget: (!self.every).then_some(self.budget),
            ring: if self.every { RingSize::Large } else { RingSize::Middle },
            sampling: (!self.no_samples)
                .then(|| Sampling { page_cache: self.page_cache, ..Sampling::default() }),
            ..WatchOptions::default()
        }
    }
}

/// Which requests to keep.
#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Filters")]
pub struct Only {
    /// Only this device (repeat for more): sda, /dev/nvme0n1
    #[arg(short, long = "device", value_name = "DEV", add = ArgValueCandidates::new(devices))]
    pub devices: Vec<String>,
    /// Only this process, by PID or name, as submitter or owner of the data
    #[arg(
        short,
        long = "process",
        value_name = "PID|NAME",
        add = ArgValueCandidates::new(processes),
    )]
    pub processes: Vec<String>,
    /// Only this cgroup and its descendants
    #[arg(short, long = "cgroup", value_name = "PATH")]
    pub cgroups: Vec<String>,
    /// Only this Kubernetes pod
    #[arg(long = "pod", value_name = "[NAMESPACE/]NAME")]
    pub pods: Vec<String>,
    /// Only pods of this Kubernetes namespace
    #[arg(long = "namespace", value_name = "NAME")]
    pub namespaces: Vec<String>,
    /// Only this systemd unit or slice and what it contains
    #[arg(long = "unit", value_name = "NAME")]
    pub units: Vec<String>,
    /// Only files whose path starts with PREFIX
    #[arg(short, long = "file", value_name = "PREFIX")]
    pub files: Vec<String>,
    /// Only files on this Kubernetes, Docker or Podman volume
    #[arg(long = "volume", value_name = "NAME")]
    pub volumes: Vec<String>,
    /// Only this operation: read, write, flush, discard …
    #[arg(long = "operation", value_name = "OP", value_parser = operation)]
    pub operations: Vec<Operation>,
    /// Only requests with all of these rwbs flags: M for metadata, S for sync …
    #[arg(
        long,
        value_name = "LETTERS",
        default_value = "",
        hide_default_value = true,
        value_parser = rwbs_letters,
    )]
    pub flags: String,
    /// Only requests known to have taken at least this long from queueing to completion, or to the
    /// end of the watch: 20ms, 1.5s; a number alone is in milliseconds
    #[arg(
        long = "above",
        value_name = "TIME",
        default_value = "0",
        hide_default_value = true,
        value_parser = milliseconds,
    )]
    pub latency: Duration,
}

impl Only {
    /// Returns the filter without its devices: the parts that a single event cannot be matched
    /// against.
    pub fn without_devices(&self) -> Only {
        Only { devices: Vec::new(), ..self.clone() }
    }

    /// Whether the filter keeps everything.
    pub fn is_everything(&self) -> bool {
        self.filter().is_empty()
    }

    /// Returns the filter, with devices by kernel name; with --redact for rows without names.
    pub fn filter(&self) -> Filter {
        let name = |device: &String| device.strip_prefix("/dev/").unwrap_or(device).to_owned();
        redaction::filter(Filter {
            devices: self.devices.iter().map(name).collect(),
            processes: self.processes.clone(),
            cgroups: self.cgroups.clone(),
            workloads: WorkloadFilter {
                pods: self.pods.clone(),
                namespaces: self.namespaces.clone(),
                units: self.units.clone(),
            },
            files: self.files.clone(),
            volumes: self.volumes.clone(),
            operations: self.operations.clone(),
            flags: self.flags.clone(),
            latency_ns: self.latency.as_nanos() as u64,
        })
    }
}

/// `iowhy record`.
#[derive(Args, Debug)]
pub struct RecordArgs {
    /// How long to record: 30, 30s, 5m; without it, until Ctrl-C or the end of COMMAND
    #[arg(short, long, value_name = "TIME", value_parser = seconds)]
    pub time: Option<Duration>,
    /// Directory to create for the recording [default: iowhy-recording]
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Also record every block event, as blktrace does
    #[arg(long)]
    pub events: bool,
    /// Maximum size per minute of recording: 100M, 1G; a number alone is in MB. Above it, requests
    /// and waits are dropped and counted as lost [default: no limit; 100,000 IOPS take about 120 MB
    /// per minute]
    #[arg(long, value_name = "SIZE", conflicts_with = "events", value_parser = megabytes)]
    pub most_mb: Option<u64>,
    /// What to collect in addition to requests.
    #[command(flatten)]
    pub collect: CollectArgs,
    /// Which requests to keep.
    #[command(flatten)]
    pub only: Only,
    /// Record while this command runs
    #[arg(last = true, value_name = "COMMAND", help_heading = "Arguments")]
    pub command: Vec<std::ffi::OsString>,
}

/// `iowhy report`.
#[derive(Args, Debug)]
pub struct ReportArgs {
    /// The source to read; empty for the last watch
    #[arg(value_name = "SOURCE", help = format!("{SOURCE}; without one, the last watch"))]
    pub paths: Vec<PathBuf>,
    /// The old spelling of --json and --json=brief.
    #[arg(short = 'o', long = "output", value_name = "FORM", value_enum)]
    #[arg(hide = true, conflicts_with_all = ["json", "html"])]
    pub form: Option<OutputForm>,
    /// Instead of SOURCE: the incident that the daemon kept of this local time, like 09:35 or
    /// "2026-11-24 09:35"
    #[arg(long, value_name = "TIME", conflicts_with = "paths")]
    pub at: Option<String>,
    /// Where the daemon kept it.
    #[command(flatten)]
    pub places: daemon::DaemonPlaces,
    /// How to show it.
    #[command(flatten)]
    pub show: Show,
    /// Which requests to keep.
    #[command(flatten)]
    pub only: Only,
}

fn budget(text: &str) -> Result<f64, String> {
    let percent: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if PERCENT_RANGE.contains(&percent) {
        return Ok(percent);
    }
    let (least, most) = (PERCENT_RANGE.start(), PERCENT_RANGE.end());
    Err(format!("not between {least} and {most} percent of the CPUs"))
}

/// Parses a file, or a device by path or by kernel name if no file has that name.
fn device_or_file() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().map(|text| {
        let path = PathBuf::from(text);
        let device = Path::new("/dev").join(&path);
        if !path.exists() && device.exists() { device } else { path }
    })
}

/// Parses letters of rwbs; a letter that no kernel writes would select nothing.
fn rwbs_letters(text: &str) -> Result<String, String> {
    match text.chars().find(|letter| !RWBS.contains(*letter)) {
        Some(letter) => {
            Err(format!("{letter:?} is no flag of rwbs: the flags are {RWBS_MEANINGS}"))
        }
        None => Ok(text.to_owned()),
    }
}

/// The letters that `blk_fill_rwbs` of the kernel writes.
const RWBS: &str = "RWDEFNASMUZOC";
const RWBS_MEANINGS: &str = "R read, W write, D discard, DE secure erase, F flush or FUA, N none, \
    A readahead, S sync, M metadata, U atomic; Z, O, C of zones";

fn operation(text: &str) -> Result<Operation, String> {
    Operation::from_word(text).ok_or_else(|| {
        let words: Vec<&str> = Operation::ALL.iter().map(|operation| operation.word()).collect();
        format!("one of {}", words.join(", "))
    })
}

impl std::fmt::Display for Only {
    /// Writes the flags as on a command line.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.filter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_has_a_name_and_a_path() {
        let target = |text: &str| match Cli::try_parse_from(["iowhy", "probe", text]) {
            Ok(Cli { command: Some(Command::Probe(probe)), .. }) => probe.target,
            other => panic!("{other:?}"),
        };
        assert_eq!(target("null"), Path::new("/dev/null"));
        assert_eq!(target("src"), Path::new("src"));
        assert_eq!(target("nosuch"), Path::new("nosuch"));
    }
}
