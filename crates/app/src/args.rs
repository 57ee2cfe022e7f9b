//! The command line. Each flag is defined here once: parser, help and completions follow from it.
//!
//! What does not belong here: doing anything.

pub mod blame;
pub mod chains;
pub mod diff;
pub mod events;
#[cfg(test)]
mod evidence;
pub mod explain;
pub mod export;
pub mod import;
pub mod interval;
pub mod locate;
pub mod opens;
pub mod plot;
pub mod probe;
pub mod snoop;
pub mod stages;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
use iowhy_capture::live::Options;
use iowhy_capture::sampler::Sampling;
use iowhy_core::model::{Filter, Operation};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Why is my disk slow? Watches this machine for ten seconds and shows where the I/O time went, by
/// device, process, file and code path.
#[derive(Parser, Debug)]
#[command(name = "iowhy", version, args_conflicts_with_subcommands = true)]
#[command(after_help = "Exit codes: 0 done, 1 failed, 2 wrong usage, 69 nobody can watch on this \
    kernel, 77 missing privilege.")]
pub struct Cli {
    /// What to do; without one, watch and show.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// How to watch.
    #[command(flatten)]
    pub watch: Watch,
    /// How to show it.
    #[command(flatten)]
    pub show: Show,
}

/// What to do.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Record block I/O into a directory of Parquet tables (replaces blktrace)
    Record(Record),
    /// Show a recording or a capture as the first screen does
    Report(Report),
    /// Print single block events, from now or from a source (replaces blkparse)
    Events(events::Events),
    /// Show where requests spent their time, from now or from a source (replaces btt)
    Stages(stages::Stages),
    /// Show which threads waited for a thread that waited for storage (replaces jstack, pstack)
    Chains(chains::Chains),
    /// Turn a capture by blktrace, blkparse, ftrace or perf into a recording
    Import(import::Import),
    /// Write a source for blktrace's tools, fio, Perfetto, flame graphs or a spreadsheet
    Export(export::Export),
    /// Draw a source: latency, offsets, requests and bytes over time
    Plot(plot::Plot),
    /// Say which file a block of a device belongs to, or where a file is on its device
    Locate(locate::Locate),
    /// Show what programs do with files, interval by interval (replaces filetop, filelife)
    Files(interval::Files),
    /// Print a line for each open (replaces opensnoop); with --held, who holds what (replaces lsof)
    Opens(opens::Opens),
    /// Show devices interval by interval (replaces iostat -x)
    Stat(interval::Stat),
    /// Show how long requests took, as histograms (replaces biolatency, iolatency)
    Latency(interval::Latency),
    /// Tell how a cause makes a disk slow, and what was seen of it in a source
    Explain(explain::Explain),
    /// Compare two watches, or two devices of one (replaces comparing outputs of iostat or btt by eye)
    Diff(diff::Diff),
    /// Show who made whom wait, by process, file and origin (no other tool does)
    Blame(blame::Blame),
    /// Show what each process had devices do (replaces pidstat -d, iotop)
    Proc(interval::Proc),
    /// Print a line for each request (replaces biosnoop, iosnoop)
    Snoop(snoop::Snoop),
    /// Show which functions asked for requests (replaces perf report, biostacks)
    Stacks(interval::Stacks),
    /// Show where threads were blocked for storage (replaces offcputime)
    Waits(interval::Waits),
    /// Show the page cache, dirty pages and readahead (replaces cachestat, free, vmstat)
    Cache(interval::Cache),
    /// Test a device or a file for a few seconds with fio, reading only (replaces dd)
    Probe(probe::Probe),
    /// Show what this machine lets iowhy see, and what is lost for each thing missing
    Check(Check),
}

/// What `iowhy check` shows.
#[derive(Args, Debug, Clone)]
pub struct Check {
    /// Print JSON, with what became of each BPF program
    #[arg(long)]
    pub json: bool,
}

const SOURCE: &str = "A recording's directory; or blktrace's files, their common prefix, a dump of \
    `blkparse -d`, the text of blkparse, ftrace or perf script; `-` reads standard input";

/// What to read.
#[derive(Args, Debug, Clone)]
pub struct Source {
    /// What to read
    #[arg(value_name = "SOURCE", required = true, help = SOURCE)]
    pub paths: Vec<PathBuf>,
}

/// What to read, or how long to watch.
#[derive(Args, Debug, Clone)]
pub struct SourceOrWatch {
    /// What to read; nothing to watch this machine
    #[arg(value_name = "SOURCE", help = format!("{SOURCE}; without one, watch this machine"))]
    pub paths: Vec<PathBuf>,
    /// Seconds to watch, without a SOURCE
    #[arg(short, long, value_name = "SECONDS", default_value = "10", value_parser = seconds, conflicts_with = "paths")]
    pub time: Duration,
}

/// How long and what to watch.
#[derive(Args, Debug, Clone)]
pub struct Watch {
    /// Seconds to watch
    #[arg(short, long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    pub time: Duration,
    /// What is seen beside requests.
    #[command(flatten)]
    pub beside: Beside,
    /// What to keep.
    #[command(flatten)]
    pub only: Only,
}

/// What a watch sees beside requests.
#[derive(Args, Debug, Clone)]
pub struct Beside {
    /// Also keep the arguments of processes (they can hold secrets)
    #[arg(long)]
    pub args: bool,
    /// Stacks taken a second on each CPU at most; 0 takes none
    #[arg(long, value_name = "N", default_value = "500")]
    pub stacks: u32,
    /// Leave out where threads waited
    #[arg(long)]
    pub no_waits: bool,
    /// Leave out who waited for a thread that waited for storage; `--no-waits` does so, too
    #[arg(long)]
    pub no_chains: bool,
    /// Leave out what programs do with files
    #[arg(long)]
    pub no_files: bool,
    /// System calls a second on each CPU above which files are no longer followed through them;
    /// above a fifth of it calls are not timed
    #[arg(long, value_name = "N", default_value_t = Options::MOST_CALLS)]
    pub most_calls: u64,
    /// Leave out the counters of the machine, read once a second
    #[arg(long)]
    pub no_samples: bool,
    /// Also count what comes into the page cache and leaves it, about 0.1 µs for each page
    #[arg(long, conflicts_with = "no_samples")]
    pub page_cache: bool,
}

impl Beside {
    /// What a watch of the devices of `only` is asked for.
    pub fn options(&self, only: &Only) -> Options {
        Options {
            devices: only.devices.clone(),
            arguments: self.args,
            stacks_per_second: self.stacks,
            waits: !self.no_waits,
            chains: !self.no_chains,
            files: !self.no_files,
            most_calls: self.most_calls,
            sampling: (!self.no_samples)
                .then(|| Sampling { page_cache: self.page_cache, ..Sampling::default() }),
            ..Options::default()
        }
    }
}

/// Which requests to keep.
#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Only")]
pub struct Only {
    /// Only this device (repeat for more): sda, /dev/nvme0n1
    #[arg(short, long = "device", value_name = "DEV")]
    pub devices: Vec<String>,
    /// Only this process, by number or name, as submitter or owner of the data
    #[arg(short, long = "process", value_name = "PID|NAME")]
    pub processes: Vec<String>,
    /// Only this cgroup and those below it
    #[arg(short, long = "cgroup", value_name = "PATH")]
    pub cgroups: Vec<String>,
    /// Only files whose path begins like this
    #[arg(short, long = "file", value_name = "PREFIX")]
    pub files: Vec<String>,
    /// Only this operation: read, write, flush, discard …
    #[arg(long = "operation", value_name = "OP", value_parser = operation)]
    pub operations: Vec<Operation>,
    /// Only requests whose rwbs text holds all of these letters: M for metadata, S for sync …
    #[arg(long, value_name = "LETTERS", default_value = "", hide_default_value = true)]
    pub flags: String,
    /// Only requests that are known to have taken at least this long from queueing to completion, or to
    /// the end of the watch
    #[arg(long = "above", value_name = "MILLISECONDS", default_value = "0", hide_default_value = true, value_parser = milliseconds)]
    pub latency: Duration,
}

impl Only {
    /// All but the devices: what a single event does not tell.
    pub fn beside_devices(&self) -> Only {
        Only { devices: Vec::new(), ..self.clone() }
    }

    /// Whether it keeps everything.
    pub fn is_everything(&self) -> bool {
        self.filter().is_empty()
    }

    /// The filter; devices by kernel name.
    pub fn filter(&self) -> Filter {
        let name = |device: &String| device.strip_prefix("/dev/").unwrap_or(device).to_owned();
        Filter {
            devices: self.devices.iter().map(name).collect(),
            processes: self.processes.clone(),
            cgroups: self.cgroups.clone(),
            files: self.files.clone(),
            operations: self.operations.clone(),
            flags: self.flags.clone(),
            latency_ns: self.latency.as_nanos() as u64,
        }
    }
}

/// How to show a summary.
#[derive(Args, Debug, Clone, Default)]
pub struct Show {
    /// Show every section, not only the first page
    #[arg(long, short = 'v')]
    pub full: bool,
    /// Print JSON, with units, for programs: everything, or what matters in at most 8 kB
    #[arg(
        long,
        value_name = "HOW",
        value_enum,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "full"
    )]
    pub json: Option<Json>,
}

/// How much of a watch is printed as JSON.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Json {
    /// Everything
    Full,
    /// Findings, waits, devices and the top of each list in at most 8 kB
    Brief,
}

/// `iowhy record`.
#[derive(Args, Debug)]
pub struct Record {
    /// Seconds to record; without it, until Ctrl-C or the end of COMMAND
    #[arg(short, long, value_name = "SECONDS", value_parser = seconds)]
    pub time: Option<Duration>,
    /// Directory to make for the recording [default: iowhy-recording]
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Also record every single block event, as blktrace does
    #[arg(long)]
    pub events: bool,
    /// MB that the recording may take in a minute: of what is more, requests and waits are left out and
    /// counted as lost [default: no limit; 100,000 I/Os a second take about 120 MB]
    #[arg(long, value_name = "MB", conflicts_with = "events", value_parser = clap::value_parser!(u64).range(1..))]
    pub most_mb: Option<u64>,
    /// What is seen beside requests.
    #[command(flatten)]
    pub beside: Beside,
    /// What to keep.
    #[command(flatten)]
    pub only: Only,
    /// Record while this command runs
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<std::ffi::OsString>,
}

/// `iowhy report`.
#[derive(Args, Debug)]
pub struct Report {
    /// What to read.
    #[command(flatten)]
    pub source: Source,
    /// How to show it.
    #[command(flatten)]
    pub show: Show,
    /// What to keep.
    #[command(flatten)]
    pub only: Only,
}

fn seconds(text: &str) -> Result<Duration, String> {
    match positive(text, 1.0)? {
        time if time < Duration::from_millis(1) => Err("shorter than a millisecond".to_owned()),
        time => Ok(time),
    }
}

fn milliseconds(text: &str) -> Result<Duration, String> {
    positive(text, 0.001)
}

/// A year is more than anybody watches, and less than what a clock can hold.
fn positive(text: &str, unit: f64) -> Result<Duration, String> {
    const YEAR: f64 = 366.0 * 86_400.0;
    let number: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    let value = number * unit;
    if (0.0..=YEAR).contains(&value) {
        Ok(Duration::from_secs_f64(value))
    } else {
        Err("not between 0 and a year".to_owned())
    }
}

/// A file; or a device, by its path or by its kernel's name where no file is called so.
fn device_or_file() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().map(|text| {
        let path = PathBuf::from(text);
        let device = Path::new("/dev").join(&path);
        if !path.exists() && device.exists() { device } else { path }
    })
}

fn operation(text: &str) -> Result<Operation, String> {
    Operation::from_word(text).ok_or_else(|| {
        let words: Vec<&str> = Operation::ALL.iter().map(|operation| operation.word()).collect();
        format!("one of {}", words.join(", "))
    })
}

impl std::fmt::Display for Only {
    /// The flags as the user could have written them.
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
